//! `kerf sandbox`, as typed and as meant.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// Start a whole Kubernetes cluster in this process.
#[derive(Debug, Args)]
#[command(
    help_template = super::HELP_TEMPLATE,
    before_help = "\
Examples:
  kerf sandbox --nodes 3                     a cluster with three simulated nodes, until Ctrl-C
  kerf sandbox -- kubectl get nodes          run a command with KUBECONFIG set, then stop with its exit code
  kerf sandbox --no-controller               the cluster alone; point any autoscaler at it"
)]
pub(super) struct TypedSandbox {
    /// Run the cluster alone, without Kerf's controllers and without its CRDs.
    #[arg(long, help_heading = "Cluster")]
    no_controller: bool,
    /// How many simulated nodes there are from the start: 4 CPUs, 16Gi and room for 110 pods each.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=5000), help_heading = "Cluster")]
    nodes: u32,
    /// Let machines and pods start and stop at once, instead of after a few seconds.
    #[arg(long, help_heading = "Cluster")]
    instant: bool,
    /// Where all chance in the cluster comes from: uids, names, how long things take.
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Cluster")]
    seed: u64,
    /// The port on 127.0.0.1 that the API listens on; any that is free, if none is given.
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true, help_heading = "Access")]
    port: u16,
    /// Where to write the kubeconfig; a private temporary file, if nothing is given. A file that exists is not overwritten.
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    kubeconfig: Option<PathBuf>,
    /// A command to run against the cluster, with KUBECONFIG set. The cluster ends with it.
    #[arg(last = true, value_name = "CMD", help_heading = "Command")]
    command: Vec<OsString>,
}

impl TypedSandbox {
    pub(super) fn resolve(self) -> Sandbox {
        let mut words = self.command.into_iter();
        let command = words.next().map(|program| (program, words.collect()));
        let (controller, nodes, instant) = (!self.no_controller, self.nodes, self.instant);
        Sandbox { controller, nodes, instant, seed: self.seed, port: self.port, kubeconfig: self.kubeconfig, command }
    }
}

/// Which cluster to start.
#[derive(Debug)]
pub(crate) struct Sandbox {
    /// Whether Kerf's own part is wanted.
    pub(crate) controller: bool,
    /// How many nodes there are from the start.
    pub(crate) nodes: u32,
    /// Whether machines and pods take no time.
    pub(crate) instant: bool,
    /// Where chance comes from.
    pub(crate) seed: u64,
    /// The port, or 0.
    pub(crate) port: u16,
    /// Where the kubeconfig goes.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// What to run: a program and its arguments.
    pub(crate) command: Option<(OsString, Vec<OsString>)>,
}
