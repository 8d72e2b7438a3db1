//! A capacity reservation, placement groups and zonal shift for `kerf aws serve` and the sandbox,
//! so that node classes that select them can be tried. They change nothing unless a class selects
//! them.

use super::Account;
use crate::ports::Tags;
use crate::ports::ec2::{Ec2CapacityReservation, PlacementGroup};

/// Tag by which guides let node classes find resources.
const DISCOVERY_TAG: &str = "karpenter.sh/discovery";

impl Account {
    /// Adds a targeted reservation of two `m5.large` in the first zone and a placement group of
    /// each strategy, all tagged for a cluster, and enables the cluster for zonal shift.
    pub fn add_example_capacity(&mut self, cluster_name: &str) {
        let tags = Tags::from([(DISCOVERY_TAG.to_owned(), cluster_name.to_owned())]);
        if let Some(zone) = self.zones.first() {
            let reservation = Ec2CapacityReservation {
                id: "cr-00000000000000001".to_owned(),
                owner_id: self.account_id.clone(),
                instance_type: "m5.large".to_owned(),
                zone: zone.name.clone(),
                zone_id: zone.id.clone(),
                state: "active".to_owned(),
                instance_match_criteria: "targeted".to_owned(),
                reservation_type: "default".to_owned(),
                total_instance_count: 2,
                available_instance_count: 2,
                tags: tags.clone(),
                ..Ec2CapacityReservation::default()
            };
            self.capacity_reservations.insert(reservation.id.clone(), reservation);
        }
        for (id, strategy, partition_count, spread_level) in [
            ("pg-00000000000000001", "cluster", None, None),
            ("pg-00000000000000002", "partition", Some(3), None),
            ("pg-00000000000000003", "spread", None, Some("rack".to_owned())),
        ] {
            let group = PlacementGroup {
                id: id.to_owned(),
                name: format!("{cluster_name}-{strategy}"),
                state: "available".to_owned(),
                strategy: strategy.to_owned(),
                partition_count,
                spread_level,
                tags: tags.clone(),
            };
            self.placement_groups.insert(group.id.clone(), group);
        }
        if let Some(arn) = self.clusters.get(cluster_name).and_then(|cluster| cluster.arn.clone()) {
            self.zonal_shifts.entry(arn).or_default();
        }
    }
}
