//! Strings that are the same in every cluster.
//!
//! A string of up to 23 bytes is stored in place. Many of the longer ones are names that Kubernetes itself puts on each pod and
//! node; those point to the program's own text, so that 100,000 pods do not hold 100,000 copies. The others are shared where
//! objects that come together have them in common.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

use super::super::meta::Str;
use super::interning;

/// A string, as a slim object keeps it.
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

/// The string, without a copy of its own if others have it, too.
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

/// Names longer than what fits in place, those of pods first.
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
