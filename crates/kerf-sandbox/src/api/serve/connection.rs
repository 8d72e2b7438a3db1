//! One connection of a client, with its limits: time for the head of a request, time without
//! requests, and time for which a reader may take nothing. A slow reader costs at most a few chunks
//! of memory, and only until its time is up.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use crate::api::respond::Body;
use crate::api::server::ConnectionLost;

/// Largest number of bytes that a response hands over at once, and that HTTP/2 buffers per stream.
const MAX_CHUNK_BYTES: usize = 16 * 1024;
/// Largest number of bytes that HTTP/1 buffers for a client, and of the head of a request.
const MAX_HTTP1_BUFFER_BYTES: usize = 64 * 1024;
/// Largest number of concurrent requests of one HTTP/2 connection, as in the real server.
const MAX_STREAMS: u32 = 250;

/// Time limits of a connection. Those of kube-apiserver are similar.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionLimits {
    /// Time for the head of a request, and for the first request.
    pub(super) header: Duration,
    /// Time without a request after which the connection is closed.
    pub(super) idle: Duration,
    /// Time for which a reader may not take the next bytes of a response.
    pub(super) slow_reader: Duration,
}

impl ConnectionLimits {
    pub(super) const DEFAULT: Self =
        Self { header: Duration::from_secs(30), idle: Duration::from_secs(90), slow_reader: Duration::from_secs(30) };

    /// Interval at which the limits are checked.
    fn check_interval(&self) -> Duration {
        (self.header.min(self.idle).min(self.slow_reader) / 4).max(Duration::from_millis(1))
    }
}

/// Serves a connection until it ends or exceeds a limit. `handle` responds to requests.
pub(super) async fn serve<S, H, F>(stream: S, limits: ConnectionLimits, handle: H)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<Incoming>) -> F,
    F: Future<Output = Result<Response<Body>, ConnectionLost>> + Send + 'static,
{
    let activity = Activity::new(limits);
    let service = hyper::service::service_fn(|request: Request<Incoming>| {
        let (in_flight, response) = (activity.begin_request(), handle(request));
        async move { response.await.map(|response| response.map(|body| in_flight.into_body(body))) }
    });
    let mut builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.header).max_buf_size(MAX_HTTP1_BUFFER_BYTES);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(limits.header)).keep_alive_timeout(limits.header);
    builder.http2().max_send_buf_size(MAX_CHUNK_BYTES).max_concurrent_streams(MAX_STREAMS);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    loop {
        // An error also ends the connection for the client, so it is ignored here.
        if tokio::time::timeout(limits.check_interval(), connection.as_mut()).await.is_ok() {
            return;
        }
        match activity.exceeded(Instant::now()) {
            None => {}
            Some(ExceededLimit::Idle) => {
                // HTTP/2 clients learn that they must not send another request.
                connection.as_mut().graceful_shutdown();
                let _ = tokio::time::timeout(limits.check_interval(), connection.as_mut()).await;
                return;
            }
            Some(ExceededLimit::SlowReader) => return,
        }
    }
}

/// The limit that a connection exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExceededLimit {
    Idle,
    SlowReader,
}

/// The requests of one connection.
#[derive(Clone, Debug)]
struct Activity(Arc<Mutex<ActivityState>>);

#[derive(Debug)]
struct ActivityState {
    limits: ConnectionLimits,
    next_id: u64,
    /// For each request in progress: the time since which its reader has not asked for more bytes;
    /// `None` while the server has nothing to send.
    requests: BTreeMap<u64, Option<Instant>>,
    has_had_request: bool,
    /// End of the last request, or start of the connection.
    idle_since: Instant,
}

impl Activity {
    fn new(limits: ConnectionLimits) -> Self {
        let (requests, idle_since) = (BTreeMap::new(), Instant::now());
        Self(Arc::new(Mutex::new(ActivityState { limits, next_id: 0, requests, has_had_request: false, idle_since })))
    }

    fn begin_request(&self) -> InFlight {
        let mut state = self.state();
        let id = state.next_id;
        state.next_id += 1;
        state.has_had_request = true;
        state.requests.insert(id, None);
        InFlight { activity: self.clone(), id }
    }

    fn exceeded(&self, now: Instant) -> Option<ExceededLimit> {
        let state = self.state();
        let limits = state.limits;
        let is_slow = |since: &Instant| now.duration_since(*since) >= limits.slow_reader;
        if state.requests.values().flatten().any(is_slow) {
            return Some(ExceededLimit::SlowReader);
        }
        let idle = if state.has_had_request { limits.idle } else { limits.header };
        let is_idle = state.requests.is_empty() && now.duration_since(state.idle_since) >= idle;
        is_idle.then_some(ExceededLimit::Idle)
    }

    /// Locks the state. A panic of another holder leaves it valid.
    fn state(&self) -> MutexGuard<'_, ActivityState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request in progress; dropping it ends the request.
#[derive(Debug)]
struct InFlight {
    activity: Activity,
    id: u64,
}

impl InFlight {
    fn into_body(self, body: Body) -> MonitoredBody {
        MonitoredBody { in_flight: self, body, rest: Bytes::new() }
    }

    /// Records since when the reader has not asked for more; `None` if the server has nothing.
    fn set_waiting_for_reader(&self, since: Option<Instant>) {
        self.activity.state().requests.insert(self.id, since);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.activity.state();
        state.requests.remove(&self.id);
        state.idle_since = Instant::now();
    }
}

/// The body of a response, in chunks. hyper asks for the next chunk when the client has room for
/// it.
struct MonitoredBody {
    in_flight: InFlight,
    body: Body,
    /// Bytes of the body's last frame that are not handed over yet.
    rest: Bytes,
}

impl http_body::Body for MonitoredBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Pending => {
                    self.in_flight.set_waiting_for_reader(None);
                    return Poll::Pending;
                }
                Poll::Ready(Some(Ok(frame))) => self.rest = frame.into_data().unwrap_or_default(),
                Poll::Ready(None) => return Poll::Ready(None),
            }
        }
        self.in_flight.set_waiting_for_reader(Some(Instant::now()));
        let length = self.rest.len().min(MAX_CHUNK_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        let rest = self.rest.len() as u64;
        let hint = self.body.size_hint();
        match hint.exact() {
            Some(exact) => http_body::SizeHint::with_exact(exact + rest),
            None => http_body::SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
    use tokio::task::JoinHandle;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const LIMITS: ConnectionLimits = ConnectionLimits {
        header: Duration::from_secs(8),
        idle: Duration::from_secs(20),
        slow_reader: Duration::from_secs(12),
    };

    /// Connects to a server whose response is `body`.
    fn connect(body: impl Fn() -> Body + Send + Sync + 'static) -> (DuplexStream, JoinHandle<()>) {
        let (client, server) = tokio::io::duplex(16 * 1024);
        let handle = move |_: Request<Incoming>| std::future::ready(Ok(Response::new(body())));
        (client, tokio::spawn(serve(server, LIMITS, handle)))
    }

    /// Returns the seconds until the server closes the connection.
    async fn closes_after(task: JoinHandle<()>, since: Instant) -> u64 {
        tokio::time::timeout(Duration::from_hours(1), task).await.expect("the connection stays open").unwrap();
        since.elapsed().as_secs()
    }

    async fn request(client: &mut DuplexStream) {
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    }

    fn endless() -> Body {
        Body::stream(futures::stream::repeat(Bytes::from(vec![b'x'; 100_000])))
    }

    fn silent() -> Body {
        Body::stream(futures::stream::pending())
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_or_with_half_a_head_is_closed() {
        let started = Instant::now();
        let (_client, task) = connect(silent);
        assert!((8..=10).contains(&closes_after(task, started).await));
        let started = Instant::now();
        let (mut client, task) = connect(silent);
        client.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
        assert!((8..=10).contains(&closes_after(task, started).await));
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_closed_and_a_silent_watch_is_not() {
        let started = Instant::now();
        let (mut client, task) = connect(|| Body::from(Bytes::from_static(b"ok")));
        request(&mut client).await;
        let closed_after = closes_after(task, started).await;
        assert!((8..=24).contains(&closed_after), "{closed_after}");
        let (mut client, task) = connect(silent);
        request(&mut client).await;
        tokio::time::sleep(600 * SECOND).await;
        assert!(!task.is_finished(), "the watch has no events, and its reader is not slow");
        drop(client);
        tokio::time::sleep(SECOND).await;
        assert!(task.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_is_disconnected_and_a_slow_one_is_not() {
        let started = Instant::now();
        let (mut client, task) = connect(endless);
        request(&mut client).await;
        let closed_after = closes_after(task, started).await;
        assert!((12..=16).contains(&closed_after), "{closed_after}");
        let (mut client, task) = connect(endless);
        request(&mut client).await;
        let mut buffer = vec![0; 1024 * 1024];
        for _ in 0..10 {
            tokio::time::sleep(5 * SECOND).await;
            for _ in 0..60 {
                assert!(client.read(&mut buffer).await.unwrap() > 0);
            }
        }
        assert!(!task.is_finished());
    }

    // A client that reads nothing must not cost more than the buffers of one connection.
    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_buffers_at_most_100_kib() {
        for preface in [&b""[..], &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..]] {
            let handed_over = Arc::new(Mutex::new(0));
            let counter = handed_over.clone();
            let body = move || {
                let counter = counter.clone();
                Body::stream(futures::stream::repeat_with(move || {
                    let chunk = Bytes::from(vec![b'x'; 10_000]);
                    *counter.lock().unwrap() += chunk.len();
                    chunk
                }))
            };
            let (mut client, _task) = connect(body);
            if preface.is_empty() {
                request(&mut client).await;
            } else {
                client.write_all(preface).await.unwrap();
                client.write_all(&http2_request_with_large_windows()).await.unwrap();
            }
            tokio::time::sleep(SECOND).await;
            let bytes = *handed_over.lock().unwrap();
            assert!((10_000..=100 * 1024).contains(&bytes), "{bytes} bytes, preface {preface:?}");
        }
    }

    /// Returns the frames of an HTTP/2 client that allows the server to send 100 MB for its one
    /// request: settings, a window of the connection, and the head of `GET /`.
    fn http2_request_with_large_windows() -> Vec<u8> {
        let window = 100_000_000_u32.to_be_bytes();
        let mut bytes = vec![0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4];
        bytes.extend(window);
        bytes.extend([0, 0, 4, 8, 0, 0, 0, 0, 0]);
        bytes.extend(window);
        // Indexed fields of the static table: :method GET, :scheme http, :path /, and an authority.
        let head = [0x82, 0x86, 0x84, 0x41, 1, b'a'];
        bytes.extend([0, 0, head.len() as u8, 1, 0x5, 0, 0, 0, 1]);
        bytes.extend(head);
        bytes
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_response_arrives_whole() {
        let (mut client, _task) = connect(|| Body::from(Bytes::from(vec![b'x'; 1_000_000])));
        request(&mut client).await;
        let mut received = Vec::new();
        let mut buffer = vec![0; 64 * 1024];
        while received.len() < 1_000_000 {
            let count = client.read(&mut buffer).await.unwrap();
            assert!(count > 0, "closed after {} bytes", received.len());
            received.extend_from_slice(&buffer[..count]);
        }
        let text = String::from_utf8(received).unwrap();
        assert!(text.to_lowercase().contains("content-length: 1000000"));
    }
}
