//! `providers.ssm.invalidation`: forgets parameters that name deprecated images (spec 06 §16.5).

use std::sync::Arc;
use std::time::Duration;

use kerf_api::slim::Str;
use kerf_operator::Reconcile;
use kerf_runtime::ReconcileAction;

use super::error::{NodeClassError, NodeClassErrors};
use crate::discovery::amis::Amis;

/// Time between two runs.
const INTERVAL: Duration = Duration::from_mins(30);

/// The controller.
pub(super) struct SsmInvalidation {
    amis: Arc<Amis>,
}

impl SsmInvalidation {
    pub(super) fn new(amis: Arc<Amis>) -> Self {
        Self { amis }
    }
}

impl Reconcile for SsmInvalidation {
    type Error = NodeClassErrors;

    async fn reconcile(&self, _: &Str) -> Result<ReconcileAction, NodeClassErrors> {
        self.amis.forget_deprecated_parameters().await.map_err(NodeClassError::from)?;
        Ok(ReconcileAction::RequeueAfter(INTERVAL))
    }
}
