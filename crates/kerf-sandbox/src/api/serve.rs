//! The server on a socket: HTTPS on the loopback address only, with a certificate and a token that
//! exist only while it runs. Requests without the token get 401. Connections are limited in number
//! and in time, so that clients that send or read nothing cannot keep others out.

mod connection;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Request};
use hyper::body::Incoming;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tower::Service as _;

use self::connection::ConnectionLimits;
use super::respond::error_response;
use super::server::ApiServer;
use super::status::StatusError;
use super::subresources::is_same_secret;

/// The maximum time of a TLS handshake.
const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of connections; further clients wait.
const MAX_CONNECTIONS: usize = 1000;
/// The size of a connection's send buffer in the kernel, which doubles the number.
const SEND_BUFFER_BYTES: u32 = 64 * 1024;
/// The number of connections that wait to be accepted.
const LISTEN_BACKLOG: u32 = 1024;
/// The delay after an error of the operating system, such as too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The reason why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No key or certificate could be created.
    #[error("cannot create a certificate for the API server")]
    Certificate(#[from] rcgen::Error),
    /// The TLS library rejects the key or the certificate.
    #[error("cannot set up TLS for the API server")]
    Tls(#[from] rustls::Error),
    /// The operating system provides no random numbers for a token.
    #[error("cannot create a token for the API server: the system provides no random numbers")]
    Token,
    /// The port is in use, or listening on it is not permitted.
    #[error("cannot listen on 127.0.0.1:{port}")]
    Listen {
        /// The requested port.
        port: u16,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

/// A listening server. Dropping it closes every connection.
#[derive(Debug)]
pub struct ServerHandle {
    address: SocketAddr,
    kubeconfig: String,
    task: JoinHandle<()>,
}

impl ServerHandle {
    /// Returns the address on which the server listens, with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the text of a kubeconfig file for clients. It contains the token: keep it private.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ApiServer {
    /// Listens on 127.0.0.1 at `port`; 0 selects any free port. Must be called on a tokio runtime
    /// with IO and time enabled.
    #[expect(clippy::unused_async, reason = "an async function shows that listening needs a runtime")]
    pub async fn serve(&self, port: u16) -> Result<ServerHandle, ServeError> {
        let identity = Identity::new()?;
        let listen = |source| ServeError::Listen { port, source };
        let listener = listen_on_loopback(port).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let kubeconfig = identity.kubeconfig(address);
        let Identity { acceptor, token, .. } = identity;
        let task = tokio::spawn(accept(listener, acceptor, self.clone(), token.into()));
        Ok(ServerHandle { address, kubeconfig, task })
    }
}

/// Listens on 127.0.0.1. Connections inherit the size of the socket's send buffer, so that a client
/// that reads nothing costs little memory of the kernel too.
fn listen_on_loopback(port: u16) -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.bind((Ipv4Addr::LOCALHOST, port).into())?;
    socket.listen(LISTEN_BACKLOG)
}

/// Accepts connections, up to the limit. Dropping the future closes all of them.
async fn accept(listener: TcpListener, acceptor: TlsAcceptor, server: ApiServer, token: Arc<str>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        // Further clients wait until a connection ends. Idle connections end by themselves.
        if connections.len() >= MAX_CONNECTIONS {
            connections.join_next().await;
            continue;
        }
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(serve_client(stream, acceptor.clone(), server.clone(), token.clone()));
            }
            // There may be no file handles left at the moment. The client has to try again.
            Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
        }
    }
}

async fn serve_client(stream: TcpStream, acceptor: TlsAcceptor, server: ApiServer, token: Arc<str>) {
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(TLS_HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await else { return };
    let handle = move |request: Request<Incoming>| {
        let (mut server, token) = (server.clone(), token.clone());
        async move {
            if is_authorized(request.headers(), &token, &server) {
                server.call(request).await
            } else {
                Ok(error_response(&StatusError::unauthorized()))
            }
        }
    };
    connection::serve(stream, ConnectionLimits::DEFAULT, handle).await;
}

/// Returns true if the request has the token of the kubeconfig or a valid one of a service account.
fn is_authorized(headers: &HeaderMap, token: &str, server: &ApiServer) -> bool {
    let sent_token = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "));
    let sent_token = sent_token.unwrap_or_default().trim().as_bytes();
    is_same_secret(sent_token, token.as_bytes()) || server.inner.accepts_token(sent_token)
}

/// The server's certificate authority, TLS configuration and token.
struct Identity {
    acceptor: TlsAcceptor,
    authority: String,
    token: String,
}

impl Identity {
    fn new() -> Result<Self, ServeError> {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        authority.distinguished_name.push(DnType::CommonName, "kerf-sandbox-ca");
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

        let mut leaf =
            CertificateParams::new(vec!["127.0.0.1".to_string(), "localhost".into(), "kubernetes.default.svc".into()])?;
        leaf.distinguished_name.push(DnType::CommonName, "kerf-sandbox");
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = leaf.signed_by(&key, &authority)?;

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut secret = [0u8; 32];
        provider.secure_random.fill(&mut secret).map_err(|_| ServeError::Token)?;
        let token = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(secret);

        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), authority: authority.pem(), token })
    }

    fn kubeconfig(&self, address: SocketAddr) -> String {
        let authority = base64::engine::general_purpose::STANDARD.encode(&self.authority);
        let token = &self.token;
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: kerf-sandbox\n\
             clusters:\n- name: kerf-sandbox\n  cluster:\n    server: https://{address}\n    certificate-authority-data: {authority}\n\
             contexts:\n- name: kerf-sandbox\n  context:\n    cluster: kerf-sandbox\n    user: kerf-sandbox\n\
             users:\n- name: kerf-sandbox\n  user:\n    token: {token}\n"
        )
    }
}
