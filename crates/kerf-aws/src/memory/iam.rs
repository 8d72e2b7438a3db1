//! Instance profiles of IAM.

use jiff::Timestamp;

use super::calls::AwsOperation;
use super::records::StoredProfile;
use super::state::AwsState;
use super::{AwsFailure, MemoryAws};
use crate::ports::{AwsFuture, CreateInstanceProfile, Iam, InstanceProfile, Page, PageRequest, Tags};

/// IAM's quota of instance profiles per account.
const PROFILES_MAX: usize = 1_000;

/// Page size of `ListInstanceProfiles` without `MaxItems`.
const PAGE_DEFAULT: usize = 100;

const fn iam(name: &'static str) -> AwsOperation {
    AwsOperation { service: "IAM", name }
}

impl Iam for MemoryAws {
    fn get_instance_profile<'a>(&'a self, name: &'a str) -> AwsFuture<'a, InstanceProfile> {
        Box::pin(self.call(iam("GetInstanceProfile"), name.to_owned(), move |state, _| {
            state.profile(name).map(|stored| stored.profile.clone())
        }))
    }

    fn create_instance_profile(&self, request: CreateInstanceProfile) -> AwsFuture<'_, InstanceProfile> {
        let text = format!("{} path {}", request.name, request.path.as_deref().unwrap_or("/"));
        Box::pin(self.call(iam("CreateInstanceProfile"), text, move |state, now| state.create_profile(request, now)))
    }

    fn add_role_to_instance_profile<'a>(&'a self, profile: &'a str, role: &'a str) -> AwsFuture<'a, ()> {
        let text = format!("{profile} role {role}");
        Box::pin(self.call(iam("AddRoleToInstanceProfile"), text, move |state, _| {
            let role_exists = state.account.roles.contains(role);
            let stored = state.profile(profile)?;
            if !role_exists {
                return Err(role_not_found(role));
            }
            if !stored.profile.roles.is_empty() {
                let message = "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1";
                return Err(AwsFailure::new(409, "LimitExceeded", message));
            }
            stored.profile.roles.push(role.to_owned());
            Ok(())
        }))
    }

    fn remove_role_from_instance_profile<'a>(&'a self, profile: &'a str, role: &'a str) -> AwsFuture<'a, ()> {
        let text = format!("{profile} role {role}");
        Box::pin(self.call(iam("RemoveRoleFromInstanceProfile"), text, move |state, _| {
            let roles = &mut state.profile(profile)?.profile.roles;
            let position = roles.iter().position(|own| own == role).ok_or_else(|| role_not_found(role))?;
            roles.remove(position);
            Ok(())
        }))
    }

    fn delete_instance_profile<'a>(&'a self, name: &'a str) -> AwsFuture<'a, ()> {
        Box::pin(self.call(iam("DeleteInstanceProfile"), name.to_owned(), move |state, _| {
            if !state.profile(name)?.profile.roles.is_empty() {
                let message = "Cannot delete entity, must remove roles from instance profile first.";
                return Err(AwsFailure::new(409, "DeleteConflict", message));
            }
            state.profiles.remove(name);
            Ok(())
        }))
    }

    fn list_instance_profiles<'a>(
        &'a self,
        path_prefix: &'a str,
        page: PageRequest,
    ) -> AwsFuture<'a, Page<InstanceProfile>> {
        let text = format!("path {path_prefix}");
        Box::pin(self.call(iam("ListInstanceProfiles"), text, move |state, _| {
            if page.max_results.is_some_and(|size| !(1..=1000).contains(&size)) {
                return Err(validation_error("maxItems", "must be between 1 and 1000"));
            }
            let size = page.max_results.and_then(|size| usize::try_from(size).ok()).unwrap_or(PAGE_DEFAULT);
            let size = state.settings.page_size_max.map_or(size, |max| size.min(max.max(1)));
            let after = page.token.unwrap_or_default();
            let mut rest = state.profiles.values().map(|stored| &stored.profile);
            let items: Vec<InstanceProfile> = rest
                .by_ref()
                .filter(|profile| profile.path.starts_with(path_prefix) && profile.name > after)
                .take(size)
                .map(|profile| InstanceProfile { tags: Tags::new(), ..profile.clone() })
                .collect();
            let has_more = rest.any(|profile| profile.path.starts_with(path_prefix));
            let next_token = items.last().filter(|_| has_more).map(|last| last.name.clone());
            Ok(Page { items, next_token })
        }))
    }
}

impl MemoryAws {
    /// Returns the role of an instance profile. Returns `None` if the profile does not exist or has
    /// no role.
    pub fn role_of_profile(&self, name: &str) -> Option<String> {
        self.state().profiles.get(name)?.profile.roles.first().cloned()
    }

    /// Deletes the instance profiles for which `is_deleted` returns true, with their roles, as a
    /// person does. Returns their names.
    pub fn remove_instance_profiles(&self, is_deleted: impl Fn(&str) -> bool) -> Vec<String> {
        let mut state = self.state();
        let names: Vec<String> = state.profiles.keys().filter(|name| is_deleted(name)).cloned().collect();
        for name in &names {
            state.profiles.remove(name);
        }
        names
    }

    /// Returns the time at which an instance profile was created. Returns `None` if it does not
    /// exist.
    pub(crate) fn profile_created_at(&self, name: &str) -> Option<Timestamp> {
        self.state().profiles.get(name).map(|stored| stored.created_at)
    }
}

impl AwsState {
    fn profile(&mut self, name: &str) -> Result<&mut StoredProfile, AwsFailure> {
        self.profiles
            .get_mut(name)
            .ok_or_else(|| AwsFailure::new(404, "NoSuchEntity", format!("Instance Profile {name} cannot be found.")))
    }

    fn create_profile(
        &mut self,
        request: CreateInstanceProfile,
        now: Timestamp,
    ) -> Result<InstanceProfile, AwsFailure> {
        let is_name_char = |char: char| char.is_ascii_alphanumeric() || "_+=,.@-".contains(char);
        if !(1..=128).contains(&request.name.len()) || !request.name.chars().all(is_name_char) {
            return Err(validation_error(
                "instanceProfileName",
                "must match [\\w+=,.@-]+ and have 1 to 128 characters",
            ));
        }
        let path = request.path.unwrap_or_else(|| "/".to_owned());
        if !path.starts_with('/') || !path.ends_with('/') || path.len() > 512 {
            return Err(validation_error("path", "must begin and end with / and have at most 512 characters"));
        }
        if self.profiles.contains_key(&request.name) {
            let message = format!("Instance Profile {} already exists.", request.name);
            return Err(AwsFailure::new(409, "EntityAlreadyExists", message));
        }
        if self.profiles.len() >= PROFILES_MAX {
            let message = format!("Cannot exceed quota for InstanceProfilesPerAccount: {PROFILES_MAX}");
            return Err(AwsFailure::new(409, "LimitExceeded", message));
        }
        let profile = InstanceProfile { name: request.name, path, roles: Vec::new(), tags: request.tags };
        let visible_from = now.saturating_add(self.settings.profiles_visible_after).unwrap_or(Timestamp::MAX);
        self.profiles
            .insert(profile.name.clone(), StoredProfile { profile: profile.clone(), created_at: now, visible_from });
        Ok(profile)
    }
}

fn role_not_found(role: &str) -> AwsFailure {
    AwsFailure::new(404, "NoSuchEntity", format!("The role with name {role} cannot be found."))
}

fn validation_error(field: &str, constraint: &str) -> AwsFailure {
    AwsFailure::bad_request("ValidationError", format!("1 validation error detected: Value at '{field}' {constraint}"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::aws;
    use super::*;

    fn named(name: &str, path: &str) -> CreateInstanceProfile {
        let tags = Tags::from([("a".to_owned(), "1".to_owned())]);
        CreateInstanceProfile { name: name.to_owned(), path: Some(path.to_owned()), tags }
    }

    #[tokio::test(start_paused = true)]
    async fn a_profile_lives_through_its_life_cycle_with_iams_errors() {
        const ROLE: &str = "KarpenterNodeRole-demo";
        let aws = aws();
        let text = |error: crate::ports::AwsError| {
            format!("{} {}: {}", error.http_status.unwrap_or(0), error.code.unwrap_or_default(), error.message)
        };
        let missing = "404 NoSuchEntity: Instance Profile p cannot be found.";
        assert_eq!(text(aws.get_instance_profile("p").await.unwrap_err()), missing);
        aws.create_instance_profile(named("p", "/karpenter/")).await.unwrap();
        let error = aws.create_instance_profile(named("p", "/")).await.unwrap_err();
        assert_eq!(text(error), "409 EntityAlreadyExists: Instance Profile p already exists.");
        // spec 06 #34
        let error = aws.add_role_to_instance_profile("p", "absent").await.unwrap_err();
        assert_eq!(text(error), "404 NoSuchEntity: The role with name absent cannot be found.");
        aws.add_role_to_instance_profile("p", ROLE).await.unwrap();
        let error = aws.add_role_to_instance_profile("p", ROLE).await.unwrap_err();
        assert_eq!(text(error), "409 LimitExceeded: Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1");
        let profile = aws.get_instance_profile("p").await.unwrap();
        assert_eq!((profile.roles, profile.tags.len()), (vec![ROLE.to_owned()], 1));
        let error = aws.delete_instance_profile("p").await.unwrap_err();
        assert!(text(error).starts_with("409 DeleteConflict"));
        let error = aws.remove_role_from_instance_profile("p", "other").await.unwrap_err();
        assert!(text(error).starts_with("404 NoSuchEntity: The role"));
        aws.remove_role_from_instance_profile("p", ROLE).await.unwrap();
        aws.delete_instance_profile("p").await.unwrap();
        assert_eq!(text(aws.delete_instance_profile("p").await.unwrap_err()), missing);
    }

    // spec 06 #41
    #[tokio::test(start_paused = true)]
    async fn profiles_are_listed_by_path_in_pages_without_tags() {
        let aws = aws();
        for (name, path) in [("a", "/karpenter/demo/1/"), ("b", "/other/"), ("c", "/karpenter/demo/2/"), ("d", "/")] {
            aws.create_instance_profile(named(name, path)).await.unwrap();
        }
        let first = aws.list_instance_profiles("/karpenter/demo/", PageRequest::first(1)).await.unwrap();
        assert_eq!((first.items[0].name.as_str(), first.items[0].tags.len()), ("a", 0));
        let rest = PageRequest { max_results: Some(1), token: first.next_token };
        let second = aws.list_instance_profiles("/karpenter/demo/", rest).await.unwrap();
        assert_eq!((second.items[0].name.as_str(), second.next_token), ("c", None));
        let error = aws.list_instance_profiles("/", PageRequest::first(1001)).await.unwrap_err();
        assert!(error.has_code("ValidationError"));
    }

    #[tokio::test(start_paused = true)]
    async fn names_and_paths_are_checked() {
        let aws = aws();
        for request in [named("", "/"), named("a b", "/"), named("a", "karpenter/"), named("a", "/karpenter")] {
            let error = aws.create_instance_profile(request).await.unwrap_err();
            assert!(error.has_code("ValidationError"), "{error}");
        }
    }
}
