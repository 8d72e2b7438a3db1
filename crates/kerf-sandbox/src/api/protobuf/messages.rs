//! The supported messages, with the field numbers of Kubernetes' published `.proto` files.

use super::MessageField;
use super::ProtoFieldType::{
    Flag, IntOrString, Message, Messages, NonZeroNumber, Number, Pairs, Quantities, Skip, Text, Texts,
};

const OWNER: &[MessageField] = &[
    (1, "kind", Text),
    (3, "name", Text),
    (4, "uid", Text),
    (5, "apiVersion", Text),
    (6, "controller", Flag),
    (7, "blockOwnerDeletion", Flag),
];
const METADATA: &[MessageField] = &[
    (1, "name", Text),
    (2, "generateName", Text),
    (3, "namespace", Text),
    (4, "selfLink", Skip),
    (5, "uid", Text),
    (6, "resourceVersion", Text),
    (7, "generation", Skip),
    (8, "creationTimestamp", Skip),
    (11, "labels", Pairs),
    (12, "annotations", Pairs),
    (13, "ownerReferences", Messages(OWNER)),
    (14, "finalizers", Texts),
];
const EXPRESSION: &[MessageField] = &[(1, "key", Text), (2, "operator", Text), (3, "values", Texts)];
const SELECTOR: &[MessageField] = &[(1, "matchLabels", Pairs), (2, "matchExpressions", Messages(EXPRESSION))];

const PRECONDITIONS: &[MessageField] = &[(1, "uid", Text), (2, "resourceVersion", Text)];
const DELETE_OPTIONS: &[MessageField] = &[
    (1, "gracePeriodSeconds", Number),
    (2, "preconditions", Message(PRECONDITIONS)),
    (3, "orphanDependents", Flag),
    (4, "propagationPolicy", Text),
    (5, "dryRun", Texts),
];

const RESOURCE: &[MessageField] = &[
    (1, "namespace", Text),
    (2, "verb", Text),
    (3, "group", Text),
    (4, "version", Text),
    (5, "resource", Text),
    (6, "subresource", Text),
    (7, "name", Text),
];
const NON_RESOURCE: &[MessageField] = &[(1, "path", Text), (2, "verb", Text)];
const ACCESS: &[MessageField] =
    &[(1, "resourceAttributes", Message(RESOURCE)), (2, "nonResourceAttributes", Message(NON_RESOURCE))];

const PORT: &[MessageField] = &[
    (1, "name", Text),
    (2, "hostPort", NonZeroNumber),
    (3, "containerPort", NonZeroNumber),
    (4, "protocol", Text),
    (5, "hostIP", Text),
];
const VARIABLE: &[MessageField] = &[(1, "name", Text), (2, "value", Text)];
const RESOURCES: &[MessageField] = &[(1, "limits", Quantities), (2, "requests", Quantities)];
const CONTAINER: &[MessageField] = &[
    (1, "name", Text),
    (2, "image", Text),
    (3, "command", Texts),
    (4, "args", Texts),
    (5, "workingDir", Text),
    (6, "ports", Messages(PORT)),
    (7, "env", Messages(VARIABLE)),
    (8, "resources", Message(RESOURCES)),
    (13, "terminationMessagePath", Text),
    (14, "imagePullPolicy", Text),
    (20, "terminationMessagePolicy", Text),
];
const TOLERATION: &[MessageField] = &[
    (1, "key", Text),
    (2, "operator", Text),
    (3, "value", Text),
    (4, "effect", Text),
    (5, "tolerationSeconds", Number),
];
const POD: &[MessageField] = &[
    (2, "containers", Messages(CONTAINER)),
    (3, "restartPolicy", Text),
    (4, "terminationGracePeriodSeconds", Number),
    (5, "activeDeadlineSeconds", Number),
    (6, "dnsPolicy", Text),
    (7, "nodeSelector", Pairs),
    (8, "serviceAccountName", Text),
    (9, "serviceAccount", Text),
    (10, "nodeName", Text),
    (11, "hostNetwork", Flag),
    (14, "securityContext", Message(&[])),
    (19, "schedulerName", Text),
    (20, "initContainers", Messages(CONTAINER)),
    (22, "tolerations", Messages(TOLERATION)),
    (24, "priorityClassName", Text),
];
const TEMPLATE: &[MessageField] = &[(1, "metadata", Message(METADATA)), (2, "spec", Message(POD))];

const ROLLING: &[MessageField] = &[(1, "maxUnavailable", IntOrString), (2, "maxSurge", IntOrString)];
const STRATEGY: &[MessageField] = &[(1, "type", Text), (2, "rollingUpdate", Message(ROLLING))];
const DEPLOYMENT: &[MessageField] = &[
    (1, "replicas", Number),
    (2, "selector", Message(SELECTOR)),
    (3, "template", Message(TEMPLATE)),
    (4, "strategy", Message(STRATEGY)),
    (5, "minReadySeconds", NonZeroNumber),
    (6, "revisionHistoryLimit", Number),
    (7, "paused", Flag),
    (9, "progressDeadlineSeconds", Number),
];
const JOB: &[MessageField] = &[
    (1, "parallelism", Number),
    (2, "completions", Number),
    (3, "activeDeadlineSeconds", Number),
    (4, "selector", Message(SELECTOR)),
    (5, "manualSelector", Flag),
    (6, "template", Message(TEMPLATE)),
    (7, "backoffLimit", Number),
    (8, "ttlSecondsAfterFinished", Number),
    (9, "completionMode", Text),
    (10, "suspend", Flag),
    (14, "podReplacementPolicy", Text),
];
const JOB_TEMPLATE: &[MessageField] = &[(1, "metadata", Message(METADATA)), (2, "spec", Message(JOB))];
const CRON_JOB: &[MessageField] = &[
    (1, "schedule", Text),
    (2, "startingDeadlineSeconds", Number),
    (3, "concurrencyPolicy", Text),
    (4, "suspend", Flag),
    (5, "jobTemplate", Message(JOB_TEMPLATE)),
    (6, "successfulJobsHistoryLimit", Number),
    (7, "failedJobsHistoryLimit", Number),
    (8, "timeZone", Text),
];
const BUDGET: &[MessageField] =
    &[(1, "minAvailable", IntOrString), (2, "selector", Message(SELECTOR)), (3, "maxUnavailable", IntOrString)];
const FINALIZERS: &[MessageField] = &[(1, "finalizers", Texts)];

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
    ("SelfSubjectRulesReview", object!(&[(1, "namespace", Text)])),
    ("Namespace", object!(FINALIZERS)),
    ("Deployment", object!(DEPLOYMENT)),
    ("Job", object!(JOB)),
    ("CronJob", object!(CRON_JOB)),
    ("PodDisruptionBudget", object!(BUDGET)),
    ("ServiceAccount", &[(1, "metadata", Message(METADATA))]),
    ("ConfigMap", &[(1, "metadata", Message(METADATA)), (2, "data", Pairs), (4, "immutable", Flag)]),
    (
        "PriorityClass",
        &[
            (1, "metadata", Message(METADATA)),
            (2, "value", Number),
            (3, "globalDefault", Flag),
            (4, "description", Text),
            (5, "preemptionPolicy", Text),
        ],
    ),
];
