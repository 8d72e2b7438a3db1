//! Subnets, security groups, images and capacity reservations that a node class selects (spec 05
//! §8, §10 to §12). Each provider here keeps its answers for the lifetimes of spec 05 §3 and never
//! writes to the Kubernetes API.

pub(crate) mod amis;
pub(crate) mod capacity_reservations;
pub(crate) mod filters;
pub(crate) mod reservation_status;
pub(crate) mod security_groups;
pub(crate) mod ssm;
pub(crate) mod subnets;

use kerf_api::ec2nodeclass::EC2NodeClass;

/// Number of node classes whose answers are kept.
const CLASSES_MAX: usize = 1_000;

/// Returns the key of a node class in caches of answers. Another generation has other selectors.
fn class_cache_key(class: &EC2NodeClass) -> String {
    let uid = class.metadata.uid.as_deref().unwrap_or_default();
    format!("{uid}-{}", class.metadata.generation.unwrap_or_default())
}
