//! The errors of the controllers of node classes.

use std::fmt;

use kerf_api::quantity::QuantityError;
use kerf_operator::ReconcileError;
use kerf_runtime::ApiError;
use serde_json::Value;

use super::dry_run_error::DryRunError;
use crate::cluster_facts::ClusterFactsError;
use crate::discovery::amis::AmiError;
use crate::instance_profiles::InstanceProfileError;
use crate::ports::AwsError;
use crate::restricted_tags::RestrictedTagsError;

/// Reason why a step of a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeClassError {
    /// The stored object cannot be read.
    #[error("decoding nodeclass, {0}")]
    Decode(#[from] serde_json::Error),
    /// A call to the API server failed.
    #[error("{operation}, {cause}")]
    Api {
        /// The attempt, for example `adding finalizer`.
        operation: &'static str,
        /// The answer of the API server.
        #[source]
        cause: ApiError,
    },
    /// The images cannot be found.
    #[error("getting amis, {0}")]
    Amis(#[from] AmiError),
    /// The subnets cannot be found.
    #[error("getting subnets, {0}")]
    Subnets(#[source] AwsError),
    /// The security groups cannot be found.
    #[error("getting security groups, {0}")]
    SecurityGroups(#[source] AwsError),
    /// The capacity reservations cannot be listed.
    #[error("listing capacity reservations, {0}")]
    CapacityReservations(#[source] AwsError),
    /// The placement group cannot be described.
    #[error("resolving placement group, {cause} (placement-group={group})")]
    PlacementGroup {
        /// ID or name of the group.
        group: String,
        /// The failure of the call.
        #[source]
        cause: AwsError,
    },
    /// The instance profile cannot be read, deleted or listed.
    #[error(transparent)]
    InstanceProfile(#[from] InstanceProfileError),
    /// The instance profile cannot be created.
    #[error("creating instance profile, {0}")]
    CreateInstanceProfile(#[source] InstanceProfileError),
    /// The range of Service addresses cannot be found.
    #[error("resolving cluster CIDR, {0}")]
    ClusterCidr(#[source] ClusterFactsError),
    /// `spec.kubelet` cannot be used; the condition says why.
    #[error("validating kubelet configuration, {0}")]
    Kubelet(String),
    /// The class sets tags that Kerf owns.
    #[error("validating tags, {0}")]
    Tags(#[from] RestrictedTagsError),
    /// The class cannot be checked with AWS calls.
    #[error(transparent)]
    DryRun(#[from] DryRunError),
    /// Launch templates of a deleted class cannot be deleted.
    #[error("deleting launch templates, {}", joined(.0))]
    LaunchTemplates(Vec<AwsError>),
    /// A block device has a size that is no quantity, so the class has no hash.
    #[error("hashing spec.blockDeviceMappings, volumeSize is invalid, {0}")]
    Hash(#[from] QuantityError),
}

impl NodeClassError {
    /// Returns true if the role of the class does not exist.
    pub(super) fn is_role_not_found(&self) -> bool {
        matches!(self, Self::CreateInstanceProfile(error) if error.aws_error().is_role_not_found())
    }

    fn aws_errors(&self) -> Vec<&AwsError> {
        match self {
            Self::Amis(AmiError::Describe(cause) | AmiError::Parameter(cause))
            | Self::Subnets(cause)
            | Self::CapacityReservations(cause)
            | Self::PlacementGroup { cause, .. }
            | Self::SecurityGroups(cause) => vec![cause],
            Self::InstanceProfile(error) | Self::CreateInstanceProfile(error) => vec![error.aws_error()],
            Self::ClusterCidr(error) => error.aws_error().into_iter().collect(),
            Self::DryRun(error) => error.aws_error().into_iter().collect(),
            Self::LaunchTemplates(errors) => errors.iter().collect(),
            Self::Amis(AmiError::UnsupportedAlias(_) | AmiError::InvalidAlias(_) | AmiError::NoneFound { .. })
            | Self::Decode(_)
            | Self::Api { .. }
            | Self::Kubelet(_)
            | Self::Tags(_)
            | Self::Hash(_) => Vec::new(),
        }
    }

    /// Returns the field of the error that no AWS call has.
    fn log_field(&self) -> Option<(String, Value)> {
        if let Self::PlacementGroup { group, .. } = self {
            return Some(("placement-group".to_owned(), Value::from(group.as_str())));
        }
        None
    }

    fn is_terminal(&self) -> bool {
        match self {
            Self::Amis(AmiError::UnsupportedAlias(_) | AmiError::InvalidAlias(_))
            | Self::Kubelet(_)
            | Self::Tags(_)
            | Self::Decode(_)
            | Self::Hash(_) => true,
            Self::Amis(AmiError::Describe(_) | AmiError::Parameter(_) | AmiError::NoneFound { .. })
            | Self::Api { .. }
            | Self::CapacityReservations(_)
            | Self::PlacementGroup { .. }
            | Self::Subnets(_)
            | Self::SecurityGroups(_)
            | Self::InstanceProfile(_)
            | Self::CreateInstanceProfile(_)
            | Self::ClusterCidr(_)
            | Self::DryRun(_)
            | Self::LaunchTemplates(_) => false,
        }
    }
}

/// The errors of all steps of one reconcile; at least one.
#[derive(Debug)]
pub(crate) struct NodeClassErrors(pub(crate) Vec<NodeClassError>);

impl From<NodeClassError> for NodeClassErrors {
    fn from(error: NodeClassError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for NodeClassErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&joined(&self.0))
    }
}

impl ReconcileError for NodeClassErrors {
    /// A combined error that contains a terminal error is terminal.
    fn is_terminal(&self) -> bool {
        self.0.iter().any(NodeClassError::is_terminal)
    }

    /// A key that occurs more than once gets the ending `s` and holds an array (spec 06 §1.2).
    fn log_fields(&self) -> Vec<(String, Value)> {
        let own = self.0.iter().filter_map(NodeClassError::log_field);
        let fields = self.0.iter().flat_map(NodeClassError::aws_errors).flat_map(AwsError::log_fields).chain(own);
        let mut by_key: std::collections::BTreeMap<String, Vec<Value>> = std::collections::BTreeMap::new();
        for (key, value) in fields {
            by_key.entry(key).or_default().push(value);
        }
        let field = |(key, mut values): (String, Vec<Value>)| match values.len() {
            1 => (key, values.remove(0)),
            _ => (format!("{key}s"), Value::Array(values)),
        };
        by_key.into_iter().map(field).collect()
    }
}

fn joined<T: fmt::Display>(errors: &[T]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
