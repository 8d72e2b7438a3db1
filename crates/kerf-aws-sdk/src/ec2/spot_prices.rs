//! Spot prices.

use aws_sdk_ec2::types;
use kerf_aws::ports::ec2::SpotPrice;

use crate::convert::{name, timestamp};

pub(super) fn spot_price(price: types::SpotPrice) -> SpotPrice {
    SpotPrice {
        instance_type: name(price.instance_type),
        zone: price.availability_zone.unwrap_or_default(),
        product_description: name(price.product_description),
        price: price.spot_price.unwrap_or_default(),
        at: price.timestamp.and_then(timestamp),
    }
}
