//! A server that gives prepared answers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The server's reaction to a request.
#[derive(Debug, Clone)]
pub(crate) enum Reaction {
    /// Answers with a status and a body.
    Answer(u16, &'static str),
    /// Keeps the connection open and never answers.
    Hang,
    /// Closes the connection without an answer.
    Close,
    /// Announces a longer body than it sends, and closes the connection.
    Truncate(&'static str),
}

/// A server on a free loopback port. Dropping it closes the listener and every connection.
pub(crate) struct CannedServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl CannedServer {
    /// Reacts to the requests in order; all requests after the last reaction get the last one.
    pub(crate) async fn start(reactions: Vec<Reaction>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut tasks = JoinSet::new();
        let recorded = Arc::clone(&requests);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, reactions.clone(), Arc::clone(&recorded)));
            }
        });
        Self { address, requests, _tasks: tasks }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests so far: head and body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Serves one request per connection.
async fn serve(mut stream: TcpStream, reactions: Vec<Reaction>, requests: Arc<Mutex<Vec<String>>>) {
    let Some(request) = read_request(&mut stream).await else { return };
    let position = {
        let mut requests = requests.lock().unwrap();
        requests.push(request);
        requests.len() - 1
    };
    match &reactions[position.min(reactions.len() - 1)] {
        Reaction::Answer(status, body) => answer(&mut stream, *status, body.len(), body).await,
        Reaction::Truncate(body) => answer(&mut stream, 200, body.len() + 1_000, body).await,
        Reaction::Close => {}
        Reaction::Hang => std::future::pending().await,
    }
}

async fn answer(stream: &mut TcpStream, status: u16, length: usize, body: &str) {
    let head = format!(
        "HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\nx-amzn-requestid: request-1\r\n\r\n"
    );
    // The client may be gone already, which the test notices by itself.
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
    let _ = stream.shutdown().await;
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                if name.eq_ignore_ascii_case("content-length") { value.trim().parse().ok() } else { None }
            });
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        let mut part = [0; 4096];
        match stream.read(&mut part).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend(&part[..count]),
        }
    }
}
