//! IAM: instance profiles, in the query protocol.

use super::Content;
use super::names::{iam_arn, iam_id, time_text};
use super::query::{Parameters, QueryReader};
use super::xml::Xml;
use crate::memory::{AwsFailure, IAM_OPERATIONS, MemoryAws};
use crate::ports::{CreateInstanceProfile, Iam as _, InstanceProfile, PageRequest, Tags};

pub(super) const VERSION: &str = "2010-05-08";
pub(super) const NAMESPACE: &str = "https://iam.amazonaws.com/doc/2010-05-08/";

pub(super) fn operation(action: &str) -> Option<&'static str> {
    IAM_OPERATIONS.into_iter().find(|name| *name == action)
}

pub(super) async fn call(aws: &MemoryAws, operation: &str, parameters: Parameters) -> Content {
    let profile_and_role =
        |query: &mut QueryReader<'_>| (query.required_text("InstanceProfileName"), query.required_text("RoleName"));
    match operation {
        "AddRoleToInstanceProfile" => {
            let (profile, role) = parameters.read(profile_and_role)?;
            aws.add_role_to_instance_profile(&profile, &role).await?;
            Ok(String::new())
        }
        "RemoveRoleFromInstanceProfile" => {
            let (profile, role) = parameters.read(profile_and_role)?;
            aws.remove_role_from_instance_profile(&profile, &role).await?;
            Ok(String::new())
        }
        "CreateInstanceProfile" => {
            let request = parameters.read(|query| CreateInstanceProfile {
                name: query.required_text("InstanceProfileName"),
                path: query.text("Path"),
                tags: read_tags(query),
            })?;
            let profile = aws.create_instance_profile(request).await?;
            Ok(Xml::fragment(|xml| write_profile(xml, "InstanceProfile", aws, &profile)))
        }
        "DeleteInstanceProfile" => {
            let name = parameters.read(|query| query.required_text("InstanceProfileName"))?;
            aws.delete_instance_profile(&name).await?;
            Ok(String::new())
        }
        "GetInstanceProfile" => {
            let name = parameters.read(|query| query.required_text("InstanceProfileName"))?;
            let profile = aws.get_instance_profile(&name).await?;
            Ok(Xml::fragment(|xml| write_profile(xml, "InstanceProfile", aws, &profile)))
        }
        "ListInstanceProfiles" => {
            let (prefix, page) = parameters.read(|query| {
                let page = PageRequest { max_results: query.number("MaxItems"), token: query.text("Marker") };
                (query.text("PathPrefix").unwrap_or_else(|| "/".to_owned()), page)
            })?;
            let page = aws.list_instance_profiles(&prefix, page).await?;
            Ok(Xml::fragment(|xml| {
                xml.element("InstanceProfiles", |xml| {
                    for profile in &page.items {
                        write_profile(xml, "member", aws, profile);
                    }
                });
                xml.text("IsTruncated", page.next_token.is_some());
                xml.text_if_some("Marker", page.next_token);
            }))
        }
        name => Err(AwsFailure::bad_request("InvalidAction", format!("Could not find operation {name}.")).into()),
    }
}

fn read_tags(query: &mut QueryReader<'_>) -> Tags {
    let read_tag = |tag: &mut QueryReader<'_>| (tag.required_text("Key"), tag.text("Value").unwrap_or_default());
    query.members("Tags", read_tag).into_iter().collect()
}

fn write_profile(xml: &mut Xml, element: &str, aws: &MemoryAws, profile: &InstanceProfile) {
    let created_at = aws.profile_created_at(&profile.name).unwrap_or_else(|| aws.clock().now());
    aws.change_account(|account| {
        xml.element(element, |xml| {
            xml.text("Path", &profile.path);
            xml.text("InstanceProfileName", &profile.name);
            xml.text("InstanceProfileId", iam_id("AIPA", &profile.name));
            xml.text("Arn", iam_arn(account, "instance-profile", &format!("{}{}", profile.path, profile.name)));
            xml.text("CreateDate", time_text(created_at));
            xml.element("Roles", |xml| {
                for role in &profile.roles {
                    xml.element("member", |xml| {
                        xml.text("Path", "/");
                        xml.text("RoleName", role);
                        xml.text("RoleId", iam_id("AROA", role));
                        xml.text("Arn", iam_arn(account, "role", &format!("/{role}")));
                        // Roles exist before any call, so the account does not know their times.
                        xml.text("CreateDate", time_text(created_at));
                    });
                }
            });
            if !profile.tags.is_empty() {
                xml.element("Tags", |xml| {
                    for (key, value) in &profile.tags {
                        xml.element("member", |xml| {
                            xml.text("Key", key);
                            xml.text("Value", value);
                        });
                    }
                });
            }
        });
    });
}
