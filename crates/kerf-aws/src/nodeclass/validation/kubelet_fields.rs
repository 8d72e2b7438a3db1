//! The fields of the kubelet's own configuration (`KubeletConfiguration` of
//! kubelet.config.k8s.io/v1beta1, Kubernetes 1.36), and the check that `spec.kubelet` has only such
//! fields with values of their types. The texts are those of Kubernetes' decoder.

use std::str::FromStr as _;

use kerf_api::duration::Duration;
use serde_json::{Map, Value};

/// The type of a field.
#[derive(Debug, Clone, Copy)]
enum FieldType {
    Bool,
    Int32,
    Int64,
    Float,
    Text,
    /// A text that is one of several values, with the name of its type.
    Choice(&'static str),
    Duration,
    TextList,
    Int32List,
    TextMap,
    BoolMap,
    TextListMap,
    Object(&'static ObjectType),
    ObjectList(&'static ObjectType),
    /// A value that is not checked.
    Unchecked,
}

/// The type of an object, with the name that the decoder gives it.
#[derive(Debug)]
struct ObjectType {
    /// Package and name, for example `v1beta1.KubeletConfiguration`.
    name: &'static str,
    fields: &'static [(&'static str, FieldType)],
}

impl ObjectType {
    /// Returns the name without the package.
    fn short_name(&self) -> &'static str {
        self.name.rsplit_once('.').map_or(self.name, |(_, name)| name)
    }
}

use FieldType::{
    Bool, BoolMap, Choice, Float, Int32, Int32List, Int64, Object, ObjectList, Text, TextList, TextListMap, TextMap,
    Unchecked,
};

const WEBHOOK_AUTHENTICATION: ObjectType = ObjectType {
    name: "v1beta1.KubeletWebhookAuthentication",
    fields: &[("enabled", Bool), ("cacheTTL", FieldType::Duration)],
};
const ANONYMOUS_AUTHENTICATION: ObjectType =
    ObjectType { name: "v1beta1.KubeletAnonymousAuthentication", fields: &[("enabled", Bool)] };
const X509_AUTHENTICATION: ObjectType =
    ObjectType { name: "v1beta1.KubeletX509Authentication", fields: &[("clientCAFile", Text)] };
const AUTHENTICATION: ObjectType = ObjectType {
    name: "v1beta1.KubeletAuthentication",
    fields: &[
        ("x509", Object(&X509_AUTHENTICATION)),
        ("webhook", Object(&WEBHOOK_AUTHENTICATION)),
        ("anonymous", Object(&ANONYMOUS_AUTHENTICATION)),
    ],
};
const WEBHOOK_AUTHORIZATION: ObjectType = ObjectType {
    name: "v1beta1.KubeletWebhookAuthorization",
    fields: &[("cacheAuthorizedTTL", FieldType::Duration), ("cacheUnauthorizedTTL", FieldType::Duration)],
};
const AUTHORIZATION: ObjectType = ObjectType {
    name: "v1beta1.KubeletAuthorization",
    fields: &[("mode", Choice("v1beta1.KubeletAuthorizationMode")), ("webhook", Object(&WEBHOOK_AUTHORIZATION))],
};
const MEMORY_SWAP: ObjectType =
    ObjectType { name: "v1beta1.MemorySwapConfiguration", fields: &[("swapBehavior", Text)] };
const CRASH_LOOP_BACK_OFF: ObjectType = ObjectType {
    name: "v1beta1.CrashLoopBackOffConfig",
    fields: &[("maxContainerRestartPeriod", FieldType::Duration)],
};
const SHUTDOWN_GRACE_PERIOD: ObjectType = ObjectType {
    name: "v1beta1.ShutdownGracePeriodByPodPriority",
    fields: &[("priority", Int32), ("shutdownGracePeriodSeconds", Int64)],
};
const MEMORY_RESERVATION: ObjectType =
    ObjectType { name: "v1beta1.MemoryReservation", fields: &[("numaNode", Int32), ("limits", Unchecked)] };
const USER_NAMESPACES: ObjectType = ObjectType { name: "v1beta1.UserNamespaces", fields: &[("idsPerPod", Int64)] };
const TRACING: ObjectType =
    ObjectType { name: "v1.TracingConfiguration", fields: &[("endpoint", Text), ("samplingRatePerMillion", Int32)] };
const LOGGING: ObjectType = ObjectType {
    name: "v1.LoggingConfiguration",
    fields: &[
        ("format", Text),
        ("flushFrequency", Unchecked),
        ("verbosity", Unchecked),
        ("vmodule", Unchecked),
        ("options", Unchecked),
    ],
};
const TAINT: ObjectType = ObjectType {
    name: "v1.Taint",
    fields: &[("key", Text), ("value", Text), ("effect", Choice("v1.TaintEffect")), ("timeAdded", Unchecked)],
};

const KUBELET_CONFIGURATION: ObjectType = ObjectType {
    name: "v1beta1.KubeletConfiguration",
    fields: &[
        ("kind", Text),
        ("apiVersion", Text),
        ("enableServer", Bool),
        ("staticPodPath", Text),
        ("podLogsDir", Text),
        ("syncFrequency", FieldType::Duration),
        ("fileCheckFrequency", FieldType::Duration),
        ("httpCheckFrequency", FieldType::Duration),
        ("staticPodURL", Text),
        ("staticPodURLHeader", TextListMap),
        ("address", Text),
        ("port", Int32),
        ("readOnlyPort", Int32),
        ("tlsCertFile", Text),
        ("tlsPrivateKeyFile", Text),
        ("tlsCipherSuites", TextList),
        ("tlsCurvePreferences", Int32List),
        ("tlsMinVersion", Text),
        ("rotateCertificates", Bool),
        ("serverTLSBootstrap", Bool),
        ("authentication", Object(&AUTHENTICATION)),
        ("authorization", Object(&AUTHORIZATION)),
        ("registryPullQPS", Int32),
        ("registryBurst", Int32),
        ("imagePullCredentialsVerificationPolicy", Choice("v1beta1.ImagePullCredentialsVerificationPolicy")),
        ("preloadedImagesVerificationAllowlist", TextList),
        ("eventRecordQPS", Int32),
        ("eventBurst", Int32),
        ("enableDebuggingHandlers", Bool),
        ("enableContentionProfiling", Bool),
        ("healthzPort", Int32),
        ("healthzBindAddress", Text),
        ("oomScoreAdj", Int32),
        ("clusterDomain", Text),
        ("clusterDNS", TextList),
        ("streamingConnectionIdleTimeout", FieldType::Duration),
        ("nodeStatusUpdateFrequency", FieldType::Duration),
        ("nodeStatusReportFrequency", FieldType::Duration),
        ("nodeLeaseDurationSeconds", Int32),
        ("imageMinimumGCAge", FieldType::Duration),
        ("imageMaximumGCAge", FieldType::Duration),
        ("imageGCHighThresholdPercent", Int32),
        ("imageGCLowThresholdPercent", Int32),
        ("volumeStatsAggPeriod", FieldType::Duration),
        ("kubeletCgroups", Text),
        ("systemCgroups", Text),
        ("cgroupRoot", Text),
        ("cgroupsPerQOS", Bool),
        ("cgroupDriver", Text),
        ("cpuManagerPolicy", Text),
        ("singleProcessOOMKill", Bool),
        ("cpuManagerPolicyOptions", TextMap),
        ("cpuManagerReconcilePeriod", FieldType::Duration),
        ("draManagerReconcilePeriod", FieldType::Duration),
        ("memoryManagerPolicy", Text),
        ("topologyManagerPolicy", Text),
        ("topologyManagerScope", Text),
        ("topologyManagerPolicyOptions", TextMap),
        ("qosReserved", TextMap),
        ("runtimeRequestTimeout", FieldType::Duration),
        ("hairpinMode", Text),
        ("maxPods", Int32),
        ("podCIDR", Text),
        ("podPidsLimit", Int64),
        ("resolvConf", Text),
        ("runOnce", Bool),
        ("cpuCFSQuota", Bool),
        ("cpuCFSQuotaPeriod", FieldType::Duration),
        ("nodeStatusMaxImages", Int32),
        ("maxOpenFiles", Int64),
        ("contentType", Text),
        ("kubeAPIQPS", Int32),
        ("kubeAPIBurst", Int32),
        ("serializeImagePulls", Bool),
        ("maxParallelImagePulls", Int32),
        ("evictionHard", TextMap),
        ("evictionSoft", TextMap),
        ("evictionSoftGracePeriod", TextMap),
        ("evictionPressureTransitionPeriod", FieldType::Duration),
        ("evictionMaxPodGracePeriod", Int32),
        ("evictionMinimumReclaim", TextMap),
        ("mergeDefaultEvictionSettings", Bool),
        ("podsPerCore", Int32),
        ("enableControllerAttachDetach", Bool),
        ("protectKernelDefaults", Bool),
        ("makeIPTablesUtilChains", Bool),
        ("iptablesMasqueradeBit", Int32),
        ("iptablesDropBit", Int32),
        ("featureGates", BoolMap),
        ("failSwapOn", Bool),
        ("memorySwap", Object(&MEMORY_SWAP)),
        ("containerLogMaxSize", Text),
        ("containerLogMaxFiles", Int32),
        ("containerLogMaxWorkers", Int32),
        ("containerLogMonitorInterval", FieldType::Duration),
        ("configMapAndSecretChangeDetectionStrategy", Choice("v1beta1.ResourceChangeDetectionStrategy")),
        ("systemReserved", TextMap),
        ("kubeReserved", TextMap),
        ("reservedSystemCPUs", Text),
        ("showHiddenMetricsForVersion", Text),
        ("systemReservedCgroup", Text),
        ("kubeReservedCgroup", Text),
        ("enforceNodeAllocatable", TextList),
        ("allowedUnsafeSysctls", TextList),
        ("volumePluginDir", Text),
        ("providerID", Text),
        ("kernelMemcgNotification", Bool),
        ("logging", Object(&LOGGING)),
        ("enableSystemLogHandler", Bool),
        ("enableSystemLogQuery", Bool),
        ("shutdownGracePeriod", FieldType::Duration),
        ("shutdownGracePeriodCriticalPods", FieldType::Duration),
        ("shutdownGracePeriodByPodPriority", ObjectList(&SHUTDOWN_GRACE_PERIOD)),
        ("crashLoopBackOff", Object(&CRASH_LOOP_BACK_OFF)),
        ("reservedMemory", ObjectList(&MEMORY_RESERVATION)),
        ("enableProfilingHandler", Bool),
        ("enableDebugFlagsHandler", Bool),
        ("seccompDefault", Bool),
        ("memoryThrottlingFactor", Float),
        ("memoryReservationPolicy", Choice("v1beta1.MemoryReservationPolicy")),
        ("registerWithTaints", ObjectList(&TAINT)),
        ("registerNode", Bool),
        ("tracing", Object(&TRACING)),
        ("localStorageCapacityIsolation", Bool),
        ("containerRuntimeEndpoint", Text),
        ("imageServiceEndpoint", Text),
        ("failCgroupV1", Bool),
        ("userNamespaces", Object(&USER_NAMESPACES)),
    ],
};

/// Returns the texts of Kubernetes' decoder for a kubelet configuration: the first value of a wrong
/// type, or else one text for each unknown field. `maxPods` may also be a text, which is an
/// expression.
pub(super) fn decoding_errors(kubelet: &Map<String, Value>) -> Vec<String> {
    let mut decoder = Decoder::default();
    let fields = kubelet.iter().filter(|(name, value)| !(name.as_str() == "maxPods" && value.is_string()));
    decoder.check_fields(&KUBELET_CONFIGURATION, "", fields);
    match decoder.type_error {
        Some(error) => vec![error],
        None => decoder.unknown_fields,
    }
}

#[derive(Debug, Default)]
struct Decoder {
    type_error: Option<String>,
    unknown_fields: Vec<String>,
}

/// The place of a value: the object's name, and the path of the field from the root.
#[derive(Debug, Clone, Copy)]
struct FieldPlace<'a> {
    object: &'static str,
    path: &'a str,
}

impl Decoder {
    fn check_fields<'v>(
        &mut self,
        object: &'static ObjectType,
        parent: &str,
        fields: impl IntoIterator<Item = (&'v String, &'v Value)>,
    ) {
        for (name, value) in fields {
            let path = if parent.is_empty() { name.clone() } else { format!("{parent}.{name}") };
            match object.fields.iter().find(|(known, _)| known == name) {
                Some((_, field_type)) => {
                    self.check_value(FieldPlace { object: object.short_name(), path: &path }, *field_type, value);
                }
                None => self.unknown_fields.push(format!("unknown field \"{path}\"")),
            }
        }
    }

    fn check_value(&mut self, place: FieldPlace<'_>, field_type: FieldType, value: &Value) {
        if value.is_null() {
            return;
        }
        match field_type {
            Unchecked => {}
            Bool => self.expect(value.is_boolean(), place, "bool", value),
            Int32 => self.expect_integer(place, "int32", value, i64::from(i32::MIN), i64::from(i32::MAX)),
            Int64 => self.expect_integer(place, "int64", value, i64::MIN, i64::MAX),
            Float => self.expect(value.is_number(), place, "float64", value),
            Text => self.expect(value.is_string(), place, "string", value),
            Choice(name) => self.expect(value.is_string(), place, name, value),
            FieldType::Duration => self.check_duration(place, value),
            TextList => self.check_items(place, "[]string", Text, value),
            Int32List => self.check_items(place, "[]int32", Int32, value),
            TextMap => self.check_entries(place, "map[string]string", Text, value),
            BoolMap => self.check_entries(place, "map[string]bool", Bool, value),
            TextListMap => self.check_entries(place, "map[string][]string", TextList, value),
            Object(object) => match value {
                Value::Object(fields) => self.check_fields(object, place.path, fields),
                other => self.fail(place, object.name, other),
            },
            ObjectList(object) => self.check_items(place, &format!("[]{}", object.name), Object(object), value),
        }
    }

    fn check_items(&mut self, place: FieldPlace<'_>, type_name: &str, item_type: FieldType, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.check_value(place, item_type, item)),
            other => self.fail(place, type_name, other),
        }
    }

    fn check_entries(&mut self, place: FieldPlace<'_>, type_name: &str, entry_type: FieldType, value: &Value) {
        match value {
            Value::Object(entries) => entries.values().for_each(|entry| self.check_value(place, entry_type, entry)),
            other => self.fail(place, type_name, other),
        }
    }

    fn check_duration(&mut self, place: FieldPlace<'_>, value: &Value) {
        match value.as_str() {
            None => self.fail(place, "string", value),
            Some(text) if Duration::from_str(text).is_ok() => {}
            Some(text) => self.set_type_error(format!("time: invalid duration {text:?}")),
        }
    }

    fn expect(&mut self, is_type: bool, place: FieldPlace<'_>, type_name: &str, value: &Value) {
        if !is_type {
            self.fail(place, type_name, value);
        }
    }

    fn expect_integer(&mut self, place: FieldPlace<'_>, type_name: &str, value: &Value, min: i64, max: i64) {
        if !value.as_i64().is_some_and(|number| (min..=max).contains(&number)) {
            self.fail(place, type_name, value);
        }
    }

    fn fail(&mut self, place: FieldPlace<'_>, type_name: &str, value: &Value) {
        let found = match value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            // The decoder names a number only if it expects one of another size.
            Value::Number(number) if type_name.starts_with("int") => format!("number {number}"),
            Value::Number(_) => "number".to_owned(),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
        };
        let FieldPlace { object, path } = place;
        self.set_type_error(format!(
            "json: cannot unmarshal {found} into Go struct field {object}.{path} of type {type_name}"
        ));
    }

    fn set_type_error(&mut self, text: String) {
        self.type_error.get_or_insert(text);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(kubelet: Value) -> Vec<String> {
        decoding_errors(kubelet.as_object().unwrap())
    }

    #[test]
    fn each_unknown_field_is_reported_in_order() {
        let kubelet = json!({"maxpods": 1, "a": 1, "authentication": {"webhook": {"ttl": "1m"}}, "maxPods": 10});
        let expected =
            ["unknown field \"a\"", "unknown field \"authentication.webhook.ttl\"", "unknown field \"maxpods\""];
        assert_eq!(errors(kubelet), expected);
    }

    #[test]
    fn the_first_value_of_a_wrong_type_hides_unknown_fields() {
        let field = "into Go struct field KubeletConfiguration";
        for (kubelet, expected) in [
            (json!({"podsPerCore": "ten", "a": 1}), format!("string {field}.podsPerCore of type int32")),
            (json!({"podsPerCore": 1.5}), format!("number 1.5 {field}.podsPerCore of type int32")),
            (json!({"podsPerCore": 4_294_967_296_i64}), format!("number 4294967296 {field}.podsPerCore of type int32")),
            (json!({"clusterDNS": "10.0.0.1"}), format!("string {field}.clusterDNS of type []string")),
            (json!({"clusterDNS": [1]}), format!("number {field}.clusterDNS of type string")),
            (json!({"kubeReserved": {"cpu": 1}}), format!("number {field}.kubeReserved of type string")),
            (json!({"syncFrequency": 5}), format!("number {field}.syncFrequency of type string")),
            (
                json!({"authentication": []}),
                format!("array {field}.authentication of type v1beta1.KubeletAuthentication"),
            ),
            (json!({"maxPods": true}), format!("bool {field}.maxPods of type int32")),
        ] {
            assert_eq!(errors(kubelet), [format!("json: cannot unmarshal {expected}")]);
        }
        let nested = errors(json!({"authentication": {"webhook": {"enabled": 1}}}));
        let expected = "json: cannot unmarshal number into Go struct field \
                        KubeletWebhookAuthentication.authentication.webhook.enabled of type bool";
        assert_eq!(nested, [expected]);
        assert_eq!(errors(json!({"syncFrequency": "soon"})), ["time: invalid duration \"soon\""]);
    }

    #[test]
    fn values_of_all_types_are_accepted() {
        let kubelet = json!({
            "maxPods": "min(110, vcpus * 8)", "podPidsLimit": 4096, "memoryThrottlingFactor": 0.9, "seccompDefault": true,
            "featureGates": {"A": true}, "clusterDNS": ["10.0.0.1"], "syncFrequency": "1m", "systemReserved": {"cpu": "1"},
            "memorySwap": {"swapBehavior": "NoSwap"}, "shutdownGracePeriodByPodPriority": [{"priority": 1}],
            "staticPodURLHeader": {"a": ["b"]}, "logging": {"verbosity": 3}, "tlsCipherSuites": null,
            "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}], "cpuManagerPolicyOptions": {},
        });
        assert_eq!(errors(kubelet), Vec::<String>::new());
    }
}
