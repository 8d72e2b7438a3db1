//! `nodeclass`: resolves the selectors of a class into its status (spec 06 §4).

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::finalizers::aws::TERMINATION;
use kerf_api::slim::Str;
use kerf_operator::{Reconcile, ReconcileError as _};
use kerf_runtime::{ApiError, MergePatch, Queue, ReconcileAction};
use kube::Api;

use super::error::{NodeClassError, NodeClassErrors};
use super::instance_profile::RecentProfiles;
use super::reconcile::ClassReconcile;
use super::validation::Validation;
use super::{
    amis, capacity_reservations, deletion, find_class, instance_profile, placement_group, security_groups, subnets,
};
use crate::cache_metrics::CacheMetrics;
use crate::change_log::ChangeLog;
use crate::context::AwsContext;

/// Time after which a class with a terminal failure is reconciled again, so that its images,
/// subnets and groups stay up to date.
const TERMINAL_RETRY_AFTER: Duration = Duration::from_mins(1);

/// Keeps the status of each class up to date.
pub(super) struct NodeClassController {
    context: Arc<AwsContext>,
    recent_profiles: RecentProfiles,
    validation: Validation,
    /// Resolved values that were logged.
    logged: ChangeLog,
    /// Terminal failures that were logged, by class.
    terminal_failures: ChangeLog,
    queue: OnceLock<Queue<Str>>,
}

impl NodeClassController {
    pub(super) fn new(context: Arc<AwsContext>) -> Self {
        let clock = context.clock;
        let validation = Validation::new(clock);
        validation.measure(&CacheMetrics::new(&context.registry));
        Self {
            context,
            recent_profiles: RecentProfiles::new(clock),
            validation,
            logged: ChangeLog::new(clock),
            terminal_failures: ChangeLog::new(clock),
            queue: OnceLock::new(),
        }
    }

    /// Sets the controller's own queue, to which classes with a terminal failure are added.
    pub(super) fn set_queue(&self, queue: Queue<Str>) {
        _ = self.queue.set(queue);
    }

    #[cfg(test)]
    pub(super) fn validation_outcome_count(&self) -> usize {
        self.validation.outcome_count()
    }

    fn api(&self) -> Api<EC2NodeClass> {
        Api::all(self.context.client.clone())
    }

    async fn reconcile_live(&self, class: EC2NodeClass) -> Result<ReconcileAction, NodeClassErrors> {
        let class = match self.with_finalizer(class).await {
            Ok(class) => class,
            Err(ApiError::Conflict) => return Ok(ReconcileAction::RequeueWithBackoff),
            Err(ApiError::NotFound) => return Ok(ReconcileAction::Done),
            Err(cause) => return Err(NodeClassError::Api { operation: "adding finalizer", cause }.into()),
        };
        let context = &self.context;
        let has_reservations = context.settings.reserved_capacity;
        let mut work = ClassReconcile::new(class.clone(), has_reservations, context.clock.now());
        let mut results = vec![amis::resolve(&context.amis, &self.logged, &mut work).await];
        if has_reservations {
            results.push(capacity_reservations::resolve(&context.reservations, &self.logged, &mut work).await);
        }
        results.push(placement_group::resolve(&context.placement_groups, &self.logged, &mut work).await);
        results.push(subnets::resolve(&context.subnets, &self.logged, &mut work).await);
        results.push(security_groups::resolve(&context.security_groups, &self.logged, &mut work).await);
        results.push(instance_profile::resolve(&context.instance_profiles, &self.recent_profiles, &mut work).await);
        // Validation depends on the conditions that the others have set.
        results.push(self.validation.validate(context, &mut work).await);
        match MergePatch::STATUS.send(&self.api(), &class, &work.into_class()).await {
            Ok(_) => {}
            Err(ApiError::Conflict) => return Ok(ReconcileAction::RequeueWithBackoff),
            Err(ApiError::NotFound) => return Ok(ReconcileAction::Done),
            Err(cause) => results.push(Err(NodeClassError::Api { operation: "patching nodeclass status", cause })),
        }
        let (mut action, mut errors) = (ReconcileAction::Done, Vec::new());
        for result in results {
            match result {
                Ok(next) => action = action.soonest(next),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(action) } else { Err(NodeClassErrors(errors)) }
    }

    async fn with_finalizer(&self, class: EC2NodeClass) -> Result<EC2NodeClass, ApiError> {
        if has_finalizer(&class) {
            return Ok(class);
        }
        let mut finalized = class.clone();
        finalized.metadata.finalizers.get_or_insert_default().push(TERMINATION.to_owned());
        let written = MergePatch::OBJECT.send(&self.api(), &class, &finalized).await?;
        Ok(written.unwrap_or(finalized))
    }

    async fn reconcile_deleted(&self, class: EC2NodeClass) -> Result<ReconcileAction, NodeClassErrors> {
        if !has_finalizer(&class) {
            return Ok(ReconcileAction::Done);
        }
        if let Some(action) = deletion::wait_for_claims(&self.context, &class) {
            return Ok(action);
        }
        deletion::delete_resources(&self.context, &class).await?;
        let mut released = class.clone();
        released.metadata.finalizers.iter_mut().for_each(|all| all.retain(|name| name != TERMINATION));
        match MergePatch::OBJECT.send(&self.api(), &class, &released).await {
            Ok(_) | Err(ApiError::NotFound) => {}
            Err(ApiError::Conflict) => return Ok(ReconcileAction::RequeueWithBackoff),
            Err(cause) => return Err(NodeClassError::Api { operation: "removing finalizer", cause }.into()),
        }
        self.validation.forget(class.metadata.name.as_deref().unwrap_or_default());
        Ok(ReconcileAction::Done)
    }

    /// Keeps a class with a terminal failure up to date, and reports the failure only if it has
    /// changed.
    fn after_terminal_failure(
        &self,
        name: &Str,
        uid: &str,
        errors: NodeClassErrors,
    ) -> Result<ReconcileAction, NodeClassErrors> {
        if !self.terminal_failures.is_new(uid, &errors.to_string()) {
            return Ok(ReconcileAction::RequeueAfter(TERMINAL_RETRY_AFTER));
        }
        if let Some(queue) = self.queue.get() {
            queue.add_after(name.clone(), TERMINAL_RETRY_AFTER);
        }
        Err(errors)
    }
}

fn has_finalizer(class: &EC2NodeClass) -> bool {
    class.metadata.finalizers.iter().flatten().any(|name| name == TERMINATION)
}

impl Reconcile for NodeClassController {
    type Error = NodeClassErrors;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, NodeClassErrors> {
        let Some(class) = find_class(&self.context.cluster, name).map_err(NodeClassError::from)? else {
            return Ok(ReconcileAction::Done);
        };
        if class.metadata.deletion_timestamp.is_some() {
            return self.reconcile_deleted(class).await;
        }
        let uid = class.metadata.uid.clone().unwrap_or_default();
        match self.reconcile_live(class).await {
            Err(errors) if errors.is_terminal() => self.after_terminal_failure(name, &uid, errors),
            result => {
                self.terminal_failures.forget(&uid);
                result
            }
        }
    }
}
