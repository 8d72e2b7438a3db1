//! The image of each instance type (spec 05 §12.5). Launches, validation and drift use it.

use kerf_api::ec2nodeclass::Ami;
use kerf_api::labels::LabelRules;
use kerf_api::requirement::NodeSelectorRequirement;
use kerf_api::slim::Str;
use kerf_engine::catalogue::InstanceTypeRef;
use kerf_engine::requirement::{Requirement, Requirements, UndefinedLabels};

/// An image, and the instance types that use it.
#[derive(Debug, Clone)]
pub(crate) struct AmiMatch<'a, 't> {
    /// The image. One image can occur several times, with different requirements.
    pub(crate) ami: &'a Ami,
    /// The types, in the order of the input; never empty.
    pub(crate) types: Vec<InstanceTypeRef<'t>>,
}

/// Reason why no instance type has an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AmiMatchError {
    /// The status of the node class has no images.
    #[error("no amis exist given constraints")]
    NoAmis,
    /// No image can run on any of the types.
    #[error("no instance types satisfy requirements of amis [{}]", .0.join(" "))]
    NoMatch(Vec<String>),
}

/// Assigns to each instance type the first image of the list whose requirements it meets. Types
/// without such an image are left out. The images are in the order of the list.
pub(crate) fn map_types_to_amis<'a, 't>(
    types: &[InstanceTypeRef<'t>],
    amis: &'a [Ami],
) -> Result<Vec<AmiMatch<'a, 't>>, AmiMatchError> {
    if amis.is_empty() {
        return Err(AmiMatchError::NoAmis);
    }
    let rules = LabelRules::aws();
    let required: Vec<Option<Requirements>> = amis.iter().map(|ami| requirements(&rules, &ami.requirements)).collect();
    let mut matches: Vec<AmiMatch<'a, 't>> = amis.iter().map(|ami| AmiMatch { ami, types: Vec::new() }).collect();
    for instance_type in types {
        let fits =
            |required: &Requirements| instance_type.requirements.compatible(required, UndefinedLabels::Reject).is_ok();
        if let Some(first) = required.iter().position(|required| required.as_ref().is_some_and(fits)) {
            matches[first].types.push(*instance_type);
        }
    }
    matches.retain(|entry| !entry.types.is_empty());
    if matches.is_empty() {
        let mut ids: Vec<String> = Vec::new();
        for ami in amis {
            if !ids.contains(&ami.id) {
                ids.push(ami.id.clone());
            }
        }
        return Err(AmiMatchError::NoMatch(ids));
    }
    Ok(matches)
}

/// Returns the requirements of a status entry. Returns `None` if one has no meaning; then no type
/// meets them.
fn requirements(rules: &LabelRules, entries: &[NodeSelectorRequirement]) -> Option<Requirements> {
    let mut requirements = Requirements::default();
    for entry in entries {
        let values: Vec<Str> = entry.values.iter().flatten().map(Str::new).collect();
        requirements.add(Requirement::new(rules, &entry.key, &entry.operator.as_str().into(), &values, None).ok()?);
    }
    Some(requirements)
}
