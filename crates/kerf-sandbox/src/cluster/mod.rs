//! What runs in a cluster beside its API server: the scheduler and what makes volumes. Every part reads and writes through
//! [`local::Local`] and shares nothing else with the others.

mod local;
mod scheduler;
mod volumes;

pub use scheduler::Scheduler;
pub use volumes::VolumeController;
