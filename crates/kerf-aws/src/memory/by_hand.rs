//! Changes of the account that people make beside the calls of the provider: tags, subnets,
//! reservations and settings of EC2 itself.

use std::collections::BTreeMap;
use std::time::Duration;

use super::MemoryAws;
use super::market::{CAPACITY_BLOCK, CapacityPool, PoolPattern, SeededSpotPrices};
use super::reserved_launches::RESERVED_CAPACITY;
use super::validation::TAGS_MAX;
use crate::ports::Tags;
use crate::ports::ec2::{InstanceTypeOffering, Subnet};

impl MemoryAws {
    /// Returns true if the account has a pool that a pattern matches.
    pub fn has_pool(&self, pools: &PoolPattern) -> bool {
        let capacity_types = ["on-demand", "spot", RESERVED_CAPACITY, CAPACITY_BLOCK];
        self.state().account.offerings.iter().any(|InstanceTypeOffering { instance_type, zone }| {
            let pool = |capacity_type: &str| CapacityPool::new(instance_type, zone, capacity_type);
            capacity_types.into_iter().any(|capacity_type| pools.matches(&pool(capacity_type)))
        })
    }

    /// Adds and removes tags of the resources whose ID matches. Returns the number of resources.
    /// A resource that would have too many tags stays as it is.
    pub fn change_tags(
        &self,
        is_changed: impl Fn(&str) -> bool,
        add: &BTreeMap<String, String>,
        remove: &[String],
    ) -> usize {
        let mut state = self.state();
        let account = &state.account;
        let ids = state.instances.keys().chain(account.subnets.keys()).chain(account.security_groups.keys());
        let ids = ids.chain(account.images.keys());
        let ids: Vec<String> = ids.filter(|id| is_changed(id)).cloned().collect();
        for id in &ids {
            if let Some(tags) = state.tags_of(id) {
                let mut changed: Tags = tags.clone();
                changed.extend(add.clone());
                changed.retain(|key, _| !remove.contains(key));
                if changed.len() <= TAGS_MAX {
                    *tags = changed;
                }
            }
        }
        state.instance_changes += 1;
        self.notify_changes(&state);
        ids.len()
    }

    /// Sets the number of free addresses of the subnets for which `is_changed` returns true, beside
    /// the addresses in use. Returns the number of subnets.
    pub fn set_free_addresses(&self, is_changed: impl Fn(&Subnet) -> bool, free: u32) -> usize {
        let mut state = self.state();
        let ids: Vec<String> = state
            .account
            .subnets
            .values()
            .filter(|subnet| is_changed(subnet))
            .map(|subnet| subnet.id.clone())
            .collect();
        for id in &ids {
            let used = state.used_addresses(id);
            if let Some(subnet) = state.account.subnets.get_mut(id) {
                subnet.available_ip_count = i32::try_from(free.saturating_add(used)).unwrap_or(i32::MAX);
            }
        }
        ids.len()
    }

    /// Ends a capacity reservation: its instances become on-demand instances, those of a capacity
    /// block are terminated. Returns false if there is no such active reservation.
    pub fn expire_capacity_reservation(&self, id: &str) -> bool {
        let now = self.clock().now();
        let mut state = self.state();
        state.advance(now);
        let is_active = state.account.capacity_reservations.get(id).is_some_and(|own| own.state == "active");
        if is_active {
            state.expire_reservation(id, now);
        }
        self.notify_changes(&state);
        is_active
    }

    /// Sets the time for which `DescribeInstances` does not know instances that are launched from
    /// now on.
    pub fn set_instances_visible_after(&self, delay: Duration) {
        self.state().settings.instances_visible_after = delay;
    }

    /// Lets spot prices follow from the seed of the account and change at this interval.
    pub fn set_spot_price_interval(&self, change_every: Duration) {
        let seed = self.state().settings.seed;
        let prices = SeededSpotPrices { seed, change_every: Some(change_every) };
        self.change_market(|market| market.set_seeded_spot_prices(Some(prices)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SUBNETS, aws, fleet, on_demand, template};
    use super::*;
    use crate::ports::ec2::{
        CreateLaunchTemplate, Ec2CapacityReservation, InstanceStateName, TemplateCapacityReservation,
    };
    use crate::ports::{Ec2 as _, PageRequest};

    async fn launch(aws: &MemoryAws, request: CreateLaunchTemplate) -> String {
        let name = request.name.clone();
        aws.create_launch_template(request).await.unwrap();
        let mut answer = aws.create_fleet(fleet(1, on_demand(), &name, &[("m5.large", SUBNETS[0])])).await.unwrap();
        assert_eq!(answer.errors, []);
        answer.instances.remove(0).ids.remove(0)
    }

    #[tokio::test(start_paused = true)]
    async fn tags_and_free_addresses_are_changed_by_hand() {
        let aws = aws();
        let id = launch(&aws, template(&aws, "demo")).await;
        let add = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
        assert_eq!(aws.change_tags(|own| own == id, &add, &["karpenter.sh/nodepool".to_owned()]), 1);
        let tags = aws.instances().remove(0).instance.tags;
        assert_eq!((tags.get("team").map(String::as_str), tags.get("karpenter.sh/nodepool")), (Some("a"), None));
        assert_eq!(aws.change_tags(|own| own.starts_with("subnet-01"), &Tags::new(), &["Name".to_owned()]), 3);
        assert_eq!(aws.change_tags(|own| own == "i-1", &add, &[]), 0);
        assert_eq!(aws.set_free_addresses(|subnet| subnet.id == SUBNETS[0], 1), 1);
        let subnets = aws.describe_subnets(vec![], PageRequest::default()).await.unwrap();
        assert_eq!(subnets.items[0].available_ip_count, 1, "without the address of the instance");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pattern_matches_pools_of_the_account_or_none() {
        let aws = aws();
        let has = |instance_type: &str, zone: &str, capacity_type: &str| {
            let [instance_type, zone, capacity_type] = [instance_type, zone, capacity_type].map(str::to_owned);
            aws.has_pool(&PoolPattern { instance_type, zone, capacity_type })
        };
        assert!(has("", "", "") && has("m5.*", "us-west-2b", "spot") && has("", "", "reserved-*"));
        assert!(!has("m55.*", "", "") && !has("", "us-west-2d", "") && !has("", "", "spots"));
    }

    fn reservation(is_block: bool, ends_in: Option<Duration>) -> Ec2CapacityReservation {
        let now: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        Ec2CapacityReservation {
            id: "cr-1".to_owned(),
            instance_type: "m5.large".to_owned(),
            zone: "us-west-2a".to_owned(),
            state: "active".to_owned(),
            reservation_type: if is_block { "capacity-block" } else { "default" }.to_owned(),
            available_instance_count: 1,
            ends_at: ends_in.map(|duration| now + duration),
            ..Ec2CapacityReservation::default()
        }
    }

    async fn aws_with_reserved_instance(own: Ec2CapacityReservation) -> MemoryAws {
        let aws = aws();
        aws.change_account(|account| account.capacity_reservations.insert("cr-1".into(), own));
        let mut request = template(&aws, "reserved");
        request.data.capacity_reservation = Some(TemplateCapacityReservation {
            preference: "capacity-reservations-only".to_owned(),
            reservation_id: Some("cr-1".to_owned()),
        });
        launch(&aws, request).await;
        aws.run_pending_instances();
        aws
    }

    // spec 06 §11.5
    #[tokio::test(start_paused = true)]
    async fn instances_of_an_expired_reservation_become_on_demand() {
        let aws = aws_with_reserved_instance(reservation(false, Some(Duration::from_mins(10)))).await;
        assert_eq!(aws.next_transition_at(), Some(aws.clock().now() + Duration::from_secs(10)));
        tokio::time::advance(Duration::from_mins(10)).await;
        let instance = aws.instances().remove(0).instance;
        assert_eq!((instance.capacity_reservation_id, instance.state), (None, InstanceStateName::Running));
        aws.change_account(|account| assert_eq!(account.capacity_reservations["cr-1"].state, "expired"));
        assert!(!aws.expire_capacity_reservation("cr-1") && !aws.expire_capacity_reservation("cr-2"));
    }

    // spec 06 §11.1
    #[tokio::test(start_paused = true)]
    async fn instances_of_a_capacity_block_are_terminated_half_an_hour_before_its_end() {
        let aws = aws_with_reserved_instance(reservation(true, Some(Duration::from_hours(1)))).await;
        tokio::time::advance(Duration::from_mins(30)).await;
        let instance = aws.instances().remove(0).instance;
        assert_eq!(instance.state, InstanceStateName::ShuttingDown);
        assert_eq!(instance.state_reason.as_deref(), Some("Server.CapacityBlockExpired"));
    }
}
