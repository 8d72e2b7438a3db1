//! Instance profile of a node class (spec 06 §4.6).

use std::time::Duration;

use kerf_runtime::{Clock, ReconcileAction};

use super::error::NodeClassError;
use super::reconcile::{ClassReconcile, INSTANCE_PROFILE_READY};
use crate::instance_profiles::{InstanceProfiles, role_name};
use crate::ttl_cache::TtlCache;

/// Reason of the condition while the role of the class does not exist.
const ROLE_NOT_FOUND: &str = "RoleNotFound";
/// Time for which a new profile is used again, although the status does not name it yet.
const RECREATION_TTL: Duration = Duration::from_mins(1);
/// Number of new profiles that are remembered.
const RECREATED_MAX: usize = 1_000;

/// Profiles that were created within the last minute, by role and class. The write of the status
/// that names a profile may fail; the next reconcile then uses the profile instead of creating a
/// second one.
#[derive(Debug)]
pub(super) struct RecentProfiles(TtlCache<String, String>);

impl RecentProfiles {
    pub(super) fn new(clock: Clock) -> Self {
        Self(TtlCache::new(clock, RECREATION_TTL, RECREATED_MAX))
    }
}

/// Writes the name of the profile into the status. Creates a profile if none has the role of the
/// class. After an error, status and condition keep their values, except that the role of the class
/// does not exist: the condition says so then.
pub(super) async fn resolve(
    profiles: &InstanceProfiles,
    recent: &RecentProfiles,
    work: &mut ClassReconcile,
) -> Result<ReconcileAction, NodeClassError> {
    let spec = work.spec();
    let old = work.class.status.as_ref().and_then(|status| status.instance_profile.clone()).unwrap_or_default();
    let name = match spec.role.as_deref().filter(|role| !role.is_empty()) {
        Some(role) => {
            let name = match profile_with_role(profiles, recent, work, role, &old).await {
                Ok(name) => name,
                Err(error) => {
                    if error.is_role_not_found() {
                        // The text is the same at each retry, so that the status is written once.
                        let message = format!("Role {role:?} does not exist");
                        work.conditions.set_unknown(INSTANCE_PROFILE_READY, ROLE_NOT_FOUND, &message, work.now);
                    }
                    return Err(error);
                }
            };
            if name != old {
                profiles.protect(&old);
            }
            Some(name)
        }
        None => {
            profiles.protect(&old);
            spec.instance_profile
        }
    };
    work.status_mut().instance_profile = name;
    work.set_true(INSTANCE_PROFILE_READY);
    Ok(ReconcileAction::Done)
}

/// Returns the name of a profile that has the role.
async fn profile_with_role(
    profiles: &InstanceProfiles,
    recent: &RecentProfiles,
    work: &ClassReconcile,
    role: &str,
    old: &str,
) -> Result<String, NodeClassError> {
    let recent_key = format!("{role}/{}", work.uid());
    let current = recent.0.get(&recent_key).unwrap_or_else(|| old.to_owned());
    if !current.is_empty() {
        let profile = profiles.get(&current).await?;
        let has_role = |own: &String| role_name(own) == role_name(role);
        if profile.is_some_and(|profile| profile.roles.first().is_some_and(has_role)) {
            return Ok(current);
        }
    }
    let name = profiles.new_name(work.name());
    if let Err(error) = profiles.create(&name, role, &work.class).await {
        if error.may_have_created_profile() {
            // Without the deletion each retry would leave a profile behind.
            if let Err(cleanup) = profiles.delete(&name).await {
                tracing::debug!(error = %cleanup, "failed to delete instance profile");
            }
        }
        return Err(NodeClassError::CreateInstanceProfile(error));
    }
    recent.0.insert(recent_key, name.clone());
    Ok(name)
}
