//! `instanceprofile.garbagecollection`: deletes instance profiles that nothing uses (spec 06 §5.3).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kerf_api::annotations::aws::INSTANCE_PROFILE_NAME;
use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::slim::Str;
use kerf_operator::Reconcile;
use kerf_runtime::ReconcileAction;
use kerf_state::{NodeClass, TrackedClaim};

use super::error::{NodeClassError, NodeClassErrors};
use super::is_ec2_node_class;
use crate::context::AwsContext;

/// Time between two runs.
const INTERVAL: Duration = Duration::from_mins(30);

/// The controller.
pub(super) struct InstanceProfileGarbageCollection {
    context: Arc<AwsContext>,
}

impl InstanceProfileGarbageCollection {
    pub(super) fn new(context: Arc<AwsContext>) -> Self {
        Self { context }
    }

    /// Returns the profiles that claims were launched with, and those in the status of classes.
    fn used_profiles(&self) -> Result<BTreeSet<String>, NodeClassError> {
        let cluster = self.context.cluster.lock();
        let claims = cluster.all::<TrackedClaim>().values();
        let annotation = |claim: &Arc<TrackedClaim>| {
            claim.object.metadata.annotations.as_ref().and_then(|all| all.get(INSTANCE_PROFILE_NAME)).cloned()
        };
        let mut used: BTreeSet<String> = claims.filter_map(annotation).collect();
        for class in cluster.all::<NodeClass>().values().filter(|class| is_ec2_node_class(&class.reference())) {
            let class: EC2NodeClass = class.decode()?;
            used.extend(class.status.and_then(|status| status.instance_profile));
        }
        Ok(used)
    }
}

impl Reconcile for InstanceProfileGarbageCollection {
    type Error = NodeClassErrors;

    async fn reconcile(&self, _: &Str) -> Result<ReconcileAction, NodeClassErrors> {
        let profiles = &self.context.instance_profiles;
        let listed = profiles.list(&profiles.cluster_path()).await.map_err(NodeClassError::from)?;
        // A profile that a class takes into use after this line is protected.
        let used = self.used_profiles()?;
        for name in listed {
            if !used.contains(&name) && !profiles.is_protected(&name) {
                profiles.delete(&name).await.map_err(NodeClassError::from)?;
                tracing::debug!(instance_profile = name, "deleted instance profile");
            }
        }
        Ok(ReconcileAction::RequeueAfter(INTERVAL))
    }
}
