//! The simulated boot: an instance reads its user data as the operating system of its image does.
//! Nothing else tells an instance how to join a cluster, so that wrong user data fails here as it
//! fails on EC2.
//!
//! The image decides which software reads the user data: nodeadm (AL2023), `bootstrap.sh` through
//! cloud-init (AL2), the settings API (Bottlerocket) or the bootstrap script of Windows. For an
//! image that EKS did not publish, the form of the user data decides.

mod bootstrap_script;
mod bottlerocket;
mod kubelet_flags;
mod node_config;
mod powershell;
mod shell_words;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kerf_aws::user_data::ArchiveError;
use serde_json::{Map, Value};

/// Reason why an instance cannot read its user data.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UserDataProblem {
    #[error("the user data is not base64")]
    NotBase64,
    #[error("the user data is not UTF-8 text")]
    NotText,
    #[error("the user data is no MIME archive: {0}")]
    NoArchive(ArchiveError),
    #[error("the user data has no part of type {}, so nodeadm has nothing to do", node_config::CONTENT_TYPE)]
    NoNodeConfig,
    #[error("a NodeConfig is not YAML: {0}")]
    NotYaml(String),
    #[error("a document of type {} has {field} {found} instead of {expected}", node_config::CONTENT_TYPE)]
    OtherKind { field: &'static str, found: String, expected: &'static str },
    #[error("the kubelet does not start: unknown flag: --{0}")]
    UnknownKubeletFlag(String),
    #[error("the user data does not call {0}, so no kubelet starts")]
    NoBootstrapCall(&'static str),
    #[error("the call of {script} has no cluster name")]
    NoClusterName { script: &'static str },
    #[error("the script of the user data cannot be read: {0}")]
    Script(String),
    #[error("Bottlerocket does not boot: {0}")]
    Settings(String),
    #[error("the instance has no user data, and its image starts no kubelet by itself")]
    Empty,
}

/// The software of an image that reads the user data and starts the kubelet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BootSoftware {
    /// nodeadm of AL2023.
    Nodeadm,
    /// `/etc/eks/bootstrap.sh` of AL2, called by a script that cloud-init runs.
    BootstrapScript,
    /// The settings API of Bottlerocket.
    Bottlerocket,
    /// `Start-EKSBootstrap.ps1` of Windows.
    Windows,
}

impl BootSoftware {
    /// Returns the software of an image with this name. For other images the text decides.
    fn of(image_name: &str, user_data: &str) -> Option<Self> {
        if image_name.contains("-al2023-") {
            return Some(Self::Nodeadm);
        }
        if image_name.starts_with("bottlerocket-") {
            return Some(Self::Bottlerocket);
        }
        if image_name.starts_with("Windows_Server-") {
            return Some(Self::Windows);
        }
        if image_name.starts_with("amazon-eks-") {
            return Some(Self::BootstrapScript);
        }
        if user_data.contains("<powershell>") {
            Some(Self::Windows)
        } else if user_data.contains(node_config::CONTENT_TYPE) {
            Some(Self::Nodeadm)
        } else if user_data.contains("settings.kubernetes") {
            Some(Self::Bottlerocket)
        } else if user_data.is_empty() {
            None
        } else {
            Some(Self::BootstrapScript)
        }
    }
}

/// The facts that an instance has read from its user data.
#[derive(Debug)]
pub(super) struct BootConfig {
    pub(super) software: BootSoftware,
    pub(super) cluster_name: String,
    /// URL of the API server; `None` if the software asks EKS for it.
    pub(super) endpoint: Option<String>,
    /// CA certificate, base64; `None` if the software asks EKS for it.
    pub(super) certificate_authority: Option<String>,
    /// Range of Service addresses; empty if missing. Only nodeadm needs it.
    pub(super) cidr: String,
    /// Fields of a `KubeletConfiguration`.
    pub(super) kubelet: Map<String, Value>,
    /// Labels with which the kubelet registers.
    pub(super) labels: Vec<(String, String)>,
    /// True if local disks are combined to the ephemeral storage.
    pub(super) uses_raid0: bool,
}

impl BootConfig {
    /// Reads the user data of a launch template, which is base64, as an image with this name does.
    pub(super) fn read(image_name: &str, user_data: &str) -> Result<Self, UserDataProblem> {
        let bytes = STANDARD.decode(user_data.trim()).map_err(|_| UserDataProblem::NotBase64)?;
        let text = String::from_utf8(bytes).map_err(|_| UserDataProblem::NotText)?;
        match BootSoftware::of(image_name, &text) {
            Some(BootSoftware::Nodeadm) => node_config::read(&text),
            Some(BootSoftware::BootstrapScript) => bootstrap_script::read(&text),
            Some(BootSoftware::Bottlerocket) => bottlerocket::read(&text),
            Some(BootSoftware::Windows) => powershell::read(&text),
            None => Err(UserDataProblem::Empty),
        }
    }
}

/// Returns the label of the Windows version of an image. Returns `None` for other images.
pub(super) fn windows_build(image_name: &str) -> Option<&'static str> {
    let year = image_name.strip_prefix("Windows_Server-")?.get(..4)?;
    [("2019", "10.0.17763"), ("2022", "10.0.20348"), ("2025", "10.0.26100")]
        .into_iter()
        .find(|(known, _)| *known == year)
        .map(|(_, build)| build)
}

#[cfg(test)]
mod tests;
