//! An API server, an EC2 and the controllers of node classes.

use std::sync::{Arc, Mutex, PoisonError};

use kerf_api::crds::CrdVariant;
use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_api::slim::Str;
use kerf_cloud::ProviderSetup;
use kerf_operator::{
    ControllerEnvironment, ControllerMetrics, ControllerSet, Event, Publish, Reconcile as _, Registry, SharedCluster,
};
use kerf_runtime::ReconcileAction;
use kerf_sandbox::{ApiServer, ApiServerConfig, install_crds};
use kerf_state::{NodeClass, ObjectChange, TrackedClaim};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::super::add_controllers;
use super::super::controller::NodeClassController;
use super::super::error::NodeClassErrors;
use super::super::hash::NodeClassHash;
use crate::context::AwsContext;
use crate::memory::MemoryAws;
use crate::memory::testing::aws;
use crate::parts::AwsParts;
use crate::provider::AwsProvider;
use crate::settings::AwsSettings;

/// The role that exists in the account.
pub(super) const ROLE: &str = "KarpenterNodeRole-demo";

/// Events that were published, oldest first.
#[derive(Default)]
pub(super) struct RecordedEvents(Mutex<Vec<Event>>);

impl Publish for RecordedEvents {
    fn publish(&self, event: Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

impl RecordedEvents {
    /// Returns reason and message of all events.
    pub(super) fn texts(&self) -> Vec<String> {
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.iter().map(|event| format!("{}: {}", event.reason, event.message)).collect()
    }
}

pub(super) struct TestEnv {
    pub(super) server: ApiServer,
    pub(super) client: Client,
    pub(super) aws: MemoryAws,
    pub(super) context: Arc<AwsContext>,
    pub(super) events: Arc<RecordedEvents>,
    pub(super) controller: NodeClassController,
    hash: NodeClassHash,
}

impl TestEnv {
    /// Returns an environment without node classes, with dry runs disabled.
    pub(super) async fn new() -> Self {
        Self::with_settings(|_| {}).await
    }

    pub(super) async fn with_settings(change: impl FnOnce(&mut AwsSettings)) -> Self {
        let mut settings = AwsSettings::new("demo");
        (settings.eks_control_plane, settings.disable_dry_run) = (true, true);
        change(&mut settings);
        let aws = aws();
        aws.change_account(|account| account.add_cluster(&settings.cluster_name, "1.34"));
        let clock = aws.clock();
        let server = ApiServer::new(ApiServerConfig::new(clock, 7));
        let client = server.client_as("test");
        install_crds(&client, CrdVariant::Aws).await.unwrap();
        let events = Arc::new(RecordedEvents::default());
        let context = Arc::new(AwsContext::new(AwsParts {
            ports: aws.ports(),
            settings,
            client: server.client_as("kerf"),
            cluster: SharedCluster::default(),
            clock,
            events: events.clone(),
            registry: Arc::new(Registry::default()),
        }));
        context.discovery.load().await.unwrap();
        context.instance_types.refresh(context.ports.ec2.as_ref()).await.unwrap();
        aws.clear_calls();
        let controller = NodeClassController::new(context.clone());
        let hash = NodeClassHash::new(context.clone());
        Self { server, client, aws, context, events, controller, hash }
    }

    /// Returns the controllers with their queues, as the process runs them.
    pub(super) fn controller_set(&self) -> ControllerSet {
        let AwsContext { client, cluster, clock, .. } = &*self.context;
        let registry = Arc::new(Registry::default());
        let environment = ControllerEnvironment {
            metrics: Arc::new(ControllerMetrics::new(&registry)),
            clock: *clock,
            seed: 7,
            cores: 1,
        };
        let cloud = AwsProvider::new(AwsParts {
            ports: self.aws.ports(),
            settings: self.context.settings.clone(),
            client: client.clone(),
            cluster: cluster.clone(),
            clock: *clock,
            events: self.events.clone(),
            registry: registry.clone(),
        });
        let mut set = ControllerSet::new(environment);
        let mut setup = ProviderSetup {
            set: &mut set,
            cloud: Arc::new(cloud),
            client: client.clone(),
            cluster: cluster.clone(),
            clock: *clock,
            events: self.events.clone(),
            registry,
        };
        add_controllers(&self.context, &mut setup);
        set
    }

    pub(super) fn classes(&self) -> Api<EC2NodeClass> {
        Api::all(self.client.clone())
    }

    pub(super) fn claims(&self) -> Api<NodeClaim> {
        Api::all(self.client.clone())
    }

    /// Creates a class with an alias, a role, and selectors by tag. `spec` replaces single fields;
    /// null removes one.
    pub(super) async fn create_class(&self, name: &str, spec: Value) -> EC2NodeClass {
        let mut all = json!({
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "role": ROLE,
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
        });
        for (key, value) in spec.as_object().into_iter().flatten() {
            all[key] = value.clone();
        }
        all.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let class = json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": name}, "spec": all});
        self.classes().create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap()
    }

    pub(super) async fn patch_class(&self, name: &str, patch: Value) {
        self.classes().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(super) async fn create_claim(&self, name: &str, class: &str, annotations: Value) {
        let claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "annotations": annotations, "labels": {"karpenter.sh/nodepool": "default"}},
            "spec": {"requirements": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class}}});
        self.claims().create(&PostParams::default(), &serde_json::from_value(claim).unwrap()).await.unwrap();
    }

    /// Creates a NodePool that uses the class `default`.
    pub(super) async fn create_pool(&self, name: &str, requirements: Value) {
        let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {"template": {"spec": {"requirements": requirements,
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}}});
        let pools: Api<NodePool> = Api::all(self.client.clone());
        pools.create(&PostParams::default(), &serde_json::from_value(pool).unwrap()).await.unwrap();
    }

    /// Replaces cluster state by the objects of the API server, as watches would, and returns the
    /// changes.
    pub(super) async fn sync(&self) -> (Vec<ObjectChange<NodeClass>>, Vec<ObjectChange<TrackedClaim>>) {
        let classes = self.classes().list(&ListParams::default()).await.unwrap().items;
        let claims = self.claims().list(&ListParams::default()).await.unwrap().items;
        let pools: Api<NodePool> = Api::all(self.client.clone());
        let pools = pools.list(&ListParams::default()).await.unwrap().items;
        let classes = classes.iter().map(|class| {
            let class: NodeClass = serde_json::from_value(serde_json::to_value(class).unwrap()).unwrap();
            class.with_kind("karpenter.k8s.aws", "v1", "EC2NodeClass")
        });
        let mut cluster = self.context.cluster.lock();
        cluster.reset(pools);
        let classes = cluster.reset_node_classes("karpenter.k8s.aws", "EC2NodeClass", classes.collect());
        (classes, cluster.reset(claims.into_iter().map(TrackedClaim::from).collect()))
    }

    /// Runs the controller once for a class, on the current state.
    pub(super) async fn reconcile(&self, name: &str) -> Result<ReconcileAction, NodeClassErrors> {
        self.sync().await;
        self.controller.reconcile(&Str::new(name)).await
    }

    /// Runs the controller of the hash once for a class, on the current state.
    pub(super) async fn reconcile_hash(&self, name: &str) -> Result<ReconcileAction, NodeClassErrors> {
        self.sync().await;
        self.hash.reconcile(&Str::new(name)).await
    }

    pub(super) async fn class(&self, name: &str) -> EC2NodeClass {
        self.classes().get(name).await.unwrap()
    }

    /// Returns the conditions of a class as `Type=Status Reason: message`, sorted by type. True
    /// conditions are shown without reason.
    pub(super) async fn conditions(&self, name: &str) -> Vec<String> {
        let status = self.class(name).await.status.unwrap_or_default();
        let mut shown: Vec<String> = status
            .conditions
            .iter()
            .map(|condition| match condition.status.as_str() {
                "True" => format!("{}=True", condition.condition_type),
                status => {
                    format!("{}={status} {}: {}", condition.condition_type, condition.reason, condition.message)
                }
            })
            .collect();
        shown.sort();
        shown
    }

    /// Returns one condition of a class, as [`Self::conditions`] shows it.
    pub(super) async fn condition(&self, name: &str, condition: &str) -> String {
        let all = self.conditions(name).await;
        all.into_iter().find(|text| text.starts_with(&format!("{condition}="))).unwrap_or_default()
    }

    /// Returns the operations of AWS that were called since the last time.
    pub(super) fn take_operations(&self) -> Vec<&'static str> {
        let operations = self.aws.calls().iter().map(|call| call.operation).collect();
        self.aws.clear_calls();
        operations
    }

    /// Returns the names of all instance profiles with their roles, sorted.
    pub(super) async fn profiles(&self) -> Vec<String> {
        let iam = self.aws.ports().iam;
        let page = iam.list_instance_profiles("/", crate::ports::PageRequest::first(1000)).await.unwrap();
        let mut shown: Vec<String> =
            page.items.iter().map(|profile| format!("{} {}", profile.name, profile.roles.join(","))).collect();
        shown.sort();
        shown
    }

    pub(super) async fn class_exists(&self, name: &str) -> bool {
        let classes = self.classes().list(&ListParams::default()).await.unwrap();
        classes.iter().any(|class| class.name_any() == name)
    }
}
