//! One run of the steps of the controller `nodeclass` on a described world, without a process: the
//! questions `ami` and `nodeclass` of spec 11.

use std::sync::Arc;

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::slim::Str;
use kerf_operator::{Reconcile as _, ReconcileError as _};
use kerf_runtime::ReconcileAction;

use super::amis;
use super::controller::NodeClassController;
use super::error::NodeClassErrors;
use super::reconcile::ClassReconcile;
use crate::change_log::ChangeLog;
use crate::context::AwsContext;

/// The failed run of a controller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct NodeClassTrialError {
    /// All problems.
    pub text: String,
    /// True if the controller would not run again before the class changes.
    pub is_terminal: bool,
}

impl From<NodeClassErrors> for NodeClassTrialError {
    fn from(errors: NodeClassErrors) -> Self {
        Self { text: errors.to_string(), is_terminal: errors.is_terminal() }
    }
}

/// Resolves the images of a class, and returns the class with its new status.
pub(crate) async fn resolve_amis(
    context: &AwsContext,
    class: EC2NodeClass,
) -> (EC2NodeClass, Result<(), NodeClassTrialError>) {
    let mut work = ClassReconcile::new(class, context.settings.reserved_capacity, context.clock.now());
    let result = amis::resolve(&context.amis, &ChangeLog::new(context.clock), &mut work).await;
    let result = result.map(drop).map_err(|error| NodeClassErrors::from(error).into());
    (work.into_class(), result)
}

/// Runs the controller `nodeclass` once for a class in cluster state.
pub(crate) async fn reconcile_once(
    context: Arc<AwsContext>,
    name: &str,
) -> Result<ReconcileAction, NodeClassTrialError> {
    Ok(NodeClassController::new(context).reconcile(&Str::new(name)).await?)
}
