//! The simulated provider (`kerf-kwok`) for commands.

use std::path::Path;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{self, BoxFuture};
use kerf_api::crds::CrdVariant;
use kerf_api::labels::LabelRules;
use kerf_api::nodepool::NodeClassReference;
use kerf_cloud::CloudProvider;
use kerf_engine::catalogue::InstanceTypes;
use kerf_kwok::{AvailabilityError, Catalogue, InstanceAvailability, Kwok};
use kerf_sandbox::{Cloud, LaunchError, OfferingRef};

use super::{CloudParts, PlanCatalogue, Provider, SandboxTexts};
use crate::exit::{CommandFailure, Problem};
use crate::input::Objects;
use crate::program::ProviderName;

/// Commands to try next in a sandbox.
const HINTS: &str = "  \
  kubectl apply -f examples/kwok.yaml           # a NodePool: which nodes Kerf may launch
  kubectl apply -f examples/deployment.yaml     # ten pods that need nodes
  kubectl get nodeclaims,nodes,pods
";

/// The simulated provider with the instance types of one file, or the built-in ones.
#[derive(Debug, Clone)]
pub(super) struct KwokProvider {
    catalogue: Catalogue,
    /// True if the user gave the types. A plan uses them for all node classes.
    has_own_types: bool,
}

impl KwokProvider {
    /// Reads the instance types. The error lists every problem of the file.
    pub(super) fn load(path: Option<&Path>) -> Result<Self, CommandFailure> {
        Ok(Self { catalogue: read_catalogue(path)?, has_own_types: path.is_some() })
    }

    pub(super) fn types(&self) -> &InstanceTypes {
        &self.catalogue.types
    }
}

impl PlanCatalogue for KwokProvider {
    fn label_rules(&self) -> &LabelRules {
        &self.catalogue.label_rules
    }

    fn instance_types(&self, class: &NodeClassReference) -> Option<InstanceTypes> {
        let is_served = ProviderName::of_node_class_group(&class.group)
            .is_some_and(|provider| self.providers().contains(&provider));
        is_served.then(|| self.catalogue.types.clone())
    }

    fn providers(&self) -> &'static [ProviderName] {
        if self.has_own_types { &[ProviderName::Kwok, ProviderName::Aws] } else { &[ProviderName::Kwok] }
    }
}

impl Provider for KwokProvider {
    fn crd_variant(&self) -> CrdVariant {
        CrdVariant::Kwok
    }

    fn plan_catalogue(&self, _objects: &Objects) -> Box<dyn PlanCatalogue> {
        Box::new(self.clone())
    }

    fn sandbox_texts(&self) -> SandboxTexts {
        SandboxTexts { about: String::new(), hints: HINTS }
    }

    fn cloud(&self, parts: CloudParts) -> BoxFuture<'_, Result<Arc<dyn CloudProvider>, Problem>> {
        let cloud = Kwok::new(parts.client, parts.clock, self.catalogue.clone());
        let cloud = match parts.sandbox {
            Some(sandbox) => cloud.with_availability(Arc::new(CloudAvailability(sandbox.cloud))),
            None => cloud,
        };
        future::ready(Ok(Arc::new(cloud) as Arc<dyn CloudProvider>)).boxed()
    }
}

fn read_catalogue(path: Option<&Path>) -> Result<Catalogue, CommandFailure> {
    let Some(path) = path else { return Ok(kerf_kwok::built_in_catalogue()) };
    let text = std::fs::read_to_string(path).map_err(|cause| {
        CommandFailure::bad_input(Problem::new(format!("{}: cannot be read: {cause}", path.display())))
    })?;
    kerf_kwok::parse_catalogue(&text).map_err(|problems| {
        let problem = |problem| Problem::new(format!("{}: {problem}", path.display()));
        CommandFailure::BadInput(problems.iter().map(problem).collect())
    })
}

/// Availability of offerings according to the sandbox's simulated cloud.
struct CloudAvailability(Cloud);

impl InstanceAvailability for CloudAvailability {
    fn check(&self, instance_type: &str, zone: &str, capacity_type: &str) -> Result<(), AvailabilityError> {
        self.0.check_launch(OfferingRef { instance_type, zone, capacity_type }).map_err(|error| match error {
            LaunchError::InsufficientCapacity => {
                AvailabilityError::InsufficientCapacity(format!("{error} ({instance_type}, {zone}, {capacity_type})"))
            }
            LaunchError::Throttled => AvailabilityError::Throttled(error.to_string()),
        })
    }
}
