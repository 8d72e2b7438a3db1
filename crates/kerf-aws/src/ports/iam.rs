//! AWS Identity and Access Management: instance profiles.

use super::{AwsFuture, Page, PageRequest, Tags};

/// The calls of AWS Identity and Access Management.
pub trait Iam: Send + Sync {
    /// `GetInstanceProfile`.
    fn get_instance_profile<'a>(&'a self, name: &'a str) -> AwsFuture<'a, InstanceProfile>;

    /// `CreateInstanceProfile`.
    fn create_instance_profile(&self, request: CreateInstanceProfile) -> AwsFuture<'_, InstanceProfile>;

    /// `AddRoleToInstanceProfile`. `role` is a name without a path.
    fn add_role_to_instance_profile<'a>(&'a self, profile: &'a str, role: &'a str) -> AwsFuture<'a, ()>;

    /// `RemoveRoleFromInstanceProfile`.
    fn remove_role_from_instance_profile<'a>(&'a self, profile: &'a str, role: &'a str) -> AwsFuture<'a, ()>;

    /// `DeleteInstanceProfile`. The profile must have no role.
    fn delete_instance_profile<'a>(&'a self, name: &'a str) -> AwsFuture<'a, ()>;

    /// `ListInstanceProfiles`: the profiles whose path begins with the prefix.
    fn list_instance_profiles<'a>(
        &'a self,
        path_prefix: &'a str,
        page: PageRequest,
    ) -> AwsFuture<'a, Page<InstanceProfile>>;
}

/// An instance profile, which gives a role to instances.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstanceProfile {
    /// Name of the profile.
    pub name: String,
    /// Path, for example `/karpenter/us-west-2/cluster/uid/`.
    pub path: String,
    /// Names of its roles; IAM allows at most one.
    pub roles: Vec<String>,
    /// Tags. Empty in the answer of `ListInstanceProfiles`.
    pub tags: Tags,
}

/// The request of `CreateInstanceProfile`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CreateInstanceProfile {
    /// Name of the profile.
    pub name: String,
    /// Path; `None` omits it, and the profile gets the path `/`.
    pub path: Option<String>,
    /// Tags of the profile.
    pub tags: Tags,
}
