//! One call of the SDK: its attempts, its endpoint, and its failure as data.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_sdk_ec2::config::interceptors::{
    AfterDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_ec2::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_ec2::error::{BoxError, ProvideErrorMetadata, SdkError};
use aws_sdk_ec2::operation::RequestId as _;
use kerf_aws::ports::{AwsError, Fault};
use tracing::warn;

/// Time after which a call without an answer is logged. A long poll has its own time besides.
const LOG_WAITING_AFTER: Duration = Duration::from_secs(10);

/// The calls of one service.
#[derive(Debug)]
pub(crate) struct Calls {
    service: &'static str,
    /// True from the log line of a slow call until the next answer, so that an endpoint that is
    /// down is logged once.
    is_waiting_logged: AtomicBool,
}

impl Calls {
    /// `service` is its name in AWS's SDK for Go.
    pub(crate) fn new(service: &'static str) -> Self {
        Self { service, is_waiting_logged: AtomicBool::new(false) }
    }

    /// Runs one operation. `send` sends the request with the interceptor that it is given.
    pub(crate) async fn run<T, E, F>(
        &self,
        operation: &'static str,
        send: impl FnOnce(AttemptRecorder) -> F,
    ) -> Result<T, AwsError>
    where
        E: ProvideErrorMetadata + Error + 'static,
        F: Future<Output = Result<T, SdkError<E>>>,
    {
        self.run_waiting(operation, Duration::ZERO, send).await
    }

    /// Runs one operation that the service answers up to `wait` later on purpose, such as a long
    /// poll.
    pub(crate) async fn run_waiting<T, E, F>(
        &self,
        operation: &'static str,
        wait: Duration,
        send: impl FnOnce(AttemptRecorder) -> F,
    ) -> Result<T, AwsError>
    where
        E: ProvideErrorMetadata + Error + 'static,
        F: Future<Output = Result<T, SdkError<E>>>,
    {
        let log_after = LOG_WAITING_AFTER + wait;
        let recorder = AttemptRecorder::default();
        let mut answer = std::pin::pin!(send(recorder.clone()));
        let outcome = match tokio::time::timeout(log_after, &mut answer).await {
            Ok(outcome) => outcome,
            Err(_) => {
                self.log_waiting(operation, log_after, &recorder);
                answer.await
            }
        };
        let is_answered = matches!(&outcome, Ok(_) | Err(SdkError::ServiceError(_) | SdkError::ResponseError(_)));
        if is_answered {
            self.is_waiting_logged.store(false, Ordering::Relaxed);
        }
        outcome.map_err(|error| recorder.failure(self.service, operation, &error))
    }

    fn log_waiting(&self, operation: &'static str, waited: Duration, recorder: &AttemptRecorder) {
        if !self.is_waiting_logged.swap(true, Ordering::Relaxed) {
            warn!(
                "aws-service-name" = self.service,
                "aws-operation-name" = operation,
                endpoint = recorder.endpoint().unwrap_or("not known yet"),
                attempts = recorder.attempts(),
                "waiting for an answer from aws for {} seconds",
                waited.as_secs()
            );
        }
    }
}

/// Counts the attempts of one call and keeps the endpoint of its first attempt. Clones share their
/// state.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttemptRecorder(Arc<RecordedAttempts>);

#[derive(Debug, Default)]
struct RecordedAttempts {
    count: AtomicU32,
    endpoint: OnceLock<String>,
}

impl Intercept for AttemptRecorder {
    fn name(&self) -> &'static str {
        "AttemptRecorder"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _settings: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.count.fetch_add(1, Ordering::Relaxed);
        self.0.endpoint.get_or_init(|| origin(context.request().uri()).to_owned());
        Ok(())
    }

    /// The SDK reads a document that is cut off as if it were complete. A list would lack its last
    /// items, and a missing instance counts as terminated.
    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _settings: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        match context.response().body().bytes() {
            Some(body) if context.output_or_error().is_ok() && is_cut_off(body) => Err("the XML is cut off".into()),
            _ => Ok(()),
        }
    }
}

impl AttemptRecorder {
    fn attempts(&self) -> u32 {
        self.0.count.load(Ordering::Relaxed)
    }

    fn endpoint(&self) -> Option<&str> {
        self.0.endpoint.get().map(String::as_str)
    }

    /// Returns the failure of the recorded call as data.
    fn failure<E>(&self, service: &'static str, operation: &'static str, error: &SdkError<E>) -> AwsError
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        let status = error.raw_response().map(|response| response.status().as_u16());
        let mut failure = match (error, status) {
            (SdkError::ServiceError(context), Some(status)) => {
                let message = context.err().message().unwrap_or_default();
                match context.err().code() {
                    Some(code) => AwsError::api(service, operation, status, code, message),
                    // The SDK also calls a success a service error if it cannot read it.
                    None if status < 300 => unreadable(service, operation, status, context.err().source()),
                    None => without_code(service, operation, status, message),
                }
            }
            (SdkError::ResponseError(_), Some(status)) => unreadable(service, operation, status, error.source()),
            (SdkError::ConstructionFailure(_), _) => AwsError {
                fault: Fault::Client,
                is_retryable: false,
                ..AwsError::no_answer(service, operation, causes(error.source()))
            },
            (SdkError::DispatchFailure(context), _) => AwsError {
                is_retryable: !context.is_user(),
                // The cause of a connector error says more than its kind.
                ..AwsError::no_answer(service, operation, self.no_answer_text(error.source().and_then(Error::source)))
            },
            _ => AwsError::no_answer(service, operation, self.no_answer_text(error.source())),
        };
        // An answer without a code may come from something that is no service of AWS.
        if let (None, Some(_), Some(endpoint)) = (&failure.code, failure.http_status, self.endpoint()) {
            failure.message = format!("{} ({endpoint})", failure.message);
        }
        failure.attempts = self.attempts();
        failure.request_id = error.request_id().map(ToOwned::to_owned);
        failure
    }

    fn no_answer_text(&self, cause: Option<&(dyn Error + 'static)>) -> String {
        match self.endpoint() {
            Some(endpoint) => {
                let proxy = proxy_variable(endpoint, |name| std::env::var_os(name).is_some());
                let proxy = proxy.map(|name| format!(" ({name} is set)")).unwrap_or_default();
                format!("no answer from {endpoint}{proxy}: {}", causes(cause))
            }
            // Nothing was sent, for example because there are no credentials.
            None => causes(cause),
        }
    }
}

/// Returns the failure of a call whose answer cannot be read.
fn unreadable(
    service: &'static str,
    operation: &'static str,
    status: u16,
    cause: Option<&(dyn Error + 'static)>,
) -> AwsError {
    without_code(service, operation, status, &format!("the answer cannot be read: {}", causes(cause)))
}

/// Returns the failure of a call whose answer has no error code: its HTTP status decides the fault.
fn without_code(service: &'static str, operation: &'static str, status: u16, message: &str) -> AwsError {
    let fault = match status {
        400..500 => Fault::Client,
        500.. => Fault::Server,
        _ => Fault::Unknown,
    };
    let message = if message.is_empty() {
        format!("the service answered with HTTP status {status} and no error code")
    } else {
        message.to_owned()
    };
    AwsError {
        http_status: Some(status),
        fault,
        is_retryable: fault != Fault::Client,
        ..AwsError::no_answer(service, operation, message)
    }
}

/// Returns the environment variable whose proxy the client uses for an endpoint, unless `NO_PROXY`
/// excludes the endpoint. A proxy that fails looks like an endpoint that fails.
fn proxy_variable(endpoint: &str, is_set: impl Fn(&str) -> bool) -> Option<&'static str> {
    let names = if endpoint.starts_with("https:") {
        ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
    } else {
        ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]
    };
    names.into_iter().find(|name| is_set(name))
}

/// Returns the texts of an error and of its causes, outermost first. A cause whose text the one
/// before already ends with is left out.
pub(crate) fn causes(error: Option<&(dyn Error + 'static)>) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = error;
    while let Some(error) = next {
        let text = error.to_string();
        if texts.last().is_none_or(|last| !last.ends_with(&text)) {
            texts.push(text);
        }
        next = error.source();
    }
    texts.join(": ")
}

/// Returns true if a body is an XML document without the end of its root element.
fn is_cut_off(body: &[u8]) -> bool {
    let mut rest = body.trim_ascii();
    while rest.starts_with(b"<?") {
        let Some(end) = rest.windows(2).position(|bytes| bytes == b"?>") else { return true };
        rest = rest[end + 2..].trim_ascii_start();
    }
    let Some(element) = rest.strip_prefix(b"<") else { return false };
    let Some(tag_end) = element.iter().position(|byte| *byte == b'>') else { return true };
    let tag = &element[..tag_end];
    if tag.ends_with(b"/") {
        return false;
    }
    let name = tag.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    let before_end = rest.strip_suffix(b">").map(<[u8]>::trim_ascii_end).and_then(|text| text.strip_suffix(name));
    !before_end.is_some_and(|text| text.ends_with(b"</"))
}

/// Returns scheme, host and port of an address.
fn origin(uri: &str) -> &str {
    let host_start = uri.find("://").map_or(0, |scheme_end| scheme_end + 3);
    let host_length = uri[host_start..].find(['/', '?']).unwrap_or(uri.len() - host_start);
    &uri[..host_start + host_length]
}

#[cfg(test)]
mod tests {
    use std::fmt::{Debug, Write as _};
    use std::sync::Mutex;

    use aws_sdk_ssm::operation::get_parameter::GetParameterError;
    use tracing::field::{Field, Visit};
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

    use super::*;

    /// Collects the fields of all log lines.
    #[derive(Clone, Default)]
    struct LogLines(Arc<Mutex<Vec<String>>>);

    impl<S: tracing::Subscriber> Layer<S> for LogLines {
        fn on_event(&self, event: &tracing::Event<'_>, _context: Context<'_, S>) {
            struct Line(String);
            impl Visit for Line {
                fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
                    let _ = write!(self.0, "{field}={value:?} ");
                }
            }
            let mut line = Line(String::new());
            event.record(&mut line);
            self.0.lock().unwrap().push(line.0.trim_end().to_owned());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_an_answer_is_logged_once_after_ten_seconds_with_its_endpoint() {
        let lines = LogLines::default();
        let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(lines.clone()));
        let calls = Calls::new("SSM");
        let call = async |duration_seconds: u64, is_answered: bool| {
            let outcome = calls.run("GetParameter", |recorder: AttemptRecorder| async move {
                recorder.0.count.store(2, Ordering::Relaxed);
                recorder.0.endpoint.set("http://127.0.0.1:1".to_owned()).unwrap();
                tokio::time::sleep(Duration::from_secs(duration_seconds)).await;
                let error: SdkError<GetParameterError> = SdkError::timeout_error("too slow");
                if is_answered { Ok(()) } else { Err(error) }
            });
            outcome.await.is_ok()
        };
        call(9, true).await;
        assert_eq!(*lines.0.lock().unwrap(), [""; 0]);
        call(11, false).await;
        call(11, false).await;
        let line = "message=waiting for an answer from aws for 10 seconds aws-service-name=\"SSM\" \
                    aws-operation-name=\"GetParameter\" endpoint=\"http://127.0.0.1:1\" attempts=2";
        assert_eq!(*lines.0.lock().unwrap(), [line]);
        // After an answer, the next failure is logged again.
        call(1, true).await;
        call(11, false).await;
        assert_eq!(*lines.0.lock().unwrap(), [line, line]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_poll_is_logged_ten_seconds_after_its_end() {
        let lines = LogLines::default();
        let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(lines.clone()));
        let calls = Calls::new("SQS");
        let poll = async |duration_seconds: u64| {
            let outcome = calls.run_waiting("ReceiveMessage", Duration::from_secs(20), |_| async move {
                tokio::time::sleep(Duration::from_secs(duration_seconds)).await;
                let error: SdkError<GetParameterError> = SdkError::timeout_error("too slow");
                if duration_seconds < 30 { Ok(()) } else { Err(error) }
            });
            outcome.await.is_ok()
        };
        poll(20).await;
        assert_eq!(*lines.0.lock().unwrap(), [""; 0]);
        poll(31).await;
        let line = "message=waiting for an answer from aws for 30 seconds aws-service-name=\"SQS\" \
                    aws-operation-name=\"ReceiveMessage\" endpoint=\"not known yet\" attempts=0";
        assert_eq!(*lines.0.lock().unwrap(), [line]);
    }

    #[test]
    fn the_proxy_of_an_endpoint_depends_on_its_scheme() {
        let variable = |endpoint, set: &'static [&str]| proxy_variable(endpoint, |name| set.contains(&name));
        assert_eq!(variable("https://ec2.amazonaws.com", &["HTTPS_PROXY", "HTTP_PROXY"]), Some("HTTPS_PROXY"));
        assert_eq!(variable("http://127.0.0.1:1", &["HTTPS_PROXY", "http_proxy"]), Some("http_proxy"));
        assert_eq!(variable("http://127.0.0.1:1", &["HTTPS_PROXY", "ALL_PROXY"]), Some("ALL_PROXY"));
        assert_eq!(variable("http://127.0.0.1:1", &["HTTPS_PROXY", "NO_PROXY"]), None);
    }

    #[test]
    fn a_document_without_the_end_of_its_root_element_is_cut_off() {
        let prolog = "<?xml version=\"1.0\"?>\n";
        for whole in ["<a></a>", "<a x=\"1\">\n<b/></a >\n", "<a/>", "", "{\"json\":1}", "text"] {
            assert!(!is_cut_off(format!("{prolog}{whole}").as_bytes()), "{whole}");
            assert!(!is_cut_off(whole.as_bytes()), "{whole}");
        }
        for cut in ["<a", "<a>", "<a><b></b>", "<a><b", "<a></b>", "<aa></a>", "<a></aa>", "<a></", "<?xml"] {
            assert!(is_cut_off(cut.as_bytes()), "{cut}");
        }
    }

    #[test]
    fn an_origin_has_no_path_and_no_query() {
        for (uri, expected) in [
            ("https://ec2.us-west-2.amazonaws.com/", "https://ec2.us-west-2.amazonaws.com"),
            ("http://127.0.0.1:5000/clusters/demo?x=/", "http://127.0.0.1:5000"),
            ("http://[::1]:80", "http://[::1]:80"),
            ("host?x", "host"),
            ("", ""),
        ] {
            assert_eq!(origin(uri), expected);
        }
    }
}
