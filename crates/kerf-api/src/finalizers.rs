//! The finalizers that Kerf sets, once (spec 01 §11.3). NodePools have none: deleting one deletes its claims by ownership.

/// On NodeClaims and Nodes: the machine must be drained and gone before the object may go.
pub const TERMINATION: &str = "karpenter.sh/termination";

/// Finalizers of the EC2 provider.
pub mod aws {
    /// On EC2NodeClasses: no NodeClaim may use the class, and what was made for it must be deleted.
    pub const TERMINATION: &str = "karpenter.k8s.aws/termination";
}
