//! Containers: ports, variables, mounts, probes, hooks and security contexts.

use super::super::MessageField;
use super::super::ProtoFieldType::{
    Bool, Flag, Inline, IntOrString, Message, Messages, NonZeroNumber, Number, Numbers, QuantityMap, String, Strings,
};
use super::volumes::{LOCAL_OBJECT_REFERENCE, OBJECT_FIELD_SELECTOR, RESOURCE_FIELD_SELECTOR};

const PORT: &[MessageField] = &[
    (1, "name", String),
    (2, "hostPort", NonZeroNumber),
    (3, "containerPort", Number),
    (4, "protocol", String),
    (5, "hostIP", String),
];
const CONFIG_MAP_ENV: &[MessageField] = &[(1, "", Inline(LOCAL_OBJECT_REFERENCE)), (2, "optional", Bool)];
const SECRET_ENV: &[MessageField] = &[(1, "", Inline(LOCAL_OBJECT_REFERENCE)), (2, "optional", Bool)];
const ENV_FROM: &[MessageField] =
    &[(1, "prefix", String), (2, "configMapRef", Message(CONFIG_MAP_ENV)), (3, "secretRef", Message(SECRET_ENV))];
const CONFIG_MAP_KEY_SELECTOR: &[MessageField] =
    &[(1, "", Inline(LOCAL_OBJECT_REFERENCE)), (2, "key", String), (3, "optional", Bool)];
const SECRET_KEY_SELECTOR: &[MessageField] =
    &[(1, "", Inline(LOCAL_OBJECT_REFERENCE)), (2, "key", String), (3, "optional", Bool)];
const FILE_KEY_SELECTOR: &[MessageField] =
    &[(1, "volumeName", String), (2, "path", String), (3, "key", String), (4, "optional", Bool)];
const VARIABLE_SOURCE: &[MessageField] = &[
    (1, "fieldRef", Message(OBJECT_FIELD_SELECTOR)),
    (2, "resourceFieldRef", Message(RESOURCE_FIELD_SELECTOR)),
    (3, "configMapKeyRef", Message(CONFIG_MAP_KEY_SELECTOR)),
    (4, "secretKeyRef", Message(SECRET_KEY_SELECTOR)),
    (5, "fileKeyRef", Message(FILE_KEY_SELECTOR)),
];
const VARIABLE: &[MessageField] =
    &[(1, "name", String), (2, "value", String), (3, "valueFrom", Message(VARIABLE_SOURCE))];
const RESOURCE_CLAIM: &[MessageField] = &[(1, "name", String), (2, "request", String)];
pub(super) const RESOURCES: &[MessageField] =
    &[(1, "limits", QuantityMap), (2, "requests", QuantityMap), (3, "claims", Messages(RESOURCE_CLAIM))];
const CONTAINER_RESIZE_POLICY: &[MessageField] = &[(1, "resourceName", String), (2, "restartPolicy", String)];
const CONTAINER_RESTART_RULE_ON_EXIT_CODES: &[MessageField] = &[(1, "operator", String), (2, "values", Numbers)];
const CONTAINER_RESTART_RULE: &[MessageField] =
    &[(1, "action", String), (2, "exitCodes", Message(CONTAINER_RESTART_RULE_ON_EXIT_CODES))];
const VOLUME_MOUNT: &[MessageField] = &[
    (1, "name", String),
    (2, "readOnly", Flag),
    (3, "mountPath", String),
    (4, "subPath", String),
    (5, "mountPropagation", String),
    (6, "subPathExpr", String),
    (7, "recursiveReadOnly", String),
];
const VOLUME_DEVICE: &[MessageField] = &[(1, "name", String), (2, "devicePath", String)];
const EXEC_ACTION: &[MessageField] = &[(1, "command", Strings)];
const HTTP_HEADER: &[MessageField] = &[(1, "name", String), (2, "value", String)];
const HTTP_GET_ACTION: &[MessageField] = &[
    (1, "path", String),
    (2, "port", IntOrString),
    (3, "host", String),
    (4, "scheme", String),
    (5, "httpHeaders", Messages(HTTP_HEADER)),
];
const TCP_SOCKET_ACTION: &[MessageField] = &[(1, "port", IntOrString), (2, "host", String)];
const GRPC_ACTION: &[MessageField] = &[(1, "port", Number), (2, "service", String)];
const PROBE_HANDLER: &[MessageField] = &[
    (1, "exec", Message(EXEC_ACTION)),
    (2, "httpGet", Message(HTTP_GET_ACTION)),
    (3, "tcpSocket", Message(TCP_SOCKET_ACTION)),
    (4, "grpc", Message(GRPC_ACTION)),
];
const PROBE: &[MessageField] = &[
    (1, "", Inline(PROBE_HANDLER)),
    (2, "initialDelaySeconds", NonZeroNumber),
    (3, "timeoutSeconds", NonZeroNumber),
    (4, "periodSeconds", NonZeroNumber),
    (5, "successThreshold", NonZeroNumber),
    (6, "failureThreshold", NonZeroNumber),
    (7, "terminationGracePeriodSeconds", Number),
];
const SLEEP_ACTION: &[MessageField] = &[(1, "seconds", Number)];
const LIFECYCLE_HANDLER: &[MessageField] = &[
    (1, "exec", Message(EXEC_ACTION)),
    (2, "httpGet", Message(HTTP_GET_ACTION)),
    (3, "tcpSocket", Message(TCP_SOCKET_ACTION)),
    (4, "sleep", Message(SLEEP_ACTION)),
];
const LIFECYCLE: &[MessageField] = &[
    (1, "postStart", Message(LIFECYCLE_HANDLER)),
    (2, "preStop", Message(LIFECYCLE_HANDLER)),
    (3, "stopSignal", String),
];
const CAPABILITIES: &[MessageField] = &[(1, "add", Strings), (2, "drop", Strings)];
pub(super) const SE_LINUX_OPTIONS: &[MessageField] =
    &[(1, "user", String), (2, "role", String), (3, "type", String), (4, "level", String)];
pub(super) const WINDOWS_SECURITY_CONTEXT_OPTIONS: &[MessageField] = &[
    (1, "gmsaCredentialSpecName", String),
    (2, "gmsaCredentialSpec", String),
    (3, "runAsUserName", String),
    (4, "hostProcess", Bool),
];
pub(super) const SECCOMP_PROFILE: &[MessageField] = &[(1, "type", String), (2, "localhostProfile", String)];
pub(super) const APP_ARMOR_PROFILE: &[MessageField] = &[(1, "type", String), (2, "localhostProfile", String)];
const SECURITY_CONTEXT: &[MessageField] = &[
    (1, "capabilities", Message(CAPABILITIES)),
    (2, "privileged", Bool),
    (3, "seLinuxOptions", Message(SE_LINUX_OPTIONS)),
    (4, "runAsUser", Number),
    (5, "runAsNonRoot", Bool),
    (6, "readOnlyRootFilesystem", Bool),
    (7, "allowPrivilegeEscalation", Bool),
    (8, "runAsGroup", Number),
    (9, "procMount", String),
    (10, "windowsOptions", Message(WINDOWS_SECURITY_CONTEXT_OPTIONS)),
    (11, "seccompProfile", Message(SECCOMP_PROFILE)),
    (12, "appArmorProfile", Message(APP_ARMOR_PROFILE)),
];
pub(super) const CONTAINER: &[MessageField] = &[
    (1, "name", String),
    (2, "image", String),
    (3, "command", Strings),
    (4, "args", Strings),
    (5, "workingDir", String),
    (6, "ports", Messages(PORT)),
    (7, "env", Messages(VARIABLE)),
    (8, "resources", Message(RESOURCES)),
    (9, "volumeMounts", Messages(VOLUME_MOUNT)),
    (10, "livenessProbe", Message(PROBE)),
    (11, "readinessProbe", Message(PROBE)),
    (12, "lifecycle", Message(LIFECYCLE)),
    (13, "terminationMessagePath", String),
    (14, "imagePullPolicy", String),
    (15, "securityContext", Message(SECURITY_CONTEXT)),
    (16, "stdin", Flag),
    (17, "stdinOnce", Flag),
    (18, "tty", Flag),
    (19, "envFrom", Messages(ENV_FROM)),
    (20, "terminationMessagePolicy", String),
    (21, "volumeDevices", Messages(VOLUME_DEVICE)),
    (22, "startupProbe", Message(PROBE)),
    (23, "resizePolicy", Messages(CONTAINER_RESIZE_POLICY)),
    (24, "restartPolicy", String),
    (25, "restartPolicyRules", Messages(CONTAINER_RESTART_RULE)),
];
