//! Constraints of an app besides resources: node selection, tolerations, rules between pods, and
//! volumes.

use serde_json::{Map, Value, json};

use super::apps::App;
use super::pools::{TEAM, TIER};
use super::{ClusterDraft, set_unless_empty};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

impl ClusterDraft {
    /// Adds random constraints to the app. `index` is its position among all apps.
    pub(super) fn add_constraints(&mut self, app: &mut App, index: usize, pods: usize) {
        let mut node_affinity = Map::new();
        if self.random.happens_percent(15) {
            let selector = self.node_selector();
            app.spec.insert("nodeSelector".to_owned(), selector);
        }
        if self.random.happens_percent(15) {
            let least = if self.random.happens_percent(50) { 2 } else { 1 };
            let terms: Vec<Value> = (0..self.random.between(least, 3)).map(|_| self.random_node_term()).collect();
            let key = "requiredDuringSchedulingIgnoredDuringExecution";
            node_affinity.insert(key.to_owned(), json!({"nodeSelectorTerms": terms}));
        }
        if self.random.happens_percent(12) {
            let preferred: Vec<Value> = (0..self.random.between(1, 2))
                .map(|_| json!({"weight": self.random.between(1, 100), "preference": self.random_node_term()}))
                .collect();
            node_affinity.insert("preferredDuringSchedulingIgnoredDuringExecution".to_owned(), json!(preferred));
        }
        let mut affinity = Map::new();
        set_unless_empty(&mut affinity, "nodeAffinity", Value::Object(node_affinity));
        set_unless_empty(&mut affinity, "podAffinity", self.pod_affinity(app, index));
        set_unless_empty(&mut affinity, "podAntiAffinity", self.pod_anti_affinity(app, index));
        set_unless_empty(&mut app.spec, "affinity", Value::Object(affinity));
        let tolerations = self.tolerations();
        set_unless_empty(&mut app.spec, "tolerations", tolerations);
        let spread = self.spread(app, index);
        set_unless_empty(&mut app.spec, "topologySpreadConstraints", spread);
        let volumes = self.add_volumes(app, pods);
        set_unless_empty(&mut app.spec, "volumes", volumes);
    }

    fn node_selector(&mut self) -> Value {
        match self.random.below(100) {
            0..35 => json!({ZONE: self.random.pick(&self.zones)}),
            35..60 => json!({"kubernetes.io/arch": self.random.pick(&["amd64", "amd64", "arm64"])}),
            60..75 => json!({CAPACITY_TYPE: self.random.pick(&["on-demand", "spot"])}),
            75..85 => json!({TEAM: self.random.pick(&["red", "green"])}),
            85..94 => json!({TIER: self.random.pick(&["gold", "silver"])}),
            94..97 => json!({HOSTNAME: "node-0"}),
            _ => json!({"example.com/unknown": "yes"}),
        }
    }

    fn random_node_term(&mut self) -> Value {
        let number = self.random.between(1, 2);
        let expressions: Vec<Value> = (0..number).map(|_| self.random_node_expression()).collect();
        json!({"matchExpressions": expressions})
    }

    fn random_node_expression(&mut self) -> Value {
        let random = &mut self.random;
        let one =
            |key: &str, operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
        match random.below(100) {
            0..25 => one(ZONE, "In", json!(random.pick_subset(&self.zones, 1))),
            25..35 => one(ZONE, "NotIn", json!([random.pick(&self.zones)])),
            35..45 => one("kubernetes.io/arch", "In", json!([random.pick(&["amd64", "arm64"])])),
            45..55 => one(CAPACITY_TYPE, "In", json!([random.pick(&["on-demand", "spot"])])),
            55..65 => one("karpenter.kwok.sh/instance-family", "NotIn", json!([random.pick(&["c", "s", "m"])])),
            65..75 => one("karpenter.kwok.sh/instance-cpu", "Gt", json!([random.pick(&["1", "3", "7"])])),
            75..80 => one("karpenter.kwok.sh/instance-cpu", "Lt", json!([random.pick(&["9", "33"])])),
            80..86 => json!({"key": TIER, "operator": "Exists"}),
            86..92 => json!({"key": TEAM, "operator": "DoesNotExist"}),
            92..97 => one(TIER, "NotIn", json!(["gold"])),
            _ => one("example.com/unknown", "In", json!(["yes"])),
        }
    }

    fn tolerations(&mut self) -> Value {
        let random = &mut self.random;
        match random.below(100) {
            0..20 => {
                json!([{"key": "example.com/dedicated", "operator": "Equal", "value": random.pick(&["batch", "web"])}])
            }
            20..35 => json!([{"key": "example.com/dedicated", "operator": "Exists"}]),
            35..40 => json!([{"operator": "Exists"}]),
            _ => Value::Null,
        }
    }

    /// Returns a selector: usually of the app's own pods, otherwise of an earlier app's pods or of
    /// a label that many pods share.
    fn selector(&mut self, app: &App, index: usize) -> Value {
        match self.random.below(100) {
            0..75 => json!({"matchLabels": {"app": app.name}}),
            75..90 if index > 0 => json!({"matchLabels": {"app": format!("app-{}", self.random.below(index))}}),
            _ => {
                json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": [self.random.pick(&["front", "back"])]}]})
            }
        }
    }

    fn spread(&mut self, app: &App, index: usize) -> Value {
        let mut constraints = Vec::new();
        for (key, percent) in [(ZONE, 18), (HOSTNAME, 12), (CAPACITY_TYPE, 2), (TIER, 1)] {
            if !self.random.happens_percent(percent) {
                continue;
            }
            let is_required = self.random.happens_percent(75);
            let mut constraint = json!({
                "maxSkew": self.random.pick(&[1, 1, 1, 2, 3]), "topologyKey": key,
                "whenUnsatisfiable": if is_required { "DoNotSchedule" } else { "ScheduleAnyway" },
                "labelSelector": self.selector(app, index),
            });
            if is_required && self.random.happens_percent(15) {
                constraint["minDomains"] = json!(self.random.between(1, 3));
            }
            if self.random.happens_percent(10) {
                constraint["nodeAffinityPolicy"] = json!(self.random.pick(&["Ignore", "Honor"]));
            }
            if self.random.happens_percent(10) {
                constraint["nodeTaintsPolicy"] = json!(self.random.pick(&["Ignore", "Honor"]));
            }
            if self.random.happens_percent(12) {
                constraint["matchLabelKeys"] = json!(["version"]);
            }
            constraints.push(constraint);
        }
        Value::Array(constraints)
    }

    fn pod_affinity(&mut self, app: &App, index: usize) -> Value {
        let mut affinity = Map::new();
        if self.random.happens_percent(10) {
            let key = *self.random.pick(&[ZONE, HOSTNAME]);
            let term = self.random_pod_term(app, index, key);
            affinity.insert("requiredDuringSchedulingIgnoredDuringExecution".to_owned(), json!([term]));
        }
        if self.random.happens_percent(6) {
            let key = *self.random.pick(&[ZONE, HOSTNAME]);
            let term = self.random_pod_term(app, index, key);
            let preferred = json!([{"weight": self.random.between(1, 100), "podAffinityTerm": term}]);
            affinity.insert("preferredDuringSchedulingIgnoredDuringExecution".to_owned(), preferred);
        }
        Value::Object(affinity)
    }

    fn pod_anti_affinity(&mut self, app: &App, index: usize) -> Value {
        let mut affinity = Map::new();
        if self.random.happens_percent(14) {
            let key = *self.random.pick(&[HOSTNAME, HOSTNAME, HOSTNAME, ZONE]);
            let term = self.random_pod_term(app, index, key);
            affinity.insert("requiredDuringSchedulingIgnoredDuringExecution".to_owned(), json!([term]));
        }
        if self.random.happens_percent(6) {
            let key = *self.random.pick(&[HOSTNAME, ZONE]);
            let term = self.random_pod_term(app, index, key);
            let preferred = json!([{"weight": self.random.between(1, 100), "podAffinityTerm": term}]);
            affinity.insert("preferredDuringSchedulingIgnoredDuringExecution".to_owned(), preferred);
        }
        Value::Object(affinity)
    }

    fn random_pod_term(&mut self, app: &App, index: usize, key: &str) -> Value {
        let mut term = json!({"topologyKey": key, "labelSelector": self.selector(app, index)});
        match self.random.below(100) {
            0..6 => term["namespaces"] = json!(["blue", "default"]),
            6..10 => term["namespaceSelector"] = json!({}),
            10..13 => term["namespaceSelector"] = json!({"matchLabels": {"team": "blue"}}),
            _ => {}
        }
        term
    }

    /// Returns the volumes of the app's pods, which share one claim. The claim is bound to a volume
    /// in one or two zones, waits for its first consumer with a class for some zones, or does not
    /// exist.
    fn add_volumes(&mut self, app: &App, pods: usize) -> Value {
        if !self.random.happens_percent(10) {
            return Value::Null;
        }
        let name = format!("data-{}", app.name);
        let zones = self.random.pick_subset(&self.zones, 1);
        let driver = "disk.example.com";
        let meta = json!({"name": name, "namespace": app.namespace});
        let size = json!({"requests": {"storage": "1Gi"}});
        match self.random.below(10) {
            0..5 => {
                let term =
                    |zone: &String| json!({"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]});
                let terms: Vec<Value> = zones.iter().take(2).map(term).collect();
                let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta});
                claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
                claim["spec"] = json!({
                    "accessModes": ["ReadWriteMany"], "resources": size, "volumeName": name, "storageClassName": "",
                });
                claim["status"] = json!({"phase": "Bound"});
                self.objects.push(claim);
                self.objects.push(json!({
                    "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
                    "spec": {
                        "accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"},
                        "csi": {"driver": driver, "volumeHandle": name},
                        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
                    },
                }));
            }
            5..8 => {
                let class = format!("class-{}", app.name);
                let topologies = json!([{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]);
                let mut object = json!({
                    "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": class},
                    "provisioner": driver, "volumeBindingMode": "WaitForFirstConsumer",
                });
                if self.random.happens_percent(75) {
                    object["allowedTopologies"] = topologies;
                }
                self.objects.push(object);
                self.objects.push(json!({
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta,
                    "spec": {"accessModes": ["ReadWriteMany"], "resources": size, "storageClassName": class},
                }));
            }
            _ if pods > 6 => return Value::Null,
            // The claim does not exist, so the pods stay pending.
            _ => {}
        }
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}])
    }
}
