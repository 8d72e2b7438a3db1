//! Tables of the kinds whose controllers create pods.

use serde_json::Value;

use super::layout::{TableLayout, TableRow};
use super::{age, human_duration};
use crate::api::object;
use crate::api::subresources::selector_text;

const fn layout(
    group: &'static str,
    plural: &'static str,
    columns: &'static [&'static str],
    cells: fn(&TableRow<'_>) -> Vec<Value>,
) -> TableLayout {
    TableLayout { group, plural, columns, cells }
}

const REPLICATED: &[&str] = &["Name", "Desired#", "Current#", "Ready#", "Age", "*Containers", "*Images", "*Selector"];

pub(super) const LAYOUTS: &[TableLayout] = &[
    layout(
        "apps",
        "deployments",
        &["Name", "Ready", "Up-to-date", "Available", "Age", "*Containers", "*Images", "*Selector"],
        |row| {
            let ready = format!("{}/{}", row.number(&["status", "readyReplicas"]), row.number(&["spec", "replicas"]));
            let (updated, available) =
                (row.number(&["status", "updatedReplicas"]), row.number(&["status", "availableReplicas"]));
            with_template(
                row,
                vec![row.name(), ready.into(), updated.into(), available.into(), row.age()],
                &["spec", "template"],
                true,
            )
        },
    ),
    layout("apps", "replicasets", REPLICATED, replicated),
    layout("", "replicationcontrollers", REPLICATED, replicated),
    layout("apps", "statefulsets", &["Name", "Ready", "Age", "*Containers", "*Images"], |row| {
        let ready = format!("{}/{}", row.number(&["status", "readyReplicas"]), row.number(&["spec", "replicas"]));
        with_template(row, vec![row.name(), ready.into(), row.age()], &["spec", "template"], false)
    }),
    layout(
        "apps",
        "daemonsets",
        &[
            "Name",
            "Desired#",
            "Current#",
            "Ready#",
            "Up-to-date#",
            "Available#",
            "Node Selector",
            "Age",
            "*Containers",
            "*Images",
            "*Selector",
        ],
        |row| {
            let count = |field: &str| Value::from(row.number(&["status", field]));
            let cells = vec![
                row.name(),
                count("desiredNumberScheduled"),
                count("currentNumberScheduled"),
                count("numberReady"),
                count("updatedNumberScheduled"),
                count("numberAvailable"),
                labels(object::at(row.object, &["spec", "template", "spec", "nodeSelector"])).into(),
                row.age(),
            ];
            with_template(row, cells, &["spec", "template"], true)
        },
    ),
    layout("apps", "controllerrevisions", &["Name", "Controller", "Revision", "Age"], |row| {
        let owner = object::list(row.object, &["metadata", "ownerReferences"])
            .iter()
            .find(|owner| object::flag(owner, &["controller"]));
        let owner = owner.map_or_else(
            || "<none>".into(),
            |owner| {
                let group = object::text(owner, &["apiVersion"])
                    .split_once('/')
                    .map(|(group, _)| format!(".{group}"))
                    .unwrap_or_default();
                format!("{}{group}/{}", object::text(owner, &["kind"]).to_lowercase(), object::text(owner, &["name"]))
            },
        );
        vec![row.name(), owner.into(), row.number(&["revision"]).into(), row.age()]
    }),
    layout(
        "batch",
        "jobs",
        &["Name", "Status", "Completions", "Duration", "Age", "*Containers", "*Images", "*Selector"],
        |row| {
            let cells = vec![
                row.name(),
                job_status(row.object).into(),
                completions(row).into(),
                duration(row).into(),
                row.age(),
            ];
            with_template(row, cells, &["spec", "template"], true)
        },
    ),
    layout(
        "batch",
        "cronjobs",
        &[
            "Name",
            "Schedule",
            "Timezone",
            "Suspend",
            "Active#",
            "Last Schedule",
            "Age",
            "*Containers",
            "*Images",
            "*Selector",
        ],
        |row| {
            let last = match object::text(row.object, &["status", "lastScheduleTime"]) {
                "" => "<none>".into(),
                _ => age(row.object, &["status", "lastScheduleTime"], row.now),
            };
            let suspend = if object::flag(row.object, &["spec", "suspend"]) { "True" } else { "False" };
            let cells = vec![
                row.name(),
                row.text(&["spec", "schedule"]),
                row.text_or(&["spec", "timeZone"], "<none>"),
                suspend.into(),
                row.count(&["status", "active"]).into(),
                last.into(),
                row.age(),
            ];
            with_template(row, cells, &["spec", "jobTemplate", "spec", "template"], true)
        },
    ),
    layout(
        "autoscaling",
        "horizontalpodautoscalers",
        &["Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"],
        |row| {
            let reference = ["kind", "name"].map(|name| object::text(row.object, &["spec", "scaleTargetRef", name]));
            let min = object::number(row.object, &["spec", "minReplicas"]);
            vec![
                row.name(),
                reference.join("/").into(),
                targets(row.object).into(),
                min.map_or_else(|| "<unset>".to_owned(), |min| min.to_string()).into(),
                row.number(&["spec", "maxReplicas"]).into(),
                row.number(&["status", "currentReplicas"]).into(),
                row.age(),
            ]
        },
    ),
    layout("", "podtemplates", &["Name", "Containers", "Images", "Pod Labels"], |row| {
        let (names, images) = containers(row.object, &["template"]);
        vec![
            row.name(),
            names.into(),
            images.into(),
            labels(object::at(row.object, &["template", "metadata", "labels"])).into(),
        ]
    }),
];

/// Formats the metrics of an autoscaler, with their current values and their targets.
fn targets(autoscaler: &Value) -> String {
    const MAX_SHOWN_METRICS: usize = 2;
    let metrics = object::list(autoscaler, &["spec", "metrics"]);
    let current = object::list(autoscaler, &["status", "currentMetrics"]);
    let shown: Vec<String> = metrics
        .iter()
        .enumerate()
        .map(|(index, metric)| metric_target(metric, current.get(index)))
        .take(MAX_SHOWN_METRICS)
        .collect();
    match metrics.len() {
        0 => "<none>".into(),
        count if count > MAX_SHOWN_METRICS => {
            format!("{} + {} more...", shown.join(", "), count - MAX_SHOWN_METRICS)
        }
        _ => shown.join(", "),
    }
}

fn metric_target(metric: &Value, current: Option<&Value>) -> String {
    const UNKNOWN: &str = "<unknown>";
    let source = match object::text(metric, &["type"]) {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".into(),
    };
    let target = |field: &str| object::at(metric, &[source, "target", field]);
    let current = |field: &str| current.and_then(|current| object::at(current, &[source, "current", field]));
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or(UNKNOWN).to_owned();
    let percent = |value: Option<&Value>, missing: &str| {
        value.and_then(Value::as_i64).map_or_else(|| missing.to_owned(), |percent| format!("{percent}%"))
    };
    let amounts = |field: &str| format!("{}/{}", text(current(field)), text(target(field)));
    let name = object::text(metric, &[source, "name"]);
    match (source, target("averageValue").is_some()) {
        ("resource" | "containerResource", true) => format!("{name}: {}", amounts("averageValue")),
        ("resource" | "containerResource", false) => {
            let current = percent(current("averageUtilization"), UNKNOWN);
            format!("{name}: {current}/{}", percent(target("averageUtilization"), "<auto>"))
        }
        ("pods", _) => amounts("averageValue"),
        (_, true) => format!("{} (avg)", amounts("averageValue")),
        (_, false) => amounts("value"),
    }
}

fn replicated(row: &TableRow<'_>) -> Vec<Value> {
    let number = |path: &[&str]| Value::from(row.number(path));
    let counts = [number(&["spec", "replicas"]), number(&["status", "replicas"]), number(&["status", "readyReplicas"])];
    let cells = [row.name()].into_iter().chain(counts).chain([row.age()]).collect();
    with_template(row, cells, &["spec", "template"], true)
}

/// Adds the cells for containers and images and, if `selector` is true, for the selector.
fn with_template(row: &TableRow<'_>, mut cells: Vec<Value>, template: &[&str], selector: bool) -> Vec<Value> {
    let (names, images) = containers(row.object, template);
    cells.extend([names.into(), images.into()]);
    if selector {
        let text = selector_text(object::at(row.object, &["spec", "selector"]));
        cells.push(if text.is_empty() { "<none>".into() } else { text.into() });
    }
    cells
}

fn containers(object: &Value, template: &[&str]) -> (String, String) {
    let containers = object::at(object, template)
        .map(|template| object::list(template, &["spec", "containers"]))
        .unwrap_or_default();
    let join = |field: &str| {
        containers.iter().map(|container| object::text(container, &[field])).collect::<Vec<_>>().join(",")
    };
    (join("name"), join("image"))
}

/// Formats labels as `key=value` pairs, or `<none>`.
pub(super) fn labels(labels: Option<&Value>) -> String {
    let pairs: Vec<String> = labels
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() { "<none>".into() } else { pairs.join(",") }
}

fn job_status(job: &Value) -> &'static str {
    let has = |kind: &str| {
        let condition = object::list(job, &["status", "conditions"])
            .iter()
            .find(|condition| object::text(condition, &["type"]) == kind);
        condition.is_some_and(|condition| object::text(condition, &["status"]) == "True")
    };
    match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if object::is_deleting(job) => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(row: &TableRow<'_>) -> String {
    let succeeded = row.number(&["status", "succeeded"]);
    match (object::number(row.object, &["spec", "completions"]), row.number(&["spec", "parallelism"])) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(row: &TableRow<'_>) -> String {
    let time = |field: &str| object::text(row.object, &["status", field]).parse::<jiff::Timestamp>().ok();
    match (time("startTime"), time("completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => human_duration(end.unwrap_or(row.now).duration_since(start).as_secs()),
    }
}
