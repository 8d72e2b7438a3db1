//! The AWS provider: how EC2 instances are described, chosen, launched and cleaned up (specs 05 and
//! 06). AWS is reached through [`ports`] only; this crate never uses the AWS SDK.

mod aws_errors;
mod batcher;
mod cache_metrics;
mod change_log;
mod cluster_facts;
mod context;
pub mod data;
mod discovery;
mod drift;
pub mod http;
mod instance_profiles;
pub mod instance_types;
mod instances;
pub mod interruption;
mod launch;
mod launch_metrics;
pub mod launch_templates;
pub mod memory;
mod memory_discovery;
mod node_classes;
mod nodeclaim_tagging;
mod nodeclass;
pub mod offerings;
mod partition_hook;
mod parts;
mod placement_groups;
pub mod ports;
pub mod pricing;
mod provider;
mod published_claim_events;
mod refresh;
mod reservation_slots;
mod reserved_claims;
mod restricted_tags;
mod settings;
mod shifted_zones;
#[cfg(test)]
mod testing;
mod trial;
mod ttl_cache;
pub mod unavailable_offerings;
mod unregistered_instances;
pub mod user_data;
mod zonal_shift;

pub use nodeclass::{NodeClassTrialError, PlannedClass, plan_class};
pub use parts::AwsParts;
pub use placement_groups::{KnownPlacementGroups, PlacementGroups};
pub use provider::AwsProvider;
pub use reservation_slots::{ReservationSlots, SlotsSnapshot};
pub use settings::{AwsSettings, ClusterFacts};
pub use shifted_zones::ShiftedZones;
pub use trial::{ProviderTrial, TrialDriftError, TrialQueue};
