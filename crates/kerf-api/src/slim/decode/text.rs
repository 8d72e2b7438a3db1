//! Strings that occur in many objects.
//!
//! A string of up to 23 bytes is stored inline. Many longer strings are names that Kubernetes sets
//! on each pod and node. They point to static texts, so that 100,000 pods do not hold 100,000
//! copies. All other strings are interned.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

use super::super::meta::Str;
use super::interning;

/// String as a slim object stores it.
#[derive(Default)]
pub(super) struct SharedText(pub(super) Str);

impl<'de> Deserialize<'de> for SharedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = SharedText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<SharedText, E> {
        Ok(SharedText(shared_text(value)))
    }
}

/// Returns the string, sharing the text if it is a common name or cached.
pub(super) fn shared_text(value: &str) -> Str {
    const LONGEST_IN_PLACE: usize = 23;
    if value.len() <= LONGEST_IN_PLACE {
        return Str::new(value);
    }
    match COMMON_NAMES.iter().find(|known| **known == value) {
        Some(known) => Str::new_static(known),
        None => interning::intern_text(value),
    }
}

/// Names that are too long to be stored inline; those of pods come first.
const COMMON_NAMES: [&str; 27] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "topology.kubernetes.io/zone",
    "app.kubernetes.io/component",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/version",
    "statefulset.kubernetes.io/pod-name",
    "controller-revision-hash",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "batch.kubernetes.io/job-completion-index",
    "controller.kubernetes.io/pod-deletion-cost",
    "karpenter.sh/capacity-type",
    "karpenter.sh/do-not-disrupt",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "pv.kubernetes.io/bind-completed",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
];
