//! Arguments of `kerf validate`.

use clap::Args;

use super::input::{InputPath, TypedInput};

/// Check manifests as an API server with Kerf's CRDs would, without a cluster.
#[derive(Debug, Args)]
#[command(
    help_template = super::HELP_TEMPLATE,
    before_help = "\
Examples:
  kerf validate -f nodepools.yaml
  kerf validate -f deploy/ -f extra.json
  kubectl get nodepools -o yaml | kerf validate -f -

Checked is every object of the kinds that `kerf plan` reads: names, unknown fields, types, rules.
Not checked is what depends on the rest of a cluster: whether a namespace exists, whether a quota
has room. `kerf plan` itself asks of built-in kinds only what its decisions depend on.

Rules on label domains are those of the provider whose node class an object names. A NodeOverlay
names none: it is judged by the CRDs that `kerf crds` prints, unless all NodePools and node
classes beside it are karpenter.kwok.sh's."
)]
pub(crate) struct TypedValidate {
    #[command(flatten)]
    input: TypedInput,
}

impl TypedValidate {
    pub(super) fn resolve(self) -> ValidateOptions {
        ValidateOptions { input: self.input.resolve() }
    }
}

/// Validated options of `kerf validate`.
#[derive(Debug)]
pub(crate) struct ValidateOptions {
    /// Manifests to check.
    pub(crate) input: Vec<InputPath>,
}
