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
pub(super) fn pod_status(pod: &Pod, stage: ContainerStage, inputs: &PodStatusInputs<'_>) -> Value {
    let gates_open = pod.spec.readiness_gates.iter().all(|gate| {
        find_condition(&pod.status.conditions, &gate.condition_type).is_some_and(|condition| condition.status == "True")
    });
    let (phase, is_running, reason) = match stage {
        ContainerStage::Creating => ("Pending", false, "ContainersNotReady"),
        ContainerStage::Running => ("Running", true, ""),
        ContainerStage::Ended { exit_code: 0 } => ("Succeeded", false, "PodCompleted"),
        ContainerStage::Ended { .. } => ("Failed", false, "PodFailed"),
    };
    let initialized_reason = if matches!(stage, ContainerStage::Ended { exit_code: 0 }) { "PodCompleted" } else { "" };
    let initialized = stage != ContainerStage::Creating || pod.spec.init_containers.is_empty();
    let names: Vec<&str> = pod.spec.containers.iter().map(|container| container.name.as_str()).collect();
    let unready = format!("containers with unready status: [{}]", names.join(" "));
    let message = if reason == "ContainersNotReady" { unready.as_str() } else { "" };
    let (ready_reason, ready_message) = if is_running && !gates_open {
        ("ReadinessGatesNotReady", "corresponding condition of pod readiness gate does not exist or is not true.")
    } else {
        (reason, message)
    };
    let conditions = [
        ("PodReadyToStartContainers", stage == ContainerStage::Running, "", ""),
        ("Initialized", initialized, initialized_reason, ""),
        ("ContainersReady", is_running, reason, message),
        ("Ready", is_running && gates_open, ready_reason, ready_message),
    ];
    let conditions = conditions
        .map(|(kind, is_true, reason, message)| pod_condition(pod, kind, is_true, reason, message, inputs.now));
    let mut status = json!({
        "phase": phase,
        "conditions": conditions,
        "hostIP": inputs.host.to_string(),
        "hostIPs": [{"ip": inputs.host.to_string()}],
        "startTime": inputs.started,
        "containerStatuses": pod.spec.containers.iter().map(|container| container_status(container, stage, inputs)).collect::<Vec<_>>(),
    });
    if let Some(address) = inputs.address {
        status["podIP"] = address.to_string().into();
        status["podIPs"] = json!([{"ip": address.to_string()}]);
    }
    if !pod.spec.init_containers.is_empty() {
        let statuses = pod.spec.init_containers.iter().map(|container| {
            let is_sidecar = container.restart_policy == "Always";
            let stage = if stage == ContainerStage::Running && !is_sidecar {
                ContainerStage::Ended { exit_code: 0 }
            } else {
                stage
            };
            let mut status = container_status(container, stage, inputs);
            status["ready"] =
                (matches!(stage, ContainerStage::Ended { exit_code: 0 }) || stage == ContainerStage::Running).into();
            status
        });
        status["initContainerStatuses"] = statuses.collect();
    }
    status
}

/// Returns a condition. Its transition time stays if its status is unchanged.
fn pod_condition(pod: &Pod, kind: &str, is_true: bool, reason: &str, message: &str, now: &str) -> Value {
    let status = if is_true { "True" } else { "False" };
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

fn container_status(container: &Container, stage: ContainerStage, inputs: &PodStatusInputs<'_>) -> Value {
    let id = format!("kerf://{}", container.name);
    let (state, is_running) = match stage {
        ContainerStage::Creating => (json!({"waiting": {"reason": "ContainerCreating"}}), false),
        ContainerStage::Running => (json!({"running": {"startedAt": inputs.running_since}}), true),
        ContainerStage::Ended { exit_code } => {
            let reason = if exit_code == 0 { "Completed" } else { "Error" };
            let ended = json!({
                "exitCode": exit_code, "reason": reason, "containerID": id, "startedAt": inputs.running_since, "finishedAt": inputs.now,
            });
            (json!({"terminated": ended}), false)
        }
    };
    json!({
        "name": container.name, "image": container.image, "imageID": if stage == ContainerStage::Creating { "" } else { container.image.as_str() },
        "containerID": if stage == ContainerStage::Creating { "" } else { id.as_str() },
        "ready": is_running, "started": is_running, "restartCount": inputs.restarts, "state": state, "lastState": {},
    })
}
