//! Arguments of `kerf validate`.

use clap::Args;

use super::input::{InputPath, TypedInput};

/// Check manifests as an API server with Kerf's CRDs would do it, without a cluster.
#[derive(Debug, Args)]
#[command(
    help_template = super::HELP_TEMPLATE,
    before_help = "\
Examples:
  kerf validate -f nodepools.yaml
  kerf validate -f deploy/ -f extra.json
  kubectl get nodepools -o yaml | kerf validate -f -

`kerf validate` checks names, unknown fields, types and rules of every object of a kind that
`kerf plan` reads. It does not check anything that depends on other objects of a cluster, such as
namespaces and quotas. For built-in kinds, `kerf plan` checks only the fields that its decisions
depend on.

The rules on label domains are those of the provider whose node class an object names. A
NodeOverlay names no node class: the CRDs that `kerf crds` prints apply to it, unless all NodePools
and node classes in the input are for karpenter.kwok.sh."
)]
pub(crate) struct TypedValidate {
    #[command(flatten)]
    input: TypedInput,
    /// Reject unknown fields, API groups that resemble a known one, and disruption budgets that
    /// cannot be read; --strict=false only warns about them, or ignores them.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = true, action = clap::ArgAction::Set, help_heading = "Checks")]
    strict: bool,
}

impl TypedValidate {
    pub(super) fn resolve(self) -> ValidateOptions {
        ValidateOptions { input: self.input.resolve(), is_strict: self.strict }
    }
}

/// Validated options of `kerf validate`.
#[derive(Debug)]
pub(crate) struct ValidateOptions {
    /// Manifests to check.
    pub(crate) input: Vec<InputPath>,
    /// True if unknown fields, similar API groups and unreadable budgets are problems.
    pub(crate) is_strict: bool,
}
