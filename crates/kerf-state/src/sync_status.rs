//! May we decide now, and if not, on what are we waiting (spec 04 §4.9)? The answer is a value, so that whoever waits can say why.

use std::fmt;

use kerf_api::slim::Str;

use crate::cluster::Cluster;
use crate::nodes::is_tracked;

/// The kinds that a decision cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequiredKind {
    /// NodePools.
    NodePools,
    /// NodeClaims.
    NodeClaims,
    /// Nodes.
    Nodes,
    /// Pods.
    Pods,
    /// DaemonSets.
    DaemonSets,
}

/// What is missing from the picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnsyncedReason {
    /// A kind whose list has not come yet.
    NotListed(RequiredKind),
    /// Claims that are not launched yet, by name.
    UnlaunchedClaims(Vec<Str>),
    /// Nodes of ours of which too little is known yet, by name.
    IncompleteNodes(Vec<Str>),
}

/// Whether the picture is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyncStatus {
    /// It is.
    Synced,
    /// It is not, for these reasons.
    Unsynced(Vec<UnsyncedReason>),
}

impl SyncStatus {
    /// Whether it may be decided.
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
        let (what, names) = match self {
            Self::NotListed(source) => return write!(f, "the list of {source}"),
            Self::UnlaunchedClaims(names) => ("the launch of", names),
            Self::IncompleteNodes(names) => ("provider ID and instance type of", names),
        };
        write!(f, "{what} {}", names.join(", "))
    }
}

impl Cluster {
    /// Whether the picture is whole. After the first time that it was, only claims without a machine make it incomplete again.
    pub fn check_synced(&mut self) -> SyncStatus {
        let mut waiting = self.unsynced_reasons();
        self.has_been_synced |= waiting.is_empty();
        if self.has_been_synced {
            waiting.retain(|what| matches!(what, UnsyncedReason::UnlaunchedClaims(_)));
        }
        if waiting.is_empty() { SyncStatus::Synced } else { SyncStatus::Unsynced(waiting) }
    }

    /// Whether the picture has ever been whole.
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
        let mut waiting: Vec<UnsyncedReason> = lists
            .into_iter()
            .filter(|(is_listed, _)| !is_listed)
            .map(|(_, source)| UnsyncedReason::NotListed(source))
            .collect();
        if !self.unlaunched.is_empty() {
            waiting.push(UnsyncedReason::UnlaunchedClaims(self.unlaunched.iter().cloned().collect()));
        }
        // Once it has been whole, this question is no longer asked; it looks at every node.
        if !self.has_been_synced {
            let unknown: Vec<Str> = self
                .nodes
                .values()
                .filter(|node| !is_tracked(node) && self.claims_of(&node.spec.provider_id).next().is_none())
                .map(|node| node.metadata.name.clone())
                .collect();
            if !unknown.is_empty() {
                waiting.push(UnsyncedReason::IncompleteNodes(unknown));
            }
        }
        waiting
    }
}
