//! Instance profiles that Kerf owns (spec 06 §5). EC2 gives the role of a node class to instances
//! through one.
//!
//! A change of the role gives a new profile with a new name: instances of the old role keep theirs.
//! The garbage collection deletes profiles that nothing uses.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::labels::{self, aws};
use kerf_runtime::{Clock, Rng};

use crate::cache_metrics::CacheMetrics;
use crate::ports::{AwsError, AwsPorts, CreateInstanceProfile, Iam, InstanceProfile, Tags, all_pages};
use crate::settings::AwsSettings;
use crate::ttl_cache::TtlCache;

/// Time for which a profile is not read again.
const PROFILE_TTL: Duration = Duration::from_mins(15);
/// Time for which a role that IAM does not know is not tried again.
const MISSING_ROLE_TTL: Duration = Duration::from_mins(1);
/// Time for which a profile that was in use is not deleted by the garbage collection.
const PROTECTED_TTL: Duration = Duration::from_hours(1);
/// Number of profiles and roles that are remembered; IAM's largest quota of profiles per account.
const PROFILES_MAX: usize = 5_000;
/// Page size of `ListInstanceProfiles`.
const PAGE_SIZE: i32 = 1_000;
/// Longest name of an instance profile.
const NAME_LENGTH_MAX: usize = 128;

/// Error code of a profile or role that does not exist.
const NOT_FOUND: &str = "NoSuchEntity";

/// Reason why an instance profile is not available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InstanceProfileError {
    /// IAM reported within the last minute that the role does not exist.
    #[error("role not found, {0}")]
    RoleNotFound(#[source] AwsError),
    /// A call failed.
    #[error("{attempt}, {cause}")]
    Call {
        /// The attempt, with the name of the profile.
        attempt: String,
        /// The answer of IAM.
        #[source]
        cause: AwsError,
    },
}

impl InstanceProfileError {
    /// Returns true if calls were made, so that the profile may exist.
    pub(crate) fn may_have_created_profile(&self) -> bool {
        match self {
            Self::RoleNotFound(_) => false,
            Self::Call { .. } => true,
        }
    }

    /// Returns the failed AWS call.
    pub(crate) fn aws_error(&self) -> &AwsError {
        match self {
            Self::RoleNotFound(cause) | Self::Call { cause, .. } => cause,
        }
    }
}

/// The instance profiles of a cluster.
pub(crate) struct InstanceProfiles {
    iam: Arc<dyn Iam>,
    region: String,
    cluster_name: String,
    profiles: TtlCache<String, InstanceProfile>,
    /// Roles that IAM does not know, with its answer.
    missing_roles: TtlCache<String, AwsError>,
    protected: TtlCache<String, ()>,
    name_rng: Mutex<Rng>,
}

impl std::fmt::Debug for InstanceProfiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InstanceProfiles").field("cluster_name", &self.cluster_name).finish_non_exhaustive()
    }
}

impl InstanceProfiles {
    /// Creates the provider without any known profile.
    pub(crate) fn new(ports: &AwsPorts, settings: &AwsSettings, clock: Clock) -> Self {
        Self {
            iam: ports.iam.clone(),
            region: ports.region.clone(),
            cluster_name: settings.cluster_name.clone(),
            profiles: TtlCache::new(clock, PROFILE_TTL, PROFILES_MAX),
            missing_roles: TtlCache::new(clock, MISSING_ROLE_TTL, PROFILES_MAX),
            protected: TtlCache::new(clock, PROTECTED_TTL, PROFILES_MAX),
            name_rng: Mutex::new(Rng::new(settings.seed).fork("instance profile names")),
        }
    }

    /// Publishes the number of entries of the caches from now on.
    pub(crate) fn measure(&self, metrics: &CacheMetrics) {
        self.profiles.measure(metrics.of("instance_profiles"));
        self.missing_roles.measure(metrics.of("missing_roles"));
        self.protected.measure(metrics.of("protected_instance_profiles"));
    }

    /// Returns a name that no profile has had before.
    pub(crate) fn new_name(&self, class_name: &str) -> String {
        let suffix = self.name_rng.lock().unwrap_or_else(PoisonError::into_inner).uuid();
        self.name_of(&format!("{}{class_name}{suffix}", self.region))
    }

    /// Returns the name that old releases gave to the profile of a class. Returns `None` if IAM
    /// accepts no such name.
    pub(crate) fn legacy_name(&self, class_name: &str) -> Option<String> {
        let name = self.name_of(&format!("{}{class_name}", self.region));
        let is_valid_char = |char: char| char.is_ascii_alphanumeric() || "_+=,.@-".contains(char);
        (name.len() <= NAME_LENGTH_MAX && name.chars().all(is_valid_char)).then_some(name)
    }

    fn name_of(&self, text: &str) -> String {
        format!("{}_{}", self.cluster_name, fnv1(text))
    }

    /// Returns the path of the profiles of a class.
    pub(crate) fn class_path(&self, class: &EC2NodeClass) -> String {
        format!("{}{}/", self.cluster_path(), class.metadata.uid.as_deref().unwrap_or_default())
    }

    /// Returns the path under which all profiles of the cluster are.
    pub(crate) fn cluster_path(&self) -> String {
        format!("/karpenter/{}/{}/", self.region, self.cluster_name)
    }

    /// Returns the tags of the profiles of a class.
    pub(crate) fn tags(&self, class: &EC2NodeClass) -> Tags {
        let mut tags = class.spec.as_ref().and_then(|spec| spec.tags.clone()).unwrap_or_default();
        tags.insert(format!("kubernetes.io/cluster/{}", self.cluster_name), "owned".to_owned());
        tags.insert("eks:eks-cluster-name".to_owned(), self.cluster_name.clone());
        tags.insert(aws::EC2NODECLASS.to_owned(), class.metadata.name.clone().unwrap_or_default());
        tags.insert(labels::REGION.to_owned(), self.region.clone());
        tags
    }

    /// Returns a profile, or `None` if it does not exist. An answer is kept for 15 minutes.
    pub(crate) async fn get(&self, name: &str) -> Result<Option<InstanceProfile>, InstanceProfileError> {
        if let Some(profile) = self.profiles.get(name) {
            return Ok(Some(profile));
        }
        let profile = self.read(name).await?;
        if let Some(profile) = &profile {
            self.profiles.insert(name.to_owned(), profile.clone());
        }
        Ok(profile)
    }

    async fn read(&self, name: &str) -> Result<Option<InstanceProfile>, InstanceProfileError> {
        match self.iam.get_instance_profile(name).await {
            Ok(profile) => Ok(Some(profile)),
            Err(cause) if cause.has_code(NOT_FOUND) => Ok(None),
            Err(cause) => Err(failed(format!("getting instance profile {name}"), cause)),
        }
    }

    /// Creates the profile of a class unless it exists, and gives it the role. A new profile is
    /// protected. A role that IAM does not know is not tried again for a minute.
    pub(crate) async fn create(
        &self,
        name: &str,
        role: &str,
        class: &EC2NodeClass,
    ) -> Result<(), InstanceProfileError> {
        let role = role_name(role);
        if let Some(cause) = self.missing_roles.get(role) {
            return Err(InstanceProfileError::RoleNotFound(cause));
        }
        let (mut profile, mut is_changed) = match self.get(name).await? {
            Some(profile) => (profile, false),
            None => {
                let request = CreateInstanceProfile {
                    name: name.to_owned(),
                    path: Some(self.class_path(class)),
                    tags: self.tags(class),
                };
                // The garbage collection may list the profile before its class names it.
                self.protect(name);
                let created = self.iam.create_instance_profile(request).await;
                (created.map_err(|cause| failed(format!("creating instance profile {name}"), cause))?, true)
            }
        };
        if profile.roles.iter().map(String::as_str).ne([role]) {
            for other in &profile.roles {
                let removed = self.iam.remove_role_from_instance_profile(name, other).await;
                removed.map_err(|cause| failed(format!("removing role from instance profile {name}"), cause))?;
            }
            if let Err(cause) = self.iam.add_role_to_instance_profile(name, role).await {
                if cause.has_code(NOT_FOUND) && cause.message.contains("role") {
                    self.missing_roles.insert(role.to_owned(), cause.clone());
                }
                return Err(failed(format!("adding role {role:?} to instance profile {name}"), cause));
            }
            profile.roles = vec![role.to_owned()];
            is_changed = true;
        }
        if is_changed {
            self.profiles.insert(name.to_owned(), profile);
        }
        Ok(())
    }

    /// Deletes a profile. A profile that does not exist counts as deleted.
    pub(crate) async fn delete(&self, name: &str) -> Result<(), InstanceProfileError> {
        if let Some(profile) = self.read(name).await? {
            for role in &profile.roles {
                let removed = self.iam.remove_role_from_instance_profile(name, role).await;
                removed.map_err(|cause| failed(format!("removing role from instance profile {name}"), cause))?;
            }
            match self.iam.delete_instance_profile(name).await {
                Ok(()) => {}
                Err(cause) if cause.has_code(NOT_FOUND) => {}
                Err(cause) => return Err(failed(format!("deleting instance profile {name}"), cause)),
            }
        }
        self.profiles.remove(name);
        self.protected.remove(name);
        Ok(())
    }

    /// Returns the names of all profiles under a path, sorted.
    pub(crate) async fn list(&self, path: &str) -> Result<BTreeSet<String>, InstanceProfileError> {
        let profiles = all_pages(Some(PAGE_SIZE), |page| self.iam.list_instance_profiles(path, page)).await;
        let profiles = profiles.map_err(|cause| failed("listing instance profiles".to_owned(), cause))?;
        Ok(profiles.into_iter().map(|profile| profile.name).collect())
    }

    /// Protects a profile from garbage collection for an hour.
    pub(crate) fn protect(&self, name: &str) {
        if !name.is_empty() {
            self.protected.insert(name.to_owned(), ());
        }
    }

    /// Returns true if the garbage collection must not delete the profile.
    pub(crate) fn is_protected(&self, name: &str) -> bool {
        self.protected.contains(name)
    }
}

/// Returns the name of a role that may be written with a path.
pub(crate) fn role_name(role: &str) -> &str {
    role.rsplit_once('/').map_or(role, |(_, name)| name)
}

fn failed(attempt: String, cause: AwsError) -> InstanceProfileError {
    InstanceProfileError::Call { attempt, cause }
}

/// Returns the FNV-1 hash with 64 bits: multiplication before the exclusive or.
pub(crate) fn fnv1(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| hash.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte))
}

#[cfg(test)]
mod tests;
