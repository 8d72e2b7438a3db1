//! Instances: what is described, terminated and tagged.

use jiff::Timestamp;

use super::AwsFailure;
use super::filters::{check_filters, matches_filters};
use super::paging::PageLimits;
use super::records::LaunchedInstance;
use super::state::{AwsState, Transition};
use super::validation::{TAGS_MAX, check_tags, too_many_tags};
use crate::ports::ec2::{DescribeInstances, Ec2Instance, InstanceStateChange, InstanceStateName};
use crate::ports::{Page, PageRequest, Tags};

const LIMITS: PageLimits = PageLimits { min: 5, max: 1000, default: None };

/// State reason of an instance that a call terminated.
const TERMINATED_BY_CALL: &str = "Client.UserInitiatedShutdown";

impl AwsState {
    pub(super) fn describe_instances(
        &self,
        request: &DescribeInstances,
        page: &PageRequest,
        now: Timestamp,
    ) -> Result<Page<Ec2Instance>, AwsFailure> {
        let names = [
            "instance-id",
            "instance-state-name",
            "instance-type",
            "instance-lifecycle",
            "availability-zone",
            "image-id",
            "private-dns-name",
            "subnet-id",
            "vpc-id",
        ];
        check_filters(&request.filters, &names, true)?;
        if !request.ids.is_empty() && page.max_results.is_some() {
            return Err(AwsFailure::bad_request(
                "InvalidParameterCombination",
                "The parameter instancesSet cannot be used with the parameter maxResults",
            ));
        }
        let is_visible = |launched: &LaunchedInstance| launched.visible_from <= now;
        self.check_instance_ids(&request.ids, is_visible)?;
        let matching = self.instances.values().filter(|launched| {
            let instance = &launched.instance;
            is_visible(launched)
                && (request.ids.is_empty() || request.ids.contains(&instance.id))
                && matches_filters(&request.filters, Some(&instance.tags), |name| match name {
                    "instance-id" => vec![&instance.id],
                    "instance-state-name" => vec![instance.state.name()],
                    "instance-type" => vec![&instance.instance_type],
                    "instance-lifecycle" => instance.lifecycle.as_deref().into_iter().collect(),
                    "availability-zone" => vec![&instance.zone],
                    "image-id" => vec![&instance.image_id],
                    "private-dns-name" => vec![&instance.private_dns_name],
                    "subnet-id" => vec![&instance.subnet_id],
                    _ => vec![&launched.vpc_id],
                })
        });
        self.page(matching, |launched| launched.instance.id.clone(), |it| it.instance.clone(), page, LIMITS)
    }

    pub(super) fn terminate_instances(
        &mut self,
        ids: &[String],
        now: Timestamp,
    ) -> Result<Vec<InstanceStateChange>, AwsFailure> {
        if ids.is_empty() {
            return Err(AwsFailure::missing("InstanceId"));
        }
        self.check_instance_ids(ids, |_| true)?;
        let mut changes: Vec<InstanceStateChange> = Vec::new();
        for id in ids {
            if changes.iter().any(|change| change.id == *id) {
                continue;
            }
            let state_of = |state: &Self| state.instances.get(id).map(|launched| launched.instance.state);
            let previous = state_of(self).unwrap_or_default();
            self.terminate(id, TERMINATED_BY_CALL, now);
            changes.push(InstanceStateChange { id: id.clone(), previous, current: state_of(self).unwrap_or_default() });
        }
        Ok(changes)
    }

    /// Begins the termination of an instance. Returns `None` if it does not exist, is terminated or
    /// is already shutting down.
    pub(super) fn terminate(&mut self, id: &str, reason: &str, now: Timestamp) -> Option<()> {
        let launched = self.instances.get_mut(id)?;
        match launched.instance.state {
            InstanceStateName::ShuttingDown | InstanceStateName::Terminated => return None,
            InstanceStateName::Pending
            | InstanceStateName::Running
            | InstanceStateName::Stopping
            | InstanceStateName::Stopped => {}
        }
        launched.instance.state = InstanceStateName::ShuttingDown;
        launched.instance.state_reason = Some(reason.to_owned());
        self.instance_changes += 1;
        self.publish_state(id, InstanceStateName::ShuttingDown, now);
        let terminated_at = now.saturating_add(self.settings.shutting_down_for).unwrap_or(Timestamp::MAX);
        self.schedule(terminated_at, id, Transition::Terminate);
        Some(())
    }

    pub(super) fn create_tags(&mut self, ids: &[String], tags: &Tags) -> Result<(), AwsFailure> {
        if ids.is_empty() {
            return Err(AwsFailure::missing("ResourceId"));
        }
        if tags.is_empty() {
            return Err(AwsFailure::missing("Tag"));
        }
        check_tags(tags)?;
        let with_tags = |own: &Tags| {
            let mut all = own.clone();
            all.extend(tags.clone());
            let count = all.keys().filter(|key| !key.starts_with("aws:")).count();
            if count > TAGS_MAX { Err(too_many_tags()) } else { Ok(all) }
        };
        // All resources are checked before the first is changed: one missing ID fails the call.
        let mut changed = Vec::new();
        for id in ids {
            let own = self.tags_of(id).ok_or_else(|| not_found(id))?;
            changed.push((id, with_tags(own)?));
        }
        for (id, all) in changed {
            if let Some(own) = self.tags_of(id) {
                *own = all;
            }
        }
        self.instance_changes += 1;
        Ok(())
    }

    pub(super) fn tags_of(&mut self, id: &str) -> Option<&mut Tags> {
        if id.starts_with("i-") {
            return self.instances.get_mut(id).map(|launched| &mut launched.instance.tags);
        }
        if id.starts_with("lt-") {
            let mut templates = self.templates.values_mut().map(|stored| &mut stored.template);
            return templates.find(|template| template.id == id).map(|template| &mut template.tags);
        }
        if id.starts_with("subnet-") {
            return self.account.subnets.get_mut(id).map(|subnet| &mut subnet.tags);
        }
        if id.starts_with("sg-") {
            return self.account.security_groups.get_mut(id).map(|group| &mut group.tags);
        }
        self.account.images.get_mut(id).map(|image| &mut image.tags)
    }

    /// Fails if an ID is malformed or names no instance. EC2 then ignores the other IDs too.
    fn check_instance_ids(
        &self,
        ids: &[String],
        is_known: impl Fn(&LaunchedInstance) -> bool,
    ) -> Result<(), AwsFailure> {
        if let Some(id) = ids.iter().find(|id| !is_instance_id(id)) {
            let message = format!("Invalid id: \"{id}\" (expecting \"i-...\")");
            return Err(AwsFailure::bad_request("InvalidInstanceID.Malformed", message));
        }
        let is_missing = |id: &&String| !self.instances.get(*id).is_some_and(&is_known);
        let missing: Vec<&str> = ids.iter().filter(is_missing).map(String::as_str).collect();
        match missing.as_slice() {
            [] => Ok(()),
            [id] => Err(not_found(id)),
            ids => {
                let message = format!("The instance IDs '{}' do not exist", ids.join(", "));
                Err(AwsFailure::bad_request("InvalidInstanceID.NotFound", message))
            }
        }
    }
}

fn is_instance_id(id: &str) -> bool {
    id.strip_prefix("i-")
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Returns the error for the ID of a resource that does not exist.
fn not_found(id: &str) -> AwsFailure {
    let (code, kind) = match id.split('-').next().unwrap_or_default() {
        "i" => ("InvalidInstanceID.NotFound", "instance"),
        "lt" => ("InvalidLaunchTemplateId.NotFound", "launch template"),
        "subnet" => ("InvalidSubnetID.NotFound", "subnet"),
        "sg" => ("InvalidGroup.NotFound", "security group"),
        "ami" => ("InvalidAMIID.NotFound", "image"),
        _ => ("InvalidID", "resource"),
    };
    AwsFailure::bad_request(code, format!("The {kind} ID '{id}' does not exist"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{SUBNETS, aws_with, fleet, on_demand, template};
    use super::super::{MemoryAws, MemorySettings};
    use super::*;
    use crate::ports::{Ec2 as _, Filter};

    /// Returns an EC2 with this many instances, and their IDs.
    async fn aws_with_instances(count: i32, settings: MemorySettings) -> (MemoryAws, Vec<String>) {
        let aws = aws_with(settings);
        aws.create_launch_template(template(&aws, "demo")).await.unwrap();
        let request = fleet(count, on_demand(), "demo", &[("m5.large", SUBNETS[0])]);
        let mut answer = aws.create_fleet(request).await.unwrap();
        (aws, answer.instances.remove(0).ids)
    }

    fn by_ids(ids: &[String]) -> DescribeInstances {
        DescribeInstances { ids: ids.to_vec(), ..DescribeInstances::default() }
    }

    async fn states(aws: &MemoryAws) -> Vec<&'static str> {
        let page = aws.describe_instances(DescribeInstances::default(), PageRequest::default()).await.unwrap();
        page.items.iter().map(|instance| instance.state.name()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn instances_live_through_ec2s_states_on_the_clock() {
        let settings = MemorySettings::default();
        let (aws, ids) = aws_with_instances(1, settings.clone()).await;
        assert_eq!(states(&aws).await, ["pending"]);
        let tick = Duration::from_millis(1);
        tokio::time::advance(settings.pending_for.checked_sub(tick).unwrap()).await;
        assert_eq!(states(&aws).await, ["pending"]);
        assert_eq!(aws.next_transition_at(), Some(aws.clock().now() + tick));
        tokio::time::advance(tick).await;
        assert_eq!(states(&aws).await, ["running"]);
        let changes = aws.terminate_instances(ids.clone()).await.unwrap();
        let change = |previous, current| vec![InstanceStateChange { id: ids[0].clone(), previous, current }];
        assert_eq!(changes, change(InstanceStateName::Running, InstanceStateName::ShuttingDown));
        assert_eq!(states(&aws).await, ["shutting-down"]);
        tokio::time::advance(settings.shutting_down_for).await;
        assert_eq!(states(&aws).await, ["terminated"]);
        let changes = aws.terminate_instances(ids.clone()).await.unwrap();
        assert_eq!(changes, change(InstanceStateName::Terminated, InstanceStateName::Terminated));
        tokio::time::advance(settings.terminated_shown_for).await;
        assert_eq!(states(&aws).await, [""; 0]);
        assert!(aws.describe_instances(by_ids(&ids), PageRequest::default()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn an_instance_terminated_while_pending_never_runs() {
        let settings = MemorySettings { shutting_down_for: Duration::from_mins(5), ..MemorySettings::default() };
        let (aws, ids) = aws_with_instances(1, settings.clone()).await;
        aws.terminate_instances(ids).await.unwrap();
        tokio::time::advance(settings.pending_for * 2).await;
        assert_eq!(states(&aws).await, ["shutting-down"]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_unknown_id_fails_the_whole_termination() {
        let (aws, mut ids) = aws_with_instances(2, MemorySettings::default()).await;
        ids.push("i-0123".to_owned());
        let error = aws.terminate_instances(ids.clone()).await.unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("api error InvalidInstanceID.NotFound: The instance ID 'i-0123' does not exist")
        );
        assert_eq!(states(&aws).await, ["pending", "pending"]);
        ids.push("i-4567".to_owned());
        let error = aws.describe_instances(by_ids(&ids), PageRequest::default()).await.unwrap_err();
        assert!(error.to_string().ends_with("The instance IDs 'i-0123, i-4567' do not exist"), "{error}");
        let error = aws.terminate_instances(vec!["node-1".to_owned()]).await.unwrap_err();
        assert!(error.has_code("InvalidInstanceID.Malformed"), "{error}");
        assert!(aws.terminate_instances(vec![]).await.unwrap_err().has_code("MissingParameter"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_instance_can_be_invisible_for_a_while() {
        let delay = Duration::from_secs(3);
        let settings = MemorySettings { instances_visible_after: delay, ..MemorySettings::default() };
        let (aws, ids) = aws_with_instances(1, settings).await;
        assert_eq!(states(&aws).await, [""; 0]);
        let error = aws.describe_instances(by_ids(&ids), PageRequest::default()).await.unwrap_err();
        assert!(error.has_code("InvalidInstanceID.NotFound"));
        assert_eq!(aws.instances().len(), 1);
        tokio::time::advance(delay).await;
        assert_eq!(states(&aws).await, ["pending"]);
    }

    // spec 05 #118
    #[tokio::test(start_paused = true)]
    async fn filters_and_pages_find_the_instances() {
        let (aws, ids) = aws_with_instances(12, MemorySettings::default()).await;
        let filters = vec![
            Filter::new("tag-key", "karpenter.sh/nodepool"),
            Filter::any_of("instance-state-name", ["pending", "running"]),
        ];
        let request = DescribeInstances { filters, ..DescribeInstances::default() };
        let found = crate::ports::all_pages(Some(5), |page| aws.describe_instances(request.clone(), page));
        let found = found.await.unwrap();
        assert_eq!(found.len(), 12);
        assert!(ids.iter().all(|id| found.iter().any(|instance| instance.id == *id)));
        assert_eq!(aws.calls().iter().filter(|call| call.operation == "DescribeInstances").count(), 3);
        let none = DescribeInstances { filters: vec![Filter::new("tag:x", "*")], ..DescribeInstances::default() };
        assert_eq!(aws.describe_instances(none, PageRequest::default()).await, Ok(Page::last(vec![])));
    }

    #[tokio::test(start_paused = true)]
    async fn page_limits_are_those_of_ec2() {
        let (aws, ids) = aws_with_instances(1, MemorySettings::default()).await;
        for (ids, size, code) in [
            (vec![], 4, "InvalidParameterValue"),
            (vec![], 1001, "InvalidParameterValue"),
            (ids, 5, "InvalidParameterCombination"),
        ] {
            let error = aws.describe_instances(by_ids(&ids), PageRequest::first(size)).await.unwrap_err();
            assert!(error.has_code(code), "{size}: {error}");
        }
        let token = PageRequest { max_results: Some(5), token: Some("7".into()) };
        let error = aws.describe_instances(DescribeInstances::default(), token).await.unwrap_err();
        assert!(error.has_code("InvalidNextToken"), "{error}");
    }

    // spec 06 #108
    #[tokio::test(start_paused = true)]
    async fn tags_are_added_to_all_resources_or_to_none() {
        let (aws, mut ids) = aws_with_instances(1, MemorySettings::default()).await;
        let tags = Tags::from([("Name".to_owned(), "node-1".to_owned())]);
        aws.create_tags(ids.clone(), tags.clone()).await.unwrap();
        assert_eq!(aws.instances()[0].instance.tags["Name"], "node-1");
        ids.push("i-0123".to_owned());
        let error = aws.create_tags(ids.clone(), Tags::from([("b".to_owned(), "2".to_owned())])).await.unwrap_err();
        assert!(error.has_code("InvalidInstanceID.NotFound"), "{error}");
        assert!(!aws.instances()[0].instance.tags.contains_key("b"));
        ids.pop();
        let own = Tags::from([("aws:x".to_owned(), "1".to_owned())]);
        assert!(aws.create_tags(ids.clone(), own).await.unwrap_err().has_code("InvalidParameterValue"));
        let many: Tags = (0..50).map(|number| (format!("tag-{number}"), String::new())).collect();
        assert!(aws.create_tags(ids, many).await.unwrap_err().has_code("TagLimitExceeded"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_instance_has_its_state_reason() {
        let (aws, ids) = aws_with_instances(1, MemorySettings::default()).await;
        let changes = aws.instance_changes();
        assert!(aws.fail_instance(&ids[0], "Client.InvalidKMSKey.InvalidState"));
        assert!(!aws.fail_instance(&ids[0], "twice"));
        assert!(changes.has_changed().unwrap());
        let instance = aws.instances().remove(0).instance;
        assert_eq!(instance.state, InstanceStateName::ShuttingDown);
        assert_eq!(instance.state_reason.as_deref(), Some("Client.InvalidKMSKey.InvalidState"));
    }
}
