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
use crate::parts::AwsParts;
use crate::ports::ec2::{InstanceTypeInfo, InstanceTypeOffering};
use crate::settings::ClusterFacts;

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

/// The controller `nodeclass` for single runs. It keeps nothing that outlives it.
pub struct NodeClassTrial {
    context: Arc<AwsContext>,
}

impl std::fmt::Debug for NodeClassTrial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeClassTrial").finish_non_exhaustive()
    }
}

impl NodeClassTrial {
    /// Prepares a run. `facts` and the catalogue are what the process would have found at its
    /// start.
    pub fn new(
        parts: AwsParts,
        facts: ClusterFacts,
        types: Vec<InstanceTypeInfo>,
        offerings: Vec<InstanceTypeOffering>,
    ) -> Self {
        let context = AwsContext::new(parts);
        context.discovery.facts().update(|known| *known = facts);
        context.instance_types.set_catalogue(types, offerings);
        Self { context: Arc::new(context) }
    }

    /// Resolves the images of a class, and returns the class with its new status.
    pub async fn resolve_amis(&self, class: EC2NodeClass) -> (EC2NodeClass, Result<(), NodeClassTrialError>) {
        let clock = self.context.clock;
        let has_reservations = self.context.settings.reserved_capacity;
        let mut work = ClassReconcile::new(class, has_reservations, clock.now());
        let result = amis::resolve(&self.context.amis, &ChangeLog::new(clock), &mut work).await;
        let result = result.map(drop).map_err(|error| NodeClassErrors::from(error).into());
        (work.into_class(), result)
    }

    /// Runs the controller once for a class in cluster state.
    pub async fn reconcile(&self, name: &str) -> Result<ReconcileAction, NodeClassTrialError> {
        let controller = NodeClassController::new(self.context.clone());
        Ok(controller.reconcile(&Str::new(name)).await?)
    }
}
