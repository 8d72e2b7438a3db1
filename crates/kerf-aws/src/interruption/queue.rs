//! `interruption`: receives the messages of the interruption queue and handles them (spec 06 §9).
//! A message is deleted after its own handling has succeeded; otherwise it appears again.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::StreamExt as _;
use kerf_api::slim::Str;
use kerf_cloud::ProviderSetup;
use kerf_operator::{Concurrency, Reconcile, ReconcileError};
use kerf_runtime::ReconcileAction;
use tracing::{debug, error};

use super::handling::{HandlingError, Interruption, InterruptionHandler};
use super::message::{InterruptionMessage, MessageError, parse_message};
use super::metrics::InterruptionMetrics;
use crate::context::AwsContext;
use crate::ports::{AwsError, QueueMessage, ReceiveMessages};

/// Largest number of messages of one receive call, which is SQS's limit.
const RECEIVED_MESSAGES_MAX: i32 = 10;
/// Time for which other receive calls do not see a received message.
const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest time that a receive call waits for messages.
const RECEIVE_WAIT: Duration = Duration::from_secs(20);
/// Number of messages that are handled at the same time.
const CONCURRENT_MESSAGES_MAX: usize = 10;
/// Delay before the next receive call.
const IMMEDIATELY: Duration = Duration::from_nanos(1);

/// The controller.
pub(crate) struct InterruptionQueue {
    context: Arc<AwsContext>,
    handler: InterruptionHandler,
    metrics: InterruptionMetrics,
    queue_name: String,
    /// URL of the queue, once it is known.
    queue_url: OnceLock<String>,
}

/// Failure to receive messages, to handle them or to delete them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InterruptionError {
    #[error("creating sqs provider, {0}")]
    QueueUrl(#[source] AwsError),
    #[error("getting messages from queue, {0}")]
    Receive(#[source] AwsError),
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Messages(Vec<OneMessageError>),
}

/// Failure to handle or delete one message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OneMessageError {
    #[error("handling interruption message, {0}")]
    Handle(#[source] HandlingError),
    #[error("deleting message from queue, {0}")]
    Delete(#[source] AwsError),
}

impl ReconcileError for InterruptionError {
    fn log_fields(&self) -> Vec<(String, serde_json::Value)> {
        match self {
            Self::QueueUrl(cause) | Self::Receive(cause) => cause.log_fields(),
            Self::Messages(_) => Vec::new(),
        }
    }
}

impl InterruptionQueue {
    /// Adds the controller if a queue is configured.
    pub(crate) fn add_to(setup: &mut ProviderSetup<'_>, context: Arc<AwsContext>) {
        let Some(queue_name) = context.settings.interruption_queue.clone() else { return };
        let controller = Self::new(context, queue_name);
        setup.set.add_singleton::<Self>("interruption", controller, Concurrency { cores: 1 }.single_worker());
    }

    pub(crate) fn new(context: Arc<AwsContext>, queue_name: String) -> Self {
        let metrics = InterruptionMetrics::new(&context.registry);
        let handler = InterruptionHandler::new(context.clone(), metrics.clone());
        Self { context, handler, metrics, queue_name, queue_url: OnceLock::new() }
    }

    async fn queue_url(&self) -> Result<&str, InterruptionError> {
        if let Some(url) = self.queue_url.get() {
            return Ok(url);
        }
        let url = self.context.ports.sqs.get_queue_url(&self.queue_name).await;
        let url = url.map_err(|cause| {
            error!(error = %cause, queue = self.queue_name, "failed to create valid sqs provider");
            InterruptionError::QueueUrl(cause)
        })?;
        debug!(queue = self.queue_name, "watching interruption queue");
        Ok(self.queue_url.get_or_init(|| url))
    }

    /// Handles and deletes one message.
    async fn process(&self, queue_url: &str, message: QueueMessage) -> Result<(), OneMessageError> {
        match message.body.as_deref().ok_or(MessageError::NoBody).and_then(parse_message) {
            Ok(parsed) => self.handle(&parsed).await.map_err(OneMessageError::Handle)?,
            Err(cause) => error!(error = %cause, queue = self.queue_name, "failed parsing interruption message"),
        }
        let deleted = self.context.ports.sqs.delete_message(queue_url, &message.receipt_handle).await;
        deleted.map_err(OneMessageError::Delete)?;
        self.metrics.deleted.inc(&[]);
        Ok(())
    }

    async fn handle(&self, message: &InterruptionMessage) -> Result<(), HandlingError> {
        self.metrics.received.inc(&[message.kind.name()]);
        let InterruptionMessage { kind, instance_ids, time } = message;
        self.handler.handle(Interruption { kind: *kind, instance_ids, queue: &self.queue_name }).await?;
        if let Some(time) = time {
            let waited = self.context.clock.now().duration_since(*time);
            self.metrics.queue_duration.observe(&[], waited.as_secs_f64().max(0.0));
        }
        Ok(())
    }
}

impl Reconcile for InterruptionQueue {
    type Error = InterruptionError;

    /// A receive call waits for up to 20 s.
    const ENDS_AT_SHUTDOWN: bool = true;

    async fn reconcile(&self, _: &Str) -> Result<ReconcileAction, InterruptionError> {
        let queue_url = self.queue_url().await?;
        let request = ReceiveMessages {
            queue_url: queue_url.to_owned(),
            max_messages: RECEIVED_MESSAGES_MAX,
            visibility_timeout: VISIBILITY_TIMEOUT,
            wait: RECEIVE_WAIT,
        };
        let messages = self.context.ports.sqs.receive_messages(request).await.map_err(InterruptionError::Receive)?;
        let results = futures::stream::iter(messages).map(|message| self.process(queue_url, message));
        let results: Vec<Result<(), OneMessageError>> =
            results.buffer_unordered(CONCURRENT_MESSAGES_MAX).collect().await;
        let errors: Vec<OneMessageError> = results.into_iter().filter_map(Result::err).collect();
        if errors.is_empty() {
            Ok(ReconcileAction::RequeueAfter(IMMEDIATELY))
        } else {
            Err(InterruptionError::Messages(errors))
        }
    }
}
