//! The CA certificates of the connection to the API server, as nodes get them: base64.
//!
//! The text is part of the drift hash of every EC2NodeClass (spec 06 §6.3, spec 12 §7.3), so it
//! encodes the bytes of the file as they stand. Another encoding of the same certificates would
//! replace all nodes of a cluster that Karpenter ran before.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Config;
use kube::config::{Cluster, Kubeconfig};

/// The certificates of the API server in every pod.
const SERVICE_ACCOUNT_CA: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// PEM breaks base64 into lines of this length.
const PEM_LINE_CHARACTERS: usize = 64;

/// Returns the CA certificates of a connection: those of the kubeconfig if there is one, else those
/// of the pod. Returns `None` if there are none.
pub(super) fn ca_bundle(config: &Config) -> Option<String> {
    // As `Config::infer` does.
    let kubeconfig = Kubeconfig::read().ok();
    let bytes = match &kubeconfig {
        Some(kubeconfig) => current_cluster(kubeconfig).and_then(cluster_certificates),
        None => std::fs::read(Path::new(SERVICE_ACCOUNT_CA)).ok(),
    };
    bytes.map(|bytes| STANDARD.encode(bytes)).or_else(|| encoded_certificates(config))
}

fn current_cluster(kubeconfig: &Kubeconfig) -> Option<&Cluster> {
    let current = kubeconfig.current_context.as_deref()?;
    let context = kubeconfig.contexts.iter().find(|named| named.name == current)?.context.as_ref()?;
    kubeconfig.clusters.iter().find(|named| named.name == context.cluster)?.cluster.as_ref()
}

/// Returns the bytes that a kubeconfig holds or names. The bytes in the file come first, as in
/// Kubernetes' client for Go.
fn cluster_certificates(cluster: &Cluster) -> Option<Vec<u8>> {
    match &cluster.certificate_authority_data {
        Some(data) => STANDARD.decode(data).ok(),
        None => std::fs::read(cluster.certificate_authority.as_deref()?).ok(),
    }
}

/// Returns the certificates that the client has read, as PEM.
fn encoded_certificates(config: &Config) -> Option<String> {
    let certificates = config.root_cert.as_ref().filter(|certificates| !certificates.is_empty())?;
    let mut pem = String::new();
    for certificate in certificates {
        pem.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded = STANDARD.encode(certificate);
        for line in encoded.as_bytes().chunks(PEM_LINE_CHARACTERS) {
            pem.push_str(&String::from_utf8_lossy(line));
            pem.push('\n');
        }
        pem.push_str("-----END CERTIFICATE-----\n");
    }
    Some(STANDARD.encode(pem))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

    use super::*;

    // spec 12 #45
    #[test]
    fn the_bytes_of_a_file_are_encoded_as_they_stand() {
        let certificate = "-----BEGIN CERTIFICATE-----\nAQEB\n-----END CERTIFICATE-----\n";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        for text in [
            certificate.to_owned(),
            certificate.trim_end().to_owned(),
            format!("{certificate}{certificate}"),
            format!("# a comment\n{certificate}\n\n"),
            certificate.replace('\n', "\r\n"),
        ] {
            std::fs::write(&path, &text).unwrap();
            let by_path =
                Cluster { certificate_authority: Some(path.to_str().unwrap().to_owned()), ..Cluster::default() };
            assert_eq!(cluster_certificates(&by_path).unwrap(), text.as_bytes());
            let data = Cluster { certificate_authority_data: Some(STANDARD.encode(&text)), ..by_path };
            std::fs::write(&path, "another").unwrap();
            assert_eq!(cluster_certificates(&data).unwrap(), text.as_bytes());
        }
        assert_eq!(cluster_certificates(&Cluster::default()), None);
    }

    #[test]
    fn the_cluster_of_the_current_context_counts() {
        let text = "apiVersion: v1\nkind: Config\ncurrent-context: b\n\
                    contexts: [{name: a, context: {cluster: one, user: u}}, {name: b, context: {cluster: two, user: u}}]\n\
                    clusters: [{name: one, cluster: {server: https://one}}, {name: two, cluster: {server: https://two}}]\n";
        let kubeconfig = Kubeconfig::from_yaml(text).unwrap();
        assert_eq!(current_cluster(&kubeconfig).unwrap().server.as_deref(), Some("https://two"));
    }

    #[test]
    fn without_a_file_the_certificates_of_the_client_are_written_as_pem() {
        let mut config = Config::new(http::Uri::from_static("https://localhost"));
        assert_eq!(encoded_certificates(&config), None);
        config.root_cert = Some(vec![vec![1; 60], vec![2]]);
        let pem = STANDARD.decode(encoded_certificates(&config).unwrap()).unwrap();
        let expected = format!(
            "-----BEGIN CERTIFICATE-----\n{}\n{}\n-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\nAg==\n-----END CERTIFICATE-----\n",
            "AQEB".repeat(16),
            "AQEB".repeat(4)
        );
        assert_eq!(String::from_utf8(pem).unwrap(), expected);
    }
}
