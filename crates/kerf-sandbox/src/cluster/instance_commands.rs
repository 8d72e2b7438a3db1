//! What those outside can tell the simulated machines: things that happen to machines and that no Kubernetes API has a word for.

use smol_str::SmolStr;
use tokio::sync::mpsc;

use super::control_plane::Plane;

/// Something that happens to a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Its kubelet stops.
    KillKubelet(SmolStr),
    /// Its kubelet starts again.
    ReviveKubelet(SmolStr),
    /// It will never be ready.
    Doom(SmolStr),
    /// It is gone, and its Node with it.
    TakeAway(SmolStr),
}

/// The simulated machines, as whoever runs the cloud sees them. A machine is known by the name of its Node, and comes into being with
/// any Node that carries the annotation `kwok.x-k8s.io/node`.
#[derive(Clone, Debug)]
pub struct Machines {
    orders: mpsc::UnboundedSender<Order>,
}

impl Machines {
    pub(crate) fn new(orders: mpsc::UnboundedSender<Order>) -> Self {
        Self { orders }
    }

    /// The machine's kubelet stops without a word: no more heartbeats, and its pods stay as they are.
    pub fn kill_kubelet(&self, node: &str) {
        self.order(Order::KillKubelet(node.into()));
    }

    /// The machine's kubelet starts again.
    pub fn revive_kubelet(&self, node: &str) {
        self.order(Order::ReviveKubelet(node.into()));
    }

    /// A machine whose Node has not come yet will never be ready.
    pub fn doom(&self, node: &str) {
        self.order(Order::Doom(node.into()));
    }

    /// The cloud takes the machine away without a word: it is gone at once, and so is its Node, whatever anybody still wanted of it.
    pub fn take_away(&self, node: &str) {
        self.order(Order::TakeAway(node.into()));
    }

    fn order(&self, order: Order) {
        // A cluster that has ended has no machines to order about.
        let _ = self.orders.send(order);
    }
}

impl Plane {
    pub(crate) fn obey(&mut self, order: Order) {
        match order {
            Order::KillKubelet(node) => self.kill_kubelet(&node),
            Order::ReviveKubelet(node) => self.revive_kubelet(&node),
            Order::Doom(node) => self.doom_machine(&node),
            Order::TakeAway(node) => self.take_machine_away(&node),
        }
    }
}
