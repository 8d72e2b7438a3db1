//! Names of all labels that Kerf reads, writes or forbids, and the rules about the keys that users
//! may use (spec 01 §10).
//!
//! The well-known keys, restricted keys and aliases depend on the cloud provider. Therefore the
//! rules are a value, [`LabelRules`], that a provider creates and may extend. The CEL rules of the
//! CRDs (`crds`) check keys with looser text matching; the two differ where Karpenter's do.

use std::collections::{BTreeMap, BTreeSet};

/// Name of the NodePool, on NodeClaims and Nodes.
pub const NODEPOOL: &str = "karpenter.sh/nodepool";
/// Capacity type of the instance: [`CAPACITY_TYPE_ON_DEMAND`], [`CAPACITY_TYPE_SPOT`] or
/// [`CAPACITY_TYPE_RESERVED`].
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// `true` on a Node that was matched with its NodeClaim.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// `true` on a Node that is ready for the pods it was launched for.
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// `true` on a Node whose kubelet sets the NodeClaim's taints itself.
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";
/// Set to [`EXCLUDE_FROM_EXTERNAL_LOAD_BALANCERS_VALUE`] on a Node that is being terminated, so
/// that load balancers stop sending traffic to it.
pub const EXCLUDE_FROM_EXTERNAL_LOAD_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Value of [`EXCLUDE_FROM_EXTERNAL_LOAD_BALANCERS`] that names the component that set it.
pub const EXCLUDE_FROM_EXTERNAL_LOAD_BALANCERS_VALUE: &str = "karpenter";

/// Availability zone of the node.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Region of the node.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Instance type of the node, such as `m5.large`.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// CPU architecture in Go's naming: `amd64`, `arm64`.
pub const ARCH: &str = "kubernetes.io/arch";
/// Operating system: `linux`, `windows`.
pub const OS: &str = "kubernetes.io/os";
/// Windows build number; absent on Linux.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
/// Name of the node. Pods and pools cannot require it before the node exists.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// Billed by the second at list price.
pub const CAPACITY_TYPE_ON_DEMAND: &str = "on-demand";
/// Discounted capacity that the provider may reclaim at short notice.
pub const CAPACITY_TYPE_SPOT: &str = "spot";
/// Capacity that is already paid for.
pub const CAPACITY_TYPE_RESERVED: &str = "reserved";

/// Domain of Karpenter's own labels and annotations.
pub const KARPENTER_DOMAIN: &str = "karpenter.sh";

/// Labels that every provider supports.
pub const CORE_WELL_KNOWN: [&str; 8] = [NODEPOOL, CAPACITY_TYPE, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, WINDOWS_BUILD];

/// Labels whose values depend on the offering, not on the instance type.
pub const OFFERING_LABELS: [&str; 2] = [ZONE, CAPACITY_TYPE];

/// Deprecated label keys and their current equivalents, for every provider.
const CORE_ALIASES: [(&str, &str); 5] = [
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    ("beta.kubernetes.io/arch", ARCH),
    ("beta.kubernetes.io/os", OS),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
];

/// Labels of the EC2 provider.
pub mod aws {
    /// Domain of the provider's labels.
    pub const DOMAIN: &str = "karpenter.k8s.aws";
    /// Name of the EC2NodeClass, on NodeClaims and Nodes. Not well known: pods and pools cannot
    /// require it.
    pub const EC2NODECLASS: &str = "karpenter.k8s.aws/ec2nodeclass";
    /// ID of the capacity reservation; only on reserved capacity.
    pub const CAPACITY_RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
    /// `default` or `capacity-block`; only on reserved capacity.
    pub const CAPACITY_RESERVATION_TYPE: &str = "karpenter.k8s.aws/capacity-reservation-type";
    /// `true` if EC2 may reclaim the reservation; only on reserved capacity.
    pub const CAPACITY_RESERVATION_INTERRUPTIBLE: &str = "karpenter.k8s.aws/capacity-reservation-interruptible";
    /// Number of accelerators.
    pub const INSTANCE_ACCELERATOR_COUNT: &str = "karpenter.k8s.aws/instance-accelerator-count";
    /// Manufacturer of the accelerators, in lower case, such as `aws`.
    pub const INSTANCE_ACCELERATOR_MANUFACTURER: &str = "karpenter.k8s.aws/instance-accelerator-manufacturer";
    /// Model of the accelerators.
    pub const INSTANCE_ACCELERATOR_NAME: &str = "karpenter.k8s.aws/instance-accelerator-name";
    /// `true` if the instance family is a flex family.
    pub const INSTANCE_CAPABILITY_FLEX: &str = "karpenter.k8s.aws/instance-capability-flex";
    /// Letters before the generation number in the instance type's name.
    pub const INSTANCE_CATEGORY: &str = "karpenter.k8s.aws/instance-category";
    /// Default number of vCPUs.
    pub const INSTANCE_CPU: &str = "karpenter.k8s.aws/instance-cpu";
    /// Manufacturer of the CPU, such as `aws`, `intel` or `amd`.
    pub const INSTANCE_CPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-cpu-manufacturer";
    /// Sustained clock speed of the CPU in MHz, rounded.
    pub const INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ: &str = "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz";
    /// Maximum EBS bandwidth in Mbps.
    pub const INSTANCE_EBS_BANDWIDTH: &str = "karpenter.k8s.aws/instance-ebs-bandwidth";
    /// `true` if the hardware encrypts traffic between instances.
    pub const INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED: &str =
        "karpenter.k8s.aws/instance-encryption-in-transit-supported";
    /// Text before the dot in the instance type's name.
    pub const INSTANCE_FAMILY: &str = "karpenter.k8s.aws/instance-family";
    /// Generation number of the instance type.
    pub const INSTANCE_GENERATION: &str = "karpenter.k8s.aws/instance-generation";
    /// Number of GPUs.
    pub const INSTANCE_GPU_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
    /// Manufacturer of the GPUs, such as `nvidia`.
    pub const INSTANCE_GPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-gpu-manufacturer";
    /// Memory of one GPU in MiB.
    pub const INSTANCE_GPU_MEMORY: &str = "karpenter.k8s.aws/instance-gpu-memory";
    /// Model of the GPUs.
    pub const INSTANCE_GPU_NAME: &str = "karpenter.k8s.aws/instance-gpu-name";
    /// Hypervisor; empty on bare metal.
    pub const INSTANCE_HYPERVISOR: &str = "karpenter.k8s.aws/instance-hypervisor";
    /// Size of the `NVMe` instance store in GB.
    pub const INSTANCE_LOCAL_NVME: &str = "karpenter.k8s.aws/instance-local-nvme";
    /// Memory in MiB.
    pub const INSTANCE_MEMORY: &str = "karpenter.k8s.aws/instance-memory";
    /// Baseline network bandwidth in Mbps.
    pub const INSTANCE_NETWORK_BANDWIDTH: &str = "karpenter.k8s.aws/instance-network-bandwidth";
    /// Text after the dot in the instance type's name.
    pub const INSTANCE_SIZE: &str = "karpenter.k8s.aws/instance-size";
    /// Tenancy: [`TENANCY_DEFAULT`] or [`TENANCY_DEDICATED`].
    pub const INSTANCE_TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";
    /// `true` if the instance type supports Nitro Enclaves.
    pub const NITRO_SANDBOX: &str = "karpenter.k8s.aws/nitro-sandbox";
    /// ID of the placement group that the instance was launched into.
    pub const PLACEMENT_GROUP_ID: &str = "karpenter.k8s.aws/placement-group-id";
    /// Number of the partition within a placement group.
    pub const PLACEMENT_GROUP_PARTITION: &str = "karpenter.k8s.aws/placement-group-partition";
    /// ID of the availability zone. Unlike the zone name it is the same in every account.
    pub const ZONE_ID: &str = "topology.k8s.aws/zone-id";

    /// Shared hardware.
    pub const TENANCY_DEFAULT: &str = "default";
    /// Hardware that is used by one customer only.
    pub const TENANCY_DEDICATED: &str = "dedicated";

    /// Keys of [`DOMAIN`] that template labels and requirements may use at admission, in
    /// alphabetical order.
    pub const ALLOWED: [&str; 29] = [
        CAPACITY_RESERVATION_ID,
        CAPACITY_RESERVATION_INTERRUPTIBLE,
        CAPACITY_RESERVATION_TYPE,
        EC2NODECLASS,
        INSTANCE_ACCELERATOR_COUNT,
        INSTANCE_ACCELERATOR_MANUFACTURER,
        INSTANCE_ACCELERATOR_NAME,
        INSTANCE_CAPABILITY_FLEX,
        INSTANCE_CATEGORY,
        INSTANCE_CPU,
        INSTANCE_CPU_MANUFACTURER,
        INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ,
        INSTANCE_EBS_BANDWIDTH,
        INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED,
        INSTANCE_FAMILY,
        INSTANCE_GENERATION,
        INSTANCE_GPU_COUNT,
        INSTANCE_GPU_MANUFACTURER,
        INSTANCE_GPU_MEMORY,
        INSTANCE_GPU_NAME,
        INSTANCE_HYPERVISOR,
        INSTANCE_LOCAL_NVME,
        INSTANCE_MEMORY,
        INSTANCE_NETWORK_BANDWIDTH,
        INSTANCE_SIZE,
        INSTANCE_TENANCY,
        NITRO_SANDBOX,
        PLACEMENT_GROUP_ID,
        PLACEMENT_GROUP_PARTITION,
    ];

    /// Keys of [`ALLOWED`] that a NodeOverlay may not use.
    pub const DISALLOWED_FOR_OVERLAYS: [&str; 6] = [
        CAPACITY_RESERVATION_ID,
        CAPACITY_RESERVATION_INTERRUPTIBLE,
        CAPACITY_RESERVATION_TYPE,
        INSTANCE_TENANCY,
        PLACEMENT_GROUP_ID,
        PLACEMENT_GROUP_PARTITION,
    ];

    /// Zone label of the EBS CSI driver.
    pub(super) const ALIASES: [(&str, &str); 1] = [("topology.ebs.csi.aws.com/zone", super::ZONE)];
}

/// Labels of the simulated provider.
pub mod kwok {
    /// Domain of the provider's labels.
    pub const DOMAIN: &str = "karpenter.kwok.sh";
    /// Name of the KWOKNodeClass, on NodeClaims and Nodes. Not well known: pods and pools cannot
    /// require it.
    pub const KWOKNODECLASS: &str = "karpenter.kwok.sh/kwoknodeclass";
    /// CPU of the instance type, as a quantity.
    pub const INSTANCE_CPU: &str = "karpenter.kwok.sh/instance-cpu";
    /// Memory of the instance type, as a quantity.
    pub const INSTANCE_MEMORY: &str = "karpenter.kwok.sh/instance-memory";
    /// Family part of the instance type's name.
    pub const INSTANCE_FAMILY: &str = "karpenter.kwok.sh/instance-family";
    /// Size part of the instance type's name.
    pub const INSTANCE_SIZE: &str = "karpenter.kwok.sh/instance-size";

    /// Labels that all instance types of the simulated provider have.
    pub const WELL_KNOWN: [&str; 4] = [INSTANCE_SIZE, INSTANCE_FAMILY, INSTANCE_CPU, INSTANCE_MEMORY];
    /// Keys of [`DOMAIN`] that requirements may use at admission.
    pub const ALLOWED: [&str; 5] = [KWOKNODECLASS, INSTANCE_CPU, INSTANCE_MEMORY, INSTANCE_FAMILY, INSTANCE_SIZE];
}

/// Returns the label key for the name of a node class: `<group>/<kind in lower case>`.
pub fn node_class_key(group: &str, kind: &str) -> String {
    format!("{group}/{}", kind.to_lowercase())
}

/// Returns the domain of a label key, which is the text before the first `/`. Returns `None` if
/// there is no `/`.
pub fn domain(key: &str) -> Option<&str> {
    key.split_once('/').map(|(domain, _)| domain)
}

/// Label rules of one provider: well-known keys, restricted domains, known values and aliases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelRules {
    well_known: BTreeSet<String>,
    restricted_domains: BTreeSet<&'static str>,
    known_values: BTreeMap<&'static str, BTreeSet<&'static str>>,
    aliases: BTreeMap<&'static str, &'static str>,
}

impl LabelRules {
    /// Returns the rules of the EC2 provider.
    pub fn aws() -> Self {
        let well_known = aws::ALLOWED.iter().filter(|key| **key != aws::EC2NODECLASS).copied();
        let mut rules = Self::core(aws::DOMAIN, well_known.chain([aws::ZONE_ID]));
        rules
            .known_values
            .insert(aws::INSTANCE_TENANCY, BTreeSet::from([aws::TENANCY_DEFAULT, aws::TENANCY_DEDICATED]));
        rules.aliases.extend(aws::ALIASES);
        rules
    }

    /// Returns the rules of the simulated provider.
    pub fn kwok() -> Self {
        Self::core(kwok::DOMAIN, kwok::WELL_KNOWN)
    }

    fn core(provider_domain: &'static str, provider_keys: impl IntoIterator<Item = &'static str>) -> Self {
        Self {
            well_known: CORE_WELL_KNOWN.into_iter().chain(provider_keys).map(str::to_owned).collect(),
            restricted_domains: BTreeSet::from([KARPENTER_DOMAIN, provider_domain]),
            known_values: BTreeMap::from([(
                CAPACITY_TYPE,
                BTreeSet::from([CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_SPOT, CAPACITY_TYPE_RESERVED]),
            )]),
            aliases: BTreeMap::from(CORE_ALIASES),
        }
    }

    /// Adds the rules of another provider, for a cluster with the nodes of both.
    pub fn extend(&mut self, other: &Self) {
        self.well_known.extend(other.well_known.iter().cloned());
        self.restricted_domains.extend(&other.restricted_domains);
        self.aliases.extend(&other.aliases);
        for (key, values) in &other.known_values {
            self.known_values.entry(key).or_default().extend(values);
        }
    }

    /// Adds a key that the provider's offerings have.
    pub fn add_well_known(&mut self, key: impl Into<String>) {
        self.well_known.insert(key.into());
    }

    /// Returns all well-known keys, sorted.
    pub fn well_known(&self) -> impl Iterator<Item = &str> {
        self.well_known.iter().map(String::as_str)
    }

    /// Returns true if instance types or pools provide the key's values. A pod may require such a
    /// key without the pool naming it.
    pub fn is_well_known(&self, key: &str) -> bool {
        self.well_known.contains(key)
    }

    /// Returns the domains that users may not use, sorted.
    pub fn restricted_domains(&self) -> impl Iterator<Item = &str> {
        self.restricted_domains.iter().copied()
    }

    /// Returns true if users may not set or require the key because Kerf controls its values.
    pub fn is_restricted(&self, key: &str) -> bool {
        !self.is_well_known(key)
            && (key == HOSTNAME || domain(key).is_some_and(|domain| self.is_restricted_domain(domain)))
    }

    fn is_restricted_domain(&self, domain: &str) -> bool {
        self.restricted_domains.iter().any(|restricted| {
            domain.strip_suffix(restricted).is_some_and(|parent| parent.is_empty() || parent.ends_with('.'))
        })
    }

    /// Returns the closed set of valid values of a key. Returns `None` if any value is valid.
    pub fn known_values(&self, key: &str) -> Option<&BTreeSet<&'static str>> {
        self.known_values.get(key)
    }

    /// Returns the current equivalent of a deprecated key, or the key itself. Applied to keys of
    /// requirements, never to labels of objects.
    pub fn normalise<'a>(&self, key: &'a str) -> &'a str {
        self.aliases.get(key).copied().unwrap_or(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_sets_have_the_size_of_the_specification() {
        assert_eq!(LabelRules::aws().well_known().count(), 8 + 28 + 1);
        assert_eq!(LabelRules::kwok().well_known().count(), 8 + 4);
        assert_eq!(aws::ALLOWED.iter().filter(|key| !aws::DISALLOWED_FOR_OVERLAYS.contains(key)).count(), 23);
    }

    // spec 01 #42: admission accepts the key, the runtime rules do not.
    #[test]
    fn the_node_class_label_is_restricted() {
        assert!(aws::ALLOWED.contains(&aws::EC2NODECLASS));
        assert!(LabelRules::aws().is_restricted(aws::EC2NODECLASS));
        assert!(LabelRules::kwok().is_restricted(kwok::KWOKNODECLASS));
    }

    // spec 01 #22, #23, #37
    #[test]
    fn only_karpenters_own_domains_and_the_hostname_are_restricted() {
        let rules = LabelRules::aws();
        for key in [
            "karpenter.sh/test",
            "a.karpenter.sh/x",
            "karpenter.k8s.aws/instance-pods",
            "b.karpenter.k8s.aws/x",
            HOSTNAME,
        ] {
            assert!(rules.is_restricted(key), "{key}");
        }
        for key in [
            "kubernetes.io/test",
            "k8s.io/test",
            "subdomain.kubernetes.io/test",
            "kops.k8s.io/instancegroup",
            "kops.k8s.io/gpu",
            "mykarpenter.sh/x",
            "karpenter.sh",
            "karpenter.kwok.sh/x",
            CAPACITY_TYPE,
            aws::INSTANCE_CPU,
        ] {
            assert!(!rules.is_restricted(key), "{key}");
        }
    }

    #[test]
    fn offerings_of_the_simulated_provider_may_add_keys() {
        let mut rules = LabelRules::kwok();
        assert!(rules.is_restricted("karpenter.kwok.sh/rack"));
        rules.add_well_known("karpenter.kwok.sh/rack");
        assert!(!rules.is_restricted("karpenter.kwok.sh/rack"));
    }

    // spec 01 #41 (the key; its validation is tested in `validation`)
    #[test]
    fn deprecated_keys_are_normalised() {
        let rules = LabelRules::aws();
        assert_eq!(rules.normalise("beta.kubernetes.io/arch"), ARCH);
        assert_eq!(rules.normalise("failure-domain.beta.kubernetes.io/zone"), ZONE);
        assert_eq!(rules.normalise("topology.ebs.csi.aws.com/zone"), ZONE);
        assert_eq!(LabelRules::kwok().normalise("topology.ebs.csi.aws.com/zone"), "topology.ebs.csi.aws.com/zone");
        assert_eq!(rules.normalise("example.com/arch"), "example.com/arch");
    }

    #[test]
    fn a_node_class_has_a_label_of_its_own() {
        assert_eq!(node_class_key("karpenter.k8s.aws", "EC2NodeClass"), aws::EC2NODECLASS);
        assert_eq!(node_class_key("karpenter.kwok.sh", "KWOKNodeClass"), kwok::KWOKNODECLASS);
    }
}
