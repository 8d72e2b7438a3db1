//! Images, instance types and their zones.

use jiff::Timestamp;

use super::AwsFailure;
use super::filters::{check_filters, matches_filters};
use super::paging::PageLimits;
use super::parameters::AMAZON_OWNERS;
use super::state::AwsState;
use crate::ports::ec2::{DescribeImages, DescribeInstanceTypes, Image, InstanceTypeInfo, InstanceTypeOffering};
use crate::ports::{Page, PageRequest};

const IMAGES: PageLimits = PageLimits { min: 1, max: 1000, default: Some(1000) };
const TYPES: PageLimits = PageLimits { min: 5, max: 100, default: Some(100) };
const OFFERINGS: PageLimits = PageLimits { min: 5, max: 1000, default: Some(1000) };

impl AwsState {
    pub(super) fn describe_images(
        &self,
        request: &DescribeImages,
        page: &PageRequest,
        now: Timestamp,
    ) -> Result<Page<Image>, AwsFailure> {
        let names = ["image-id", "name", "architecture", "state", "owner-id"];
        check_filters(&request.filters, &names, true)?;
        let own = &self.account.account_id;
        let has_owner = |image: &Image| {
            request.owners.is_empty()
                || request.owners.iter().any(|owner| match owner.as_str() {
                    "self" => image.owner_id == *own,
                    "amazon" => AMAZON_OWNERS.contains(&image.owner_id.as_str()),
                    id => image.owner_id == id,
                })
        };
        let is_shown = |image: &Image| {
            let is_deprecated = image.deprecated_at.is_some_and(|at| at <= now);
            request.include_deprecated || !is_deprecated || image.owner_id == *own
        };
        let matching = self.account.images.values().filter(|image| {
            has_owner(image)
                && is_shown(image)
                && matches_filters(&request.filters, Some(&image.tags), |name| match name {
                    "image-id" => vec![&image.id],
                    "name" => vec![&image.name],
                    "architecture" => vec![&image.architecture],
                    "state" => vec![&image.state],
                    _ => vec![&image.owner_id],
                })
        });
        self.page(matching, |image| image.id.clone(), Image::clone, page, IMAGES)
    }

    pub(super) fn describe_instance_types(
        &self,
        request: &DescribeInstanceTypes,
    ) -> Result<Page<InstanceTypeInfo>, AwsFailure> {
        let names = [
            "instance-type",
            "bare-metal",
            "current-generation",
            "hypervisor",
            "supported-usage-class",
            "supported-virtualization-type",
            "processor-info.supported-architecture",
        ];
        check_filters(&request.filters, &names, false)?;
        if request.is_dry_run {
            return Err(AwsFailure::dry_run());
        }
        let matching = self.account.instance_types.values().filter(|info| {
            let texts = |values: &'_ [String]| values.to_vec();
            let flag = |value: bool| vec![value.to_string()];
            request.filters.iter().all(|filter| {
                let values = match filter.name.as_str() {
                    "instance-type" => vec![info.name.clone()],
                    "bare-metal" => flag(info.bare_metal),
                    "current-generation" => flag(info.current_generation),
                    "hypervisor" => vec![info.hypervisor.clone()],
                    "supported-usage-class" => texts(&info.supported_usage_classes),
                    "supported-virtualization-type" => texts(&info.supported_virtualization_types),
                    _ => info.processor.as_ref().map(|own| texts(&own.supported_architectures)).unwrap_or_default(),
                };
                matches_filters(std::slice::from_ref(filter), None, |_| values.iter().map(String::as_str).collect())
            })
        });
        self.page(matching, |info| info.name.clone(), InstanceTypeInfo::clone, &request.page, TYPES)
    }

    pub(super) fn describe_offerings(&self, page: &PageRequest) -> Result<Page<InstanceTypeOffering>, AwsFailure> {
        // A space sorts before every character of a name, so the keys have the order of the set.
        let key = |offering: &InstanceTypeOffering| format!("{} {}", offering.instance_type, offering.zone);
        self.page(self.account.offerings.iter(), key, InstanceTypeOffering::clone, page, OFFERINGS)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::MemorySettings;
    use super::super::testing::{aws, aws_with, x86_image};
    use super::*;
    use crate::ports::{Ec2 as _, Filter, Ssm as _, all_pages};

    // spec 05 §2
    #[tokio::test(start_paused = true)]
    async fn types_and_zones_are_described_in_pages_that_may_be_empty() {
        let settings =
            MemorySettings { page_size_max: Some(1), first_page_is_empty: true, ..MemorySettings::default() };
        let aws = aws_with(settings);
        let filters = vec![
            Filter::new("supported-virtualization-type", "hvm"),
            Filter::any_of("processor-info.supported-architecture", ["x86_64"]),
        ];
        let types = all_pages(Some(100), |page| {
            aws.describe_instance_types(DescribeInstanceTypes { filters: filters.clone(), page, is_dry_run: false })
        });
        let names: Vec<String> = types.await.unwrap().into_iter().map(|info| info.name).collect();
        assert_eq!(names, ["m5.large", "m5.xlarge"]);
        assert_eq!(aws.calls().len(), 3, "an empty page and one for each type");
        let offerings = all_pages(Some(1000), |page| aws.describe_instance_type_offerings(page)).await.unwrap();
        assert_eq!(offerings.len(), 9);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dry_run_describes_nothing() {
        let request = DescribeInstanceTypes { is_dry_run: true, ..DescribeInstanceTypes::default() };
        assert!(aws().describe_instance_types(request).await.unwrap_err().has_code("DryRunOperation"));
    }

    // spec 05 §12.1, #76
    #[tokio::test(start_paused = true)]
    async fn every_alias_parameter_names_an_image_of_its_architecture() {
        let aws = aws();
        let mut families: BTreeMap<String, usize> = BTreeMap::new();
        for (name, id) in aws.change_account(|account| account.parameters.clone()) {
            let image = aws.change_account(|account| account.images[&id].clone());
            let arch = if name.contains("arm64") { "arm64" } else { "x86_64" };
            assert_eq!(image.architecture, arch, "{name}");
            *families.entry(name.split('/').nth(3).unwrap().to_owned()).or_default() += 1;
        }
        let expected = [("ami-windows-latest", 3), ("bottlerocket", 8), ("eks", 16)];
        assert_eq!(families, expected.map(|(name, count)| (name.to_owned(), count)).into());
        let folder = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/nvidia";
        let recommended = aws.get_parameter(&format!("{folder}/recommended/image_id")).await.unwrap();
        let pinned = format!("{folder}/amazon-eks-node-al2023-x86_64-nvidia-1.34-v20251120/image_id");
        assert_eq!(aws.get_parameter(&pinned).await.as_deref(), Ok(recommended.as_str()));
        let arn = format!("arn:aws:ssm:us-west-2::parameter{folder}/recommended/image_id");
        assert_eq!(aws.get_parameter(&arn).await, Ok(recommended.clone()));
        aws.change_account(|account| account.publish_eks_images("1.34", "20260110", "1.53.0"));
        assert_ne!(aws.get_parameter(&format!("{folder}/recommended/image_id")).await, Ok(recommended.clone()));
        assert_eq!(aws.get_parameter(&pinned).await, Ok(recommended), "a pinned parameter keeps its image");
        assert!(aws.get_parameter("/x").await.unwrap_err().has_code("ParameterNotFound"));
    }

    // spec 05 #81
    #[tokio::test(start_paused = true)]
    async fn images_are_found_by_owner_name_and_deprecation() {
        let aws = aws();
        let id = x86_image(&aws);
        let own = aws.change_account(|account| {
            let mine = account.account_id.clone();
            account.add_image("mine", "x86_64", &mine, None)
        });
        let find = async |request: DescribeImages| {
            let page = aws.describe_images(request, PageRequest::first(1000)).await.unwrap();
            page.items.into_iter().map(|image| image.id).collect::<Vec<_>>()
        };
        let owned = |owner: &str| DescribeImages { owners: vec![owner.to_owned()], ..DescribeImages::default() };
        assert_eq!(find(owned("self")).await, [own]);
        assert!(find(owned("amazon")).await.contains(&id));
        assert!(find(owned("602401143452")).await.contains(&id));
        let by_name = |include_deprecated| DescribeImages {
            filters: vec![
                Filter::new("name", "amazon-eks-node-al2023-x86_64-standard-*"),
                Filter::new("state", "available"),
            ],
            include_deprecated,
            ..DescribeImages::default()
        };
        assert_eq!(find(by_name(false)).await, std::slice::from_ref(&id));
        let now = aws.clock().now();
        aws.change_account(|account| account.images.get_mut(&id).unwrap().deprecated_at = Some(now));
        assert_eq!(find(by_name(false)).await, [""; 0]);
        assert_eq!(find(by_name(true)).await, [id]);
    }
}
