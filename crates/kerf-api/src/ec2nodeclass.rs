//! EC2NodeClass, `karpenter.k8s.aws/v1`: configuration of EC2 instances (spec 01 §7).
//!
//! Everything that admission accepts can be decoded, even if its value is meaningless (a volume
//! size of `Ti`, an alias with two `@`). The controller must be able to read such an object in
//! order to report it as not ready. `spec` may be absent, as in Karpenter.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::kind::{AGE_COLUMN, Column, CustomKind, READY_COLUMN, ScaleSubresource, kind, wide_column};
use crate::open_enum::open_enum;
use crate::schema::{CelRule, rule};

mod ami;
mod devices;
mod instance;
mod selectors;
mod status;

pub use ami::{Alias, AliasError, AmiFamily};
pub use devices::{BlockDevice, BlockDeviceMapping};
pub use instance::{
    ConnectionTracking, CpuOptions, EnclaveOptions, InterfaceType, MetadataOptions, NetworkInterface,
    PlacementGroupSelector,
};
pub use selectors::{
    AmiSelectorTerm, CapacityReservationSelectorTerm, InstanceMatchCriteria, SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
};
pub use status::{
    Ami, CapacityReservation, EC2NodeClassStatus, ReservationState, ReservationType, SecurityGroup, Subnet,
};

kind! {
    /// EC2NodeClass configures the EC2 instances of NodePools: images, subnets, security groups,
    /// disks, IAM identity and other settings.
    pub struct EC2NodeClass {
        /// Configuration of the instances.
        spec: optional EC2NodeClassSpec,
        /// Resources that the selectors matched, and conditions that report if the class can be
        /// used.
        status: EC2NodeClassStatus,
    }
    "karpenter.k8s.aws" / "v1", "ec2nodeclasses", ClusterResourceScope
}

impl CustomKind for EC2NodeClass {
    const NAMESPACED: bool = false;
    const SHORT_NAMES: &'static [&'static str] = &["ec2nc", "ec2ncs"];
    const CATEGORIES: &'static [&'static str] = &["karpenter"];
    const COLUMNS: &'static [Column] = &[READY_COLUMN, AGE_COLUMN, wide_column("Role", "string", ".spec.role")];
    const SCALE: Option<ScaleSubresource> = None;
}

open_enum! {
    /// Use of instance-store volumes.
    pub enum InstanceStorePolicy {
        /// Combine the volumes to one striped array for ephemeral storage of pods.
        Raid0 = "RAID0",
    }
}

const ONE_IDENTITY: CelRule =
    rule("has(self.role) != has(self.instanceProfile)", "must specify exactly one of ['role', 'instanceProfile']");
const FAMILY_OR_ALIAS: CelRule = rule(
    "has(self.amiFamily) || self.amiSelectorTerms.exists(x, has(x.alias))",
    "must specify amiFamily if amiSelectorTerms does not contain an alias",
);

/// Configuration of the instances.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = spec_rules()))]
pub struct EC2NodeClassSpec {
    /// Family of the images. It determines the format of user data, the default disks and the
    /// resources reserved for the system. Required only if no image is selected by alias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ami_family: Option<AmiFamily>,
    /// Terms that select the images of instances. An image is selected if any term matches.
    #[schemars(transform = selectors::of_amis)]
    pub ami_selector_terms: Vec<AmiSelectorTerm>,
    /// If true, instances get a public IP address; if false, they do not. If unset, the subnet
    /// decides.
    #[serde(default, rename = "associatePublicIPAddress", skip_serializing_if = "Option::is_none")]
    pub associate_public_ip_address: Option<bool>,
    /// Disks of the instances. If unset, the defaults of the image family apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxItems" = 50, "x-kubernetes-validations" = [devices::ONE_ROOT]))]
    pub block_device_mappings: Option<Vec<BlockDeviceMapping>>,
    /// Terms that select the capacity reservations of instances. A reservation is selected if any
    /// term matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = selectors::of_capacity_reservations)]
    pub capacity_reservation_selector_terms: Option<Vec<CapacityReservationSelectorTerm>>,
    /// Timeouts after which the network interfaces stop tracking idle connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_tracking: Option<ConnectionTracking>,
    /// Context of the fleet request. Reserved by EC2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// CPU options of the instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_options: Option<CpuOptions>,
    /// If true, instances report metrics every minute instead of every five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detailed_monitoring: Option<bool>,
    /// Nitro Enclaves of the instances. If unset, instances have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enclave_options: Option<EnclaveOptions>,
    /// Instance profile of the instances. Mutually exclusive with role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [rule("self != ''", "instanceProfile cannot be empty")]))]
    pub instance_profile: Option<String>,
    /// Use of instance-store volumes. RAID0 combines them to one array for ephemeral storage. If
    /// unset, they are not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_store_policy: Option<InstanceStorePolicy>,
    /// Number of IPv4 prefixes of the primary network interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub ip_prefix_count: Option<i32>,
    /// Kubelet settings, as fields of `KubeletConfiguration` (kubelet.config.k8s.io/v1beta1). The
    /// controller validates them and reports errors in the condition `ValidationSucceeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<crate::schema::OpenObject>")]
    pub kubelet: Option<Map<String, Value>>,
    /// Access of instances to the instance metadata service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 1,
        "httpTokens": "required",
    }))]
    pub metadata_options: Option<MetadataOptions>,
    /// Network interfaces of the instances. If unset, an instance has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "maxItems" = 150,
        "x-kubernetes-validations" = [instance::PRIMARY_INTERFACE, instance::DISTINCT_INTERFACES],
    ))]
    pub network_interfaces: Option<Vec<NetworkInterface>>,
    /// Placement group of the instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_group_selector: Option<PlacementGroupSelector>,
    /// IAM role of the instances. The controller creates and maintains an instance profile for it.
    /// Mutually exclusive with instanceProfile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [rule("self != ''", "role cannot be empty")]))]
    pub role: Option<String>,
    /// Terms that select the security groups of instances. A group is selected if any term matches,
    /// and instances get all selected groups.
    #[schemars(transform = selectors::of_security_groups)]
    pub security_group_selector_terms: Vec<SecurityGroupSelectorTerm>,
    /// Terms that select the subnets of instances. A subnet is selected if any term matches.
    #[schemars(transform = selectors::of_subnets)]
    pub subnet_selector_terms: Vec<SubnetSelectorTerm>,
    /// Tags of all EC2 resources that are created for the class. Tags that the controller sets
    /// itself are rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = tag_rules()))]
    pub tags: Option<BTreeMap<String, String>>,
    /// User data of the instances. It is merged with the user data of the image family; for the
    /// family Custom it is used alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
}

impl EC2NodeClassSpec {
    /// Returns true if instances have Nitro Enclaves enabled, and therefore need a type that
    /// supports them.
    pub fn enables_enclaves(&self) -> bool {
        self.enclave_options.as_ref().is_some_and(|options| options.enabled)
    }
}

fn spec_rules() -> Vec<CelRule> {
    let mut rules = vec![ONE_IDENTITY];
    rules.extend(ami::FAMILIES.iter().filter_map(|(family, alias)| alias.map(|alias| ami::alias_rule(alias, family))));
    rules.push(FAMILY_OR_ALIAS);
    rules
}

/// Tag keys that the controller sets itself.
pub const RESTRICTED_TAGS: [&str; 4] =
    ["eks:eks-cluster-name", "karpenter.sh/nodepool", "karpenter.sh/nodeclaim", "karpenter.k8s.aws/ec2nodeclass"];

fn tag_rules() -> Vec<CelRule> {
    let restricted = |key: &str| CelRule {
        rule: format!("!('{key}' in self)").into(),
        message: format!("tag contains a restricted tag matching {key}").into(),
    };
    let [cluster_name, nodepool, nodeclaim, node_class] = RESTRICTED_TAGS;
    vec![
        rule("!('' in self)", "empty tag keys aren't supported"),
        restricted(cluster_name),
        rule(
            "self.all(k, !k.startsWith('kubernetes.io/cluster'))",
            "tag contains a restricted tag matching kubernetes.io/cluster/",
        ),
        restricted(nodepool),
        restricted(nodeclaim),
        restricted(node_class),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn meaningless_values_decode_and_keep_their_text() {
        let stored = json!({
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": { "name": "default" },
            "spec": {
                "amiSelectorTerms": [{ "alias": "al2023@a@b" }],
                "blockDeviceMappings": [{ "ebs": { "volumeSize": "Ti", "encrypted": false, "iops": 0 } }],
                "kubelet": { "notAKubeletField": true, "podsPerCore": "ten" },
                "role": "r",
                "securityGroupSelectorTerms": [{ "tags": {} }],
                "subnetSelectorTerms": [{ "id": "subnet-1" }],
            },
        });
        let class: EC2NodeClass = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!(serde_json::to_value(&class).unwrap(), stored);
    }

    #[test]
    fn a_class_without_a_spec_decodes() {
        let class: EC2NodeClass = serde_json::from_value(json!({ "metadata": { "name": "a" } })).unwrap();
        assert_eq!(class.spec, None);
        assert_eq!(serde_json::to_value(&class).unwrap().get("spec"), None);
    }
}
