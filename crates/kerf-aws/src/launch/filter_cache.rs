//! Keeps the results of the filters: a burst of equal claims filters the types once.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kerf_api::slim::ResourceList;
use kerf_engine::catalogue::InstanceTypes;
use kerf_engine::requirement::Requirements;

use super::claim::LaunchClaim;
use super::filters::NoTypesError;
use crate::cache_metrics::{CacheMetrics, OptionalCacheSize};

/// Number of results that are kept. A further result replaces the oldest.
const RESULTS_MAX: usize = 16;

/// The last results of the filters. A result is used only for the list of types from which it was
/// made, so a mark of missing capacity or a new price is never hidden.
#[derive(Debug, Default)]
pub(super) struct FilterCache {
    results: Mutex<VecDeque<FilterResult>>,
    size: OptionalCacheSize,
}

#[derive(Debug)]
struct FilterResult {
    types: InstanceTypes,
    requirements: Requirements,
    requests: ResourceList,
    result: Result<InstanceTypes, NoTypesError>,
}

impl FilterCache {
    /// Publishes the number of results from now on.
    pub(super) fn measure(&self, metrics: &CacheMetrics) {
        self.size.measure(metrics.of("launch_filters"), self.lock().len());
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<FilterResult>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the types of a claim that the filters leave.
    pub(super) fn get_or_insert(
        &self,
        types: &InstanceTypes,
        claim: &LaunchClaim<'_>,
        filter: impl FnOnce() -> Result<InstanceTypes, NoTypesError>,
    ) -> Result<InstanceTypes, NoTypesError> {
        let is_equal = |known: &&FilterResult| {
            known.types.is_same(types) && known.requests == claim.requests && known.requirements == claim.requirements
        };
        let mut results = self.lock();
        if let Some(known) = results.iter().find(is_equal) {
            return known.result.clone();
        }
        let result = filter();
        if results.len() >= RESULTS_MAX {
            results.pop_front();
        }
        results.push_back(FilterResult {
            types: types.clone(),
            requirements: claim.requirements.clone(),
            requests: claim.requests.clone(),
            result: result.clone(),
        });
        self.size.set(results.len());
        result
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use kerf_api::labels::LabelRules;
    use serde_json::json;

    use super::*;
    use crate::testing::{claim, on_demand};

    #[test]
    fn equal_claims_are_filtered_once_and_a_new_list_again() {
        let (cache, runs, rules) = (FilterCache::default(), Cell::new(0), LabelRules::aws());
        let filter = |types: &InstanceTypes, requirements: serde_json::Value, cpu: &str| {
            let mut claim = claim("a", requirements);
            let requests = claim.spec.resources.as_mut().unwrap().requests.as_mut().unwrap();
            requests.insert("cpu".into(), cpu.into());
            let claim = LaunchClaim::new(&claim, &rules).unwrap();
            let result = cache.get_or_insert(types, &claim, || {
                runs.set(runs.get() + 1);
                Err(NoTypesError::AllUnavailable)
            });
            assert_eq!(result.unwrap_err(), NoTypesError::AllUnavailable);
            runs.get()
        };
        let types: InstanceTypes = Vec::<kerf_engine::catalogue::InstanceType>::new().into_iter().collect();
        assert_eq!(filter(&types, json!([]), "1"), 1);
        assert_eq!(filter(&types, json!([]), "1"), 1);
        assert_eq!(filter(&types, json!([]), "1000m"), 1, "equal amounts");
        assert_eq!(filter(&types, json!([]), "2"), 2);
        assert_eq!(filter(&types, json!([on_demand()]), "1"), 3);
        let other: InstanceTypes = Vec::<kerf_engine::catalogue::InstanceType>::new().into_iter().collect();
        assert_eq!(filter(&other, json!([]), "1"), 4, "another list");
        for i in 10..30 {
            filter(&types, json!([]), &i.to_string());
        }
        assert_eq!(cache.lock().len(), RESULTS_MAX);
    }
}
