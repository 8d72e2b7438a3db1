//! The calls of AWS Identity and Access Management.

use aws_sdk_iam::Client;
use aws_sdk_iam::types;
use kerf_aws::ports::{AwsFuture, CreateInstanceProfile, Iam, InstanceProfile, Page, PageRequest};

use crate::calls::Calls;
use crate::convert;

/// AWS Identity and Access Management through the SDK.
pub(crate) struct SdkIam {
    client: Client,
    calls: Calls,
}

impl SdkIam {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, calls: Calls::new("IAM") }
    }
}

impl Iam for SdkIam {
    fn get_instance_profile<'a>(&'a self, name: &'a str) -> AwsFuture<'a, InstanceProfile> {
        Box::pin(async move {
            let request = self.client.get_instance_profile().instance_profile_name(name).customize();
            let answer = self.calls.run("GetInstanceProfile", |recorder| request.interceptor(recorder).send()).await?;
            Ok(answer.instance_profile.map(instance_profile).unwrap_or_default())
        })
    }

    fn create_instance_profile(&self, request: CreateInstanceProfile) -> AwsFuture<'_, InstanceProfile> {
        Box::pin(async move {
            // A tag with key and value is complete, so that none is left out.
            let tags = request.tags.into_iter();
            let tags = tags.filter_map(|(key, value)| types::Tag::builder().key(key).value(value).build().ok());
            let tags = convert::sent_list(tags.collect(), |tag| tag);
            let request = self
                .client
                .create_instance_profile()
                .instance_profile_name(request.name)
                .set_path(request.path)
                .set_tags(tags)
                .customize();
            let send = |recorder| request.interceptor(recorder).send();
            let answer = self.calls.run("CreateInstanceProfile", send).await?;
            Ok(answer.instance_profile.map(instance_profile).unwrap_or_default())
        })
    }

    fn add_role_to_instance_profile<'a>(&'a self, profile: &'a str, role: &'a str) -> AwsFuture<'a, ()> {
        Box::pin(async move {
            let request = self.client.add_role_to_instance_profile().instance_profile_name(profile).role_name(role);
            let send = |recorder| request.customize().interceptor(recorder).send();
            self.calls.run("AddRoleToInstanceProfile", send).await.map(drop)
        })
    }

    fn remove_role_from_instance_profile<'a>(&'a self, profile: &'a str, role: &'a str) -> AwsFuture<'a, ()> {
        Box::pin(async move {
            let request =
                self.client.remove_role_from_instance_profile().instance_profile_name(profile).role_name(role);
            let send = |recorder| request.customize().interceptor(recorder).send();
            self.calls.run("RemoveRoleFromInstanceProfile", send).await.map(drop)
        })
    }

    fn delete_instance_profile<'a>(&'a self, name: &'a str) -> AwsFuture<'a, ()> {
        Box::pin(async move {
            let request = self.client.delete_instance_profile().instance_profile_name(name).customize();
            let send = |recorder| request.interceptor(recorder).send();
            self.calls.run("DeleteInstanceProfile", send).await.map(drop)
        })
    }

    fn list_instance_profiles<'a>(
        &'a self,
        path_prefix: &'a str,
        page: PageRequest,
    ) -> AwsFuture<'a, Page<InstanceProfile>> {
        Box::pin(async move {
            let request = self
                .client
                .list_instance_profiles()
                .set_path_prefix(convert::sent_text(path_prefix.to_owned()))
                .set_max_items(page.max_results)
                .set_marker(page.token)
                .customize();
            let send = |recorder| request.interceptor(recorder).send();
            let answer = self.calls.run("ListInstanceProfiles", send).await?;
            let marker = answer.marker.filter(|_| answer.is_truncated);
            Ok(convert::page(Some(answer.instance_profiles), marker, instance_profile))
        })
    }
}

fn instance_profile(profile: types::InstanceProfile) -> InstanceProfile {
    InstanceProfile {
        name: profile.instance_profile_name,
        path: profile.path,
        roles: profile.roles.into_iter().map(|role| role.role_name).collect(),
        tags: profile.tags.unwrap_or_default().into_iter().map(|tag| (tag.key, tag.value)).collect(),
    }
}
