//! Apps: groups of equivalent pods, as Deployments or as plain pods, some of them already running;
//! and DaemonSets.

use serde_json::{Map, Value, json};

use super::instance_types::GPU;
use super::{ClusterDraft, set_unless_empty};

const CPU_REQUESTS: [&str; 9] = ["50m", "100m", "250m", "500m", "500m", "1", "1500m", "2", "3500m"];
const MEMORY_REQUESTS: [&str; 8] = ["64Mi", "128Mi", "256Mi", "512Mi", "1Gi", "2Gi", "4Gi", "8Gi"];

/// A group of equivalent pods.
#[derive(Debug, Clone)]
pub(super) struct App {
    pub(super) name: String,
    pub(super) namespace: &'static str,
    pub(super) labels: Value,
    pub(super) spec: Map<String, Value>,
}

impl App {
    /// Returns a pod of this app, bound to the node if one is named.
    pub(super) fn pod(&self, name: &str, node: Option<&str>) -> Value {
        let mut spec = self.spec.clone();
        if let Some(node) = node {
            spec.insert("nodeName".to_owned(), json!(node));
        }
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace, "labels": self.labels},
            "spec": spec,
        })
    }
}

/// Name and pod spec of a DaemonSet, from which nodes get its pods.
#[derive(Debug, Clone)]
pub(super) struct DaemonDraft {
    pub(super) name: String,
    pub(super) spec: Value,
}

impl ClusterDraft {
    pub(super) fn add_daemon_sets(&mut self) {
        for index in 0..self.random.between(0, self.size.by_size(1, 2, 3)) {
            let random = &mut self.random;
            let amounts = json!({"cpu": random.pick(&["50m", "100m", "300m"]), "memory": random.pick(&["32Mi", "128Mi", "512Mi"])});
            let kind = if random.happens_percent(80) { "requests" } else { "limits" };
            let mut container = json!({"name": "c", "image": "example.com/agent", "resources": {kind: amounts}});
            if random.happens_percent(10) {
                container["ports"] = json!([{"containerPort": 9100, "hostPort": 9100, "protocol": "TCP"}]);
            }
            let mut spec = json!({"containers": [container]});
            if random.happens_percent(50) {
                spec["tolerations"] = json!([{"operator": "Exists"}]);
            }
            match random.below(100) {
                0..20 => spec["nodeSelector"] = json!({"kubernetes.io/arch": random.pick(&["amd64", "arm64"])}),
                20..36 => {
                    let large = json!({"key": "karpenter.kwok.sh/instance-cpu", "operator": "Gt", "values": ["3"]});
                    spec["affinity"] = required_node_affinity(json!([{"matchExpressions": [large]}]));
                }
                _ => {}
            }
            let name = format!("daemon-{index}");
            let labels = json!({"daemon": name});
            self.objects.push(json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet",
                "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
                "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
            }));
            self.daemons.push(DaemonDraft { name, spec });
        }
    }

    /// Adds apps with pending pods, together at most as many pods as the size allows.
    pub(super) fn add_apps(&mut self) {
        let most = self.size.by_size(8, 30, 100);
        let mut left = self.random.between(self.size.by_size(1, 5, 20), most);
        let mut index = 0;
        while left > 0 {
            let pods = self.random.between(1, self.size.by_size(4, 8, 20)).min(left);
            left -= pods;
            let app = self.random_app(index, pods);
            self.add_pending_pods(&app, pods);
            self.apps.push(app);
            index += 1;
        }
    }

    fn add_pending_pods(&mut self, app: &App, pods: usize) {
        let has_own_claims = app.spec.contains_key("volumes");
        if pods > 1 && !has_own_claims && self.random.happens_percent(50) {
            self.objects.push(json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": app.name, "namespace": app.namespace},
                "spec": {
                    "replicas": pods, "selector": {"matchLabels": {"app": app.name}},
                    "template": {"metadata": {"labels": app.labels}, "spec": app.spec},
                },
            }));
        } else {
            self.objects.extend((0..pods).map(|n| app.pod(&format!("{}-{n}", app.name), None)));
        }
    }

    fn random_app(&mut self, index: usize, pods: usize) -> App {
        let name = format!("app-{index}");
        let random = &mut self.random;
        let namespace = if random.happens_percent(8) { "blue" } else { "default" };
        let mut labels = json!({"app": name, "tier": random.pick(&["front", "back"])});
        if random.happens_percent(30) {
            labels["version"] = json!(random.pick(&["1", "2"]));
        }
        let mut app = App { name, namespace, labels, spec: self.random_pod_spec() };
        self.add_constraints(&mut app, index, pods);
        app
    }

    /// Returns a pod spec with random containers and requests.
    fn random_pod_spec(&mut self) -> Map<String, Value> {
        let random = &mut self.random;
        let mut requests = json!({"cpu": random.pick(&CPU_REQUESTS), "memory": random.pick(&MEMORY_REQUESTS)});
        match random.below(100) {
            0..4 => requests["cpu"] = json!("500"),
            4..8 => requests[GPU] = json!("1"),
            8..11 => requests = json!({}),
            _ => {}
        }
        let mut container = json!({"name": "c", "image": "example.com/app", "resources": {"requests": requests}});
        if random.happens_percent(6) {
            let protocol = *random.pick(&["TCP", "TCP", "UDP"]);
            let port = *random.pick(&[8080, 8080, 9100]);
            container["ports"] = json!([{"containerPort": 80, "hostPort": port, "protocol": protocol}]);
        }
        let mut spec = Map::new();
        let mut init = Vec::new();
        if random.happens_percent(6) {
            let restart = if random.happens_percent(50) { json!("Always") } else { Value::Null };
            let mut sidecar = json!({"name": "i", "image": "example.com/init"});
            sidecar["resources"] = json!({"requests": {"cpu": random.pick(&CPU_REQUESTS)}});
            set_unless_empty(sidecar.as_object_mut().unwrap_or(&mut Map::new()), "restartPolicy", restart);
            init.push(sidecar);
        }
        set_unless_empty(&mut spec, "initContainers", Value::Array(init));
        spec.insert("containers".to_owned(), json!([container]));
        if random.happens_percent(4) {
            spec.insert("overhead".to_owned(), json!({"cpu": "250m", "memory": "64Mi"}));
        }
        if random.happens_percent(3) {
            spec.insert("resources".to_owned(), json!({"requests": {"cpu": random.pick(&CPU_REQUESTS)}}));
        }
        spec
    }
}

/// Returns an affinity that requires one of these node selector terms.
pub(super) fn required_node_affinity(terms: Value) -> Value {
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
}
