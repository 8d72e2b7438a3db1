//! Security groups of a node class (spec 05 §11).

use std::collections::BTreeMap;
use std::sync::Arc;

use kerf_api::ec2nodeclass::{EC2NodeClass, SecurityGroupSelectorTerm};
use kerf_runtime::Clock;

use super::filters::tag_filters;
use super::{CLASSES_MAX, class_cache_key};
use crate::cache_metrics::CacheMetrics;
use crate::ports::ec2::{Ec2, SecurityGroup};
use crate::ports::{AwsError, Filter, all_pages};
use crate::settings::AwsSettings;
use crate::ttl_cache::TtlCache;

/// Page size of `DescribeSecurityGroups`.
const PAGE_SIZE: i32 = 500;

/// The security groups of node classes.
pub(crate) struct SecurityGroups {
    ec2: Arc<dyn Ec2>,
    /// Answers by class.
    by_class: TtlCache<String, Arc<[SecurityGroup]>>,
}

impl std::fmt::Debug for SecurityGroups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecurityGroups").finish_non_exhaustive()
    }
}

impl SecurityGroups {
    /// Creates the provider without any answer.
    pub(crate) fn new(ec2: Arc<dyn Ec2>, settings: &AwsSettings, clock: Clock) -> Self {
        Self { ec2, by_class: TtlCache::new(clock, settings.security_group_refresh_interval, CLASSES_MAX) }
    }

    /// Publishes the number of entries of the caches from now on.
    pub(crate) fn measure(&self, metrics: &CacheMetrics) {
        self.by_class.measure(metrics.of("security_groups"));
    }

    /// Returns the groups that the terms of a class select, sorted by ID. Without terms it calls
    /// nothing and returns none.
    pub(crate) async fn list(&self, class: &EC2NodeClass) -> Result<Arc<[SecurityGroup]>, AwsError> {
        let terms = class.spec.as_ref().map_or(&[][..], |spec| &spec.security_group_selector_terms);
        let queries = queries(terms);
        if queries.is_empty() {
            return Ok(Arc::default());
        }
        let key = class_cache_key(class);
        if let Some(groups) = self.by_class.get(&key) {
            return Ok(groups);
        }
        let mut groups: BTreeMap<String, SecurityGroup> = BTreeMap::new();
        for filters in queries {
            let answer = all_pages(Some(PAGE_SIZE), |page| self.ec2.describe_security_groups(filters.clone(), page));
            groups.extend(answer.await?.into_iter().map(|group| (group.id.clone(), group)));
        }
        let groups: Arc<[SecurityGroup]> = groups.into_values().collect();
        self.by_class.insert(key, groups.clone());
        Ok(groups)
    }
}

/// Returns the filters of each call: one call for each term with neither ID nor name, one for all
/// IDs, one for all names.
fn queries(terms: &[SecurityGroupSelectorTerm]) -> Vec<Vec<Filter>> {
    let (mut ids, mut names, mut by_tags) = (Vec::new(), Vec::new(), Vec::new());
    for term in terms {
        match (term.id.as_deref().unwrap_or_default(), term.name.as_deref().unwrap_or_default()) {
            ("", "") => by_tags.push(tag_filters(term.tags.as_ref())),
            ("", name) => names.push(name),
            (id, _) => ids.push(id),
        }
    }
    let by_values = [("group-id", ids), ("group-name", names)].into_iter().filter(|(_, values)| !values.is_empty());
    by_tags.into_iter().chain(by_values.map(|(name, values)| vec![Filter::any_of(name, values)])).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kerf_api::ec2nodeclass::EC2NodeClassSpec;
    use serde_json::json;

    use super::*;
    use crate::memory::testing::aws;

    fn class(terms: serde_json::Value) -> EC2NodeClass {
        EC2NodeClass {
            spec: Some(EC2NodeClassSpec {
                security_group_selector_terms: serde_json::from_value(terms).unwrap(),
                ..EC2NodeClassSpec::default()
            }),
            ..EC2NodeClass::default()
        }
    }

    async fn ids(terms: serde_json::Value) -> (String, usize) {
        let aws = aws();
        aws.change_account(|account| {
            let mut group = account.security_groups["sg-00000000000000002"].clone();
            group.id = "sg-3".to_owned();
            group.name = "third".to_owned();
            group.tags = [("team".to_owned(), "a".to_owned()), ("env".to_owned(), "dev".to_owned())].into();
            account.security_groups.insert(group.id.clone(), group);
        });
        let groups = SecurityGroups::new(Arc::new(aws.clone()), &AwsSettings::new("demo"), aws.clock())
            .list(&class(terms))
            .await
            .unwrap();
        let short = |group: &SecurityGroup| group.id.trim_start_matches("sg-").trim_start_matches('0').to_owned();
        (groups.iter().map(short).collect::<Vec<_>>().join(" "), aws.calls().len())
    }

    // spec 06 #11, #12
    #[tokio::test(start_paused = true)]
    async fn terms_are_united_and_sorted_by_id() {
        let cases = [
            (json!([]), "", 0),
            (json!([{"id": "sg-3"}, {"id": "sg-00000000000000001"}]), "1 3", 1),
            (json!([{"name": "third"}, {"name": "default"}]), "1 3", 1),
            (json!([{"tags": {"team": "a", "env": "dev"}}]), "3", 1),
            (json!([{"tags": {"team": "a", "env": "prod"}}]), "", 1),
            (json!([{"tags": {"team": "*"}}, {"tags": {"karpenter.sh/discovery": "demo"}}]), "2 3", 2),
            (json!([{"tags": {"team": "*"}}, {"id": "sg-3"}, {"name": "third", "tags": {"team": "b"}}]), "3", 3),
        ];
        for (terms, expected, calls) in cases {
            assert_eq!(ids(terms.clone()).await, (expected.to_owned(), calls), "{terms}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_kept_for_a_minute_and_for_its_generation() {
        let aws = aws();
        let groups = SecurityGroups::new(Arc::new(aws.clone()), &AwsSettings::new("demo"), aws.clock());
        let mut class = class(json!([{"tags": {"karpenter.sh/discovery": "demo"}}]));
        for (advance_secs, generation, calls) in [(0, 1, 1), (59, 1, 1), (0, 2, 2), (1, 1, 3)] {
            tokio::time::advance(Duration::from_secs(advance_secs)).await;
            class.metadata.generation = Some(generation);
            assert_eq!(groups.list(&class).await.unwrap().len(), 1);
            assert_eq!(aws.calls().len(), calls);
        }
    }
}
