//! Volumes of a pod. Volume types of storage systems that Kubernetes has removed are left out.

use super::super::MessageField;
use super::super::ProtoFieldType::{
    Bool, Flag, Inline, Message, Messages, NonZeroNumber, Number, OptionalString, Quantity, QuantityMap, String,
    StringMap, Strings,
};
use super::{METADATA, SELECTOR};

const HOST_PATH_VOLUME: &[MessageField] = &[(1, "path", String), (2, "type", String)];
const EMPTY_DIR_VOLUME: &[MessageField] = &[(1, "medium", String), (2, "sizeLimit", Quantity)];
const AWS_DISK_VOLUME: &[MessageField] =
    &[(1, "volumeID", String), (2, "fsType", String), (3, "partition", NonZeroNumber), (4, "readOnly", Flag)];
const KEY_TO_PATH: &[MessageField] = &[(1, "key", String), (2, "path", String), (3, "mode", Number)];
const SECRET_VOLUME: &[MessageField] = &[
    (1, "secretName", String),
    (2, "items", Messages(KEY_TO_PATH)),
    (3, "defaultMode", Number),
    (4, "optional", Bool),
];
const NFS_VOLUME: &[MessageField] = &[(1, "server", String), (2, "path", String), (3, "readOnly", Flag)];
const PERSISTENT_VOLUME_CLAIM_VOLUME: &[MessageField] = &[(1, "claimName", String), (2, "readOnly", Flag)];
pub(super) const OBJECT_FIELD_SELECTOR: &[MessageField] = &[(1, "apiVersion", String), (2, "fieldPath", String)];
pub(super) const RESOURCE_FIELD_SELECTOR: &[MessageField] =
    &[(1, "containerName", String), (2, "resource", String), (3, "divisor", Quantity)];
const DOWNWARD_API_FILE: &[MessageField] = &[
    (1, "path", String),
    (2, "fieldRef", Message(OBJECT_FIELD_SELECTOR)),
    (3, "resourceFieldRef", Message(RESOURCE_FIELD_SELECTOR)),
    (4, "mode", Number),
];
const DOWNWARD_API_VOLUME: &[MessageField] = &[(1, "items", Messages(DOWNWARD_API_FILE)), (2, "defaultMode", Number)];
pub(super) const LOCAL_OBJECT_REFERENCE: &[MessageField] = &[(1, "name", String)];
const CONFIG_MAP_VOLUME: &[MessageField] = &[
    (1, "", Inline(LOCAL_OBJECT_REFERENCE)),
    (2, "items", Messages(KEY_TO_PATH)),
    (3, "defaultMode", Number),
    (4, "optional", Bool),
];
const SECRET_PROJECTION: &[MessageField] =
    &[(1, "", Inline(LOCAL_OBJECT_REFERENCE)), (2, "items", Messages(KEY_TO_PATH)), (4, "optional", Bool)];
const DOWNWARD_API_PROJECTION: &[MessageField] = &[(1, "items", Messages(DOWNWARD_API_FILE))];
const CONFIG_MAP_PROJECTION: &[MessageField] =
    &[(1, "", Inline(LOCAL_OBJECT_REFERENCE)), (2, "items", Messages(KEY_TO_PATH)), (4, "optional", Bool)];
const SERVICE_ACCOUNT_TOKEN_PROJECTION: &[MessageField] =
    &[(1, "audience", String), (2, "expirationSeconds", Number), (3, "path", String)];
const VOLUME_PROJECTION: &[MessageField] = &[
    (1, "secret", Message(SECRET_PROJECTION)),
    (2, "downwardAPI", Message(DOWNWARD_API_PROJECTION)),
    (3, "configMap", Message(CONFIG_MAP_PROJECTION)),
    (4, "serviceAccountToken", Message(SERVICE_ACCOUNT_TOKEN_PROJECTION)),
];
const PROJECTED_VOLUME: &[MessageField] = &[(1, "sources", Messages(VOLUME_PROJECTION)), (2, "defaultMode", Number)];
const CSI_VOLUME: &[MessageField] = &[
    (1, "driver", String),
    (2, "readOnly", Bool),
    (3, "fsType", String),
    (4, "volumeAttributes", StringMap),
    (5, "nodePublishSecretRef", Message(LOCAL_OBJECT_REFERENCE)),
];
const VOLUME_RESOURCE_REQUIREMENTS: &[MessageField] = &[(1, "limits", QuantityMap), (2, "requests", QuantityMap)];
const TYPED_LOCAL_OBJECT_REFERENCE: &[MessageField] =
    &[(1, "apiGroup", String), (2, "kind", String), (3, "name", String)];
const TYPED_OBJECT_REFERENCE: &[MessageField] =
    &[(1, "apiGroup", String), (2, "kind", String), (3, "name", String), (4, "namespace", String)];
const PERSISTENT_VOLUME_CLAIM_SPEC: &[MessageField] = &[
    (1, "accessModes", Strings),
    (2, "resources", Message(VOLUME_RESOURCE_REQUIREMENTS)),
    (3, "volumeName", String),
    (4, "selector", Message(SELECTOR)),
    (5, "storageClassName", OptionalString),
    (6, "volumeMode", String),
    (7, "dataSource", Message(TYPED_LOCAL_OBJECT_REFERENCE)),
    (8, "dataSourceRef", Message(TYPED_OBJECT_REFERENCE)),
    (9, "volumeAttributesClassName", String),
];
const PERSISTENT_VOLUME_CLAIM_TEMPLATE: &[MessageField] =
    &[(1, "metadata", Message(METADATA)), (2, "spec", Message(PERSISTENT_VOLUME_CLAIM_SPEC))];
const EPHEMERAL_VOLUME: &[MessageField] = &[(1, "volumeClaimTemplate", Message(PERSISTENT_VOLUME_CLAIM_TEMPLATE))];
const IMAGE_VOLUME: &[MessageField] = &[(1, "reference", String), (2, "pullPolicy", String)];
const VOLUME_SOURCE: &[MessageField] = &[
    (1, "hostPath", Message(HOST_PATH_VOLUME)),
    (2, "emptyDir", Message(EMPTY_DIR_VOLUME)),
    (4, "awsElasticBlockStore", Message(AWS_DISK_VOLUME)),
    (6, "secret", Message(SECRET_VOLUME)),
    (7, "nfs", Message(NFS_VOLUME)),
    (10, "persistentVolumeClaim", Message(PERSISTENT_VOLUME_CLAIM_VOLUME)),
    (16, "downwardAPI", Message(DOWNWARD_API_VOLUME)),
    (19, "configMap", Message(CONFIG_MAP_VOLUME)),
    (26, "projected", Message(PROJECTED_VOLUME)),
    (28, "csi", Message(CSI_VOLUME)),
    (29, "ephemeral", Message(EPHEMERAL_VOLUME)),
    (30, "image", Message(IMAGE_VOLUME)),
];
pub(super) const VOLUME: &[MessageField] = &[(1, "name", String), (2, "", Inline(VOLUME_SOURCE))];
