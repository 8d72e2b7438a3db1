//! The instance types of a plan: those of the simulated provider, those of EC2 that Kerf ships, or
//! both, for each node class by its group (spec 09 §2.1).

use std::path::Path;
use std::sync::Arc;

use kerf_api::labels::LabelRules;
use kerf_api::nodepool::NodeClassReference;
use kerf_api::slim::Str;
use kerf_aws::AwsSettings;
use kerf_engine::catalogue::InstanceTypes;
use kerf_engine::requirement::Requirement;

use super::aws::{self, Ec2PlanCatalogue};
use super::kwok::KwokProvider;
use super::no_instance_types_file;
use crate::exit::{CommandFailure, Problem};
use crate::input::Objects;
use crate::program::{ProviderChoice, ProviderName};

/// The instance types that a plan can use, and the rules about their labels.
pub(crate) trait PlanCatalogue: Send + Sync {
    /// Returns the rules about labels.
    fn label_rules(&self) -> &LabelRules;

    /// Returns the instance types of a node class. Returns clones of one list for classes with
    /// equal types. Returns `None` if the class is not in the input and its types depend on it, or
    /// if no provider of the plan serves the class.
    fn instance_types(&self, class: &NodeClassReference) -> Option<InstanceTypes>;

    /// Returns the providers whose node classes have instance types.
    fn providers(&self) -> &'static [ProviderName];

    /// Returns why the controller would not make a node class of the input ready, as far as that is
    /// known without a call of the cloud. The text names class and field.
    fn class_problem(&self, _class: &NodeClassReference) -> Option<&str> {
        None
    }

    /// Returns what a user should know about these instance types.
    fn notices(&self) -> &[PlanNotice] {
        &[]
    }
}

/// A message about the data of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PlanNotice {
    /// The source of the data.
    Note(String),
    /// A fact that is missing or assumed.
    Warning(String),
}

/// Options of a plan that concern instance types.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanProviderOptions<'a> {
    pub(crate) choice: ProviderChoice,
    /// File of instance types of the simulated provider; `None` selects the built-in ones.
    pub(crate) instance_types: Option<&'a Path>,
    /// AWS region; `None` selects that of the input.
    pub(crate) region: Option<&'a str>,
    /// Settings on which the instance types of EC2 depend.
    pub(crate) aws: &'a AwsSettings,
}

/// The instance types that the options allow. The input decides which of them are used.
#[derive(Debug)]
pub(crate) struct PlanProviders<'a> {
    options: PlanProviderOptions<'a>,
    kwok: KwokProvider,
}

/// Checks the options and reads the file of instance types, if there is one.
pub(crate) fn load_for_plan(options: PlanProviderOptions<'_>) -> Result<PlanProviders<'_>, CommandFailure> {
    if options.choice.selected == Some(ProviderName::Aws) && options.instance_types.is_some() {
        return Err(CommandFailure::bad_input(no_instance_types_file()));
    }
    if let Some(region) = options.region {
        let is_simulated = options.choice.selected == Some(ProviderName::Kwok) || options.instance_types.is_some();
        if is_simulated {
            let problem = Problem::new(format!("--region {region}: the simulated provider has no regions"));
            let hint = "leave --region away, or plan with the instance types of EC2: --provider aws";
            return Err(CommandFailure::bad_input(problem.with_hint(hint)));
        }
        aws::check_region(region).map_err(CommandFailure::bad_input)?;
    }
    Ok(PlanProviders { options, kwok: KwokProvider::load(options.instance_types)? })
}

impl PlanProviders<'_> {
    /// Returns the instance types for an input. Fails if the region of the input is unknown.
    pub(crate) fn catalogue_for(self, objects: &Objects) -> Result<Box<dyn PlanCatalogue>, CommandFailure> {
        let PlanProviderOptions { region, aws, .. } = self.options;
        let ec2 = || Ec2PlanCatalogue::new(region, aws, objects).map_err(CommandFailure::bad_input);
        Ok(match self.kinds(objects) {
            CatalogueKinds::Kwok => Box::new(self.kwok),
            CatalogueKinds::Ec2 => Box::new(ec2()?),
            CatalogueKinds::Both => Box::new(MixedPlanCatalogue::new(ec2()?, &self.kwok)),
        })
    }

    fn kinds(&self, objects: &Objects) -> CatalogueKinds {
        let of_provider = |name| match name {
            ProviderName::Aws => CatalogueKinds::Ec2,
            ProviderName::Kwok => CatalogueKinds::Kwok,
        };
        if let Some(name) = self.options.choice.selected {
            return of_provider(name);
        }
        // A file of instance types is for the simulated provider.
        if self.options.instance_types.is_some() {
            return CatalogueKinds::Kwok;
        }
        let references = || {
            let of_pools = objects.node_pools.iter().map(|pool| &pool.object.spec.template.spec.node_class_ref);
            of_pools.chain(objects.node_claims.iter().map(|claim| &claim.object.spec.node_class_ref))
        };
        let names =
            |provider| references().any(|class| ProviderName::of_node_class_group(&class.group) == Some(provider));
        let uses_ec2 = !objects.ec2_node_classes.is_empty() || names(ProviderName::Aws);
        let uses_kwok = !objects.kwok_node_classes.is_empty() || names(ProviderName::Kwok);
        match (uses_ec2, uses_kwok) {
            (true, true) => CatalogueKinds::Both,
            (true, false) => CatalogueKinds::Ec2,
            (false, true) => CatalogueKinds::Kwok,
            (false, false) => of_provider(self.options.choice.default),
        }
    }
}

/// The providers whose instance types a plan uses.
#[derive(Debug, Clone, Copy)]
enum CatalogueKinds {
    Kwok,
    Ec2,
    Both,
}

/// The instance types of both providers. The group of a node class selects the provider.
struct MixedPlanCatalogue {
    ec2: Ec2PlanCatalogue,
    /// The types of the simulated provider.
    simulated: InstanceTypes,
    label_rules: LabelRules,
}

impl MixedPlanCatalogue {
    fn new(mut ec2: Ec2PlanCatalogue, kwok: &KwokProvider) -> Self {
        let (of_ec2, of_kwok) = (ec2.label_rules().clone(), kwok.label_rules());
        let mut label_rules = of_ec2.clone();
        label_rules.extend(of_kwok);
        ec2.change_lists(|list| without_labels(list, &keys_of_other(&of_ec2, of_kwok)));
        let simulated = without_labels(kwok.types(), &keys_of_other(of_kwok, &of_ec2));
        Self { ec2, simulated, label_rules }
    }
}

/// Returns the well-known keys of `other` that `own` does not have.
fn keys_of_other(own: &LabelRules, other: &LabelRules) -> Vec<Str> {
    other.well_known().filter(|key| !own.is_well_known(key)).map(Str::new).collect()
}

/// Returns the types with the requirement that the labels do not exist. A type without the
/// requirement would satisfy every requirement on a well-known label of the other provider.
fn without_labels(types: &InstanceTypes, keys: &[Str]) -> InstanceTypes {
    let changed = types.iter().map(|instance_type| {
        let (mut instance_type, states) = instance_type.to_pair();
        let requirements = Arc::make_mut(&mut instance_type.requirements);
        for key in keys {
            requirements.add(Requirement::does_not_exist(key.clone()));
        }
        (instance_type, states)
    });
    changed.collect()
}

impl PlanCatalogue for MixedPlanCatalogue {
    fn label_rules(&self) -> &LabelRules {
        &self.label_rules
    }

    fn instance_types(&self, class: &NodeClassReference) -> Option<InstanceTypes> {
        match ProviderName::of_node_class_group(&class.group)? {
            ProviderName::Aws => self.ec2.instance_types(class),
            ProviderName::Kwok => Some(self.simulated.clone()),
        }
    }

    fn providers(&self) -> &'static [ProviderName] {
        &[ProviderName::Aws, ProviderName::Kwok]
    }

    fn class_problem(&self, class: &NodeClassReference) -> Option<&str> {
        self.ec2.class_problem(class)
    }

    fn notices(&self) -> &[PlanNotice] {
        self.ec2.notices()
    }
}
