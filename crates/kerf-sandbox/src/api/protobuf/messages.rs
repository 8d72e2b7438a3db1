//! The supported messages, with the field numbers of Kubernetes' published `.proto` files.

use super::MessageField;
use super::ProtoFieldType::{
    Bool, IntOrString, Message, Messages, NonZeroNumber, Number, QuantityMap, Skip, String, StringMap, Strings,
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
    (11, "labels", StringMap),
    (12, "annotations", StringMap),
    (13, "ownerReferences", Messages(OWNER)),
    (14, "finalizers", Strings),
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

const PORT: &[MessageField] = &[
    (1, "name", String),
    (2, "hostPort", NonZeroNumber),
    (3, "containerPort", NonZeroNumber),
    (4, "protocol", String),
    (5, "hostIP", String),
];
const VARIABLE: &[MessageField] = &[(1, "name", String), (2, "value", String)];
const RESOURCES: &[MessageField] = &[(1, "limits", QuantityMap), (2, "requests", QuantityMap)];
const CONTAINER: &[MessageField] = &[
    (1, "name", String),
    (2, "image", String),
    (3, "command", Strings),
    (4, "args", Strings),
    (5, "workingDir", String),
    (6, "ports", Messages(PORT)),
    (7, "env", Messages(VARIABLE)),
    (8, "resources", Message(RESOURCES)),
    (13, "terminationMessagePath", String),
    (14, "imagePullPolicy", String),
    (20, "terminationMessagePolicy", String),
];
const TOLERATION: &[MessageField] = &[
    (1, "key", String),
    (2, "operator", String),
    (3, "value", String),
    (4, "effect", String),
    (5, "tolerationSeconds", Number),
];
const POD: &[MessageField] = &[
    (2, "containers", Messages(CONTAINER)),
    (3, "restartPolicy", String),
    (4, "terminationGracePeriodSeconds", Number),
    (5, "activeDeadlineSeconds", Number),
    (6, "dnsPolicy", String),
    (7, "nodeSelector", StringMap),
    (8, "serviceAccountName", String),
    (9, "serviceAccount", String),
    (10, "nodeName", String),
    (11, "hostNetwork", Bool),
    (14, "securityContext", Message(&[])),
    (19, "schedulerName", String),
    (20, "initContainers", Messages(CONTAINER)),
    (22, "tolerations", Messages(TOLERATION)),
    (24, "priorityClassName", String),
];
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
    ("SelfSubjectRulesReview", object!(&[(1, "namespace", String)])),
    ("Namespace", object!(FINALIZERS)),
    ("Deployment", object!(DEPLOYMENT)),
    ("Job", object!(JOB)),
    ("CronJob", object!(CRON_JOB)),
    ("PodDisruptionBudget", object!(BUDGET)),
    ("ServiceAccount", &[(1, "metadata", Message(METADATA))]),
    ("ConfigMap", &[(1, "metadata", Message(METADATA)), (2, "data", StringMap), (4, "immutable", Bool)]),
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
