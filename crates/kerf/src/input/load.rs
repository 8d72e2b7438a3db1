//! Loads objects from paths or from a live cluster. All problems of all objects are collected. What
//! does not prevent a plan (unknown kinds, unknown fields) becomes a warning.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;

use kerf_api::capacitybuffer::CapacityBuffer;
use kerf_api::crds::CrdVariant;
use kerf_api::kind::CustomKind;
use kerf_api::nodeoverlay::NodeOverlay;
use kerf_api::slim::{ReplicaOwner, Str, VolumeAttachment};
use serde::de::DeserializeOwned;

use super::admission::{KindAdmission, node_class_group};
use super::decode::{FieldProblem, decode};
use super::decode_objects::{DecodedObjects, decode_all};
use super::documents::{self, ObjectBody, RawObject};
use super::field_lines::FieldLines;
use super::kind::{InputKind, KWOK_GROUP};
use super::live::{self, SelectorKinds};
use super::objects::{NamedObject, Objects, ReadObject, ReadResult, WithOrigin, full_name};
use super::pod_defaults::{PodDefaults, read_priority_class};
use super::runtime_class::read_runtime_class;
use super::skipped_files::{is_no_manifest, skipped_files_warning};
use super::source::{self, ObjectOrigin, Source, SourceNames};
use super::suggestion::field_hint;
use super::validation::{CheckedKind, ValidationScope};
use super::workloads::{self, Workloads};
use crate::args::InputPath;
use crate::exit::{CommandFailure, Problem};
use crate::output::escape_line;

/// Namespace of objects that do not name one.
const DEFAULT_NAMESPACE: &str = "default";

/// The objects of the input, with counts and warnings.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) objects: Objects,
    /// Number of objects of each kind in the input; without the pods that were created for
    /// workloads.
    pub(crate) counts: BTreeMap<InputKind, usize>,
    /// Messages that do not prevent a plan.
    pub(crate) warnings: Vec<String>,
    /// True if the input has an object, of whatever kind.
    has_objects: bool,
}

/// Loads all paths. The error lists every problem of every file, and the warnings.
pub(crate) fn load(
    paths: &[InputPath],
    validation_scope: ValidationScope,
    threads: NonZeroUsize,
) -> Result<Loaded, CommandFailure> {
    let (sources, unreadable) = source::read(paths);
    let (loaded, problems) = load_sources(&sources, validation_scope, threads, WorkloadControllers::Absent);
    let loaded = fail_on_problems(loaded, unreadable.into_iter().chain(problems).collect())?;
    if !loaded.has_objects {
        let names: Vec<String> = paths.iter().map(ToString::to_string).collect();
        if names.is_empty() {
            let problem = Problem::new("no input: give manifests with -f");
            return Err(CommandFailure::bad_input(problem.with_hint("-f takes files and folders; `-f -` reads stdin")));
        }
        let problem = Problem::new(format!("no object found in {}", names.join(", ")))
            .with_hint("folders are searched for *.yaml, *.yml and *.json; `-f -` reads stdin");
        let warnings = loaded.warnings.into_iter().map(Problem::warning);
        return Err(CommandFailure::BadInput(std::iter::once(problem).chain(warnings).collect()));
    }
    Ok(loaded)
}

/// Loads the cluster of the kubeconfig; writes nothing to it.
pub(crate) fn load_live(selectors: SelectorKinds, threads: NonZeroUsize) -> Result<Loaded, CommandFailure> {
    let (loaded, problems) =
        load_sources(&live::read(selectors)?, ValidationScope::SuspiciousOnly, threads, WorkloadControllers::Present);
    fail_on_problems(loaded, problems)
}

/// Loads the cluster of a client; writes nothing to it.
pub(crate) async fn load_with_client(client: kube::Client, selectors: SelectorKinds) -> Result<Loaded, CommandFailure> {
    let sources = live::read_with_client(client, "the cluster", selectors).await?;
    let (loaded, problems) =
        load_sources(&sources, ValidationScope::SuspiciousOnly, NonZeroUsize::MIN, WorkloadControllers::Present);
    fail_on_problems(loaded, problems)
}

/// Returns `loaded` if there are no problems. Otherwise the error also contains the warnings, so
/// that a user can fix a manifest in one pass.
fn fail_on_problems(loaded: Loaded, mut problems: Vec<Problem>) -> Result<Loaded, CommandFailure> {
    if problems.is_empty() {
        return Ok(loaded);
    }
    problems.extend(loaded.warnings.into_iter().map(Problem::warning));
    Err(CommandFailure::BadInput(problems))
}

/// States whether workload controllers create the missing pods of workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkloadControllers {
    /// Controllers create them: the pods of the input are complete.
    Present,
    /// No controller creates them: the missing pods are added to the input.
    Absent,
}

fn load_sources(
    sources: &[Source],
    validation_scope: ValidationScope,
    threads: NonZeroUsize,
    workload_controllers: WorkloadControllers,
) -> (Loaded, Vec<Problem>) {
    let names = SourceNames::of(sources);
    let mut loader = Loader {
        names: &names,
        validation_scope,
        threads,
        raw_objects: BTreeMap::new(),
        ignored: BTreeMap::new(),
        problems: Vec::new(),
        warnings: Vec::new(),
        counts: BTreeMap::new(),
        crd_variant: CrdVariant::default(),
        field_lines: FieldLines::new(sources),
    };
    let mut skipped_files: Vec<&str> = Vec::new();
    for (source, index) in sources.iter().zip(0..) {
        let split = documents::split(index, &source.text);
        if is_no_manifest(source, &split) {
            skipped_files.push(&source.name);
            continue;
        }
        for document in split.unreadable {
            loader.add_problem(document.origin, &document.message);
        }
        for object in split.objects {
            loader.add_by_kind(object);
        }
    }
    if loader.uses_only_kwok() {
        loader.crd_variant = CrdVariant::Kwok;
    }
    let defaults = PodDefaults::new(
        loader.read_with(InputKind::PriorityClass, &read_priority_class),
        loader.read_with(InputKind::RuntimeClass, &read_runtime_class),
    );
    // No decision reads these kinds yet, but their objects are validated.
    drop(loader.admit::<NodeOverlay>(InputKind::NodeOverlay));
    drop(loader.admit::<CapacityBuffer>(InputKind::CapacityBuffer));
    drop(loader.read::<VolumeAttachment>(InputKind::VolumeAttachment));
    let mut objects = Objects {
        node_pools: loader.admit_checked(InputKind::NodePool),
        node_claims: loader.admit_checked(InputKind::NodeClaim),
        kwok_node_classes: loader.admit_checked(InputKind::KwokNodeClass),
        ec2_node_classes: loader.admit(InputKind::Ec2NodeClass),
        nodes: loader.read(InputKind::Node),
        pods: loader.read_with(InputKind::Pod, &|body| defaults.read_pod(body)),
        daemon_sets: loader.read_with(InputKind::DaemonSet, &|body| defaults.read_daemon_set(body)),
        volume_claims: loader.read(InputKind::PersistentVolumeClaim),
        volumes: loader.read(InputKind::PersistentVolume),
        storage_classes: loader.read(InputKind::StorageClass),
        csi_nodes: loader.read(InputKind::CsiNode),
        disruption_budgets: loader.read(InputKind::PodDisruptionBudget),
        namespaces: loader.read(InputKind::Namespace),
        services: loader.read(InputKind::Service),
        replica_owners: Vec::new(),
    };
    match workload_controllers {
        WorkloadControllers::Present => {
            let kinds = [InputKind::ReplicaSet, InputKind::StatefulSet, InputKind::ReplicationController];
            objects.replica_owners = kinds.into_iter().flat_map(|kind| loader.replica_owners(kind)).collect();
        }
        WorkloadControllers::Absent => {
            let workloads = loader.workloads(&defaults);
            match workloads::create_missing_pods(&workloads, &objects.pods, &objects.volume_claims) {
                Ok(created) => objects.add_created(created),
                Err((origin, message)) => loader.add_problem(origin, &message),
            }
            objects.replica_owners = workloads.replica_owners();
        }
    }
    let ignored = loader.ignored_kinds_warning();
    let has_objects = !loader.counts.is_empty() || ignored.is_some();
    let Loader { mut problems, mut warnings, counts, .. } = loader;
    problems.sort();
    warnings.sort();
    let problems = problems.into_iter().map(|(_, text)| Problem::new(text)).collect();
    let warnings = warnings.into_iter().map(|(_, text)| text).chain(ignored);
    let warnings = warnings.chain(skipped_files_warning(&skipped_files)).collect();
    (Loaded { objects, counts, warnings, has_objects }, problems)
}

struct Loader<'n, 's> {
    names: &'n SourceNames,
    validation_scope: ValidationScope,
    threads: NonZeroUsize,
    /// Objects that are not decoded yet.
    raw_objects: BTreeMap<InputKind, Vec<RawObject<'s>>>,
    /// Number of objects of each kind that Kerf does not read.
    ignored: BTreeMap<String, usize>,
    /// Problems with the origin by which they are sorted at the end.
    problems: Vec<(ObjectOrigin, String)>,
    warnings: Vec<(ObjectOrigin, String)>,
    counts: BTreeMap<InputKind, usize>,
    /// CRD variant for objects that refer to no node class, such as NodeOverlays.
    crd_variant: CrdVariant,
    field_lines: FieldLines<'n>,
}

impl<'s> Loader<'_, 's> {
    /// Adds an object to those of its kind, or counts it as ignored.
    fn add_by_kind(&mut self, object: RawObject<'s>) {
        match InputKind::of(&object.api_version, &object.kind) {
            Some(kind) => self.raw_objects.entry(kind).or_default().push(object),
            None if object.kind.is_empty() || object.api_version.is_empty() => {
                let missing = if object.kind.is_empty() { "kind" } else { "apiVersion" };
                let message = format!("{missing}: Required value: every object must have apiVersion and kind");
                self.add_problem(object.origin, &message);
            }
            None if let Some(why) = InputKind::unserved_message(&object.api_version, &object.kind) => {
                let name = name_of_body(&object.body).map_or(String::new(), |name| format!(" `{name}`"));
                let message = format!("{}{name}: {why}", object.kind);
                self.add_problem(object.origin, &message);
            }
            None if self.validation_scope == ValidationScope::Strict
                && let Some(meant) = InputKind::similar(&object.api_version, &object.kind) =>
            {
                let (version, kind) = (&object.api_version, &object.kind);
                let name = name_of_body(&object.body).map_or(String::new(), |name| format!(" `{name}`"));
                let field = if kind == meant.name() { "apiVersion" } else { "kind" };
                let line = self.field_lines.with_field_line(object.origin, &object.body, &format!("{field}: "));
                let message = format!(
                    "{kind}{name}: no matches for kind \"{kind}\" in version \"{version}\" (did you mean {} of {}?)",
                    meant.name(),
                    meant.api_version()
                );
                self.add_problem(line, &message);
            }
            None => {
                let (version, kind) = (&object.api_version, &object.kind);
                let served =
                    InputKind::served_version(version, kind).map_or(String::new(), |served| format!(" (not {served})"));
                *self.ignored.entry(format!("{version} {kind}{served}")).or_default() += 1;
            }
        }
    }

    /// Returns true if the input has pools or node classes and all of them are of the simulated
    /// provider.
    fn uses_only_kwok(&self) -> bool {
        let of_kind = |kind| self.raw_objects.get(&kind).map_or(&[][..], Vec::as_slice);
        let (pools, classes) = (of_kind(InputKind::NodePool), of_kind(InputKind::KwokNodeClass));
        !(pools.is_empty() && classes.is_empty())
            && of_kind(InputKind::Ec2NodeClass).is_empty()
            && pools.iter().all(|pool| pool.body.tree().is_ok_and(|tree| node_class_group(&tree) == Some(KWOK_GROUP)))
    }

    /// Decodes all objects of a built-in kind.
    fn read<T: NamedObject + DeserializeOwned + Send>(&mut self, kind: InputKind) -> Vec<WithOrigin<T>> {
        self.read_with(kind, &|body| Ok(ReadObject::of(decode(body)?)))
    }

    fn workloads(&mut self, defaults: &PodDefaults) -> Workloads {
        let mut read = |kind| self.read_with(kind, &|body| workloads::read(kind, body, defaults));
        Workloads {
            deployments: read(InputKind::Deployment),
            replica_sets: read(InputKind::ReplicaSet),
            stateful_sets: read(InputKind::StatefulSet),
            replication_controllers: read(InputKind::ReplicationController),
            jobs: read(InputKind::Job),
        }
    }

    /// Reads only the selectors of the workloads of a kind.
    fn replica_owners(&mut self, kind: InputKind) -> Vec<WithOrigin<ReplicaOwner>> {
        let of_kind = |owner| ReadObject::of(ReplicaOwner { kind: Str::new_static(kind.name()), ..owner });
        self.read_with(kind, &|body| Ok(of_kind(decode(body)?)))
    }

    /// Admits and decodes all objects of a kind of Kerf's CRDs.
    fn admit<K: NamedObject + CustomKind + DeserializeOwned + Send>(&mut self, kind: InputKind) -> Vec<WithOrigin<K>> {
        if !self.raw_objects.contains_key(&kind) {
            return Vec::new();
        }
        let admission = KindAdmission::of::<K>();
        let crd_variant = self.crd_variant;
        self.read_with(kind, &|body| admission.admit::<K>(body, crd_variant))
    }

    /// Admits and decodes all objects of a kind that a controller checks before it uses an object.
    fn admit_checked<K: CheckedKind + NamedObject + CustomKind + DeserializeOwned + Send>(
        &mut self,
        kind: InputKind,
    ) -> Vec<WithOrigin<K>> {
        if !self.raw_objects.contains_key(&kind) {
            return Vec::new();
        }
        let admission = KindAdmission::of::<K>();
        let (crd_variant, validation_scope) = (self.crd_variant, self.validation_scope);
        self.read_with(kind, &|body| validation_scope.check(admission.admit::<K>(body, crd_variant)?))
    }

    fn read_with<T: NamedObject + Send>(
        &mut self,
        kind: InputKind,
        read: &(dyn Fn(&ObjectBody<'_>) -> ReadResult<T> + Sync),
    ) -> Vec<WithOrigin<T>> {
        let Some(raw_objects) = self.raw_objects.remove(&kind) else { return Vec::new() };
        self.counts.insert(kind, raw_objects.len());
        let DecodedObjects { mut objects, problems, warnings } =
            decode_all(&raw_objects, self.threads, &|body| self.validation_scope.validate(kind, body, read(body)));
        let problems_with_origin = self.messages_with_origin(kind, &raw_objects, &problems);
        self.problems.extend(problems_with_origin);
        let (unknown_fields, warnings) = self.split_unknown_fields(kind, &raw_objects, warnings);
        let unknown_fields = self.messages_with_origin(kind, &raw_objects, &unknown_fields);
        self.problems.extend(unknown_fields);
        let warnings = self.messages_with_origin(kind, &raw_objects, &warnings);
        self.warnings.extend(warnings);
        objects.retain_mut(|entry| {
            let (namespace, name) = entry.object.identity();
            if name.is_empty() {
                let problem = FieldProblem::required("metadata.name", "name is required");
                let messages = self.messages_with_origin(kind, &raw_objects, &[(entry.origin, problem)]);
                self.problems.extend(messages);
                return false;
            }
            if kind.is_namespaced() && namespace.is_empty() {
                entry.object.set_namespace(DEFAULT_NAMESPACE);
            } else if !kind.is_namespaced() && !namespace.is_empty() {
                entry.object.set_namespace("");
            }
            true
        });
        self.remove_duplicates(kind, &mut objects, &raw_objects);
        objects
    }

    /// Sorts objects by name. Of identical duplicates the first stays; a duplicate with other
    /// content is a problem.
    fn remove_duplicates<T: NamedObject>(
        &mut self,
        kind: InputKind,
        objects: &mut Vec<WithOrigin<T>>,
        raw_objects: &[RawObject<'_>],
    ) {
        objects.sort_unstable_by(|a, b| (a.object.identity(), a.origin).cmp(&(b.object.identity(), b.origin)));
        objects.dedup_by(|duplicate, first| {
            let is_same_object = duplicate.object.identity() == first.object.identity();
            if is_same_object
                && !is_same_content(
                    &raw_object_at(raw_objects, duplicate.origin).body,
                    &raw_object_at(raw_objects, first.origin).body,
                )
            {
                let name = full_name(&duplicate.object);
                let first_origin = self.names.display_origin(first.origin);
                let message = format!(
                    "{} `{name}` is defined twice with different content, first at {first_origin}",
                    kind.name()
                );
                self.add_problem(duplicate.origin, &message);
            }
            is_same_object
        });
    }

    fn add_problem(&mut self, origin: ObjectOrigin, message: &str) {
        self.problems.push((origin, format!("{}: {message}", self.names.display_origin(origin))));
    }

    /// Separates the warnings about unknown fields that are problems, with a hint for each. An object
    /// with a uid has passed an API server, perhaps a newer one, which knows the field.
    fn split_unknown_fields(
        &self,
        kind: InputKind,
        raw_objects: &[RawObject<'_>],
        warnings: Vec<(ObjectOrigin, String)>,
    ) -> (Vec<(ObjectOrigin, String)>, Vec<(ObjectOrigin, String)>) {
        if self.validation_scope != ValidationScope::Strict {
            return (Vec::new(), warnings);
        }
        let unknown_field = |text: &str| text.strip_prefix("unknown field \"")?.strip_suffix('"').map(str::to_owned);
        let (mut problems, mut others) = (Vec::new(), Vec::new());
        for (origin, text) in warnings {
            let is_stored = || {
                let tree = raw_object_at(raw_objects, origin).body.tree();
                tree.is_ok_and(|tree| tree["metadata"]["uid"].as_str().is_some_and(|uid| !uid.is_empty()))
            };
            match unknown_field(&text) {
                Some(path) if !is_stored() => problems.push((origin, text + &field_hint(kind, &path))),
                Some(_) | None => others.push((origin, text)),
            }
        }
        (problems, others)
    }

    /// Returns remarks on objects, each prefixed with the origin, kind and name of its object. The
    /// remarks are sorted by object; each object is parsed once, however many remarks it has.
    fn messages_with_origin<R: fmt::Display>(
        &mut self,
        kind: InputKind,
        raw_objects: &[RawObject<'_>],
        remarks: &[(ObjectOrigin, R)],
    ) -> Vec<(ObjectOrigin, String)> {
        let kind = kind.name();
        let mut messages = Vec::with_capacity(remarks.len());
        for remarks_on_object in remarks.chunk_by(|a, b| a.0 == b.0) {
            let Some((origin, _)) = remarks_on_object.first() else { continue };
            let body = &raw_object_at(raw_objects, *origin).body;
            let name = name_of_body(body);
            let object = name.map_or_else(|| kind.to_owned(), |name| format!("{kind} `{name}`"));
            for (_, remark) in remarks_on_object {
                let remark = remark.to_string();
                let line = self.field_lines.with_field_line(*origin, body, &remark);
                messages.push((line, format!("{}: {object}: {remark}", self.names.display_origin(line))));
            }
        }
        messages
    }

    /// Returns one line on all ignored objects, or `None` if there are none.
    fn ignored_kinds_warning(&self) -> Option<String> {
        let total: usize = self.ignored.values().sum();
        let kinds: Vec<String> = self.ignored.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let objects = if total == 1 { "object" } else { "objects" };
        (total > 0).then(|| format!("ignored {total} {objects} of kinds that Kerf does not read: {}", kinds.join(", ")))
    }
}

/// Returns the raw object at an origin; the slice is sorted by origin.
fn raw_object_at<'f, 's>(raw_objects: &'f [RawObject<'s>], origin: ObjectOrigin) -> &'f RawObject<'s> {
    let index = raw_objects.binary_search_by(|raw_objects| raw_objects.origin.cmp(&origin));
    &raw_objects[index.expect("the origin of a decoded object is the origin of its raw object")]
}

/// Returns true if two objects have equal content, in any notation. `apiVersion` and `kind` are
/// ignored, because items of a list may omit them.
fn is_same_content(a: &ObjectBody<'_>, b: &ObjectBody<'_>) -> bool {
    if let (ObjectBody::Json(a), ObjectBody::Json(b)) = (a, b)
        && a == b
    {
        return true;
    }
    let tree = |body: &ObjectBody<'_>| {
        let mut tree = body.tree().ok()?;
        if let Some(fields) = tree.as_object_mut() {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        Some(tree)
    };
    tree(a).zip(tree(b)).is_some_and(|(a, b)| a == b)
}

/// Returns `namespace/name` of an object that may not decode as a whole; `None` if it has no name.
fn name_of_body(body: &ObjectBody<'_>) -> Option<String> {
    let tree = body.tree().ok()?;
    let text = |name: &str| tree["metadata"][name].as_str().filter(|text| !text.is_empty());
    let name = text("name")?;
    let full_name = text("namespace").map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
    Some(escape_line(&full_name).into_owned())
}

/// Loads the objects of one text, for the tests of other modules.
#[cfg(test)]
pub(crate) fn load_text(text: &str, threads: NonZeroUsize) -> Result<Objects, Vec<Problem>> {
    let sources = [Source { name: "text".to_owned(), text: text.to_owned(), is_from_folder: false }];
    let (loaded, problems) =
        load_sources(&sources, ValidationScope::SuspiciousOnly, threads, WorkloadControllers::Absent);
    if problems.is_empty() { Ok(loaded.objects) } else { Err(problems) }
}

#[cfg(test)]
mod tests;
