//! Tests that the generator is a function of its seed, keeps to its sizes, and produces every
//! feature.

use std::collections::BTreeMap;

use super::*;
use crate::catalogue;
use crate::manifests::{ClusterManifests, ManifestError};

#[test]
fn the_same_seed_generates_the_same_cluster() {
    for size in [ClusterSize::Small, ClusterSize::Medium, ClusterSize::Large] {
        let (one, two) = (provisioning_cluster(7, size), provisioning_cluster(7, size));
        assert_eq!((one.manifests, one.types), (two.manifests, two.types));
        assert_ne!(one.fingerprint, provisioning_cluster(8, size).fingerprint);
    }
    assert_ne!(
        provisioning_cluster(7, ClusterSize::Small).fingerprint,
        provisioning_cluster(7, ClusterSize::Medium).fingerprint
    );
}

#[test]
fn clusters_keep_to_their_size() -> Result<(), ManifestError> {
    for seed in 0..60 {
        for (size, pods, types, pools) in
            [(ClusterSize::Small, 8, 6, 1), (ClusterSize::Medium, 30, 15, 3), (ClusterSize::Large, 100, 40, 4)]
        {
            let generated = provisioning_cluster(seed, size);
            let cluster = ClusterManifests::read(&generated.manifests)?;
            let pending = cluster.pending_pods().into_iter().filter(|pending| !pending.is_on_deleting_node).count();
            assert!((1..=pods).contains(&pending), "{seed} {size:?}: {pending} pods");
            let type_count = catalogue::read(&generated.types).map_or(0, |types| types.len());
            assert!((1..=types).contains(&type_count), "{seed} {size:?}: {type_count} types");
            assert!((1..=pools).contains(&cluster.pools.len()));
        }
    }
    Ok(())
}

/// Every feature must occur in at least 5 of 200 clusters of mixed sizes.
#[test]
fn every_feature_occurs_in_enough_clusters() {
    let mut counts: BTreeMap<Feature, usize> = BTreeMap::new();
    for seed in 0..200 {
        for feature in mixed_size_cluster(seed).features() {
            *counts.entry(feature).or_default() += 1;
        }
    }
    for feature in Feature::ALL {
        let count = counts.get(feature).copied().unwrap_or(0);
        assert!(count >= 5, "{feature:?} occurs in {count} of 200 worlds");
    }
}
