//! The kinds of objects that the invariants need.

/// A kind of object that the checker receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum TrackedKind {
    Pod,
    Node,
    Claim,
    Pool,
    Budget,
}

impl TrackedKind {
    pub(in crate::sim) const ALL: [Self; 5] = [Self::Pod, Self::Node, Self::Claim, Self::Pool, Self::Budget];

    /// Returns API group and plural.
    pub(in crate::sim) fn resource(self) -> (&'static str, &'static str) {
        match self {
            Self::Pod => ("", "pods"),
            Self::Node => ("", "nodes"),
            Self::Claim => ("karpenter.sh", "nodeclaims"),
            Self::Pool => ("karpenter.sh", "nodepools"),
            Self::Budget => ("policy", "poddisruptionbudgets"),
        }
    }
}
