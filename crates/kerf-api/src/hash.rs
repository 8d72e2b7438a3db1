//! Drift hashes, bit for bit those of Karpenter (spec 01 §12).
//!
//! A node that Karpenter made carries the hash of the configuration it was made from. If Kerf computed another value under the
//! same version, every node of a cluster that changes over would look drifted and be replaced. So the function, the names it
//! hashes (they are those of Karpenter's Go types) and the difference between absent, empty and zero are all fixed here, and the
//! tests hold the values that live clusters have shown.

mod ec2nodeclass;
mod kubelet;
mod nodepool;
mod structure;
#[cfg(test)]
mod tests;

pub use ec2nodeclass::ec2nodeclass_hash;
pub use nodepool::nodepool_hash;

/// The version of [`nodepool_hash`].
pub const NODEPOOL_HASH_VERSION: &str = "v3";
/// The version of [`ec2nodeclass_hash`].
pub const EC2NODECLASS_HASH_VERSION: &str = "v6";

/// What an object's two hash annotations say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HashAnnotations<'a> {
    /// The hash.
    pub hash: Option<&'a str>,
    /// Which function made it.
    pub version: Option<&'a str>,
}

/// Whether a claim was made from another configuration than its source has now. Hashes of different versions, or ones that are
/// missing, say nothing.
pub fn is_drifted(source: HashAnnotations<'_>, claim: HashAnnotations<'_>) -> bool {
    match (source.hash.zip(source.version), claim.hash.zip(claim.version)) {
        (Some((source_hash, source_version)), Some((claim_hash, claim_version))) => {
            source_version == claim_version && source_hash != claim_hash
        }
        _ => false,
    }
}

/// What becomes of a claim's annotations when its source carries another hash version than ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migration {
    /// They are of our version already.
    Keep,
    /// Our version is written and the hash stays: the claim is known to have drifted, and its old hash keeps it so.
    SetVersion,
    /// Our version and the source's present hash are written: what the source says now is taken for what the claim was made from.
    SetVersionAndHash,
}

/// Decides the migration of one claim. It is asked only if the source's own version is not `current`. `has_drifted_condition` is
/// whether the claim has a `Drifted` condition of any status.
pub fn migration(claim_version: Option<&str>, has_drifted_condition: bool, current: &str) -> Migration {
    if claim_version == Some(current) {
        Migration::Keep
    } else if has_drifted_condition {
        Migration::SetVersion
    } else {
        Migration::SetVersionAndHash
    }
}
