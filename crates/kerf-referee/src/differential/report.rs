//! What came of a comparison.

use std::fmt;

use crate::check::Violation;
use crate::generator::ClusterSize;
use crate::price::Price;

/// Kerf and Karpenter on a number of worlds.
#[derive(Debug, Clone, Default)]
pub struct DifferentialReport {
    /// World by world.
    pub comparisons: Vec<WorldComparison>,
}

/// Kerf and Karpenter on one world.
#[derive(Debug, Clone)]
pub struct WorldComparison {
    /// The world's seed.
    pub seed: u64,
    /// The world's size.
    pub size: ClusterSize,
    /// Why there is nothing to compare, if so.
    pub failure: Option<String>,
    /// How many pods Kerf places.
    pub placed: usize,
    /// What Kerf's new nodes cost.
    pub price: Price,
    /// The constraints that Kerf's plan breaks.
    pub violations: Vec<Violation>,
    /// The pods that Kerf leaves out although Karpenter places as many of their kind in every lawful run.
    pub left_out: Vec<String>,
    /// The median number of pods that Karpenter's lawful runs place; `None` if no run was lawful.
    pub karpenter_placed: Option<usize>,
    /// The median price of Karpenter's lawful runs that place as many pods as Kerf; `None` if there is none.
    pub karpenter_price: Option<Price>,
}

impl WorldComparison {
    pub(super) fn failed(seed: u64, size: ClusterSize, why: String) -> Self {
        Self {
            seed,
            size,
            failure: Some(why),
            placed: 0,
            price: Price::ZERO,
            violations: Vec::new(),
            left_out: Vec::new(),
            karpenter_placed: None,
            karpenter_price: None,
        }
    }

    /// Kerf's price as a part of Karpenter's, where the two can be compared.
    pub fn ratio(&self) -> Option<f64> {
        let theirs = self.karpenter_price?;
        (self.price == theirs || theirs > Price::ZERO).then(|| self.price.ratio_to(theirs))
    }

    /// Whether Kerf places fewer pods.
    pub fn places_fewer(&self) -> bool {
        self.karpenter_placed.is_some_and(|theirs| self.placed < theirs)
    }

    /// Whether Kerf pays more for the same pods.
    pub fn is_more_expensive(&self) -> bool {
        self.karpenter_price.is_some_and(|theirs| self.price > theirs)
    }
}

impl DifferentialReport {
    /// Whether Kerf is lawful, complete and never dearer, on worlds that could all be compared.
    pub fn is_clean(&self) -> bool {
        self.regressions().next().is_none()
    }

    /// The worlds on which Kerf does worse, or that failed.
    pub fn regressions(&self) -> impl Iterator<Item = &WorldComparison> {
        self.comparisons.iter().filter(|c| {
            let leaves_out = !c.left_out.is_empty() || c.places_fewer();
            c.failure.is_some() || !c.violations.is_empty() || leaves_out || c.is_more_expensive()
        })
    }

    /// The price ratios of all worlds that have one, ascending.
    pub fn ratios(&self) -> Vec<f64> {
        let mut ratios: Vec<f64> = self.comparisons.iter().filter_map(WorldComparison::ratio).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    }
}

impl fmt::Display for DifferentialReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ratios = self.ratios();
        writeln!(f, "{} worlds, {} with comparable prices", self.comparisons.len(), ratios.len())?;
        if !ratios.is_empty() {
            let at = |percent: usize| ratios[(ratios.len() - 1) * percent / 100];
            let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
            writeln!(
                f,
                "Kerf's price as a part of Karpenter's median: least {:.3}, 10% {:.3}, half {:.3}, 90% {:.3}, most {:.3}, mean {mean:.3}",
                at(0),
                at(10),
                at(50),
                at(90),
                at(100),
            )?;
        }
        for c in self.regressions() {
            writeln!(f, "world {} ({:?}):", c.seed, c.size)?;
            if let Some(why) = &c.failure {
                writeln!(f, "  {why}")?;
            }
            for violation in &c.violations {
                writeln!(f, "  breaks {violation}")?;
            }
            if !c.left_out.is_empty() {
                writeln!(f, "  leaves out {}", c.left_out.join(", "))?;
            }
            if let Some(theirs) = c.karpenter_placed.filter(|_| c.places_fewer()) {
                writeln!(f, "  places {} pods instead of {theirs}", c.placed)?;
            }
            if let Some(theirs) = c.karpenter_price.filter(|_| c.is_more_expensive()) {
                writeln!(f, "  costs {} instead of {theirs}", c.price)?;
            }
        }
        Ok(())
    }
}
