//! Kerf's API on an API server, as `kubectl apply -f <(kerf crds)` would make it known: for the sandbox's server and for any other that a
//! test runs on. A definition that is there already stays as it is.

use http::header::CONTENT_TYPE;
use kerf_api::crds::{self, CrdVariant};
use kube::Client;

const CRD_COLLECTION_PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A kind that could not be made known.
#[derive(Debug, thiserror::Error)]
#[error("cannot install the CRD of {kind}")]
pub struct InstallError {
    kind: &'static str,
    source: kube::Error,
}

/// Makes Kerf's API known to the server behind a client.
pub async fn install_crds(client: &Client, flavour: CrdVariant) -> Result<(), InstallError> {
    for crd in crds::all(flavour) {
        let wrong = |source| InstallError { kind: crd.kind(), source };
        let request = http::Request::post(CRD_COLLECTION_PATH)
            .header(CONTENT_TYPE, "application/json")
            .body(crd.json().to_string().into_bytes())
            .map_err(|cause| wrong(kube::Error::HttpError(cause)))?;
        match client.request_text(request).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            outcome => drop(outcome.map_err(wrong)?),
        }
    }
    Ok(())
}
