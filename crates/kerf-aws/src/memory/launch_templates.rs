//! Launch templates. EC2 checks little when a template is created: image, instance profile, groups
//! and subnets are checked at the launch.

use std::sync::Arc;

use base64::Engine as _;
use jiff::Timestamp;

use super::filters::{check_filters, matches_filters};
use super::paging::PageLimits;
use super::records::StoredTemplate;
use super::state::AwsState;
use super::validation::check_tags;
use super::{AwsFailure, MemoryAws};
use crate::ports::ec2::{
    CreateLaunchTemplate, DescribeLaunchTemplates, LaunchTemplate, LaunchTemplateRef, USER_DATA_MAX_BYTES,
};
use crate::ports::{Page, PageRequest};

const LIMITS: PageLimits = PageLimits { min: 1, max: 200, default: Some(200) };

/// EC2's quota of launch templates per region.
const TEMPLATES_MAX: usize = 5_000;

impl MemoryAws {
    /// Returns the time at which a launch template was created. Returns `None` if it does not
    /// exist.
    pub(crate) fn template_created_at(&self, name: &str) -> Option<Timestamp> {
        self.state().templates.get(name).map(|stored| stored.created_at)
    }

    /// Returns the contents of all launch templates.
    #[cfg(test)]
    pub(crate) fn template_contents(&self) -> Vec<Arc<crate::ports::ec2::LaunchTemplateData>> {
        self.state().templates.values().map(|stored| stored.data.clone()).collect()
    }
}

impl AwsState {
    pub(super) fn create_launch_template(
        &mut self,
        request: CreateLaunchTemplate,
        now: Timestamp,
    ) -> Result<LaunchTemplate, AwsFailure> {
        if let Some(answer) = self.template_tokens.earlier_answer(&request.client_token, &request)? {
            return Ok(answer);
        }
        check_template(&request)?;
        check_tags(&request.tags)?;
        for specification in &request.data.tags {
            check_tags(&specification.tags)?;
        }
        if self.templates.contains_key(&request.name) {
            return Err(AwsFailure::bad_request(
                "InvalidLaunchTemplateName.AlreadyExistsException",
                "Launch template name already in use.",
            ));
        }
        if self.templates.len() >= TEMPLATES_MAX {
            let message = format!("The maximum number of launch templates ({TEMPLATES_MAX}) has been reached.");
            return Err(AwsFailure::bad_request("LaunchTemplateLimitExceeded", message));
        }
        let template = LaunchTemplate { id: self.new_id("lt"), name: request.name.clone(), tags: request.tags.clone() };
        let stored =
            StoredTemplate { template: template.clone(), created_at: now, data: Arc::new(request.data.clone()) };
        self.templates.insert(request.name.clone(), stored);
        let token = request.client_token.clone();
        self.template_tokens.remember(&token, request, template.clone());
        Ok(template)
    }

    pub(super) fn describe_launch_templates(
        &self,
        request: &DescribeLaunchTemplates,
        page: &PageRequest,
    ) -> Result<Page<LaunchTemplate>, AwsFailure> {
        check_filters(&request.filters, &["launch-template-name"], true)?;
        if request.names.iter().any(|name| !self.templates.contains_key(name)) {
            return Err(AwsFailure::bad_request(
                "InvalidLaunchTemplateName.NotFoundException",
                "At least one of the launch templates specified in the request does not exist.",
            ));
        }
        let matching = self.templates.values().map(|stored| &stored.template).filter(|template| {
            (request.names.is_empty() || request.names.contains(&template.name))
                && matches_filters(&request.filters, Some(&template.tags), |_| vec![&template.name])
        });
        self.page(matching, |template| template.name.clone(), LaunchTemplate::clone, page, LIMITS)
    }

    pub(super) fn delete_launch_template(
        &mut self,
        template: &LaunchTemplateRef,
    ) -> Result<LaunchTemplate, AwsFailure> {
        let name = match template {
            LaunchTemplateRef::Name(name) => self.templates.contains_key(name).then(|| name.clone()).ok_or_else(|| {
                let message = format!("The specified launch template, with template name {name}, does not exist.");
                AwsFailure::bad_request("InvalidLaunchTemplateName.NotFoundException", message)
            }),
            LaunchTemplateRef::Id(id) => {
                let mut names = self.templates.values().map(|stored| &stored.template);
                names.find(|template| template.id == *id).map(|template| template.name.clone()).ok_or_else(|| {
                    let message = format!("The specified launch template, with template ID {id}, does not exist.");
                    AwsFailure::bad_request("InvalidLaunchTemplateId.NotFound", message)
                })
            }
        }?;
        match self.templates.remove(&name) {
            Some(stored) => Ok(stored.template),
            None => Err(AwsFailure::missing("LaunchTemplateName")),
        }
    }
}

fn check_template(request: &CreateLaunchTemplate) -> Result<(), AwsFailure> {
    let is_name_char = |char: char| char.is_ascii_alphanumeric() || "().-/_".contains(char);
    if !(3..=128).contains(&request.name.len()) || !request.name.chars().all(is_name_char) {
        let message = "Launch template names must be between 3 and 128 characters long, and may contain letters, \
                       numbers, and the following characters: - ( ) . / _";
        return Err(AwsFailure::bad_request("InvalidLaunchTemplateName.MalformedException", message));
    }
    let image = &request.data.image_id;
    if !image.is_empty() && !image.starts_with("ami-") {
        let message = format!("Invalid id: \"{image}\" (expecting \"ami-...\")");
        return Err(AwsFailure::bad_request("InvalidAMIID.Malformed", message));
    }
    match base64::engine::general_purpose::STANDARD.decode(&request.data.user_data) {
        Err(_) => Err(AwsFailure::bad_request("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")),
        Ok(bytes) if bytes.len() > USER_DATA_MAX_BYTES => {
            let message = format!("User data is limited to {USER_DATA_MAX_BYTES} bytes");
            Err(AwsFailure::bad_request("InvalidUserData.Malformed", message))
        }
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{aws, template};
    use super::*;
    use crate::ports::{Ec2 as _, Filter, Tags};

    #[tokio::test(start_paused = true)]
    async fn templates_are_created_described_and_deleted() {
        let aws = aws();
        let mut request = template(&aws, "demo");
        request.tags = Tags::from([("eks:eks-cluster-name".to_owned(), "demo".to_owned())]);
        let created = aws.create_launch_template(request.clone()).await.unwrap();
        let error = aws.create_launch_template(request).await.unwrap_err();
        assert!(error.has_code("InvalidLaunchTemplateName.AlreadyExistsException"), "{error}");
        let by_tag = |value: &str| DescribeLaunchTemplates {
            filters: vec![Filter::new("tag:eks:eks-cluster-name", value)],
            ..DescribeLaunchTemplates::default()
        };
        let found = |request| aws.describe_launch_templates(request, PageRequest::default());
        assert_eq!(found(by_tag("demo")).await.unwrap().items, std::slice::from_ref(&created));
        assert_eq!(found(by_tag("other")).await.unwrap().items, []);
        let by_name =
            |name: &str| DescribeLaunchTemplates { names: vec![name.to_owned()], ..DescribeLaunchTemplates::default() };
        assert_eq!(found(by_name("demo")).await.unwrap().items, std::slice::from_ref(&created));
        let not_found = "InvalidLaunchTemplateName.NotFoundException";
        assert!(found(by_name("other")).await.unwrap_err().has_code(not_found));
        aws.delete_launch_template(LaunchTemplateRef::Id(created.id.clone())).await.unwrap();
        let error = aws.delete_launch_template(LaunchTemplateRef::Id(created.id)).await.unwrap_err();
        assert!(error.has_code("InvalidLaunchTemplateId.NotFound"), "{error}");
        let error = aws.delete_launch_template(LaunchTemplateRef::Name("demo".into())).await.unwrap_err();
        assert!(error.has_code(not_found), "{error}");
    }

    // spec 06 #50
    #[tokio::test(start_paused = true)]
    async fn wrong_content_is_rejected() {
        let aws = aws();
        let error = async |change: &dyn Fn(&mut CreateLaunchTemplate)| {
            let mut request = template(&aws, "demo");
            change(&mut request);
            let error = aws.create_launch_template(request).await.unwrap_err();
            format!("{}: {}", error.code.unwrap_or_default(), error.message)
        };
        let user_data = |bytes: usize| base64::engine::general_purpose::STANDARD.encode(vec![b'x'; bytes]);
        assert_eq!(
            error(&|request| request.data.user_data = user_data(16_385)).await,
            "InvalidUserData.Malformed: User data is limited to 16384 bytes"
        );
        assert_eq!(
            error(&|request| request.data.user_data = "#!/bin/sh".into()).await,
            "InvalidUserData.Malformed: Invalid BASE64 encoding of user data."
        );
        assert!(error(&|request| request.data.image_id = "image".into()).await.starts_with("InvalidAMIID.Malformed"));
        let malformed = "InvalidLaunchTemplateName.MalformedException";
        assert!(error(&|request| request.name = "a b".into()).await.starts_with(malformed));
        let mut largest = template(&aws, "largest");
        largest.data.user_data = user_data(16_384);
        assert!(aws.create_launch_template(largest).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_repeated_client_token_creates_nothing_twice() {
        let aws = aws();
        let request = CreateLaunchTemplate { client_token: "one".into(), ..template(&aws, "demo") };
        let created = aws.create_launch_template(request.clone()).await.unwrap();
        assert_eq!(aws.create_launch_template(request.clone()).await, Ok(created));
        let error =
            aws.create_launch_template(CreateLaunchTemplate { name: "other".into(), ..request }).await.unwrap_err();
        assert!(error.has_code("IdempotentParameterMismatch"), "{error}");
    }
}
