//! The placement group of a node class (spec 05 §9, 06 §12).

use std::sync::Arc;
use std::time::Duration;

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_runtime::Clock;
use tokio::sync::Mutex;

use crate::cache_metrics::CacheMetrics;
use crate::ports::ec2::{DescribePlacementGroups, Ec2, PlacementGroup};
use crate::ports::{AwsError, Filter};
use crate::ttl_cache::TtlCache;

/// Time for which EC2 is not called again, also if there is no such group.
const FRESH_TTL: Duration = Duration::from_mins(1);
/// Time for which a group is used while EC2 does not answer.
const KEPT_TTL: Duration = Duration::from_hours(24);

/// Number of selectors whose groups are kept.
const SELECTORS_MAX: usize = 1_000;

/// Strategy of groups with partitions.
const PARTITION: &str = "partition";

/// Selector of a placement group. A name that looks like an ID is still a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GroupSelector {
    Id(String),
    Name(String),
}

impl GroupSelector {
    /// Returns the selector of a class. Returns `None` if it selects no group.
    pub(crate) fn of(class: &EC2NodeClass) -> Option<Self> {
        let selector = class.spec.as_ref()?.placement_group_selector.as_ref()?;
        let non_empty = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        non_empty(&selector.id).map(Self::Id).or_else(|| non_empty(&selector.name).map(Self::Name))
    }

    /// Returns the ID or the name.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Id(text) | Self::Name(text) => text,
        }
    }
}

impl PlacementGroup {
    /// Returns true if instances of the group have a partition.
    pub fn has_partitions(&self) -> bool {
        self.strategy == PARTITION
    }

    /// Returns the numbers of the partitions; empty if the group has none.
    pub fn partitions(&self) -> std::ops::RangeInclusive<i32> {
        let count = self.partition_count.filter(|_| self.has_partitions()).unwrap_or_default();
        1..=count.max(0)
    }
}

/// The last known group of each selector. Lists of instance types read it.
#[derive(Debug)]
pub struct KnownPlacementGroups(TtlCache<GroupSelector, Arc<PlacementGroup>>);

impl KnownPlacementGroups {
    /// Creates the store without any group.
    pub fn new(clock: Clock) -> Self {
        Self(TtlCache::new(clock, KEPT_TTL, SELECTORS_MAX))
    }

    /// Returns the group of a class. Returns `None` if the class selects none or none is known.
    pub fn get(&self, class: &EC2NodeClass) -> Option<Arc<PlacementGroup>> {
        self.0.get(&GroupSelector::of(class)?)
    }

    /// Sets the group that a class selects. `None` forgets it. Nothing happens if the class selects
    /// no group.
    pub fn set(&self, class: &EC2NodeClass, group: Option<Arc<PlacementGroup>>) {
        if let Some(selector) = GroupSelector::of(class) {
            self.replace(selector, group);
        }
    }

    fn replace(&self, selector: GroupSelector, group: Option<Arc<PlacementGroup>>) {
        match group {
            Some(group) => self.0.insert(selector, group),
            None => {
                self.0.remove(&selector);
            }
        }
    }
}

/// Resolves placement groups with EC2.
pub struct PlacementGroups {
    ec2: Arc<dyn Ec2>,
    known: Arc<KnownPlacementGroups>,
    fresh: TtlCache<GroupSelector, ()>,
    /// Held while EC2 is called, so that equal requests at one time make one call.
    resolving: Mutex<()>,
}

impl std::fmt::Debug for PlacementGroups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlacementGroups").finish_non_exhaustive()
    }
}

impl PlacementGroups {
    /// Creates the resolver. `known` receives the groups.
    pub fn new(ec2: Arc<dyn Ec2>, known: Arc<KnownPlacementGroups>, clock: Clock) -> Self {
        let fresh = TtlCache::new(clock, FRESH_TTL, SELECTORS_MAX);
        Self { ec2, known, fresh, resolving: Mutex::default() }
    }

    /// Publishes the sizes of the caches from now on.
    pub(crate) fn measure(&self, metrics: &CacheMetrics) {
        self.known.0.measure(metrics.of("placement_groups"));
        self.fresh.measure(metrics.of("placement_group_answers"));
    }

    /// Returns the group that a class selects. Makes no call if the class selects none, or if EC2
    /// answered in the last minute. After a failure the last known group stays in use
    /// ([`KnownPlacementGroups::get`]), and the next call asks EC2 again. Concurrent calls wait for
    /// each other.
    pub async fn resolve(&self, class: &EC2NodeClass) -> Result<Option<Arc<PlacementGroup>>, AwsError> {
        let Some(selector) = GroupSelector::of(class) else { return Ok(None) };
        let _resolving = self.resolving.lock().await;
        if self.fresh.contains(&selector) {
            return Ok(self.known.get(class));
        }
        let (ids, names) = match &selector {
            GroupSelector::Id(id) => (vec![id.clone()], Vec::new()),
            GroupSelector::Name(name) => (Vec::new(), vec![name.clone()]),
        };
        let filters = vec![Filter::new("state", "available")];
        let groups = match self.ec2.describe_placement_groups(DescribePlacementGroups { ids, names, filters }).await {
            Ok(groups) => groups,
            Err(error) if error.is_placement_group_unknown() => Vec::new(),
            Err(error) => return Err(error),
        };
        let group = groups.into_iter().next().map(Arc::new);
        self.known.replace(selector.clone(), group.clone());
        self.fresh.insert(selector, ());
        Ok(group)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::memory::testing::aws;
    use crate::memory::{AwsFault, AwsFaultRule, MemoryAws};

    fn class(selector: Value) -> EC2NodeClass {
        let spec = json!({
            "amiSelectorTerms": [], "subnetSelectorTerms": [], "securityGroupSelectorTerms": [],
            "placementGroupSelector": selector,
        });
        serde_json::from_value(json!({ "metadata": { "name": "default" }, "spec": spec })).unwrap()
    }

    fn group(id: &str, name: &str, state: &str) -> PlacementGroup {
        let (id, name, state) = (id.to_owned(), name.to_owned(), state.to_owned());
        PlacementGroup { id, name, state, strategy: "cluster".to_owned(), ..PlacementGroup::default() }
    }

    fn add_groups(aws: &MemoryAws, groups: impl IntoIterator<Item = PlacementGroup>) {
        aws.change_account(|account| {
            account.placement_groups.extend(groups.into_iter().map(|group| (group.id.clone(), group)));
        });
    }

    fn provider(aws: &MemoryAws) -> (PlacementGroups, Arc<KnownPlacementGroups>) {
        let known = Arc::new(KnownPlacementGroups::new(aws.clock()));
        (PlacementGroups::new(Arc::new(aws.clone()), known.clone(), aws.clock()), known)
    }

    async fn resolved(groups: &PlacementGroups, class: &EC2NodeClass) -> Option<String> {
        groups.resolve(class).await.unwrap().map(|group| group.id.clone())
    }

    // spec 06 #21, #22, #24, #25
    #[tokio::test(start_paused = true)]
    async fn spec_06_24_a_selector_finds_an_available_group_by_id_or_name() {
        let aws = aws();
        add_groups(
            &aws,
            [
                group("pg-1", "racks", "available"),
                group("pg-2", "pg-foo", "available"),
                group("pg-3", "new", "pending"),
                group("pg-4", "twin", "available"),
                group("pg-5", "twin", "available"),
            ],
        );
        let cases = [
            // spec 06 #21
            (json!(null), None, 0),
            (json!({"id": "pg-1"}), Some("pg-1"), 1),
            (json!({"name": "racks"}), Some("pg-1"), 1),
            // spec 06 #24
            (json!({"name": "pg-foo"}), Some("pg-2"), 1),
            (json!({"name": "pg-1"}), None, 1),
            // spec 06 #22
            (json!({"name": "new"}), None, 1),
            (json!({"name": "gone"}), None, 1),
            // spec 06 #25
            (json!({"name": "twin"}), Some("pg-4"), 1),
        ];
        for (selector, expected, calls) in cases {
            aws.clear_calls();
            let (groups, _) = provider(&aws);
            assert_eq!(resolved(&groups, &class(selector.clone())).await.as_deref(), expected, "{selector}");
            assert_eq!(aws.calls().len(), calls, "{selector}");
        }
    }

    // spec 05 #128, spec 06 #23
    #[tokio::test(start_paused = true)]
    async fn spec_05_128_a_deleted_group_is_forgotten_after_a_minute_and_an_outage_keeps_it() {
        let aws = aws();
        add_groups(&aws, [group("pg-1", "racks", "available")]);
        let (groups, known) = provider(&aws);
        let class = class(json!({"name": "racks"}));
        assert_eq!(resolved(&groups, &class).await.as_deref(), Some("pg-1"));
        tokio::time::advance(FRESH_TTL).await;
        // spec 06 #23: any other error keeps the group, and is not cached.
        aws.set_faults(vec![AwsFaultRule { times: Some(2), ..AwsFaultRule::once("", AwsFault::Throttled) }]);
        for _ in 0..2 {
            groups.resolve(&class).await.unwrap_err();
            assert!(known.get(&class).is_some());
        }
        assert_eq!(resolved(&groups, &class).await.as_deref(), Some("pg-1"));
        aws.change_account(|account| account.placement_groups.clear());
        assert_eq!(resolved(&groups, &class).await.as_deref(), Some("pg-1"), "the answer is fresh");
        tokio::time::advance(FRESH_TTL).await;
        assert_eq!((resolved(&groups, &class).await, known.get(&class)), (None, None));
        let calls = aws.calls().len();
        assert_eq!(resolved(&groups, &class).await, None);
        assert_eq!(aws.calls().len(), calls, "that there is no group is fresh for a minute too");
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_is_kept_for_a_day() {
        let aws = aws();
        add_groups(&aws, [group("pg-1", "racks", "available")]);
        let (groups, known) = provider(&aws);
        let class = class(json!({"id": "pg-1"}));
        resolved(&groups, &class).await;
        tokio::time::advance(KEPT_TTL.saturating_sub(Duration::from_secs(1))).await;
        assert!(known.get(&class).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(known.get(&class).is_none());
    }
}
