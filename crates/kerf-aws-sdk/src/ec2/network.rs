//! Subnets, security groups and images.

use aws_sdk_ec2::types;
use kerf_aws::ports::ec2::{Image, SecurityGroup, Subnet};

use crate::convert::{name, tags};

pub(super) fn subnet(subnet: types::Subnet) -> Subnet {
    Subnet {
        id: subnet.subnet_id.unwrap_or_default(),
        zone: subnet.availability_zone.unwrap_or_default(),
        zone_id: subnet.availability_zone_id.unwrap_or_default(),
        available_ip_count: subnet.available_ip_address_count.unwrap_or_default(),
        vpc_id: subnet.vpc_id.unwrap_or_default(),
        tags: tags(subnet.tags),
    }
}

pub(super) fn security_group(group: types::SecurityGroup) -> SecurityGroup {
    SecurityGroup {
        id: group.group_id.unwrap_or_default(),
        name: group.group_name.unwrap_or_default(),
        vpc_id: group.vpc_id.unwrap_or_default(),
        tags: tags(group.tags),
    }
}

pub(super) fn image(image: types::Image) -> Image {
    // The times of an image are texts in EC2's answer.
    let time = |text: Option<String>| text.and_then(|text| text.parse().ok());
    Image {
        id: image.image_id.unwrap_or_default(),
        name: image.name.unwrap_or_default(),
        architecture: name(image.architecture),
        owner_id: image.owner_id.unwrap_or_default(),
        state: name(image.state),
        created_at: time(image.creation_date),
        deprecated_at: time(image.deprecation_time),
        tags: tags(image.tags),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_time_of_an_image_is_missing() {
        let created = |text: &str| image(types::Image::builder().creation_date(text).build()).created_at;
        assert_eq!(created("2024-05-06T07:08:09.000Z"), "2024-05-06T07:08:09Z".parse().ok());
        assert_eq!(created("yesterday"), None);
        assert_eq!(image(types::Image::builder().build()), Image::default());
    }
}
