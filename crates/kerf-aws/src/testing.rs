//! The provider on an EC2 in memory, with a node class that is ready, for unit tests.

mod fleet_recorder;

use std::sync::{Arc, Mutex};

use kerf_api::conditions::dependents::EC2NODECLASS_WITH_RESERVATIONS;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_cloud::ProviderSetup;
use kerf_engine::Price;
use kerf_operator::{ControllerEnvironment, ControllerMetrics, ControllerSet, Event, Publish, Registry, SharedCluster};
use kerf_runtime::Clock;
use kerf_sandbox::{ApiServer, ApiServerConfig};
use kerf_state::NodeClass;
use serde_json::{Value, json};

use crate::data;
use crate::memory::testing::SUBNETS;
use crate::memory::{Account, LaunchedInstance, MemoryAws, MemorySettings};
use crate::parts::AwsParts;
use crate::ports::ec2::InstanceTypeInfo;
use crate::ports::{AwsPorts, CreateInstanceProfile};
use crate::provider::AwsProvider;
use crate::settings::AwsSettings;

pub(crate) use fleet_recorder::FleetRecorder;

/// Types of most tests: two sizes of one family, another family, and one for Arm.
pub(crate) const TYPES: [&str; 4] = ["c5.large", "m5.large", "m5.xlarge", "m6g.large"];

/// The provider on an EC2 in memory.
pub(crate) struct ProviderEnv {
    pub(crate) aws: MemoryAws,
    pub(crate) fleets: Arc<FleetRecorder>,
    pub(crate) provider: Arc<AwsProvider>,
    pub(crate) cluster: SharedCluster,
    pub(crate) events: Arc<PublishedEvents>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) clock: Clock,
    class: Mutex<Value>,
    pub(crate) server: ApiServer,
}

/// Events that were published.
#[derive(Default)]
pub(crate) struct PublishedEvents(Mutex<Vec<Event>>);

impl Publish for PublishedEvents {
    fn publish(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

impl PublishedEvents {
    /// Returns the values that, with the reason, identify equal Events.
    pub(crate) fn dedupe_values(&self) -> Vec<Vec<String>> {
        self.0.lock().unwrap().iter().map(|event| event.dedupe_values.clone()).collect()
    }

    /// Returns kind and name of the object, type, reason and message of each Event.
    pub(crate) fn texts(&self) -> Vec<String> {
        let events = self.0.lock().unwrap();
        let text = |event: &Event| {
            let object = &event.involved_object;
            let (kind, name) = (object.kind.clone().unwrap_or_default(), object.name.clone().unwrap_or_default());
            format!("{kind}/{name} {:?} {:?} {}", event.event_type, event.reason, event.message)
        };
        events.iter().map(text).collect()
    }
}

impl ProviderEnv {
    pub(crate) async fn new() -> Self {
        Self::with_types(&TYPES).await
    }

    pub(crate) async fn with_types(types: &[&str]) -> Self {
        Self::with(types, MemorySettings::default(), |_| {}).await
    }

    pub(crate) async fn with(
        types: &[&str],
        memory: MemorySettings,
        change_settings: impl FnOnce(&mut AwsSettings),
    ) -> Self {
        Self::with_account(types, memory, |_| {}, change_settings).await
    }

    pub(crate) async fn with_account(
        types: &[&str],
        memory: MemorySettings,
        change_account: impl FnOnce(&mut Account),
        change_settings: impl FnOnce(&mut AwsSettings),
    ) -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let aws = MemoryAws::new(clock, Account::eks("demo", "1.34", infos(types)), memory);
        aws.change_account(change_account);
        aws.change_market(|market| {
            for name in types {
                market.set_on_demand_price(*name, data::prices("us-west-2")[*name]);
            }
        });
        let server = ApiServer::new(ApiServerConfig::new(clock, 7));
        let mut settings = AwsSettings::new("demo");
        change_settings(&mut settings);
        let (cluster, events, registry) =
            (SharedCluster::default(), Arc::<PublishedEvents>::default(), Arc::<Registry>::default());
        let fleets = Arc::new(FleetRecorder::new(aws.ports().ec2));
        let provider = Arc::new(AwsProvider::new(AwsParts {
            ports: AwsPorts { ec2: fleets.clone(), ..aws.ports() },
            settings,
            client: server.client_as("test"),
            cluster: cluster.clone(),
            clock,
            events: events.clone(),
            registry: registry.clone(),
        }));
        kerf_cloud::CloudProvider::start(&*provider).await.unwrap();
        provider.context().discovery.resolve_service_cidr().await.unwrap();
        let profile = CreateInstanceProfile { name: "demo-profile".into(), ..CreateInstanceProfile::default() };
        aws.ports().iam.create_instance_profile(profile).await.unwrap();
        let class = Mutex::new(ready_class(&aws));
        let env = Self { aws, fleets, provider, cluster, events, registry, clock, class, server };
        env.change_class(|_| {});
        env.set_pools(&["default"]);
        env.aws.clear_calls();
        env
    }

    /// Starts another process with changed settings, the same AWS account and the same API server,
    /// and with cluster state and metrics of its own.
    pub(crate) async fn new_process(&self, change_settings: impl FnOnce(&mut AwsSettings)) -> Arc<AwsProvider> {
        let context = self.provider.context();
        let mut settings = context.settings.clone();
        change_settings(&mut settings);
        let provider = Arc::new(AwsProvider::new(AwsParts {
            ports: context.ports.clone(),
            settings,
            client: context.client.clone(),
            cluster: SharedCluster::default(),
            clock: self.clock,
            events: self.events.clone(),
            registry: Arc::default(),
        }));
        kerf_cloud::CloudProvider::start(&*provider).await.unwrap();
        provider
    }

    /// Returns the controllers that `add` adds for a process.
    pub(crate) fn controller_set(
        provider: &Arc<AwsProvider>,
        add: impl FnOnce(&mut ProviderSetup<'_>),
    ) -> ControllerSet {
        let context = provider.context();
        let mut set = ControllerSet::new(ControllerEnvironment {
            metrics: Arc::new(ControllerMetrics::new(&context.registry)),
            clock: context.clock,
            seed: 7,
            cores: 1,
        });
        add(&mut ProviderSetup {
            set: &mut set,
            cloud: provider.clone(),
            client: context.client.clone(),
            cluster: context.cluster.clone(),
            clock: context.clock,
            events: context.events.clone(),
            registry: context.registry.clone(),
        });
        set
    }

    /// Changes the node class `default` in cluster state.
    pub(crate) fn change_class(&self, change: impl FnOnce(&mut Value)) {
        let mut class = self.class.lock().unwrap();
        change(&mut class);
        let class: NodeClass = serde_json::from_value(class.clone()).unwrap();
        // Without a resource version a decoded class is not kept.
        let class = class.with_kind("karpenter.k8s.aws", "v1", "EC2NodeClass");
        self.cluster.lock().reset_node_classes("karpenter.k8s.aws", "EC2NodeClass", vec![class]);
    }

    /// Removes all node classes.
    pub(crate) fn remove_classes(&self) {
        self.cluster.lock().reset_node_classes("karpenter.k8s.aws", "EC2NodeClass", Vec::new());
    }

    /// Replaces all pools; each refers to the class `default`.
    pub(crate) fn set_pools(&self, names: &[&str]) {
        self.cluster.lock().reset(names.iter().map(|name| pool(name)).collect::<Vec<NodePool>>());
    }

    /// Replaces all pools by one with these requirements.
    pub(crate) fn set_pool_requirements(&self, name: &str, requirements: Value) {
        let mut pool = pool(name);
        pool.spec.template.spec.requirements = serde_json::from_value(requirements).unwrap();
        self.cluster.lock().reset(vec![pool]);
    }

    /// Returns the instances that are not being terminated.
    pub(crate) fn live_instances(&self) -> Vec<LaunchedInstance> {
        let is_terminating = |launched: &LaunchedInstance| launched.instance.state.is_terminating();
        self.aws.instances().into_iter().filter(|launched| !is_terminating(launched)).collect()
    }

    /// Returns the operations that were called since the last change of the log, in their order.
    pub(crate) fn operations(&self) -> Vec<&'static str> {
        self.aws.calls().into_iter().map(|call| call.operation).collect()
    }

    /// Sets the spot price of a type in all zones, in EC2 and for the provider.
    pub(crate) fn set_spot_price(&self, instance_type: &str, dollars: &str) {
        let price = Price::from_decimal(dollars).unwrap();
        let zones = ["us-west-2a", "us-west-2b", "us-west-2c"];
        let prices = zones.map(|zone| (instance_type.to_owned(), zone.to_owned(), price));
        self.provider.context().instance_types.pricing().merge_spot(prices);
        self.aws.change_market(|market| {
            for zone in zones {
                market.set_spot_price(instance_type, zone, price);
            }
        });
    }
}

fn infos(types: &[&str]) -> Vec<InstanceTypeInfo> {
    let catalogue = &data::catalogue().instance_types;
    types.iter().map(|name| catalogue.iter().find(|info| info.name == *name).unwrap().clone()).collect()
}

/// Returns a pool that refers to the class `default`.
pub(crate) fn pool(name: &str) -> NodePool {
    serde_json::from_value(json!({
        "metadata": { "name": name, "uid": format!("uid-{name}") },
        "spec": { "template": { "spec": {
            "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
            "requirements": [],
        } } },
    }))
    .unwrap()
}

/// Returns a claim of the pool `default` with requirements.
pub(crate) fn claim(name: &str, requirements: Value) -> NodeClaim {
    serde_json::from_value(json!({
        "metadata": {
            "name": name,
            "uid": format!("uid-{name}"),
            "labels": { "karpenter.sh/nodepool": "default" },
        },
        "spec": {
            "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
            "requirements": requirements,
            "resources": { "requests": { "cpu": "1", "pods": "3" } },
        },
    }))
    .unwrap()
}

/// Returns a requirement `key In values`.
pub(crate) fn require(key: &str, values: &[&str]) -> Value {
    json!({ "key": key, "operator": "In", "values": values })
}

/// Returns the requirement for on-demand capacity.
pub(crate) fn on_demand() -> Value {
    require("karpenter.sh/capacity-type", &["on-demand"])
}

fn ready_class(aws: &MemoryAws) -> Value {
    let image = |architecture: &str| {
        let name = format!(
            "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/{architecture}/standard/recommended/image_id"
        );
        aws.change_account(|account| account.parameters[&name].clone())
    };
    let ami = |architecture: &str, label: &str| {
        json!({ "id": image(architecture), "name": format!("al2023-{architecture}"), "requirements": [
            { "key": "kubernetes.io/arch", "operator": "In", "values": [label] },
        ] })
    };
    let zones = ["a", "b", "c"].into_iter().zip(1..).zip(SUBNETS);
    let subnets: Vec<Value> = zones
        .map(|((letter, number), id)| {
            json!({ "id": id, "zone": format!("us-west-2{letter}"), "zoneID": format!("usw2-az{number}") })
        })
        .collect();
    let conditions: Vec<Value> = EC2NODECLASS_WITH_RESERVATIONS
        .iter()
        .chain(&["Ready"])
        .map(|kind| {
            json!({
                "type": kind, "status": "True", "reason": kind, "message": "", "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        })
        .collect();
    json!({
        "metadata": { "name": "default", "uid": "uid-class", "generation": 1 },
        "spec": {
            "amiSelectorTerms": [{ "alias": "al2023@latest" }],
            "subnetSelectorTerms": [{ "tags": { "karpenter.sh/discovery": "demo" } }],
            "securityGroupSelectorTerms": [{ "tags": { "karpenter.sh/discovery": "demo" } }],
            "role": "KarpenterNodeRole-demo",
        },
        "status": {
            "amis": [ami("x86_64", "amd64"), ami("arm64", "arm64")],
            "subnets": subnets,
            "securityGroups": [{ "id": "sg-00000000000000002", "name": "demo-node" }],
            "instanceProfile": "demo-profile",
            "conditions": conditions,
        },
    })
}
