//! The price of all nodes: by their labels, or by the list of the attached cloud.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kerf_api::slim::{Pod, PodPhase};

use super::super::report::CostComparison;
use super::InvariantChecker;
use crate::simulated_cloud::CloudInstance;

impl InvariantChecker {
    /// Records the prices of the live instances of the attached cloud. An instance costs money from
    /// its launch to its termination, with or without a Node.
    pub(in crate::sim) fn record_instance_prices(&mut self, instances: &[CloudInstance], now: Timestamp) {
        let price = |instance: &CloudInstance| (instance.provider_id.clone(), instance.micro_dollars_per_hour);
        let prices: BTreeMap<String, u64> = instances.iter().map(price).collect();
        let ended = self.instance_prices.keys().filter(|id| !prices.contains_key(*id));
        self.killed += ended.map(|id| self.running_pods_of_instance(id)).sum::<usize>();
        self.instance_prices = prices;
        for node in self.nodes.values_mut() {
            if let Some(price) = self.instance_prices.get(node.provider_id.as_str()) {
                node.price = *price;
            }
        }
        self.update_price(now);
    }

    /// Returns the number of running pods on the Node of an instance, without those of DaemonSets.
    fn running_pods_of_instance(&self, provider_id: &str) -> usize {
        let Some((node, _)) = self.nodes.iter().find(|(_, node)| node.provider_id == provider_id) else { return 0 };
        let runs = |pod: &Pod| pod.status.phase == PodPhase::Running && !pod.is_owned_by_daemonset();
        self.pods_on(node).filter(|record| runs(&record.pod)).count()
    }

    pub(super) fn update_price(&mut self, now: Timestamp) {
        let of_nodes: u64 = self.nodes.values().map(|node| node.label_price).sum();
        let rate = of_nodes + self.instance_prices.values().sum::<u64>();
        if rate != self.cost_meter.rate {
            self.cost_meter.set_rate(now, rate);
        }
    }

    /// Returns the price of all nodes beside that of the best plan.
    pub(in crate::sim) fn compare_cost(&self, best_micro_dollars_per_hour: u64, now: Timestamp) -> CostComparison {
        let (at_seconds, micro_dollars_per_hour) = (self.seconds_since_start(now), self.micro_dollars_per_hour());
        CostComparison { at_seconds, micro_dollars_per_hour, best_micro_dollars_per_hour }
    }

    /// Returns the total price of all nodes.
    pub(in crate::sim) fn micro_dollars_per_hour(&self) -> u64 {
        self.cost_meter.rate
    }
}
