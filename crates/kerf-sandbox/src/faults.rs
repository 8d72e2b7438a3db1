//! Faults that the API server injects: errors, conflicts, slow and lost responses, stale reads,
//! broken watches. Every fault has a rate and a time window. Whether it happens is drawn from a
//! seed, so that a failed run can be repeated.
//!
//! Invariant: a fault never corrupts stored objects. Real servers, networks and clusters under load
//! show each of these faults.

use std::time::Duration;

use kerf_runtime::Rng;

use crate::api::Verb;

/// A fault of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Response 500; the request has no effect.
    InternalError,
    /// Response 503 with `Retry-After`; the request has no effect.
    Unavailable {
        /// Value of `Retry-After`.
        retry_after_seconds: u32,
    },
    /// Response 429 with `Retry-After`; the request has no effect.
    TooManyRequests {
        /// Value of `Retry-After`.
        retry_after_seconds: u32,
    },
    /// Response 409, as after a concurrent write; the request has no effect. Affects only writes to
    /// existing objects.
    Conflict,
    /// The response is delayed.
    Slow {
        /// Length of the delay.
        by: Duration,
    },
    /// The request takes effect and the connection closes before the response. Affects only writes.
    LostResponse,
    /// The response shows an earlier state. Affects only get and list.
    StaleRead {
        /// Age of that state, in revisions of the whole store.
        revisions: u64,
    },
    /// The request has no effect and is never answered, as behind a proxy that lost it. The opening
    /// of a watch is a request too.
    NoResponse,
    /// The watch ends without an error. This fault and the next ones affect only watches.
    DroppedWatch {
        /// Time from the start of the watch to its end.
        after: Duration,
    },
    /// The watch delivers all events late.
    LateWatch {
        /// Delay of each event.
        by: Duration,
    },
    /// The watch stays open and delivers nothing more, neither events nor bookmarks, as over a
    /// connection whose other end was lost without notice.
    SilentWatch {
        /// Time from the start of the watch to its last delivery.
        after: Duration,
    },
    /// The watch fails with 410, as if its resource version were compacted.
    Gone,
}

impl Fault {
    /// Returns true if the fault can happen to requests with this verb.
    fn can_affect(&self, verb: Verb) -> bool {
        match self {
            Self::InternalError
            | Self::Unavailable { .. }
            | Self::TooManyRequests { .. }
            | Self::Slow { .. }
            | Self::NoResponse => true,
            Self::Conflict => matches!(verb, Verb::Update | Verb::Patch | Verb::Delete),
            Self::LostResponse => verb.is_write(),
            Self::StaleRead { .. } => matches!(verb, Verb::Get | Verb::List),
            Self::DroppedWatch { .. } | Self::LateWatch { .. } | Self::SilentWatch { .. } | Self::Gone => {
                verb == Verb::Watch
            }
        }
    }
}

/// A fault with its rate, its time window and the requests that it affects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRule {
    /// The fault to inject.
    pub fault: Fault,
    /// Rate in parts per million of the requests to which the rule applies.
    pub per_million: u32,
    /// Start of the window, as time since the server's start.
    pub from: Duration,
    /// End of the window, as time since the server's start; `None` for no end.
    pub until: Option<Duration>,
    /// Prefix of the user agent of affected clients; empty for all clients.
    pub user_agent_prefix: String,
    /// Affected resources, such as `pods` or `nodeclaims`; empty for all.
    pub resources: Vec<String>,
    /// Affected verbs; empty for all verbs to which the fault can happen.
    pub verbs: Vec<Verb>,
}

impl FaultRule {
    /// Returns a rule that affects every request to which the fault can happen, at all times.
    pub fn new(fault: Fault, per_million: u32) -> Self {
        let (user_agent_prefix, resources, verbs) = (String::new(), Vec::new(), Vec::new());
        Self { fault, per_million, from: Duration::ZERO, until: None, user_agent_prefix, resources, verbs }
    }

    fn applies_to(&self, request: &RequestInfo<'_>) -> bool {
        self.fault.can_affect(request.verb)
            && request.server_uptime >= self.from
            && self.until.is_none_or(|until| request.server_uptime < until)
            && request.user_agent.starts_with(&self.user_agent_prefix)
            && (self.resources.is_empty() || self.resources.iter().any(|resource| resource == request.resource))
            && (self.verbs.is_empty() || self.verbs.contains(&request.verb))
    }
}

/// The properties of a request that rules are matched against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestInfo<'a> {
    pub(crate) verb: Verb,
    pub(crate) resource: &'a str,
    pub(crate) user_agent: &'a str,
    /// Time since the server's start.
    pub(crate) server_uptime: Duration,
}

/// The fault rules of a server, with the random stream that decides about them.
#[derive(Debug)]
pub(crate) struct FaultInjector {
    rules: Vec<FaultRule>,
    rng: Rng,
}

impl FaultInjector {
    pub(crate) fn new(rules: Vec<FaultRule>, seed: u64) -> Self {
        Self { rules, rng: Rng::new(seed).fork("faults") }
    }

    /// Draws the fault of a request. Rules are evaluated in order, and each matching rule consumes
    /// one random number; the first hit wins. Returns `None` if no fault happens.
    pub(crate) fn draw(&mut self, request: &RequestInfo<'_>) -> Option<Fault> {
        let rng = &mut self.rng;
        self.rules
            .iter()
            .find(|rule| rule.applies_to(request) && rng.happens_per_million(rule.per_million))
            .map(|rule| rule.fault.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_info(verb: Verb, resource: &str, seconds: u64) -> RequestInfo<'_> {
        RequestInfo { verb, resource, user_agent: "kerf/1", server_uptime: Duration::from_secs(seconds) }
    }

    #[test]
    fn a_fault_happens_only_to_verbs_that_it_can_affect() {
        let always = |fault| FaultInjector::new(vec![FaultRule::new(fault, 1_000_000)], 1);
        for (fault, verb, happens) in [
            (Fault::Conflict, Verb::Patch, true),
            (Fault::Conflict, Verb::Create, false),
            (Fault::LostResponse, Verb::Create, true),
            (Fault::LostResponse, Verb::Get, false),
            (Fault::StaleRead { revisions: 3 }, Verb::List, true),
            (Fault::StaleRead { revisions: 3 }, Verb::Watch, false),
            (Fault::NoResponse, Verb::Create, true),
            (Fault::NoResponse, Verb::Watch, true),
            (Fault::SilentWatch { after: Duration::ZERO }, Verb::Watch, true),
            (Fault::SilentWatch { after: Duration::ZERO }, Verb::List, false),
            (Fault::Gone, Verb::Watch, true),
            (Fault::Gone, Verb::List, false),
            (Fault::InternalError, Verb::Get, true),
        ] {
            assert_eq!(
                always(fault.clone()).draw(&request_info(verb, "pods", 0)).is_some(),
                happens,
                "{fault:?} {verb:?}"
            );
        }
    }

    #[test]
    fn a_rule_applies_only_to_its_window_agent_resource_and_verb() {
        let rule = FaultRule {
            from: Duration::from_secs(10),
            until: Some(Duration::from_secs(20)),
            user_agent_prefix: "kerf".into(),
            resources: vec!["nodes".into()],
            verbs: vec![Verb::Update],
            ..FaultRule::new(Fault::InternalError, 1_000_000)
        };
        let mut faults = FaultInjector::new(vec![rule], 1);
        assert!(faults.draw(&request_info(Verb::Update, "nodes", 10)).is_some());
        assert!(faults.draw(&request_info(Verb::Update, "nodes", 9)).is_none());
        assert!(faults.draw(&request_info(Verb::Update, "nodes", 20)).is_none());
        assert!(faults.draw(&request_info(Verb::Update, "pods", 10)).is_none());
        assert!(faults.draw(&request_info(Verb::Patch, "nodes", 10)).is_none());
        assert!(
            faults.draw(&RequestInfo { user_agent: "kubectl", ..request_info(Verb::Update, "nodes", 10) }).is_none()
        );
    }

    #[test]
    fn one_seed_gives_one_series_of_faults() {
        let series = |seed| {
            let mut faults = FaultInjector::new(vec![FaultRule::new(Fault::InternalError, 300_000)], seed);
            (0..200).map(|_| faults.draw(&request_info(Verb::Get, "pods", 0)).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(series(4), series(4));
        assert_ne!(series(4), series(5));
    }
}
