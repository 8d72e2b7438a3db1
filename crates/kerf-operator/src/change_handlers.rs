//! Functions that run after a change of cluster state. A provider uses them to enqueue keys of its
//! own controllers; the watches themselves belong to `kerf-controllers`.

use kerf_api::nodepool::NodePool;
use kerf_api::slim::{Node, Pod};
use kerf_state::{NodeClass, ObjectChange, TrackedClaim};

/// A function that runs for each change of an object of one kind.
pub type ChangeHandler<T> = Box<dyn Fn(&ObjectChange<T>) + Send + Sync>;

/// Handlers of changes, by watched kind. Handlers of one kind run in the order in which they were
/// added, after cluster state contains the change. The cluster index is not locked while they run.
/// They must return quickly: no other event is handled meanwhile.
#[derive(Default)]
pub struct ChangeHandlers {
    claims: Vec<ChangeHandler<TrackedClaim>>,
    pools: Vec<ChangeHandler<NodePool>>,
    node_classes: Vec<ChangeHandler<NodeClass>>,
    nodes: Vec<ChangeHandler<Node>>,
    pods: Vec<ChangeHandler<Pod>>,
}

impl std::fmt::Debug for ChangeHandlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChangeHandlers").finish_non_exhaustive()
    }
}

/// A kind whose changes can be handled.
pub trait HandledKind: Sized + 'static {
    /// Returns the handlers of this kind.
    fn handlers(all: &ChangeHandlers) -> &[ChangeHandler<Self>];

    /// Returns the list to which handlers of this kind are added.
    fn handlers_mut(all: &mut ChangeHandlers) -> &mut Vec<ChangeHandler<Self>>;
}

impl ChangeHandlers {
    /// Adds a handler of all changes of one kind. NodeClaims of other providers are never reported.
    pub fn add<T: HandledKind>(&mut self, handler: impl Fn(&ObjectChange<T>) + Send + Sync + 'static) {
        T::handlers_mut(self).push(Box::new(handler));
    }

    /// Runs the handlers of a change.
    pub fn run<T: HandledKind>(&self, change: &ObjectChange<T>) {
        for handler in T::handlers(self) {
            handler(change);
        }
    }
}

/// Implements [`HandledKind`] for a kind with the field that holds its handlers.
macro_rules! impl_handled_kind {
    ($($kind:ty => $field:ident),+ $(,)?) => {$(
        impl HandledKind for $kind {
            fn handlers(all: &ChangeHandlers) -> &[ChangeHandler<Self>] {
                &all.$field
            }

            fn handlers_mut(all: &mut ChangeHandlers) -> &mut Vec<ChangeHandler<Self>> {
                &mut all.$field
            }
        }
    )+};
}

impl_handled_kind! {
    TrackedClaim => claims,
    NodePool => pools,
    NodeClass => node_classes,
    Node => nodes,
    Pod => pods,
}
