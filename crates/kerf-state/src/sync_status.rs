//! Reports whether decisions may be made, and if not, what is missing (spec 04 §4.9). The reasons
//! are values, so that callers can log them.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::nodepool::NodePool;
use kerf_api::slim::Str;

use crate::cluster::Cluster;
use crate::nodes::is_complete_node;

/// Time for which the provisioner waits for the launch of a claim whose pods are known. Most claims
/// are launched within this time, and then other pods can use their free capacity.
const LAUNCH_WAIT: Duration = Duration::from_secs(10);

/// A kind that must be listed before the first decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequiredKind {
    /// The list of NodePools.
    NodePools,
    /// The list of NodeClaims.
    NodeClaims,
    /// The list of Nodes.
    Nodes,
    /// The list of Pods.
    Pods,
    /// The list of DaemonSets.
    DaemonSets,
}

/// A reason why cluster state is not synced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnsyncedReason {
    /// This kind has not been listed yet.
    NotListed(RequiredKind),
    /// Names of claims that have no provider ID yet and are not launched.
    UnlaunchedClaims(Vec<Str>),
    /// Names of nodes of a NodePool that lack a provider ID or an instance type label.
    IncompleteNodes(Vec<Str>),
}

/// Result of [`Cluster::check_synced`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyncStatus {
    /// Cluster state is complete: decisions may be made.
    Synced,
    /// Cluster state is incomplete, for these reasons. The list is not empty.
    Unsynced(Vec<UnsyncedReason>),
}

impl SyncStatus {
    /// Returns true if decisions may be made.
    pub fn is_synced(&self) -> bool {
        matches!(self, Self::Synced)
    }
}

impl fmt::Display for RequiredKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NodePools => "NodePools",
            Self::NodeClaims => "NodeClaims",
            Self::Nodes => "Nodes",
            Self::Pods => "Pods",
            Self::DaemonSets => "DaemonSets",
        })
    }
}

impl fmt::Display for UnsyncedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (missing, names) = match self {
            Self::NotListed(kind) => return write!(f, "the list of {kind}"),
            Self::UnlaunchedClaims(names) => ("the launch of", names),
            Self::IncompleteNodes(names) => ("provider ID and instance type of", names),
        };
        write!(f, "{missing} {}", names.join(", "))
    }
}

impl Cluster {
    /// Reports whether cluster state is synced. After the first sync, only unlaunched claims make
    /// it unsynced again.
    pub fn check_synced(&mut self) -> SyncStatus {
        let mut reasons = self.unsynced_reasons();
        self.has_been_synced |= reasons.is_empty();
        if self.has_been_synced {
            reasons.retain(|reason| matches!(reason, UnsyncedReason::UnlaunchedClaims(_)));
        }
        if reasons.is_empty() { SyncStatus::Synced } else { SyncStatus::Unsynced(reasons) }
    }

    /// Reports whether the provisioner may decide at `now`. It waits for unlaunched claims like all
    /// others, but for no longer than ten seconds for a claim whose pods are known: these pods stay
    /// assigned to the claim and are left out of the decision. A claim of a static pool has no
    /// pods. The pods of a claim that an earlier process created are not known.
    pub fn check_synced_for_provisioning(&mut self, now: Timestamp) -> SyncStatus {
        let SyncStatus::Unsynced(mut reasons) = self.check_synced() else { return SyncStatus::Synced };
        for reason in &mut reasons {
            if let UnsyncedReason::UnlaunchedClaims(names) = reason {
                names.retain(|name| self.must_await_launch(name, now));
            }
        }
        reasons.retain(|reason| !matches!(reason, UnsyncedReason::UnlaunchedClaims(names) if names.is_empty()));
        if reasons.is_empty() { SyncStatus::Synced } else { SyncStatus::Unsynced(reasons) }
    }

    fn must_await_launch(&self, name: &str, now: Timestamp) -> bool {
        let Some(claim) = self.claims.get(name) else { return false };
        let pool = claim.pool().and_then(|pool| self.get::<NodePool>(pool));
        let is_static = pool.is_some_and(|pool| pool.spec.replicas.is_some());
        if !is_static && !self.intents.is_created_here(name) {
            return true;
        }
        let created = claim.engine_claim.lifecycle.created;
        created.is_some_and(|created| now < created.saturating_add(LAUNCH_WAIT).unwrap_or(Timestamp::MAX))
    }

    /// Returns true if cluster state has ever been synced.
    pub fn has_been_synced(&self) -> bool {
        self.has_been_synced
    }

    fn unsynced_reasons(&self) -> Vec<UnsyncedReason> {
        let lists = [
            (self.pools.is_listed(), RequiredKind::NodePools),
            (self.claims.is_listed(), RequiredKind::NodeClaims),
            (self.nodes.is_listed(), RequiredKind::Nodes),
            (self.pods.is_listed(), RequiredKind::Pods),
            (self.daemon_sets.is_listed(), RequiredKind::DaemonSets),
        ];
        let mut reasons: Vec<UnsyncedReason> = lists
            .into_iter()
            .filter(|(is_listed, _)| !is_listed)
            .map(|(_, kind)| UnsyncedReason::NotListed(kind))
            .collect();
        if !self.unlaunched.is_empty() {
            reasons.push(UnsyncedReason::UnlaunchedClaims(self.unlaunched.iter().cloned().collect()));
        }
        // Needed only before the first sync, and expensive: it checks every node.
        if !self.has_been_synced {
            let incomplete: Vec<Str> = self
                .nodes
                .values()
                .filter(|node| !is_complete_node(node) && self.claims_of(&node.spec.provider_id).next().is_none())
                .map(|node| node.metadata.name.clone())
                .collect();
            if !incomplete.is_empty() {
                reasons.push(UnsyncedReason::IncompleteNodes(incomplete));
            }
        }
        reasons
    }
}
