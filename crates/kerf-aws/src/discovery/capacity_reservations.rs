//! Capacity reservations that node classes select (spec 05 §8.1, 06 §11.2).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kerf_api::ec2nodeclass::CapacityReservationSelectorTerm;
use kerf_runtime::Clock;
use tokio::sync::Mutex;

use super::filters::tag_filters;
use crate::cache_metrics::CacheMetrics;
use crate::ports::ec2::{DescribeCapacityReservations, Ec2, Ec2CapacityReservation};
use crate::ports::{AwsError, Filter, all_pages};
use crate::reservation_slots::ReservationSlots;
use crate::ttl_cache::TtlCache;

/// Page size of `DescribeCapacityReservations` without IDs.
const PAGE_SIZE: i32 = 1_000;
/// Time for which a query is not repeated.
const QUERY_TTL: Duration = Duration::from_mins(1);
/// Number of queries whose answers are kept.
const QUERIES_MAX: usize = 10_000;

/// One call of `DescribeCapacityReservations`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ReservationQuery {
    Id(String),
    Filters { owner_id: Option<String>, match_criteria: Option<String>, tags: BTreeMap<String, String> },
}

/// The capacity reservations of node classes.
pub(crate) struct CapacityReservations {
    ec2: Arc<dyn Ec2>,
    clock: Clock,
    slots: Arc<ReservationSlots>,
    by_query: TtlCache<ReservationQuery, Arc<[Ec2CapacityReservation]>>,
    /// Held while EC2 is called, so that equal listings at one time make one call.
    listing: Mutex<()>,
}

impl std::fmt::Debug for CapacityReservations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CapacityReservations").finish_non_exhaustive()
    }
}

impl CapacityReservations {
    /// Creates the provider without any answer. `slots` receives the free slots of every answer.
    pub(crate) fn new(ec2: Arc<dyn Ec2>, slots: Arc<ReservationSlots>, clock: Clock) -> Self {
        let by_query = TtlCache::new(clock, QUERY_TTL, QUERIES_MAX);
        Self { ec2, clock, slots, by_query, listing: Mutex::default() }
    }

    /// Publishes the size of the cache from now on.
    pub(crate) fn measure(&self, metrics: &CacheMetrics) {
        self.by_query.measure(metrics.of("capacity_reservations"));
    }

    /// Returns the reservations that the terms select and that have not ended, sorted by ID. An ID
    /// that does not exist selects none. Any other failure fails the listing; the answers until
    /// then stay in memory.
    pub(crate) async fn list(
        &self,
        terms: &[CapacityReservationSelectorTerm],
    ) -> Result<Vec<Ec2CapacityReservation>, AwsError> {
        let _listing = self.listing.lock().await;
        let mut found: BTreeMap<String, Ec2CapacityReservation> = BTreeMap::new();
        let mut asked = BTreeSet::new();
        // Equal queries once, in the order of the terms.
        for query in terms.iter().flat_map(queries_of) {
            if !asked.insert(query.clone()) {
                continue;
            }
            let answer = match self.by_query.get(&query) {
                Some(answer) => answer,
                None => self.describe(query).await?,
            };
            found.extend(answer.iter().map(|reservation| (reservation.id.clone(), reservation.clone())));
        }
        let now = self.clock.now();
        let has_ended = |reservation: &Ec2CapacityReservation| reservation.ends_at.is_some_and(|at| at <= now);
        Ok(found.into_values().filter(|reservation| !has_ended(reservation)).collect())
    }

    async fn describe(&self, query: ReservationQuery) -> Result<Arc<[Ec2CapacityReservation]>, AwsError> {
        let (request, page_size) = request_of(&query);
        let call = all_pages(page_size, |page| self.ec2.describe_capacity_reservations(request.clone(), page));
        let answer: Arc<[Ec2CapacityReservation]> = match call.await {
            Ok(answer) => answer.into(),
            // EC2 returns this code for IDs only.
            Err(error) if error.is_not_found() => Arc::default(),
            Err(error) => return Err(error),
        };
        let free = answer.iter().map(|reservation| (reservation.id.clone(), reservation.available_instance_count));
        self.slots.set_free(free);
        self.by_query.insert(query, answer.clone());
        Ok(answer)
    }
}

/// Returns the queries of a term: one for its ID, and one for its tags and match criteria.
fn queries_of(term: &CapacityReservationSelectorTerm) -> Vec<ReservationQuery> {
    let id = term.id.clone().filter(|id| !id.is_empty()).map(ReservationQuery::Id);
    let tags = term.tags.clone().unwrap_or_default();
    let match_criteria = term.instance_match_criteria.as_ref().map(ToString::to_string);
    let has_filters = !tags.is_empty() || match_criteria.is_some();
    let owner_id = term.owner_id.clone().filter(|id| !id.is_empty());
    let filters = has_filters.then_some(ReservationQuery::Filters { owner_id, match_criteria, tags });
    id.into_iter().chain(filters).collect()
}

/// Returns the request of a query and its page size, which EC2 rejects together with IDs.
fn request_of(query: &ReservationQuery) -> (DescribeCapacityReservations, Option<i32>) {
    let mut filters = vec![Filter::new("state", "active")];
    match query {
        ReservationQuery::Id(id) => (DescribeCapacityReservations { ids: vec![id.clone()], filters }, None),
        ReservationQuery::Filters { owner_id, match_criteria, tags } => {
            filters.extend(owner_id.iter().map(|id| Filter::new("owner-id", id)));
            filters.extend(tag_filters(Some(tags)));
            filters.extend(match_criteria.iter().map(|criteria| Filter::new("instance-match-criteria", criteria)));
            (DescribeCapacityReservations { ids: Vec::new(), filters }, Some(PAGE_SIZE))
        }
    }
}

#[cfg(test)]
mod tests;
