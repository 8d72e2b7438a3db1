//! Drift hashes, bit-compatible with Karpenter's (spec 01 §12).
//!
//! A node created by Karpenter carries the hash of its configuration. If Kerf computed another
//! value for the same hash version, every node of a migrated cluster would count as drifted and be
//! replaced. Therefore the function, the hashed names (those of Karpenter's Go types) and the
//! difference between absent, empty and zero are all fixed. The tests contain values observed in
//! real clusters.

mod ec2nodeclass;
mod kubelet;
mod kubelet_v5;
mod nodepool;
mod structure;
#[cfg(test)]
mod tests;

pub use ec2nodeclass::{HashV5Error, ec2nodeclass_hash, ec2nodeclass_hash_v5};
pub use nodepool::nodepool_hash;

/// Version of [`nodepool_hash`], stored in an annotation beside the hash.
pub const NODEPOOL_HASH_VERSION: &str = "v3";
/// Version of [`ec2nodeclass_hash`], stored in an annotation beside the hash.
pub const EC2NODECLASS_HASH_VERSION: &str = "v6";
/// Version of [`ec2nodeclass_hash_v5`], which Karpenter 1.12 to 1.14 write.
pub const EC2NODECLASS_HASH_VERSION_V5: &str = "v5";

/// Values of an object's two hash annotations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HashAnnotations<'a> {
    /// The hash; `None` if the annotation is absent.
    pub hash: Option<&'a str>,
    /// Version of the hash function; `None` if the annotation is absent.
    pub version: Option<&'a str>,
}

/// Returns true if the claim was created from a different configuration than the source has now.
/// Returns false if the versions differ or a hash is missing, because such hashes cannot be
/// compared.
pub fn is_drifted(source: HashAnnotations<'_>, claim: HashAnnotations<'_>) -> bool {
    match (source.hash.zip(source.version), claim.hash.zip(claim.version)) {
        (Some((source_hash, source_version)), Some((claim_hash, claim_version))) => {
            source_version == claim_version && source_hash != claim_hash
        }
        _ => false,
    }
}

/// Change to a claim's hash annotations when its source has an older hash version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migration {
    /// The annotations already have the current version.
    Keep,
    /// Write the current version and keep the hash: the claim has drifted, and its old hash keeps
    /// it drifted.
    SetVersion,
    /// Write the current version and the source's current hash: the claim is assumed to match the
    /// source.
    SetVersionAndHash,
}

/// Returns the migration of one claim. Called only if the source's version is not `current`.
/// `has_drifted_condition` is true if the claim has a `Drifted` condition with any status.
pub fn migration(claim_version: Option<&str>, has_drifted_condition: bool, current: &str) -> Migration {
    if claim_version == Some(current) {
        Migration::Keep
    } else if has_drifted_condition {
        Migration::SetVersion
    } else {
        Migration::SetVersionAndHash
    }
}
