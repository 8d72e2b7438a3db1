//! Launch templates. All have one version.

use super::super::Content;
use super::super::names::{iam_arn, time_text};
use super::super::query::{Parameters, QueryReader};
use super::super::xml::Xml;
use super::template_data::read_template_data;
use super::{read, read_filters, read_page, read_tag_specifications, write_tags};
use crate::memory::{AwsFailure, MemoryAws};
use crate::ports::ec2::{
    CreateLaunchTemplate, DescribeLaunchTemplates, LaunchTemplate, LaunchTemplateData, LaunchTemplateRef,
};
use crate::ports::{Ec2 as _, Tags};

pub(super) async fn create(aws: &MemoryAws, parameters: Parameters) -> Content {
    let request = read(parameters, |query| CreateLaunchTemplate {
        name: query.required_text("LaunchTemplateName"),
        data: query.object("LaunchTemplateData", read_template_data).unwrap_or_else(|| {
            query.add_problem(AwsFailure::missing("LaunchTemplateData"));
            LaunchTemplateData::default()
        }),
        tags: read_template_tags(query),
        client_token: query.text("ClientToken").unwrap_or_default(),
    })?;
    let template = aws.create_launch_template(request).await?;
    Ok(Xml::fragment(|xml| xml.element("launchTemplate", |xml| write_template(xml, aws, &template))))
}

/// Reads the tags of the template itself. The request can tag nothing else.
fn read_template_tags(query: &mut QueryReader<'_>) -> Tags {
    let mut tags = Tags::new();
    for specification in read_tag_specifications(query) {
        if specification.resource_type == "launch-template" {
            tags.extend(specification.tags);
        } else {
            let message =
                format!("'{}' is not a valid taggable resource type for this operation.", specification.resource_type);
            query.add_problem(AwsFailure::invalid_value(message));
        }
    }
    tags
}

pub(super) async fn describe(aws: &MemoryAws, parameters: Parameters) -> Content {
    let (request, page) = read(parameters, |query| {
        let names = query.texts("LaunchTemplateName");
        (DescribeLaunchTemplates { names, filters: read_filters(query) }, read_page(query))
    })?;
    let page = aws.describe_launch_templates(request, page).await?;
    Ok(Xml::fragment(|xml| {
        xml.items("launchTemplates", &page.items, |xml, template| write_template(xml, aws, template));
        xml.text_if_some("nextToken", page.next_token);
    }))
}

pub(super) async fn delete(aws: &MemoryAws, parameters: Parameters) -> Content {
    let template =
        read(parameters, |query| match (query.text("LaunchTemplateId"), query.text("LaunchTemplateName")) {
            (Some(id), None) => LaunchTemplateRef::Id(id),
            (None, Some(name)) => LaunchTemplateRef::Name(name),
            (Some(_), Some(_)) => {
                let message = "Specify LaunchTemplateId or LaunchTemplateName, not both.";
                query.add_problem(AwsFailure::bad_request("InvalidParameterCombination", message));
                LaunchTemplateRef::Id(String::new())
            }
            (None, None) => {
                query.add_problem(AwsFailure::missing("LaunchTemplateId"));
                LaunchTemplateRef::Id(String::new())
            }
        })?;
    aws.delete_launch_template(template.clone()).await?;
    Ok(Xml::fragment(|xml| {
        xml.element("launchTemplate", |xml| match &template {
            LaunchTemplateRef::Id(id) => xml.text("launchTemplateId", id),
            LaunchTemplateRef::Name(name) => xml.text("launchTemplateName", name),
        });
    }))
}

fn write_template(xml: &mut Xml, aws: &MemoryAws, template: &LaunchTemplate) {
    let created_at = aws.template_created_at(&template.name);
    let creator = aws.change_account(|account| iam_arn(account, "user", "/kerf"));
    xml.text("launchTemplateId", &template.id);
    xml.text("launchTemplateName", &template.name);
    xml.text_if_some("createTime", created_at.map(time_text));
    xml.text("createdBy", creator);
    xml.text("defaultVersionNumber", 1);
    xml.text("latestVersionNumber", 1);
    write_tags(xml, &template.tags);
}
