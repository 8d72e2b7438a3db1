//! Installs Kerf's CRDs on an API server, as `kerf crds | kubectl apply -f -` does. It works on the
//! sandbox's server and on any other server that a test uses. A CRD that exists already stays
//! unchanged.

use http::header::CONTENT_TYPE;
use kerf_api::crds::{self, CrdVariant};
use kube::Client;

const CRD_COLLECTION_PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The CRD of one kind could not be installed.
#[derive(Debug, thiserror::Error)]
#[error("cannot install the CRD of {kind}")]
pub struct InstallError {
    kind: &'static str,
    source: kube::Error,
}

/// Installs the CRDs of a variant on the server behind `client`.
pub async fn install_crds(client: &Client, variant: CrdVariant) -> Result<(), InstallError> {
    for crd in crds::all(variant) {
        let install_error = |source| InstallError { kind: crd.kind(), source };
        let request = http::Request::post(CRD_COLLECTION_PATH)
            .header(CONTENT_TYPE, "application/json")
            .body(crd.json().to_string().into_bytes())
            .map_err(|cause| install_error(kube::Error::HttpError(cause)))?;
        match client.request_text(request).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            outcome => drop(outcome.map_err(install_error)?),
        }
    }
    Ok(())
}
