//! Block reasons: why a node is not disrupted. A closed set of codes (`docs/reasons.md`), each with
//! the sentence of spec 03 §5, §6 and §8.

use std::fmt;

use jiff::Timestamp;
use kerf_api::nodepool::DisruptionReason;
use kerf_api::slim::Str;

/// A reason why a node is not disrupted. A node can have several.
#[derive(Debug, Clone, PartialEq)]
pub enum BlockReason {
    /// An active command already removes the node.
    AlreadyDisrupting,
    /// The node has no NodeClaim, so Kerf does not manage it.
    NotManaged,
    /// The node class of the node's pool belongs to this API group, which another controller serves.
    OtherProvider(Str),
    /// The claim has no Node.
    NoNode,
    /// The Node is not initialized.
    NotInitialized,
    /// The node is being deleted or is marked for deletion.
    Deleting,
    /// Pods are expected to be bound to the node soon.
    Nominated,
    /// The Node has the annotation `karpenter.sh/do-not-disrupt`.
    DoNotDisrupt,
    /// The NodePool has the annotation `kerf.sh/pause-disruption`.
    Paused {
        /// Name of the NodePool.
        pool: Str,
        /// End of the pause. [`Timestamp::MAX`] if the annotation gives no end.
        until: Timestamp,
    },
    /// The node has no label `karpenter.sh/nodepool`.
    NoPoolLabel,
    /// The NodePool with this name does not exist or has no instance types.
    PoolNotFound(Str),
    /// This pod has the annotation `karpenter.sh/do-not-disrupt`.
    PodDoNotDisrupt(Str),
    /// A PodDisruptionBudget currently allows no eviction of a pod.
    PodDisruptionBudget {
        /// `namespace/name` of the budget.
        budget: Str,
        /// `namespace/name` of the first pod that the budget protects.
        pod: Str,
    },
    /// A pod is selected by more than one PodDisruptionBudget, which the eviction API does not
    /// support.
    MultiplePodDisruptionBudgets(Vec<Str>),
    /// This PodDisruptionBudget in a pod's namespace has an invalid selector, so it may protect the
    /// pod.
    InvalidPodDisruptionBudget(Str),
    /// This NodePool is static: its nodes are replaced when they drift, and never removed to save
    /// money.
    StaticPool(Str),
    /// This NodePool has `consolidateAfter: Never`.
    ConsolidationDisabled(Str),
    /// A capacity buffer keeps free capacity on this node.
    BufferPods(Str),
    /// This instance type is not in the pool's catalogue.
    InstanceTypeNotFound(Str),
    /// The node lacks this label, without which its price is unknown.
    MissingLabel(&'static str),
    /// This NodePool consolidates empty nodes only.
    OnlyWhenEmpty(Str),
    /// The pool's `consolidateAfter` has not passed since the last pod event.
    InConsolidateAfter {
        /// End of the wait.
        until: Timestamp,
    },
    /// The claim's own condition `Initialized` is not True.
    ClaimNotInitialized,
    /// The budgets of the NodePool allow no further disruption for this reason.
    DisruptionBudget(DisruptionReason),
    /// Replacements for drifted nodes of the NodePool failed, so drift waits.
    DriftBackoff {
        /// End of the wait.
        until: Timestamp,
    },
    /// As many drifted nodes of the NodePool are being replaced at once as may be.
    DriftSurge,
    /// This static NodePool has more nodes than replicas. The surplus is deleted before drift
    /// continues.
    ScaleDownFirst(Str),
    /// The node limit of this static NodePool does not allow another node for a replacement.
    NodeLimit(Str),
    /// Some of the node's pods could not be scheduled elsewhere. The sentence names them.
    PodsUnschedulable(String),
    /// A command of this plan launches the node. It could be removed later, but no command of the
    /// same plan removes it.
    LaunchedByPlan,
    /// The node's pods would need this many new nodes, and the method allows only one.
    TooManyReplacements(usize),
    /// No instance type that fits the pods is cheaper.
    NoCheaperReplacement,
    /// Removing the node would save nothing.
    NoSaving,
    /// The node is spot, and `SpotToSpotConsolidation` is disabled.
    SpotToSpotDisabled,
    /// Only this many cheaper instance types exist, too few to replace a spot node by a spot node.
    SpotToSpotFlexibility(usize),
    /// The cheaper instance types do not satisfy the pool's `minValues`.
    MinValues(String),
    /// Under the `Balanced` policy the savings do not outweigh the disruption.
    BelowBalancedThreshold {
        /// Share of the savings divided by share of the disruption.
        score: f64,
    },
}

/// Minimum score at which the `Balanced` policy approves a command (spec 03 §8.8).
pub(crate) const BALANCED_THRESHOLD: f64 = 0.5;
/// Minimum number of cheaper instance types for replacing a spot node by a spot node.
pub(crate) const SPOT_TO_SPOT_MIN_TYPES: usize = 15;

impl BlockReason {
    /// Returns the stable code. Codes are documented in `docs/reasons.md` and never change.
    pub fn code(&self) -> &'static str {
        match self {
            Self::AlreadyDisrupting => "AlreadyDisrupting",
            Self::NotManaged => "NotManaged",
            Self::OtherProvider(_) => "OtherProvider",
            Self::NoNode => "NoNode",
            Self::NotInitialized | Self::ClaimNotInitialized => "NotInitialized",
            Self::Deleting => "Deleting",
            Self::Nominated => "Nominated",
            Self::DoNotDisrupt => "DoNotDisrupt",
            Self::Paused { .. } => "Paused",
            Self::NoPoolLabel => "NoNodePoolLabel",
            Self::PoolNotFound(_) => "NodePoolNotFound",
            Self::PodDoNotDisrupt(_) => "PodDoNotDisrupt",
            Self::PodDisruptionBudget { .. } => "PodDisruptionBudget",
            Self::MultiplePodDisruptionBudgets(_) => "MultiplePodDisruptionBudgets",
            Self::InvalidPodDisruptionBudget(_) => "InvalidPodDisruptionBudget",
            Self::StaticPool(_) => "StaticNodePool",
            Self::ConsolidationDisabled(_) => "ConsolidationDisabled",
            Self::BufferPods(_) => "BufferPods",
            Self::InstanceTypeNotFound(_) => "InstanceTypeNotFound",
            Self::MissingLabel(_) => "MissingLabel",
            Self::OnlyWhenEmpty(_) => "ConsolidationPolicy",
            Self::InConsolidateAfter { .. } => "ConsolidateAfter",
            Self::DisruptionBudget(_) => "DisruptionBudget",
            Self::DriftBackoff { .. } => "DriftBackoff",
            Self::DriftSurge => "DriftSurge",
            Self::ScaleDownFirst(_) => "ScaleDownFirst",
            Self::NodeLimit(_) => "NodeLimit",
            Self::PodsUnschedulable(_) => "PodsUnschedulable",
            Self::LaunchedByPlan => "LaunchedByPlan",
            Self::TooManyReplacements(_) => "TooManyReplacements",
            Self::NoCheaperReplacement => "NoCheaperReplacement",
            Self::NoSaving => "NoSaving",
            Self::SpotToSpotDisabled => "SpotToSpotDisabled",
            Self::SpotToSpotFlexibility(_) => "SpotToSpotFlexibility",
            Self::MinValues(_) => "ReplacementMinValues",
            Self::BelowBalancedThreshold { .. } => "BalancedScore",
        }
    }

    /// Returns the time at which the block ends by itself. Returns `None` if only a change of the
    /// cluster can end it. The disruption controller starts its next pass no later than this time.
    pub fn ends_at(&self) -> Option<Timestamp> {
        match self {
            Self::Paused { until, .. } | Self::InConsolidateAfter { until } | Self::DriftBackoff { until } => {
                Some(*until)
            }
            Self::AlreadyDisrupting
            | Self::NotManaged
            | Self::OtherProvider(_)
            | Self::NoNode
            | Self::NotInitialized
            | Self::Deleting
            | Self::Nominated
            | Self::DoNotDisrupt
            | Self::NoPoolLabel
            | Self::PoolNotFound(_)
            | Self::PodDoNotDisrupt(_)
            | Self::PodDisruptionBudget { .. }
            | Self::MultiplePodDisruptionBudgets(_)
            | Self::InvalidPodDisruptionBudget(_)
            | Self::StaticPool(_)
            | Self::ConsolidationDisabled(_)
            | Self::BufferPods(_)
            | Self::InstanceTypeNotFound(_)
            | Self::MissingLabel(_)
            | Self::OnlyWhenEmpty(_)
            | Self::ClaimNotInitialized
            | Self::DisruptionBudget(_)
            | Self::DriftSurge
            | Self::ScaleDownFirst(_)
            | Self::NodeLimit(_)
            | Self::PodsUnschedulable(_)
            | Self::LaunchedByPlan
            | Self::TooManyReplacements(_)
            | Self::NoCheaperReplacement
            | Self::NoSaving
            | Self::SpotToSpotDisabled
            | Self::SpotToSpotFlexibility(_)
            | Self::MinValues(_)
            | Self::BelowBalancedThreshold { .. } => None,
        }
    }

    /// Returns true if a pod causes the block. Drift ignores such a block if the claim has a
    /// termination grace period (spec 03 §5.3).
    pub(crate) fn is_caused_by_pods(&self) -> bool {
        matches!(
            self,
            Self::PodDoNotDisrupt(_)
                | Self::PodDisruptionBudget { .. }
                | Self::MultiplePodDisruptionBudgets(_)
                | Self::InvalidPodDisruptionBudget(_)
        )
    }
}

impl BlockReason {
    /// Returns true if a report need not list both. Of all pods that one budget protects, a report
    /// names only the first.
    pub(crate) fn has_same_text(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::PodDisruptionBudget { budget, .. }, Self::PodDisruptionBudget { budget: other, .. }) => {
                budget == other
            }
            (this, other) => this == other,
        }
    }
}

impl fmt::Display for BlockReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyDisrupting => f.write_str("Candidate is already being disrupted"),
            Self::NotManaged => f.write_str("Node isn't managed by karpenter"),
            Self::OtherProvider(group) => {
                write!(f, "Node belongs to a NodePool of another provider (node class group={group})")
            }
            Self::NoNode => f.write_str("Nodeclaim does not have an associated node"),
            Self::NotInitialized => f.write_str("Node isn't initialized"),
            Self::ClaimNotInitialized => f.write_str("Nodeclaim isn't initialized"),
            Self::Deleting => f.write_str("Node is deleting or marked for deletion"),
            Self::Nominated => f.write_str("Node is nominated for a pending pod"),
            Self::DoNotDisrupt => {
                f.write_str("Disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation")
            }
            Self::Paused { pool, until } if *until == Timestamp::MAX => {
                write!(f, "Disruption is paused through the \"kerf.sh/pause-disruption\" annotation (NodePool={pool})")
            }
            Self::Paused { pool, until } => write!(
                f,
                "Disruption is paused until {until} through the \"kerf.sh/pause-disruption\" annotation (NodePool={pool})"
            ),
            Self::NoPoolLabel => f.write_str("Node doesn't have required label (label=karpenter.sh/nodepool)"),
            Self::PoolNotFound(pool) => write!(f, "NodePool not found (NodePool={pool})"),
            Self::PodDoNotDisrupt(pod) => {
                write!(f, "Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod={pod})")
            }
            Self::PodDisruptionBudget { budget, .. } => {
                write!(f, "Pdb prevents pod evictions (PodDisruptionBudget=[{budget}])")
            }
            Self::MultiplePodDisruptionBudgets(budgets) => {
                let names: Vec<&str> = budgets.iter().map(Str::as_str).collect();
                write!(f, "Eviction does not support multiple PDBs (PodDisruptionBudget(s)=[{}])", names.join(" "))
            }
            Self::InvalidPodDisruptionBudget(budget) => {
                write!(f, "Pdb has an invalid selector (PodDisruptionBudget=[{budget}])")
            }
            Self::StaticPool(pool) => {
                write!(f, "NodePool \"{pool}\" is static, its nodes are replaced only when they drift")
            }
            Self::ConsolidationDisabled(pool) => write!(f, "NodePool \"{pool}\" has consolidation disabled"),
            Self::BufferPods(node) => write!(f, "Node \"{node}\" has buffer pods"),
            Self::InstanceTypeNotFound(name) => write!(f, "Instance Type \"{name}\" not found"),
            Self::MissingLabel(key) => write!(f, "Node does not have label \"{key}\""),
            Self::OnlyWhenEmpty(pool) => {
                write!(f, "NodePool \"{pool}\" has consolidation policy WhenEmpty, but node is not empty")
            }
            Self::InConsolidateAfter { until } => {
                write!(f, "ConsolidateAfter window not yet elapsed, it ends at {until}")
            }
            Self::DisruptionBudget(reason) => {
                write!(f, "No allowed disruptions for disruption reason {reason} due to blocking budget")
            }
            Self::DriftBackoff { until } => write!(f, "Replacements of drifted nodes failed, next attempt at {until}"),
            Self::DriftSurge => f.write_str("The replacements of other drifted nodes are being launched"),
            Self::ScaleDownFirst(pool) => write!(f, "NodePool \"{pool}\" has more nodes than replicas"),
            Self::NodeLimit(pool) => write!(f, "The node limit of NodePool \"{pool}\" does not allow a replacement"),
            Self::PodsUnschedulable(text) => f.write_str(text),
            Self::LaunchedByPlan => {
                f.write_str("A command of this plan launches the node, a later plan could remove it")
            }
            Self::TooManyReplacements(count) => write!(f, "Can't remove without creating {count} candidates"),
            Self::NoCheaperReplacement => f.write_str("Can't replace with a cheaper node"),
            Self::NoSaving => f.write_str("Removing the node saves nothing"),
            Self::SpotToSpotDisabled => {
                f.write_str("SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node")
            }
            Self::SpotToSpotFlexibility(count) => write!(
                f,
                "SpotToSpotConsolidation requires {SPOT_TO_SPOT_MIN_TYPES} cheaper instance type options than the current \
                 candidate to consolidate, got {count}"
            ),
            Self::MinValues(text) => write!(f, "Filtering by price: {text}"),
            Self::BelowBalancedThreshold { score } => {
                write!(f, "Score {score:.2} < threshold {BALANCED_THRESHOLD:.2} of consolidation policy Balanced")
            }
        }
    }
}

/// Returns the text with its first letter in upper case, as Events need it.
pub(crate) fn capitalize_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_documented() {
        let documented = include_str!("../../../../docs/reasons.md");
        let (_, documented) = documented.split_once("## Nodes that stay").unwrap_or_default();
        let (documented, _) = documented.split_once("## Why a command waits").unwrap_or_default();
        let (name, at) = (Str::default, Timestamp::UNIX_EPOCH);
        let all = [
            BlockReason::AlreadyDisrupting,
            BlockReason::NotManaged,
            BlockReason::OtherProvider(name()),
            BlockReason::NoNode,
            BlockReason::NotInitialized,
            BlockReason::ClaimNotInitialized,
            BlockReason::Deleting,
            BlockReason::Nominated,
            BlockReason::DoNotDisrupt,
            BlockReason::Paused { pool: name(), until: at },
            BlockReason::NoPoolLabel,
            BlockReason::PoolNotFound(name()),
            BlockReason::PodDoNotDisrupt(name()),
            BlockReason::PodDisruptionBudget { budget: name(), pod: name() },
            BlockReason::MultiplePodDisruptionBudgets(Vec::new()),
            BlockReason::InvalidPodDisruptionBudget(name()),
            BlockReason::StaticPool(name()),
            BlockReason::ConsolidationDisabled(name()),
            BlockReason::BufferPods(name()),
            BlockReason::InstanceTypeNotFound(name()),
            BlockReason::MissingLabel(""),
            BlockReason::OnlyWhenEmpty(name()),
            BlockReason::InConsolidateAfter { until: at },
            BlockReason::DisruptionBudget(DisruptionReason::Empty),
            BlockReason::DriftBackoff { until: at },
            BlockReason::DriftSurge,
            BlockReason::ScaleDownFirst(name()),
            BlockReason::NodeLimit(name()),
            BlockReason::PodsUnschedulable(String::new()),
            BlockReason::LaunchedByPlan,
            BlockReason::TooManyReplacements(0),
            BlockReason::NoCheaperReplacement,
            BlockReason::NoSaving,
            BlockReason::SpotToSpotDisabled,
            BlockReason::SpotToSpotFlexibility(0),
            BlockReason::MinValues(String::new()),
            BlockReason::BelowBalancedThreshold { score: 0.0 },
        ];
        let mut codes: Vec<&str> = all.iter().map(BlockReason::code).collect();
        codes.sort_unstable();
        codes.dedup();
        for code in &codes {
            assert!(documented.contains(&format!("| `{code}` |")), "docs/reasons.md lacks {code}");
        }
        let rows = documented.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, codes.len(), "docs/reasons.md names a code that does not exist");
    }

    // spec 03 §2.2
    #[test]
    fn blocks_with_an_end_report_it() {
        let until = Timestamp::UNIX_EPOCH;
        let timed = [
            BlockReason::Paused { pool: Str::default(), until },
            BlockReason::InConsolidateAfter { until },
            BlockReason::DriftBackoff { until },
        ];
        assert!(timed.iter().all(|reason| reason.ends_at() == Some(until)));
        assert_eq!(BlockReason::Nominated.ends_at(), None);
    }

    #[test]
    fn sentences_begin_with_a_capital() {
        assert_eq!(capitalize_first("not all pods"), "Not all pods");
        assert_eq!(capitalize_first(""), "");
    }
}
