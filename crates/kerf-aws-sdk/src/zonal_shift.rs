//! The calls of ARC zonal shift.

use aws_sdk_arczonalshift::Client;
use aws_sdk_arczonalshift::types::ZonalShiftInResource;
use kerf_aws::ports::{AwsFuture, ManagedResource, ZonalShift, ZonalShiftRecord};

use crate::calls::Calls;
use crate::convert::timestamp;

/// ARC zonal shift through the SDK.
pub(crate) struct SdkZonalShift {
    client: Client,
    calls: Calls,
}

impl SdkZonalShift {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, calls: Calls::new("ARC Zonal Shift") }
    }
}

impl ZonalShift for SdkZonalShift {
    fn get_managed_resource<'a>(&'a self, arn: &'a str) -> AwsFuture<'a, ManagedResource> {
        Box::pin(async move {
            let request = self.client.get_managed_resource().resource_identifier(arn).customize();
            let answer = self.calls.run("GetManagedResource", |recorder| request.interceptor(recorder).send()).await?;
            Ok(ManagedResource {
                arn: answer.arn.unwrap_or_default(),
                name: answer.name.unwrap_or_default(),
                zonal_shifts: answer.zonal_shifts.into_iter().map(shift).collect(),
            })
        })
    }
}

fn shift(shift: ZonalShiftInResource) -> ZonalShiftRecord {
    ZonalShiftRecord {
        id: shift.zonal_shift_id,
        away_from: shift.away_from,
        applied_status: shift.applied_status.as_str().to_owned(),
        started_at: timestamp(shift.start_time),
        expires_at: timestamp(shift.expiry_time),
    }
}
