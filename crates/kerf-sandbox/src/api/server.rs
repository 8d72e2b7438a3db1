//! The server: one state, one way in. A request comes as `http::Request`, from a socket or from a client in this process, and
//! leaves as `http::Response`. What goes wrong on demand goes wrong here, before or after the request does its work.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::Future;
use http::header::USER_AGENT;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use kerf_runtime::{Clock, Rng};

use super::registry::Registry;
use super::request::{Query, RequestPath, Verb};
use super::respond::{Body, error_response};
use super::route::{InjectedFaults, route};
use super::status::{ApiResult, GroupResource, StatusError};
use super::storage::{ObjectKey, ObjectStore, TableIx};
use crate::audit::AuditedWrite;
use crate::faults::{Fault, FaultInjector, FaultRule, RequestInfo};
use crate::identifiers::GenerateIdentifiers as _;

/// The largest body that is read: what the real server reads.
const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

/// What a server is made with.
#[derive(Clone, Debug)]
pub struct ApiServerConfig {
    /// The clock that every timestamp comes from.
    pub clock: Clock,
    /// Where uids, generated names and the like come from.
    pub seed: u64,
    /// How many changes of each resource a watcher may lag behind before it is told 410. A change costs what its object costs
    /// until the next one of that object, so this bounds memory: 65,536 pods are some 200 MiB in the worst case.
    pub max_history_events: usize,
}

impl ApiServerConfig {
    /// The settings for a cluster that people or controllers use, on `clock`.
    pub fn new(clock: Clock, seed: u64) -> Self {
        Self { clock, seed, max_history_events: 65_536 }
    }
}

/// An event that will be forgotten.
#[derive(Clone)]
pub(crate) struct EventExpiry {
    pub(crate) table: TableIx,
    pub(crate) key: ObjectKey,
    pub(crate) revision: u64,
    pub(crate) written_at: Timestamp,
}

/// The server's state.
pub(crate) struct ServerState {
    pub(crate) storage: ObjectStore,
    pub(crate) clock: Clock,
    pub(crate) serial_counter: AtomicU64,
    registry: RwLock<Arc<Registry>>,
    rng: Mutex<Rng>,
    event_expiries: Mutex<VecDeque<EventExpiry>>,
    /// The tables of custom resources, by group and plural.
    tables: Mutex<BTreeMap<(String, String), TableIx>>,
    faults: Mutex<Option<FaultInjector>>,
    audit: Mutex<Option<Vec<AuditedWrite>>>,
}

/// An API server. Copies share one state.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) inner: Arc<ServerState>,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").field("revision", &self.inner.storage.revision()).finish_non_exhaustive()
    }
}

/// The locks below guard values that are whole between any two statements, so a panic elsewhere does not spoil them.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ServerState {
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes a new registry of the one that there is.
    pub(crate) fn change_registry(&self, change: impl FnOnce(&mut Registry)) {
        let mut current = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = Registry::clone(&current);
        change(&mut next);
        *current = Arc::new(next);
    }

    /// The table of a custom resource, opened when it is first asked for.
    pub(crate) fn custom_table(&self, group: &str, plural: &str) -> TableIx {
        *lock(&self.tables).entry((group.into(), plural.into())).or_insert_with(|| self.storage.create_table())
    }

    /// Ends the table of a custom resource, and the watches on it.
    pub(crate) fn close_custom_table(&self, group: &str, plural: &str) {
        let table = lock(&self.tables).remove(&(group.into(), plural.into()));
        if let Some(table) = table {
            self.storage.close_table(table);
        }
    }

    pub(crate) fn uid(&self) -> String {
        lock(&self.rng).uid()
    }

    pub(crate) fn name_suffix(&self) -> String {
        lock(&self.rng).name_suffix()
    }

    /// How long a watch lasts: between one and two `base`, so that watchers do not all come back at once.
    pub(crate) fn watch_duration(&self, base: Duration) -> Duration {
        base + Duration::from_millis(lock(&self.rng).below(base.as_millis() as u64))
    }

    pub(crate) fn event_expiries(&self) -> MutexGuard<'_, VecDeque<EventExpiry>> {
        lock(&self.event_expiries)
    }
}

impl ApiServer {
    /// A server with nothing in it but what every cluster has.
    pub fn new(config: ApiServerConfig) -> Self {
        let storage = ObjectStore::new(config.max_history_events);
        let registry = Registry::built_in(&storage);
        let inner = ServerState {
            storage,
            clock: config.clock,
            serial_counter: AtomicU64::new(0),
            registry: RwLock::new(Arc::new(registry)),
            rng: Mutex::new(Rng::new(config.seed).fork("api server")),
            event_expiries: Mutex::new(VecDeque::new()),
            tables: Mutex::new(BTreeMap::new()),
            faults: Mutex::new(None),
            audit: Mutex::new(None),
        };
        let server = Self { inner: Arc::new(inner) };
        super::bootstrap::create_default_objects(&server);
        server
    }

    /// A copy that goes its own way from here, with a clock of its own: the same objects at the same versions, nobody watching, nothing going
    /// wrong, no audit. What one of the two does is nothing to the other.
    #[must_use]
    pub fn fork(&self, clock: Clock) -> Self {
        let inner = ServerState {
            storage: self.inner.storage.fork(),
            clock,
            serial_counter: AtomicU64::new(self.inner.serial_counter.load(Ordering::Relaxed)),
            registry: RwLock::new(self.inner.registry()),
            rng: Mutex::new(lock(&self.inner.rng).clone()),
            event_expiries: Mutex::new(self.inner.event_expiries().clone()),
            tables: Mutex::new(lock(&self.inner.tables).clone()),
            faults: Mutex::new(None),
            audit: Mutex::new(None),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Lets uids, generated names and the like come from another seed from now on, so that copies of one server are not alike.
    pub fn reseed(&self, seed: u64) {
        *lock(&self.inner.rng) = Rng::new(seed).fork("api server");
    }

    /// The clock that the server's timestamps come from.
    pub fn clock(&self) -> Clock {
        self.inner.clock
    }

    /// A client in this process, without sockets: the way in for controllers, schedulers, kubelets and tests. `agent` is the name
    /// under which its writes appear in managed fields and audits. Must be called on a tokio runtime.
    pub fn client_as(&self, agent: &'static str) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |mut request: Request<kube::client::Body>| {
            request.headers_mut().insert(USER_AGENT, http::HeaderValue::from_static(agent));
            let mut server = server.clone();
            async move { tower::Service::call(&mut server, request).await }
        });
        kube::Client::new(service, "default")
    }

    /// [`ApiServer::client_as`] for whoever needs no name.
    pub fn client(&self) -> kube::Client {
        self.client_as("kerf-sandbox")
    }

    /// Lets things go wrong from now on, by these rules and this seed, instead of whatever went wrong before. No rules: nothing.
    pub fn set_faults(&self, rules: Vec<FaultRule>, seed: u64) {
        *lock(&self.inner.faults) = if rules.is_empty() { None } else { Some(FaultInjector::new(rules, seed)) };
    }

    /// Keeps a list of all writes from now on, and forgets what was listed before. The list grows until it is taken.
    pub fn start_audit(&self) {
        *lock(&self.inner.audit) = Some(Vec::new());
    }

    /// The writes since the audit was started or last taken; none if it never was.
    pub fn take_audit(&self) -> Vec<AuditedWrite> {
        lock(&self.inner.audit).as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether somebody wants to know of every write.
    pub(crate) fn is_audited(&self) -> bool {
        lock(&self.inner.audit).is_some()
    }

    /// A number that stands for everything that was ever written, in order: two runs that agree on it have written the same.
    pub fn fingerprint(&self) -> u64 {
        self.inner.storage.fingerprint()
    }

    /// The revision of the last write.
    pub fn revision(&self) -> u64 {
        self.inner.storage.revision()
    }

    /// Answers one request whose body has been read, and notes it if it is a write.
    pub(crate) fn handle(
        &self,
        parts: &http::request::Parts,
        body: Bytes,
        circumstances: InjectedFaults,
    ) -> Response<Body> {
        self.route_and_audit(parts, body, circumstances).unwrap_or_else(|refusal| error_response(&refusal))
    }

    /// Does something for a part of the cluster itself: at once, and past the faults, which are for those outside. It is noted like
    /// any other write.
    pub(crate) fn handle_internal(&self, parts: &http::request::Parts, body: Bytes) -> ApiResult<Bytes> {
        let outcome = self.route_and_audit(parts, body, InjectedFaults::default());
        outcome.map(|response| response.into_body().into_bytes())
    }

    fn route_and_audit(
        &self,
        parts: &http::request::Parts,
        body: Bytes,
        circumstances: InjectedFaults,
    ) -> ApiResult<Response<Body>> {
        let outcome = route(&self.inner, parts, body, circumstances);
        if let Some(audit) = lock(&self.inner.audit).as_mut() {
            let code = outcome.as_ref().map_or_else(StatusError::code, |response| response.status().as_u16());
            audit.extend(self.audited_write(parts, code));
        }
        outcome
    }

    fn audited_write(&self, parts: &http::request::Parts, code: u16) -> Option<AuditedWrite> {
        let (verb, target) = verb_and_target(parts)?;
        verb.is_write().then(|| AuditedWrite {
            at: self.inner.clock.now(),
            user_agent: agent(parts).into(),
            verb,
            resource: target.resource,
            subresource: target.subresource.unwrap_or_default(),
            namespace: target.namespace.unwrap_or_default(),
            name: target.name.unwrap_or_default(),
            code,
        })
    }

    /// What goes wrong with a request, if anything does.
    fn draw_fault(&self, parts: &http::request::Parts) -> Option<Fault> {
        let mut faults = lock(&self.inner.faults);
        let faults = faults.as_mut()?;
        let (verb, target) = verb_and_target(parts)?;
        faults.draw(&RequestInfo {
            verb,
            resource: &target.resource,
            user_agent: agent(parts),
            server_uptime: self.inner.clock.elapsed(),
        })
    }

    /// Answers a request, with whatever goes wrong.
    async fn handle_with_faults(
        &self,
        parts: &http::request::Parts,
        body: Bytes,
    ) -> Result<Response<Body>, ConnectionLost> {
        let plain = InjectedFaults::default();
        let circumstances = match self.draw_fault(parts) {
            None => plain,
            Some(Fault::InternalError) => {
                return Ok(error_response(&StatusError::internal("the server has a fault on purpose")));
            }
            Some(Fault::Unavailable { retry_after_seconds }) => {
                return Ok(error_response(&StatusError::unavailable(
                    "the server is unavailable on purpose",
                    retry_after_seconds,
                )));
            }
            Some(Fault::TooManyRequests { retry_after_seconds }) => {
                return Ok(error_response(&StatusError::too_many_requests(
                    "Too many requests, please try again later.",
                    retry_after_seconds,
                    Vec::new(),
                )));
            }
            Some(Fault::Conflict) => {
                let target = verb_and_target(parts).map(|(_, target)| target).unwrap_or_default();
                let subject = GroupResource { group: &target.group, resource: &target.resource };
                return Ok(error_response(&StatusError::resource_version_conflict(
                    subject,
                    target.name.as_deref().unwrap_or_default(),
                )));
            }
            Some(Fault::Slow { by }) => {
                tokio::time::sleep(by).await;
                plain
            }
            Some(Fault::LostResponse) => {
                drop(self.handle(parts, body, plain));
                return Err(ConnectionLost);
            }
            Some(Fault::StaleRead { revisions }) => InjectedFaults { stale_by_writes: Some(revisions), ..plain },
            Some(Fault::DroppedWatch { after }) => InjectedFaults { drop_watch_after: Some(after), ..plain },
            Some(Fault::LateWatch { by }) => InjectedFaults { watch_delay: Some(by), ..plain },
            Some(Fault::Gone) => InjectedFaults { expire_watch: true, ..plain },
        };
        Ok(self.handle(parts, body, circumstances))
    }
}

/// What a request asks for, if it is about a resource.
fn verb_and_target(parts: &http::request::Parts) -> Option<(Verb, super::request::RequestTarget)> {
    match RequestPath::parse(parts.uri.path()) {
        RequestPath::Other(_) => None,
        RequestPath::Resource(target) => {
            let verb = Verb::from_request(&parts.method, &target, &Query::parse(parts.uri.query())).ok()?;
            Some((verb, target))
        }
    }
}

fn agent(parts: &http::request::Parts) -> &str {
    parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The connection broke before the answer came: what was asked may or may not have been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection to the API server was lost")]
pub struct ConnectionLost;

/// Reads a request's body, up to the limit.
async fn collect<B>(body: B) -> ApiResult<Bytes>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<tower::BoxError>,
{
    match http_body_util::Limited::new(body, MAX_BODY_BYTES).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(problem) if problem.is::<http_body_util::LengthLimitError>() => Err(StatusError::too_large(MAX_BODY_BYTES)),
        Err(problem) => Err(StatusError::bad_request(format!("reading the body: {problem}"))),
    }
}

/// The server in this process: what `kube::Client::new` takes.
impl<B> tower::Service<Request<B>> for ApiServer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<tower::BoxError>,
{
    type Response = Response<Body>;
    type Error = ConnectionLost;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, ConnectionLost>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectionLost>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move {
            // An answer is there at once, so whoever asks again and again would never let others on its thread have their turn.
            tokio::task::coop::consume_budget().await;
            let (parts, body) = request.into_parts();
            match collect(body).await {
                Ok(body) => server.handle_with_faults(&parts, body).await,
                Err(refusal) => Ok(error_response(&refusal)),
            }
        })
    }
}
