//! How many claims a pool has, and how many more it may get (spec 04 §4.10): what static capacity and the drift of static nodes count by.
//! The counts are read from the index, so they can never fall out of step with it; only room that somebody is about to use is noted.

use kerf_api::slim::Str;

use crate::claims::TrackedClaim;
use crate::cluster::Cluster;

/// The claims of a pool, each counted once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolClaims {
    /// Those that stay, launched or not.
    pub active: usize,
    /// Those that have been told to go.
    pub deleting: usize,
    /// Those that a command will tell to go, once their replacements are there.
    pub pending_disruption: usize,
}

impl PoolClaims {
    /// All of them.
    pub fn total(&self) -> usize {
        self.active + self.deleting + self.pending_disruption
    }
}

impl Cluster {
    /// How many claims a pool has.
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

    /// Reserves room for claims that are about to be created: as many as are wanted and the limit leaves, which is how many it gives.
    pub fn reserve_nodes(&mut self, pool: &str, limit: Option<usize>, wanted: usize) -> usize {
        let reserved = self.intents.reserved(pool);
        let taken = self.pool_claims(pool).total() + reserved;
        let granted = limit.map_or(wanted, |limit| wanted.min(limit.saturating_sub(taken)));
        self.intents.set_reserved(Str::from(pool), reserved + granted);
        granted
    }

    /// How many claims of a pool are about to be created.
    pub fn reserved_nodes(&self, pool: &str) -> usize {
        self.intents.reserved(pool)
    }

    /// Notes that the replacement of a claim is about to be created. From now on the claim is one that goes, for whoever counts replicas; it
    /// still counts as a node, for pods on it need no other place before there is one.
    pub fn begin_replacing(&mut self, claim: &str) {
        self.intents.begin_replacing(Str::from(claim));
    }

    /// The replacement is there and the claim is marked, or it came to nothing.
    pub fn end_replacing(&mut self, claim: &str) {
        self.intents.end_replacing(claim);
    }

    /// Whether a command will tell the claim to go.
    pub fn is_pending_disruption(&self, claim: &TrackedClaim) -> bool {
        self.intents.is_marked(&claim.engine_claim.provider_id)
            || self.intents.is_being_replaced(&claim.engine_claim.name)
    }

    /// Gives room back: the claims that it was for are there, or could not be created.
    pub fn release_nodes(&mut self, pool: &str, count: usize) {
        let reserved = self.intents.reserved(pool);
        self.intents.set_reserved(Str::from(pool), reserved.saturating_sub(count));
    }

    /// The claims of a pool, in the order of their names.
    pub fn claims_of_pool<'c>(&'c self, pool: &'c str) -> impl Iterator<Item = &'c TrackedClaim> {
        self.claims.values().map(AsRef::as_ref).filter(move |claim| claim.pool() == Some(pool))
    }
}
