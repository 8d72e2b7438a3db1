//! A NodeClaim in the form in which a launch reads it.

use kerf_api::labels::LabelRules;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::quantity::{Quantity, QuantityError};
use kerf_api::slim::{ResourceList, Str};
use kerf_engine::requirement::{Requirement, RequirementError, Requirements};

/// A claim that is launched, with its requirements in the engine's form.
pub(super) struct LaunchClaim<'a> {
    pub(super) claim: &'a NodeClaim,
    pub(super) requirements: Requirements,
    pub(super) requests: ResourceList,
}

/// A field of a claim that has no meaning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ClaimFieldError {
    #[error("spec.requirements: {0}")]
    Requirement(#[source] RequirementError),
    #[error("spec.resources.requests[{name}]: {cause}")]
    Request {
        name: String,
        #[source]
        cause: QuantityError,
    },
}

impl<'a> LaunchClaim<'a> {
    pub(super) fn new(claim: &'a NodeClaim, rules: &LabelRules) -> Result<Self, ClaimFieldError> {
        let mut requirements = Requirements::default();
        for entry in &claim.spec.requirements {
            let values: Vec<Str> = entry.values.iter().flatten().map(Str::from).collect();
            let min_values = entry.min_values.and_then(|count| u32::try_from(count).ok());
            let requirement = Requirement::new(rules, &entry.key, &entry.operator, &values, min_values);
            requirements.add(requirement.map_err(ClaimFieldError::Requirement)?);
        }
        let requested = claim.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let requests = requested.into_iter().flatten().map(|(name, amount)| {
            let parsed = amount.text().parse::<Quantity>();
            let amount = parsed.map_err(|cause| ClaimFieldError::Request { name: name.clone(), cause })?;
            Ok((Str::from(name), amount))
        });
        Ok(Self { claim, requirements, requests: requests.collect::<Result<_, _>>()? })
    }

    /// Returns true if the claim requests a positive amount of a resource.
    pub(super) fn requests_resource(&self, name: &str) -> bool {
        self.requests.get(name).is_some_and(|amount| amount > Quantity::ZERO)
    }

    /// Returns true if the claim has an annotation with a value that is accepted.
    pub(super) fn has_annotation(&self, key: &str, is_value: impl FnOnce(&str) -> bool) -> bool {
        let annotations = self.claim.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(key)).is_some_and(|value| is_value(value))
    }
}
