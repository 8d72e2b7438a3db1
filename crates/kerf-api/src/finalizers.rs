//! Names of the finalizers that Kerf sets (spec 01 §11.3). NodePools have none: their NodeClaims
//! are deleted through owner references.

/// On NodeClaims and Nodes: the node must be drained and its instance terminated before the object
/// is deleted.
pub const TERMINATION: &str = "karpenter.sh/termination";

/// Finalizers of the EC2 provider.
pub mod aws {
    /// On EC2NodeClasses: no NodeClaim may use the class, and resources created for it must be
    /// deleted first.
    pub const TERMINATION: &str = "karpenter.k8s.aws/termination";
}
