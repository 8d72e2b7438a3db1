//! Delays before a retry: exponential back-off and a token bucket.
//!
//! Invariant: no back-off delay is longer than its maximum.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum() {
        let backoff = Backoff { base: Duration::from_millis(100), max: Duration::from_secs(10) };
        let seconds: Vec<f64> = (0..10).map(|failures| backoff.delay(failures).as_secs_f64()).collect();
        assert_eq!(seconds, [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]);
        assert_eq!(backoff.delay(u32::MAX), backoff.max);
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_allows_its_burst_and_then_its_rate() {
        let mut bucket = TokenBucket::new(Rate { per_second: 10, burst: 3 }, Instant::now());
        let waits: Vec<u128> = (0..5).map(|_| bucket.reserve(Instant::now()).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        tokio::time::advance(Duration::from_mins(1)).await;
        let waits: Vec<u128> = (0..4).map(|_| bucket.reserve(Instant::now()).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100], "the bucket never holds more than its burst");
    }
}
