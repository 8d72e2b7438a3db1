//! The state that the launch path, the facade and the controllers of the AWS provider share.

use std::sync::Arc;

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::hash::ec2nodeclass_hash;
use kerf_api::labels::LabelRules;
use kerf_api::quantity::QuantityError;
use kerf_operator::{Publish, SharedCluster};
use kerf_runtime::Clock;
use kube::Client;

use crate::batcher::{BatcherMetrics, FleetBatcher};
use crate::cluster_facts::ClusterDiscovery;
use crate::discovery::amis::Amis;
use crate::discovery::security_groups::SecurityGroups;
use crate::discovery::subnets::Subnets;
use crate::instance_profiles::InstanceProfiles;
use crate::instance_types::{InstanceTypeCatalogue, InstanceTypeSettings};
use crate::instances::Instances;
use crate::launch_metrics::LaunchMetrics;
use crate::launch_templates::LaunchTemplateStore;
use crate::node_classes::NodeClasses;
use crate::parts::AwsParts;
use crate::ports::AwsPorts;
use crate::pricing::Pricing;
use crate::settings::AwsSettings;
use crate::unavailable_offerings::UnavailableOfferings;

/// The state that the launch path, the facade and the controllers of the AWS provider share.
pub(crate) struct AwsContext {
    pub(crate) ports: AwsPorts,
    pub(crate) settings: AwsSettings,
    pub(crate) label_rules: LabelRules,
    pub(crate) client: Client,
    pub(crate) cluster: SharedCluster,
    pub(crate) clock: Clock,
    pub(crate) events: Arc<dyn Publish>,
    pub(crate) discovery: Arc<ClusterDiscovery>,
    pub(crate) subnets: Arc<Subnets>,
    pub(crate) security_groups: Arc<SecurityGroups>,
    pub(crate) amis: Arc<Amis>,
    pub(crate) instance_profiles: Arc<InstanceProfiles>,
    pub(crate) unavailable: Arc<UnavailableOfferings>,
    pub(crate) instance_types: Arc<InstanceTypeCatalogue>,
    pub(crate) launch_templates: Arc<LaunchTemplateStore>,
    pub(crate) node_classes: NodeClasses,
    pub(crate) instances: Instances,
    pub(crate) fleets: FleetBatcher,
    pub(crate) launch_metrics: LaunchMetrics,
}

impl AwsContext {
    pub(crate) fn new(parts: AwsParts) -> Self {
        let AwsParts { ports, settings, client, cluster, clock, events, registry } = parts;
        let pricing = Arc::new(Pricing::new(&ports.region));
        let unavailable = Arc::new(UnavailableOfferings::new(clock));
        let type_settings = InstanceTypeSettings::new(&ports.region, &settings);
        let instance_types = Arc::new(InstanceTypeCatalogue::new(type_settings, pricing, unavailable.clone(), clock));
        let launch_templates =
            LaunchTemplateStore::new(ports.ec2.clone(), &settings.cluster_name, clock, settings.seed);
        let launch_templates = Arc::new(launch_templates.with_metrics(&registry));
        let discovery = Arc::new(ClusterDiscovery::new(ports.clone(), settings.clone(), client.clone(), clock));
        let batcher_metrics = BatcherMetrics::new(&registry);
        Self {
            label_rules: LabelRules::aws(),
            subnets: Arc::new(Subnets::new(ports.ec2.clone(), &settings, clock)),
            security_groups: Arc::new(SecurityGroups::new(ports.ec2.clone(), &settings, clock)),
            amis: Arc::new(Amis::new(&ports, &settings, discovery.facts().clone(), clock)),
            instance_profiles: Arc::new(InstanceProfiles::new(&ports, &settings, clock)),
            instances: Instances::new(&ports, &settings, &registry, batcher_metrics.clone()),
            fleets: FleetBatcher::new(ports.ec2.clone(), batcher_metrics, settings.seed),
            launch_metrics: LaunchMetrics::new(&registry),
            node_classes: NodeClasses::new(client.clone(), cluster.clone()),
            ports,
            settings,
            client,
            cluster,
            clock,
            events,
            discovery,
            unavailable,
            instance_types,
            launch_templates,
        }
    }

    /// Returns the drift hash of a class in decimal.
    pub(crate) fn class_hash(&self, class: &EC2NodeClass) -> Result<String, QuantityError> {
        let facts = self.discovery.facts().get();
        let spec = class.spec.clone().unwrap_or_default();
        let hash = ec2nodeclass_hash(&spec, facts.ca_bundle.as_deref().unwrap_or_default())?;
        Ok(hash.to_string())
    }
}
