//! Decodes nodes.

use super::super::node::{Node, NodeCondition, NodeSpec, NodeStatus, Taint, TaintEffect};
use super::{Str, decode_object};

decode_object!(Node(out, field) {
    "metadata" => out.metadata = field.get()?,
    "spec" => out.spec = field.get()?,
    "status" => out.status = field.get()?,
});

decode_object!(NodeSpec(out, field) {
    "providerID" => out.provider_id = field.text()?,
    "taints" => out.taints = field.list()?,
    "unschedulable" => out.unschedulable = field.get()?,
});

decode_object!(Taint(out, field) from Taint { effect: TaintEffect::Unsupported(Str::default()), ..Taint::default() }; {
    "key" => out.key = field.text()?,
    "value" => out.value = field.text()?,
    "effect" => out.effect = field.text()?.into(),
});

decode_object!(NodeStatus(out, field) {
    "capacity" => out.capacity = field.get()?,
    "allocatable" => out.allocatable = field.get()?,
    "conditions" => out.conditions = field.list()?,
});

decode_object!(NodeCondition(out, field) {
    "type" => out.condition_type = field.text()?,
    "status" => out.status = field.text()?,
    "reason" => out.reason = field.text()?,
    "message" => out.message = field.text()?,
    "lastTransitionTime" => out.last_transition_time = field.optional()?,
});
