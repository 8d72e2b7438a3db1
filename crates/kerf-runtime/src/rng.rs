//! Seeded random numbers, for example for the jitter that keeps many clients from retrying at the
//! same instant.
//!
//! Invariant: all randomness comes from a seed, so that a run can be repeated.

use std::time::Duration;

/// Random number generator whose output depends only on its seed and purpose (`SplitMix64`).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates the generator for one purpose. Each purpose has its own stream: numbers drawn for
    /// one purpose do not change the numbers of another.
    pub fn new(seed: u64, purpose: &str) -> Self {
        let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
        for byte in purpose.bytes() {
            state = mix(state ^ u64::from(byte)).wrapping_add(0x9e37_79b9_7f4a_7c15);
        }
        Self(state)
    }

    /// Returns the next number of the stream.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `bound`, or zero if `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns an identifier in the form of a version 4 UUID.
    pub fn uuid(&mut self) -> String {
        let (high, low) = (self.next_u64(), self.next_u64());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | (low >> 50),
            low & 0xffff_ffff_ffff
        )
    }

    /// Returns `base` plus a random part of up to `percent` percent of `base`.
    pub fn jittered(&mut self, base: Duration, percent: u32) -> Duration {
        let spread = base * percent / 100;
        base + Duration::from_nanos(self.below(u64::try_from(spread.as_nanos()).unwrap_or(u64::MAX)))
    }
}

fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_the_stream_of_each_purpose() {
        let series = |seed| {
            let mut rng = Rng::new(seed, "x");
            (0..50).map(|_| rng.jittered(Duration::from_secs(1), 20)).collect::<Vec<_>>()
        };
        assert_eq!(series(3), series(3));
        assert_ne!(series(3), series(4));
        assert!(series(3).iter().all(|wait| (1.0..1.2).contains(&wait.as_secs_f64())));
        assert_ne!(Rng::new(3, "x").next_u64(), Rng::new(3, "y").next_u64());
        let lengths: Vec<usize> = Rng::new(3, "x").uuid().split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
    }
}
