//! The instance type with which a class is validated (spec 06 §4.7.8).

use std::sync::Arc;

use kerf_api::ec2nodeclass::{Ami, AmiFamily, EC2NodeClass};
use kerf_api::labels::{LabelRules, aws};
use kerf_api::nodepool::NodePool;
use kerf_api::quantity::Quantity;
use kerf_api::requirement::NodeSelectorRequirement;
use kerf_api::slim::Str;
use kerf_engine::Price;
use kerf_engine::catalogue::{InstanceTypeRef, InstanceTypes};
use kerf_engine::requirement::{Requirement, Requirements};

use crate::discovery::amis::{AmiMatchError, map_types_to_amis, standard_requirements};
use crate::instance_types::{InstanceTypeCatalogue, InstanceTypeError};
use crate::node_classes::class_reference;
use crate::nodeclass::dry_run_error::TypeChoiceError;

/// Types that are used if no NodePool names others: one for each architecture.
const FALLBACK_TYPES: [&str; 2] = ["m5.large", "m6g.large"];

/// The type and image with which a class is validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::nodeclass) struct ValidationTarget {
    pub(super) instance_type: String,
    pub(super) image_id: String,
    /// Number of pods of the type. Zero for one of [`FALLBACK_TYPES`], as in Karpenter: no launch
    /// uses its template.
    pub(super) max_pods: i64,
    /// `default` or `dedicated`.
    pub(super) tenancy: &'static str,
}

/// Returns the cheapest type that is compatible with the class and with a NodePool that uses it.
/// Types without GPU and accelerator come first: images for those may need a larger root volume
/// than the class has.
pub(in crate::nodeclass) fn choose_target(
    catalogue: &InstanceTypeCatalogue,
    class: &EC2NodeClass,
    pools: &[Arc<NodePool>],
    rules: &LabelRules,
) -> Result<ValidationTarget, TypeChoiceError> {
    let list = catalogue.list(class)?;
    let linked = pools_of_class(class, pools);
    let requirements: Vec<Requirements> = linked.map(|pool| pool_requirements(pool, rules)).collect();
    let Candidates { types, are_named } = candidate_types(catalogue, class, &list, &requirements)?;
    let amis = class.status.as_ref().and_then(|status| status.amis.as_deref()).unwrap_or_default();
    let matches = map_types_to_amis(&types, amis)?;
    let pairs = matches.iter().flat_map(|entry| entry.types.iter().map(|instance_type| (entry.ami, *instance_type)));
    let standard: Requirements = expressions(rules, &standard_requirements()).collect();
    let rank = |(ami, instance_type): &(&Ami, InstanceTypeRef<'_>)| {
        let own: Requirements = expressions(rules, &ami.requirements).collect();
        let is_special = own.intersects(&standard).is_err();
        (is_special, cheapest(*instance_type), instance_type.instance_type().name.clone())
    };
    let ids = || amis.iter().map(|ami| ami.id.clone()).collect();
    let (ami, instance_type) = pairs.min_by_key(rank).ok_or_else(|| AmiMatchError::NoMatch(ids()))?;
    let admits_dedicated = |requirements: &Requirements| {
        requirements.get(aws::INSTANCE_TENANCY).is_some_and(|tenancy| tenancy.has(aws::TENANCY_DEDICATED))
    };
    Ok(ValidationTarget {
        instance_type: instance_type.name.to_string(),
        image_id: ami.id.clone(),
        max_pods: if are_named { 0 } else { instance_type.capacity.get("pods").map_or(0, Quantity::value) },
        tenancy: if requirements.iter().any(admits_dedicated) { aws::TENANCY_DEDICATED } else { aws::TENANCY_DEFAULT },
    })
}

/// Returns the NodePools that use a class.
pub(in crate::nodeclass) fn pools_of_class<'p>(
    class: &EC2NodeClass,
    pools: &'p [Arc<NodePool>],
) -> impl Iterator<Item = &'p Arc<NodePool>> {
    let reference = class_reference(class.metadata.name.as_deref().unwrap_or_default());
    pools.iter().filter(move |pool| pool.spec.template.spec.node_class_ref == reference)
}

/// The types from which one is chosen.
struct Candidates<'l> {
    types: Vec<InstanceTypeRef<'l>>,
    /// True if they are those of [`FALLBACK_TYPES`].
    are_named: bool,
}

/// Returns the compatible types that a NodePool can use, or the fallback types.
fn candidate_types<'l>(
    catalogue: &InstanceTypeCatalogue,
    class: &EC2NodeClass,
    list: &'l InstanceTypes,
    pools: &[Requirements],
) -> Result<Candidates<'l>, InstanceTypeError> {
    let names = catalogue.compatible_types(class, list.types().iter().map(|known| known.name.as_str()))?;
    let compatible: Vec<InstanceTypeRef<'l>> =
        list.iter().filter(|known| names.binary_search(&known.instance_type().name.as_str()).is_ok()).collect();
    let is_windows = match class.spec.as_ref().map(kerf_api::ec2nodeclass::EC2NodeClassSpec::effective_ami_family) {
        Some(AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025) => true,
        Some(
            AmiFamily::Al2
            | AmiFamily::Al2023
            | AmiFamily::Bottlerocket
            | AmiFamily::Custom
            | AmiFamily::Unsupported(_),
        )
        | None => false,
    };
    let is_usable = |known: &InstanceTypeRef<'_>| pools.iter().any(|pool| known.requirements.intersects(pool).is_ok());
    let of_pools: Vec<InstanceTypeRef<'l>> = compatible.iter().copied().filter(is_usable).collect();
    if !of_pools.is_empty() && !is_windows {
        return Ok(Candidates { types: of_pools, are_named: false });
    }
    let is_fallback = |known: &InstanceTypeRef<'_>| FALLBACK_TYPES.contains(&known.instance_type().name.as_str());
    let fallback: Vec<InstanceTypeRef<'l>> = compatible.iter().copied().filter(is_fallback).collect();
    if fallback.is_empty() {
        return Ok(Candidates { types: compatible, are_named: false });
    }
    Ok(Candidates { types: fallback, are_named: true })
}

/// Returns the lowest price of a type. A type without available offerings comes last.
fn cheapest(instance_type: InstanceTypeRef<'_>) -> (bool, Price) {
    let available = instance_type.offerings().filter(|offering| offering.is_available());
    let price = available.map(|offering| offering.price).min();
    (price.is_none(), price.unwrap_or(Price::ZERO))
}

/// Returns the requirements and labels of a pool's template. Entries without a meaning are left
/// out; the pool's own validation reports them.
pub(in crate::nodeclass) fn pool_requirements(pool: &NodePool, rules: &LabelRules) -> Requirements {
    let template = &pool.spec.template;
    let labels = template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref()).into_iter().flatten();
    let mut requirements: Requirements =
        labels.map(|(key, value)| Requirement::from_label(rules, key, value)).collect();
    for entry in &template.spec.requirements {
        let values: Vec<Str> = entry.values.iter().flatten().map(Str::new).collect();
        if let Ok(requirement) = Requirement::new(rules, &entry.key, &entry.operator.as_str().into(), &values, None) {
            requirements.add(requirement);
        }
    }
    requirements
}

fn expressions<'a>(
    rules: &'a LabelRules,
    entries: &'a [NodeSelectorRequirement],
) -> impl Iterator<Item = Requirement> + 'a {
    entries.iter().filter_map(|entry| {
        let values: Vec<Str> = entry.values.iter().flatten().map(Str::new).collect();
        Requirement::new(rules, &entry.key, &entry.operator.as_str().into(), &values, None).ok()
    })
}

#[cfg(test)]
mod tests;
