//! What the launch path, the facade and the controllers of the AWS provider share.

use std::sync::Arc;

use kerf_operator::{Publish, Registry, SharedCluster};
use kerf_runtime::Clock;
use kube::Client;

use crate::instance_types::{InstanceTypeCatalogue, InstanceTypeSettings};
use crate::launch_templates::LaunchTemplateStore;
use crate::ports::AwsPorts;
use crate::pricing::Pricing;
use crate::provider::AwsParts;
use crate::settings::AwsSettings;
use crate::unavailable_offerings::UnavailableOfferings;

/// What the launch path, the facade and the controllers of the AWS provider share.
pub(crate) struct AwsContext {
    pub(crate) ports: AwsPorts,
    pub(crate) settings: AwsSettings,
    pub(crate) client: Client,
    pub(crate) cluster: SharedCluster,
    pub(crate) clock: Clock,
    pub(crate) events: Arc<dyn Publish>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) pricing: Arc<Pricing>,
    pub(crate) unavailable: Arc<UnavailableOfferings>,
    pub(crate) instance_types: Arc<InstanceTypeCatalogue>,
    pub(crate) launch_templates: Arc<LaunchTemplateStore>,
}

impl AwsContext {
    pub(crate) fn new(parts: AwsParts) -> Self {
        let AwsParts { ports, settings, client, cluster, clock, events, registry } = parts;
        let pricing = Arc::new(Pricing::new(&ports.region));
        let unavailable = Arc::new(UnavailableOfferings::new(clock));
        let type_settings = InstanceTypeSettings::new(&ports.region, &settings);
        let instance_types =
            Arc::new(InstanceTypeCatalogue::new(type_settings, pricing.clone(), unavailable.clone(), clock));
        let launch_templates =
            Arc::new(LaunchTemplateStore::new(ports.ec2.clone(), &settings.cluster_name, clock, settings.seed));
        Self {
            ports,
            settings,
            client,
            cluster,
            clock,
            events,
            registry,
            pricing,
            unavailable,
            instance_types,
            launch_templates,
        }
    }
}
