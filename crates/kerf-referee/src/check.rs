//! Is a plan lawful? Every constraint that it breaks, with the numbers.
//!
//! What is required, where more than one reading would do:
//!
//! * **A claim is judged by what it allows, not by what is likely.** Its *launches* are all pairs of a listed instance type and
//!   an available offering whose labels satisfy the claim's and its pool's requirements. Every listed type must have one; and
//!   on every launch every pod of the claim must fit, together with the daemons that will run there, want that node, tolerate
//!   its taints and reach its volumes.
//! * **Open zones.** As long as a claim allows several zones (or capacity types, or values of any label that a rule between
//!   pods uses), the provider may launch it in each of them, and those of several claims are chosen independently. So rules
//!   between pods (spread, affinity, anti-affinity) must hold *for every combination* of choices: anti-affine pods need claims
//!   whose domains are disjoint, an affine pod needs its companion on the same node or both in one certain domain, and a spread
//!   pod normally needs a claim with one domain. All combinations are tried up to [`COMBINATIONS`], beyond that the estimate's
//!   and a fixed random sample. Only claims whose pods a rule concerns are varied.
//! * **Some order.** For one combination the rules between pods hold if there is an order in which the pods can be bound one
//!   after the other so that each is allowed where it goes when its turn comes. (The plan does not say in which order its pods
//!   will be bound, and kube-scheduler's order is not ours to choose.) Pods that nothing constrains come last in the search.
//! * **Whose reading.** Where spec 02 and kube-scheduler differ, the specification is followed. It is stricter about spread (the
//!   domains that pools could offer count as empty ones, a new host is always possible) and looser about affinity: each term
//!   is looked at alone, a pod may be the first of its kind among the domains that its own node selector allows (spec 02 #98),
//!   and pods that are being deleted do not count.
//! * **Limits** must hold if each claim becomes the largest of its listed types, resource by resource.
//! * **Preferences** (soft affinity, soft spread, `PreferNoSchedule`, pool weights) break nothing.

mod accounting;
mod addable;
mod claims;
mod daemons;
mod existing;
mod launch;
mod limits;
mod pool_domains;
mod topology;
mod violation;

use crate::catalogue::Catalogue;
use crate::manifests::ClusterManifests;
use crate::plan::Plan;

pub use self::addable::addable_pods;
pub use self::topology::MAX_COMBINATIONS;
pub use self::violation::{PlanRule, Violation};

pub(crate) use self::claims::{min_values_shortfalls, unusable_volume_claim};
pub(crate) use self::daemons::DaemonPods;
pub(crate) use self::existing::{exceeded_volume_limits, node_mismatches, remaining_resources};
pub(crate) use self::launch::{PossibleLaunch, possible_launches};
pub(crate) use self::limits::pool_usage;
pub(crate) use self::pool_domains::PoolDomains;
pub(crate) use self::topology::{PlacementTarget, PodTargets, SpreadBound, Topology, cartesian_product, combinations};

/// Every constraint that the plan breaks; none if it is lawful.
pub fn check(world: &ClusterManifests, catalogue: &Catalogue, plan: &Plan) -> Vec<Violation> {
    let mut violations = accounting::check(world, plan);
    violations.extend(claims::check(world, catalogue, plan));
    violations.extend(existing::check(world, plan));
    violations.extend(limits::check(world, catalogue, plan));
    violations.extend(topology::check(world, catalogue, plan));
    violations
}

#[cfg(test)]
mod tests;
