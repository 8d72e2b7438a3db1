//! Decodes names, labels, owners and resource lists.

use serde::de::{Deserialize, Deserializer};

use super::super::meta::{Labels, ObjectMeta, OwnerReference, ResourceList, sorted};
use super::text::SharedText;
use super::{EntriesVisitor, Str, decode_object, interning};
use crate::quantity::Quantity;

decode_object!(ObjectMeta(out, field) {
    "name" => out.name = field.unique_text()?,
    "namespace" => out.namespace = field.text()?,
    "uid" => out.uid = field.unique_text()?,
    "labels" => out.labels = field.get()?,
    "annotations" => out.annotations = field.get::<KeptAnnotations>()?.0,
    "creationTimestamp" => out.creation_timestamp = field.optional()?,
    "deletionTimestamp" => out.deletion_timestamp = field.optional()?,
    "ownerReferences" => out.owner_references = field.list()?,
    "finalizers" => out.finalizers = field.text_list()?,
});

decode_object!(OwnerReference(out, field) {
    "apiVersion" => out.api_version = field.text()?,
    "kind" => out.kind = field.text()?,
    "name" => out.name = field.text()?,
    "uid" => out.uid = field.text()?,
    "controller" => out.controller = field.get()?,
});

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor::<SharedText>::all()).map(labels)
    }
}

impl<'de> Deserialize<'de> for ResourceList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pairs = deserializer.deserialize_map(EntriesVisitor::<Quantity>::all())?;
        Ok(Self::from_sorted(interning::intern_resources(sorted(pairs))))
    }
}

fn labels(pairs: Vec<(Str, SharedText)>) -> Labels {
    Labels::from_sorted(interning::intern_labels(sorted(pairs.into_iter().map(|(key, value)| (key, value.0)))))
}

/// Annotations that some decision reads. The others are dropped to save memory.
#[derive(Default)]
struct KeptAnnotations(Labels);

impl<'de> Deserialize<'de> for KeptAnnotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_map(EntriesVisitor::<SharedText>::only(is_kept_annotation))
            .map(|pairs| Self(labels(pairs)))
    }
}

fn is_kept_annotation(annotation: &str) -> bool {
    let domain = annotation.split_once('/').map_or("", |(domain, _)| domain);
    match domain {
        "controller.kubernetes.io" => annotation == "controller.kubernetes.io/pod-deletion-cost",
        "pv.kubernetes.io" => annotation == "pv.kubernetes.io/bind-completed",
        // Instructions for the simulated kubelet.
        "kwok.x-k8s.io" => true,
        _ => ["karpenter.sh", "karpenter.k8s.aws", "karpenter.kwok.sh", "kerf.sh"].into_iter().any(|own_domain| {
            domain.strip_suffix(own_domain).is_some_and(|parent| parent.is_empty() || parent.ends_with('.'))
        }),
    }
}
