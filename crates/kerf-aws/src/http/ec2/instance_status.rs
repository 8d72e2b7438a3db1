//! Status checks and scheduled events of instances.

use super::super::Content;
use super::super::names::time_text;
use super::super::query::Parameters;
use super::super::xml::Xml;
use super::{read, read_filters, read_page};
use crate::memory::MemoryAws;
use crate::ports::Ec2 as _;
use crate::ports::ec2::StatusCheck;

pub(super) async fn describe(aws: &MemoryAws, parameters: Parameters) -> Content {
    let (filters, page) = read(parameters, |query| (read_filters(query), read_page(query)))?;
    let page = aws.describe_instance_status(filters, page).await?;
    Ok(Xml::fragment(|xml| {
        xml.items("instanceStatusSet", &page.items, |xml, status| {
            xml.text("instanceId", &status.instance_id);
            if !status.events.is_empty() {
                xml.items("eventsSet", &status.events, |xml, event| {
                    xml.text("code", &event.code);
                    xml.text("description", &event.description);
                });
            }
            write_checks(xml, "systemStatus", &status.system_checks);
            write_checks(xml, "instanceStatus", &status.instance_checks);
            write_checks(xml, "attachedEbsStatus", &status.ebs_checks);
        });
        xml.text_if_some("nextToken", page.next_token);
    }))
}

fn write_checks(xml: &mut Xml, name: &str, checks: &[StatusCheck]) {
    let is_impaired = checks.iter().any(|check| check.status == "failed");
    xml.element(name, |xml| {
        xml.text("status", if is_impaired { "impaired" } else { "ok" });
        if !checks.is_empty() {
            xml.items("details", checks, |xml, check| {
                xml.text_if_some("impairedSince", check.impaired_since.map(time_text));
                xml.text("name", &check.name);
                xml.text("status", &check.status);
            });
        }
    });
}
