//! User data: the text by which an instance configures itself and joins the cluster (spec 05 §14).
//!
//! Each AMI family has a format of its own. A simulated instance joins by what this text says, so
//! nothing that a node needs may reach it in another way.

mod bootstrap_script;
mod bottlerocket;
mod kubelet_flags;
mod mime;
mod node_config;
mod windows;
mod yaml_document;

use std::collections::BTreeMap;

use kerf_api::ec2nodeclass::AmiFamily;
use kerf_api::labels;
use kerf_api::taints::{self, Taint, TaintEffect};
use serde_json::{Map, Value};

use crate::instance_types::ami_family::AmiFamilyRules;
use crate::instance_types::kubelet::ResolvedKubelet;
use crate::settings::ClusterFacts;

pub use bottlerocket::{BindCommand, SettingsError, bind_command};
pub use mime::ArchiveError;

/// Label that keeps Kerf from writing taints to a node that has registered with them.
const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";

/// Label domains that a kubelet may not set on its own node.
const RESTRICTED_DOMAINS: [&str; 3] = ["node-restriction.kubernetes.io", "kubernetes.io", "k8s.io"];

/// Everything that user data depends on.
#[derive(Debug, Clone, Copy)]
pub struct UserDataInput<'a> {
    /// The EKS cluster that the node joins.
    pub cluster_name: &'a str,
    /// Endpoint, CA, DNS address and range of Service addresses.
    pub cluster: &'a ClusterFacts,
    /// `spec.kubelet` as written; `None` if it is not set.
    pub kubelet: Option<&'a Map<String, Value>>,
    /// The interpreted fields of `spec.kubelet`, without expressions.
    pub resolved_kubelet: &'a ResolvedKubelet,
    /// Number of pods of the instance types, for classes without `maxPods`.
    pub max_pods: i64,
    /// Labels of the node, see [`node_labels`].
    pub labels: &'a BTreeMap<String, String>,
    /// Taints of the node, see [`node_taints`].
    pub taints: &'a [Taint],
    /// `spec.userData`; `None` if it is not set.
    pub custom: Option<&'a str>,
    /// True if local disks are combined to the ephemeral storage.
    pub uses_raid0: bool,
    /// The command by which a Bottlerocket image mounts the ephemeral storage, see
    /// [`bind_command`].
    pub bind_command: BindCommand,
}

impl UserDataInput<'_> {
    /// Returns the number of pods of the node: `maxPods` of the class, or that of the types.
    fn node_max_pods(&self) -> i64 {
        self.resolved_kubelet.max_pods.unwrap_or(self.max_pods)
    }

    /// Returns the DNS servers of pods: those of the class, or the cluster's if it is known.
    fn cluster_dns(&self) -> Vec<String> {
        let own = &self.resolved_kubelet.settings().cluster_dns;
        match self.cluster.dns_address {
            Some(address) if own.is_empty() => vec![address.to_string()],
            Some(_) | None => own.clone(),
        }
    }
}

/// Reason why user data cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UserDataError {
    /// The range of Service addresses is unknown, which AL2023 needs. The node class is not ready.
    #[error("resolving cluster CIDR: the range of Service addresses is not known yet")]
    UnknownServiceCidr,
    /// `spec.userData` is an archive that cannot be read.
    #[error("parsing custom UserData, {0}")]
    Archive(#[from] ArchiveError),
    /// The document for nodes cannot be written as YAML.
    #[error("writing the NodeConfig: {0}")]
    Yaml(String),
    /// `spec.userData` of a Bottlerocket class cannot be used.
    #[error("invalid UserData {0}")]
    Settings(#[from] SettingsError),
}

/// Returns the user data, not encoded.
pub fn render(family: &AmiFamilyRules, input: &UserDataInput<'_>) -> Result<String, UserDataError> {
    match &family.family {
        AmiFamily::Al2023 => node_config::render(input),
        AmiFamily::Custom => Ok(input.custom.unwrap_or_default().to_owned()),
        // An unknown family has the rules of AL2.
        AmiFamily::Al2 | AmiFamily::Unsupported(_) => bootstrap_script::render(input),
        AmiFamily::Bottlerocket => bottlerocket::render(input),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => Ok(windows::render(input)),
    }
}

/// Returns the parts of a MIME archive as an instance reads them: content type and content.
pub fn read_archive(user_data: &str) -> Result<Vec<(String, String)>, ArchiveError> {
    let parts = mime::read(user_data)?;
    Ok(parts.into_iter().map(mime::Part::into_type_and_content).collect())
}

/// Returns the table `settings` of user data as a Bottlerocket instance reads it. Fails, with the
/// reason, if the text is no TOML or has a setting of Kubernetes that Bottlerocket does not know.
pub fn read_bottlerocket_settings(user_data: &str) -> Result<Value, String> {
    bottlerocket::read_settings(user_data)
}

/// Returns the labels with which a node registers: those of its claim and the capacity type,
/// without labels that a kubelet may not set.
pub fn node_labels(
    claim_labels: &BTreeMap<String, String>,
    capacity_type: &str,
    family: &AmiFamilyRules,
) -> BTreeMap<String, String> {
    let mut labels = claim_labels.clone();
    labels.insert(labels::CAPACITY_TYPE.to_owned(), capacity_type.to_owned());
    if family.family != AmiFamily::Custom {
        labels.insert(DO_NOT_SYNC_TAINTS.to_owned(), "true".to_owned());
    }
    labels.retain(|key, _| !labels::domain(key).is_some_and(is_restricted_domain));
    labels
}

fn is_restricted_domain(domain: &str) -> bool {
    RESTRICTED_DOMAINS.iter().any(|restricted| {
        domain.strip_suffix(restricted).is_some_and(|parent| parent.is_empty() || parent.ends_with('.'))
    })
}

/// Returns the taints with which a node registers: those of its claim, its startup taints, and the
/// taint that Kerf removes at registration.
pub fn node_taints(claim_taints: &[Taint], startup_taints: &[Taint]) -> Vec<Taint> {
    let mut all: Vec<Taint> = claim_taints.iter().chain(startup_taints).cloned().collect();
    let is_unregistered = |taint: &Taint| taint.key == taints::UNREGISTERED && taint.effect == TaintEffect::NoExecute;
    if !all.iter().any(is_unregistered) {
        all.push(Taint { key: taints::UNREGISTERED.to_owned(), effect: TaintEffect::NoExecute, ..Taint::default() });
    }
    all
}

#[cfg(test)]
mod tests;
