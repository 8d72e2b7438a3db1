//! The HTTP client of all services: rustls with ring, proxies and CA certificates as the
//! environment says.

use std::path::Path;

use aws_sdk_ec2::config::{RuntimeComponents, SharedHttpClient};
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_smithy_http_client::{Builder, Connector};
use kerf_aws::ports::ConnectError;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// The CA certificates that the client trusts.
#[derive(Debug, Clone)]
pub enum TrustedRoots {
    /// Those of the operating system.
    System,
    /// Only those of a file: PEM, checked.
    Bundle(Vec<u8>),
}

impl TrustedRoots {
    /// Reads the file that `AWS_CA_BUNDLE` names. As in AWS's other SDKs, its certificates replace
    /// those of the operating system. `None` or an empty path stands for the operating system's.
    pub fn from_bundle(path: Option<&Path>) -> Result<Self, ConnectError> {
        let Some(path) = path.filter(|path| !path.as_os_str().is_empty()) else {
            return Ok(Self::System);
        };
        let problem = |cause: &dyn std::fmt::Display| {
            ConnectError::new(
                format!("AWS_CA_BUNDLE names the file {}, which cannot be used: {cause}", path.display()),
                "set AWS_CA_BUNDLE to a file with CA certificates in PEM format, or unset it to use the certificates \
                 of the operating system",
            )
        };
        let pem = std::fs::read(path).map_err(|cause| problem(&cause))?;
        // The SDK's client would panic on a certificate that it cannot read.
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            roots.add(certificate.map_err(|cause| problem(&cause))?).map_err(|cause| problem(&cause))?;
        }
        if roots.is_empty() { Err(problem(&"it has no certificate")) } else { Ok(Self::Bundle(pem)) }
    }
}

/// Returns an HTTP client that trusts `roots` and uses the proxies of `HTTPS_PROXY`, `HTTP_PROXY`,
/// `ALL_PROXY` and `NO_PROXY`. Its limits are those of the service's configuration.
pub fn http_client(roots: TrustedRoots) -> Result<SharedHttpClient, ConnectError> {
    let trust_store = match roots {
        TrustedRoots::System => TrustStore::default(),
        TrustedRoots::Bundle(pem) => TrustStore::empty().with_pem_certificate(pem),
    };
    let context = TlsContext::builder().with_trust_store(trust_store).build().map_err(|cause| {
        ConnectError::new(format!("TLS cannot be set up: {cause}"), "report this as a defect of Kerf")
    })?;
    // The builder of a whole client cannot set a proxy, only that of a connector can.
    Ok(Builder::new().build_with_connector_fn(move |settings, components| {
        let mut connector = Connector::builder()
            .proxy_config(ProxyConfig::from_env())
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .tls_context(context.clone());
        connector.set_connector_settings(settings.cloned());
        connector.set_sleep_impl(components.and_then(RuntimeComponents::sleep_impl));
        connector.build()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unusable_ca_bundle_is_an_error_that_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        let problem = |content: Option<&str>| {
            match content {
                Some(content) => std::fs::write(&file, content).unwrap(),
                None => drop(std::fs::remove_file(&file)),
            }
            let error = TrustedRoots::from_bundle(Some(&file)).unwrap_err();
            assert!(error.hint.contains("PEM"), "{}", error.hint);
            error.problem.replace(&file.display().to_string(), "FILE")
        };
        let begin = "AWS_CA_BUNDLE names the file FILE, which cannot be used: ";
        assert_eq!(problem(None), format!("{begin}No such file or directory (os error 2)"));
        assert_eq!(problem(Some("")), format!("{begin}it has no certificate"));
        assert_eq!(problem(Some("no PEM")), format!("{begin}it has no certificate"));
        let not_der = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(problem(Some(not_der)).starts_with(&format!("{begin}invalid peer certificate")));
        let cut = "-----BEGIN CERTIFICATE-----\nAAAA\n";
        assert!(problem(Some(cut)).starts_with(begin));
        assert!(matches!(TrustedRoots::from_bundle(None), Ok(TrustedRoots::System)));
        assert!(matches!(TrustedRoots::from_bundle(Some(Path::new(""))), Ok(TrustedRoots::System)));
    }
}
