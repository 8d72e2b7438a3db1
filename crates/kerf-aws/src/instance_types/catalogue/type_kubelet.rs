//! Kubelet settings of a class for each instance type: expressions in `spec.kubelet` give other
//! values for other types (spec 06 §17).

use std::borrow::Cow;

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::validation::kubelet::InstanceTypeVariables;

use super::super::capacity::{self, CapacitySettings};
use super::super::class_facts::NodeClassFacts;
use super::super::kubelet::expressions::UnusableEntry;
use super::super::kubelet::{KubeletError, KubeletExpressions, ResolvedKubelet};
use super::{InstanceTypeCatalogue, InstanceTypeError};
use crate::ports::ec2::InstanceTypeInfo;

impl InstanceTypeCatalogue {
    /// Returns the kubelet settings of a class for one type. Scheduling and user data both use
    /// them.
    pub(crate) fn kubelet(&self, class: &EC2NodeClass, name: &str) -> Result<ResolvedKubelet, InstanceTypeError> {
        let facts = self.facts(class)?;
        if !facts.compiled_kubelet.has_expressions() {
            return Ok(facts.kubelet);
        }
        let state = self.lock();
        let info = state.types.get(name).ok_or_else(|| InstanceTypeError::NotFound(name.to_owned()))?;
        Ok(kubelet_of_type(info, &facts, self.capacity_settings(), UnusableEntry::Drop)?)
    }

    /// Returns true if expressions in `spec.kubelet` are evaluated.
    pub(crate) fn evaluates_expressions(&self) -> bool {
        self.settings.expressions == KubeletExpressions::Evaluate
    }

    /// Reads `spec.kubelet` and compiles its expressions. Fails at the first mistake.
    pub(crate) fn compile_expressions(&self, class: &EC2NodeClass) -> Result<(), KubeletError> {
        self.facts(class).map(drop)
    }

    /// Evaluates the expressions of a class for every type. Fails at the first unusable value.
    pub(crate) fn check_expressions(&self, class: &EC2NodeClass) -> Result<(), InstanceTypeError> {
        let facts = self.facts(class)?;
        if !facts.compiled_kubelet.has_expressions() {
            return Ok(());
        }
        let state = self.lock();
        state.check_complete()?;
        for info in state.types.values() {
            kubelet_of_type(info, &facts, self.capacity_settings(), UnusableEntry::Fail)?;
        }
        Ok(())
    }

    pub(super) fn capacity_settings(&self) -> CapacitySettings {
        CapacitySettings {
            vm_memory_overhead_percent: self.settings.vm_memory_overhead_percent,
            reserved_enis: i64::from(self.settings.reserved_enis),
        }
    }

    pub(super) fn facts(&self, class: &EC2NodeClass) -> Result<NodeClassFacts, KubeletError> {
        NodeClassFacts::new(class, &self.kubelet, self.groups.get(class))
    }
}

impl NodeClassFacts {
    /// Returns the facts with the kubelet settings of one type.
    pub(super) fn for_type(
        &self,
        info: &InstanceTypeInfo,
        settings: CapacitySettings,
    ) -> Result<Cow<'_, Self>, KubeletError> {
        if !self.compiled_kubelet.has_expressions() {
            return Ok(Cow::Borrowed(self));
        }
        let kubelet = kubelet_of_type(info, self, settings, UnusableEntry::Drop)?;
        Ok(Cow::Owned(Self { kubelet, ..self.clone() }))
    }
}

/// Evaluates the expressions of a class for one type.
fn kubelet_of_type(
    info: &InstanceTypeInfo,
    class: &NodeClassFacts,
    settings: CapacitySettings,
    unusable: UnusableEntry,
) -> Result<ResolvedKubelet, KubeletError> {
    let variables = InstanceTypeVariables {
        vcpus: i64::from(info.vcpus.default_vcpus),
        memory_mib: info.memory.size_mib,
        default_enis: capacity::interfaces_of_default_card(info),
        ips_per_eni: i64::from(info.network.ipv4_addresses_per_interface),
        max_pods: 0,
        instance_type: &info.name,
    };
    let pods = |kubelet: &ResolvedKubelet| capacity::pods_with(info, class, kubelet, settings);
    class.compiled_kubelet.resolve(variables, pods, unusable)
}
