//! `CreateFleet` for many claims at once.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use kerf_runtime::Rng;
use tracing::error;

use super::{Batcher, BatcherMetrics, BatcherSettings};
use crate::ports::ec2::{CreateFleet, Ec2, FleetAnswer, FleetError, FleetTarget};
use crate::ports::{AwsError, Tags};

const SETTINGS: BatcherSettings = BatcherSettings {
    name: "create_fleet",
    idle: Duration::from_millis(35),
    max: Duration::from_secs(1),
    requests_max: 1_000,
};

/// Message of the error that stands for an answer with neither enough instances nor an error.
const TOO_FEW_INSTANCES: &str = "too few instances returned";

/// The part of a fleet's answer that one request gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FleetLaunch {
    /// ID of the fleet; empty if missing.
    pub(crate) fleet_id: String,
    /// The instance; `None` if the fleet launched too few.
    pub(crate) instance: Option<FleetLaunchedInstance>,
    /// All errors of the fleet.
    pub(crate) errors: Arc<[FleetError]>,
}

/// An instance of a fleet, with the override that it was launched from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FleetLaunchedInstance {
    pub(crate) id: String,
    pub(crate) instance_type: String,
    pub(crate) subnet_id: String,
    pub(crate) zone: String,
    pub(crate) image_id: String,
}

/// Launches instances; equal requests share one call.
pub(crate) struct FleetBatcher(Batcher<CreateFleet, Result<FleetLaunch, AwsError>>);

impl FleetBatcher {
    pub(crate) fn new(ec2: Arc<dyn Ec2>, metrics: BatcherMetrics, seed: u64) -> Self {
        let tokens = Arc::new(Mutex::new(Rng::new(seed).fork("fleet client tokens")));
        let run = move |requests: Vec<CreateFleet>| {
            let client_token = tokens.lock().unwrap_or_else(PoisonError::into_inner).uuid();
            launch(Arc::clone(&ec2), requests, client_token).boxed()
        };
        Self(Batcher::new(SETTINGS, metrics, bucket_of, Box::new(run)))
    }

    /// Launches one instance. The client token of the request is ignored: a call gets its own.
    pub(crate) async fn launch_one(&self, request: CreateFleet) -> Result<FleetLaunch, AwsError> {
        if request.target_capacity != 1 {
            return Err(AwsError::no_answer("EC2", "CreateFleet", "expected to launch one instance"));
        }
        let result = self.0.call(request).await;
        result.unwrap_or_else(|| Err(AwsError::no_answer("EC2", "CreateFleet", "error making call")))
    }
}

async fn launch(
    ec2: Arc<dyn Ec2>,
    requests: Vec<CreateFleet>,
    client_token: String,
) -> Vec<Result<FleetLaunch, AwsError>> {
    let count = requests.len();
    let Some(first) = requests.into_iter().next() else { return Vec::new() };
    let target_capacity = i32::try_from(count).unwrap_or(i32::MAX);
    match ec2.create_fleet(CreateFleet { target_capacity, client_token, ..first }).await {
        Ok(answer) => shares(answer, count).into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error); count],
    }
}

/// Divides the answer among the requests: one instance each, in the order of the answer, and all
/// errors for each.
fn shares(answer: FleetAnswer, count: usize) -> Vec<FleetLaunch> {
    let FleetAnswer { fleet_id, instances, errors } = answer;
    let mut launched = instances.into_iter().flat_map(|group| {
        let instance = FleetLaunchedInstance {
            id: String::new(),
            instance_type: group.instance_type,
            subnet_id: group.subnet_id,
            zone: group.zone,
            image_id: group.image_id,
        };
        group.ids.into_iter().map(move |id| FleetLaunchedInstance { id, ..instance.clone() })
    });
    let errors: Arc<[FleetError]> = errors.into();
    let too_few: Arc<[FleetError]> = if errors.is_empty() {
        Arc::new([FleetError { code: TOO_FEW_INSTANCES.to_owned(), ..FleetError::default() }])
    } else {
        errors.clone()
    };
    let shares: Vec<FleetLaunch> = (0..count)
        .map(|_| {
            let instance = launched.next();
            let errors = if instance.is_some() { errors.clone() } else { too_few.clone() };
            FleetLaunch { fleet_id: fleet_id.clone(), instance, errors }
        })
        .collect();
    let surplus: Vec<String> = launched.map(|instance| instance.id).collect();
    if !surplus.is_empty() {
        error!("fleet-id" = fleet_id, instances = surplus.join(","), "received more instances than requested");
    }
    shares
}

/// Returns a hash of the whole request that does not depend on the order of its lists.
fn bucket_of(request: &CreateFleet) -> u64 {
    let CreateFleet { target_capacity: _, target, configs, tags, context, client_token: _, is_dry_run } = request;
    let configs = unordered_hash(configs.iter().map(|config| {
        let overrides = unordered_hash(config.overrides.iter().map(|choice| {
            let priority = choice.priority.map(f64::to_bits);
            hash_of((&choice.instance_type, &choice.subnet_id, &choice.image_id, &choice.zone, priority))
        }));
        hash_of((&config.template_name, overrides))
    }));
    let tags = unordered_hash(
        tags.iter().map(|specification: &_| hash_of((specification.resource_type, tags_of(&specification.tags)))),
    );
    let target = match target {
        FleetTarget::Spot { allocation_strategy } => ("spot", allocation_strategy.as_str()),
        FleetTarget::OnDemand { allocation_strategy } => ("on-demand", allocation_strategy.as_str()),
        FleetTarget::CapacityBlock => ("capacity-block", ""),
        FleetTarget::ReservedCapacity => ("reserved-capacity", ""),
    };
    hash_of((target, configs, tags, context, is_dry_run))
}

fn tags_of(tags: &Tags) -> Vec<(&String, &String)> {
    tags.iter().collect()
}

fn hash_of(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Returns a hash that depends on the items and their number, not on their order.
fn unordered_hash(items: impl Iterator<Item = u64>) -> u64 {
    let (sum, count) = items.fold((0_u64, 0_u64), |(sum, count), item| (sum.wrapping_add(item), count + 1));
    hash_of((sum, count))
}
