//! The cloud providers that a command can run with. A command gets a [`Provider`] and never names a
//! concrete one.

mod kwok;

use std::path::Path;
use std::sync::Arc;

use kerf_api::crds::CrdVariant;
use kerf_api::labels::LabelRules;
use kerf_api::nodepool::NodeClassReference;
use kerf_cloud::CloudProvider;
use kerf_engine::catalogue::InstanceTypes;
use kerf_operator::{Publish, Registry, SharedCluster};
use kerf_runtime::Clock;
use kerf_sandbox::Cloud;
use kube::Client;

use crate::exit::{CommandFailure, Problem};
use crate::input::Objects;
use crate::program::ProviderName;
use kwok::KwokProvider;

/// The parts of the process that a cloud provider needs.
#[expect(dead_code, reason = "the simulated provider needs neither cluster state nor events nor metrics")]
pub(crate) struct CloudParts {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    /// Cluster state of the controllers.
    pub(crate) cluster: SharedCluster,
    pub(crate) events: Arc<dyn Publish>,
    pub(crate) registry: Arc<Registry>,
    /// The simulated cloud of a sandbox; `None` on a real cluster.
    pub(crate) sandbox: Option<Cloud>,
}

/// Everything that commands need from a cloud provider.
pub(crate) trait Provider: Send + Sync {
    /// Returns the CRDs to install for this provider.
    fn crd_variant(&self) -> CrdVariant;

    /// Returns the provider's rules about labels.
    fn label_rules(&self) -> &LabelRules;

    /// Returns the instance types of a node class, for a plan. Returns clones of one list for
    /// classes with equal types. Returns `None` if the class is not in `objects` and its types
    /// depend on it.
    fn instance_types(&self, class: &NodeClassReference, objects: &Objects) -> Option<InstanceTypes>;

    /// Creates the provider for controllers.
    fn cloud(&self, parts: CloudParts) -> Arc<dyn CloudProvider>;
}

/// Options of a command that concern its provider.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProviderOptions<'a> {
    pub(crate) name: ProviderName,
    /// File of instance types; `None` selects the provider's own.
    pub(crate) instance_types: Option<&'a Path>,
}

/// Returns the provider that the options select. Fails if its instance types cannot be read.
pub(crate) fn load(options: ProviderOptions<'_>) -> Result<Arc<dyn Provider>, CommandFailure> {
    match options.name {
        ProviderName::Kwok => Ok(Arc::new(KwokProvider::load(options.instance_types)?)),
        ProviderName::Aws => {
            let problem = Problem::new("--provider aws: this program has no AWS provider");
            Err(CommandFailure::bad_input(problem.with_hint("use --provider kwok, which simulates instances")))
        }
    }
}

/// Returns the simulated provider with its built-in instance types.
#[cfg(test)]
pub(crate) fn built_in_kwok() -> Arc<dyn Provider> {
    let options = ProviderOptions { name: ProviderName::Kwok, instance_types: None };
    load(options).unwrap_or_else(|failure| panic!("{failure:?}"))
}
