//! Launch templates in EC2: created on first use, kept while they are used, deleted a minute after
//! their last use (spec 05 §13.3).
//!
//! Invariant: at most one call of this process works on a name at a time, so that a template is not
//! created twice and not deleted while a launch takes it into use.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::labels::aws;
use kerf_operator::Registry;
use kerf_operator::metrics::Gauge;
use kerf_runtime::{Clock, Rng};

use super::content::LaunchTemplateContentError;
use super::input::LaunchTemplateInput;
use crate::cache_metrics::{CacheMetrics, OptionalCacheSize};
use crate::ports::ec2::{CreateLaunchTemplate, DescribeLaunchTemplates, LaunchTemplate, LaunchTemplateRef};
use crate::ports::{AwsError, Ec2, Filter, PageRequest, all_pages};

/// Time for which a template is kept after its last use.
const TEMPLATE_TTL: Duration = Duration::from_mins(1);
/// Time between two deletions of unused templates.
const CLEANUP_INTERVAL: Duration = Duration::from_mins(1);
/// Largest number of known templates. Further ones are used, but found and deleted only by the next
/// leader.
const TEMPLATES_MAX: usize = 10_000;
/// Page size of listings by tag.
const LIST_PAGE_SIZE: i32 = 200;
/// Pages of a listing after which it counts as endless.
const LIST_PAGES_MAX: usize = 1_000;

/// Tag with the name of the cluster.
const CLUSTER_TAG: &str = "eks:eks-cluster-name";

const NAME_NOT_FOUND: &str = "InvalidLaunchTemplateName.NotFoundException";
const ID_NOT_FOUND: &str = "InvalidLaunchTemplateId.NotFound";

/// Reason why a launch template is not available.
#[derive(Debug, thiserror::Error)]
pub enum LaunchTemplateError {
    /// Its content cannot be made.
    #[error(transparent)]
    Content(#[from] LaunchTemplateContentError),
    /// The call that looks for the template failed.
    #[error("describing launch template {name}")]
    Describe {
        /// Name of the template.
        name: String,
        /// EC2's answer.
        #[source]
        source: AwsError,
    },
    /// EC2 did not create the template.
    #[error("creating launch template {name}")]
    Create {
        /// Name of the template.
        name: String,
        /// EC2's answer.
        #[source]
        source: AwsError,
    },
    /// EC2 returned several templates, or none without an error.
    #[error("expected one launch template with the name {name}, found {count}")]
    Ambiguous {
        /// Name of the template.
        name: String,
        /// Number of templates in the answer.
        count: usize,
    },
}

/// The launch templates of a cluster.
pub struct LaunchTemplateStore {
    ec2: Arc<dyn Ec2>,
    cluster_name: String,
    clock: Clock,
    /// Size of user data by node class; `None` if there are no metrics.
    user_data_bytes: Option<Gauge>,
    state: Mutex<StoreState>,
    templates_size: OptionalCacheSize,
}

struct StoreState {
    /// Known templates by name.
    templates: BTreeMap<String, KnownTemplate>,
    /// Locks of the names that some call works on.
    name_locks: BTreeMap<String, Arc<tokio::sync::Mutex<()>>>,
    client_tokens: Rng,
}

#[derive(Debug, Clone)]
struct KnownTemplate {
    id: String,
    expires: Timestamp,
}

impl std::fmt::Debug for LaunchTemplateStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = self.lock().templates.len();
        f.debug_struct("LaunchTemplateStore").field("known", &known).finish_non_exhaustive()
    }
}

impl LaunchTemplateStore {
    /// Creates a store that knows no template. `seed` gives the client tokens and must differ
    /// between processes.
    pub fn new(ec2: Arc<dyn Ec2>, cluster_name: &str, clock: Clock, seed: u64) -> Self {
        let state = StoreState {
            templates: BTreeMap::new(),
            name_locks: BTreeMap::new(),
            client_tokens: Rng::new(seed).fork("launch template client tokens"),
        };
        Self {
            ec2,
            cluster_name: cluster_name.to_owned(),
            clock,
            user_data_bytes: None,
            state: Mutex::new(state),
            templates_size: OptionalCacheSize::default(),
        }
    }

    /// Publishes the size of user data in the metrics of a process.
    #[must_use]
    pub fn with_metrics(self, registry: &Registry) -> Self {
        let gauge = registry.gauge(
            "karpenter_ec2nodeclasses_userdata_bytes",
            "Size of the rendered user data of a node class, before base64",
            &["nodeclass"],
        );
        Self { user_data_bytes: Some(gauge), ..self }
    }

    /// Publishes the number of known templates from now on.
    pub(crate) fn measure(&self, metrics: &CacheMetrics) {
        self.templates_size.measure(metrics.of("launch_templates"), self.lock().templates.len());
    }

    /// Returns the name of the template for these inputs. The template exists in EC2 and is not
    /// deleted for a minute. Calls with equal inputs at the same time share their requests.
    pub async fn ensure(&self, input: &LaunchTemplateInput<'_>) -> Result<String, LaunchTemplateError> {
        let name = input.name();
        self.with_name_lock(&name, self.ensure_locked(&name, input)).await?;
        Ok(name)
    }

    async fn ensure_locked(&self, name: &str, input: &LaunchTemplateInput<'_>) -> Result<(), LaunchTemplateError> {
        if self.extend(name) {
            return Ok(());
        }
        let template = match self.describe(name).await? {
            Some(template) => template,
            None => self.create(name, input).await?,
        };
        self.remember(name, template.id);
        Ok(())
    }

    /// Extends the time of a known template. Returns false if it is unknown or has expired.
    fn extend(&self, name: &str) -> bool {
        let now = self.clock.now();
        let mut state = self.lock();
        match state.templates.get_mut(name) {
            Some(known) if known.expires > now => {
                known.expires = expiry(now);
                true
            }
            Some(_) | None => false,
        }
    }

    async fn describe(&self, name: &str) -> Result<Option<LaunchTemplate>, LaunchTemplateError> {
        let request = DescribeLaunchTemplates { names: vec![name.to_owned()], filters: Vec::new() };
        let mut templates = match self.ec2.describe_launch_templates(request, PageRequest::default()).await {
            Ok(page) => page.items,
            Err(error) if error.has_code(NAME_NOT_FOUND) => return Ok(None),
            Err(source) => return Err(LaunchTemplateError::Describe { name: name.to_owned(), source }),
        };
        match (templates.len(), templates.pop()) {
            (1, Some(template)) => Ok(Some(template)),
            (count, _) => Err(LaunchTemplateError::Ambiguous { name: name.to_owned(), count }),
        }
    }

    async fn create(&self, name: &str, input: &LaunchTemplateInput<'_>) -> Result<LaunchTemplate, LaunchTemplateError> {
        let request = CreateLaunchTemplate {
            name: name.to_owned(),
            data: input.content()?,
            tags: input.tags.clone(),
            client_token: self.lock().client_tokens.uuid(),
        };
        if let Some(gauge) = &self.user_data_bytes {
            gauge.set(&[input.class_name], decoded_length(&request.data.user_data) as f64);
        }
        let created = self.ec2.create_launch_template(request).await;
        created.map_err(|source| LaunchTemplateError::Create { name: name.to_owned(), source })
    }

    fn remember(&self, name: &str, id: String) {
        let expires = expiry(self.clock.now());
        let mut state = self.lock();
        if state.templates.len() < TEMPLATES_MAX || state.templates.contains_key(name) {
            state.templates.insert(name.to_owned(), KnownTemplate { id, expires });
            self.templates_size.set(state.templates.len());
        }
    }

    /// Forgets templates, for example because EC2 does not find them. Deletes nothing in EC2.
    pub fn forget<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        let mut state = self.lock();
        for name in names {
            state.templates.remove(name);
        }
        self.templates_size.set(state.templates.len());
    }

    /// Lists the templates of the cluster, so that those that are not used any more are deleted
    /// after a minute. Called on becoming leader. After an error, the templates of the pages before
    /// it are known.
    pub async fn hydrate(&self) {
        let filters = vec![Filter::new(format!("tag:{CLUSTER_TAG}"), &*self.cluster_name)];
        let mut page = PageRequest::first(LIST_PAGE_SIZE);
        for _ in 0..LIST_PAGES_MAX {
            let request = DescribeLaunchTemplates { names: Vec::new(), filters: filters.clone() };
            let answer = match self.ec2.describe_launch_templates(request, page.clone()).await {
                Ok(answer) => answer,
                Err(error) => {
                    tracing::error!(%error, "unable to hydrate the AWS launch template cache");
                    return;
                }
            };
            for template in answer.items {
                self.remember(&template.name, template.id);
            }
            match answer.next_token {
                Some(token) if !token.is_empty() => page.token = Some(token),
                Some(_) | None => return,
            }
        }
    }

    /// Deletes unused templates every minute, until the future is dropped.
    pub async fn run_cleanup(&self) {
        loop {
            tokio::time::sleep(CLEANUP_INTERVAL).await;
            self.delete_unused().await;
        }
    }

    /// Deletes the templates that were not used for a minute, in EC2 too. A failure is logged, and
    /// the template is left to the next leader.
    pub async fn delete_unused(&self) {
        let now = self.clock.now();
        let expired: Vec<String> = {
            let state = self.lock();
            let expired = state.templates.iter().filter(|(_, known)| known.expires <= now);
            expired.map(|(name, _)| name.clone()).collect()
        };
        for name in expired {
            self.with_name_lock(&name, self.delete_if_unused(&name)).await;
        }
    }

    async fn delete_if_unused(&self, name: &str) {
        let now = self.clock.now();
        let id = {
            let mut state = self.lock();
            let removed = match state.templates.get(name) {
                Some(known) if known.expires <= now => state.templates.remove(name).map(|known| known.id),
                Some(_) | None => None,
            };
            self.templates_size.set(state.templates.len());
            removed
        };
        let Some(id) = id else {
            return;
        };
        match self.ec2.delete_launch_template(LaunchTemplateRef::Id(id.clone())).await {
            Ok(()) => tracing::debug!(id, name, "deleted launch template"),
            Err(error) if error.has_code(ID_NOT_FOUND) || error.has_code(NAME_NOT_FOUND) => {}
            Err(error) => tracing::error!(%error, id, name, "failed to delete launch template"),
        }
    }

    /// Deletes all templates of a node class. Returns every error, also those of templates that do
    /// not exist any more; after an error of the listing nothing is deleted.
    pub async fn delete_all(&self, class_name: &str) -> Result<(), Vec<AwsError>> {
        let filters = vec![
            Filter::new(format!("tag:{CLUSTER_TAG}"), &*self.cluster_name),
            Filter::new(format!("tag:{}", aws::EC2NODECLASS), class_name),
        ];
        let templates = all_pages(Some(LIST_PAGE_SIZE), |page| {
            let request = DescribeLaunchTemplates { names: Vec::new(), filters: filters.clone() };
            self.ec2.describe_launch_templates(request, page)
        });
        let templates = templates.await.map_err(|error| vec![error])?;
        if let Some(gauge) = &self.user_data_bytes {
            gauge.remove(&[class_name]);
        }
        let mut errors = Vec::new();
        for template in templates {
            let delete = self.ec2.delete_launch_template(LaunchTemplateRef::Name(template.name.clone()));
            match self.with_name_lock(&template.name, delete).await {
                Ok(()) => self.forget([template.name.as_str()]),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Awaits a future while no other call works on the name.
    async fn with_name_lock<T>(&self, name: &str, future: impl Future<Output = T>) -> T {
        let name_lock = Arc::clone(self.lock().name_locks.entry(name.to_owned()).or_default());
        let guard = name_lock.lock().await;
        let output = future.await;
        drop(guard);
        drop(name_lock);
        let mut state = self.lock();
        // Calls that wait hold a clone; the last one removes the entry.
        if state.name_locks.get(name).is_some_and(|unused| Arc::strong_count(unused) == 1) {
            state.name_locks.remove(name);
        }
        output
    }

    fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of bytes that a base64 text stands for.
fn decoded_length(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

fn expiry(now: Timestamp) -> Timestamp {
    now.saturating_add(TEMPLATE_TTL).unwrap_or(Timestamp::MAX)
}
