//! Checks a plan for pending pods: returns every constraint that the plan breaks, with the numbers.
//!
//! The rules, where more than one reading is possible:
//!
//! - **A claim is checked by what it allows, not by what is likely.** Its *launches* are all pairs
//!   of a listed instance type and a launchable offering whose labels satisfy the requirements of
//!   the claim and of its pool. Every listed type must have a launch. On every launch, every pod of
//!   the claim must fit, together with the DaemonSet pods that will run there. Each pod must match
//!   the node's labels, tolerate its taints and be able to use its volumes there.
//! - **Undecided zones.** While a claim allows several zones (or capacity types, or values of any
//!   label that a rule between pods uses), the provider may launch it in each of them,
//!   independently of other claims. So rules between pods (spread, affinity, anti-affinity) must
//!   hold *for every combination* of choices. Pods with anti-affinity need claims with disjoint
//!   domains. A pod with affinity needs a matching pod on the same node, or both in one decided
//!   domain. A pod with a spread normally needs a claim with one domain. All combinations are tried
//!   up to [`MAX_COMBINATIONS`]; beyond that, the combination of the estimates and a fixed random
//!   sample. Only claims with pods that a rule concerns are varied.
//! - **Some order.** For one combination, the rules between pods hold if the pods can be bound one
//!   after the other in some order, so that each pod is allowed on its node when it is bound. A
//!   plan has no order, and kube-scheduler chooses its own. Pods without constraints come last in
//!   the search.
//! - **Specification before scheduler.** Where spec 02 and kube-scheduler differ, the specification
//!   applies. It is stricter about spread: domains that pools could offer count as empty domains,
//!   and a new host is always possible. It is looser about affinity: each term is checked alone, a
//!   pod may be the first match of its own term among the domains that its node selector allows
//!   (spec 02 #98), and pods that are being deleted do not count.
//! - **Limits** must hold if each claim is launched as the largest of its listed types, for each
//!   resource separately.
//! - **Preferences** (preferred affinity, `ScheduleAnyway`, `PreferNoSchedule`, pool weights) are
//!   never violations.

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

/// Returns every constraint that the plan breaks; empty if it breaks none.
pub fn check(cluster: &ClusterManifests, catalogue: &Catalogue, plan: &Plan) -> Vec<Violation> {
    let mut violations = accounting::check(cluster, plan);
    violations.extend(claims::check(cluster, catalogue, plan));
    violations.extend(existing::check(cluster, plan));
    violations.extend(limits::check(cluster, catalogue, plan));
    violations.extend(topology::check(cluster, catalogue, plan));
    violations
}

#[cfg(test)]
mod tests;
