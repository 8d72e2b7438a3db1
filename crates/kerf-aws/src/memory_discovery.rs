//! `providers.instancetype.capacity`: learns from registered nodes how much memory their instance
//! types have (spec 05 §4.12, spec 06 §16.4).

use std::sync::Arc;

use kerf_api::labels;
use kerf_api::slim::{Node, Str};
use kerf_cloud::ProviderSetup;
use kerf_operator::logs::ObjectKind;
use kerf_operator::{Concurrency, ControllerName, Reconcile, ReconcileError};
use kerf_runtime::ReconcileAction;
use tracing::debug;

use crate::context::AwsContext;
use crate::discovery::amis::map_types_to_amis;
use crate::instance_types::InstanceTypeError;
use crate::node_classes::NodeClassReadError;

/// The controller.
pub(crate) struct MemoryDiscovery(Arc<AwsContext>);

/// Reason why the memory of a node was not recorded. It is tried again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MemoryDiscoveryError {
    #[error("getting nodeclass, {0}")]
    Class(#[source] NodeClassReadError),
    #[error("getting instance types, {0}")]
    InstanceTypes(#[source] InstanceTypeError),
}

impl ReconcileError for MemoryDiscoveryError {}

impl MemoryDiscovery {
    /// Adds the controller, and the handler that enqueues nodes that have just registered.
    pub(crate) fn add_to(setup: &mut ProviderSetup<'_>, context: Arc<AwsContext>) {
        let name = ControllerName::of_kind("providers.instancetype.capacity", ObjectKind { group: "", kind: "Node" });
        let registered = setup.set.add::<Self>(name, Self(context), Concurrency::reasonable(1));
        setup.set.handlers_mut().add::<Node>(move |change| {
            let was_registered = change.before.as_ref().is_some_and(|node| is_registered(node));
            if let Some(node) = change.after.as_ref().filter(|node| !was_registered && is_registered(node)) {
                registered.enqueue(&node.metadata.name);
            }
        });
    }
}

fn is_registered(node: &Node) -> bool {
    node.metadata.labels.get(labels::REGISTERED).is_some_and(|value| value == "true")
}

impl Reconcile for MemoryDiscovery {
    type Error = MemoryDiscoveryError;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, MemoryDiscoveryError> {
        let context = &self.0;
        let (node, claim) = {
            let cluster = context.cluster.lock();
            let Some(node) = cluster.get::<Node>(name).cloned() else { return Ok(ReconcileAction::Done) };
            let claim = cluster.claims_of(&node.spec.provider_id).next().cloned();
            (node, claim)
        };
        let (Some(claim), true) = (claim, is_registered(&node)) else { return Ok(ReconcileAction::Done) };
        let memory = node.status.capacity.get("memory").filter(|quantity| quantity.value() > 0);
        let (Some(memory), Some(type_name)) = (memory, node.metadata.labels.get(labels::INSTANCE_TYPE)) else {
            return Ok(ReconcileAction::Done);
        };
        let class = context.node_classes.get(&claim.object.spec.node_class_ref.name).await;
        let class = class.map_err(MemoryDiscoveryError::Class)?;
        let types = context.instance_types.list(&class).map_err(MemoryDiscoveryError::InstanceTypes)?;
        let amis = class.status.as_ref().and_then(|status| status.amis.as_deref()).unwrap_or_default();
        let Some(instance_type) = types.find(type_name) else { return Ok(ReconcileAction::Done) };
        // Without an image for the type, the node's image is not a current one.
        let matches = map_types_to_amis(&[instance_type], amis).unwrap_or_default();
        let image = claim.object.status.as_ref().and_then(|status| status.image_id.as_deref());
        if matches.first().map(|matched| matched.ami.id.as_str()) == image
            && image.is_some()
            && context.instance_types.record_memory(&class, type_name, memory.value())
        {
            debug!(
                "memory-capacity" = %memory,
                "instance-type" = %type_name,
                "updating discovered capacity cache"
            );
        }
        Ok(ReconcileAction::Done)
    }
}

#[cfg(test)]
mod tests {
    use kerf_cloud::CloudProvider as _;
    use kerf_state::TrackedClaim;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{ProviderEnv, claim, on_demand, require};

    struct DiscoveryEnv {
        env: ProviderEnv,
        controller: MemoryDiscovery,
        provider_id: String,
        image: String,
    }

    impl DiscoveryEnv {
        /// Launches an m5.large for the claim `a`.
        async fn new() -> Self {
            let env = ProviderEnv::new().await;
            let launched = claim("a", json!([on_demand(), require("node.kubernetes.io/instance-type", &["m5.large"])]));
            let instance = env.provider.create(&launched).await.unwrap();
            let controller = MemoryDiscovery(env.provider.context().clone());
            let image = instance.image_id.unwrap_or_default();
            let discovery = Self { env, controller, provider_id: instance.provider_id, image };
            discovery.set_claim(&discovery.image);
            discovery
        }

        fn set_claim(&self, image: &str) {
            let mut object = claim("a", json!([on_demand()]));
            object.status = Some(
                serde_json::from_value(json!({ "providerID": self.provider_id, "imageID": image, "nodeName": "n" }))
                    .unwrap(),
            );
            self.env.cluster.lock().reset(vec![TrackedClaim::from(object)]);
        }

        /// Lets the node report this memory. Returns the memory of the type in the next list.
        async fn report(&self, memory: &str) -> i64 {
            let node: Value = json!({
                "metadata": { "name": "n", "labels": {
                    "karpenter.sh/registered": "true", "node.kubernetes.io/instance-type": "m5.large",
                } },
                "spec": { "providerID": self.provider_id },
                "status": { "capacity": { "memory": memory } },
            });
            let node: Node = serde_json::from_value(node).unwrap();
            self.env.cluster.lock().reset(vec![node]);
            self.controller.reconcile(&Str::new_static("n")).await.unwrap();
            self.memory().await
        }

        async fn memory(&self) -> i64 {
            // The list is built again after five minutes.
            tokio::time::advance(std::time::Duration::from_mins(5)).await;
            let context = self.env.provider.context();
            let class = context.node_classes.get("default").await.unwrap();
            let m5 = context.instance_types.get(&class, "m5.large").unwrap();
            m5.capacity.get("memory").unwrap().value()
        }
    }

    const MIB: i64 = 1024 * 1024;

    // spec 05 #33, #34
    #[tokio::test(start_paused = true)]
    async fn spec_05_34_the_smallest_memory_of_nodes_replaces_the_estimate() {
        let discovery = DiscoveryEnv::new().await;
        assert_eq!(discovery.memory().await, 7_577 * MIB, "the estimate");
        assert_eq!(discovery.report("7800Mi").await, 7_800 * MIB);
        assert_eq!(discovery.report("7900Mi").await, 7_800 * MIB, "a larger value is ignored");
        assert_eq!(discovery.report("7700Mi").await, 7_700 * MIB);
    }

    // spec 05 #35, spec 06 #118
    #[tokio::test(start_paused = true)]
    async fn spec_06_118_only_classes_with_the_same_images_use_the_value() {
        let discovery = DiscoveryEnv::new().await;
        discovery.set_claim("ami-other");
        assert_eq!(discovery.report("7800Mi").await, 7_577 * MIB, "the image of the node is not current");
        discovery.set_claim(&discovery.image);
        assert_eq!(discovery.report("7800Mi").await, 7_800 * MIB);
        discovery.env.change_class(|class| {
            class["status"]["amis"][1]["id"] = json!("ami-0123456789abcdef0");
        });
        assert_eq!(discovery.memory().await, 7_577 * MIB, "other images");
    }

    // spec 06 §16.4
    #[tokio::test(start_paused = true)]
    async fn a_node_without_claim_is_ignored_and_a_missing_class_is_an_error() {
        let discovery = DiscoveryEnv::new().await;
        discovery.env.cluster.lock().reset(Vec::<TrackedClaim>::new());
        assert_eq!(discovery.report("7000Mi").await, 7_577 * MIB);
        discovery.set_claim(&discovery.image);
        discovery.env.remove_classes();
        let error = discovery.controller.reconcile(&Str::new_static("n")).await.unwrap_err();
        assert!(error.to_string().starts_with("getting nodeclass, "), "{error}");
    }
}
