//! `nodeclaim.hydration`: adds the label that names the node class to claims of older releases
//! (spec 04 §6.3).

use kerf_api::labels::node_class_key;
use kerf_api::slim::Str;
use kerf_runtime::{MergePatch, OptimisticLock, PatchTarget, ReconcileAction};

use crate::actions;
use crate::context::Context;
use crate::error::{Error, Interrupted, api_result};
use kerf_operator::Reconcile;

pub(crate) struct ClaimHydration {
    ctx: Context,
}

impl ClaimHydration {
    pub(crate) fn new(ctx: Context) -> Self {
        Self { ctx }
    }
}

impl Reconcile for ClaimHydration {
    type Error = Error;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        let Some(claim) = self.ctx.managed_claim(name) else { return Ok(ReconcileAction::Done) };
        let class = &claim.object.spec.node_class_ref;
        let mut labelled = claim.object.clone();
        let labels = labelled.metadata.labels.get_or_insert_default();
        labels.insert(node_class_key(&class.group, &class.kind), class.name.clone());
        let patch = MergePatch { target: PatchTarget::Object, lock: OptimisticLock::None };
        let written = actions::claim::update(&self.ctx, patch, &claim.object, &labelled).await;
        Interrupted::into_result(api_result("labelling nodeclaim", written).map(|_| ReconcileAction::Done))
    }
}
