//! Counts the claims of a pool and reserves further ones below its limit (spec 04 §4.10), for
//! static capacity and for the drift of static nodes. The counts are computed from the index, so
//! they always agree with it; only reservations are stored.

use kerf_api::slim::Str;

use crate::claims::TrackedClaim;
use crate::cluster::Cluster;

/// The numbers of claims of one pool by state. Each claim is counted once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolClaims {
    /// Claims that stay, launched or not.
    pub active: usize,
    /// Claims that are being deleted.
    pub deleting: usize,
    /// Claims that a command will delete once their replacements are initialized.
    pub pending_disruption: usize,
}

impl PoolClaims {
    /// Returns the number of claims in all three states.
    pub fn total(&self) -> usize {
        self.active + self.deleting + self.pending_disruption
    }
}

impl Cluster {
    /// Counts the claims of a pool.
    pub fn pool_claims(&self, pool: &str) -> PoolClaims {
        let mut claims = PoolClaims::default();
        for claim in self.claims_of_pool(pool) {
            if claim.engine_claim.is_deleting {
                claims.deleting += 1;
            } else if self.is_pending_disruption(claim) {
                claims.pending_disruption += 1;
            } else {
                claims.active += 1;
            }
        }
        claims
    }

    /// Reserves up to `wanted` claims that are about to be created, and returns how many `limit`
    /// permits. `None` means no limit. Existing and already reserved claims count against the
    /// limit. Return each reservation with [`Cluster::release_nodes`].
    pub fn reserve_nodes(&mut self, pool: &str, limit: Option<usize>, wanted: usize) -> usize {
        let reserved = self.intents.reserved(pool);
        let used = self.pool_claims(pool).total() + reserved;
        let granted = limit.map_or(wanted, |limit| wanted.min(limit.saturating_sub(used)));
        self.intents.set_reserved(Str::from(pool), reserved + granted);
        granted
    }

    /// Returns the number of reserved claims of a pool.
    pub fn reserved_nodes(&self, pool: &str) -> usize {
        self.intents.reserved(pool)
    }

    /// Records that the replacement of a claim is about to be created. From now on the claim counts
    /// as pending disruption for its static pool. It still counts as a node, because its pods stay
    /// there until the replacement is ready.
    pub fn begin_replacing(&mut self, claim: &str) {
        self.intents.begin_replacing(Str::from(claim));
    }

    /// Ends [`Cluster::begin_replacing`]: the replacement exists and the claim is marked, or the
    /// replacement was abandoned.
    pub fn end_replacing(&mut self, claim: &str) {
        self.intents.end_replacing(claim);
    }

    /// Returns true if a command will delete the claim: the claim is marked or being replaced.
    pub fn is_pending_disruption(&self, claim: &TrackedClaim) -> bool {
        self.intents.is_marked(&claim.engine_claim.provider_id)
            || self.intents.is_being_replaced(&claim.engine_claim.name)
    }

    /// Releases reservations, because the claims have been created or could not be created.
    pub fn release_nodes(&mut self, pool: &str, count: usize) {
        let reserved = self.intents.reserved(pool);
        self.intents.set_reserved(Str::from(pool), reserved.saturating_sub(count));
    }

    /// Returns the claims of a pool, in the order of their names.
    pub fn claims_of_pool<'c>(&'c self, pool: &'c str) -> impl Iterator<Item = &'c TrackedClaim> {
        self.claims.values().map(AsRef::as_ref).filter(move |claim| claim.pool() == Some(pool))
    }
}
