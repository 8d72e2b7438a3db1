//! Texts of `FailedScheduling` events and `PodScheduled` conditions, with kube-scheduler's wording.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::filter::{FilterRejection, Plugin};
use super::view::NodeIx;

/// Maximum length of an Event's note.
const MAX_NOTE_BYTES: usize = 1024;

/// The reasons why no node accepted a pod.
#[derive(Debug, Default)]
pub(super) struct Diagnosis {
    /// Number of nodes in the cluster.
    pub(super) nodes: usize,
    /// Rejections of the nodes that were checked.
    pub(super) rejections: Vec<(NodeIx, FilterRejection)>,
    /// Rejection before any node was checked; `None` if nodes were checked.
    pub(super) pre_filter_rejection: Option<FilterRejection>,
    /// True if only the nodes that the pod's affinity names were checked.
    pub(super) is_limited_to_named_nodes: bool,
}

impl Diagnosis {
    /// Returns the plug-ins that rejected the pod.
    pub(super) fn rejectors(&self) -> BTreeSet<Plugin> {
        let mut plugins: BTreeSet<Plugin> = self.rejections.iter().map(|(_, rejection)| rejection.plugin).collect();
        plugins.extend(self.pre_filter_rejection.as_ref().map(|rejection| rejection.plugin));
        if self.is_limited_to_named_nodes && self.rejections.len() < self.nodes {
            plugins.insert(Plugin::NodeAffinity);
        }
        plugins
    }

    /// Returns the text, such as `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were
    /// unschedulable.`
    pub(super) fn message(&self) -> String {
        let mut message = message_prefix(self.nodes);
        if let Some(rejection) = &self.pre_filter_rejection {
            message.push(' ');
            message.push_str(&rejection.reasons.join(", "));
            message.push('.');
            return message;
        }
        let mut reasons = ReasonCounts::default();
        for (_, rejection) in &self.rejections {
            for reason in &rejection.reasons {
                reasons.add(reason.clone(), 1);
            }
        }
        if self.is_limited_to_named_nodes {
            let others = self.nodes - self.rejections.len();
            reasons.add("node(s) didn't satisfy plugin(s) [NodeAffinity]".into(), others);
        }
        message.push_str(&reasons.sentence());
        message
    }
}

/// Returns the beginning of the text.
pub(super) fn message_prefix(nodes: usize) -> String {
    format!("0/{nodes} nodes are available:")
}

/// Reasons, each with the number of nodes to which it applies.
#[derive(Debug, Default)]
pub(super) struct ReasonCounts(BTreeMap<Cow<'static, str>, usize>);

impl ReasonCounts {
    pub(super) fn add(&mut self, reason: Cow<'static, str>, nodes: usize) {
        if nodes > 0 {
            *self.0.entry(reason).or_default() += nodes;
        }
    }

    /// Returns a text such as ` 1 Insufficient cpu, 2 node(s) were unschedulable.`, or an empty
    /// text without reasons. The parts are sorted as texts, numbers included.
    pub(super) fn sentence(&self) -> String {
        let mut parts: Vec<String> = self.0.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        parts.sort();
        if parts.is_empty() { String::new() } else { format!(" {}.", parts.join(", ")) }
    }
}

/// Shortens a message to the maximum length of an Event's note.
pub(super) fn truncate_note(message: &str) -> Cow<'_, str> {
    const ELLIPSIS: &str = " ...";
    if message.len() <= MAX_NOTE_BYTES {
        return message.into();
    }
    let cut = message.floor_char_boundary(MAX_NOTE_BYTES - ELLIPSIS.len());
    format!("{}{ELLIPSIS}", &message[..cut]).into()
}
