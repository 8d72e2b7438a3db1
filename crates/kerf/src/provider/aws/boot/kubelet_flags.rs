//! The command line of the kubelet, as scripts pass it: flags become fields of a
//! `KubeletConfiguration`, except the labels.

use serde_json::{Map, Value, json};

/// Labels and configuration of a kubelet.
#[derive(Debug, Default)]
pub(super) struct KubeletFlags {
    pub(super) labels: Vec<(String, String)>,
    pub(super) kubelet: Map<String, Value>,
}

/// Flags whose value is a list of pairs: name, separator of key and value, field.
const PAIRS: [(&str, char, &str); 5] = [
    ("system-reserved", '=', "systemReserved"),
    ("kube-reserved", '=', "kubeReserved"),
    ("eviction-hard", '<', "evictionHard"),
    ("eviction-soft", '<', "evictionSoft"),
    ("eviction-soft-grace-period", '=', "evictionSoftGracePeriod"),
];

/// Flags with a number: name and field.
const NUMBERS: [(&str, &str); 5] = [
    ("max-pods", "maxPods"),
    ("pods-per-core", "podsPerCore"),
    ("eviction-max-pod-grace-period", "evictionMaxPodGracePeriod"),
    ("image-gc-high-threshold", "imageGCHighThresholdPercent"),
    ("image-gc-low-threshold", "imageGCLowThresholdPercent"),
];

/// Reads flags of the form `--name=value` or `--name value`. Flags that do not change the Node are
/// ignored.
pub(super) fn read(words: &[String]) -> KubeletFlags {
    let mut flags = KubeletFlags::default();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--") else { continue };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => (flag, words.next_if(|next| !next.starts_with("--")).cloned().unwrap_or_default()),
        };
        flags.add(name, &value);
    }
    flags
}

impl KubeletFlags {
    fn add(&mut self, name: &str, value: &str) {
        if name == "node-labels" {
            let pairs = value.split(',').filter_map(|pair| pair.split_once('='));
            self.labels.extend(pairs.map(|(key, value)| (key.trim().to_owned(), value.to_owned())));
        } else if name == "register-with-taints" {
            let taints: Vec<Value> = value.split(',').filter(|text| !text.is_empty()).map(taint).collect();
            self.kubelet.insert("registerWithTaints".to_owned(), Value::Array(taints));
        } else if let Some((_, separator, field)) = PAIRS.iter().find(|(known, _, _)| *known == name) {
            let pairs = value.split(',').filter_map(|pair| pair.split_once(*separator));
            let fields: Map<String, Value> =
                pairs.map(|(key, value)| (key.trim().to_owned(), Value::from(value))).collect();
            self.kubelet.insert((*field).to_owned(), Value::Object(fields));
        } else if let Some((_, field)) = NUMBERS.iter().find(|(known, _)| *known == name) {
            // A text that is no number stays a text, which the kubelet rejects.
            let number = value.parse::<i64>().map_or_else(|_| Value::from(value), Value::from);
            self.kubelet.insert((*field).to_owned(), number);
        }
    }
}

/// Reads a taint of the form `key=value:effect` or `key:effect`.
fn taint(text: &str) -> Value {
    let (head, effect) = text.rsplit_once(':').unwrap_or((text, ""));
    let (key, value) = head.split_once('=').unwrap_or((head, ""));
    if value.is_empty() {
        json!({ "key": key, "effect": effect })
    } else {
        json!({ "key": key, "value": value, "effect": effect })
    }
}
