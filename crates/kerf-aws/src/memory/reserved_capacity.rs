//! Capacity reservations and placement groups, and the instances in them.

use super::AwsFailure;
use super::filters::{check_filters, matches_filters};
use super::paging::PageLimits;
use super::state::AwsState;
use crate::ports::ec2::{
    DescribeCapacityReservations, DescribePlacementGroups, Ec2CapacityReservation, PlacementGroup,
};
use crate::ports::{Page, PageRequest};

const RESERVATIONS: PageLimits = PageLimits { min: 1, max: 1000, default: Some(1000) };

const RESERVATION_FILTERS: [&str; 6] =
    ["instance-type", "owner-id", "availability-zone", "availability-zone-id", "state", "instance-match-criteria"];

const GROUP_FILTERS: [&str; 5] = ["group-id", "group-name", "state", "strategy", "spread-level"];

impl AwsState {
    pub(super) fn describe_capacity_reservations(
        &self,
        request: &DescribeCapacityReservations,
        page: &PageRequest,
    ) -> Result<Page<Ec2CapacityReservation>, AwsFailure> {
        let (ids, filters, known) = (&request.ids, &request.filters, &self.account.capacity_reservations);
        if !ids.is_empty() && page.max_results.is_some() {
            let message = "The parameter MaxResults cannot be used with the parameter CapacityReservationIds";
            return Err(AwsFailure::bad_request("InvalidParameterCombination", message));
        }
        check_filters(filters, &RESERVATION_FILTERS, true)?;
        if let Some(id) = ids.iter().find(|id| !known.contains_key(*id)) {
            let message = format!("The capacity reservation ID '{id}' does not exist");
            return Err(AwsFailure::bad_request("InvalidCapacityReservationId.NotFound", message));
        }
        let matching = known.values().filter(|own| ids.is_empty() || ids.contains(&own.id)).filter(|own| {
            matches_filters(filters, Some(&own.tags), |name| match name {
                "instance-type" => vec![&own.instance_type],
                "owner-id" => vec![&own.owner_id],
                "availability-zone" => vec![&own.zone],
                "availability-zone-id" => vec![&own.zone_id],
                "state" => vec![&own.state],
                _ => vec![&own.instance_match_criteria],
            })
        });
        let with_free_count = |own: &Ec2CapacityReservation| Ec2CapacityReservation {
            available_instance_count: self.free_instances(own),
            ..own.clone()
        };
        self.page(matching, |own| own.id.clone(), with_free_count, page, RESERVATIONS)
    }

    pub(super) fn describe_placement_groups(
        &self,
        request: &DescribePlacementGroups,
    ) -> Result<Vec<PlacementGroup>, AwsFailure> {
        let (filters, known) = (&request.filters, &self.account.placement_groups);
        check_filters(filters, &GROUP_FILTERS, true)?;
        let is_known_name = |name: &String| known.values().any(|group| group.name == *name);
        let unknown_id = request.ids.iter().find(|id| !known.contains_key(*id));
        if let Some(text) = unknown_id.or_else(|| request.names.iter().find(|name| !is_known_name(name))) {
            return Err(unknown_group(text));
        }
        let is_requested = |group: &&PlacementGroup| {
            (request.ids.is_empty() || request.ids.contains(&group.id))
                && (request.names.is_empty() || request.names.contains(&group.name))
        };
        let matching = known.values().filter(is_requested).filter(|group| {
            matches_filters(filters, Some(&group.tags), |name| match name {
                "group-id" => vec![&group.id],
                "group-name" => vec![&group.name],
                "state" => vec![&group.state],
                "strategy" => vec![&group.strategy],
                _ => group.spread_level.as_deref().into_iter().collect(),
            })
        });
        Ok(matching.cloned().collect())
    }

    /// Returns the number of instances that can still be launched into a reservation.
    pub(super) fn free_instances(&self, reservation: &Ec2CapacityReservation) -> i32 {
        let instances = self.instances.values().map(|launched| &launched.instance);
        let used = instances.filter(|instance| {
            instance.capacity_reservation_id.as_ref() == Some(&reservation.id) && !instance.state.is_terminating()
        });
        let used = i32::try_from(used.count()).unwrap_or(i32::MAX);
        reservation.available_instance_count.saturating_sub(used).max(0)
    }
}

/// Returns EC2's answer to an ID or a name of a placement group that does not exist.
pub(super) fn unknown_group(text: &str) -> AwsFailure {
    AwsFailure::bad_request("InvalidPlacementGroup.Unknown", format!("The Placement Group '{text}' is unknown."))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{aws, aws_with};
    use super::super::{Account, MemorySettings};
    use super::*;
    use crate::ports::{Ec2 as _, Filter, Tags, all_pages};

    fn reservation(id: &str, tags: &[(&str, &str)]) -> Ec2CapacityReservation {
        Ec2CapacityReservation {
            id: id.to_owned(),
            owner_id: "111122223333".to_owned(),
            instance_type: "m5.large".to_owned(),
            zone: "us-west-2a".to_owned(),
            zone_id: "usw2-az1".to_owned(),
            state: "active".to_owned(),
            instance_match_criteria: "targeted".to_owned(),
            total_instance_count: 3,
            available_instance_count: 2,
            tags: tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            ..Ec2CapacityReservation::default()
        }
    }

    fn add_reservations(account: &mut Account) {
        let expired = Ec2CapacityReservation { state: "expired".to_owned(), ..reservation("cr-3", &[]) };
        for own in [reservation("cr-1", &[("team", "a")]), reservation("cr-2", &[("team", "b")]), expired] {
            account.capacity_reservations.insert(own.id.clone(), own);
        }
    }

    // spec 05 §8.1
    #[tokio::test(start_paused = true)]
    async fn reservations_are_found_by_id_and_filters() {
        let aws = aws();
        aws.change_account(add_reservations);
        let find = async |ids: &[&str], filters: Vec<Filter>, page: PageRequest| {
            let ids = ids.iter().map(|id| (*id).to_owned()).collect();
            let page = aws.describe_capacity_reservations(DescribeCapacityReservations { ids, filters }, page).await;
            page.map(|page| page.items.into_iter().map(|own| own.id).collect::<Vec<_>>().join(" "))
                .map_err(|error| error.code.unwrap_or_default())
        };
        let (any, first) = (PageRequest::default, || PageRequest::first(1000));
        assert_eq!(find(&[], vec![Filter::new("state", "active")], first()).await, Ok("cr-1 cr-2".into()));
        assert_eq!(find(&[], vec![Filter::new("tag:team", "a")], first()).await, Ok("cr-1".into()));
        assert_eq!(find(&[], vec![Filter::new("tag-key", "team")], first()).await, Ok("cr-1 cr-2".into()));
        assert_eq!(find(&["cr-3"], vec![], any()).await, Ok("cr-3".into()));
        assert_eq!(find(&["cr-3"], vec![Filter::new("state", "active")], any()).await, Ok(String::new()));
        assert_eq!(find(&["cr-9"], vec![], any()).await, Err("InvalidCapacityReservationId.NotFound".into()));
        assert_eq!(find(&["cr-1"], vec![], first()).await, Err("InvalidParameterCombination".into()));
        assert_eq!(find(&[], vec![Filter::new("colour", "red")], any()).await, Err("InvalidParameterValue".into()));
    }

    #[tokio::test(start_paused = true)]
    async fn reservations_are_described_in_pages_that_may_be_empty() {
        let settings =
            MemorySettings { page_size_max: Some(1), first_page_is_empty: true, ..MemorySettings::default() };
        let aws = aws_with(settings);
        aws.change_account(add_reservations);
        let reservations = all_pages(Some(1000), |page| {
            aws.describe_capacity_reservations(DescribeCapacityReservations::default(), page)
        });
        assert_eq!(reservations.await.unwrap().len(), 3);
        assert_eq!(aws.calls().len(), 4, "an empty page and one for each reservation");
    }

    // spec 05 §9
    #[tokio::test(start_paused = true)]
    async fn placement_groups_are_found_by_id_name_and_state() {
        let aws = aws();
        aws.change_account(|account| {
            for (id, name, state) in [("pg-1", "racks", "available"), ("pg-2", "pg-odd", "pending")] {
                let (id, name, state) = (id.to_owned(), name.to_owned(), state.to_owned());
                let strategy = "partition".to_owned();
                let group =
                    PlacementGroup { id, name, state, strategy, tags: Tags::new(), ..PlacementGroup::default() };
                account.placement_groups.insert(group.id.clone(), group);
            }
        });
        let available = vec![Filter::new("state", "available")];
        let find = async |ids: &[&str], names: &[&str], filters: &[Filter]| {
            let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
            let request = DescribePlacementGroups { ids: texts(ids), names: texts(names), filters: filters.to_vec() };
            let groups = aws.describe_placement_groups(request).await;
            groups
                .map(|groups| groups.into_iter().map(|group| group.id).collect::<Vec<_>>().join(" "))
                .map_err(|error| error.code.unwrap_or_default())
        };
        assert_eq!(find(&[], &[], &[]).await, Ok("pg-1 pg-2".into()));
        assert_eq!(find(&[], &["racks"], &available).await, Ok("pg-1".into()));
        assert_eq!(find(&["pg-2"], &[], &available).await, Ok(String::new()));
        assert_eq!(find(&[], &["pg-odd"], &[]).await, Ok("pg-2".into()));
        assert_eq!(find(&["pg-3"], &[], &[]).await, Err("InvalidPlacementGroup.Unknown".into()));
        assert_eq!(find(&[], &["pg-1"], &[]).await, Err("InvalidPlacementGroup.Unknown".into()));
    }
}
