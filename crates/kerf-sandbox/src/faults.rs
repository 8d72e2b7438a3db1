//! What goes wrong on demand: errors, conflicts, slow and lost answers, stale reads, watches that break. Each fault has a rate and a
//! window of time, and whether it happens is drawn from a seed, so that a run that failed can be run again.
//! Invariant: a fault never corrupts anything. It is always something that a real server, a real network or a busy cluster does.

use std::time::Duration;

use crate::api::Verb;
use crate::rng::Rng;

/// Something that can go wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// 500: nothing was done.
    InternalError,
    /// 503 with `Retry-After`: nothing was done.
    Unavailable {
        /// When to come back.
        retry_after_seconds: u32,
    },
    /// 429 with `Retry-After`: nothing was done.
    TooManyRequests {
        /// When to come back.
        retry_after_seconds: u32,
    },
    /// 409, as if somebody else had written first: nothing was done. Only writes of an object that exists.
    Conflict,
    /// The answer takes its time.
    Slow {
        /// How long.
        by: Duration,
    },
    /// What was asked is done, and the answer is lost: the connection breaks. Only writes.
    LostResponse,
    /// What is read is what was true a while ago. Only get and list.
    StaleRead {
        /// How many writes (of anything) ago.
        revisions: u64,
    },
    /// The watch just ends. Only watches, as are the next two.
    DroppedWatch {
        /// When.
        after: Duration,
    },
    /// The watch tells everything late.
    LateWatch {
        /// By how much.
        by: Duration,
    },
    /// The watch says that the history it asks for is gone (410).
    Gone,
}

impl Fault {
    /// Whether the fault can happen to such a request.
    fn can_affect(&self, verb: Verb) -> bool {
        match self {
            Self::InternalError | Self::Unavailable { .. } | Self::TooManyRequests { .. } | Self::Slow { .. } => true,
            Self::Conflict => matches!(verb, Verb::Update | Verb::Patch | Verb::Delete),
            Self::LostResponse => verb.is_write(),
            Self::StaleRead { .. } => matches!(verb, Verb::Get | Verb::List),
            Self::DroppedWatch { .. } | Self::LateWatch { .. } | Self::Gone => verb == Verb::Watch,
        }
    }
}

/// When a fault happens, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRule {
    /// What happens.
    pub fault: Fault,
    /// How often, out of a million requests that it could happen to.
    pub per_million: u32,
    /// From when, counted from the server's start.
    pub from: Duration,
    /// Until when; for ever, if none is given.
    pub until: Option<Duration>,
    /// Only requests of clients whose user agent begins like this; an empty one is everybody.
    pub user_agent_prefix: String,
    /// Only requests for these resources (`pods`, `nodeclaims`); none means all.
    pub resources: Vec<String>,
    /// Only these verbs, of those that the fault can happen to; none means all.
    pub verbs: Vec<Verb>,
}

impl FaultRule {
    /// A fault that may happen to every request that it fits, always.
    pub fn new(fault: Fault, per_million: u32) -> Self {
        let (agent, resources, verbs) = (String::new(), Vec::new(), Vec::new());
        Self { fault, per_million, from: Duration::ZERO, until: None, user_agent_prefix: agent, resources, verbs }
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

/// What the rules look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestInfo<'a> {
    pub(crate) verb: Verb,
    pub(crate) resource: &'a str,
    pub(crate) user_agent: &'a str,
    /// How long the server has been running.
    pub(crate) server_uptime: Duration,
}

/// The faults of a server.
#[derive(Debug)]
pub(crate) struct FaultInjector {
    rules: Vec<FaultRule>,
    rng: Rng,
}

impl FaultInjector {
    pub(crate) fn new(rules: Vec<FaultRule>, seed: u64) -> Self {
        Self { rules, rng: Rng::new(seed).fork("faults") }
    }

    /// The fault that happens to a request, if one does. Rules are asked in order, each for a draw of its own.
    pub(crate) fn draw(&mut self, request: &RequestInfo<'_>) -> Option<Fault> {
        let chance = &mut self.rng;
        self.rules
            .iter()
            .find(|rule| rule.applies_to(request) && chance.happens_per_million(rule.per_million))
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
    fn a_fault_happens_only_where_it_can() {
        let always = |fault| FaultInjector::new(vec![FaultRule::new(fault, 1_000_000)], 1);
        for (fault, verb, happens) in [
            (Fault::Conflict, Verb::Patch, true),
            (Fault::Conflict, Verb::Create, false),
            (Fault::LostResponse, Verb::Create, true),
            (Fault::LostResponse, Verb::Get, false),
            (Fault::StaleRead { revisions: 3 }, Verb::List, true),
            (Fault::StaleRead { revisions: 3 }, Verb::Watch, false),
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
    fn windows_agents_resources_and_verbs_are_kept() {
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
    fn one_seed_one_series_of_faults() {
        let series = |seed| {
            let mut faults = FaultInjector::new(vec![FaultRule::new(Fault::InternalError, 300_000)], seed);
            (0..200).map(|_| faults.draw(&request_info(Verb::Get, "pods", 0)).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(series(4), series(4));
        assert_ne!(series(4), series(5));
    }
}
