//! The replicas of the autoscaler under test. Each is a simulated process: steps of a scenario kill
//! it, stop it for a while, or change the number of replicas. A process that has ended starts again
//! after a moment, as a kubelet starts a container again.

use std::time::Duration;

use futures::future::BoxFuture;
use kerf_runtime::SimulatedProcess;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Time after which a process that has ended starts again.
const RESTART_DELAY: Duration = Duration::from_secs(1);

/// One start of a replica of the system under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaStart {
    /// Number of starts before this one, of all replicas. It makes random values of processes
    /// differ.
    pub number: u64,
    /// Identity of the process for leader election. `None`: it runs without a lease.
    pub identity: Option<String>,
}

/// All replicas of the system under test. Dropping them stops them.
pub(super) struct Replicas<F> {
    start: F,
    uses_lease: bool,
    starts: u64,
    members: Vec<Replica>,
}

struct Replica {
    identity: String,
    state: ReplicaState,
}

enum ReplicaState {
    Running {
        process: SimulatedProcess,
        task: JoinHandle<()>,
    },
    /// No task of the process runs until this time.
    Stopped {
        until: Instant,
        process: SimulatedProcess,
        task: JoinHandle<()>,
    },
    /// The process has ended and starts again at this time.
    Ended {
        restart_at: Instant,
    },
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.state.abort();
    }
}

impl ReplicaState {
    fn abort(&self) {
        match self {
            Self::Running { task, .. } | Self::Stopped { task, .. } => task.abort(),
            Self::Ended { .. } => {}
        }
    }
}

impl<F: Fn(ReplicaStart) -> BoxFuture<'static, ()>> Replicas<F> {
    /// Returns no replicas yet. `start` creates the future of a process.
    pub(super) fn new(start: F, uses_lease: bool) -> Self {
        Self { start, uses_lease, starts: 0, members: Vec::new() }
    }

    /// Starts replicas, or kills the last ones, until there are `count`.
    pub(super) fn scale(&mut self, count: u32) {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.members.truncate(count);
        while self.members.len() < count {
            let replica = self.start_replica(self.members.len());
            self.members.push(replica);
        }
    }

    fn start_replica(&mut self, index: usize) -> Replica {
        let number = self.starts;
        self.starts += 1;
        let identity = format!("replica-{index}-{number}");
        let future = (self.start)(ReplicaStart { number, identity: self.uses_lease.then(|| identity.clone()) });
        let process = SimulatedProcess::default();
        let task = tokio::spawn(process.task(future));
        Replica { identity, state: ReplicaState::Running { process, task } }
    }

    /// Kills the process of the leader. Fails if there are no replicas.
    pub(super) fn kill(&mut self, lease_holders: &[String]) -> Result<(), String> {
        let replica = self.leader(lease_holders)?;
        replica.state.abort();
        replica.state = ReplicaState::Ended { restart_at: Instant::now() + RESTART_DELAY };
        Ok(())
    }

    /// Stops the process of the leader for a while. If no process runs, the first one starts again
    /// only afterwards. Fails if there are no replicas.
    pub(super) fn stop(&mut self, lease_holders: &[String], duration: Duration) -> Result<(), String> {
        let replica = self.leader(lease_holders)?;
        let until = Instant::now() + duration;
        let placeholder = ReplicaState::Ended { restart_at: until };
        match std::mem::replace(&mut replica.state, placeholder) {
            ReplicaState::Running { process, task } => {
                process.suspend();
                replica.state = ReplicaState::Stopped { until, process, task };
                Ok(())
            }
            ReplicaState::Stopped { until: earlier, process, task } => {
                replica.state = ReplicaState::Stopped { until: until.max(earlier), process, task };
                Ok(())
            }
            ReplicaState::Ended { restart_at } => {
                replica.state = ReplicaState::Ended { restart_at: until.max(restart_at) };
                Ok(())
            }
        }
    }

    /// Returns the replica that holds a lease, or else the first one that runs, or else the first.
    fn leader(&mut self, lease_holders: &[String]) -> Result<&mut Replica, String> {
        let runs = |replica: &Replica| !matches!(replica.state, ReplicaState::Ended { .. });
        let holds_lease = |replica: &Replica| runs(replica) && lease_holders.contains(&replica.identity);
        let leader = self.members.iter().position(holds_lease);
        let index = leader.or_else(|| self.members.iter().position(runs)).unwrap_or_default();
        self.members.get_mut(index).ok_or_else(|| "there is no replica of the controller".to_owned())
    }

    /// Resumes and restarts processes for which it is time, and notices processes that have ended.
    pub(super) fn advance(&mut self) {
        let now = Instant::now();
        for index in 0..self.members.len() {
            let placeholder = ReplicaState::Ended { restart_at: now + RESTART_DELAY };
            let state = std::mem::replace(&mut self.members[index].state, placeholder);
            match state {
                ReplicaState::Running { task, .. } if task.is_finished() => {}
                ReplicaState::Stopped { until, process, task } if until <= now => {
                    process.resume();
                    self.members[index].state = ReplicaState::Running { process, task };
                }
                ReplicaState::Ended { restart_at } if restart_at <= now => {
                    self.members[index] = self.start_replica(index);
                }
                state @ (ReplicaState::Running { .. } | ReplicaState::Stopped { .. } | ReplicaState::Ended { .. }) => {
                    self.members[index].state = state;
                }
            }
        }
    }

    /// Returns the next time at which a process resumes or starts again.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let due = |replica: &Replica| match &replica.state {
            ReplicaState::Running { .. } => None,
            ReplicaState::Stopped { until, .. } => Some(*until),
            ReplicaState::Ended { restart_at } => Some(*restart_at),
        };
        self.members.iter().filter_map(due).min()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use futures::FutureExt as _;

    use super::*;

    /// Returns replicas that write their identity every second.
    fn writers(written: &Arc<Mutex<Vec<String>>>) -> impl Fn(ReplicaStart) -> BoxFuture<'static, ()> + use<> {
        let written = written.clone();
        move |start| {
            let written = written.clone();
            async move {
                loop {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    written.lock().unwrap().push(start.identity.clone().unwrap_or_default());
                }
            }
            .boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn replicas_are_killed_stopped_and_started_again() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let mut replicas = Replicas::new(writers(&written), true);
        let taken = |wait: u64| {
            let written = written.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(wait)).await;
                std::mem::take(&mut *written.lock().unwrap())
            }
        };
        assert!(replicas.kill(&[]).is_err());
        replicas.scale(2);
        assert_eq!(taken(1500).await, ["replica-0-0", "replica-1-1"]);
        // The second replica is the leader.
        let leader = ["node".to_owned(), "replica-1-1".to_owned()];
        replicas.stop(&leader, Duration::from_secs(20)).unwrap();
        assert_eq!(replicas.next_due(), Some(Instant::now() + Duration::from_secs(20)));
        assert_eq!(taken(2000).await, ["replica-0-0", "replica-0-0"]);
        tokio::time::sleep(Duration::from_secs(18)).await;
        replicas.advance();
        written.lock().unwrap().clear();
        assert_eq!(taken(400).await, ["replica-1-1"], "its timer expired while it was stopped");
        replicas.kill(&[]).unwrap();
        tokio::time::sleep(RESTART_DELAY).await;
        replicas.advance();
        written.lock().unwrap().clear();
        assert_eq!(taken(1200).await, ["replica-1-1", "replica-0-2"]);
        replicas.scale(1);
        assert_eq!(taken(1000).await, ["replica-0-2"]);
        replicas.scale(0);
        assert_eq!(taken(3000).await, Vec::<String>::new());
    }

    /// The processes of a scenario may have been killed, or have ended, right before they are
    /// stopped.
    #[tokio::test(start_paused = true)]
    async fn a_stop_while_no_process_runs_delays_the_next_start() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let mut replicas = Replicas::new(writers(&written), true);
        assert!(replicas.stop(&[], Duration::from_secs(20)).is_err(), "there are no replicas");
        replicas.scale(1);
        let leader = ["replica-0-0".to_owned()];
        replicas.kill(&leader).unwrap();
        replicas.stop(&leader, Duration::from_secs(20)).unwrap();
        assert_eq!(replicas.next_due(), Some(Instant::now() + Duration::from_secs(20)));
        replicas.stop(&leader, Duration::from_secs(5)).unwrap();
        tokio::time::sleep(Duration::from_secs(19)).await;
        replicas.advance();
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(*written.lock().unwrap(), Vec::<String>::new(), "a shorter stop does not end the longer one");
        replicas.advance();
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(*written.lock().unwrap(), ["replica-0-1"]);
    }

    /// A replica that was killed may still hold the lease.
    #[tokio::test(start_paused = true)]
    async fn a_replica_that_runs_is_stopped_rather_than_the_killed_holder_of_the_lease() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let mut replicas = Replicas::new(writers(&written), true);
        replicas.scale(2);
        let leader = ["replica-0-0".to_owned()];
        replicas.kill(&leader).unwrap();
        replicas.stop(&leader, Duration::from_secs(20)).unwrap();
        tokio::time::sleep(Duration::from_millis(1500)).await;
        replicas.advance();
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(*written.lock().unwrap(), ["replica-0-2"], "only the killed one runs again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_ends_starts_again() {
        let starts = Arc::new(Mutex::new(0));
        let counter = starts.clone();
        let mut replicas = Replicas::new(
            move |_| {
                *counter.lock().unwrap() += 1;
                std::future::ready(()).boxed()
            },
            false,
        );
        replicas.scale(1);
        for _ in 0..3 {
            tokio::time::sleep(RESTART_DELAY).await;
            replicas.advance();
        }
        assert_eq!(*starts.lock().unwrap(), 2);
    }
}
