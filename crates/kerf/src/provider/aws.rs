//! The AWS provider (`kerf-aws`) for commands: on AWS through the SDK of the program, in a sandbox
//! on an EC2 in memory, and for plans on the instance types that Kerf ships.

mod node_config;
mod registration;
mod sandbox_account;
mod simulated_ec2;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kerf_api::crds::CrdVariant;
use kerf_api::ec2nodeclass::{EC2NodeClass, EC2NodeClassStatus, Subnet};
use kerf_api::labels::LabelRules;
use kerf_api::nodepool::NodeClassReference;
use kerf_aws::instance_types::{InstanceTypeCatalogue, InstanceTypeSettings};
use kerf_aws::ports::AwsPorts;
use kerf_aws::pricing::Pricing;
use kerf_aws::unavailable_offerings::UnavailableOfferings;
use kerf_aws::{AwsParts, AwsProvider, AwsSettings, data};
use kerf_cloud::CloudProvider;
use kerf_engine::catalogue::InstanceTypes;
use kerf_runtime::Clock;

use super::{CloudParts, Provider, SandboxPreparation, SandboxTexts};
use crate::exit::Problem;
use crate::input::Objects;
use crate::program::{ConnectAws, SANDBOX_KUBERNETES_VERSION, no_sdk_problem};
pub(crate) use sandbox_account::{AccountOptions, memory_aws};
pub(crate) use simulated_ec2::SimulatedEc2;

/// Region of the instance types that Kerf ships.
const SHIPPED_REGION: &str = "us-west-2";
/// Longest time for connecting to AWS, with the look-up of region and credentials.
const CONNECT_TIMEOUT: Duration = Duration::from_mins(1);

/// Commands to try next in a sandbox.
const HINTS: &str = "  \
  kubectl apply -f examples/aws/getting-started.yaml   # a NodePool and an EC2NodeClass
  kubectl apply -f examples/aws/inflate.yaml           # five pods that need nodes
  kubectl get ec2nodeclasses,nodeclaims,nodes,pods
";

/// The AWS provider with its settings.
pub(super) struct Ec2Provider {
    settings: AwsSettings,
    /// Connects to AWS; `None` if the program cannot.
    connect: Option<ConnectAws>,
    label_rules: LabelRules,
    /// The shipped instance types, for plans.
    shipped: OnceLock<InstanceTypeCatalogue>,
}

impl Ec2Provider {
    pub(super) fn new(settings: AwsSettings, connect: Option<ConnectAws>) -> Self {
        Self { settings, connect, label_rules: LabelRules::aws(), shipped: OnceLock::new() }
    }

    fn shipped_types(&self) -> &InstanceTypeCatalogue {
        self.shipped.get_or_init(|| {
            let settings = InstanceTypeSettings::new(SHIPPED_REGION, &self.settings);
            let clock = Clock::system();
            let pricing = Arc::new(Pricing::new(SHIPPED_REGION));
            let catalogue =
                InstanceTypeCatalogue::new(settings, pricing, Arc::new(UnavailableOfferings::new(clock)), clock);
            let shipped = data::catalogue();
            catalogue.set_catalogue(shipped.instance_types.clone(), shipped.offerings.clone());
            catalogue
        })
    }

    async fn ports(&self, parts: &CloudParts) -> Result<AwsPorts, Problem> {
        if let Some(sandbox) = &parts.sandbox {
            let cloud = sandbox.server.attached_cloud_as::<SimulatedEc2>();
            let cloud = cloud.ok_or_else(|| Problem::new("the cluster has no EC2"))?;
            return Ok(cloud.aws().ports());
        }
        let connect = self.connect.ok_or_else(no_sdk_problem)?;
        match tokio::time::timeout(CONNECT_TIMEOUT, connect()).await {
            Ok(Ok(ports)) => Ok(ports),
            Ok(Err(error)) => Err(Problem::new(error.problem).with_hint(error.hint)),
            Err(_) => {
                let seconds = CONNECT_TIMEOUT.as_secs();
                let problem = Problem::new(format!("connecting to AWS took longer than {seconds} s"));
                Err(problem.with_hint("check the network, AWS_REGION and the source of the credentials"))
            }
        }
    }
}

impl Provider for Ec2Provider {
    fn crd_variant(&self) -> CrdVariant {
        CrdVariant::Aws
    }

    fn label_rules(&self) -> &LabelRules {
        &self.label_rules
    }

    fn instance_types(&self, class: &NodeClassReference, objects: &Objects) -> Option<InstanceTypes> {
        self.shipped_types().list(&planned_class(find_class(class, objects)?)).ok()
    }

    fn plan_notices(&self, objects: &Objects) -> Vec<String> {
        let classes = objects.ec2_node_classes.iter().map(|class| &class.object);
        let notices = classes.filter_map(|class| {
            let name = class.metadata.name.as_deref().unwrap_or_default();
            match self.shipped_types().list(&planned_class(class)) {
                Err(error) => Some(format!("EC2NodeClass `{name}` has no instance types: {error}")),
                Ok(_) if subnets(class).is_empty() => Some(format!(
                    "EC2NodeClass `{name}` has no subnets in its status: the plan assumes all zones of {SHIPPED_REGION}"
                )),
                Ok(_) => foreign_zone(class).map(|zone| {
                    format!(
                        "EC2NodeClass `{name}` has subnets in {zone}: the plan knows only zones of {SHIPPED_REGION}"
                    )
                }),
            }
        });
        let source = format!(
            "instance types and prices are those that Kerf ships for {SHIPPED_REGION}; spot costs as on-demand"
        );
        notices.chain([source]).collect()
    }

    fn prepare_sandbox(&self, preparation: SandboxPreparation<'_>) {
        let options = AccountOptions {
            cluster_name: &self.settings.cluster_name,
            kubernetes_version: SANDBOX_KUBERNETES_VERSION,
            endpoint: preparation.endpoint,
            is_instant: preparation.is_instant,
            seed: preparation.seed,
        };
        let aws = memory_aws(preparation.server.clock(), &options);
        SimulatedEc2::attach(preparation.server, aws, &self.settings.cluster_name);
    }

    fn sandbox_texts(&self) -> SandboxTexts {
        let name = &self.settings.cluster_name;
        SandboxTexts {
            about: format!(
                "Kerf launches its nodes from an EC2 in memory:\n\
                 the EKS cluster {name} in us-west-2, with three zones. Subnets and a security group\n\
                 have the tag karpenter.sh/discovery: {name}. The role of the nodes is\n\
                 KarpenterNodeRole-{name}. "
            ),
            hints: HINTS,
        }
    }

    fn cloud(&self, parts: CloudParts) -> BoxFuture<'_, Result<Arc<dyn CloudProvider>, Problem>> {
        async move {
            let ports = self.ports(&parts).await?;
            let mut settings = AwsSettings { seed: parts.seed, ..self.settings.clone() };
            settings.cluster_ca_bundle = settings.cluster_ca_bundle.or(parts.ca_bundle);
            let CloudParts { client, clock, cluster, events, registry, .. } = parts;
            let provider = AwsProvider::new(AwsParts { ports, settings, client, cluster, clock, events, registry });
            Ok(Arc::new(provider) as Arc<dyn CloudProvider>)
        }
        .boxed()
    }
}

fn find_class<'a>(class: &NodeClassReference, objects: &'a Objects) -> Option<&'a EC2NodeClass> {
    let classes = objects.ec2_node_classes.iter().map(|found| &found.object);
    let mut classes = classes.filter(|_| class.kind == "EC2NodeClass" && class.group == "karpenter.k8s.aws");
    classes.find(|found| found.metadata.name.as_deref() == Some(&class.name))
}

fn subnets(class: &EC2NodeClass) -> &[Subnet] {
    class.status.as_ref().and_then(|status| status.subnets.as_deref()).unwrap_or_default()
}

/// Returns the class as a plan sees it: a class whose subnets are not known yet has one in every
/// zone.
fn planned_class(class: &EC2NodeClass) -> EC2NodeClass {
    let mut class = class.clone();
    if subnets(&class).is_empty() {
        let zones: std::collections::BTreeSet<&str> = shipped_zones().collect();
        let subnet = |zone: &str| Subnet { id: format!("subnet-{zone}"), zone: zone.to_owned(), zone_id: None };
        let status = class.status.get_or_insert_with(EC2NodeClassStatus::default);
        status.subnets = Some(zones.into_iter().map(subnet).collect());
    }
    class
}

fn shipped_zones() -> impl Iterator<Item = &'static str> {
    data::catalogue().offerings.iter().map(|offering| offering.zone.as_str())
}

/// Returns a zone of the class that the shipped catalogue does not know.
fn foreign_zone(class: &EC2NodeClass) -> Option<&str> {
    subnets(class).iter().map(|subnet| subnet.zone.as_str()).find(|zone| !shipped_zones().any(|known| known == *zone))
}

#[cfg(test)]
mod tests;
