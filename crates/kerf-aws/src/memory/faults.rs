//! Faults of AWS calls: errors, throttling, slow and lost answers.

use std::time::Duration;

use jiff::Timestamp;
use kerf_runtime::Rng;

use super::market::CapacityPool;

/// Largest number of rules that are added one by one; a further rule replaces the oldest.
const RULES_MAX: usize = 1_000;

/// A fault of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AwsFault {
    /// The service answers with an error; the call has no effect.
    Error {
        /// HTTP status of the answer.
        status: u16,
        /// Error code, for example `UnauthorizedOperation`.
        code: String,
        /// Message of the error.
        message: String,
    },
    /// The service answers with its throttling error; the call has no effect.
    Throttled,
    /// The call takes effect and is answered after a delay.
    Delayed {
        /// Length of the delay.
        by: Duration,
    },
    /// The call takes effect, and the caller gets no answer.
    LostAnswer,
}

/// A fault and the calls that it affects. Calls that match the service and the operation are
/// counted: the rule leaves out the first `skip` of them and then applies to the next `times`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsFaultRule {
    /// The fault to inject.
    pub fault: AwsFault,
    /// Name of the service, for example `EC2`; empty for all services.
    pub service: String,
    /// Name of the operation, for example `CreateFleet`; empty for all operations.
    pub operation: String,
    /// Number of matching calls before the first affected one.
    pub skip: u32,
    /// Number of affected calls; `None` for no limit.
    pub times: Option<u32>,
    /// End of the rule; `None` for no end.
    pub until: Option<Timestamp>,
    /// Rate in parts per million of the calls that are neither skipped nor beyond `times`.
    pub per_million: u32,
}

impl AwsFaultRule {
    /// Returns a rule that affects every call of an operation.
    pub fn always(operation: impl Into<String>, fault: AwsFault) -> Self {
        Self {
            fault,
            service: String::new(),
            operation: operation.into(),
            skip: 0,
            times: None,
            until: None,
            per_million: 1_000_000,
        }
    }

    /// Returns a rule that affects the next call of an operation.
    pub fn once(operation: impl Into<String>, fault: AwsFault) -> Self {
        Self { times: Some(1), ..Self::always(operation, fault) }
    }

    fn matches(&self, service: &str, operation: &str, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
            && (self.service.is_empty() || self.service == service)
            && (self.operation.is_empty() || self.operation == operation)
    }
}

/// Faults of launches that something outside of the account draws, for example a sandbox from its
/// seed. A fork of the account has none.
pub trait LaunchFaults: Send + Sync {
    /// Returns true if no instance of a pool can be launched now.
    fn is_out_of_stock(&self, pool: &CapacityPool) -> bool;

    /// Returns true if EC2 throttles this `CreateFleet`. Called once for each call.
    fn is_throttled(&self) -> bool;
}

/// The fault rules, with the random stream that decides about rates.
#[derive(Debug, Clone)]
pub(crate) struct AwsFaultInjector {
    rules: Vec<AwsFaultRule>,
    rng: Rng,
}

impl AwsFaultInjector {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rules: Vec::new(), rng: Rng::new(seed).fork("aws faults") }
    }

    pub(crate) fn replace(&mut self, rules: Vec<AwsFaultRule>) {
        self.rules = rules;
    }

    /// Adds a rule after all others. Rules that can no longer apply are dropped first.
    pub(crate) fn add(&mut self, rule: AwsFaultRule, now: Timestamp) {
        self.rules.retain(|known| known.times != Some(0) && known.until.is_none_or(|until| now < until));
        if self.rules.len() >= RULES_MAX {
            self.rules.remove(0);
        }
        self.rules.push(rule);
    }

    /// Returns the fault of a call and counts the call. The first rule that applies is used.
    /// Returns `None` if no fault happens.
    pub(crate) fn next_fault(&mut self, service: &str, operation: &str, now: Timestamp) -> Option<AwsFault> {
        for rule in self.rules.iter_mut().filter(|rule| rule.matches(service, operation, now)) {
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            if rule.times == Some(0) || !self.rng.happens_per_million(rule.per_million) {
                continue;
            }
            rule.times = rule.times.map(|times| times - 1);
            return Some(rule.fault.clone());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_list_drops_the_rules_that_have_ended_before_those_that_apply() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut faults = AwsFaultInjector::new(0);
        faults.add(AwsFaultRule::always("CreateFleet", AwsFault::Throttled), at(0));
        for _ in 0..RULES_MAX {
            let ended =
                AwsFaultRule { until: Some(at(1)), ..AwsFaultRule::always("RunInstances", AwsFault::Throttled) };
            faults.add(ended, at(1));
        }
        faults.add(AwsFaultRule::always("CreateTags", AwsFault::Throttled), at(2));
        assert_eq!(faults.next_fault("EC2", "CreateFleet", at(2)), Some(AwsFault::Throttled));
        assert_eq!(faults.next_fault("EC2", "RunInstances", at(0)), None, "the rules are removed");
    }
}
