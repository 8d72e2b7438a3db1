//! Random numbers from a seed (splitmix64): a seed gives the same numbers on every computer.

/// A seeded generator of random numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Creates the generator for a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed);
        random.next_u64();
        random
    }

    /// Returns the next random number, any 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number less than `bound`, or 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        // The high half of a wide product needs no division, and its bias is too small for a test
        // to notice.
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Returns true with a probability of `percent` in 100.
    pub fn happens_percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns one of the items. Panics if there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Returns a random subset of the items in their original order: at least `least` of them, or
    /// all if there are fewer.
    pub fn pick_subset<T: Clone>(&mut self, items: &[T], least: usize) -> Vec<T> {
        let mut order: Vec<usize> = (0..items.len()).collect();
        self.shuffle(&mut order);
        order.truncate(self.between(least.min(items.len()), items.len()));
        order.sort_unstable();
        order.into_iter().map(|i| items[i].clone()).collect()
    }

    /// Puts the items in random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_everything() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..5).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn draws_stay_in_their_bounds() {
        let mut random = Random::new(1);
        for _ in 0..1000 {
            assert!((3..=5).contains(&random.between(3, 5)));
            let subset = random.pick_subset(&[1, 2, 3, 4], 2);
            assert!(subset.len() >= 2 && subset.is_sorted());
        }
        assert_eq!(random.below(0), 0);
        assert!(!random.happens_percent(0) && random.happens_percent(100));
    }
}
