//! A small HTTP server for GET requests, with limits, so that clients cannot exhaust the process:
//! at most [`CONNECTIONS_MAX`] connections, a time limit for the head of a request and for idle
//! connections, and one for clients that do not read their response.
//!
//! A new connection is always accepted. If there are too many, the oldest is closed: probes answer
//! within moments, so an old connection is an idle one.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// Maximum number of open connections per address.
const CONNECTIONS_MAX: usize = 100;
/// Time limit for the head of a request. It is also the longest time for which a connection may be
/// idle between two requests.
const REQUEST_HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Age at which a connection takes no further request.
const CONNECTION_AGE_MAX: Duration = Duration::from_mins(5);
/// Time that a client has to read the response to its last request.
const LAST_RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of the head of a request, in bytes.
const REQUEST_HEAD_BYTES_MAX: usize = 16 * 1024;
/// Delay after an error of `accept`, such as too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Status code, content type and body of a response.
pub(super) type HttpResponse = (u16, &'static str, String);

/// Serves HTTP GET requests until `tasks` is dropped. `handler` maps path and query to a response.
pub(super) async fn serve(
    address: SocketAddr,
    tasks: &mut JoinSet<()>,
    handler: impl Fn(&str, &str) -> HttpResponse + Send + Sync + 'static,
) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    let handler = Arc::new(handler);
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        let mut oldest_first: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            };
            while connections.try_join_next().is_some() {}
            oldest_first.retain(|connection| !connection.is_finished());
            if oldest_first.len() >= CONNECTIONS_MAX
                && let Some(oldest) = oldest_first.pop_front()
            {
                oldest.abort();
            }
            oldest_first.push_back(connections.spawn(serve_connection(stream, handler.clone())));
        }
    });
    Ok(())
}

/// Serves one connection until the client closes it or a limit is reached.
async fn serve_connection(
    stream: TcpStream,
    handler: Arc<impl Fn(&str, &str) -> HttpResponse + Send + Sync + 'static>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = respond(&request, handler.as_ref());
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_HEAD_TIMEOUT)
        .max_buf_size(REQUEST_HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // A client that closes the connection early is not an error.
    if tokio::time::timeout(CONNECTION_AGE_MAX, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(LAST_RESPONSE_TIMEOUT, connection).await;
    }
}

fn respond(request: &Request<Incoming>, handler: &impl Fn(&str, &str) -> HttpResponse) -> Response<Full<Bytes>> {
    let (code, content_type, text) = match *request.method() {
        Method::GET | Method::HEAD => handler(request.uri().path(), request.uri().query().unwrap_or_default()),
        _ => (405, "text/plain", "method not allowed\n".to_owned()),
    };
    let response = Response::builder().status(code).header("content-type", content_type).body(Full::from(text));
    response.unwrap_or_else(|_| Response::new(Full::default()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use futures::FutureExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn start() -> (SocketAddr, JoinSet<()>) {
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut tasks = JoinSet::new();
        serve(address, &mut tasks, |path, _| (200, "text/plain", path.to_owned())).await.unwrap();
        (address, tasks)
    }

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    // spec 07 #70
    #[tokio::test]
    async fn idle_connections_do_not_stop_the_server() {
        let (address, _tasks) = start().await;
        let mut idle = Vec::new();
        for _ in 0..3 * CONNECTIONS_MAX {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        assert!(get(address, "/healthz").await.ends_with("/healthz"));
        let mut closed = BTreeSet::new();
        for _ in 0..1000 {
            for (n, stream) in idle.iter_mut().enumerate() {
                if !closed.contains(&n) && stream.read(&mut [0]).now_or_never().is_some() {
                    closed.insert(n);
                }
            }
            tokio::task::yield_now().await;
        }
        assert!(closed.len() >= 2 * CONNECTIONS_MAX, "{} of {} connections are closed", closed.len(), idle.len());
        assert!(!closed.contains(&(idle.len() - 1)), "the oldest are closed first");
    }

    // spec 07 #71
    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_is_closed() {
        let (address, _tasks) = start().await;
        for head in ["", "GET /healthz HTTP/1.1\r\nx: y"] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut text = Vec::new();
            let closed = tokio::time::timeout(2 * REQUEST_HEAD_TIMEOUT, stream.read_to_end(&mut text)).await;
            assert!(closed.is_ok(), "after {head:?}");
        }
    }

    // spec 07 #72
    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_dropped() {
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut tasks = JoinSet::new();
        let large = "x".repeat(64 << 20);
        serve(address, &mut tasks, move |_, _| (200, "text/plain", large.clone())).await.unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        tokio::time::sleep(CONNECTION_AGE_MAX + 2 * LAST_RESPONSE_TIMEOUT).await;
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text).await;
        assert!(text.len() < 64 << 20, "the response is cut off after {} bytes", text.len());
    }
}
