//! The placement group and the partition of a launch (spec 05 §9).

use std::sync::Arc;

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::labels::aws;
use kerf_engine::requirement::{EffectiveOperator, Requirements};

use crate::context::AwsContext;
use crate::ports::ec2::PlacementGroup;
use crate::unavailable_offerings::PoolScope;

/// The placement group and the partition of a launch.
#[derive(Debug, Clone, Default)]
pub(super) struct LaunchPlacement {
    /// `None` if the class has no group.
    group: Option<Arc<PlacementGroup>>,
    /// `None` if EC2 chooses the partition or the group has none.
    pub(super) partition: Option<i32>,
}

impl LaunchPlacement {
    /// Returns the placement of a claim with these requirements.
    pub(super) fn new(context: &AwsContext, class: &EC2NodeClass, requirements: &Requirements) -> Self {
        let group = context.known_groups.get(class);
        let has_partitions = group.as_ref().is_some_and(|group| group.has_partitions());
        let partition = if has_partitions { requested_partition(requirements) } else { None };
        Self { group, partition }
    }

    pub(super) fn group_id(&self) -> Option<&str> {
        self.group.as_ref().map(|group| group.id.as_str())
    }

    /// Returns the scope of the pools that the launch uses.
    pub(super) fn scope(&self) -> PoolScope {
        match (self.group_id().map(str::to_owned), self.partition) {
            (Some(group), Some(partition)) => PoolScope::Partition { group, partition },
            (group, _) => group.map_or(PoolScope::Unscoped, PoolScope::PlacementGroup),
        }
    }
}

/// Returns the lowest partition that the claim requires. Only `In` selects one: the values of
/// `NotIn` are those that it excludes (spec 05 §22, 4).
fn requested_partition(requirements: &Requirements) -> Option<i32> {
    let requirement = requirements.get(aws::PLACEMENT_GROUP_PARTITION)?;
    if requirement.operator() != EffectiveOperator::In {
        return None;
    }
    requirement.values().iter().filter_map(|value| value.parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use kerf_api::labels::LabelRules;
    use kerf_api::slim::{NodeSelectorOperator, Str};
    use kerf_engine::requirement::Requirement;

    use super::*;

    // spec 05 §22, 4: partitions compare as numbers
    #[test]
    fn only_in_selects_the_lowest_partition() {
        let key = || Str::new_static(aws::PLACEMENT_GROUP_PARTITION);
        let values = || ["10", "9", "x"].map(Str::new_static);
        let excluded =
            Requirement::new(&LabelRules::aws(), &key(), &NodeSelectorOperator::NotIn, &values(), None).unwrap();
        let partition = |requirement: Requirement| requested_partition(&[requirement].into_iter().collect());
        assert_eq!(partition(Requirement::one_of(key(), values())), Some(9));
        assert_eq!(partition(excluded), None);
        assert_eq!(partition(Requirement::does_not_exist(key())), None);
        assert_eq!(requested_partition(&Requirements::default()), None);
    }
}
