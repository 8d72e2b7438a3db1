//! Status checks and scheduled events of instances.

use aws_sdk_ec2::types;
use kerf_aws::ports::ec2::{InstanceStatus, ScheduledEvent, StatusCheck};

use crate::convert::{list, name, timestamp};

pub(super) fn instance_status(status: types::InstanceStatus) -> InstanceStatus {
    let checks = |summary: Option<types::InstanceStatusSummary>| {
        list(summary.and_then(|summary| summary.details), |detail| StatusCheck {
            name: name(detail.name),
            status: name(detail.status),
            impaired_since: detail.impaired_since.and_then(timestamp),
        })
    };
    let ebs_details = status.attached_ebs_status.and_then(|summary| summary.details);
    InstanceStatus {
        instance_id: status.instance_id.unwrap_or_default(),
        instance_checks: checks(status.instance_status),
        system_checks: checks(status.system_status),
        ebs_checks: list(ebs_details, |detail| StatusCheck {
            name: name(detail.name),
            status: name(detail.status),
            impaired_since: detail.impaired_since.and_then(timestamp),
        }),
        events: list(status.events, |event| ScheduledEvent {
            code: name(event.code),
            description: event.description.unwrap_or_default(),
        }),
    }
}
