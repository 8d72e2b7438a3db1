//! How many claims a pool has, and how many more it may get (spec 04 §4.10): what static capacity and the drift of static nodes count by.
//! The counts are read from the index, so they can never fall out of step with it; only room that somebody is about to use is noted.

use kerf_api::slim::Str;

use crate::claims::Claim;
use crate::cluster::Cluster;

/// The claims of a pool, each counted once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolClaims {
    /// Those that stay, launched or not.
    pub active: usize,
    /// Those that have been told to go.
    pub deleting: usize,
    /// Those that a command under way will tell to go, once their replacements are there.
    pub pending: usize,
}

impl PoolClaims {
    /// All of them.
    pub fn total(&self) -> usize {
        self.active + self.deleting + self.pending
    }
}

impl Cluster {
    /// How many claims a pool has.
    pub fn pool_claims(&self, pool: &str) -> PoolClaims {
        let mut claims = PoolClaims::default();
        for claim in self.claims_of_pool(pool) {
            if claim.seen.is_deleting {
                claims.deleting += 1;
            } else if self.intents.is_marked(&claim.seen.provider_id) {
                claims.pending += 1;
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
        self.intents.reserve(Str::from(pool), reserved + granted);
        granted
    }

    /// Gives room back: the claims that it was for are there, or could not be created.
    pub fn release_nodes(&mut self, pool: &str, count: usize) {
        let reserved = self.intents.reserved(pool);
        self.intents.reserve(Str::from(pool), reserved.saturating_sub(count));
    }

    /// The claims of a pool, in the order of their names.
    pub fn claims_of_pool<'c>(&'c self, pool: &'c str) -> impl Iterator<Item = &'c Claim> {
        self.claims.values().map(AsRef::as_ref).filter(move |claim| claim.pool() == Some(pool))
    }
}
