//! Zones that the cluster is shifted away from (spec 05 §5.5, 06 §15).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jiff::Timestamp;
use kerf_runtime::Clock;
use tracing::{debug, error};

use crate::ports::{AwsError, ManagedResource, ZonalShift};

/// Status of a shift that is in force.
const APPLIED: &str = "APPLIED";

/// The zones that are shifted now, by ID. Without the setting `enableZonalShift` there is none.
#[derive(Debug)]
pub struct ShiftedZones {
    clock: Clock,
    /// End of each shift by zone ID; `None` until the shifts were read once.
    until: Mutex<Option<BTreeMap<String, Timestamp>>>,
}

impl ShiftedZones {
    /// Creates the store; no zone is shifted.
    pub fn new(clock: Clock) -> Self {
        Self { clock, until: Mutex::default() }
    }

    /// Replaces all shifts by the zones of these IDs and the ends of their shifts.
    pub fn replace(&self, shifts: impl IntoIterator<Item = (String, Timestamp)>) {
        let mut until: BTreeMap<String, Timestamp> = BTreeMap::new();
        for (zone_id, end) in shifts {
            let known = until.entry(zone_id).or_insert(end);
            *known = end.max(*known);
        }
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    /// Returns the IDs of the zones whose shift has not ended.
    pub fn now(&self) -> BTreeSet<String> {
        let now = self.clock.now();
        let until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let live = until.iter().flatten().filter(|(_, end)| **end > now);
        live.map(|(zone_id, _)| zone_id.clone()).collect()
    }

    /// Returns true if the zone is shifted. A zone whose ID is unknown never is.
    pub fn is_shifted(&self, zone_id: &str) -> bool {
        !zone_id.is_empty() && self.now().contains(zone_id)
    }

    fn is_loaded(&self) -> bool {
        self.until.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// Reads the shifts of the cluster, if the setting asks for it.
pub(crate) struct ZonalShifts {
    port: Arc<dyn ZonalShift>,
    is_enabled: bool,
    /// ARN of the cluster; unset until the start.
    arn: OnceLock<String>,
    zones: Arc<ShiftedZones>,
}

impl std::fmt::Debug for ZonalShifts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZonalShifts").field("arn", &self.arn).finish_non_exhaustive()
    }
}

impl ZonalShifts {
    /// Creates the reader. `zones` receives the shifts; it stays empty unless `is_enabled`.
    pub(crate) fn new(port: Arc<dyn ZonalShift>, is_enabled: bool, zones: Arc<ShiftedZones>) -> Self {
        Self { port, is_enabled, arn: OnceLock::new(), zones }
    }

    /// Returns the shifted zones.
    pub(crate) fn zones(&self) -> &ShiftedZones {
        &self.zones
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// Checks that the cluster with this ARN is enabled for zonal shift. Sets no shift: the first
    /// refresh does.
    pub(crate) async fn connect(&self, arn: &str) -> Result<(), AwsError> {
        self.port.get_managed_resource(arn).await?;
        _ = self.arn.set(arn.to_owned());
        Ok(())
    }

    /// Reads all shifts. After a failure the known shifts stay until they end.
    pub(crate) async fn refresh(&self) -> Result<(), AwsError> {
        let Some(arn) = self.arn.get().filter(|_| self.is_enabled) else { return Ok(()) };
        let resource = self.port.get_managed_resource(arn).await?;
        self.zones.replace(applied_shifts(resource));
        let shifted = self.zones.now().into_iter().collect::<Vec<_>>().join(", ");
        debug!(zones = shifted, "successfully updated zonal shifts");
        Ok(())
    }

    /// Reads the shifts if they were never read. While that fails, no zone counts as shifted.
    pub(crate) async fn load(&self) {
        if !self.is_enabled || self.zones.is_loaded() {
            return;
        }
        if let Err(cause) = self.refresh().await {
            error!(error = %cause, "failed to hydrate zonal shift cache");
        }
    }
}

/// Returns zone and end of each shift that is in force. A shift without end lasts until a refresh
/// no longer has it.
fn applied_shifts(resource: ManagedResource) -> impl Iterator<Item = (String, Timestamp)> {
    let applied = resource.zonal_shifts.into_iter().filter(|shift| shift.applied_status == APPLIED);
    applied.map(|shift| (shift.away_from, shift.expires_at.unwrap_or(Timestamp::MAX)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::memory::testing::aws;
    use crate::memory::{AwsFault, AwsFaultRule, MemoryAws};
    use crate::ports::ZonalShiftRecord;

    const ARN: &str = "arn:aws:eks:us-west-2:111122223333:cluster/demo";

    fn set_shifts(aws: &MemoryAws, shifts: &[(&str, &str, u64)]) {
        let now = aws.clock().now();
        let record = |(zone, status, minutes): &(&str, &str, u64)| ZonalShiftRecord {
            away_from: (*zone).to_owned(),
            applied_status: (*status).to_owned(),
            expires_at: Some(now + Duration::from_mins(*minutes)),
            ..ZonalShiftRecord::default()
        };
        let shifts = shifts.iter().map(record).collect();
        aws.change_account(|account| account.zonal_shifts.insert(ARN.to_owned(), shifts));
    }

    fn reader(aws: &MemoryAws, is_enabled: bool) -> ZonalShifts {
        ZonalShifts::new(Arc::new(aws.clone()), is_enabled, Arc::new(ShiftedZones::new(aws.clock())))
    }

    fn shifted(shifts: &ZonalShifts) -> String {
        shifts.zones().now().into_iter().collect::<Vec<_>>().join(" ")
    }

    // spec 05 #129
    #[tokio::test(start_paused = true)]
    async fn spec_05_129_a_refresh_replaces_all_shifts_and_a_shift_ends_by_itself() {
        let aws = aws();
        set_shifts(&aws, &[("az1", "APPLIED", 10), ("az2", "APPLIED", 2), ("az3", "NOT_APPLIED", 10)]);
        let shifts = reader(&aws, true);
        shifts.connect(ARN).await.unwrap();
        assert_eq!(shifted(&shifts), "", "the start sets no shift");
        shifts.refresh().await.unwrap();
        assert_eq!(shifted(&shifts), "az1 az2");
        assert!(
            shifts.zones().is_shifted("az1") && !shifts.zones().is_shifted("") && !shifts.zones().is_shifted("az3")
        );
        set_shifts(&aws, &[("az2", "APPLIED", 2)]);
        shifts.refresh().await.unwrap();
        assert_eq!(shifted(&shifts), "az2", "the cancelled shift does not linger");
        aws.set_faults(vec![AwsFaultRule::always("GetManagedResource", AwsFault::Throttled)]);
        shifts.refresh().await.unwrap_err();
        assert_eq!(shifted(&shifts), "az2", "a failure keeps the shifts");
        tokio::time::advance(Duration::from_mins(2)).await;
        assert_eq!(shifted(&shifts), "");
    }

    // spec 06 §15: the first query
    #[tokio::test(start_paused = true)]
    async fn shifts_are_read_once_by_the_first_query_that_succeeds() {
        let aws = aws();
        set_shifts(&aws, &[("az1", "APPLIED", 10)]);
        let shifts = reader(&aws, true);
        shifts.connect(ARN).await.unwrap();
        aws.set_faults(vec![AwsFaultRule::once("GetManagedResource", AwsFault::Throttled)]);
        for (expected, calls) in [("", 2), ("az1", 3), ("az1", 3)] {
            shifts.load().await;
            assert_eq!((shifted(&shifts).as_str(), aws.calls().len()), (expected, calls));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_the_setting_nothing_is_read_and_no_zone_is_shifted() {
        let aws = aws();
        let shifts = reader(&aws, false);
        shifts.load().await;
        shifts.refresh().await.unwrap();
        assert_eq!((shifted(&shifts).as_str(), aws.calls().len()), ("", 0));
    }
}
