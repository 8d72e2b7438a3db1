//! Everything that a launch template depends on.

use std::collections::BTreeMap;

use kerf_api::ec2nodeclass::{Ami, EC2NodeClassSpec};
use kerf_api::taints::Taint;

use crate::instance_types::kubelet::ResolvedKubelet;
use crate::ports::Tags;
use crate::settings::ClusterFacts;

/// Everything that a launch template depends on (spec 05 §13.2). The instance types of a launch are
/// no part of it.
#[derive(Debug, Clone)]
pub struct LaunchTemplateInput<'a> {
    /// Name of the node class.
    pub class_name: &'a str,
    /// Spec of the node class.
    pub class: &'a EC2NodeClassSpec,
    /// Images from the status of the node class.
    pub amis: &'a [Ami],
    /// Interpreted kubelet settings of the node class, without expressions.
    pub kubelet: &'a ResolvedKubelet,
    /// The EKS cluster that nodes join; part of tags and user data.
    pub cluster_name: &'a str,
    /// Facts about the cluster.
    pub cluster: &'a ClusterFacts,
    /// Instance profile from the status of the node class.
    pub instance_profile: &'a str,
    /// Security groups from the status of the node class.
    pub security_group_ids: Vec<String>,
    /// Tags of everything that is created (spec 05 §15.2).
    pub tags: Tags,
    /// Image of the instances.
    pub image_id: &'a str,
    /// Number of pods of the instance types.
    pub max_pods: i64,
    /// Number of EFA interfaces; zero unless the claim requests them.
    pub efa_count: i32,
    /// `on-demand`, `spot` or `reserved`.
    pub capacity_type: &'a str,
    /// Reservation of a reserved launch; `None` for other launches.
    pub reservation: Option<TemplateReservation>,
    /// True if capacity reservations are used (feature gate `ReservedCapacity`).
    pub uses_reservations: bool,
    /// `default` or `dedicated`.
    pub tenancy: &'a str,
    /// ID of the placement group; `None` if there is none.
    pub placement_group_id: Option<String>,
    /// Partition of the placement group; `None` to let EC2 choose.
    pub partition: Option<i32>,
    /// True if the claim requests Nitro Enclaves.
    pub needs_enclave: bool,
    /// Labels with which the node registers.
    pub labels: BTreeMap<String, String>,
    /// Taints with which the node registers.
    pub taints: Vec<Taint>,
}

/// The capacity reservation that instances of a template use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateReservation {
    /// ID of the reservation.
    pub id: String,
    /// True for a capacity block.
    pub is_capacity_block: bool,
    /// True if EC2 may reclaim the capacity.
    pub is_interruptible: bool,
}
