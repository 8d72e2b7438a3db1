//! What those outside can tell the simulated machines: things that happen to machines and that no Kubernetes API has a word for.

use smol_str::SmolStr;
use tokio::sync::mpsc;

use super::control_plane::ControlPlane;

/// Something that happens to a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InstanceCommand {
    /// Its kubelet stops.
    KillKubelet(SmolStr),
    /// Its kubelet starts again.
    RestartKubelet(SmolStr),
    /// It will never be ready.
    MarkNeverReady(SmolStr),
    /// It is gone, and its Node with it.
    Terminate(SmolStr),
}

/// The simulated machines, as whoever runs the cloud sees them. A machine is known by the name of its Node, and comes into being with
/// any Node that carries the annotation `kwok.x-k8s.io/node`.
#[derive(Clone, Debug)]
pub struct SimulatedInstances {
    commands: mpsc::UnboundedSender<InstanceCommand>,
}

impl SimulatedInstances {
    pub(crate) fn new(orders: mpsc::UnboundedSender<InstanceCommand>) -> Self {
        Self { commands: orders }
    }

    /// The machine's kubelet stops without a word: no more heartbeats, and its pods stay as they are.
    pub fn kill_kubelet(&self, node: &str) {
        self.send(InstanceCommand::KillKubelet(node.into()));
    }

    /// The machine's kubelet starts again.
    pub fn restart_kubelet(&self, node: &str) {
        self.send(InstanceCommand::RestartKubelet(node.into()));
    }

    /// A machine whose Node has not come yet will never be ready.
    pub fn mark_never_ready(&self, node: &str) {
        self.send(InstanceCommand::MarkNeverReady(node.into()));
    }

    /// The cloud takes the machine away without a word: it is gone at once, and so is its Node, whatever anybody still wanted of it.
    pub fn terminate(&self, node: &str) {
        self.send(InstanceCommand::Terminate(node.into()));
    }

    fn send(&self, order: InstanceCommand) {
        // A cluster that has ended has no machines to order about.
        let _ = self.commands.send(order);
    }
}

impl ControlPlane {
    pub(crate) fn apply_instance_command(&mut self, order: InstanceCommand) {
        match order {
            InstanceCommand::KillKubelet(node) => self.kill_kubelet(&node),
            InstanceCommand::RestartKubelet(node) => self.restart_kubelet(&node),
            InstanceCommand::MarkNeverReady(node) => self.mark_never_ready(&node),
            InstanceCommand::Terminate(node) => self.terminate_instance(&node),
        }
    }
}
