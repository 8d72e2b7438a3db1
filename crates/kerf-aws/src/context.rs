//! The state that the launch path, the facade and the controllers of the AWS provider share.

use std::sync::Arc;

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::hash::ec2nodeclass_hash;
use kerf_api::labels::LabelRules;
use kerf_api::quantity::QuantityError;
use kerf_engine::catalogue::{InstanceType, InstanceTypes};
use kerf_operator::{Publish, Registry, SharedCluster};
use kerf_runtime::Clock;
use kube::Client;

use crate::batcher::{BatcherMetrics, FleetBatcher};
use crate::cache_metrics::CacheMetrics;
use crate::cluster_facts::ClusterDiscovery;
use crate::discovery::amis::Amis;
use crate::discovery::capacity_reservations::CapacityReservations;
use crate::discovery::security_groups::SecurityGroups;
use crate::discovery::subnets::Subnets;
use crate::instance_profiles::InstanceProfiles;
use crate::instance_types::{InstanceTypeCatalogue, InstanceTypeError, InstanceTypeSettings};
use crate::instances::Instances;
use crate::launch_metrics::LaunchMetrics;
use crate::launch_templates::LaunchTemplateStore;
use crate::node_classes::NodeClasses;
use crate::parts::AwsParts;
use crate::placement_groups::{KnownPlacementGroups, PlacementGroups};
use crate::ports::AwsPorts;
use crate::ports::ec2::PlacementGroup;
use crate::pricing::Pricing;
use crate::published_claim_events::PublishedClaimEvents;
use crate::reservation_slots::ReservationSlots;
use crate::settings::AwsSettings;
use crate::shifted_zones::{ShiftedZones, ZonalShifts};
use crate::unavailable_offerings::UnavailableOfferings;

/// The state that the launch path, the facade and the controllers of the AWS provider share.
pub(crate) struct AwsContext {
    pub(crate) ports: AwsPorts,
    pub(crate) settings: AwsSettings,
    pub(crate) label_rules: LabelRules,
    pub(crate) client: Client,
    pub(crate) cluster: SharedCluster,
    pub(crate) clock: Clock,
    pub(crate) events: Arc<dyn Publish>,
    pub(crate) published_claim_events: PublishedClaimEvents,
    pub(crate) registry: Arc<Registry>,
    pub(crate) discovery: Arc<ClusterDiscovery>,
    pub(crate) subnets: Arc<Subnets>,
    pub(crate) security_groups: Arc<SecurityGroups>,
    pub(crate) amis: Arc<Amis>,
    pub(crate) instance_profiles: Arc<InstanceProfiles>,
    pub(crate) reservations: Arc<CapacityReservations>,
    pub(crate) reservation_slots: Arc<ReservationSlots>,
    pub(crate) placement_groups: Arc<PlacementGroups>,
    pub(crate) known_groups: Arc<KnownPlacementGroups>,
    pub(crate) zonal_shifts: Arc<ZonalShifts>,
    pub(crate) unavailable: Arc<UnavailableOfferings>,
    pub(crate) instance_types: Arc<InstanceTypeCatalogue>,
    pub(crate) launch_templates: Arc<LaunchTemplateStore>,
    pub(crate) node_classes: NodeClasses,
    pub(crate) instances: Instances,
    pub(crate) fleets: FleetBatcher,
    pub(crate) launch_metrics: LaunchMetrics,
}

impl AwsContext {
    pub(crate) fn new(parts: AwsParts) -> Self {
        let AwsParts { ports, settings, client, cluster, clock, events, registry } = parts;
        let pricing = Arc::new(Pricing::new(&ports.region));
        let unavailable = Arc::new(UnavailableOfferings::new(clock));
        let type_settings = InstanceTypeSettings::new(&ports.region, &settings);
        let reservation_slots = Arc::new(ReservationSlots::new(clock));
        let known_groups = Arc::new(KnownPlacementGroups::new(clock));
        let shifted_zones = Arc::new(ShiftedZones::new(clock));
        let instance_types = InstanceTypeCatalogue::new(type_settings, pricing, unavailable.clone(), clock)
            .with_reservation_slots(reservation_slots.clone())
            .with_placement_groups(known_groups.clone())
            .with_shifted_zones(shifted_zones.clone());
        let instance_types = Arc::new(instance_types);
        let launch_templates =
            LaunchTemplateStore::new(ports.ec2.clone(), &settings.cluster_name, clock, settings.seed);
        let launch_templates = Arc::new(launch_templates.with_metrics(&registry));
        let discovery = Arc::new(ClusterDiscovery::new(ports.clone(), settings.clone(), client.clone(), clock));
        let batcher_metrics = BatcherMetrics::new(&registry);
        let context = Self {
            label_rules: LabelRules::aws(),
            subnets: Arc::new(Subnets::new(ports.ec2.clone(), &settings, clock)),
            security_groups: Arc::new(SecurityGroups::new(ports.ec2.clone(), &settings, clock)),
            amis: Arc::new(Amis::new(&ports, &settings, discovery.facts().clone(), clock)),
            instance_profiles: Arc::new(InstanceProfiles::new(&ports, &settings, clock)),
            reservations: Arc::new(CapacityReservations::new(ports.ec2.clone(), reservation_slots.clone(), clock)),
            placement_groups: Arc::new(PlacementGroups::new(ports.ec2.clone(), known_groups.clone(), clock)),
            instances: Instances::new(
                &ports,
                &settings,
                &registry,
                batcher_metrics.clone(),
                shifted_zones.clone(),
                clock,
            ),
            zonal_shifts: Arc::new(ZonalShifts::new(
                ports.zonal_shift.clone(),
                settings.enable_zonal_shift,
                shifted_zones,
            )),
            fleets: FleetBatcher::new(ports.ec2.clone(), batcher_metrics, settings.seed),
            launch_metrics: LaunchMetrics::new(&registry),
            node_classes: NodeClasses::new(client.clone(), cluster.clone()),
            ports,
            settings,
            client,
            cluster,
            clock,
            events,
            published_claim_events: PublishedClaimEvents::default(),
            registry,
            discovery,
            reservation_slots,
            known_groups,
            unavailable,
            instance_types,
            launch_templates,
        };
        let caches = CacheMetrics::new(&context.registry);
        context.subnets.measure(&caches);
        context.security_groups.measure(&caches);
        context.amis.measure(&caches);
        context.instance_profiles.measure(&caches);
        context.instance_types.measure(&caches);
        context.reservations.measure(&caches);
        context.reservation_slots.measure(&caches);
        context.placement_groups.measure(&caches);
        context.unavailable.measure(&caches);
        context.instances.measure(&caches);
        context.launch_templates.measure(&caches);
        context
    }

    /// Returns all instance types of a class, with those that are unavailable. Reads the placement
    /// group of the class and the zonal shifts before, if they are due.
    pub(crate) async fn instance_types_of(&self, class: &EC2NodeClass) -> Result<InstanceTypes, InstanceTypeError> {
        self.read_offering_facts(class).await;
        self.instance_types.list(class)
    }

    /// Returns one type of a class, see [`Self::instance_types_of`].
    pub(crate) async fn instance_type_of(
        &self,
        class: &EC2NodeClass,
        name: &str,
    ) -> Result<InstanceType, InstanceTypeError> {
        self.read_offering_facts(class).await;
        self.instance_types.get(class, name)
    }

    async fn read_offering_facts(&self, class: &EC2NodeClass) {
        self.zonal_shifts.load().await;
        self.placement_group(class).await;
    }

    /// Returns the placement group of a class. After a failure the last known group counts; the
    /// `nodeclass` controller reports the failure. Returns `None` if the class selects no group or
    /// none is known.
    pub(crate) async fn placement_group(&self, class: &EC2NodeClass) -> Option<Arc<PlacementGroup>> {
        if let Err(error) = self.placement_groups.resolve(class).await {
            tracing::debug!(error = %error, "using the last known placement group");
        }
        self.known_groups.get(class)
    }

    /// Returns the drift hash of a class in decimal.
    pub(crate) fn class_hash(&self, class: &EC2NodeClass) -> Result<String, QuantityError> {
        let facts = self.discovery.facts().get();
        let spec = class.spec.clone().unwrap_or_default();
        let hash = ec2nodeclass_hash(&spec, facts.ca_bundle.as_deref().unwrap_or_default())?;
        Ok(hash.to_string())
    }
}
