//! The way of every call: faults, effect, log, observer.

use std::cell::RefCell;
use std::sync::{Arc, PoisonError};

use jiff::Timestamp;

use super::account::Account;
use super::faults::AwsFault;
use super::records::CallRecord;
use super::state::AwsState;
use super::{AwsFailure, MemoryAws};
use crate::ports::AwsError;

/// Error code of calls in the log whose caller got no answer.
const LOST_ANSWER: &str = "no answer";

/// Longest text of a request in the log, in characters.
const REQUEST_TEXT_MAX: usize = 300;

tokio::task_local! {
    /// The record of the last call that the future of [`with_record`] made.
    static LAST_RECORD: RefCell<Option<CallRecord>>;
}

/// Returns the result of a future together with the record of the last call that it made. Returns
/// `None` as the record if it made no call. The ports do not return records, but an answer over
/// HTTP has the ID of its request.
pub(crate) async fn with_record<T>(future: impl Future<Output = T>) -> (T, Option<CallRecord>) {
    let recorded = async {
        let result = future.await;
        (result, LAST_RECORD.with(RefCell::take))
    };
    LAST_RECORD.scope(RefCell::new(None), recorded).await
}

/// A function that is called after each call.
pub type CallObserver = Arc<dyn Fn(&MemoryAws, &CallRecord) + Send + Sync>;

/// Name of a service and an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AwsOperation {
    pub(crate) service: &'static str,
    pub(crate) name: &'static str,
}

impl AwsOperation {
    pub(crate) const fn ec2(name: &'static str) -> Self {
        Self { service: "EC2", name }
    }

    /// Returns the name of the operation in IAM policies, for example `ec2:CreateFleet`.
    pub(super) fn action(self) -> String {
        let service = match self.service {
            "ARC Zonal Shift" => "arc-zonal-shift".to_owned(),
            name => name.to_ascii_lowercase(),
        };
        format!("{service}:{}", self.name)
    }

    /// Returns the service's answer to a caller whose policies do not allow the operation.
    fn denied(self, account: &Account) -> AwsFailure {
        let (action, id) = (self.action(), &account.account_id);
        let message = format!(
            "User: arn:aws:sts::{id}:assumed-role/KarpenterControllerRole/kerf is not authorized to perform: {action} \
             because no identity-based policy allows the {action} action"
        );
        match self.service {
            "EC2" => {
                let message = format!("You are not authorized to perform this operation. {message}");
                AwsFailure::new(403, "UnauthorizedOperation", message)
            }
            "IAM" | "SQS" | "STS" => AwsFailure::new(403, "AccessDenied", message),
            _ => AwsFailure::bad_request("AccessDeniedException", message),
        }
    }

    /// Returns the service's answer to too many requests.
    fn throttled(self) -> AwsFailure {
        match self.service {
            "EC2" => AwsFailure::new(503, "RequestLimitExceeded", "Request limit exceeded."),
            "EKS" => AwsFailure::new(429, "TooManyRequestsException", "Too many requests"),
            "ARC Zonal Shift" => AwsFailure::new(429, "ThrottlingException", "Rate exceeded"),
            "Pricing" | "SQS" | "SSM" => AwsFailure::bad_request("ThrottlingException", "Rate exceeded"),
            // IAM and STS.
            _ => AwsFailure::bad_request("Throttling", "Rate exceeded"),
        }
    }
}

impl MemoryAws {
    /// Carries out one call: applies the fault rules, runs the effect, records the call and calls
    /// the observer.
    pub(crate) async fn call<T>(
        &self,
        operation: AwsOperation,
        request: String,
        effect: impl FnOnce(&mut AwsState, Timestamp) -> Result<T, AwsFailure>,
    ) -> Result<T, AwsError> {
        let fault = self.draw_fault(operation);
        if let Some(AwsFault::Delayed { by }) = fault {
            tokio::time::sleep(by).await;
        }
        let (outcome, record) = self.carry_out(operation, request, fault.as_ref(), effect);
        // The task may have no such slot: only `with_record` sets it.
        let _ = LAST_RECORD.try_with(|slot| slot.replace(Some(record.clone())));
        let observer = self.inner.observer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(observer) = observer {
            observer(self, &record);
        }
        outcome
    }

    fn draw_fault(&self, operation: AwsOperation) -> Option<AwsFault> {
        let now = self.inner.clock.now();
        let mut state = self.state();
        if let Some(fault) = state.faults.next_fault(operation.service, operation.name, now) {
            return Some(fault);
        }
        let is_throttled =
            operation.name == "CreateFleet" && state.launch_faults.as_ref().is_some_and(|faults| faults.is_throttled());
        is_throttled.then_some(AwsFault::Throttled)
    }

    fn carry_out<T>(
        &self,
        operation: AwsOperation,
        request: String,
        fault: Option<&AwsFault>,
        effect: impl FnOnce(&mut AwsState, Timestamp) -> Result<T, AwsFailure>,
    ) -> (Result<T, AwsError>, CallRecord) {
        let now = self.inner.clock.now();
        let mut state = self.state();
        let request_id = state.new_request_id();
        state.advance(now);
        let result = match fault {
            _ if state.account.denied_actions.contains(&operation.action()) => Err(operation.denied(&state.account)),
            None | Some(AwsFault::Delayed { .. } | AwsFault::LostAnswer) => effect(&mut state, now),
            Some(AwsFault::Throttled) => Err(operation.throttled()),
            Some(AwsFault::Error { status, code, message }) => Err(AwsFailure::new(*status, code, message)),
        };
        let outcome = match result {
            _ if fault == Some(&AwsFault::LostAnswer) => {
                Err(AwsError::no_answer(operation.service, operation.name, "connection reset by peer"))
            }
            Ok(answer) => Ok(answer),
            Err(failure) => Err(operation.error(failure, &request_id)),
        };
        let error = outcome.as_ref().err().map(|error| error.code.clone().unwrap_or_else(|| LOST_ANSWER.to_owned()));
        let status = outcome.as_ref().map_or_else(|error| error.http_status, |_| Some(200));
        let record = CallRecord {
            service: operation.service,
            operation: operation.name,
            request: request.chars().take(REQUEST_TEXT_MAX).collect(),
            error,
            status,
            at: now,
            request_id,
        };
        state.record_call(record.clone());
        self.notify_changes(&state);
        (outcome, record)
    }
}

impl AwsOperation {
    fn error(self, failure: AwsFailure, request_id: &str) -> AwsError {
        let is_throttling = failure == self.throttled();
        let mut error = AwsError::api(self.service, self.name, failure.status, failure.code, failure.message);
        error.request_id = Some(request_id.to_owned());
        error.is_retryable |= is_throttling;
        error
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::super::testing::{SUBNETS, aws, aws_with, fleet, on_demand, template};
    use super::super::{AwsFaultRule, MemorySettings};
    use super::*;
    use crate::ports::{Ec2 as _, Eks as _, Fault, PageRequest, Ssm as _};

    #[tokio::test(start_paused = true)]
    async fn rules_inject_errors_in_order_and_by_count() {
        let aws = aws();
        let denied = AwsFault::Error { status: 403, code: "UnauthorizedOperation".into(), message: "no".into() };
        aws.set_faults(vec![
            AwsFaultRule { skip: 1, ..AwsFaultRule::once("DescribeSubnets", denied) },
            AwsFaultRule { service: "EC2".into(), ..AwsFaultRule::once("", AwsFault::Throttled) },
        ]);
        let describe = async || aws.describe_subnets(vec![], PageRequest::default()).await.map(drop);
        let throttled = describe().await.unwrap_err();
        assert_eq!((throttled.code.as_deref(), throttled.http_status), (Some("RequestLimitExceeded"), Some(503)));
        assert!(throttled.is_retryable && throttled.request_id.is_some());
        let denied = describe().await.unwrap_err();
        assert_eq!((denied.code.as_deref(), denied.fault), (Some("UnauthorizedOperation"), Fault::Client));
        assert_eq!(describe().await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn each_service_has_its_throttling_error() {
        let aws = aws();
        aws.set_faults(vec![AwsFaultRule::always("", AwsFault::Throttled)]);
        let error = aws.get_parameter("x").await.unwrap_err();
        assert_eq!((error.code.as_deref(), error.is_retryable), (Some("ThrottlingException"), true));
        let error = aws.describe_cluster("demo").await.unwrap_err();
        assert_eq!((error.code.as_deref(), error.is_retryable), (Some("TooManyRequestsException"), true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_delayed_call_takes_effect_after_the_delay() {
        let aws = aws();
        aws.set_faults(vec![AwsFaultRule::always("GetParameter", AwsFault::Delayed { by: Duration::from_secs(7) })]);
        let begin = aws.clock().now();
        let _ = aws.get_parameter("x").await;
        assert_eq!(aws.calls()[0].at, begin + Duration::from_secs(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_draws_from_the_seed() {
        let outcomes = async |seed| {
            let aws = aws_with(MemorySettings { seed, ..MemorySettings::default() });
            aws.set_faults(vec![AwsFaultRule {
                per_million: 300_000,
                ..AwsFaultRule::always("", AwsFault::Throttled)
            }]);
            let mut outcomes = Vec::new();
            for _ in 0..100 {
                outcomes.push(aws.describe_cluster("demo").await.is_ok());
            }
            outcomes
        };
        let one = outcomes(1).await;
        assert_eq!(one, outcomes(1).await);
        assert_ne!(one, outcomes(2).await);
        assert!((20..40).contains(&one.iter().filter(|is_ok| !**is_ok).count()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_log_has_every_call_up_to_its_bound() {
        let aws = aws_with(MemorySettings { call_log_max: 2, ..MemorySettings::default() });
        aws.set_faults(vec![AwsFaultRule::once("DescribeCluster", AwsFault::LostAnswer)]);
        let _ = aws.get_parameter("forgotten").await;
        let _ = aws.get_parameter("absent").await;
        let _ = aws.describe_cluster("demo").await;
        let calls = aws.calls();
        let texts: Vec<String> = calls
            .iter()
            .map(|call| format!("{} {} {} {:?}", call.service, call.operation, call.request, call.error))
            .collect();
        let expected =
            ["SSM GetParameter absent Some(\"ParameterNotFound\")", "EKS DescribeCluster demo Some(\"no answer\")"];
        assert_eq!(texts, expected);
        assert_ne!(calls[0].request_id, calls[1].request_id);
        aws.clear_calls();
        assert_eq!(aws.calls(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fork_made_in_the_observer_has_the_effect_and_no_later_one() {
        let aws = aws();
        let forks: Arc<Mutex<Vec<MemoryAws>>> = Arc::default();
        let taken = Arc::clone(&forks);
        aws.observe_calls(Some(Arc::new(move |aws, _| taken.lock().unwrap().push(aws.fork(aws.clock())))));
        aws.create_launch_template(template(&aws, "demo")).await.unwrap();
        aws.set_faults(vec![AwsFaultRule::always("CreateFleet", AwsFault::LostAnswer)]);
        let request = fleet(1, on_demand(), "demo", &[("m5.large", SUBNETS[0])]);
        aws.create_fleet(request.clone()).await.unwrap_err();
        let forks = forks.lock().unwrap().clone();
        assert_eq!(forks.iter().map(|fork| fork.instances().len()).collect::<Vec<_>>(), [0, 1]);
        forks[0].create_fleet(request).await.expect("a fork has no faults");
        assert_eq!((forks[0].instances().len(), aws.instances().len()), (1, 1));
        assert_eq!(aws.calls().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn one_seed_gives_the_same_answers() {
        let run = async |seed| {
            let aws = aws_with(MemorySettings { seed, ..MemorySettings::default() });
            let created = aws.create_launch_template(template(&aws, "demo")).await.unwrap();
            (
                created,
                aws.create_fleet(fleet(2, on_demand(), "demo", &[("m5.large", SUBNETS[0])])).await.unwrap(),
                aws.calls(),
            )
        };
        assert_eq!(run(1).await, run(1).await);
        assert_ne!(run(1).await.1, run(2).await.1);
    }
}
