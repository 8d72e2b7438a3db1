//! All writes to the API server. Each is safe to repeat. Writes to NodeClaims and NodePools record
//! the returned object in cluster state, so that the next decision sees it even if the watch is
//! late.

pub(crate) mod claim;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod pool;
