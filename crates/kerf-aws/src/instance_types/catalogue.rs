//! The catalogue of a region, and the lists of instance types that node classes get from it (spec
//! 05 §4.1, §4.2, §4.13).

mod type_kubelet;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::slim::{ResourceList, Str};
use kerf_engine::catalogue::{InstanceType, InstanceTypes, OfferingState};
use kerf_engine::requirement::Requirements;
use kerf_runtime::Clock;

use super::bytes::bytes;
use super::capacity::{self, VolumeSizeError};
use super::class_facts::{NodeClassFacts, class_key};
use super::class_states::{ClassStates, StateSources, StateVersion};
use super::compatibility::is_compatible;
use super::discovered_memory::{DiscoveredMemory, ImagesKey};
use super::kubelet::expressions::KubeletCompiler;
use super::kubelet::{KubeletError, KubeletExpressions};
use super::labels;
use super::overhead;
use super::sharing::{self, RequirementPool};
use crate::cache_metrics::{CacheMetrics, OptionalCacheSize};
use crate::offerings::{self, ClassOfferingFacts, OfferingRequirements, TypeOfferingFacts};
use crate::placement_groups::KnownPlacementGroups;
use crate::ports::ec2::{DescribeInstanceTypes, InstanceTypeInfo, InstanceTypeOffering};
use crate::ports::{AwsError, Ec2, Filter, all_pages};
use crate::pricing::Pricing;
use crate::reservation_slots::ReservationSlots;
use crate::settings::AwsSettings;
use crate::shifted_zones::ShiftedZones;
use crate::unavailable_offerings::UnavailableOfferings;

/// Time after which a list is built again, as in Karpenter. New prices become visible at once.
const LIST_TTL: Duration = Duration::from_mins(5);
/// Largest number of lists that are kept. A further list replaces the one that was not used for the
/// longest time.
const LISTS_MAX: usize = 256;
/// Page size of `DescribeInstanceTypes`.
const TYPES_PAGE_SIZE: i32 = 100;
/// Page size of `DescribeInstanceTypeOfferings`.
const OFFERINGS_PAGE_SIZE: i32 = 1_000;

/// Reason why the instance types of a node class are unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InstanceTypeError {
    /// EC2 has returned no instance types.
    #[error("no instance types found")]
    NoInstanceTypes,
    /// EC2 has returned no zones of instance types.
    #[error("no instance types offerings found")]
    NoOfferings,
    /// The status of the class has no subnets.
    #[error("no subnets found")]
    NoSubnets,
    /// `spec.kubelet` of the class cannot be used.
    #[error(transparent)]
    Kubelet(#[from] KubeletError),
    /// A block device of the class has an invalid size.
    #[error(transparent)]
    VolumeSize(#[from] VolumeSizeError),
    /// The catalogue has no type of this name.
    #[error("instance type {0} not found in cache")]
    NotFound(String),
}

/// Settings of the provider that instance types depend on.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceTypeSettings {
    /// Region, a label of every type.
    pub region: String,
    /// Fraction of an instance's memory that is assumed lost.
    pub vm_memory_overhead_percent: f64,
    /// Network interfaces of each instance that pods cannot use.
    pub reserved_enis: u32,
    /// Decides if expressions in `spec.kubelet` are evaluated.
    pub expressions: KubeletExpressions,
    /// True if capacity reservations have offerings.
    pub reserved_capacity: bool,
}

impl InstanceTypeSettings {
    /// Returns the part of the provider's settings that instance types depend on.
    pub fn new(region: &str, settings: &AwsSettings) -> Self {
        Self {
            region: region.to_owned(),
            vm_memory_overhead_percent: settings.vm_memory_overhead_percent,
            reserved_enis: settings.reserved_enis,
            expressions: if settings.node_class_cel {
                KubeletExpressions::Evaluate
            } else {
                KubeletExpressions::Ignore
            },
            reserved_capacity: settings.reserved_capacity,
        }
    }
}

/// The instance types of a region, and a list of them for each node class.
///
/// As long as nothing changes, a class gets clones of one list ([`InstanceTypes::is_same`]), also
/// after its list has expired and was built again. A mark of missing capacity, a free slot of a
/// reservation and a zonal shift change only the states of the lists. Lists of several classes
/// share their equal parts.
#[derive(Debug)]
pub struct InstanceTypeCatalogue {
    settings: InstanceTypeSettings,
    pricing: Arc<Pricing>,
    sources: StateSources,
    groups: Arc<KnownPlacementGroups>,
    memory: DiscoveredMemory,
    /// The number of lists.
    lists_size: OptionalCacheSize,
    clock: Clock,
    kubelet: KubeletCompiler,
    state: Mutex<CatalogueState>,
}

#[derive(Debug, Default)]
struct CatalogueState {
    types: BTreeMap<String, InstanceTypeInfo>,
    /// Zones of each type.
    zones: BTreeMap<String, BTreeSet<Str>>,
    /// Zones of all types.
    all_zones: BTreeSet<Str>,
    lists: BTreeMap<String, CachedList>,
    requirements: RequirementPool,
    /// Requirements of each type that are equal for all classes. Empty until the first list.
    type_requirements: BTreeMap<String, Requirements>,
    offering_requirements: OfferingRequirements,
}

#[derive(Debug)]
struct CachedList {
    states: ClassStates,
    /// The list without marks of missing capacity, zonal shifts and free slots.
    unmarked: InstanceTypes,
    /// The list with the states of `version`.
    current: InstanceTypes,
    version: StateVersion,
    /// Number of the price update that the list has.
    prices: u64,
    expires: Timestamp,
    last_used: Timestamp,
}

impl InstanceTypeCatalogue {
    /// Creates a catalogue without instance types.
    pub fn new(
        settings: InstanceTypeSettings,
        pricing: Arc<Pricing>,
        unavailable: Arc<UnavailableOfferings>,
        clock: Clock,
    ) -> Self {
        let slots = Arc::new(ReservationSlots::new(clock));
        let shifted_zones = Arc::new(ShiftedZones::new(clock));
        let groups = Arc::new(KnownPlacementGroups::new(clock));
        let sources = StateSources { unavailable, slots, shifted_zones };
        let kubelet = KubeletCompiler::new(settings.expressions, clock);
        Self {
            settings,
            pricing,
            sources,
            groups,
            memory: DiscoveredMemory::new(clock),
            lists_size: OptionalCacheSize::default(),
            clock,
            kubelet,
            state: Mutex::default(),
        }
    }

    /// Reads the free slots of capacity reservations from this store. Without it no slot is free.
    #[must_use]
    pub fn with_reservation_slots(mut self, slots: Arc<ReservationSlots>) -> Self {
        self.sources.slots = slots;
        self
    }

    /// Reads the placement groups of classes from this store. Without it no class has one.
    #[must_use]
    pub fn with_placement_groups(mut self, groups: Arc<KnownPlacementGroups>) -> Self {
        self.groups = groups;
        self
    }

    /// Reads zonal shifts from this store. Without it no zone is shifted.
    #[must_use]
    pub fn with_shifted_zones(mut self, shifted_zones: Arc<ShiftedZones>) -> Self {
        self.sources.shifted_zones = shifted_zones;
        self
    }

    /// Returns the prices of the offerings. A new price becomes visible when a list is built again.
    pub fn pricing(&self) -> &Pricing {
        &self.pricing
    }

    /// Publishes the number of lists and of known memory sizes from now on.
    pub(crate) fn measure(&self, metrics: &CacheMetrics) {
        self.memory.measure(metrics);
        self.lists_size.measure(metrics.of("instance_types"), self.lock().lists.len());
    }

    /// Records the memory in bytes that a node of a class has reported. The images of the class
    /// must be those of the node. The value becomes visible when the list of the class is built
    /// again. Returns true if the value is new or smaller than the known one.
    pub(crate) fn record_memory(&self, class: &EC2NodeClass, instance_type: &str, bytes: i64) -> bool {
        self.memory.record(ImagesKey::of(class), instance_type, bytes)
    }

    /// Reads types and zones from EC2, both at the same time. What was read is used even if the
    /// other call fails; then the first error is returned and the previous data stays in use.
    pub async fn refresh(&self, ec2: &dyn Ec2) -> Result<(), AwsError> {
        let filters = vec![
            Filter::new("supported-virtualization-type", "hvm"),
            Filter::any_of("processor-info.supported-architecture", ["x86_64", "arm64"]),
        ];
        let types = all_pages(Some(TYPES_PAGE_SIZE), |page| {
            ec2.describe_instance_types(DescribeInstanceTypes { filters: filters.clone(), is_dry_run: false, page })
        });
        let offerings = all_pages(Some(OFFERINGS_PAGE_SIZE), |page| ec2.describe_instance_type_offerings(page));
        let (types, offerings) = tokio::join!(types, offerings);
        let types = types.map(|types| self.set_types(types));
        let offerings = offerings.map(|offerings| self.set_offerings(offerings));
        types.and(offerings)
    }

    /// Replaces types and zones. If nothing differs, all lists stay valid.
    pub fn set_catalogue(&self, types: Vec<InstanceTypeInfo>, offerings: Vec<InstanceTypeOffering>) {
        self.set_types(types);
        self.set_offerings(offerings);
    }

    fn set_types(&self, types: Vec<InstanceTypeInfo>) {
        let types: BTreeMap<String, InstanceTypeInfo> =
            types.into_iter().map(|info| (info.name.clone(), info)).collect();
        let mut state = self.lock();
        if state.types != types {
            state.types = types;
            state.clear_lists();
        }
    }

    fn set_offerings(&self, offerings: Vec<InstanceTypeOffering>) {
        let mut zones: BTreeMap<String, BTreeSet<Str>> = BTreeMap::new();
        for offering in offerings {
            zones.entry(offering.instance_type).or_default().insert(Str::from(offering.zone));
        }
        let mut state = self.lock();
        if state.zones != zones {
            state.all_zones = zones.values().flatten().cloned().collect();
            state.zones = zones;
            state.clear_lists();
        }
    }

    /// Returns EC2's description of a type.
    pub fn info(&self, name: &str) -> Option<InstanceTypeInfo> {
        self.lock().types.get(name).cloned()
    }

    /// Returns all types for a class, sorted by name, with those that are unavailable.
    pub fn list(&self, class: &EC2NodeClass) -> Result<InstanceTypes, InstanceTypeError> {
        let now = self.clock.now();
        let version = self.sources.version();
        let prices = self.pricing.change_number();
        let group = self.groups.get(class);
        let mut state = self.lock();
        state.check_complete()?;
        let key = class_key(class, group.as_deref());
        let is_live = state.lists.get(&key).is_some_and(|list| list.expires > now && list.prices == prices);
        if !is_live {
            let facts = NodeClassFacts::new(class, &self.kubelet, group)?;
            if facts.zones.is_empty() {
                return Err(InstanceTypeError::NoSubnets);
            }
            let unmarked = state.build_list(&key, (&facts, ImagesKey::of(class)), self)?;
            let states = ClassStates { zones: facts.zones, group_id: facts.group.map(|group| group.id.clone()) };
            let current = self.sources.apply(&states, &unmarked, &version);
            let expires = now.saturating_add(LIST_TTL).unwrap_or(Timestamp::MAX);
            let list =
                CachedList { states, unmarked, current, version: version.clone(), prices, expires, last_used: now };
            state.insert_list(key.clone(), list, now);
            self.lists_size.set(state.lists.len());
        }
        let Some(list) = state.lists.get_mut(&key) else {
            return Err(InstanceTypeError::NoInstanceTypes);
        };
        list.last_used = now;
        if list.version != version {
            list.current = self.sources.apply(&list.states, &list.unmarked, &version);
            list.version = version;
        }
        Ok(list.current.clone())
    }

    /// Returns one type for a class.
    pub fn get(&self, class: &EC2NodeClass, name: &str) -> Result<InstanceType, InstanceTypeError> {
        let list = self.list(class)?;
        let found = list.types().binary_search_by(|instance_type| instance_type.name.as_str().cmp(name));
        match found {
            Ok(ix) => Ok(list.types()[ix].clone()),
            Err(_) => Err(InstanceTypeError::NotFound(name.to_owned())),
        }
    }

    /// Returns the names of the types that are compatible with the settings of a class (spec 05
    /// §4.11). Unknown names are dropped.
    pub fn compatible_types<'a>(
        &self,
        class: &EC2NodeClass,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Vec<&'a str>, InstanceTypeError> {
        let facts = self.facts(class)?;
        let state = self.lock();
        let is_compatible = |name: &&str| state.types.get(*name).is_some_and(|info| is_compatible(info, &facts));
        Ok(names.into_iter().filter(is_compatible).collect())
    }

    fn lock(&self) -> MutexGuard<'_, CatalogueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CatalogueState {
    fn check_complete(&self) -> Result<(), InstanceTypeError> {
        if self.types.is_empty() {
            return Err(InstanceTypeError::NoInstanceTypes);
        }
        if self.zones.is_empty() { Err(InstanceTypeError::NoOfferings) } else { Ok(()) }
    }

    fn clear_lists(&mut self) {
        self.lists.clear();
        self.requirements.clear();
        self.type_requirements.clear();
    }

    /// Builds the list of a class without marks. Returns the previous list of the class if nothing
    /// changed.
    fn build_list(
        &mut self,
        key: &str,
        (class, images): (&NodeClassFacts, ImagesKey),
        catalogue: &InstanceTypeCatalogue,
    ) -> Result<InstanceTypes, InstanceTypeError> {
        let mut pairs = Vec::with_capacity(self.types.len());
        if self.type_requirements.is_empty() {
            for info in self.types.values() {
                let shared = self.requirements.share(labels::type_requirements(info)).collect();
                self.type_requirements.insert(info.name.clone(), shared);
            }
        }
        // Both maps have the same keys.
        for (info, type_requirements) in self.types.values().zip(self.type_requirements.values()) {
            let zones = self.zones.get(&info.name);
            let requirements = KnownRequirements {
                type_requirements,
                pool: &mut self.requirements,
                offerings: &mut self.offering_requirements,
            };
            let (mut instance_type, states) = build_type(info, zones, &self.all_zones, class, catalogue, requirements)?;
            if let Some(memory) = catalogue.memory.get(images, &info.name) {
                instance_type.capacity = with_memory(&instance_type.capacity, memory);
            }
            pairs.push((instance_type, states));
        }
        if let Some(previous) = self.lists.get(key) {
            let types = previous.unmarked.types();
            let is_unchanged = types.len() == pairs.len()
                && types.iter().zip(&pairs).all(|(old, (new, _))| sharing::are_equal(old, new));
            if is_unchanged {
                let mut states = pairs.into_iter().flat_map(|(_, states)| states);
                return Ok(previous.unmarked.with_states(|_, _| states.next().unwrap_or_default()));
            }
        }
        let known: Vec<&[InstanceType]> = self.lists.values().map(|list| list.unmarked.types()).collect();
        sharing::share_parts(pairs.iter_mut().map(|(instance_type, _)| instance_type), &known);
        Ok(pairs.into_iter().collect())
    }

    /// Adds a list. Removes lists that have not been used since they expired.
    fn insert_list(&mut self, key: String, list: CachedList, now: Timestamp) {
        self.lists.retain(|_, list| list.expires > now || list.last_used > before(now, LIST_TTL));
        if self.lists.len() >= LISTS_MAX && !self.lists.contains_key(&key) {
            let oldest = self.lists.iter().min_by_key(|(_, list)| list.last_used).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                self.lists.remove(&oldest);
            }
        }
        self.lists.insert(key, list);
    }
}

/// Requirements that a further list shares.
struct KnownRequirements<'a> {
    /// Those of the type for all classes.
    type_requirements: &'a Requirements,
    pool: &'a mut RequirementPool,
    offerings: &'a mut OfferingRequirements,
}

fn build_type(
    info: &InstanceTypeInfo,
    ec2_zones: Option<&BTreeSet<Str>>,
    all_zones: &BTreeSet<Str>,
    class: &NodeClassFacts,
    catalogue: &InstanceTypeCatalogue,
    known: KnownRequirements<'_>,
) -> Result<(InstanceType, Vec<OfferingState>), InstanceTypeError> {
    let settings = catalogue.capacity_settings();
    let class = &*class.for_type(info, settings)?;
    let covered = class.zones.iter().map(|zone| &zone.name);
    let zones: BTreeSet<Str> =
        covered.filter(|zone| ec2_zones.is_some_and(|zones| zones.contains(*zone))).cloned().collect();
    let facts = TypeOfferingFacts {
        name: &info.name,
        capacity_types: &labels::open_capacity_types(info),
        zones: &zones,
        is_compatible: is_compatible(info, class),
    };
    let reservations = if catalogue.settings.reserved_capacity { &class.reservations[..] } else { &[] };
    let class_facts = ClassOfferingFacts { zones: &class.zones, reservations, group: class.group.as_deref() };
    let (offerings, states) =
        offerings::type_offerings(facts, all_zones, class_facts, &catalogue.pricing, known.offerings);
    let storage = capacity::ephemeral_storage(info, class)?;
    let of_class = labels::class_requirements(info, class, &catalogue.settings.region, &zones);
    let mut requirements = known.type_requirements.clone();
    requirements.extend(known.pool.share(of_class));
    let instance_type = InstanceType {
        name: Str::new(&info.name),
        requirements: Arc::new(requirements),
        offerings: offerings.into(),
        capacity: capacity::capacity(info, class, settings, storage),
        overhead: overhead::overhead(info, class, settings, storage)?,
        volume_limits: Arc::default(),
    };
    Ok((instance_type, states))
}

/// Returns the capacity with another memory.
fn with_memory(capacity: &ResourceList, memory: i64) -> ResourceList {
    let replaced = |(name, quantity): (&Str, _)| {
        let quantity = if name == "memory" { bytes(memory) } else { quantity };
        (name.clone(), quantity)
    };
    capacity.iter().map(replaced).collect()
}

fn before(time: Timestamp, duration: Duration) -> Timestamp {
    time.saturating_sub(duration).unwrap_or(Timestamp::MIN)
}
