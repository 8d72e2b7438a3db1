//! The controllers of the provider run only while their process leads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kerf_api::crds::CrdVariant;
use kerf_cloud::CloudProvider as _;
use kerf_operator::ControllerSet;
use kerf_runtime::{Lease, LeaseSettings, Shutdown, ShutdownSignal};
use kerf_sandbox::install_crds;

use crate::memory::MemorySettings;
use crate::provider::AwsProvider;
use crate::testing::{ProviderEnv, TYPES};

/// Calls that only the leader makes.
const LEADER_CALLS: [&str; 4] =
    ["ReceiveMessage", "DescribeInstanceStatus", "GetManagedResource", "DescribeSpotPriceHistory"];

tokio::task_local! {
    /// Name of the process that the current task belongs to.
    static PROCESS: &'static str;
}

/// Numbers of calls by process and operation.
type CallCounts = BTreeMap<(&'static str, &'static str), usize>;

/// Runs a process: its controllers run while it holds the lease, until the process is stopped.
async fn run_process(env: &ProviderEnv, name: &'static str, set: ControllerSet, stop: ShutdownSignal) {
    let settings = LeaseSettings {
        namespace: "kube-system".to_owned(),
        name: "kerf".to_owned(),
        identity: name.to_owned(),
        // Longer than in production, because the test runs for a day.
        duration: Duration::from_mins(10),
        renew_deadline: Duration::from_mins(5),
        retry_period: Duration::from_mins(1),
        seed: 7,
    };
    let mut lease = Lease::new(env.server.client_as(name), settings, env.clock);
    let run = async {
        lease.acquire().await;
        tokio::select! {
            _ = futures::future::join_all(set.run(&stop)) => {}
            lost = lease.renew_until_lost() => panic!("{name}: {lost}"),
        }
        lease.release().await;
    };
    PROCESS.scope(name, run).await;
}

// spec 06 #133
#[tokio::test(start_paused = true)]
async fn spec_06_133_only_the_leader_polls_and_refreshes() {
    let env = ProviderEnv::with(&TYPES, MemorySettings::default(), |settings| {
        settings.interruption_queue = Some("demo".to_owned());
        settings.enable_zonal_shift = true;
    })
    .await;
    install_crds(&env.server.client_as("test"), CrdVariant::Aws).await.unwrap();
    let second = env.new_process(|_| {}).await;
    let set_of =
        |provider: &Arc<AwsProvider>| ProviderEnv::controller_set(provider, |setup| provider.add_controllers(setup));
    let (first_set, second_set) = (set_of(&env.provider), set_of(&second));

    let counts: Arc<Mutex<CallCounts>> = Arc::default();
    let counted = counts.clone();
    env.aws.observe_calls(Some(Arc::new(move |_, record| {
        let process = PROCESS.try_with(|name| *name).unwrap_or_default();
        *counted.lock().unwrap().entry((process, record.operation)).or_default() += 1;
    })));
    // Returns the processes that have made each of the calls since the last time.
    let callers = || {
        let counts = std::mem::take(&mut *counts.lock().unwrap());
        LEADER_CALLS.map(|operation| {
            let of_operation = counts.keys().filter(|(_, own)| *own == operation);
            of_operation.map(|(process, _)| *process).collect::<Vec<_>>().join(" and ")
        })
    };
    let (stop_first, first_signal) = Shutdown::new();
    let (stop_second, second_signal) = Shutdown::new();
    let steps = async {
        tokio::time::sleep(Duration::from_mins(30)).await;
        let [leader, standby] = if callers() == ["first"; 4] { ["first", "second"] } else { ["second", "first"] };
        tokio::time::sleep(Duration::from_hours(13)).await;
        assert_eq!(callers(), [leader; 4], "only the leader calls");
        let [stop_leader, stop_standby] =
            if leader == "first" { [&stop_first, &stop_second] } else { [&stop_second, &stop_first] };
        stop_leader.request();
        tokio::time::sleep(Duration::from_mins(5)).await;
        callers();
        tokio::time::sleep(Duration::from_hours(13)).await;
        assert_eq!(callers(), [standby; 4], "the standby leads once the lease is released");
        stop_standby.request();
    };
    let first = run_process(&env, "first", first_set, first_signal);
    let second = run_process(&env, "second", second_set, second_signal);
    tokio::time::timeout(Duration::from_hours(30), futures::future::join3(first, second, steps)).await.unwrap();
}
