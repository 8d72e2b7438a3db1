//! Expressions in `spec.kubelet` (spec 05 §4.10, 06 §17.2): compiled once, and evaluated for each
//! instance type.
//!
//! Invariant: the scheduler and the user data of nodes get their values from
//! [`CompiledKubelet::resolve`] alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kerf_api::validation::kubelet::{InstanceTypeVariables, KubeletExpression, is_expression, reserved_quantity};
use kerf_runtime::Clock;

use super::{KubeletError, KubeletSettings, MaxPods, ResolvedKubelet};
use crate::ttl_cache::TtlCache;

/// Time for which a compiled expression is kept after its last use.
const COMPILED_TTL: Duration = Duration::from_hours(12);
/// Number of compiled expressions that are kept.
const COMPILED_MAX: usize = 1_000;

/// Handling of expressions in `spec.kubelet` (spec 05 §4.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KubeletExpressions {
    /// The feature gate `NodeClassCEL` is off: expressions count as not set.
    Ignore,
    /// The feature gate is on: expressions are evaluated.
    Evaluate,
}

/// Reads `spec.kubelet` and compiles its expressions.
#[derive(Debug)]
pub(crate) struct KubeletCompiler {
    expressions: KubeletExpressions,
    /// Compiled expressions by their text. Expressions with mistakes are not kept.
    compiled: TtlCache<String, Arc<KubeletExpression>>,
}

impl KubeletCompiler {
    pub(crate) fn new(expressions: KubeletExpressions, clock: Clock) -> Self {
        Self { expressions, compiled: TtlCache::new(clock, COMPILED_TTL, COMPILED_MAX) }
    }

    /// Compiles all expressions of the settings. While expressions are ignored, the result has
    /// none. Fails at the first expression with a mistake.
    pub(crate) fn compile(&self, settings: KubeletSettings) -> Result<CompiledKubelet, KubeletError> {
        let mut reserved = Vec::new();
        let mut max_pods = None;
        if self.expressions == KubeletExpressions::Evaluate {
            if let Some(MaxPods::Expression(text)) = &settings.max_pods {
                max_pods = Some(self.expression("maxPods".to_owned(), text)?);
            }
            let maps = [
                (ReservedMap::KubeReserved, &settings.kube_reserved),
                (ReservedMap::SystemReserved, &settings.system_reserved),
            ];
            for (map, entries) in maps {
                for (resource, text) in entries.iter().filter(|(_, text)| is_expression(text)) {
                    let expression = self.expression(format!("{}[{resource}]", map.name()), text)?;
                    reserved.push(ReservedExpression { map, resource: resource.clone(), expression });
                }
            }
        }
        Ok(CompiledKubelet { fixed: settings.without_expressions(), max_pods, reserved })
    }

    fn expression(&self, field: String, text: &str) -> Result<FieldExpression, KubeletError> {
        let compiled = match self.compiled.get(text) {
            Some(compiled) => compiled,
            None => match KubeletExpression::compile(text) {
                Ok(compiled) => Arc::new(compiled),
                Err(cause) => return Err(KubeletError::Expression { field, cause }),
            },
        };
        // Each use extends the time.
        self.compiled.insert(text.to_owned(), compiled.clone());
        Ok(FieldExpression { field, compiled })
    }
}

/// A field with an expression.
#[derive(Debug, Clone)]
struct FieldExpression {
    /// Path below `spec.kubelet`.
    field: String,
    compiled: Arc<KubeletExpression>,
}

impl FieldExpression {
    /// Returns a value that is not negative and at most `max`.
    fn evaluate(&self, variables: &InstanceTypeVariables<'_>, max: i64) -> Result<i64, KubeletError> {
        let problem = match self.compiled.evaluate(variables) {
            Ok(value) if value < 0 => format!("result {value} is negative"),
            Ok(value) if value > max => format!("result {value} is greater than {max}"),
            Ok(value) => return Ok(value),
            Err(error) => error.to_string(),
        };
        let instance_type = variables.instance_type.to_owned();
        Err(KubeletError::Evaluation { field: self.field.clone(), instance_type, problem })
    }
}

/// A map of reserved resources.
#[derive(Debug, Clone, Copy)]
enum ReservedMap {
    KubeReserved,
    SystemReserved,
}

impl ReservedMap {
    fn name(self) -> &'static str {
        match self {
            Self::KubeReserved => "kubeReserved",
            Self::SystemReserved => "systemReserved",
        }
    }

    fn entries(self, settings: &mut KubeletSettings) -> &mut BTreeMap<String, String> {
        match self {
            Self::KubeReserved => &mut settings.kube_reserved,
            Self::SystemReserved => &mut settings.system_reserved,
        }
    }
}

#[derive(Debug, Clone)]
struct ReservedExpression {
    map: ReservedMap,
    resource: String,
    expression: FieldExpression,
}

/// The kubelet settings of a class, with compiled expressions.
#[derive(Debug, Clone, Default)]
pub(crate) struct CompiledKubelet {
    fixed: ResolvedKubelet,
    max_pods: Option<FieldExpression>,
    reserved: Vec<ReservedExpression>,
}

/// Handling of an entry of a reserved map without a usable value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnusableEntry {
    /// The entry is left out, with a log line.
    Drop,
    /// The settings cannot be resolved.
    Fail,
}

impl CompiledKubelet {
    /// Returns true if the settings depend on the instance type.
    pub(crate) fn has_expressions(&self) -> bool {
        self.max_pods.is_some() || !self.reserved.is_empty()
    }

    /// Returns the settings without expressions.
    pub(crate) fn fixed(&self) -> &ResolvedKubelet {
        &self.fixed
    }

    /// Returns the settings for one instance type. `pods` returns the number of pods of the type
    /// with the settings that it gets; `variables.max_pods` is ignored.
    pub(crate) fn resolve(
        &self,
        variables: InstanceTypeVariables<'_>,
        pods: impl Fn(&ResolvedKubelet) -> i64,
        unusable: UnusableEntry,
    ) -> Result<ResolvedKubelet, KubeletError> {
        let mut resolved = self.fixed.clone();
        if let Some(expression) = &self.max_pods {
            let variables = InstanceTypeVariables { max_pods: pods(&resolved), ..variables };
            resolved.max_pods = Some(expression.evaluate(&variables, i64::from(i32::MAX))?);
        }
        if self.reserved.is_empty() {
            return Ok(resolved);
        }
        let variables = InstanceTypeVariables { max_pods: pods(&resolved), ..variables };
        for ReservedExpression { map, resource, expression } in &self.reserved {
            match expression.evaluate(&variables, i64::MAX) {
                Ok(value) => {
                    let quantity = reserved_quantity(resource, value);
                    map.entries(&mut resolved.settings).insert(resource.clone(), quantity);
                }
                Err(error) if unusable == UnusableEntry::Fail => return Err(error),
                Err(error) => tracing::error!(%error, "dropping a kubelet expression without a usable value"),
            }
        }
        Ok(resolved)
    }
}

#[cfg(test)]
mod tests;
