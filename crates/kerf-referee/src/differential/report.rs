//! Result of a comparison of provisioning plans.

use std::fmt;

use crate::check::Violation;
use crate::generator::ClusterSize;
use crate::price::Price;

/// Comparison of Kerf and Karpenter on a number of clusters.
#[derive(Debug, Clone, Default)]
pub struct DifferentialReport {
    /// One comparison for each cluster.
    pub comparisons: Vec<WorldComparison>,
}

/// Comparison of Kerf and Karpenter on one cluster.
#[derive(Debug, Clone)]
pub struct WorldComparison {
    /// Seed of the cluster.
    pub seed: u64,
    /// Size of the cluster.
    pub size: ClusterSize,
    /// Reason why there is nothing to compare; `None` if the comparison succeeded.
    pub failure: Option<String>,
    /// Number of pods that Kerf places.
    pub placed: usize,
    /// Price of Kerf's new nodes.
    pub price: Price,
    /// Constraints that Kerf's plan breaks.
    pub violations: Vec<Violation>,
    /// Pods that Kerf leaves out although every valid run of Karpenter places as many equivalent
    /// pods.
    pub left_out: Vec<String>,
    /// Median number of pods that Karpenter's valid runs place; `None` if no run is valid.
    pub karpenter_placed: Option<usize>,
    /// Median price of Karpenter's valid runs that place as many pods as Kerf; `None` if there are
    /// none.
    pub karpenter_price: Option<Price>,
}

impl WorldComparison {
    pub(super) fn failed(seed: u64, size: ClusterSize, reason: String) -> Self {
        Self {
            seed,
            size,
            failure: Some(reason),
            placed: 0,
            price: Price::ZERO,
            violations: Vec::new(),
            left_out: Vec::new(),
            karpenter_placed: None,
            karpenter_price: None,
        }
    }

    /// Returns Kerf's price as a fraction of Karpenter's, or `None` if they cannot be compared.
    pub fn ratio(&self) -> Option<f64> {
        let karpenter = self.karpenter_price?;
        (self.price == karpenter || karpenter > Price::ZERO).then(|| self.price.ratio_to(karpenter))
    }

    /// Returns true if Kerf places fewer pods than the median of Karpenter's runs.
    pub fn places_fewer(&self) -> bool {
        self.karpenter_placed.is_some_and(|karpenter| self.placed < karpenter)
    }

    /// Returns true if Kerf pays more than Karpenter for the same number of pods.
    pub fn is_more_expensive(&self) -> bool {
        self.karpenter_price.is_some_and(|karpenter| self.price > karpenter)
    }
}

impl DifferentialReport {
    /// Returns true if no comparison failed and Kerf does worse on no cluster.
    pub fn is_clean(&self) -> bool {
        self.regressions().next().is_none()
    }

    /// Returns the comparisons that failed and those in which Kerf does worse.
    pub fn regressions(&self) -> impl Iterator<Item = &WorldComparison> {
        self.comparisons.iter().filter(|c| {
            let leaves_out = !c.left_out.is_empty() || c.places_fewer();
            c.failure.is_some() || !c.violations.is_empty() || leaves_out || c.is_more_expensive()
        })
    }

    /// Returns the price ratios of all clusters that have one, ascending.
    pub fn ratios(&self) -> Vec<f64> {
        let mut ratios: Vec<f64> = self.comparisons.iter().filter_map(WorldComparison::ratio).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    }
}

impl fmt::Display for DifferentialReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ratios = self.ratios();
        writeln!(f, "{} clusters, {} with comparable prices", self.comparisons.len(), ratios.len())?;
        if !ratios.is_empty() {
            let at = |percent: usize| ratios[(ratios.len() - 1) * percent / 100];
            let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
            writeln!(
                f,
                "Kerf's price divided by Karpenter's median: min {:.3}, p10 {:.3}, p50 {:.3}, p90 {:.3}, max {:.3}, mean {mean:.3}",
                at(0),
                at(10),
                at(50),
                at(90),
                at(100),
            )?;
        }
        for c in self.regressions() {
            writeln!(f, "cluster {} ({:?}):", c.seed, c.size)?;
            if let Some(reason) = &c.failure {
                writeln!(f, "  {reason}")?;
            }
            for violation in &c.violations {
                writeln!(f, "  breaks {violation}")?;
            }
            if !c.left_out.is_empty() {
                writeln!(f, "  leaves pods unplaced: {}", c.left_out.join(", "))?;
            }
            if let Some(karpenter) = c.karpenter_placed.filter(|_| c.places_fewer()) {
                writeln!(f, "  places {} pods instead of {karpenter}", c.placed)?;
            }
            if let Some(karpenter) = c.karpenter_price.filter(|_| c.is_more_expensive()) {
                writeln!(f, "  costs {} instead of {karpenter}", c.price)?;
            }
        }
        Ok(())
    }
}
