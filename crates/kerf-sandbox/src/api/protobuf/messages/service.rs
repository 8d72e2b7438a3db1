//! Services and Ingresses.

use super::super::MessageField;
use super::super::ProtoFieldType::{
    Bool, Flag, Inline, IntOrString, Message, Messages, NonZeroNumber, Number, String, StringMap, Strings,
};

const SERVICE_PORT: &[MessageField] = &[
    (1, "name", String),
    (2, "protocol", String),
    (3, "port", Number),
    (4, "targetPort", IntOrString),
    (5, "nodePort", NonZeroNumber),
    (6, "appProtocol", String),
];
const CLIENT_IP: &[MessageField] = &[(1, "timeoutSeconds", Number)];
const SESSION_AFFINITY: &[MessageField] = &[(1, "clientIP", Message(CLIENT_IP))];
pub(super) const SERVICE: &[MessageField] = &[
    (1, "ports", Messages(SERVICE_PORT)),
    (2, "selector", StringMap),
    (3, "clusterIP", String),
    (4, "type", String),
    (5, "externalIPs", Strings),
    (7, "sessionAffinity", String),
    (8, "loadBalancerIP", String),
    (9, "loadBalancerSourceRanges", Strings),
    (10, "externalName", String),
    (11, "externalTrafficPolicy", String),
    (12, "healthCheckNodePort", NonZeroNumber),
    (13, "publishNotReadyAddresses", Flag),
    (14, "sessionAffinityConfig", Message(SESSION_AFFINITY)),
    (17, "ipFamilyPolicy", String),
    (18, "clusterIPs", Strings),
    (19, "ipFamilies", Strings),
    (20, "allocateLoadBalancerNodePorts", Bool),
    (21, "loadBalancerClass", String),
    (22, "internalTrafficPolicy", String),
    (23, "trafficDistribution", String),
];

const RESOURCE_BACKEND: &[MessageField] = &[(1, "apiGroup", String), (2, "kind", String), (3, "name", String)];
const BACKEND_PORT: &[MessageField] = &[(1, "name", String), (2, "number", NonZeroNumber)];
const SERVICE_BACKEND: &[MessageField] = &[(1, "name", String), (2, "port", Message(BACKEND_PORT))];
const BACKEND: &[MessageField] =
    &[(3, "resource", Message(RESOURCE_BACKEND)), (4, "service", Message(SERVICE_BACKEND))];
const HTTP_PATH: &[MessageField] = &[(1, "path", String), (2, "backend", Message(BACKEND)), (3, "pathType", String)];
const HTTP_RULE: &[MessageField] = &[(1, "paths", Messages(HTTP_PATH))];
const RULE_VALUE: &[MessageField] = &[(1, "http", Message(HTTP_RULE))];
const INGRESS_RULE: &[MessageField] = &[(1, "host", String), (2, "", Inline(RULE_VALUE))];
const INGRESS_TLS: &[MessageField] = &[(1, "hosts", Strings), (2, "secretName", String)];
pub(super) const INGRESS: &[MessageField] = &[
    (1, "defaultBackend", Message(BACKEND)),
    (2, "tls", Messages(INGRESS_TLS)),
    (3, "rules", Messages(INGRESS_RULE)),
    (4, "ingressClassName", String),
];
