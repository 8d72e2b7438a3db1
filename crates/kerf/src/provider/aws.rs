//! The AWS provider (`kerf-aws`) for commands: on AWS through the SDK of the program, in a sandbox
//! on an EC2 in memory. Plans use the instance types that Kerf ships (`plan_catalogue`).

mod account_steps;
mod boot;
mod named_values;
mod plan_catalogue;
mod plan_region;
mod plan_values;
mod plan_zones;
mod registration;
mod sandbox_account;
mod simulated_ec2;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kerf_api::crds::CrdVariant;
use kerf_api::nodepool::NodeClassReference;
use kerf_aws::instance_types::InstanceTypeCatalogue;
use kerf_aws::ports::AwsPorts;
use kerf_aws::{AwsParts, AwsProvider, AwsSettings};
use kerf_cloud::CloudProvider;
use kerf_sandbox::ApiServer;

use super::{CloudParts, PlanCatalogue, Provider, SandboxPreparation, SandboxTexts};
use crate::exit::Problem;
use crate::input::Objects;
use crate::program::{AWS_GROUP, ConnectAws, SANDBOX_KUBERNETES_VERSION, no_sdk_problem};
pub(crate) use account_steps::account_change;
pub(super) use plan_catalogue::Ec2PlanCatalogue;
use plan_region::PlanRegion;
pub(super) use plan_region::check_region;
pub(crate) use sandbox_account::{AccountOptions, memory_aws};
pub(crate) use simulated_ec2::SimulatedEc2;

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
    /// The instance types of the sandbox's region.
    sandbox_types: OnceLock<InstanceTypeCatalogue>,
}

impl Ec2Provider {
    pub(super) fn new(settings: AwsSettings, connect: Option<ConnectAws>) -> Self {
        Self { settings, connect, sandbox_types: OnceLock::new() }
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

    fn plan_catalogue(&self, objects: &Objects) -> Box<dyn PlanCatalogue> {
        let region = PlanRegion::of_sandbox();
        let types = self.sandbox_types.get_or_init(|| plan_catalogue::shipped_types(&region.name, &self.settings));
        Box::new(Ec2PlanCatalogue::of_types(types, &region, objects, &self.settings.cluster_name))
    }

    fn priced_catalogue(&self, server: &ApiServer, objects: &Objects) -> Box<dyn PlanCatalogue> {
        let Some(cloud) = server.attached_cloud_as::<SimulatedEc2>() else { return self.plan_catalogue(objects) };
        let region = PlanRegion::of_sandbox();
        let types = plan_catalogue::shipped_types(&region.name, &self.settings);
        types.pricing().merge_on_demand(cloud.aws().current_on_demand_prices());
        types.pricing().merge_spot(cloud.aws().current_spot_prices());
        Box::new(Ec2PlanCatalogue::of_types(&types, &region, objects, &self.settings.cluster_name))
    }

    fn prepare_sandbox(&self, preparation: SandboxPreparation<'_>) {
        // Only a sandbox with an endpoint of its own is changed by hand.
        let ignores_zonal_shift = preparation.endpoint.is_some() && !self.settings.enable_zonal_shift;
        let options = AccountOptions {
            cluster_name: &self.settings.cluster_name,
            kubernetes_version: SANDBOX_KUBERNETES_VERSION,
            endpoint: preparation.endpoint,
            is_instant: preparation.is_instant,
            seed: preparation.seed,
        };
        let aws = memory_aws(preparation.server.clock(), &options);
        let (name, faults) = (&self.settings.cluster_name, preparation.faults.clone());
        SimulatedEc2::attach(preparation.server, aws, name, faults, ignores_zonal_shift);
    }

    fn sandbox_texts(&self) -> SandboxTexts {
        let name = &self.settings.cluster_name;
        SandboxTexts {
            about: format!(
                "Kerf launches its nodes from an EC2 in memory:\n\
                 the EKS cluster {name} in us-west-2, with three zones. Subnets and a security group\n\
                 have the tag karpenter.sh/discovery: {name}. The role of the nodes is\n\
                 KarpenterNodeRole-{name}. The queue {name} gets the events of instances.\n"
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

/// Returns true if a reference names an EC2NodeClass.
pub(super) fn is_ec2_node_class(class: &NodeClassReference) -> bool {
    class.group == AWS_GROUP && class.kind == "EC2NodeClass"
}

#[cfg(test)]
mod tests;
