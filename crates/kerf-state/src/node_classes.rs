//! Node classes of any provider, by group, kind and name. A provider decodes the parts that only
//! it knows; this crate reads only metadata and conditions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kerf_api::conditions::Condition;
use kerf_api::nodepool::NodeClassReference;
use kerf_api::slim::Str;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::object_table::ObjectChange;
use crate::pools::{NodeClassState, node_class_state};

/// A node class of any provider.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeClass {
    /// API group and version, for example `karpenter.k8s.aws/v1`.
    pub api_version: String,
    /// Kind, for example `EC2NodeClass`.
    pub kind: String,
    /// Name, UID, generation, annotations and deletion timestamp.
    pub metadata: ObjectMeta,
    /// Conditions of the status, such as `Ready`. Empty until a controller has written them.
    pub conditions: Vec<Condition>,
    spec: Value,
    status: Value,
}

impl<'de> Deserialize<'de> for NodeClass {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct RawNodeClass {
            #[serde(default)]
            api_version: String,
            #[serde(default)]
            kind: String,
            #[serde(default)]
            metadata: ObjectMeta,
            #[serde(default)]
            spec: Value,
            #[serde(default)]
            status: Value,
        }
        let raw = RawNodeClass::deserialize(deserializer)?;
        let conditions = match raw.status.get("conditions") {
            Some(conditions) => Vec::deserialize(conditions).map_err(serde::de::Error::custom)?,
            None => Vec::new(),
        };
        let RawNodeClass { api_version, kind, metadata, spec, status } = raw;
        Ok(Self { api_version, kind, metadata, conditions, spec, status })
    }
}

impl NodeClass {
    /// Returns the class with group, version and kind of the watch that reported it. Objects in a
    /// list need not repeat them.
    #[must_use]
    pub fn with_kind(self, group: &str, version: &str, kind: &str) -> Self {
        Self { api_version: format!("{group}/{version}"), kind: kind.to_owned(), ..self }
    }

    /// Returns the object's name; empty if it has none.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns the API group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// Returns the reference by which NodePools and NodeClaims name this class.
    pub fn reference(&self) -> NodeClassReference {
        NodeClassReference { group: self.group().to_owned(), kind: self.kind.clone(), name: self.name().to_owned() }
    }

    /// Returns the state of this node class for the pools that refer to it.
    pub fn state(&self) -> NodeClassState {
        node_class_state(self.metadata.deletion_timestamp.as_ref(), &self.conditions)
    }

    /// Decodes the object as the provider's own type. Copies the object, so a provider that needs
    /// it often keeps the result by UID and resource version.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        let mut object = json!({
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": serde_json::to_value(&self.metadata)?,
        });
        for (field, value) in [("spec", &self.spec), ("status", &self.status)] {
            if !value.is_null() {
                object[field] = value.clone();
            }
        }
        serde_json::from_value(object)
    }
}

/// Returns the key of a node class in cluster state. Classes of different kinds may have one name.
pub(crate) fn node_class_key(group: &str, kind: &str, name: &str) -> Str {
    Str::from(format!("{kind}.{group}/{name}"))
}

impl Cluster {
    /// Returns the node class that a reference names, or `None` if it does not exist.
    pub fn node_class(&self, reference: &NodeClassReference) -> Option<&std::sync::Arc<NodeClass>> {
        self.node_classes.get(&node_class_key(&reference.group, &reference.kind, &reference.name))
    }

    /// Replaces all node classes of one kind with a complete list and returns the changes.
    pub fn reset_node_classes(
        &mut self,
        group: &str,
        kind: &str,
        classes: Vec<NodeClass>,
    ) -> Vec<ObjectChange<NodeClass>> {
        self.listed_node_class_kinds.insert((Str::from(group), Str::from(kind)));
        self.reset_matching(classes, |class| class.group() == group && class.kind == kind)
    }

    /// Returns true once all node classes of the referenced kind have been listed. Until then an
    /// unknown class need not be missing.
    pub fn is_node_class_kind_listed(&self, reference: &NodeClassReference) -> bool {
        let (group, kind) = (Str::from(reference.group.as_str()), Str::from(reference.kind.as_str()));
        self.listed_node_class_kinds.contains(&(group, kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(api_version: &str, kind: &str, name: &str, role: &str) -> NodeClass {
        let conditions = json!([{"type": "Ready", "status": "False", "reason": "R", "message": role,
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        serde_json::from_value(json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": name, "uid": name},
            "spec": {"role": role}, "status": {"conditions": conditions, "subnets": [{"id": "subnet-1"}]},
        }))
        .unwrap()
    }

    fn reference(group: &str, kind: &str, name: &str) -> NodeClassReference {
        NodeClassReference { group: group.into(), kind: kind.into(), name: name.into() }
    }

    #[test]
    fn classes_of_different_kinds_may_have_one_name() {
        let mut cluster = Cluster::new();
        let ec2 = class("karpenter.k8s.aws/v1", "EC2NodeClass", "default", "ec2");
        let kwok = class("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass", "default", "kwok");
        cluster.reset_node_classes("karpenter.k8s.aws", "EC2NodeClass", vec![ec2]);
        let kwok_reference = reference("karpenter.kwok.sh", "KWOKNodeClass", "default");
        assert!(!cluster.is_node_class_kind_listed(&kwok_reference));
        cluster.reset_node_classes("karpenter.kwok.sh", "KWOKNodeClass", vec![kwok]);
        assert!(cluster.is_node_class_kind_listed(&kwok_reference));
        let ec2_reference = reference("karpenter.k8s.aws", "EC2NodeClass", "default");
        assert_eq!(cluster.node_class(&ec2_reference).unwrap().conditions[0].message, "ec2");
        assert_eq!(cluster.node_class(&kwok_reference).unwrap().conditions[0].message, "kwok");
        assert_eq!(cluster.node_class(&ec2_reference).unwrap().reference(), ec2_reference);

        let changes = cluster.reset_node_classes("karpenter.kwok.sh", "KWOKNodeClass", Vec::new());
        assert_eq!(changes.len(), 1, "a list of one kind removes only classes of that kind");
        assert!(cluster.node_class(&ec2_reference).is_some() && cluster.node_class(&kwok_reference).is_none());
    }

    #[test]
    fn a_provider_decodes_the_parts_that_only_it_knows() {
        #[derive(Debug, PartialEq, Deserialize)]
        struct ProviderClass {
            metadata: ObjectMeta,
            spec: Value,
            status: Value,
        }
        let class = class("karpenter.k8s.aws/v1", "EC2NodeClass", "default", "node-role");
        let decoded: ProviderClass = class.decode().unwrap();
        assert_eq!(decoded.metadata.name.as_deref(), Some("default"));
        assert_eq!(decoded.spec, json!({"role": "node-role"}));
        assert_eq!(decoded.status["subnets"], json!([{"id": "subnet-1"}]));
        assert!(class.decode::<Vec<u8>>().is_err());
    }
}
