//! EC2 instances of this cluster: get, list, terminate and tag (spec 05 §16).
//!
//! Records of instances are kept in memory. A list replaces all of them, so that an instance that
//! EC2 no longer reports is forgotten at the latest with the next list.

mod provider_id;
mod record;
mod to_claim;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kerf_api::labels::{self, aws};
use kerf_operator::Registry;
use kerf_operator::metrics::Counter;
use kerf_runtime::Clock;

use crate::aws_errors::find_aws_error;
use crate::batcher::{BatcherMetrics, DescribeBatcher, INSTANCE_STATES, TerminateBatcher};
use crate::cache_metrics::{CacheMetrics, OptionalCacheSize};
use crate::ports::ec2::{DescribeInstances, Ec2, Ec2Instance, InstanceStateName};
use crate::ports::{AwsError, AwsPorts, Filter, Tags, all_pages};
use crate::settings::AwsSettings;
use crate::shifted_zones::ShiftedZones;
use crate::ttl_cache::TtlCache;

pub(crate) use provider_id::{ProviderIdError, parse_provider_id, provider_id};
pub(crate) use record::{InstanceRecord, RecordedReservation};
pub(crate) use to_claim::{NODECLAIM_TAG, RESERVATION_LABELS, TypeData, to_instance};

/// Tag that names the cluster of an instance.
pub(crate) const CLUSTER_NAME_TAG: &str = "eks:eks-cluster-name";
/// Page size of `DescribeInstances` without IDs.
const LIST_PAGE_SIZE: i32 = 1_000;
/// Largest number of values of a filter.
const FILTER_VALUES_MAX: usize = 200;
/// Time for which EC2 shows a terminated instance.
const TERMINATED_TTL: Duration = Duration::from_hours(1);
/// Largest number of terminated instances that are remembered.
const TERMINATED_MAX: usize = 20_000;
/// Largest number of records that are kept.
const RECORDS_MAX: usize = 100_000;

/// Failure of a call about one instance.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InstanceCallError {
    /// EC2 does not know the instance, or it is terminated.
    #[error("instance {0} not found")]
    NotFound(String),
    /// The instance could not be described.
    #[error("failed to describe ec2 instances, {0}")]
    Describe(#[source] AwsError),
    /// The instance could not be terminated.
    #[error("terminating instance {id}, {cause}")]
    Terminate {
        /// ID of the instance.
        id: String,
        /// The failure of the call.
        #[source]
        cause: AwsError,
    },
    /// The cluster is shifted away from the zone of the instance, so the call was not made.
    #[error("instance {id} is in zonally shifted availability zone {zone} ({zone_id}), skipping {skipped}")]
    ZoneShifted {
        /// ID of the instance.
        id: String,
        /// Name of the zone.
        zone: String,
        /// ID of the zone, as shifts name it.
        zone_id: String,
        /// The call, for example `termination`.
        skipped: &'static str,
    },
    /// The instance could not be tagged.
    #[error("tagging instance {id}, {cause}")]
    Tag {
        /// ID of the instance.
        id: String,
        /// The failure of the call.
        #[source]
        cause: AwsError,
    },
}

impl InstanceCallError {
    /// Returns the fields of the failed call for log lines.
    pub(crate) fn log_fields(&self) -> Vec<(String, serde_json::Value)> {
        find_aws_error(self).map(AwsError::log_fields).unwrap_or_default()
    }
}

/// Use of the records in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadFrom {
    /// A record in memory is good enough.
    Cache,
    /// EC2 is always called.
    Ec2,
}

/// Reads, terminates and tags instances.
pub(crate) struct Instances {
    ec2: Arc<dyn Ec2>,
    cluster_name: String,
    uses_reservations: bool,
    describe: DescribeBatcher,
    terminate: TerminateBatcher,
    termination_failures: Counter,
    shifted_zones: Arc<ShiftedZones>,
    records: Mutex<BTreeMap<String, Arc<InstanceRecord>>>,
    records_size: OptionalCacheSize,
    /// Instances whose termination this process has begun.
    terminated_here: TtlCache<String, ()>,
}

impl Instances {
    pub(crate) fn new(
        ports: &AwsPorts,
        settings: &AwsSettings,
        registry: &Registry,
        batcher_metrics: BatcherMetrics,
        shifted_zones: Arc<ShiftedZones>,
        clock: Clock,
    ) -> Self {
        Self {
            ec2: ports.ec2.clone(),
            cluster_name: settings.cluster_name.clone(),
            uses_reservations: settings.reserved_capacity,
            describe: DescribeBatcher::new(ports.ec2.clone(), batcher_metrics.clone()),
            terminate: TerminateBatcher::new(ports.ec2.clone(), batcher_metrics),
            termination_failures: registry.counter(
                "karpenter_cloudprovider_instance_termination_failures_total",
                "Number of failed instance terminations",
                &["zone", "zone_id"],
            ),
            shifted_zones,
            records: Mutex::default(),
            records_size: OptionalCacheSize::default(),
            terminated_here: TtlCache::new(clock, TERMINATED_TTL, TERMINATED_MAX),
        }
    }

    /// Publishes the numbers of entries in memory from now on.
    pub(crate) fn measure(&self, metrics: &CacheMetrics) {
        self.records_size.measure(metrics.of("instances"), self.lock().len());
        self.terminated_here.measure(metrics.of("terminated_instances"));
    }

    /// Returns an instance that is not terminated. While the cluster is shifted away from its zone,
    /// a record in memory is returned also for [`ReadFrom::Ec2`]: the zone may not answer.
    pub(crate) async fn get(&self, id: &str, from: ReadFrom) -> Result<Arc<InstanceRecord>, InstanceCallError> {
        let known = self.lock().get(id).cloned();
        if let Some(record) = known.filter(|record| from == ReadFrom::Cache || self.is_shifted(record)) {
            return Ok(record);
        }
        match self.describe.describe(id).await {
            Ok(Some(instance)) => {
                let record = Arc::new(InstanceRecord::new(instance, self.uses_reservations));
                self.remember(&record);
                Ok(record)
            }
            Ok(None) => Err(self.forget(id)),
            Err(error) if error.is_not_found() => Err(self.forget(id)),
            Err(error) => Err(InstanceCallError::Describe(error)),
        }
    }

    /// Returns all instances of this cluster that are not terminated.
    pub(crate) async fn list(&self) -> Result<Vec<Arc<InstanceRecord>>, InstanceCallError> {
        let filters = vec![
            Filter::any_of("tag-key", [labels::NODEPOOL]),
            Filter::any_of("tag-key", [aws::EC2NODECLASS]),
            Filter::new(format!("tag:{CLUSTER_NAME_TAG}"), &*self.cluster_name),
            Filter::any_of("instance-state-name", INSTANCE_STATES.map(InstanceStateName::name)),
        ];
        let instances = all_pages(Some(LIST_PAGE_SIZE), |page| {
            self.ec2.describe_instances(DescribeInstances { ids: Vec::new(), filters: filters.clone() }, page)
        });
        let instances = instances.await.map_err(InstanceCallError::Describe)?;
        let records: Vec<Arc<InstanceRecord>> = instances
            .into_iter()
            .map(|instance| Arc::new(InstanceRecord::new(instance, self.uses_reservations)))
            .collect();
        let mut known = self.lock();
        // EC2 may leave out the instances of a shifted zone.
        let kept = known.values().filter(|record| self.is_shifted(record)).cloned().collect::<Vec<_>>();
        let all = kept.iter().chain(&records).take(RECORDS_MAX);
        *known = all.map(|record| (record.id.clone(), record.clone())).collect();
        self.records_size.set(known.len());
        drop(known);
        Ok(records)
    }

    /// Begins the termination of an instance, and returns the instance as it was before. Makes no
    /// call if the termination has begun already.
    pub(crate) async fn terminate(&self, id: &str) -> Result<Arc<InstanceRecord>, InstanceCallError> {
        let record = self.get(id, ReadFrom::Ec2).await?;
        if let Some(error) = self.zone_shifted(&record, "termination") {
            return Err(error);
        }
        if record.state == InstanceStateName::ShuttingDown {
            return Ok(record);
        }
        match self.terminate.terminate(id).await {
            Ok(()) => {
                self.terminated_here.insert(id.to_owned(), ());
                Ok(record)
            }
            Err(cause) if cause.is_not_found() => Err(self.forget(id)),
            Err(cause) => {
                self.termination_failures.inc(&[&record.zone, &record.zone_id]);
                Err(InstanceCallError::Terminate { id: id.to_owned(), cause })
            }
        }
    }

    /// Returns true if this process has begun the termination of an instance.
    pub(crate) fn has_terminated(&self, id: &str) -> bool {
        self.terminated_here.contains(&id.to_owned())
    }

    /// Describes instances in any state, also those that are terminated. Unknown ones are missing
    /// in the answer. The records in memory stay as they are.
    pub(crate) async fn describe_any_state(&self, ids: &[String]) -> Result<Vec<InstanceRecord>, InstanceCallError> {
        let mut records = Vec::new();
        for ids in ids.chunks(FILTER_VALUES_MAX) {
            // A filter, unlike a list of IDs, accepts IDs that EC2 has forgotten.
            let filters = vec![Filter::any_of("instance-id", ids.iter().map(String::as_str))];
            let instances = all_pages(Some(LIST_PAGE_SIZE), |page| {
                self.ec2.describe_instances(DescribeInstances { ids: Vec::new(), filters: filters.clone() }, page)
            });
            let instances = instances.await.map_err(InstanceCallError::Describe)?;
            records.extend(instances.into_iter().map(|own| InstanceRecord::new(own, self.uses_reservations)));
        }
        Ok(records)
    }

    /// Sets tags of an instance. Tags with other keys stay.
    pub(crate) async fn tag(&self, id: &str, tags: Tags) -> Result<(), InstanceCallError> {
        let known = self.lock().get(id).cloned();
        if let Some(error) = known.and_then(|record| self.zone_shifted(&record, "tag creation")) {
            return Err(error);
        }
        self.ec2.create_tags(vec![id.to_owned()], tags).await.map_err(|cause| {
            if cause.is_not_found() { self.forget(id) } else { InstanceCallError::Tag { id: id.to_owned(), cause } }
        })
    }

    fn is_shifted(&self, record: &InstanceRecord) -> bool {
        self.shifted_zones.is_shifted(&record.zone_id)
    }

    /// Returns the error of a call that is not made because the zone of the instance is shifted.
    fn zone_shifted(&self, record: &InstanceRecord, skipped: &'static str) -> Option<InstanceCallError> {
        let InstanceRecord { id, zone, zone_id, .. } = record;
        let error =
            || InstanceCallError::ZoneShifted { id: id.clone(), zone: zone.clone(), zone_id: zone_id.clone(), skipped };
        self.is_shifted(record).then(error)
    }

    /// Keeps an instance that EC2 has described.
    pub(crate) fn remember_described(&self, instance: Ec2Instance) {
        self.remember(&Arc::new(InstanceRecord::new(instance, self.uses_reservations)));
    }

    fn remember(&self, record: &Arc<InstanceRecord>) {
        let mut records = self.lock();
        if records.len() < RECORDS_MAX || records.contains_key(&record.id) {
            records.insert(record.id.clone(), record.clone());
            self.records_size.set(records.len());
        }
    }

    fn forget(&self, id: &str) -> InstanceCallError {
        let mut records = self.lock();
        records.remove(id);
        self.records_size.set(records.len());
        InstanceCallError::NotFound(id.to_owned())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<InstanceRecord>>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
