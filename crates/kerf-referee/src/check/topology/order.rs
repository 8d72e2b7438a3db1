//! Is there an order in which all pods can be bound where they are planned?
//!
//! Some pods depend on others being there (affinity), some on others not being there yet (the first of its kind, spread), so
//! the search is greedy in a telling order: pods whose own rules depend on the order first, the tightest spread before looser
//! ones; companions when nobody else can go on; the rest last. If that gets stuck, a number of random orders are tried. A
//! placement for which an order exists is thus not always recognised, but on everything that tests have seen it is.

use super::{Bound, Broken, Place, Topology};
use crate::random::Random;

/// How many random orders are tried when the telling one gets stuck, where a mistake would be a false accusation.
pub(crate) const MANY_TRIES: u64 = 24;

impl Topology<'_> {
    /// The movers that cannot be bound where they are planned, in any order that was tried; none if an order was found.
    pub(crate) fn stuck(&self, planned: &Bound, places: &[Place], tries: u64) -> Vec<(usize, Broken)> {
        let mut movers: Vec<usize> = (0..planned.len()).filter(|mover| planned[*mover].is_some()).collect();
        movers.sort_by_key(|mover| {
            let (matters, tightest) = self.urgency(*mover);
            (!matters, tightest, !self.is_companion(*mover))
        });
        let stuck = self.bind_in(&movers, planned, places);
        if stuck.is_empty() {
            return stuck;
        }
        let found = (0..tries).any(|seed| {
            let mut order = movers.clone();
            Random::new(seed).shuffle(&mut order);
            self.bind_in(&order, planned, places).is_empty()
        });
        if found { Vec::new() } else { stuck }
    }

    /// Binds the first mover of the order that can be bound, again and again; returns those that are left.
    fn bind_in(&self, order: &[usize], planned: &Bound, places: &[Place]) -> Vec<(usize, Broken)> {
        let mut bound: Bound = vec![None; planned.len()];
        let mut left = order.to_vec();
        loop {
            let allowed = |mover: &usize| {
                planned[*mover].is_some_and(|place| self.objection(*mover, place, &bound, places).is_none())
            };
            let Some(next) = left.iter().position(allowed) else { break };
            let mover = left.remove(next);
            bound[mover] = planned[mover];
        }
        let why = |mover: usize| {
            let place = planned[mover]?;
            Some((mover, self.objection(mover, place, &bound, places)?))
        };
        left.into_iter().filter_map(why).collect()
    }
}
