//! The only writes. Each can be repeated without harm, and each tells the index what the API server answered, so that the next decision
//! sees what was done even if the watch is late.

pub(crate) mod claim;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod pool;
