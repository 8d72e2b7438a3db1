//! Checks of EC2NodeClasses that need no cloud API: tags and volume sizes (spec 01 §7.3, §7.4).
//! [`kubelet`](super::kubelet) checks the kubelet settings.

use std::collections::BTreeMap;

use crate::admission::text::quote;
use crate::ec2nodeclass::{EC2NodeClassSpec, RESTRICTED_TAGS};
use crate::quantity::Quantity;

/// Returns a failure that names the tag keys that only Kerf may set. Returns `None` if the tags are
/// valid.
pub fn tags_failure(tags: &BTreeMap<String, String>) -> Option<String> {
    let restricted: Vec<String> = tags.keys().filter(|key| is_restricted_tag(key)).map(|key| quote(key)).collect();
    (!restricted.is_empty()).then(|| format!("tags failed validation requirements (tags={})", restricted.join(", ")))
}

fn is_restricted_tag(key: &str) -> bool {
    RESTRICTED_TAGS.contains(&key) || key.strip_prefix("kubernetes.io/cluster/").is_some_and(is_cluster_name)
}

/// Returns true for a letter or digit followed by letters, digits, dashes and underscores.
fn is_cluster_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Returns a failure for each volume size that is not a quantity. Admission accepts `Ti` and `T`.
pub fn volume_size_failures(spec: &EC2NodeClassSpec) -> Vec<String> {
    let mut failures = Vec::new();
    for (i, mapping) in spec.block_device_mappings.iter().flatten().enumerate() {
        let size = mapping.ebs.as_ref().and_then(|ebs| ebs.volume_size.as_ref());
        if let Some(Err(error)) = size.map(|size| size.text().parse::<Quantity>()) {
            failures.push(format!("spec.blockDeviceMappings[{i}].ebs.volumeSize: {error}"));
        }
    }
    failures
}
