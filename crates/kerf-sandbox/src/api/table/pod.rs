//! The table of pods. The column `Status` is computed from the pod's phase and its container
//! statuses.

use jiff::Timestamp;
use serde_json::Value;

use super::human_duration;
use super::layout::{TableLayout, TableRow};
use crate::api::object;

pub(super) const LAYOUTS: &[TableLayout] = &[TableLayout {
    group: "",
    plural: "pods",
    columns: &["Name", "Ready", "Status", "Restarts", "Age", "*IP", "*Node", "*Nominated Node", "*Readiness Gates"],
    cells,
}];

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let summary = PodSummary::of(row.object);
    let restarts = match summary.last_restart {
        Some(at) if summary.restarts != 0 => {
            format!("{} ({} ago)", summary.restarts, human_duration(row.now.duration_since(at).as_secs()))
        }
        _ => summary.restarts.to_string(),
    };
    let address =
        object::list(row.object, &["status", "podIPs"]).first().map(|ip| object::text(ip, &["ip"])).unwrap_or_default();
    let address = if address.is_empty() { object::text(row.object, &["status", "podIP"]) } else { address };
    vec![
        row.name(),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.status.into(),
        restarts.into(),
        row.age(),
        if address.is_empty() { "<none>" } else { address }.into(),
        row.text_or(&["spec", "nodeName"], "<none>"),
        row.text_or(&["status", "nominatedNodeName"], "<none>"),
        readiness_gates(row.object).into(),
    ]
}

struct PodSummary {
    status: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

/// A container's status with its state.
struct ContainerState<'a>(&'a Value);

impl<'a> ContainerState<'a> {
    fn terminated(&self) -> Option<&'a Value> {
        object::at(self.0, &["state", "terminated"])
    }

    fn waiting_reason(&self) -> &'a str {
        object::text(self.0, &["state", "waiting", "reason"])
    }

    fn exit_code(&self) -> i64 {
        object::number(self.0, &["state", "terminated", "exitCode"]).unwrap_or_default()
    }

    /// Returns why the container terminated: the reason, or else the signal, or else the exit code.
    fn termination_reason(&self) -> String {
        let reason = object::text(self.0, &["state", "terminated", "reason"]);
        match object::number(self.0, &["state", "terminated", "signal"]).unwrap_or_default() {
            _ if !reason.is_empty() => reason.into(),
            0 => format!("ExitCode:{}", self.exit_code()),
            signal => format!("Signal:{signal}"),
        }
    }

    fn restarts(&self) -> i64 {
        object::number(self.0, &["restartCount"]).unwrap_or_default()
    }

    fn last_terminated_at(&self) -> Option<Timestamp> {
        object::text(self.0, &["lastState", "terminated", "finishedAt"]).parse().ok()
    }
}

impl PodSummary {
    fn of(pod: &Value) -> Self {
        let condition = |kind: &str| {
            object::list(pod, &["status", "conditions"])
                .iter()
                .find(|condition| object::text(condition, &["type"]) == kind)
        };
        let is_true =
            |kind: &str| condition(kind).is_some_and(|condition| object::text(condition, &["status"]) == "True");
        let phase = object::text(pod, &["status", "phase"]);
        let mut status = match object::text(pod, &["status", "reason"]) {
            "" => phase.to_string(),
            reason => reason.to_string(),
        };
        if condition("PodScheduled").is_some_and(|condition| object::text(condition, &["reason"]) == "SchedulingGated")
        {
            status = "SchedulingGated".into();
        }
        let init = object::list(pod, &["spec", "initContainers"]);
        let is_sidecar = |name: &str| {
            init.iter().any(|container| {
                object::text(container, &["name"]) == name && object::text(container, &["restartPolicy"]) == "Always"
            })
        };
        let mut summary = Self {
            status,
            ready: 0,
            total: object::list(pod, &["spec", "containers"]).len()
                + init.iter().filter(|container| object::text(container, &["restartPolicy"]) == "Always").count(),
            restarts: 0,
            last_restart: None,
        };
        let (mut sidecar_restarts, mut sidecar_last) = (0, None);
        let mut initializing = false;
        for (index, container) in object::list(pod, &["status", "initContainerStatuses"]).iter().enumerate() {
            let state = ContainerState(container);
            summary.restarts += state.restarts();
            summary.last_restart = summary.last_restart.max(state.last_terminated_at());
            let sidecar = is_sidecar(object::text(container, &["name"]));
            if sidecar {
                sidecar_restarts += state.restarts();
                sidecar_last = sidecar_last.max(state.last_terminated_at());
            }
            if state.terminated().is_some() && state.exit_code() == 0 {
                continue;
            }
            if sidecar && object::flag(container, &["started"]) {
                summary.ready += usize::from(object::flag(container, &["ready"]));
                continue;
            }
            summary.status = if state.terminated().is_some() {
                format!("Init:{}", state.termination_reason())
            } else if !matches!(state.waiting_reason(), "" | "PodInitializing") {
                format!("Init:{}", state.waiting_reason())
            } else {
                format!("Init:{index}/{}", init.len())
            };
            initializing = true;
            break;
        }
        if !initializing || is_true("Initialized") {
            summary.restarts = sidecar_restarts;
            summary.last_restart = sidecar_last;
            summary.add_container_states(pod, is_true("Ready"));
        }
        if object::is_deleting(pod) {
            if object::text(pod, &["status", "reason"]) == "NodeLost" {
                summary.status = "Unknown".into();
            } else if !matches!(phase, "Succeeded" | "Failed") {
                summary.status = "Terminating".into();
            }
        }
        summary
    }

    /// Adds the container statuses. The first container is added last, so that its state takes
    /// precedence.
    fn add_container_states(&mut self, pod: &Value, ready: bool) {
        let (mut has_running, mut failure) = (false, String::new());
        for container in object::list(pod, &["status", "containerStatuses"]).iter().rev() {
            let state = ContainerState(container);
            self.restarts += state.restarts();
            self.last_restart = self.last_restart.max(state.last_terminated_at());
            if !state.waiting_reason().is_empty() {
                self.status = state.waiting_reason().into();
            } else if state.terminated().is_some() {
                self.status = state.termination_reason();
                if state.exit_code() != 0 {
                    failure.clone_from(&self.status);
                }
            } else if object::flag(container, &["ready"]) && object::at(container, &["state", "running"]).is_some() {
                has_running = true;
                self.ready += 1;
            }
        }
        if self.status == "Completed" {
            self.status = match (has_running, ready) {
                (true, true) => "Running".into(),
                _ if !failure.is_empty() => failure,
                (true, false) => "NotReady".into(),
                (false, _) => "Completed".into(),
            };
        }
    }
}

fn readiness_gates(pod: &Value) -> String {
    let gates = object::list(pod, &["spec", "readinessGates"]);
    if gates.is_empty() {
        return "<none>".into();
    }
    let is_open = |gate: &&Value| {
        let kind = object::text(gate, &["conditionType"]);
        let conditions = object::list(pod, &["status", "conditions"]);
        conditions
            .iter()
            .find(|condition| object::text(condition, &["type"]) == kind)
            .is_some_and(|condition| object::text(condition, &["status"]) == "True")
    };
    format!("{}/{}", gates.iter().filter(is_open).count(), gates.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(pod: &Value) -> String {
        let summary = PodSummary::of(pod);
        format!("{}/{} {} {}", summary.ready, summary.total, summary.status, summary.restarts)
    }

    #[test]
    fn the_status_column_summarizes_a_pod() {
        let pod = |phase: &str, statuses: Value| json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}, "status": {"phase": phase, "containerStatuses": statuses}});
        let running = json!({"ready": true, "state": {"running": {}}});
        let crashed = json!({"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let ended = |code: i64| json!({"state": {"terminated": {"exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" }}}});
        assert_eq!(status(&pod("Pending", json!([]))), "0/2 Pending 0");
        assert_eq!(status(&pod("Running", json!([running, running]))), "2/2 Running 0");
        assert_eq!(status(&pod("Running", json!([running, crashed]))), "1/2 CrashLoopBackOff 3");
        assert_eq!(status(&pod("Succeeded", json!([ended(0), ended(0)]))), "0/2 Completed 0");
        assert_eq!(status(&pod("Failed", json!([ended(1), ended(0)]))), "0/2 Error 0");
        assert_eq!(status(&pod("Running", json!([ended(0), running]))), "1/2 NotReady 0");
        let mut terminating = pod("Running", json!([running, running]));
        terminating["metadata"] = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(status(&terminating), "2/2 Terminating 0");
        let init = json!({
            "spec": {"containers": [{}], "initContainers": [{"name": "i"}, {"name": "j"}]},
            "status": {"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]},
        });
        assert_eq!(status(&init), "0/1 Init:0/2 0");
    }
}
