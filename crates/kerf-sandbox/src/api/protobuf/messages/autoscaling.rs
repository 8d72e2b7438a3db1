//! HorizontalPodAutoscalers, whose spec differs between `autoscaling/v1` and `v2`.

use super::super::MessageField;
use super::super::ProtoFieldType::{Message, Messages, Number, Quantity, String};
use super::SELECTOR;

const TARGET_REFERENCE: &[MessageField] = &[(1, "kind", String), (2, "name", String), (3, "apiVersion", String)];
pub(super) const AUTOSCALER_V1: &[MessageField] = &[
    (1, "scaleTargetRef", Message(TARGET_REFERENCE)),
    (2, "minReplicas", Number),
    (3, "maxReplicas", Number),
    (4, "targetCPUUtilizationPercentage", Number),
];

const METRIC_TARGET: &[MessageField] =
    &[(1, "type", String), (2, "value", Quantity), (3, "averageValue", Quantity), (4, "averageUtilization", Number)];
const METRIC: &[MessageField] = &[(1, "name", String), (2, "selector", Message(SELECTOR))];
const OBJECT_METRIC: &[MessageField] = &[
    (1, "describedObject", Message(TARGET_REFERENCE)),
    (2, "target", Message(METRIC_TARGET)),
    (3, "metric", Message(METRIC)),
];
const NAMED_METRIC: &[MessageField] = &[(1, "metric", Message(METRIC)), (2, "target", Message(METRIC_TARGET))];
const RESOURCE_METRIC: &[MessageField] = &[(1, "name", String), (2, "target", Message(METRIC_TARGET))];
const CONTAINER_METRIC: &[MessageField] =
    &[(1, "name", String), (2, "target", Message(METRIC_TARGET)), (3, "container", String)];
const METRIC_SPEC: &[MessageField] = &[
    (1, "type", String),
    (2, "object", Message(OBJECT_METRIC)),
    (3, "pods", Message(NAMED_METRIC)),
    (4, "resource", Message(RESOURCE_METRIC)),
    (5, "external", Message(NAMED_METRIC)),
    (7, "containerResource", Message(CONTAINER_METRIC)),
];
const SCALING_POLICY: &[MessageField] = &[(1, "type", String), (2, "value", Number), (3, "periodSeconds", Number)];
const SCALING_RULES: &[MessageField] = &[
    (1, "selectPolicy", String),
    (2, "policies", Messages(SCALING_POLICY)),
    (3, "stabilizationWindowSeconds", Number),
    (4, "tolerance", Quantity),
];
const BEHAVIOR: &[MessageField] = &[(1, "scaleUp", Message(SCALING_RULES)), (2, "scaleDown", Message(SCALING_RULES))];
pub(super) const AUTOSCALER_V2: &[MessageField] = &[
    (1, "scaleTargetRef", Message(TARGET_REFERENCE)),
    (2, "minReplicas", Number),
    (3, "maxReplicas", Number),
    (4, "metrics", Messages(METRIC_SPEC)),
    (5, "behavior", Message(BEHAVIOR)),
];
