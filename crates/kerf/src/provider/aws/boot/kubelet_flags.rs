//! The command line of the kubelet, as scripts pass it: flags become fields of a
//! `KubeletConfiguration`, except the labels.

use serde_json::{Map, Value, json};

use super::UserDataProblem;

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

/// All flags of the kubelet, also those that are deprecated. It does not start with another one.
const KNOWN: &str = "\
    address allowed-unsafe-sysctls anonymous-auth application-metrics-count-limit \
    authentication-token-webhook authentication-token-webhook-cache-ttl authorization-mode \
    authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl \
    boot-id-file bootstrap-kubeconfig cert-dir cgroup-driver cgroup-root cgroups-per-qos \
    client-ca-file cloud-config cloud-provider cluster-dns cluster-domain config config-dir \
    container-hints container-log-max-files container-log-max-size container-runtime-endpoint \
    containerd containerd-namespace contention-profiling cpu-cfs-quota cpu-cfs-quota-period \
    cpu-manager-policy cpu-manager-policy-options cpu-manager-reconcile-period \
    enable-controller-attach-detach enable-debugging-handlers enable-load-reader enable-server \
    enforce-node-allocatable event-burst event-qps event-storage-age-limit event-storage-event-limit \
    eviction-hard eviction-max-pod-grace-period eviction-minimum-reclaim \
    eviction-pressure-transition-period eviction-soft eviction-soft-grace-period \
    exit-on-lock-contention experimental-allocatable-ignore-eviction experimental-mounter-path \
    fail-swap-on feature-gates file-check-frequency global-housekeeping-interval hairpin-mode \
    healthz-bind-address healthz-port help hostname-override housekeeping-interval \
    http-check-frequency image-credential-provider-bin-dir image-credential-provider-config \
    image-gc-high-threshold image-gc-low-threshold image-service-endpoint \
    keep-terminated-pod-volumes kernel-memcg-notification kube-api-burst kube-api-content-type \
    kube-api-qps kube-reserved kube-reserved-cgroup kubeconfig kubelet-cgroups \
    local-storage-capacity-isolation lock-file log-cadvisor-usage log-flush-frequency \
    log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size log-text-split-stream \
    logging-format machine-id-file make-iptables-util-chains manifest-url manifest-url-header \
    max-open-files max-pods maximum-dead-containers maximum-dead-containers-per-container \
    memory-manager-policy minimum-container-ttl-duration minimum-image-ttl-duration node-ip \
    node-labels node-status-max-images node-status-update-frequency oom-score-adj pod-cidr \
    pod-infra-container-image pod-manifest-path pod-max-pids pods-per-core port \
    protect-kernel-defaults provider-id qos-reserved read-only-port register-node \
    register-schedulable register-with-taints registry-burst registry-qps reserved-cpus \
    reserved-memory resolv-conf root-dir rotate-certificates rotate-server-certificates runonce \
    runtime-cgroups runtime-request-timeout seccomp-default serialize-image-pulls \
    storage-driver-buffer-duration storage-driver-db storage-driver-host storage-driver-password \
    storage-driver-secure storage-driver-table storage-driver-user streaming-connection-idle-timeout \
    sync-frequency system-cgroups system-reserved system-reserved-cgroup tls-cert-file \
    tls-cipher-suites tls-min-version tls-private-key-file topology-manager-policy \
    topology-manager-policy-options topology-manager-scope v version vmodule volume-plugin-dir \
    volume-stats-agg-period";

/// Fails for a flag that the kubelet does not have. `flag` includes its value, and may begin with
/// hyphens.
pub(super) fn check(flag: &str) -> Result<(), UserDataProblem> {
    let name = flag.trim_start_matches('-');
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    if KNOWN.split_ascii_whitespace().any(|known| known == name) {
        return Ok(());
    }
    Err(UserDataProblem::UnknownKubeletFlag(name.to_owned()))
}

/// Reads flags of the form `--name=value` or `--name value`. Flags that do not change the Node are
/// ignored. Fails for a flag that the kubelet does not have.
pub(super) fn read(words: &[String]) -> Result<KubeletFlags, UserDataProblem> {
    let mut flags = KubeletFlags::default();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--") else { continue };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => (flag, words.next_if(|next| !next.starts_with("--")).cloned().unwrap_or_default()),
        };
        check(name)?;
        flags.add(name, &value);
    }
    Ok(flags)
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
