//! ARC zonal shift: the shifts of a cluster.

use super::calls::AwsOperation;
use super::{AwsFailure, MemoryAws};
use crate::ports::{AwsFuture, ManagedResource, ZonalShift};

const GET_MANAGED_RESOURCE: AwsOperation = AwsOperation { service: "ARC Zonal Shift", name: "GetManagedResource" };

impl ZonalShift for MemoryAws {
    fn get_managed_resource<'a>(&'a self, arn: &'a str) -> AwsFuture<'a, ManagedResource> {
        Box::pin(self.call(GET_MANAGED_RESOURCE, arn.to_owned(), move |state, now| {
            let Some(shifts) = state.account.zonal_shifts.get(arn) else {
                let message = format!("The resource {arn} was not found.");
                return Err(AwsFailure::new(404, "ResourceNotFoundException", message));
            };
            // A shift that has ended is no longer part of the answer.
            let live = shifts.iter().filter(|shift| shift.expires_at.is_none_or(|at| at > now));
            let name = arn.rsplit('/').next().unwrap_or_default().to_owned();
            Ok(ManagedResource { arn: arn.to_owned(), name, zonal_shifts: live.cloned().collect() })
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::aws;
    use crate::ports::{ZonalShift as _, ZonalShiftRecord};

    // spec 06 §15
    #[tokio::test(start_paused = true)]
    async fn a_managed_resource_has_its_live_shifts() {
        let (aws, arn) = (aws(), "arn:aws:eks:us-west-2:111122223333:cluster/demo");
        let error = aws.get_managed_resource("arn:aws:eks:us-west-2:111122223333:cluster/other").await.unwrap_err();
        assert_eq!((error.code.as_deref(), error.http_status), (Some("ResourceNotFoundException"), Some(404)));
        let shift = |zone: &str, minutes| ZonalShiftRecord {
            id: format!("shift-{zone}"),
            away_from: zone.to_owned(),
            applied_status: "APPLIED".to_owned(),
            started_at: Some(aws.clock().now()),
            expires_at: Some(aws.clock().now() + Duration::from_mins(minutes)),
        };
        let shifts = vec![shift("usw2-az1", 1), shift("usw2-az2", 5)];
        aws.change_account(|account| account.zonal_shifts.insert(arn.to_owned(), shifts.clone()));
        let resource = aws.get_managed_resource(arn).await.unwrap();
        assert_eq!((resource.name.as_str(), &resource.zonal_shifts), ("demo", &shifts));
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!(aws.get_managed_resource(arn).await.unwrap().zonal_shifts, shifts[1..]);
        assert_eq!(aws.calls().len(), 3);
    }
}
