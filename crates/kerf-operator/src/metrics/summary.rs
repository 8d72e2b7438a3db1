//! The observations behind a summary: those of the last ten minutes, thinned out when there are too
//! many.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

/// Time for which an observation counts.
const OBSERVATION_TTL: SignedDuration = SignedDuration::from_mins(10);
/// The largest number of observations kept. With this many, evenly thinned, a quantile is off by
/// less than 1%.
const OBSERVATIONS_MAX: usize = 2048;
/// The quantiles that are published.
const QUANTILES: [f64; 5] = [0.0, 0.5, 0.9, 0.99, 1.0];

#[derive(Debug, Default)]
pub(super) struct SummaryWindow {
    observed: VecDeque<(Timestamp, f64)>,
}

impl SummaryWindow {
    pub(super) fn add(&mut self, value: f64, now: Timestamp) {
        while self.observed.front().is_some_and(|(at, _)| now.duration_since(*at) > OBSERVATION_TTL) {
            self.observed.pop_front();
        }
        if self.observed.len() >= OBSERVATIONS_MAX {
            self.thin();
        }
        self.observed.push_back((now, value));
    }

    /// Removes every other observation in order of size, which preserves the distribution. The
    /// smallest and the largest are kept.
    fn thin(&mut self) {
        let mut by_size: Vec<(Timestamp, f64)> = self.observed.drain(..).collect();
        by_size.sort_by(|a, b| a.1.total_cmp(&b.1));
        let last = by_size.len() - 1;
        let mut kept: Vec<_> = by_size
            .into_iter()
            .enumerate()
            .filter(|(i, _)| i % 2 == 0 || *i == last)
            .map(|(_, observation)| observation)
            .collect();
        kept.sort_by_key(|(at, _)| *at);
        self.observed = kept.into();
    }

    /// Returns each quantile with its value. The value is `None` without recent observations.
    pub(super) fn quantiles(&self, now: Timestamp) -> [(f64, Option<f64>); 5] {
        let mut values: Vec<f64> = self
            .observed
            .iter()
            .filter(|(at, _)| now.duration_since(*at) <= OBSERVATION_TTL)
            .map(|(_, value)| *value)
            .collect();
        values.sort_by(f64::total_cmp);
        QUANTILES.map(|quantile| {
            let rank = (quantile * values.len() as f64).ceil() as usize;
            (quantile, values.get(rank.saturating_sub(1)).copied())
        })
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn quantiles_are_of_the_last_ten_minutes_and_survive_thinning() {
        let start: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let mut window = SummaryWindow::default();
        assert!(window.quantiles(start).iter().all(|(_, value)| value.is_none()));
        for i in 0..10_000 {
            window.add(f64::from((i * 7919) % 10_000), start);
        }
        let values = window.quantiles(start).map(|(_, value)| value.unwrap());
        assert!(window.observed.len() <= OBSERVATIONS_MAX);
        for (value, expected) in values.into_iter().zip([0.0, 5000.0, 9000.0, 9900.0, 9999.0]) {
            assert!((value - expected).abs() <= 100.0, "{value} is about {expected}");
        }
        let later = start.saturating_add(SignedDuration::from_mins(11)).unwrap();
        assert_eq!(window.quantiles(later)[4].1, None);
        window.add(3.0, later);
        assert_eq!(window.observed.len(), 1);
    }
}
