//! `node.hydration`: adds the label that names the node class to nodes that an older release
//! created without it (spec 04 §6.3).

use kerf_api::labels::node_class_key;
use kerf_api::slim::{Node, Str};
use kerf_runtime::{ApiError, ReconcileAction};

use crate::actions;
use crate::context::Context;
use crate::error::{Error, REQUEUE_AFTER_CONFLICT};
use kerf_operator::Reconcile;

/// The controller. Its keys are names of Nodes.
pub(crate) struct NodeHydration {
    ctx: Context,
}

impl NodeHydration {
    pub(crate) fn new(ctx: Context) -> Self {
        Self { ctx }
    }

    /// Returns key and value of the node class label if the node lacks it. Returns `None` unless
    /// exactly one managed claim belongs to the node.
    fn missing_label(&self, name: &str) -> Option<(String, String)> {
        let cluster = self.ctx.cluster.lock();
        let node = cluster.get::<Node>(name)?;
        let mut claims = cluster.claims_of(&node.spec.provider_id);
        let claim = claims.next().filter(|claim| self.ctx.manages_claim(claim))?;
        let class = &claim.object.spec.node_class_ref;
        let key = node_class_key(&class.group, &class.kind);
        let has_label = node.metadata.labels.has_value(&key, &class.name);
        (claims.next().is_none() && !has_label).then(|| (key, class.name.clone()))
    }
}

impl Reconcile for NodeHydration {
    type Error = Error;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        let Some((key, value)) = self.missing_label(name) else { return Ok(ReconcileAction::Done) };
        match actions::node::set_label(&self.ctx, name, &key, &value).await {
            Ok(()) | Err(ApiError::NotFound) => Ok(ReconcileAction::Done),
            Err(ApiError::Conflict) => Ok(REQUEUE_AFTER_CONFLICT),
            Err(cause) => Err(Error::Api { operation: "labelling node", cause }),
        }
    }
}
