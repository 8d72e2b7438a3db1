//! Machine images.

use super::super::Content;
use super::super::names::time_text;
use super::super::query::Parameters;
use super::super::xml::Xml;
use super::{filter_by_id, read, read_filters, read_page, write_tags};
use crate::memory::{Account, MemoryAws};
use crate::ports::Ec2 as _;
use crate::ports::ec2::DescribeImages;

pub(super) async fn describe(aws: &MemoryAws, parameters: Parameters) -> Content {
    let (ids, mut request, page) = read(parameters, |query| {
        let request = DescribeImages {
            filters: read_filters(query),
            owners: query.texts("Owner"),
            include_deprecated: query.boolean("IncludeDeprecated").unwrap_or(false),
        };
        (query.texts("ImageId"), request, read_page(query))
    })?;
    let exists = |account: &Account, id: &str| account.images.contains_key(id);
    request.filters.extend(filter_by_id(aws, "image-id", ids, "InvalidAMIID.NotFound", exists)?);
    let page = aws.describe_images(request, page).await?;
    let own_account = aws.change_account(|account| account.account_id.clone());
    Ok(Xml::fragment(|xml| {
        xml.items("imagesSet", &page.items, |xml, image| {
            xml.text("imageId", &image.id);
            xml.text("imageLocation", format!("{}/{}", image.owner_id, image.name));
            xml.text_unless_empty("imageState", &image.state);
            xml.text("imageOwnerId", &image.owner_id);
            xml.text_if_some("creationDate", image.created_at.map(time_text));
            xml.text_if_some("deprecationTime", image.deprecated_at.map(time_text));
            xml.text("isPublic", image.owner_id != own_account);
            xml.text_unless_empty("architecture", &image.architecture);
            xml.text("imageType", "machine");
            xml.text("name", &image.name);
            xml.text("rootDeviceType", "ebs");
            xml.text("virtualizationType", "hvm");
            write_tags(xml, &image.tags);
        });
        xml.text_if_some("nextToken", page.next_token);
    }))
}
