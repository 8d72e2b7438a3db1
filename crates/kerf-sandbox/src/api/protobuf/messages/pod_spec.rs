//! The pod spec of pods and pod templates.

use super::super::MessageField;
use super::super::ProtoFieldType::{
    Bool, Flag, Message, Messages, Number, Numbers, QuantityMap, String, StringMap, Strings,
};
use super::SELECTOR;
use super::container::{
    APP_ARMOR_PROFILE, CONTAINER, RESOURCES, SE_LINUX_OPTIONS, SECCOMP_PROFILE, WINDOWS_SECURITY_CONTEXT_OPTIONS,
};
use super::volumes::{LOCAL_OBJECT_REFERENCE, VOLUME};

const SYSCTL: &[MessageField] = &[(1, "name", String), (2, "value", String)];
const POD_SECURITY_CONTEXT: &[MessageField] = &[
    (1, "seLinuxOptions", Message(SE_LINUX_OPTIONS)),
    (2, "runAsUser", Number),
    (3, "runAsNonRoot", Bool),
    (4, "supplementalGroups", Numbers),
    (5, "fsGroup", Number),
    (6, "runAsGroup", Number),
    (7, "sysctls", Messages(SYSCTL)),
    (8, "windowsOptions", Message(WINDOWS_SECURITY_CONTEXT_OPTIONS)),
    (9, "fsGroupChangePolicy", String),
    (10, "seccompProfile", Message(SECCOMP_PROFILE)),
    (11, "appArmorProfile", Message(APP_ARMOR_PROFILE)),
    (12, "supplementalGroupsPolicy", String),
    (13, "seLinuxChangePolicy", String),
];
const NODE_SELECTOR_REQUIREMENT: &[MessageField] =
    &[(1, "key", String), (2, "operator", String), (3, "values", Strings)];
const NODE_SELECTOR_TERM: &[MessageField] = &[
    (1, "matchExpressions", Messages(NODE_SELECTOR_REQUIREMENT)),
    (2, "matchFields", Messages(NODE_SELECTOR_REQUIREMENT)),
];
const NODE_SELECTOR: &[MessageField] = &[(1, "nodeSelectorTerms", Messages(NODE_SELECTOR_TERM))];
const PREFERRED_SCHEDULING_TERM: &[MessageField] =
    &[(1, "weight", Number), (2, "preference", Message(NODE_SELECTOR_TERM))];
const NODE_AFFINITY: &[MessageField] = &[
    (1, "requiredDuringSchedulingIgnoredDuringExecution", Message(NODE_SELECTOR)),
    (2, "preferredDuringSchedulingIgnoredDuringExecution", Messages(PREFERRED_SCHEDULING_TERM)),
];
const POD_AFFINITY_TERM: &[MessageField] = &[
    (1, "labelSelector", Message(SELECTOR)),
    (2, "namespaces", Strings),
    (3, "topologyKey", String),
    (4, "namespaceSelector", Message(SELECTOR)),
    (5, "matchLabelKeys", Strings),
    (6, "mismatchLabelKeys", Strings),
];
const WEIGHTED_POD_AFFINITY_TERM: &[MessageField] =
    &[(1, "weight", Number), (2, "podAffinityTerm", Message(POD_AFFINITY_TERM))];
const POD_AFFINITY: &[MessageField] = &[
    (1, "requiredDuringSchedulingIgnoredDuringExecution", Messages(POD_AFFINITY_TERM)),
    (2, "preferredDuringSchedulingIgnoredDuringExecution", Messages(WEIGHTED_POD_AFFINITY_TERM)),
];
const POD_ANTI_AFFINITY: &[MessageField] = &[
    (1, "requiredDuringSchedulingIgnoredDuringExecution", Messages(POD_AFFINITY_TERM)),
    (2, "preferredDuringSchedulingIgnoredDuringExecution", Messages(WEIGHTED_POD_AFFINITY_TERM)),
];
const AFFINITY: &[MessageField] = &[
    (1, "nodeAffinity", Message(NODE_AFFINITY)),
    (2, "podAffinity", Message(POD_AFFINITY)),
    (3, "podAntiAffinity", Message(POD_ANTI_AFFINITY)),
];
const TOLERATION: &[MessageField] = &[
    (1, "key", String),
    (2, "operator", String),
    (3, "value", String),
    (4, "effect", String),
    (5, "tolerationSeconds", Number),
];
const HOST_ALIAS: &[MessageField] = &[(1, "ip", String), (2, "hostnames", Strings)];
const DNS_CONFIG_OPTION: &[MessageField] = &[(1, "name", String), (2, "value", String)];
const DNS_CONFIG: &[MessageField] =
    &[(1, "nameservers", Strings), (2, "searches", Strings), (3, "options", Messages(DNS_CONFIG_OPTION))];
const POD_READINESS_GATE: &[MessageField] = &[(1, "conditionType", String)];
const TOPOLOGY_SPREAD_CONSTRAINT: &[MessageField] = &[
    (1, "maxSkew", Number),
    (2, "topologyKey", String),
    (3, "whenUnsatisfiable", String),
    (4, "labelSelector", Message(SELECTOR)),
    (5, "minDomains", Number),
    (6, "nodeAffinityPolicy", String),
    (7, "nodeTaintsPolicy", String),
    (8, "matchLabelKeys", Strings),
];
const POD_OS: &[MessageField] = &[(1, "name", String)];
const POD_SCHEDULING_GATE: &[MessageField] = &[(1, "name", String)];
const POD_RESOURCE_CLAIM: &[MessageField] =
    &[(1, "name", String), (3, "resourceClaimName", String), (4, "resourceClaimTemplateName", String)];
pub(super) const POD: &[MessageField] = &[
    (1, "volumes", Messages(VOLUME)),
    (2, "containers", Messages(CONTAINER)),
    (3, "restartPolicy", String),
    (4, "terminationGracePeriodSeconds", Number),
    (5, "activeDeadlineSeconds", Number),
    (6, "dnsPolicy", String),
    (7, "nodeSelector", StringMap),
    (8, "serviceAccountName", String),
    (9, "serviceAccount", String),
    (10, "nodeName", String),
    (11, "hostNetwork", Flag),
    (12, "hostPID", Flag),
    (13, "hostIPC", Flag),
    (14, "securityContext", Message(POD_SECURITY_CONTEXT)),
    (15, "imagePullSecrets", Messages(LOCAL_OBJECT_REFERENCE)),
    (16, "hostname", String),
    (17, "subdomain", String),
    (18, "affinity", Message(AFFINITY)),
    (19, "schedulerName", String),
    (20, "initContainers", Messages(CONTAINER)),
    (21, "automountServiceAccountToken", Bool),
    (22, "tolerations", Messages(TOLERATION)),
    (23, "hostAliases", Messages(HOST_ALIAS)),
    (24, "priorityClassName", String),
    (25, "priority", Number),
    (26, "dnsConfig", Message(DNS_CONFIG)),
    (27, "shareProcessNamespace", Bool),
    (28, "readinessGates", Messages(POD_READINESS_GATE)),
    (29, "runtimeClassName", String),
    (30, "enableServiceLinks", Bool),
    (31, "preemptionPolicy", String),
    (32, "overhead", QuantityMap),
    (33, "topologySpreadConstraints", Messages(TOPOLOGY_SPREAD_CONSTRAINT)),
    (35, "setHostnameAsFQDN", Bool),
    (36, "os", Message(POD_OS)),
    (37, "hostUsers", Bool),
    (38, "schedulingGates", Messages(POD_SCHEDULING_GATE)),
    (39, "resourceClaims", Messages(POD_RESOURCE_CLAIM)),
    (40, "resources", Message(RESOURCES)),
    (41, "hostnameOverride", String),
];
