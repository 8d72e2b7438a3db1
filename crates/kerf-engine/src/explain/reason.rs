//! The reasons themselves: a closed set of codes that scripts may rely on (`docs/reasons.md`), each with its sentence.

use std::fmt;

use kerf_api::slim::Str;

/// Why a pod stays pending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The pod demands not to run on a node of a pool.
    OptedOut {
        /// What else is wrong with it.
        further: Vec<String>,
    },
    /// The pod's demands break a rule; the text says which.
    Invalid(String),
    /// A persistent volume claim of the pod cannot be used.
    Volume(String),
    /// There is no pool that takes pods.
    NoPools,
    /// The pools' own requirements leave no instance type.
    NoTypes,
    /// The pod asks for devices by DRA, which are not looked at.
    DynamicResources,
    /// A reservation that the pod could use is spoken for in this pass; it is tried again.
    ReservedCapacityDeferred,
    /// With its types cut to the most that a claim may list, the pool's `minValues` are not met.
    MinValuesAfterTruncation {
        /// The pool.
        pool: Str,
        /// The keys that fall short.
        keys: Vec<Str>,
    },
    /// No pool accepts the pod; one refusal per pool, in the order in which they were tried.
    RejectedByAllPools(Vec<PoolRejection>),
}

/// Why one pool does not accept a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolRejection {
    /// The pool.
    pub pool: Str,
    /// The rule that it failed.
    pub rule: PlacementRule,
    /// The sentence of spec 02.
    pub text: String,
}

/// The rule that a pool's refusal comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlacementRule {
    /// A taint is not tolerated.
    Taint,
    /// Labels that the pool's nodes cannot have.
    Requirements,
    /// The pool's limits are used up or too small.
    Limits,
    /// Volumes are elsewhere.
    VolumeTopology,
    /// A spread, affinity or anti-affinity cannot be kept.
    Topology,
    /// No type fits, or none is on offer.
    InstanceTypes,
    /// Too few distinct values are left.
    MinValues,
    /// A host port is taken on every type.
    HostPorts,
}

impl Reason {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::OptedOut { .. } => "OptedOut",
            Self::Invalid(_) => "InvalidPod",
            Self::Volume(_) => "VolumeNotUsable",
            Self::NoPools => "NoNodePool",
            Self::NoTypes => "NoInstanceTypes",
            Self::DynamicResources => "DynamicResourcesNotSupported",
            Self::ReservedCapacityDeferred => "ReservedCapacityDeferred",
            Self::MinValuesAfterTruncation { .. } => "MinValuesNotMet",
            // The pool that came furthest says most: a type that is too small matters more than a pool meant for others.
            Self::RejectedByAllPools(refusals) => {
                refusals.iter().map(|r| r.rule).max().map_or("NoNodePool", PlacementRule::code)
            }
        }
    }
}

impl PlacementRule {
    fn code(self) -> &'static str {
        match self {
            Self::Taint => "TaintNotTolerated",
            Self::Requirements => "IncompatibleRequirements",
            Self::Limits => "LimitExceeded",
            Self::VolumeTopology => "VolumeTopology",
            Self::Topology => "TopologyUnsatisfiable",
            Self::InstanceTypes => "NoInstanceTypeFits",
            Self::MinValues => "MinValuesNotMet",
            Self::HostPorts => "HostPortConflict",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OptedOut { further } => {
                f.write_str(
                    "configured to not run on a Karpenter provisioned node (requirement=karpenter.sh/nodepool DoesNotExist)",
                )?;
                further.iter().try_for_each(|problem| write!(f, "; {problem}"))
            }
            Self::Invalid(text) | Self::Volume(text) => f.write_str(text),
            Self::NoPools => f.write_str("no dynamic nodepools found"),
            Self::NoTypes => f.write_str("nodepool requirements filtered out all available instance types"),
            Self::DynamicResources => f.write_str(
                "pod has Dynamic Resource Allocation requirements that are not yet supported by Karpenter",
            ),
            Self::ReservedCapacityDeferred => f.write_str(
                "one or more instance types with compatible reserved offerings are available, but could not be reserved",
            ),
            Self::MinValuesAfterTruncation { pool, keys } => write!(
                f,
                "pod didn\u{2019}t schedule because NodePool couldn\u{2019}t meet minValues requirements, validating \
                 minValues, {} (NodePool={pool})",
                min_values_text(keys)
            ),
            Self::RejectedByAllPools(refusals) => {
                let texts: Vec<&str> = refusals.iter().map(|r| r.text.as_str()).collect();
                f.write_str(&texts.join("; "))
            }
        }
    }
}

/// The sentence of spec 02 §3.9.
pub(crate) fn min_values_text(keys: &[Str]) -> String {
    let keys: Vec<&str> = keys.iter().map(Str::as_str).collect();
    format!("minValues requirement is not met for label(s) (label(s)=[{}])", keys.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_documented() {
        let documented = include_str!("../../../../docs/reasons.md");
        let documented = documented.split("## Nodes that stay").next().unwrap_or_default();
        let pool =
            |rule| Reason::RejectedByAllPools(vec![PoolRejection { pool: Str::default(), rule, text: String::new() }]);
        let rules = [
            PlacementRule::Taint,
            PlacementRule::Requirements,
            PlacementRule::Limits,
            PlacementRule::VolumeTopology,
            PlacementRule::Topology,
            PlacementRule::InstanceTypes,
            PlacementRule::MinValues,
            PlacementRule::HostPorts,
        ];
        let reasons = [
            Reason::OptedOut { further: Vec::new() },
            Reason::Invalid(String::new()),
            Reason::Volume(String::new()),
            Reason::NoPools,
            Reason::NoTypes,
            Reason::DynamicResources,
            Reason::ReservedCapacityDeferred,
            Reason::MinValuesAfterTruncation { pool: Str::default(), keys: Vec::new() },
        ];
        let all: Vec<&str> = reasons.iter().map(Reason::code).chain(rules.map(|r| pool(r).code())).collect();
        for code in &all {
            assert!(documented.contains(&format!("| `{code}` |")), "docs/reasons.md lacks {code}");
        }
        let rows = documented.lines().filter(|line| line.starts_with("| `")).count();
        let mut distinct = all;
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(rows, distinct.len(), "docs/reasons.md names a code that does not exist");
    }
}
