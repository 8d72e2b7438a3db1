//! Builds the status that a kubelet writes for a pod at each stage.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::cluster::objects::{Container, Pod, find_condition};

/// Stage of a pod's containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContainerStage {
    /// The containers are being created; the pod is `Pending`.
    Creating,
    /// All containers are running.
    Running,
    /// All containers have terminated with this exit code.
    Ended { exit_code: i64 },
}

/// Values of a pod's status that do not depend on the stage.
pub(super) struct PodStatusInputs<'a> {
    pub(super) now: &'a str,
    /// Time at which the kubelet accepted the pod (`status.startTime`).
    pub(super) started: &'a str,
    /// Start time of the containers.
    pub(super) running_since: &'a str,
    pub(super) host: Ipv4Addr,
    pub(super) address: Option<Ipv4Addr>,
    pub(super) restarts: u32,
}

/// Returns the status of `pod` at a stage.
pub(super) fn pod_status(pod: &Pod, step: ContainerStage, facts: &PodStatusInputs<'_>) -> Value {
    let gates_open = pod.spec.readiness_gates.iter().all(|gate| {
        find_condition(&pod.status.conditions, &gate.condition_type).is_some_and(|condition| condition.status == "True")
    });
    let (phase, up, reason) = match step {
        ContainerStage::Creating => ("Pending", false, "ContainersNotReady"),
        ContainerStage::Running => ("Running", true, ""),
        ContainerStage::Ended { exit_code: 0 } => ("Succeeded", false, "PodCompleted"),
        ContainerStage::Ended { .. } => ("Failed", false, "PodFailed"),
    };
    let initialized_reason = if matches!(step, ContainerStage::Ended { exit_code: 0 }) { "PodCompleted" } else { "" };
    let initialized = step != ContainerStage::Creating || pod.spec.init_containers.is_empty();
    let names: Vec<&str> = pod.spec.containers.iter().map(|container| container.name.as_str()).collect();
    let unready = format!("containers with unready status: [{}]", names.join(" "));
    let message = if reason == "ContainersNotReady" { unready.as_str() } else { "" };
    let (ready_reason, ready_message) = if up && !gates_open {
        ("ReadinessGatesNotReady", "corresponding condition of pod readiness gate does not exist or is not true.")
    } else {
        (reason, message)
    };
    let conditions = [
        ("PodReadyToStartContainers", step == ContainerStage::Running, "", ""),
        ("Initialized", initialized, initialized_reason, ""),
        ("ContainersReady", up, reason, message),
        ("Ready", up && gates_open, ready_reason, ready_message),
    ];
    let conditions =
        conditions.map(|(kind, holds, reason, message)| pod_condition(pod, kind, holds, reason, message, facts.now));
    let mut status = json!({
        "phase": phase,
        "conditions": conditions,
        "hostIP": facts.host.to_string(),
        "hostIPs": [{"ip": facts.host.to_string()}],
        "startTime": facts.started,
        "containerStatuses": pod.spec.containers.iter().map(|container| container_status(container, step, facts)).collect::<Vec<_>>(),
    });
    if let Some(address) = facts.address {
        status["podIP"] = address.to_string().into();
        status["podIPs"] = json!([{"ip": address.to_string()}]);
    }
    if !pod.spec.init_containers.is_empty() {
        let statuses = pod.spec.init_containers.iter().map(|container| {
            let stays = container.restart_policy == "Always";
            let step =
                if step == ContainerStage::Running && !stays { ContainerStage::Ended { exit_code: 0 } } else { step };
            let mut status = container_status(container, step, facts);
            status["ready"] =
                (matches!(step, ContainerStage::Ended { exit_code: 0 }) || step == ContainerStage::Running).into();
            status
        });
        status["initContainerStatuses"] = statuses.collect();
    }
    status
}

/// Returns a condition. Its transition time stays if its status is unchanged.
fn pod_condition(pod: &Pod, kind: &str, holds: bool, reason: &str, message: &str, now: &str) -> Value {
    let status = if holds { "True" } else { "False" };
    let since = find_condition(&pod.status.conditions, kind)
        .filter(|condition| condition.status == status)
        .and_then(|condition| condition.last_transition_time)
        .map_or_else(|| now.to_string(), crate::api::object::rfc3339_seconds);
    let mut condition = json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": since});
    if kind != "PodReadyToStartContainers" || !reason.is_empty() {
        condition["observedGeneration"] = pod.metadata.generation.into();
    }
    // A patch merges conditions, so a field that no longer applies has to be set to null.
    condition["reason"] = if reason.is_empty() { Value::Null } else { reason.into() };
    condition["message"] = if message.is_empty() { Value::Null } else { message.into() };
    condition
}

fn container_status(container: &Container, step: ContainerStage, facts: &PodStatusInputs<'_>) -> Value {
    let id = format!("kerf://{}", container.name);
    let (state, up) = match step {
        ContainerStage::Creating => (json!({"waiting": {"reason": "ContainerCreating"}}), false),
        ContainerStage::Running => (json!({"running": {"startedAt": facts.running_since}}), true),
        ContainerStage::Ended { exit_code } => {
            let reason = if exit_code == 0 { "Completed" } else { "Error" };
            let ended = json!({
                "exitCode": exit_code, "reason": reason, "containerID": id, "startedAt": facts.running_since, "finishedAt": facts.now,
            });
            (json!({"terminated": ended}), false)
        }
    };
    json!({
        "name": container.name, "image": container.image, "imageID": if step == ContainerStage::Creating { "" } else { container.image.as_str() },
        "containerID": if step == ContainerStage::Creating { "" } else { id.as_str() },
        "ready": up, "started": up, "restartCount": facts.restarts, "state": state, "lastState": {},
    })
}
