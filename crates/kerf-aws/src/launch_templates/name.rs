//! The name of a launch template: a hash of its inputs (spec 05 §13.2).

use kerf_api::ec2nodeclass::AmiFamily;
use serde::Serialize;
use serde_json::{Value, json};

use super::input::LaunchTemplateInput;

/// Prefix of the names of all templates.
const NAME_PREFIX: &str = "karpenter.k8s.aws/";

impl LaunchTemplateInput<'_> {
    /// Returns the name. It is equal in every process, and independent of the order of lists.
    pub fn name(&self) -> String {
        format!("{NAME_PREFIX}{}", fnv1a(&self.hashed_text()))
    }

    /// Returns the inputs as JSON with sorted keys and lists.
    fn hashed_text(&self) -> String {
        let class = self.class;
        let settings = self.kubelet.settings();
        // Nodes of the family Custom are configured by the class's user data alone, so types that
        // differ in these share a template (spec 05 §13.1).
        let kubelet = (self.family().family != AmiFamily::Custom).then(|| {
            json!({
                "maxPods": self.kubelet.max_pods.unwrap_or(self.max_pods),
                "reserved": [json!(settings.kube_reserved), json!(settings.system_reserved)],
                "settings": class.kubelet,
                "labels": self.labels,
                "taints": sorted(&self.taints),
            })
        });
        let reservation = self
            .reservation
            .as_ref()
            .map(|reservation| json!([reservation.id, reservation.is_capacity_block, reservation.is_interruptible]));
        json!({
            "cluster": [
                self.cluster_name,
                self.cluster.endpoint,
                self.cluster.region,
                self.cluster.ca_bundle,
                self.cluster.service_cidr,
                self.cluster.dns_address.map(|address| address.to_string()),
            ],
            "class": self.class_name,
            "family": self.family().family,
            "image": self.image_id,
            "instanceProfile": self.instance_profile,
            "securityGroups": sorted(&self.security_group_ids),
            "tags": self.tags,
            "kubelet": kubelet,
            "userData": class.user_data,
            "instanceStorePolicy": class.instance_store_policy,
            "blockDevices": sorted(class.block_device_mappings.as_deref().unwrap_or_default()),
            "metadataOptions": class.metadata_options,
            "cpuOptions": class.cpu_options,
            "detailedMonitoring": class.detailed_monitoring,
            "networkInterfaces": sorted(class.network_interfaces.as_deref().unwrap_or_default()),
            "connectionTracking": class.connection_tracking,
            "associatePublicIPAddress": class.associate_public_ip_address,
            "ipPrefixCount": class.ip_prefix_count,
            "efaCount": self.efa_count,
            "enclave": self.needs_enclave,
            "capacityType": self.capacity_type,
            "reservation": reservation,
            "usesReservations": self.uses_reservations,
            "tenancy": self.tenancy,
            "placementGroup": [json!(self.placement_group_id), json!(self.partition)],
        })
        .to_string()
    }
}

fn sorted<T: Serialize>(items: &[T]) -> Value {
    let mut texts: Vec<String> = items.iter().map(|item| json!(item).to_string()).collect();
    texts.sort_unstable();
    json!(texts)
}

/// The 64-bit FNV-1a hash.
fn fnv1a(text: &str) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    text.bytes().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Test vectors of the reference implementation.
    #[test]
    fn fnv1a_is_the_published_hash() {
        assert_eq!(fnv1a(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a("foobar"), 0x8594_4171_f739_67e8);
    }
}
