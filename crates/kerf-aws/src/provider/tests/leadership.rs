//! The controllers of the provider run only while the process leads.

use std::sync::Arc;
use std::time::Duration;

use kerf_api::crds::CrdVariant;
use kerf_cloud::{CloudProvider as _, ProviderSetup};
use kerf_operator::{ControllerEnvironment, ControllerMetrics, ControllerSet};
use kerf_runtime::Shutdown;
use kerf_sandbox::install_crds;

use crate::memory::MemorySettings;
use crate::testing::{ProviderEnv, TYPES};

// spec 06 #133: a standby has added the controllers and does not run them.
#[tokio::test(start_paused = true)]
async fn spec_06_133_only_the_leader_polls_and_refreshes() {
    let env = ProviderEnv::with(&TYPES, MemorySettings::default(), |settings| {
        settings.interruption_queue = Some("demo".to_owned());
        settings.enable_zonal_shift = true;
    })
    .await;
    let client = env.server.client_as("test");
    install_crds(&client, CrdVariant::Aws).await.unwrap();
    let mut set = ControllerSet::new(ControllerEnvironment {
        metrics: Arc::new(ControllerMetrics::new(&env.registry)),
        clock: env.clock,
        seed: 7,
        cores: 1,
    });
    env.provider.add_controllers(&mut ProviderSetup {
        set: &mut set,
        cloud: env.provider.clone(),
        client,
        cluster: env.cluster.clone(),
        clock: env.clock,
        events: env.events.clone(),
        registry: env.registry.clone(),
    });
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert!(env.operations().is_empty(), "{:?}", env.operations());
    let (stop, signal) = Shutdown::new();
    let leads = futures::future::join_all(set.run(&signal));
    let for_two_minutes = async {
        tokio::time::sleep(Duration::from_mins(2)).await;
        stop.request();
    };
    futures::future::join(leads, for_two_minutes).await;
    let operations = env.operations();
    for operation in ["ReceiveMessage", "DescribeInstanceStatus", "GetManagedResource", "DescribeSpotPriceHistory"] {
        assert!(operations.contains(&operation), "{operation} in {operations:?}");
    }
}
