//! The supported messages, with the field numbers of Kubernetes' published `.proto` files.

mod autoscaling;
mod container;
mod pod_spec;
mod service;
mod volumes;

use self::autoscaling::{AUTOSCALER_V1, AUTOSCALER_V2};
use self::pod_spec::POD;
use self::service::{INGRESS, SERVICE};
use super::MessageField;
use super::ProtoFieldType::{
    Bool, BytesMap, IntOrString, Message, Messages, NonZeroNumber, Number, QuantityMap, Skip, String, StringMap,
    Strings,
};

const OWNER: &[MessageField] = &[
    (1, "kind", String),
    (3, "name", String),
    (4, "uid", String),
    (5, "apiVersion", String),
    (6, "controller", Bool),
    (7, "blockOwnerDeletion", Bool),
];
const METADATA: &[MessageField] = &[
    (1, "name", String),
    (2, "generateName", String),
    (3, "namespace", String),
    (4, "selfLink", Skip),
    (5, "uid", String),
    (6, "resourceVersion", String),
    (7, "generation", Skip),
    (8, "creationTimestamp", Skip),
    (9, "deletionTimestamp", Skip),
    (10, "deletionGracePeriodSeconds", Skip),
    (11, "labels", StringMap),
    (12, "annotations", StringMap),
    (13, "ownerReferences", Messages(OWNER)),
    (14, "finalizers", Strings),
    (17, "managedFields", Skip),
];
const EXPRESSION: &[MessageField] = &[(1, "key", String), (2, "operator", String), (3, "values", Strings)];
const SELECTOR: &[MessageField] = &[(1, "matchLabels", StringMap), (2, "matchExpressions", Messages(EXPRESSION))];

const PRECONDITIONS: &[MessageField] = &[(1, "uid", String), (2, "resourceVersion", String)];
const DELETE_OPTIONS: &[MessageField] = &[
    (1, "gracePeriodSeconds", Number),
    (2, "preconditions", Message(PRECONDITIONS)),
    (3, "orphanDependents", Bool),
    (4, "propagationPolicy", String),
    (5, "dryRun", Strings),
];

const RESOURCE: &[MessageField] = &[
    (1, "namespace", String),
    (2, "verb", String),
    (3, "group", String),
    (4, "version", String),
    (5, "resource", String),
    (6, "subresource", String),
    (7, "name", String),
];
const NON_RESOURCE: &[MessageField] = &[(1, "path", String), (2, "verb", String)];
const ACCESS: &[MessageField] =
    &[(1, "resourceAttributes", Message(RESOURCE)), (2, "nonResourceAttributes", Message(NON_RESOURCE))];

const TEMPLATE: &[MessageField] = &[(1, "metadata", Message(METADATA)), (2, "spec", Message(POD))];

const ROLLING: &[MessageField] = &[(1, "maxUnavailable", IntOrString), (2, "maxSurge", IntOrString)];
const STRATEGY: &[MessageField] = &[(1, "type", String), (2, "rollingUpdate", Message(ROLLING))];
const DEPLOYMENT: &[MessageField] = &[
    (1, "replicas", Number),
    (2, "selector", Message(SELECTOR)),
    (3, "template", Message(TEMPLATE)),
    (4, "strategy", Message(STRATEGY)),
    (5, "minReadySeconds", NonZeroNumber),
    (6, "revisionHistoryLimit", Number),
    (7, "paused", Bool),
    (9, "progressDeadlineSeconds", Number),
];
const JOB: &[MessageField] = &[
    (1, "parallelism", Number),
    (2, "completions", Number),
    (3, "activeDeadlineSeconds", Number),
    (4, "selector", Message(SELECTOR)),
    (5, "manualSelector", Bool),
    (6, "template", Message(TEMPLATE)),
    (7, "backoffLimit", Number),
    (8, "ttlSecondsAfterFinished", Number),
    (9, "completionMode", String),
    (10, "suspend", Bool),
    (14, "podReplacementPolicy", String),
];
const JOB_TEMPLATE: &[MessageField] = &[(1, "metadata", Message(METADATA)), (2, "spec", Message(JOB))];
const CRON_JOB: &[MessageField] = &[
    (1, "schedule", String),
    (2, "startingDeadlineSeconds", Number),
    (3, "concurrencyPolicy", String),
    (4, "suspend", Bool),
    (5, "jobTemplate", Message(JOB_TEMPLATE)),
    (6, "successfulJobsHistoryLimit", Number),
    (7, "failedJobsHistoryLimit", Number),
    (8, "timeZone", String),
];
const BUDGET: &[MessageField] =
    &[(1, "minAvailable", IntOrString), (2, "selector", Message(SELECTOR)), (3, "maxUnavailable", IntOrString)];
const SCOPE_SELECTOR: &[MessageField] =
    &[(1, "matchExpressions", Messages(&[(1, "scopeName", String), (2, "operator", String), (3, "values", Strings)]))];
const QUOTA: &[MessageField] =
    &[(1, "hard", QuantityMap), (2, "scopes", Strings), (3, "scopeSelector", Message(SCOPE_SELECTOR))];
const RULE: &[MessageField] = &[
    (1, "verbs", Strings),
    (2, "apiGroups", Strings),
    (3, "resources", Strings),
    (4, "resourceNames", Strings),
    (5, "nonResourceURLs", Strings),
];
const AGGREGATION: &[MessageField] = &[(1, "clusterRoleSelectors", Messages(SELECTOR))];
const SUBJECT: &[MessageField] =
    &[(1, "kind", String), (2, "apiGroup", String), (3, "name", String), (4, "namespace", String)];
const ROLE_REFERENCE: &[MessageField] = &[(1, "apiGroup", String), (2, "kind", String), (3, "name", String)];
const ROLE_BINDING: &[MessageField] =
    &[(1, "metadata", Message(METADATA)), (2, "subjects", Messages(SUBJECT)), (3, "roleRef", Message(ROLE_REFERENCE))];
const BOUND_OBJECT: &[MessageField] =
    &[(1, "kind", String), (2, "apiVersion", String), (3, "name", String), (4, "uid", String)];
const TOKEN: &[MessageField] =
    &[(1, "audiences", Strings), (3, "boundObjectRef", Message(BOUND_OBJECT)), (4, "expirationSeconds", Number)];
const FINALIZERS: &[MessageField] = &[(1, "finalizers", Strings)];

/// The fields of an object whose spec is the message `$spec`.
macro_rules! object {
    ($spec:expr) => {
        &[(1, "metadata", Message(METADATA)), (2, "spec", Message($spec)), (3, "status", Skip)]
    };
}

/// The kinds whose bodies can be decoded.
pub(super) const KINDS: &[(&str, &[MessageField])] = &[
    ("DeleteOptions", DELETE_OPTIONS),
    ("SelfSubjectAccessReview", object!(ACCESS)),
    ("SelfSubjectReview", &[(1, "metadata", Message(METADATA)), (2, "status", Skip)]),
    ("SelfSubjectRulesReview", object!(&[(1, "namespace", String)])),
    ("TokenRequest", object!(TOKEN)),
    ("Eviction", &[(1, "metadata", Message(METADATA)), (2, "deleteOptions", Message(DELETE_OPTIONS))]),
    ("Namespace", object!(FINALIZERS)),
    ("Pod", object!(POD)),
    ("Deployment", object!(DEPLOYMENT)),
    ("Job", object!(JOB)),
    ("CronJob", object!(CRON_JOB)),
    ("PodDisruptionBudget", object!(BUDGET)),
    ("ServiceAccount", &[(1, "metadata", Message(METADATA))]),
    (
        "ConfigMap",
        &[
            (1, "metadata", Message(METADATA)),
            (2, "data", StringMap),
            (3, "binaryData", BytesMap),
            (4, "immutable", Bool),
        ],
    ),
    (
        "Secret",
        &[
            (1, "metadata", Message(METADATA)),
            (2, "data", BytesMap),
            (3, "type", String),
            (4, "stringData", StringMap),
            (5, "immutable", Bool),
        ],
    ),
    ("ResourceQuota", object!(QUOTA)),
    ("Service", object!(SERVICE)),
    ("Ingress", object!(INGRESS)),
    ("Role", &[(1, "metadata", Message(METADATA)), (2, "rules", Messages(RULE))]),
    (
        "ClusterRole",
        &[
            (1, "metadata", Message(METADATA)),
            (2, "rules", Messages(RULE)),
            (3, "aggregationRule", Message(AGGREGATION)),
        ],
    ),
    ("RoleBinding", ROLE_BINDING),
    ("ClusterRoleBinding", ROLE_BINDING),
    (
        "PriorityClass",
        &[
            (1, "metadata", Message(METADATA)),
            (2, "value", Number),
            (3, "globalDefault", Bool),
            (4, "description", String),
            (5, "preemptionPolicy", String),
        ],
    ),
];

/// The kinds whose messages differ between versions, by version and kind.
pub(super) const KINDS_OF_VERSIONS: &[(&str, &str, &[MessageField])] = &[
    ("autoscaling/v1", "HorizontalPodAutoscaler", object!(AUTOSCALER_V1)),
    ("autoscaling/v2", "HorizontalPodAutoscaler", object!(AUTOSCALER_V2)),
];
