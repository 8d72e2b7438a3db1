//! Settings of the AWS provider (spec 05 §19, spec 07 §2.3), and the facts about the cluster that
//! are found at start-up (spec 05 §6).

use std::net::IpAddr;
use std::time::Duration;

use kerf_api::conditions::dependents::{EC2NODECLASS, EC2NODECLASS_WITH_RESERVATIONS};

/// Settings of the AWS provider. The caller validates them.
#[derive(Debug, Clone, PartialEq)]
pub struct AwsSettings {
    /// Name of the EKS cluster.
    pub cluster_name: String,
    /// URL of the API server for nodes; `None` reads it from EKS.
    pub cluster_endpoint: Option<String>,
    /// CA certificate for nodes, base64. If the user gives none, the caller sets that of Kerf's own
    /// connection; `None` if there is none.
    pub cluster_ca_bundle: Option<String>,
    /// True if only services with VPC endpoints can be reached (spec 06 §20.2).
    pub isolated_vpc: bool,
    /// True if the Kubernetes version is read from EKS instead of the API server.
    pub eks_control_plane: bool,
    /// Fraction of an instance's memory that is assumed lost until its node reports its memory.
    pub vm_memory_overhead_percent: f64,
    /// Name of the queue with interruption messages; `None` for no queue.
    pub interruption_queue: Option<String>,
    /// Network interfaces of each instance that pods cannot use.
    pub reserved_enis: u32,
    /// True if node classes are validated without dry runs.
    pub disable_dry_run: bool,
    /// True if zonal shifts are honoured.
    pub enable_zonal_shift: bool,
    /// Time for which images are not described again.
    pub ami_refresh_interval: Duration,
    /// Time for which subnets are not described again.
    pub subnet_refresh_interval: Duration,
    /// Time for which security groups are not described again.
    pub security_group_refresh_interval: Duration,
    /// True if capacity reservations are used (feature gate `ReservedCapacity`).
    pub reserved_capacity: bool,
    /// True if kubelet settings may be expressions (AWS feature gate `NodeClassCEL`).
    pub node_class_cel: bool,
    /// True if `minValues` may be violated to launch (`--min-values-policy BestEffort`).
    pub min_values_best_effort: bool,
    /// Seed of client tokens and profile names. It must differ between processes.
    pub seed: u64,
}

impl AwsSettings {
    /// Returns the default settings for a cluster.
    pub fn new(cluster_name: impl Into<String>) -> Self {
        Self {
            cluster_name: cluster_name.into(),
            cluster_endpoint: None,
            cluster_ca_bundle: None,
            isolated_vpc: false,
            eks_control_plane: false,
            vm_memory_overhead_percent: 0.075,
            interruption_queue: None,
            reserved_enis: 0,
            disable_dry_run: false,
            enable_zonal_shift: false,
            ami_refresh_interval: Duration::from_mins(1),
            subnet_refresh_interval: Duration::from_mins(1),
            security_group_refresh_interval: Duration::from_mins(1),
            reserved_capacity: true,
            node_class_cel: false,
            min_values_best_effort: false,
            seed: 0,
        }
    }
}

/// Facts about the cluster that nodes need to join it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    /// Region, for example `us-west-2`.
    pub region: String,
    /// URL of the API server.
    pub endpoint: String,
    /// CA certificate, base64; `None` if unknown.
    pub ca_bundle: Option<String>,
    /// Address of the cluster's DNS service; `None` if unknown.
    pub dns_address: Option<IpAddr>,
    /// Kubernetes version, for example `1.34`.
    pub kubernetes_version: String,
    /// Range of Service addresses; `None` until the first AL2023 node class is validated.
    pub service_cidr: Option<String>,
}

/// Returns the conditions on which `Ready` of a node class depends. Those of capacity reservations
/// are among them if the feature gate `ReservedCapacity` is on.
pub(crate) fn node_class_conditions(has_reservations: bool) -> &'static [&'static str] {
    if has_reservations { EC2NODECLASS_WITH_RESERVATIONS } else { EC2NODECLASS }
}

impl ClusterFacts {
    /// Returns true if pods have IPv6 addresses.
    pub fn is_ipv6(&self) -> bool {
        self.dns_address.is_some_and(|address| address.is_ipv6())
    }

    /// Returns the minor Kubernetes version; 0 if the version is unreadable.
    pub fn kubernetes_minor(&self) -> u32 {
        self.kubernetes_version.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(0)
    }
}
