//! The server: one state and one entry point. A request is an `http::Request`, from a socket or
//! from a client in this process; the response is an `http::Response`. Faults are injected here,
//! before or after the request is handled.

use std::any::Any;
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
use super::subresources::IssuedTokens;
use crate::audit::AuditedWrite;
use crate::faults::{Fault, FaultInjector, FaultRule, RequestInfo};
use crate::identifiers::GenerateIdentifiers as _;
use crate::simulated_cloud::{CloudChanges, SimulatedCloud};

/// The maximum size of a request body, as in the real server.
const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

/// Settings of an API server.
#[derive(Clone, Debug)]
pub struct ApiServerConfig {
    /// The source of every timestamp.
    pub clock: Clock,
    /// The seed of uids and generated names.
    pub seed: u64,
    /// The number of changes of each resource that a watcher may lag behind before it gets 410. A
    /// change keeps the old version of its object in memory, so this bounds memory: 65,536 changes
    /// of pods take some 200 MiB in the worst case.
    pub max_history_events: usize,
}

impl ApiServerConfig {
    /// Returns the default settings, with the time of `clock`.
    pub fn new(clock: Clock, seed: u64) -> Self {
        Self { clock, seed, max_history_events: 65_536 }
    }
}

/// A write of an Event, from which its expiry is computed.
#[derive(Clone)]
pub(crate) struct EventExpiry {
    pub(crate) table: TableIx,
    pub(crate) key: ObjectKey,
    pub(crate) revision: u64,
    pub(crate) written_at: Timestamp,
}

/// The state of one server, shared by its clones.
pub(crate) struct ServerState {
    pub(crate) storage: ObjectStore,
    pub(crate) clock: Clock,
    pub(crate) serial_counter: AtomicU64,
    registry: RwLock<Arc<Registry>>,
    rng: Mutex<Rng>,
    event_expiries: Mutex<VecDeque<EventExpiry>>,
    issued_tokens: Mutex<IssuedTokens>,
    /// The tables of custom resources, by group and plural.
    tables: Mutex<BTreeMap<(String, String), TableIx>>,
    faults: Mutex<Option<FaultInjector>>,
    audit: Mutex<Option<Vec<AuditedWrite>>>,
    attached_cloud: Mutex<Option<Arc<dyn SimulatedCloud>>>,
    cloud_changes: CloudChanges,
}

/// A Kubernetes API server in memory. Clones share one state.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) inner: Arc<ServerState>,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").field("revision", &self.inner.storage.revision()).finish_non_exhaustive()
    }
}

/// Locks a mutex. A poisoned lock is ignored: the guarded values are consistent between any two
/// statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ServerState {
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the registry with a changed copy.
    pub(crate) fn change_registry(&self, change: impl FnOnce(&mut Registry)) {
        let mut current = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = Registry::clone(&current);
        change(&mut next);
        *current = Arc::new(next);
    }

    /// Returns the table of a custom resource. It is created on first use.
    pub(crate) fn custom_table(&self, group: &str, plural: &str) -> TableIx {
        *lock(&self.tables).entry((group.into(), plural.into())).or_insert_with(|| self.storage.create_table())
    }

    /// Closes the table of a custom resource, which ends its watches.
    pub(crate) fn close_custom_table(&self, group: &str, plural: &str) {
        let table = lock(&self.tables).remove(&(group.into(), plural.into()));
        if let Some(table) = table {
            self.storage.close_table(table);
        }
    }

    /// Returns the attached cloud. `None`: the instances are Nodes that the provider creates.
    pub(crate) fn attached_cloud(&self) -> Option<Arc<dyn SimulatedCloud>> {
        lock(&self.attached_cloud).clone()
    }

    pub(crate) fn uid(&self) -> String {
        lock(&self.rng).uid()
    }

    pub(crate) fn name_suffix(&self) -> String {
        lock(&self.rng).name_suffix()
    }

    /// Calls `action`, during which uids and generated names come from `rng`.
    pub(crate) fn with_identifiers_from(&self, rng: Rng, action: impl FnOnce()) {
        let own = std::mem::replace(&mut *lock(&self.rng), rng);
        action();
        *lock(&self.rng) = own;
    }

    /// Returns the duration of a watch: random between `base` and twice `base`, so that watchers do
    /// not all reconnect at once.
    pub(crate) fn watch_duration(&self, base: Duration) -> Duration {
        base + Duration::from_millis(lock(&self.rng).below(base.as_millis() as u64))
    }

    pub(crate) fn event_expiries(&self) -> MutexGuard<'_, VecDeque<EventExpiry>> {
        lock(&self.event_expiries)
    }

    pub(crate) fn issued_tokens(&self) -> MutexGuard<'_, IssuedTokens> {
        lock(&self.issued_tokens)
    }
}

impl ApiServer {
    /// Creates a server with the objects that every cluster has.
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
            issued_tokens: Mutex::new(IssuedTokens::default()),
            tables: Mutex::new(BTreeMap::new()),
            faults: Mutex::new(None),
            audit: Mutex::new(None),
            attached_cloud: Mutex::new(None),
            cloud_changes: CloudChanges::default(),
        };
        let server = Self { inner: Arc::new(inner) };
        super::bootstrap::create_default_objects(&server);
        server
    }

    /// Returns an independent copy with its own clock: the same objects at the same versions and a
    /// copy of the attached cloud, but no watches, faults or audit. Later changes of either server
    /// or cloud do not affect the other.
    #[must_use]
    pub fn fork(&self, clock: Clock) -> Self {
        let cloud_changes = CloudChanges::default();
        let attached_cloud = self.attached_cloud().map(|cloud| cloud.fork(clock, cloud_changes.clone()));
        let inner = ServerState {
            storage: self.inner.storage.fork(),
            clock,
            serial_counter: AtomicU64::new(self.inner.serial_counter.load(Ordering::Relaxed)),
            registry: RwLock::new(self.inner.registry()),
            rng: Mutex::new(lock(&self.inner.rng).clone()),
            event_expiries: Mutex::new(self.inner.event_expiries().clone()),
            issued_tokens: Mutex::new(self.inner.issued_tokens().clone()),
            tables: Mutex::new(lock(&self.inner.tables).clone()),
            faults: Mutex::new(None),
            audit: Mutex::new(None),
            attached_cloud: Mutex::new(attached_cloud),
            cloud_changes,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Sets another seed for uids and generated names from now on, so that forks of one server
    /// differ.
    pub fn reseed(&self, seed: u64) {
        *lock(&self.inner.rng) = Rng::new(seed).fork("api server");
    }

    /// Attaches a cloud that has instances of its own: a cluster on this server boots their
    /// kubelets, the invariants read its list, and [`ApiServer::fork`] copies it. Replaces a cloud
    /// that was attached before. The cloud must report its changes to [`ApiServer::cloud_changes`].
    pub fn attach_cloud(&self, cloud: Arc<dyn SimulatedCloud>) {
        *lock(&self.inner.attached_cloud) = Some(cloud);
        self.inner.cloud_changes.notify();
    }

    /// Returns the attached cloud. `None`: the instances are Nodes that the provider creates.
    pub fn attached_cloud(&self) -> Option<Arc<dyn SimulatedCloud>> {
        self.inner.attached_cloud()
    }

    /// Returns the attached cloud as its own type, for example to start a provider on the cloud of
    /// a fork. Returns `None` if no cloud of this type is attached.
    pub fn attached_cloud_as<C: SimulatedCloud>(&self) -> Option<Arc<C>> {
        let cloud: Arc<dyn Any + Send + Sync> = self.attached_cloud()?;
        cloud.downcast().ok()
    }

    /// Returns the handle to which a cloud of this server reports its changes.
    pub fn cloud_changes(&self) -> &CloudChanges {
        &self.inner.cloud_changes
    }

    /// Returns the clock of the server's timestamps.
    pub fn clock(&self) -> Clock {
        self.inner.clock
    }

    /// Returns a client in this process, without sockets, for controllers, schedulers, kubelets and
    /// tests. `user_agent` is the name of its writes in managed fields and audits. Must be called
    /// on a tokio runtime.
    pub fn client_as(&self, user_agent: &'static str) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |mut request: Request<kube::client::Body>| {
            request.headers_mut().insert(USER_AGENT, http::HeaderValue::from_static(user_agent));
            let mut server = server.clone();
            async move { tower::Service::call(&mut server, request).await }
        });
        kube::Client::new(service, "default")
    }

    /// Returns a client like [`ApiServer::client_as`], with the name `kerf-sandbox`.
    pub fn client(&self) -> kube::Client {
        self.client_as("kerf-sandbox")
    }

    /// Injects faults from now on, by these rules and this seed. The rules replace all earlier
    /// ones; an empty list stops all faults.
    pub fn set_faults(&self, rules: Vec<FaultRule>, seed: u64) {
        *lock(&self.inner.faults) = if rules.is_empty() { None } else { Some(FaultInjector::new(rules, seed)) };
    }

    /// Starts to record all writes, with an empty list. The list grows until
    /// [`ApiServer::take_audit`].
    pub fn start_audit(&self) {
        *lock(&self.inner.audit) = Some(Vec::new());
    }

    /// Takes the writes since the audit was started or last taken. Empty if it was never started.
    pub fn take_audit(&self) -> Vec<AuditedWrite> {
        lock(&self.inner.audit).as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns true if the server records all writes.
    pub(crate) fn is_audited(&self) -> bool {
        lock(&self.inner.audit).is_some()
    }

    /// Returns a hash of all writes in order. Two runs with equal fingerprints have written the
    /// same.
    pub fn fingerprint(&self) -> u64 {
        self.inner.storage.fingerprint()
    }

    /// Returns the revision of the last write.
    pub fn revision(&self) -> u64 {
        self.inner.storage.revision()
    }

    /// Handles a request whose body has been read, and audits it if it is a write.
    pub(crate) fn handle(
        &self,
        parts: &http::request::Parts,
        body: Bytes,
        injected_faults: InjectedFaults,
    ) -> Response<Body> {
        self.route_and_audit(parts, body, injected_faults).unwrap_or_else(|error| error_response(&error))
    }

    /// Handles a request of the cluster's own components, at once and without faults: faults only
    /// affect external clients. Writes are audited.
    pub(crate) fn handle_internal(&self, parts: &http::request::Parts, body: Bytes) -> ApiResult<Bytes> {
        let result = self.route_and_audit(parts, body, InjectedFaults::default());
        result.map(|response| response.into_body().into_bytes())
    }

    fn route_and_audit(
        &self,
        parts: &http::request::Parts,
        body: Bytes,
        injected_faults: InjectedFaults,
    ) -> ApiResult<Response<Body>> {
        let result = route(&self.inner, parts, body, injected_faults);
        if let Some(audit) = lock(&self.inner.audit).as_mut() {
            let code = result.as_ref().map_or_else(StatusError::code, |response| response.status().as_u16());
            audit.extend(self.audited_write(parts, code));
        }
        result
    }

    fn audited_write(&self, parts: &http::request::Parts, code: u16) -> Option<AuditedWrite> {
        let (verb, target) = verb_and_target(parts)?;
        verb.is_write().then(|| AuditedWrite {
            at: self.inner.clock.now(),
            user_agent: user_agent(parts).into(),
            verb,
            resource: target.resource,
            subresource: target.subresource.unwrap_or_default(),
            namespace: target.namespace.unwrap_or_default(),
            name: target.name.unwrap_or_default(),
            code,
        })
    }

    /// Draws the fault of a request. `None`: no fault.
    fn draw_fault(&self, parts: &http::request::Parts) -> Option<Fault> {
        let mut faults = lock(&self.inner.faults);
        let faults = faults.as_mut()?;
        let (verb, target) = verb_and_target(parts)?;
        faults.draw(&RequestInfo {
            verb,
            resource: &target.resource,
            user_agent: user_agent(parts),
            server_uptime: self.inner.clock.elapsed(),
        })
    }

    /// Handles a request and injects its fault.
    async fn handle_with_faults(
        &self,
        parts: &http::request::Parts,
        body: Bytes,
    ) -> Result<Response<Body>, ConnectionLost> {
        let no_faults = InjectedFaults::default();
        let injected_faults = match self.draw_fault(parts) {
            None => no_faults,
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
                let group_resource = GroupResource { group: &target.group, resource: &target.resource };
                return Ok(error_response(&StatusError::resource_version_conflict(
                    group_resource,
                    target.name.as_deref().unwrap_or_default(),
                )));
            }
            Some(Fault::NoResponse) => std::future::pending().await,
            Some(Fault::Slow { by }) => {
                tokio::time::sleep(by).await;
                no_faults
            }
            Some(Fault::LostResponse) => {
                drop(self.handle(parts, body, no_faults));
                return Err(ConnectionLost);
            }
            Some(Fault::StaleRead { revisions }) => InjectedFaults { stale_by_writes: Some(revisions), ..no_faults },
            Some(Fault::DroppedWatch { after }) => InjectedFaults { drop_watch_after: Some(after), ..no_faults },
            Some(Fault::LateWatch { by }) => InjectedFaults { watch_delay: Some(by), ..no_faults },
            Some(Fault::SilentWatch { after }) => InjectedFaults { silence_watch_after: Some(after), ..no_faults },
            Some(Fault::Gone) => InjectedFaults { expire_watch: true, ..no_faults },
        };
        Ok(self.handle(parts, body, injected_faults))
    }
}

/// Returns the verb and target of a request for a resource, or `None` for other paths.
fn verb_and_target(parts: &http::request::Parts) -> Option<(Verb, super::request::RequestTarget)> {
    match RequestPath::parse(parts.uri.path()) {
        RequestPath::Other(_) => None,
        RequestPath::Resource(target) => {
            let verb = Verb::from_request(&parts.method, &target, &Query::parse(parts.uri.query())).ok()?;
            Some((verb, target))
        }
    }
}

fn user_agent(parts: &http::request::Parts) -> &str {
    parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The connection was lost before the response arrived. The request may or may not have been
/// carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection to the API server was lost")]
pub struct ConnectionLost;

/// Reads a request's body, up to the size limit.
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

/// The server as a service in this process, for `kube::Client::new`.
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
            // Responses are ready at once. Without this yield, a client in a loop would starve the
            // other tasks of its thread.
            tokio::task::coop::consume_budget().await;
            let (parts, body) = request.into_parts();
            match collect(body).await {
                Ok(body) => server.handle_with_faults(&parts, body).await,
                Err(error) => Ok(error_response(&error)),
            }
        })
    }
}
