//! Reasons why a pod stays pending: a closed set of stable codes (`docs/reasons.md`), each with a
//! sentence.

use std::fmt;

use jiff::Timestamp;
use kerf_api::slim::Str;

/// The reason why a pod stays pending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The pod requires a node that belongs to no NodePool.
    OptedOut {
        /// Further problems of the pod.
        further: Vec<String>,
    },
    /// The pod's spec breaks a rule, which the text names.
    Invalid(String),
    /// A PersistentVolumeClaim of the pod cannot be used.
    Volume(String),
    /// There is no NodePool that accepts pods.
    NoPools,
    /// The NodePools' own requirements leave no instance type.
    NoTypes,
    /// The pod requests devices by Dynamic Resource Allocation, which Kerf does not support.
    DynamicResources,
    /// Other pods hold the reservations that the pod could use. The next pass tries again.
    ReservedCapacityDeferred,
    /// Pods of this owner did not start on the nodes that were launched for them. No node is
    /// launched for the owner's pods before a time.
    LaunchBackoff {
        /// Number of nodes in a row on which none of the pods started.
        nodes: u32,
        /// End of the wait.
        until: Timestamp,
    },
    /// After the list of instance types is cut to the maximum length of a claim, the pool's
    /// `minValues` are not satisfied.
    MinValuesAfterTruncation {
        /// Name of the NodePool.
        pool: Str,
        /// The label keys with too few values.
        keys: Vec<Str>,
    },
    /// No NodePool accepts the pod. One rejection per pool, in the order in which the pools are
    /// tried.
    RejectedByAllPools(Vec<PoolRejection>),
    /// Only a NodePool of another provider could serve the pod. One rejection per NodePool that
    /// Kerf serves; all are by taints or labels.
    OtherProvider(Vec<PoolRejection>),
}

/// The reason why one NodePool does not accept a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolRejection {
    /// Name of the NodePool.
    pub pool: Str,
    /// The rule that rejects the pod.
    pub rule: PlacementRule,
    /// The sentence of spec 02.
    pub text: String,
}

/// The rule by which a NodePool rejects a pod, ordered from the least to the most informative one.
/// [`Reason::code`] is the code of the last rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlacementRule {
    /// The pod does not tolerate a taint of the pool.
    Taint,
    /// The pod requires labels that nodes of the pool cannot have.
    Requirements,
    /// The pool's limits are reached or too small.
    Limits,
    /// The pod's volumes require labels that nodes of the pool cannot have.
    VolumeTopology,
    /// A spread, affinity or anti-affinity constraint cannot be satisfied.
    Topology,
    /// No instance type fits or has an available offering.
    InstanceTypes,
    /// The remaining instance types do not satisfy `minValues`.
    MinValues,
    /// A daemon uses the pod's host port on every instance type.
    HostPorts,
}

impl Reason {
    /// Returns the stable code. Codes are documented in `docs/reasons.md` and never change.
    pub fn code(&self) -> &'static str {
        match self {
            Self::OptedOut { .. } => "OptedOut",
            Self::Invalid(_) => "InvalidPod",
            Self::Volume(_) => "VolumeNotUsable",
            Self::NoPools => "NoNodePool",
            Self::NoTypes => "NoInstanceTypes",
            Self::DynamicResources => "DynamicResourcesNotSupported",
            Self::ReservedCapacityDeferred => "ReservedCapacityDeferred",
            Self::LaunchBackoff { .. } => "LaunchBackoff",
            Self::MinValuesAfterTruncation { .. } => "MinValuesNotMet",
            Self::OtherProvider(_) => "OtherProvider",
            // The rejection by the latest rule is the most informative one: an instance type that
            // is too small matters more than a pool that is meant for other pods.
            Self::RejectedByAllPools(rejections) => {
                rejections.iter().map(|r| r.rule).max().map_or("NoNodePool", PlacementRule::code)
            }
        }
    }

    /// Returns true if the reason concerns NodePools, so that those of other providers are worth
    /// mentioning.
    pub(crate) fn is_about_pools(&self) -> bool {
        match self {
            Self::NoPools
            | Self::NoTypes
            | Self::MinValuesAfterTruncation { .. }
            | Self::RejectedByAllPools(_)
            | Self::OtherProvider(_) => true,
            Self::OptedOut { .. }
            | Self::Invalid(_)
            | Self::Volume(_)
            | Self::DynamicResources
            | Self::ReservedCapacityDeferred
            | Self::LaunchBackoff { .. } => false,
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
            Self::LaunchBackoff { nodes, until } => write!(
                f,
                "none of these pods started on the last {nodes} nodes that were launched for them, the next node is \
                 launched after {until}"
            ),
            Self::MinValuesAfterTruncation { pool, keys } => write!(
                f,
                "pod didn\u{2019}t schedule because NodePool couldn\u{2019}t meet minValues requirements, validating \
                 minValues, {} (NodePool={pool})",
                min_values_text(keys)
            ),
            Self::OtherProvider(rejections) if rejections.is_empty() => f.write_str("no dynamic nodepools found"),
            Self::RejectedByAllPools(rejections) | Self::OtherProvider(rejections) => {
                let texts: Vec<&str> = rejections.iter().map(|r| r.text.as_str()).collect();
                f.write_str(&texts.join("; "))
            }
        }
    }
}

/// Returns the sentence of spec 02 §3.9.
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
            Reason::LaunchBackoff { nodes: 3, until: Timestamp::UNIX_EPOCH },
            Reason::MinValuesAfterTruncation { pool: Str::default(), keys: Vec::new() },
            Reason::OtherProvider(Vec::new()),
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
