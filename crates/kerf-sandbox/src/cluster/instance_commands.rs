//! Commands for simulated instances: failures and terminations that no Kubernetes API expresses.

use smol_str::SmolStr;
use tokio::sync::mpsc;

use super::control_plane::ControlPlane;

/// A command for the instance of the named Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InstanceCommand {
    /// Stops the kubelet.
    KillKubelet(SmolStr),
    /// Starts the kubelet again.
    RestartKubelet(SmolStr),
    /// Keeps the instance from ever becoming ready.
    MarkNeverReady(SmolStr),
    /// Terminates the instance and deletes its Node.
    Terminate(SmolStr),
}

/// Handle for the simulated instances of a cluster. An instance is identified by the name of its
/// Node. It is created with any Node that has the annotation `kwok.x-k8s.io/node`, or launched by
/// the attached cloud.
#[derive(Clone, Debug)]
pub struct SimulatedInstances {
    commands: mpsc::UnboundedSender<InstanceCommand>,
}

impl SimulatedInstances {
    pub(crate) fn new(commands: mpsc::UnboundedSender<InstanceCommand>) -> Self {
        Self { commands }
    }

    /// Stops the kubelet without notice: heartbeats end, and its pods keep their last status.
    pub fn kill_kubelet(&self, node: &str) {
        self.send(InstanceCommand::KillKubelet(node.into()));
    }

    /// Starts a stopped kubelet again.
    pub fn restart_kubelet(&self, node: &str) {
        self.send(InstanceCommand::RestartKubelet(node.into()));
    }

    /// Marks an instance so that it never becomes ready. Must be called before its Node is created.
    pub fn mark_never_ready(&self, node: &str) {
        self.send(InstanceCommand::MarkNeverReady(node.into()));
    }

    /// Terminates the instance without notice. Its Node is deleted at once, finalizers included.
    /// An instance of the attached cloud is interrupted instead
    /// ([`crate::SimulatedCloud::interrupt`]).
    pub fn terminate(&self, node: &str) {
        self.send(InstanceCommand::Terminate(node.into()));
    }

    fn send(&self, command: InstanceCommand) {
        // Sending fails only after the cluster has stopped; then there is nothing to command.
        let _ = self.commands.send(command);
    }
}

impl ControlPlane {
    pub(crate) fn apply_instance_command(&mut self, command: InstanceCommand) {
        match command {
            InstanceCommand::KillKubelet(node) => self.kill_kubelet(&node),
            InstanceCommand::RestartKubelet(node) => self.restart_kubelet(&node),
            InstanceCommand::MarkNeverReady(node) => self.mark_never_ready(&node),
            InstanceCommand::Terminate(node) => self.terminate_instance(&node),
        }
    }
}
