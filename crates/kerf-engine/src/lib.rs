//! Kerf's decisions. Given a cluster (nodes, pods, NodePools, instance types), the engine decides
//! on which nodes pods run, which nodes to launch and which to remove. It gives a reason for every
//! pod that stays pending and every node that stays.
//!
//! The engine is pure: no IO, clock, randomness of its own, logs or async. Equal input and seed
//! give equal results on every computer and for any number of threads. Entry points return no
//! `Result`: problems of the input are part of the result.
//!
//! Entry points:
//! - [`solve()`] places pods: an [`Input`] and [`Settings`] in, a [`Solution`] out. A caller that
//!   solves often keeps an [`IncrementalSolver`] up to date instead. [`solve_passes`] plans ahead:
//!   it repeats this until a pass places no pod.
//! - [`disrupt()`] plans the removal and replacement of nodes: an [`Input`] and
//!   [`DisruptionSettings`] in, a [`DisruptionPlan`] out. Controllers call [`next_commands`] and
//!   [`validate_all`].

mod bits;
pub mod catalogue;
mod cluster;
mod disrupt;
mod explain;
mod intern;
mod pod;
mod price;
mod provisioning_passes;
pub mod requirement;
mod requirement_table;
mod resources;
mod seeded_hash;
mod solve;
mod topology;

pub use cluster::selection::is_provisionable;
pub use cluster::{
    Effort, Input, MinValuesPolicy, NodeClaimInput, PoolAvailability, PoolInput, PoolRequirement, PreferencePolicy,
    ReservedMode, Settings, UnsupportedStorage,
};
pub use disrupt::{
    BalancedScore, BlockReason, BlockedNode, BudgetUse, ClaimLifecycle, CommandNode, Consolidatable, DisruptionCommand,
    DisruptionPlan, DisruptionSettings, DisruptionStats, InputWarning, LaunchBackoff, Method, MethodFilter,
    MethodReport, Passes, PoolDisruption, RejectedCommand, TemplateHash, ValidationFailure, blocked_by_budget,
    budget_selects, claim_from_template, consolidatable, consolidation_deferred_until, disrupt, drift_reason,
    eviction_cost, expires_at, is_large_wave, must_verify_type, next_commands, validate, validate_all,
    with_commands_done,
};
pub use explain::{OtherProviderPools, PlacementRule, PoolRejection, Reason};
pub use pod::relax::Relaxation;
pub use pod::requests::{pod_limits, pod_requests};
pub use price::Price;
pub use provisioning_passes::{ProvisioningPlan, solve_passes};
pub use solve::{
    EffectiveZone, IncrementalSolver, LaunchEstimate, LaunchFacts, LaunchOptions, LaunchWait, NodePlacement,
    PlannedClaim, PoolWithoutTypes, RelaxedPod, Solution, SolveStats, TypesBeyondLimits, UnplacedPod, solve,
};

// The unit tests share the fixture of the integration tests.
#[cfg(test)]
extern crate self as kerf_engine;
#[cfg(test)]
use it::fixture;
#[cfg(test)]
#[path = "../tests/it"]
mod it {
    #[allow(dead_code, unused_imports, reason = "a fixture that two test suites share")]
    pub(crate) mod fixture;
}
