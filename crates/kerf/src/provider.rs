//! The cloud providers that a command can run with. A command gets a [`Provider`] and never names a
//! concrete one.

mod aws;
mod kwok;
mod plan;

use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use kerf_api::crds::CrdVariant;
use kerf_aws::AwsSettings;
use kerf_cloud::CloudProvider;
use kerf_operator::{Publish, Registry, SharedCluster};
use kerf_runtime::Clock;
use kerf_sandbox::{ApiServer, Cloud};
use kube::Client;

use crate::exit::{CommandFailure, Problem};
use crate::input::Objects;
use crate::program::{ConnectAws, ProviderName, SANDBOX_CLUSTER_NAME, sandbox_aws_settings};
use aws::Ec2Provider;
#[cfg(test)]
pub(crate) use aws::SimulatedEc2;
pub(crate) use aws::{AccountOptions, account_change, memory_aws};
use kwok::KwokProvider;
pub(crate) use plan::{PlanCatalogue, PlanNotice, PlanProviderOptions, load_for_plan};

/// The parts of the process that a cloud provider needs.
pub(crate) struct CloudParts {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    /// Cluster state of the controllers.
    pub(crate) cluster: SharedCluster,
    pub(crate) events: Arc<dyn Publish>,
    pub(crate) registry: Arc<Registry>,
    /// The cluster in this process; `None` on a real cluster.
    pub(crate) sandbox: Option<SandboxParts>,
    /// CA certificate of the connection to the API server, PEM in base64; `None` if unknown.
    pub(crate) ca_bundle: Option<String>,
    /// Seed of all random numbers of the provider.
    pub(crate) seed: u64,
}

/// The parts of a sandbox that a provider uses instead of a real cloud.
#[derive(Debug, Clone)]
pub(crate) struct SandboxParts {
    /// Availability and faults of instances.
    pub(crate) cloud: Cloud,
    /// The API server, with the attached cloud.
    pub(crate) server: ApiServer,
}

/// The facts about a sandbox that its provider's cloud depends on.
#[derive(Debug)]
pub(crate) struct SandboxPreparation<'a> {
    pub(crate) server: &'a ApiServer,
    /// Faults of launches and instances.
    pub(crate) faults: &'a Cloud,
    /// URL of the API server; `None` if it is not served.
    pub(crate) endpoint: Option<String>,
    /// True if instances start and stop without delay.
    pub(crate) is_instant: bool,
    /// Seed of all random numbers of the cloud.
    pub(crate) seed: u64,
}

/// Texts about the provider for the user of a sandbox.
#[derive(Debug)]
pub(crate) struct SandboxTexts {
    /// Facts about the simulated cloud; empty if there are none to know.
    pub(crate) about: String,
    /// Commands to try next.
    pub(crate) hints: &'static str,
}

/// Everything that commands with controllers need from a cloud provider.
pub(crate) trait Provider: Send + Sync {
    /// Returns the CRDs to install for this provider.
    fn crd_variant(&self) -> CrdVariant;

    /// Returns the instance types for the objects of a sandbox, for plans.
    fn plan_catalogue(&self, objects: &Objects) -> Box<dyn PlanCatalogue>;

    /// Returns the instance types at the prices that the simulated cloud of a sandbox has now.
    fn priced_catalogue(&self, _server: &ApiServer, objects: &Objects) -> Box<dyn PlanCatalogue> {
        self.plan_catalogue(objects)
    }

    /// Attaches the provider's simulated cloud to a sandbox, if it has one. Called on a tokio
    /// runtime before the controllers start.
    fn prepare_sandbox(&self, _preparation: SandboxPreparation<'_>) {}

    /// Returns the texts for the user of a sandbox.
    fn sandbox_texts(&self) -> SandboxTexts;

    /// Creates the provider for controllers. Fails if its cloud cannot be reached.
    fn cloud(&self, parts: CloudParts) -> BoxFuture<'_, Result<Arc<dyn CloudProvider>, Problem>>;
}

/// Options of a command that concern its provider.
#[derive(Clone, Debug)]
pub(crate) struct ProviderOptions<'a> {
    pub(crate) name: ProviderName,
    /// File of instance types; `None` selects the provider's own.
    pub(crate) instance_types: Option<&'a Path>,
    /// Settings of the AWS provider; `None` for the defaults and the sandbox's cluster.
    pub(crate) aws: Option<AwsSettings>,
    /// Connects to AWS; `None` for a program without AWS SDK, and for commands that need no AWS.
    pub(crate) connect_aws: Option<ConnectAws>,
}

impl<'a> ProviderOptions<'a> {
    /// Returns the options of a command that runs without AWS.
    pub(crate) fn new(name: ProviderName, instance_types: Option<&'a Path>) -> Self {
        Self { name, instance_types, aws: None, connect_aws: None }
    }
}

/// Returns the provider that the options select. Fails if its instance types cannot be read.
pub(crate) fn load(options: ProviderOptions<'_>) -> Result<Arc<dyn Provider>, CommandFailure> {
    match options.name {
        ProviderName::Kwok => Ok(Arc::new(KwokProvider::load(options.instance_types)?)),
        ProviderName::Aws => {
            if options.instance_types.is_some() {
                return Err(CommandFailure::bad_input(no_instance_types_file()));
            }
            let settings = options.aws.unwrap_or_else(|| sandbox_aws_settings(SANDBOX_CLUSTER_NAME));
            Ok(Arc::new(Ec2Provider::new(settings, options.connect_aws)))
        }
    }
}

/// Returns the problem of a file of instance types for the AWS provider.
fn no_instance_types_file() -> Problem {
    Problem::new("instance types cannot be given for the provider aws")
        .with_hint("leave --instance-types away, or use --provider kwok")
}

/// Returns the instance types of the simulated provider, for plans.
#[cfg(test)]
pub(crate) fn built_in_kwok_types() -> Box<dyn PlanCatalogue> {
    Box::new(KwokProvider::load(None).unwrap_or_else(|failure| panic!("{failure:?}")))
}

/// Returns the simulated provider with its built-in instance types.
#[cfg(test)]
pub(crate) fn built_in_kwok() -> Arc<dyn Provider> {
    load(ProviderOptions::new(ProviderName::Kwok, None)).unwrap_or_else(|failure| panic!("{failure:?}"))
}
