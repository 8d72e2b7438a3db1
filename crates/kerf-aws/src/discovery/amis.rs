//! Images of a node class (spec 05 §12): from aliases and other selector terms to the images of
//! `status.amis`, and from there to the image of each instance type.

mod alias;
mod matching;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kerf_api::ec2nodeclass::{AliasError, AmiSelectorTerm, EC2NodeClass};
use kerf_api::labels;
use kerf_api::requirement::{NodeSelectorRequirement, Operator};
use kerf_runtime::Clock;

pub(crate) use alias::standard_requirements;
pub(crate) use matching::{AmiMatchError, map_types_to_amis};

use self::alias::AliasParameter;
use super::filters::tag_filters;
use super::ssm::{ParameterKind, SsmParameters};
use super::{CLASSES_MAX, class_cache_key};
use crate::cache_metrics::CacheMetrics;
use crate::cluster_facts::ClusterFactsHolder;
use crate::ports::ec2::{DescribeImages, Ec2, Image};
use crate::ports::{AwsError, AwsPorts, Filter, all_pages};
use crate::settings::AwsSettings;
use crate::ttl_cache::TtlCache;

/// Page size of `DescribeImages`.
const PAGE_SIZE: i32 = 1_000;

/// Error code of a parameter that does not exist.
const PARAMETER_NOT_FOUND: &str = "ParameterNotFound";

/// Reason why the images of a node class are unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AmiError {
    /// The alias cannot be used with the cluster's Kubernetes version. A retry does not help.
    #[error("getting AMI queries, {0}")]
    UnsupportedAlias(String),
    /// The alias has no meaning. A retry does not help.
    #[error("getting AMI queries, {0}")]
    InvalidAlias(#[from] AliasError),
    /// None of the alias's parameters can be read.
    #[error("getting AMI queries, failed to discover any AMIs for alias (alias={alias})")]
    NoneFound {
        /// The alias as the class names it.
        alias: String,
        /// Error code of a parameter that may exist; `None` if no parameter exists.
        failure: Option<String>,
    },
    /// A parameter that a term names cannot be read.
    #[error("getting AMI queries, resolving ssm parameter, {0}")]
    Parameter(#[source] AwsError),
    /// EC2 did not describe the images.
    #[error("describing images, {0}")]
    Describe(#[source] AwsError),
}

/// An image that a node class selects, with the instance types that can run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolvedAmi {
    /// ID of the image.
    pub(crate) id: String,
    /// Name of the image.
    pub(crate) name: String,
    /// Time of creation in whole seconds; `None` if unknown.
    created_at: Option<i64>,
    /// True if the image is deprecated now.
    pub(crate) is_deprecated: bool,
    /// Requirements on instance types, sorted by length of the key, then by key.
    pub(crate) requirements: Vec<NodeSelectorRequirement>,
}

/// One `DescribeImages` request, and what is known about its images.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ImageQuery {
    filters: Vec<Filter>,
    owners: Vec<String>,
    /// Requirements of each variant of an image, by image ID. An image without an entry has one
    /// variant without requirements of its own.
    variants: BTreeMap<String, Vec<Vec<NodeSelectorRequirement>>>,
}

/// The images that each query of a class found.
type FoundImages = Arc<[(ImageQuery, Vec<Image>)]>;

/// The images of node classes.
pub(crate) struct Amis {
    ec2: Arc<dyn Ec2>,
    parameters: SsmParameters,
    facts: ClusterFactsHolder,
    clock: Clock,
    /// Images by class, as EC2 described them.
    by_class: TtlCache<String, FoundImages>,
}

impl std::fmt::Debug for Amis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Amis").finish_non_exhaustive()
    }
}

impl Amis {
    /// Creates the provider without any answer. The Kubernetes version of `facts` decides about the
    /// images of aliases.
    pub(crate) fn new(ports: &AwsPorts, settings: &AwsSettings, facts: ClusterFactsHolder, clock: Clock) -> Self {
        Self {
            ec2: ports.ec2.clone(),
            parameters: SsmParameters::new(ports.ssm.clone(), clock),
            facts,
            clock,
            by_class: TtlCache::new(clock, settings.ami_refresh_interval, CLASSES_MAX),
        }
    }

    /// Publishes the number of entries of the caches from now on.
    pub(crate) fn measure(&self, metrics: &CacheMetrics) {
        self.by_class.measure(metrics.of("images"));
        self.parameters.measure(metrics);
    }

    /// Returns the images that the terms of a class select, in the order of `status.amis`. Aliases
    /// and parameters are evaluated in every call; the descriptions of images are kept.
    pub(crate) async fn list(&self, class: &EC2NodeClass) -> Result<Vec<ResolvedAmi>, AmiError> {
        let queries = self.queries(class).await?;
        let key = class_cache_key(class);
        let is_current = |kept: &Arc<[(ImageQuery, Vec<Image>)]>| kept.iter().map(|(query, _)| query).eq(&queries);
        if let Some(kept) = self.by_class.get(&key).filter(is_current) {
            return Ok(resolve(&kept, self.clock.now()));
        }
        let mut answers = Vec::with_capacity(queries.len());
        for query in queries {
            let images = self.describe(&query.filters, &query.owners).await?;
            answers.push((query, images));
        }
        let answers: Arc<[(ImageQuery, Vec<Image>)]> = answers.into();
        self.by_class.insert(key, answers.clone());
        Ok(resolve(&answers, self.clock.now()))
    }

    async fn describe(&self, filters: &[Filter], owners: &[String]) -> Result<Vec<Image>, AmiError> {
        let filters: Vec<Filter> = filters.iter().cloned().chain([Filter::new("state", "available")]).collect();
        let images = all_pages(Some(PAGE_SIZE), |page| {
            let request =
                DescribeImages { filters: filters.clone(), owners: owners.to_vec(), include_deprecated: true };
            self.ec2.describe_images(request, page)
        });
        images.await.map_err(AmiError::Describe)
    }

    async fn queries(&self, class: &EC2NodeClass) -> Result<Vec<ImageQuery>, AmiError> {
        let Some(spec) = &class.spec else { return Ok(Vec::new()) };
        if let Some(alias) = spec.alias() {
            let alias = alias?;
            let version = self.facts.get().kubernetes_version.clone();
            alias::check_supported(&alias, &self.facts.get())?;
            return self.alias_query(&alias::parameters(&alias, &version), spec).await;
        }
        let mut queries = Vec::new();
        let mut ids = Vec::new();
        for term in &spec.ami_selector_terms {
            match (term.id.as_deref().unwrap_or_default(), term.ssm_parameter.as_deref().unwrap_or_default()) {
                ("", "") => queries.push(term_query(term)),
                ("", parameter) => ids.extend(self.user_parameter(parameter).await?),
                (id, _) => ids.push(id.to_owned()),
            }
        }
        if !ids.is_empty() {
            queries.push(ImageQuery { filters: vec![Filter::any_of("image-id", ids)], ..ImageQuery::default() });
        }
        Ok(queries)
    }

    async fn alias_query(
        &self,
        parameters: &[AliasParameter],
        spec: &kerf_api::ec2nodeclass::EC2NodeClassSpec,
    ) -> Result<Vec<ImageQuery>, AmiError> {
        let mut variants: BTreeMap<String, Vec<Vec<NodeSelectorRequirement>>> = BTreeMap::new();
        let mut failure = None;
        for parameter in parameters {
            let kind = if parameter.is_mutable { ParameterKind::Latest } else { ParameterKind::Pinned };
            match self.parameters.get(&parameter.name, kind).await {
                // Of several parameters that name one image, the last decides, as in Karpenter.
                Ok(id) => _ = variants.insert(id, parameter.variants.clone()),
                Err(error) => {
                    tracing::debug!(%error, parameter = parameter.name, "skipping parameter of an alias");
                    if !error.has_code(PARAMETER_NOT_FOUND) {
                        failure.get_or_insert(error.code.unwrap_or_else(|| "no answer".to_owned()));
                    }
                }
            }
        }
        if variants.is_empty() {
            let alias = spec.ami_selector_terms.iter().find_map(|term| term.alias.clone());
            return Err(AmiError::NoneFound { alias: alias.unwrap_or_default(), failure });
        }
        let filters = vec![Filter::any_of("image-id", variants.keys())];
        Ok(vec![ImageQuery { filters, owners: Vec::new(), variants }])
    }

    /// Returns the image ID of a parameter that a term names. Returns `None`, with a log line, if
    /// the parameter does not exist or names no image.
    async fn user_parameter(&self, name: &str) -> Result<Option<String>, AmiError> {
        match self.parameters.get(name, ParameterKind::UserSupplied).await {
            Ok(value) if value.starts_with("ami-") => Ok(Some(value)),
            Ok(value) => {
                tracing::error!(parameter = name, value, "ssm parameter does not contain an image ID");
                Ok(None)
            }
            Err(error) if error.has_code(PARAMETER_NOT_FOUND) => {
                tracing::error!(%error, parameter = name, "ssm parameter not found");
                Ok(None)
            }
            Err(error) => Err(AmiError::Parameter(error)),
        }
    }

    /// Describes the images of all kept parameters whose values AWS changes, and forgets the
    /// parameters of deprecated images, so that the next call reads them again (spec 05 §12.6).
    /// After an error nothing is forgotten.
    pub(crate) async fn forget_deprecated_parameters(&self) -> Result<(), AmiError> {
        let mut deprecated = BTreeSet::new();
        for id in self.parameters.latest_values() {
            let images = self.describe(&[Filter::new("image-id", &*id)], &[]).await?;
            if images.iter().any(|image| is_deprecated(image, self.clock.now())) {
                deprecated.insert(id);
            }
        }
        self.parameters.forget_latest(&deprecated);
        Ok(())
    }
}

/// Returns the request of a term with a name or tags.
fn term_query(term: &AmiSelectorTerm) -> ImageQuery {
    let name = term.name.as_deref().filter(|name| !name.is_empty());
    let mut filters: Vec<Filter> = name.map(|name| Filter::new("name", name)).into_iter().collect();
    filters.extend(tag_filters(term.tags.as_ref()));
    let owners = match (term.owner.as_deref().filter(|owner| !owner.is_empty()), name) {
        (Some(owner), _) => vec![owner.to_owned()],
        (None, Some(_)) => vec!["self".to_owned(), "amazon".to_owned()],
        (None, None) => Vec::new(),
    };
    ImageQuery { filters, owners, variants: BTreeMap::new() }
}

fn is_deprecated(image: &Image, now: Timestamp) -> bool {
    image.deprecated_at.is_some_and(|at| at <= now)
}

/// Returns the best image for each set of requirements, in the order of `status.amis` (spec 05
/// §12.3).
fn resolve(answers: &[(ImageQuery, Vec<Image>)], now: Timestamp) -> Vec<ResolvedAmi> {
    let mut best: BTreeMap<String, ResolvedAmi> = BTreeMap::new();
    for (query, images) in answers {
        for image in images {
            let Some(arch) = architecture(image) else { continue };
            let variants = query.variants.get(&image.id).cloned().unwrap_or_else(|| vec![Vec::new()]);
            for mut requirements in variants {
                requirements.push(required(labels::ARCH, Operator::In, &[arch]));
                requirements.sort_by(|a, b| (a.key.len(), &a.key).cmp(&(b.key.len(), &b.key)));
                let ami = ResolvedAmi {
                    id: image.id.clone(),
                    name: image.name.clone(),
                    created_at: image.created_at.map(Timestamp::as_second),
                    is_deprecated: is_deprecated(image, now),
                    requirements,
                };
                let text = requirements_text(&ami.requirements);
                match best.get(&text) {
                    Some(held) if rank(&ami) <= rank(held) => {}
                    Some(_) | None => _ = best.insert(text, ami),
                }
            }
        }
    }
    let mut amis: Vec<(String, ResolvedAmi)> = best.into_iter().collect();
    amis.sort_by(|(a_text, a), (b_text, b)| {
        b.created_at.cmp(&a.created_at).then_with(|| (&a.id, a_text).cmp(&(&b.id, b_text)))
    });
    amis.into_iter().map(|(_, ami)| ami).collect()
}

/// The greater one of two images with equal requirements is used.
fn rank(ami: &ResolvedAmi) -> (bool, Option<i64>, &str) {
    (!ami.is_deprecated, ami.created_at, &ami.name)
}

fn architecture(image: &Image) -> Option<&'static str> {
    match image.architecture.as_str() {
        "x86_64" => Some("amd64"),
        "arm64" => Some("arm64"),
        _ => None,
    }
}

fn required(key: &str, operator: Operator, values: &[&str]) -> NodeSelectorRequirement {
    let values = (!values.is_empty()).then(|| values.iter().map(ToString::to_string).collect());
    NodeSelectorRequirement { key: key.to_owned(), operator, values }
}

fn requirements_text(requirements: &[NodeSelectorRequirement]) -> String {
    let text = |r: &NodeSelectorRequirement| {
        let values = r.values.as_deref().unwrap_or_default().join(",");
        format!("{} {} {values}", r.key, r.operator.as_str()).trim_end().to_owned()
    };
    requirements.iter().map(text).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
