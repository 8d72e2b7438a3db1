//! Delays before a retry: exponential back-off, a token bucket, and random jitter that keeps many
//! clients from retrying at the same instant.
//!
//! Invariants: all randomness comes from a seed, so that a run can be repeated. No delay is longer
//! than its maximum.

use std::time::Duration;

use tokio::time::Instant;

/// Exponential back-off: the delay doubles with each failure in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Delay after the first failure.
    pub base: Duration,
    /// Upper bound of the delay.
    pub max: Duration,
}

impl Backoff {
    /// Back-off of controllers that configure no other: from 5 ms, doubling up to 1000 s.
    pub const DEFAULT: Self = Self { base: Duration::from_millis(5), max: Duration::from_secs(1000) };

    /// Returns the delay after `failures` failures in a row. Returns zero if there was no failure.
    pub fn delay(&self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
        let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
        self.base.checked_mul(factor).map_or(self.max, |delay| delay.min(self.max))
    }
}

/// Rate and burst of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Tokens added per second; zero counts as one.
    pub per_second: u32,
    /// Largest number of tokens that the bucket holds.
    pub burst: u32,
}

/// Token bucket with a given [`Rate`]. A reservation may take a token that does not exist yet; its
/// caller waits until it does.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    rate: Rate,
    /// Instant at which the bucket was last empty. It holds the tokens added between then and now.
    /// The instant lies in the future while tokens are reserved in advance.
    empty_at: Instant,
}

impl TokenBucket {
    pub(crate) fn new(rate: Rate, now: Instant) -> Self {
        Self { rate, empty_at: now.checked_sub(Self::refill_time(rate, rate.burst)).unwrap_or(now) }
    }

    /// Takes one token. Returns the time to wait until that token exists, or zero if it exists
    /// already.
    pub(crate) fn reserve(&mut self, now: Instant) -> Duration {
        let fullest = now.checked_sub(Self::refill_time(self.rate, self.rate.burst)).unwrap_or(self.empty_at);
        self.empty_at = self.empty_at.max(fullest) + Self::refill_time(self.rate, 1);
        self.empty_at.saturating_duration_since(now)
    }

    fn refill_time(rate: Rate, tokens: u32) -> Duration {
        Duration::from_secs(1) * tokens / rate.per_second.max(1)
    }
}

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
    fn delays_double_up_to_the_most() {
        let backoff = Backoff { base: Duration::from_millis(100), max: Duration::from_secs(10) };
        let seconds: Vec<f64> = (0..10).map(|failures| backoff.delay(failures).as_secs_f64()).collect();
        assert_eq!(seconds, [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]);
        assert_eq!(backoff.delay(u32::MAX), backoff.max);
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = TokenBucket::new(Rate { per_second: 10, burst: 3 }, Instant::now());
        let waits: Vec<u128> = (0..5).map(|_| bucket.reserve(Instant::now()).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        tokio::time::advance(Duration::from_mins(1)).await;
        let waits: Vec<u128> = (0..4).map(|_| bucket.reserve(Instant::now()).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100], "it never holds more than its burst");
    }

    #[test]
    fn one_seed_one_series_of_jitter() {
        let series = |seed| {
            let mut chance = Rng::new(seed, "x");
            (0..50).map(|_| chance.jittered(Duration::from_secs(1), 20)).collect::<Vec<_>>()
        };
        assert_eq!(series(3), series(3));
        assert_ne!(series(3), series(4));
        assert!(series(3).iter().all(|wait| (1.0..1.2).contains(&wait.as_secs_f64())));
        assert_ne!(Rng::new(3, "x").next_u64(), Rng::new(3, "y").next_u64());
        let lengths: Vec<usize> = Rng::new(3, "x").uuid().split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
    }
}
