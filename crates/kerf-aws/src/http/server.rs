//! The listener on the loopback address, with limits of its own.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use super::AwsHttp;
use super::service::response;
use crate::memory::MemoryAws;

/// Largest number of open connections. Further connections wait.
const CONNECTIONS_MAX: usize = 256;

/// Largest size of a request's body. A launch template with user data has about 30 kB.
const BODY_MAX_BYTES: usize = 1 << 20;

/// Time in which a request's body must arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Time in which the header of a request must arrive, and for which a connection may be idle.
const HEADER_TIMEOUT: Duration = Duration::from_mins(1);

/// Delay after a failed accept, for example without free file handles.
const ACCEPT_RETRY_AFTER: Duration = Duration::from_millis(100);

/// An EC2 in memory that listens on 127.0.0.1. Dropping it closes the listener and every
/// connection.
#[derive(Debug)]
pub struct AwsServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl AwsServer {
    /// Listens on 127.0.0.1 at `port`; 0 selects any free port. Must be called on a tokio runtime
    /// with IO and time enabled. Fails if the port is in use.
    pub async fn bind(aws: MemoryAws, port: u16) -> io::Result<Self> {
        Self::bind_front(AwsHttp::new(aws), port).await
    }

    /// Listens as [`Self::bind`] does, and answers from `front`.
    pub async fn bind_front(front: AwsHttp, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(accept(listener, front));
        Ok(Self { address, task })
    }

    /// Returns the URL for `AWS_ENDPOINT_URL` or `--endpoint-url`, for example
    /// `http://127.0.0.1:4566`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the address with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the listener and every connection, and returns once they are closed.
    pub async fn shutdown(mut self) {
        self.task.abort();
        // The task was cancelled, which is an error of the handle and not of the server.
        let _ = (&mut self.task).await;
    }
}

impl Drop for AwsServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Accepts connections. Dropping the future closes all of them.
async fn accept(listener: TcpListener, front: AwsHttp) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let front = front.clone();
                connections.spawn(async move {
                    serve_connection(stream, front).await;
                    drop(slot);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_RETRY_AFTER).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection(stream: TcpStream, front: AwsHttp) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let front = front.clone();
        async move { respond(&front, request).await }
    });
    // An error also ends the connection for the client, so it is ignored here.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// Answers a request. Fails if the client gets no answer, which closes the connection.
async fn respond(front: &AwsHttp, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, io::Error> {
    let (parts, body) = request.into_parts();
    let body = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, BODY_MAX_BYTES).collect()).await;
    let response = match body {
        Ok(Ok(body)) => front.respond(Request::from_parts(parts, body.to_bytes())).await,
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Some(response(413, "text/plain", format!("The request is larger than {BODY_MAX_BYTES} bytes.\n")))
        }
        Ok(Err(_)) | Err(_) => None,
    };
    match response {
        Some(response) => Ok(response.map(Full::new)),
        None => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}
