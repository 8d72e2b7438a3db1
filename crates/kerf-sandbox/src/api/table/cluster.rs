//! Tables of cluster-wide, network, policy and DRA kinds, and of Events.

use serde_json::Value;

use super::age;
use super::layout::{TableLayout, TableRow};
use super::workload::labels;
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

const BINDINGS: &[&str] = &["Name", "Role", "Age", "*Users", "*Groups", "*ServiceAccounts"];

pub(super) const LAYOUTS: &[TableLayout] = &[
    layout("", "namespaces", &["Name", "Status", "Age"], |row| {
        vec![row.name(), row.text(&["status", "phase"]), row.age()]
    }),
    layout("", "configmaps", &["Name", "Data", "Age"], |row| {
        vec![row.name(), (row.count(&["data"]) + row.count(&["binaryData"])).into(), row.age()]
    }),
    layout("", "secrets", &["Name", "Type", "Data", "Age"], |row| {
        vec![row.name(), row.text(&["type"]), row.count(&["data"]).into(), row.age()]
    }),
    layout("", "serviceaccounts", &["Name", "Age"], |row| vec![row.name(), row.age()]),
    layout("", "services", &["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "*Selector"], |row| {
        vec![
            row.name(),
            row.text(&["spec", "type"]),
            row.text_or(&["spec", "clusterIP"], "<none>"),
            external_address(row.object).into(),
            ports(row.object).into(),
            row.age(),
            labels(object::at(row.object, &["spec", "selector"])).into(),
        ]
    }),
    layout("", "endpoints", &["Name", "Endpoints", "Age"], |row| {
        vec![row.name(), endpoints(row.object).into(), row.age()]
    }),
    layout(
        "",
        "events",
        &[
            "Last Seen",
            "Type",
            "Reason",
            "Object",
            "*Subobject",
            "*Source",
            "Message",
            "*First Seen",
            "*Count",
            "*Name",
        ],
        event,
    ),
    layout("", "resourcequotas", &["Name", "Request", "Limit", "Age"], |row| {
        let (requests, limits) = quota(row.object);
        vec![row.name(), requests.into(), limits.into(), row.age()]
    }),
    layout(
        "policy",
        "poddisruptionbudgets",
        &["Name", "Min Available", "Max Unavailable", "Allowed Disruptions#", "Age"],
        |row| {
            let bound = |field: &str| match object::at(row.object, &["spec", field]) {
                Some(Value::String(text)) => text.as_str().into(),
                Some(Value::Number(number)) => number.to_string().into(),
                _ => Value::from("N/A"),
            };
            let allowed = row.number(&["status", "disruptionsAllowed"]);
            vec![row.name(), bound("minAvailable"), bound("maxUnavailable"), allowed.into(), row.age()]
        },
    ),
    layout(
        "scheduling.k8s.io",
        "priorityclasses",
        &["Name", "Value#", "Global-Default?", "Age", "PreemptionPolicy"],
        |row| {
            let default = object::flag(row.object, &["globalDefault"]);
            vec![row.name(), row.number(&["value"]).into(), default.into(), row.age(), row.text(&["preemptionPolicy"])]
        },
    ),
    layout("coordination.k8s.io", "leases", &["Name", "Holder", "Age"], |row| {
        vec![row.name(), row.text(&["spec", "holderIdentity"]), row.age()]
    }),
    layout("node.k8s.io", "runtimeclasses", &["Name", "Handler", "Age"], |row| {
        vec![row.name(), row.text(&["handler"]), row.age()]
    }),
    layout("rbac.authorization.k8s.io", "rolebindings", BINDINGS, role_binding),
    layout("rbac.authorization.k8s.io", "clusterrolebindings", BINDINGS, role_binding),
    layout("networking.k8s.io", "networkpolicies", &["Name", "Pod-Selector", "Age"], |row| {
        let selector = selector_text(object::at(row.object, &["spec", "podSelector"]));
        vec![row.name(), if selector.is_empty() { "<none>".into() } else { selector.into() }, row.age()]
    }),
    layout("resource.k8s.io", "deviceclasses", &["Name", "Age"], |row| vec![row.name(), row.age()]),
    layout("resource.k8s.io", "resourceclaimtemplates", &["Name", "Age"], |row| vec![row.name(), row.age()]),
    layout("resource.k8s.io", "resourceclaims", &["Name", "State", "Age"], |row| {
        vec![row.name(), claim_state(row.object).into(), row.age()]
    }),
    layout("resource.k8s.io", "resourceslices", &["Name", "Node", "Driver", "Pool", "Age"], |row| {
        let text = |path: &[&str]| row.text(path);
        vec![
            row.name(),
            text(&["spec", "nodeName"]),
            text(&["spec", "driver"]),
            text(&["spec", "pool", "name"]),
            row.age(),
        ]
    }),
];

fn external_address(service: &Value) -> String {
    let join = |values: Vec<&str>| values.join(",");
    let external_ips = join(object::list(service, &["spec", "externalIPs"]).iter().filter_map(Value::as_str).collect());
    match object::text(service, &["spec", "type"]) {
        "LoadBalancer" => {
            let ingress = object::list(service, &["status", "loadBalancer", "ingress"]).iter();
            let ingress_addresses = join(
                ingress
                    .map(|ingress| match object::text(ingress, &["ip"]) {
                        "" => object::text(ingress, &["hostname"]),
                        ip => ip,
                    })
                    .filter(|address| !address.is_empty())
                    .collect(),
            );
            match (ingress_addresses.is_empty(), external_ips.is_empty()) {
                (true, true) => "<pending>".into(),
                (false, true) => ingress_addresses,
                (true, false) => external_ips,
                (false, false) => format!("{ingress_addresses},{external_ips}"),
            }
        }
        "ExternalName" => object::text(service, &["spec", "externalName"]).into(),
        _ if external_ips.is_empty() => "<none>".into(),
        _ => external_ips,
    }
}

fn ports(service: &Value) -> String {
    let shown: Vec<String> = object::list(service, &["spec", "ports"])
        .iter()
        .map(|port| {
            let (number, protocol) =
                (object::number(port, &["port"]).unwrap_or_default(), object::text(port, &["protocol"]));
            match object::number(port, &["nodePort"]).unwrap_or_default() {
                0 => format!("{number}/{protocol}"),
                node => format!("{number}:{node}/{protocol}"),
            }
        })
        .collect();
    if shown.is_empty() { "<none>".into() } else { shown.join(",") }
}

fn endpoints(endpoints: &Value) -> String {
    const MAX_SHOWN_ENDPOINTS: usize = 3;
    let mut all = Vec::new();
    for subset in object::list(endpoints, &["subsets"]) {
        let addresses = object::list(subset, &["addresses"]);
        let ports = object::list(subset, &["ports"]);
        if ports.is_empty() {
            all.extend(addresses.iter().map(|address| object::text(address, &["ip"]).to_string()));
        }
        for port in ports {
            let number = object::number(port, &["port"]).unwrap_or_default();
            all.extend(addresses.iter().map(|address| format!("{}:{number}", object::text(address, &["ip"]))));
        }
    }
    match all.len() {
        0 => "<none>".into(),
        count if count > MAX_SHOWN_ENDPOINTS => {
            format!("{} + {} more...", all[..MAX_SHOWN_ENDPOINTS].join(","), count - MAX_SHOWN_ENDPOINTS)
        }
        _ => all.join(","),
    }
}

fn event(row: &TableRow<'_>) -> Vec<Value> {
    let since = |path: &[&str]| (!object::text(row.object, path).is_empty()).then(|| age(row.object, path, row.now));
    let first = since(&["firstTimestamp"]).or_else(|| since(&["eventTime"])).unwrap_or_else(|| "<unknown>".into());
    let series = since(&["series", "lastObservedTime"]);
    let last = series.or_else(|| since(&["lastTimestamp"])).unwrap_or_else(|| first.clone());
    let count =
        object::number(row.object, &["series", "count"]).or(object::number(row.object, &["count"])).unwrap_or(1).max(1);
    let kind = object::text(row.object, &["involvedObject", "kind"]).to_lowercase();
    let target = match object::text(row.object, &["involvedObject", "name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let either = |one: &[&str], two: &[&str]| match object::text(row.object, one) {
        "" => object::text(row.object, two),
        text => text,
    };
    let component = either(&["source", "component"], &["reportingComponent"]);
    let source = match either(&["source", "host"], &["reportingInstance"]) {
        "" => component.to_string(),
        instance => format!("{component}, {instance}"),
    };
    vec![
        last.into(),
        row.text(&["type"]),
        row.text(&["reason"]),
        target.into(),
        row.text(&["involvedObject", "fieldPath"]),
        source.into(),
        object::text(row.object, &["message"]).trim().into(),
        first.into(),
        count.into(),
        row.name(),
    ]
}

fn quota(quota: &Value) -> (String, String) {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in object::at(quota, &["status", "hard"]).and_then(Value::as_object).into_iter().flatten() {
        let used = match object::text(quota, &["status", "used", resource]) {
            "" => "0",
            used => used,
        };
        let shown = format!("{resource}: {used}/{}", hard.as_str().unwrap_or_default());
        if resource.starts_with("limits.") { limits.push(shown) } else { requests.push(shown) }
    }
    (requests.join(", "), limits.join(", "))
}

fn role_binding(row: &TableRow<'_>) -> Vec<Value> {
    let role = format!(
        "{}/{}",
        object::text(row.object, &["roleRef", "kind"]),
        object::text(row.object, &["roleRef", "name"])
    );
    let subjects = |kind: &str| -> Value {
        let of_kind =
            object::list(row.object, &["subjects"]).iter().filter(|subject| object::text(subject, &["kind"]) == kind);
        let names: Vec<String> = of_kind
            .map(|subject| match object::text(subject, &["namespace"]) {
                "" => object::text(subject, &["name"]).to_string(),
                namespace => format!("{namespace}/{}", object::text(subject, &["name"])),
            })
            .collect();
        names.join(", ").into()
    };
    vec![row.name(), role.into(), row.age(), subjects("User"), subjects("Group"), subjects("ServiceAccount")]
}

fn claim_state(claim: &Value) -> String {
    let mut states = Vec::new();
    let deleting = object::is_deleting(claim);
    if deleting {
        states.push("deleted");
    }
    if object::at(claim, &["status", "allocation"]).is_some() {
        states.push("allocated");
        if !object::list(claim, &["status", "reservedFor"]).is_empty() {
            states.push("reserved");
        }
    } else if !deleting {
        states.push("pending");
    }
    states.join(",")
}
