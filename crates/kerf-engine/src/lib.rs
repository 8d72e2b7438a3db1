//! Decisions. Given a world (nodes, pods, pools, instance types) the engine says which pods go where, which machines
//! to launch and which to take away; for everything that it does not do it can say why.
//!
//! It is pure: no IO, no clock, no randomness of its own, no logs, no async. The same input and seed give the same
//! answer on every machine and for any number of threads. Because it touches nothing outside, it cannot fail: trouble in
//! the input is part of the answer.
//!
//! There are two front doors: [`solve()`], an [`Input`] and [`Settings`] in, a [`Solution`] out; and [`disrupt()`], with
//! [`DisruptionSettings`] in and a [`DisruptionPlan`] out. Who asks [`solve()`]'s question often keeps a [`Prepared`] cluster up to date
//! and asks that.

mod bits;
pub mod catalogue;
mod cluster;
mod disrupt;
mod explain;
mod intern;
mod pod;
mod price;
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
    MethodReport, Passes, PoolDisruption, RejectedCommand, TemplateHash, ValidationFailure, claim_from_template,
    consolidatable, consolidation_deferred_until, disrupt, drift_reason, eviction_cost, expires_at, is_large_wave,
    must_verify_type, next_commands, validate, validate_all, with_commands_done,
};
pub use explain::{Funnel, FunnelRule, FunnelStep, PlacementRule, PoolFunnel, PoolRejection, Reason, funnel};
pub use pod::relax::Relaxation;
pub use pod::requests::{pod_limits, pod_requests};
pub use price::Price;
pub use solve::{
    EffectiveZone, IncrementalSolver, LaunchEstimate, LaunchOptions, NodePlacement, PlannedClaim, PoolWithoutTypes,
    RelaxedPod, Solution, SolveStats, TypesBeyondLimits, UnplacedPod, solve,
};

// The unit tests share the fixture of the integration tests.
#[cfg(test)]
extern crate self as kerf_engine;
#[cfg(test)]
#[path = "../tests/it"]
mod it {
    #[allow(dead_code, unused_imports, clippy::unwrap_used, reason = "a fixture that two test suites share")]
    pub(crate) mod fixture;
}
#[cfg(test)]
use it::fixture;
