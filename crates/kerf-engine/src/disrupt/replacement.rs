//! Selects the instance types that a replacement may have (spec 03 §8.5 to §8.7).
//!
//! An instance type is kept only if the most expensive launch that it allows is cheaper than the
//! removed nodes. So no launch, whatever capacity the provider has, costs more than planned.

use std::sync::Arc;

use kerf_api::labels::{self, LabelRules};
use kerf_api::slim::Str;

use super::block_reason::{BlockReason, SPOT_TO_SPOT_MIN_TYPES};
use super::survey::{NodeFacts, Survey};
use crate::catalogue::{InstanceTypeRef, Offering, OfferingRef};
use crate::pod::requirements::expression_requirement;
use crate::price::Price;
use crate::requirement::{MinValues, Requirement, Requirements, UndefinedLabels, check_min_values};
use crate::solve::{LaunchEstimate, LaunchOptions, PlannedClaim, launch_rank};

/// A replacement whose instance types are being filtered.
#[derive(Debug)]
pub(crate) struct ReplacementFilter<'s, 'i> {
    rules: &'i LabelRules,
    claim: &'s PlannedClaim,
    requirements: Requirements,
    types: Vec<InstanceTypeRef<'i>>,
    /// True if the claim allows spot capacity, available or not. False if it holds a reservation.
    can_be_spot: bool,
}

impl<'s, 'i> ReplacementFilter<'s, 'i> {
    pub(crate) fn new(survey: &Survey<'i>, claim: &'s PlannedClaim) -> Self {
        let pool = survey.input.pools.iter().position(|p| p.name == claim.pool);
        let types = claim.launch.instance_types.iter().filter_map(|name| survey.type_of(pool?, name)).collect();
        let rules = &survey.input.label_rules;
        let requirements = claim.launch.requirements.clone();
        let holds_reservation = requirements
            .get(labels::CAPACITY_TYPE)
            .and_then(Requirement::allowed_values)
            .is_some_and(|values| values.len() == 1 && values[0] == labels::CAPACITY_TYPE_RESERVED);
        let pool = pool.map(|ix| &survey.input.pools[ix]);
        let excludes_spot = pool.is_some_and(|p| {
            let of_key = p.requirements.iter().filter(|r| r.expression.key == labels::CAPACITY_TYPE);
            of_key.into_iter().any(|r| !expression_requirement(&r.expression, rules).has(labels::CAPACITY_TYPE_SPOT))
        });
        Self { rules, claim, requirements, types, can_be_spot: !holds_reservation && !excludes_spot }
    }

    /// Keeps the instance types that are cheaper than the removed nodes (spec 03 §8.5, steps 5 to
    /// 9).
    pub(crate) fn keep_cheaper(&mut self, batch: &[&NodeFacts<'_>], spot_to_spot: bool) -> Result<(), BlockReason> {
        self.keep_cheaper_than(batch.iter().map(|facts| facts.known_price()).sum(), batch, spot_to_spot)
    }

    /// Like [`Self::keep_cheaper`], with `price` as the limit: the share of one of several
    /// replacements.
    pub(crate) fn keep_cheaper_than(
        &mut self,
        price: Price,
        batch: &[&NodeFacts<'_>],
        spot_to_spot: bool,
    ) -> Result<(), BlockReason> {
        let is_spot = |facts: &&NodeFacts<'_>| facts.label(labels::CAPACITY_TYPE) == Some(labels::CAPACITY_TYPE_SPOT);
        if batch.iter().all(is_spot) && self.can_be_spot {
            return self.keep_cheaper_spot(batch, price, spot_to_spot);
        }
        // If the cheapest launch is not cheaper, none is.
        if self.claim.launch.estimate.as_ref().is_none_or(|cheapest| cheapest.price >= price) {
            return Err(BlockReason::NoCheaperReplacement);
        }
        self.keep_below_price(price)?;
        let has_spot = |t: &InstanceTypeRef<'_>| {
            let mut launches = launchable_offerings(*t, &self.requirements, self.rules);
            launches
                .any(|o| o.requirements.get(labels::CAPACITY_TYPE).is_none_or(|r| r.has(labels::CAPACITY_TYPE_SPOT)))
        };
        // Of the remaining types, some may have only on-demand offerings. If all have, the launch
        // is on-demand.
        let chooses_spot = self.allows_capacity_type(labels::CAPACITY_TYPE_SPOT) && self.types.iter().any(has_spot);
        if chooses_spot && self.allows_capacity_type(labels::CAPACITY_TYPE_ON_DEMAND) {
            // The compared prices are spot prices. If spot capacity is gone at launch, the launch
            // must fail instead of costing more.
            self.restrict_to_spot();
            return self.check_min_values();
        }
        Ok(())
    }

    /// Applies the rules for spot-to-spot consolidation (spec 03 §8.6).
    fn keep_cheaper_spot(
        &mut self,
        batch: &[&NodeFacts<'_>],
        price: Price,
        is_enabled: bool,
    ) -> Result<(), BlockReason> {
        if !is_enabled {
            return Err(BlockReason::SpotToSpotDisabled);
        }
        self.restrict_to_spot();
        self.keep_below_price(price)?;
        if batch.len() > 1 {
            return Ok(());
        }
        if self.types.len() < SPOT_TO_SPOT_MIN_TYPES {
            return Err(BlockReason::SpotToSpotFlexibility(self.types.len()));
        }
        // The launch must choose among the cheapest few types. Otherwise the new node could be
        // replaced by a cheaper one at once.
        let types_needed = match check_min_values(self.types.iter().map(|t| &*t.requirements), &self.requirements) {
            MinValues::Met { types_needed } => types_needed,
            MinValues::Unmet(_) => 0,
        };
        self.types.truncate(SPOT_TO_SPOT_MIN_TYPES.max(types_needed));
        Ok(())
    }

    /// Drops the types that would make the replacement equal to a removed node (spec 03 §8.7): one
    /// node of a type that the batch has can be kept instead, by deleting only the others.
    pub(crate) fn filter_out_same_types(&mut self, batch: &[&NodeFacts<'_>]) -> Result<(), BlockReason> {
        let shared = batch
            .iter()
            .filter(|facts| facts.instance_type.is_some_and(|t| self.types.iter().any(|mine| mine.name == t.name)));
        let cheapest = |facts: &&NodeFacts<'_>| {
            let instance_type = facts.instance_type?;
            let node_requirements = Requirements::from_labels(self.rules, &facts.node?.metadata.labels);
            let matching = instance_type.offerings.iter().filter(|o| is_compatible(&node_requirements, o, self.rules));
            Some(matching.map(|o| o.price).min().unwrap_or(Price::ZERO))
        };
        match shared.filter_map(cheapest).min() {
            Some(max_price) => self.keep_below_price(max_price),
            None => Ok(()),
        }
    }

    /// Keeps the types whose most expensive launch is below a price.
    fn keep_below_price(&mut self, price: Price) -> Result<(), BlockReason> {
        let (requirements, rules) = (&self.requirements, self.rules);
        self.types.retain(|t| worst_launch_price(*t, requirements, rules).is_some_and(|worst| worst < price));
        self.check_min_values()
    }

    /// Returns an error if no type is left or the pool's `minValues` are not satisfied.
    fn check_min_values(&self) -> Result<(), BlockReason> {
        let counts_capacity_types =
            self.requirements.get(labels::CAPACITY_TYPE).is_some_and(|r| r.min_values().is_some());
        let narrowed = counts_capacity_types.then(|| {
            let mut requirements = self.requirements.clone();
            requirements.add(Requirement::one_of(labels::CAPACITY_TYPE, self.capacity_types()));
            requirements
        });
        let requirements = narrowed.as_ref().unwrap_or(&self.requirements);
        match check_min_values(self.types.iter().map(|t| &*t.requirements), requirements) {
            MinValues::Unmet(unmet) => Err(BlockReason::MinValues(unmet.to_string())),
            MinValues::Met { .. } if self.types.is_empty() => Err(BlockReason::NoCheaperReplacement),
            MinValues::Met { .. } => Ok(()),
        }
    }

    /// Returns the capacity types that a launch may use.
    fn capacity_types(&self) -> Vec<Str> {
        let offered = self.types.iter().flat_map(|t| launchable_offerings(*t, &self.requirements, self.rules));
        offered.filter_map(|o| single_value(&o, labels::CAPACITY_TYPE)).collect()
    }

    fn allows_capacity_type(&self, capacity_type: &str) -> bool {
        self.requirements.get(labels::CAPACITY_TYPE).is_none_or(|r| r.has(capacity_type))
    }

    /// Restricts the claim to spot, keeps the types that have it, and sorts them by price.
    fn restrict_to_spot(&mut self) {
        self.requirements
            .add(Requirement::one_of(labels::CAPACITY_TYPE, [Str::new_static(labels::CAPACITY_TYPE_SPOT)]));
        let (requirements, rules) = (&self.requirements, self.rules);
        let mut priced: Vec<(Price, InstanceTypeRef<'_>)> = self
            .types
            .iter()
            .filter_map(|t| Some((launchable_offerings(*t, requirements, rules).map(|o| o.price).min()?, *t)))
            .collect();
        priced.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.name.cmp(&b.1.name)));
        self.types = priced.into_iter().map(|(_, t)| t).collect();
    }

    /// Returns the claim to create.
    pub(crate) fn into_claim(mut self) -> PlannedClaim {
        let names: Vec<Str> = self.types.iter().map(|t| t.name.clone()).collect();
        let offered: Vec<(InstanceTypeRef<'_>, OfferingRef<'_>)> = self
            .types
            .iter()
            .flat_map(|t| launchable_offerings(*t, &self.requirements, self.rules).map(move |o| (*t, o)))
            .collect();
        let capacity_types = self.capacity_types();
        let estimate = offered
            .iter()
            .filter(|(t, _)| Some(&t.name) == names.first())
            .map(|(t, o)| LaunchEstimate {
                instance_type: t.name.clone(),
                zone: single_value(o, labels::ZONE).unwrap_or_default(),
                capacity_type: single_value(o, labels::CAPACITY_TYPE).unwrap_or_default(),
                price: o.price,
            })
            .min_by(|a, b| {
                let key = |e: &LaunchEstimate| (e.price, launch_rank(&e.capacity_type));
                key(a).cmp(&key(b)).then_with(|| a.zone.cmp(&b.zone))
            });
        self.requirements.add(Requirement::one_of(labels::INSTANCE_TYPE, names.iter().cloned()));
        if !capacity_types.is_empty() {
            self.requirements.add(Requirement::one_of(labels::CAPACITY_TYPE, capacity_types));
        }
        let launch = LaunchOptions {
            instance_types: names,
            labels: self.claim.launch.labels.clone(),
            requirements: self.requirements,
            estimate,
        };
        PlannedClaim { launch: Arc::new(launch), ..self.claim.clone() }
    }
}

/// Returns the offerings of a type that can be launched now and satisfy the requirements.
fn launchable_offerings<'t>(
    instance_type: InstanceTypeRef<'t>,
    requirements: &'t Requirements,
    rules: &'t LabelRules,
) -> impl Iterator<Item = OfferingRef<'t>> {
    instance_type.offerings().filter(move |o| o.is_launchable() && is_compatible(requirements, o, rules))
}

/// Returns the highest price that a launch of the type can have. A launch uses reserved capacity
/// before spot, and spot before on-demand.
fn worst_launch_price(
    instance_type: InstanceTypeRef<'_>,
    requirements: &Requirements,
    rules: &LabelRules,
) -> Option<Price> {
    let preferred = [labels::CAPACITY_TYPE_RESERVED, labels::CAPACITY_TYPE_SPOT, labels::CAPACITY_TYPE_ON_DEMAND];
    preferred.into_iter().find_map(|capacity_type| {
        let of_capacity_type = launchable_offerings(instance_type, requirements, rules)
            .filter(|o| o.requirements.get(labels::CAPACITY_TYPE).is_none_or(|r| r.has(capacity_type)));
        of_capacity_type.map(|o| o.price).max()
    })
}

fn is_compatible(requirements: &Requirements, offering: &Offering, rules: &LabelRules) -> bool {
    requirements.compatible(&offering.requirements, UndefinedLabels::AllowWellKnown(rules)).is_ok()
}

fn single_value(offering: &Offering, key: &str) -> Option<Str> {
    match offering.requirements.get(key)?.allowed_values()? {
        [value] => Some(value.clone()),
        _ => None,
    }
}
