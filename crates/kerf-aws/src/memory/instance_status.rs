//! Status checks and scheduled events of instances.

use super::filters::{check_filters, matches_filters};
use super::paging::PageLimits;
use super::state::AwsState;
use super::{AwsFailure, MemoryAws};
use crate::ports::ec2::{InstanceStateName, InstanceStatus, StatusCheck};
use crate::ports::{Filter, Page, PageRequest};

const LIMITS: PageLimits = PageLimits { min: 5, max: 1000, default: None };

/// Filters of `DescribeInstanceStatus` that are supported.
const FILTERS: [&str; 4] = ["event.code", "instance-status.status", "system-status.status", "availability-zone"];

impl MemoryAws {
    /// Sets the results of the status checks and the scheduled events of an instance. The change
    /// takes effect for the next call; an instance without a status is healthy.
    pub fn set_instance_status(&self, status: InstanceStatus) {
        self.state().statuses.insert(status.instance_id.clone(), status);
    }
}

impl AwsState {
    /// Only running instances have a status.
    pub(super) fn describe_instance_status(
        &self,
        filters: &[Filter],
        page: &PageRequest,
    ) -> Result<Page<InstanceStatus>, AwsFailure> {
        check_filters(filters, &FILTERS, false)?;
        let mut statuses = Vec::new();
        for (id, launched) in &self.instances {
            if launched.instance.state != InstanceStateName::Running {
                continue;
            }
            let status = self.statuses.get(id).cloned();
            let status =
                status.unwrap_or_else(|| InstanceStatus { instance_id: id.clone(), ..InstanceStatus::default() });
            let matches = matches_filters(filters, None, |name| match name {
                "event.code" => status.events.iter().map(|event| event.code.as_str()).collect(),
                "instance-status.status" => vec![summary(&status.instance_checks)],
                "system-status.status" => vec![summary(&status.system_checks)],
                _ => vec![launched.instance.zone.as_str()],
            });
            if matches {
                statuses.push(status);
            }
        }
        self.page(statuses.iter(), |status| status.instance_id.clone(), Clone::clone, page, LIMITS)
    }
}

/// Returns the summary that EC2 computes from the details of a check.
fn summary(checks: &[StatusCheck]) -> &'static str {
    if checks.iter().any(|check| check.status == "failed") { "impaired" } else { "ok" }
}
