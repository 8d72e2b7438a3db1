//! Suspends all tasks of one simulated process, as SIGSTOP suspends a process. Several processes of
//! a simulation share one tokio runtime. While a process is suspended, time passes and its timers
//! expire, but none of its tasks runs.
//!
//! Invariant: a task belongs to the process of the task that has wrapped it with [`same_process`].
//! Code that spawns a task has to wrap it, or the task runs on while its process is suspended.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use futures::future::BoxFuture;
use futures::{Future, FutureExt as _};

thread_local! {
    /// The process whose task this thread polls; `None` outside simulated processes.
    static CURRENT: RefCell<Option<SimulatedProcess>> = const { RefCell::new(None) };
}

/// A simulated process that can be suspended. Clones are the same process.
#[derive(Clone, Debug, Default)]
pub struct SimulatedProcess(Arc<Mutex<ProcessState>>);

#[derive(Debug, Default)]
struct ProcessState {
    is_suspended: bool,
    /// Tasks that were woken while the process was suspended. A task may be in it several times.
    waiting: Vec<Waker>,
}

impl SimulatedProcess {
    /// Stops to run the tasks of the process. A task that runs now continues until it waits.
    pub fn suspend(&self) {
        self.state().is_suspended = true;
    }

    /// Runs the tasks of the process again.
    pub fn resume(&self) {
        let mut state = self.state();
        state.is_suspended = false;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Returns the future as a task of this process.
    pub fn task<F: Future + Send + 'static>(&self, future: F) -> ProcessTask<F::Output> {
        ProcessTask { process: Some(self.clone()), future: future.boxed() }
    }

    /// Returns true, and remembers to wake the task later, if the process is suspended.
    fn holds_back(&self, waker: &Waker) -> bool {
        let mut state = self.state();
        if state.is_suspended && !state.waiting.iter().any(|known| known.will_wake(waker)) {
            state.waiting.push(waker.clone());
        }
        state.is_suspended
    }

    /// Locks the state. A panic of another holder leaves it valid.
    fn state(&self) -> std::sync::MutexGuard<'_, ProcessState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wraps a future that is about to be spawned, so that it belongs to the simulated process of the
/// current task. Outside simulated processes it changes nothing.
pub fn same_process<F: Future + Send + 'static>(future: F) -> ProcessTask<F::Output> {
    ProcessTask { process: CURRENT.with_borrow(Clone::clone), future: future.boxed() }
}

/// A future that does not run while its process is suspended.
pub struct ProcessTask<T> {
    process: Option<SimulatedProcess>,
    future: BoxFuture<'static, T>,
}

impl<T> std::fmt::Debug for ProcessTask<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessTask").field("process", &self.process).finish_non_exhaustive()
    }
}

impl<T> Future for ProcessTask<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(process) = self.process.clone() else { return self.future.as_mut().poll(cx) };
        if process.holds_back(cx.waker()) {
            return Poll::Pending;
        }
        let _current = CurrentProcess(CURRENT.replace(Some(process)));
        self.future.as_mut().poll(cx)
    }
}

/// Restores the previous process of the thread when it is dropped, also after a panic.
struct CurrentProcess(Option<SimulatedProcess>);

impl Drop for CurrentProcess {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_suspended_process_and_the_tasks_that_it_spawned_do_not_run() {
        let (process, ticks) = (SimulatedProcess::default(), Arc::new(AtomicU32::new(0)));
        let counter = ticks.clone();
        let tick = async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                counter.fetch_add(1, Ordering::Relaxed);
            }
        };
        tokio::spawn(process.task(async move { tokio::spawn(same_process(tick)).await }));
        let half_a_second = Duration::from_millis(500);
        tokio::time::sleep(half_a_second + Duration::from_secs(3)).await;
        assert_eq!(ticks.load(Ordering::Relaxed), 3);
        process.suspend();
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(ticks.load(Ordering::Relaxed), 3, "timers expire, and no task runs");
        process.resume();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(ticks.load(Ordering::Relaxed), 4, "the task notices one expired timer");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(ticks.load(Ordering::Relaxed), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn outside_a_simulated_process_a_task_is_never_suspended() {
        SimulatedProcess::default().suspend();
        assert_eq!(same_process(async { 7 }).await, 7);
    }
}
