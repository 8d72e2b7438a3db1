//! Expressions for kubelet settings, in CEL (spec 05 §4.10, 06 §17.2): numbers that depend on the
//! instance type.

use crate::admission::{NumericExpression, NumericExpressionError, VariableType, VariableValue};

/// Variables in the order in which [`InstanceTypeVariables::values`] returns their values.
const VARIABLES: [(&str, VariableType); 6] = [
    ("vcpus", VariableType::Int),
    ("memory_mib", VariableType::Int),
    ("default_enis", VariableType::Int),
    ("ips_per_eni", VariableType::Int),
    ("max_pods", VariableType::Int),
    ("instance_type", VariableType::Text),
];

/// The facts about an instance type that an expression can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceTypeVariables<'a> {
    /// Number of vCPUs.
    pub vcpus: i64,
    /// Memory that EC2 states, in MiB.
    pub memory_mib: i64,
    /// Number of network interfaces of the default network card.
    pub default_enis: i64,
    /// Number of IPv4 addresses of a network interface.
    pub ips_per_eni: i64,
    /// Number of pods: in `maxPods` the default of the AMI family, in reservations the resolved
    /// number.
    pub max_pods: i64,
    /// Name, for example `m5.large`.
    pub instance_type: &'a str,
}

impl InstanceTypeVariables<'_> {
    fn values(&self) -> [VariableValue<'_>; 6] {
        [
            VariableValue::Int(self.vcpus),
            VariableValue::Int(self.memory_mib),
            VariableValue::Int(self.default_enis),
            VariableValue::Int(self.ips_per_eni),
            VariableValue::Int(self.max_pods),
            VariableValue::Text(self.instance_type),
        ]
    }
}

/// A compiled expression. Compile it once and evaluate it for each instance type.
#[derive(Debug)]
pub struct KubeletExpression(NumericExpression);

impl KubeletExpression {
    /// Compiles an expression. Fails if it has a mistake, or if its type is neither int nor double.
    pub fn compile(expression: &str) -> Result<Self, NumericExpressionError> {
        NumericExpression::compile(expression, &VARIABLES).map(Self)
    }

    /// Returns the value for an instance type. A double is truncated toward zero.
    pub fn evaluate(&self, variables: &InstanceTypeVariables<'_>) -> Result<i64, NumericExpressionError> {
        self.0.evaluate(&variables.values())
    }
}

/// Returns the quantity of a reserved resource in the unit of that resource: CPU in multiples of
/// ten thousandths of a core, memory in multiples of 16 MiB, ephemeral storage in GiB. Values are
/// rounded up, unless the result would overflow.
pub fn reserved_quantity(resource: &str, value: i64) -> String {
    match resource {
        "cpu" => format!("{}m", rounded_up(value, 10)),
        "memory" => format!("{}Mi", rounded_up(value, 16)),
        "ephemeral-storage" => format!("{value}Gi"),
        _ => value.to_string(),
    }
}

fn rounded_up(value: i64, multiple: i64) -> i64 {
    match value.rem_euclid(multiple) {
        0 => value,
        rest => value.checked_add(multiple - rest).unwrap_or(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M5_LARGE: InstanceTypeVariables<'static> = InstanceTypeVariables {
        vcpus: 2,
        memory_mib: 8_192,
        default_enis: 3,
        ips_per_eni: 10,
        max_pods: 29,
        instance_type: "m5.large",
    };

    fn value(expression: &str) -> Result<i64, String> {
        let compiled = KubeletExpression::compile(expression).map_err(|error| error.to_string())?;
        compiled.evaluate(&M5_LARGE).map_err(|error| error.to_string())
    }

    // spec 06 §17.2
    #[test]
    fn expressions_read_the_type_and_give_whole_numbers() {
        for (expression, expected) in [
            ("7", 7),
            ("110.9", 110),
            ("-1.9", -1),
            ("vcpus * 10 + 1", 21),
            ("default_enis * (ips_per_eni - 1) + 2", 29),
            ("memory_mib / 100", 81),
            ("int(memory_mib) % 100", 92),
            ("double(memory_mib) / 100.0", 81),
            ("instance_type.startsWith('m5.') ? 5 : 6", 5),
            ("instance_type in ['a', 'm5.large'] && vcpus > 1 ? max_pods : 0", 29),
            ("max(60, vcpus * 30)", 60),
            ("min(max_pods, 110)", 29),
            ("max(1, 2.5)", 2),
            ("min(1.5, 2)", 1),
            ("max(2.5, 1)", 2),
            ("min(1.0, 2.0)", 1),
            ("9223372036854775807", i64::MAX),
            ("[1, 2, 3].map(x, x * vcpus)[2]", 6),
            ("size(instance_type)", 8),
        ] {
            assert_eq!(value(expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn what_is_no_number_does_not_compile() {
        for (expression, expected) in [
            ("true", "expression \"true\" must return int or double, got bool"),
            ("instance_type", "expression \"instance_type\" must return int or double, got string"),
            ("dyn(1)", "expression \"dyn(1)\" must return int or double, got dyn"),
            ("1u", "expression \"1u\" must return int or double, got uint"),
        ] {
            assert_eq!(value(expression), Err(expected.to_owned()));
        }
        // Mistakes are reported with their position; functions of Kubernetes are unknown.
        for (expression, part) in [
            ("vcpu * 2", "undeclared reference to 'vcpu'"),
            ("vcpus * 1.5", "found no matching overload for '_*_' applied to '(int, double)'"),
            ("max(1, 2, 3)", "found no matching overload for 'max'"),
            ("max(1, 'a')", "found no matching overload for 'max'"),
            ("quantity('1').asInteger()", "undeclared reference to 'quantity'"),
            ("self", "undeclared reference to 'self'"),
            ("vcpus *", "ERROR: <input>:1:8"),
            ("", "ERROR: <input>:1:1"),
        ] {
            let error = value(expression).unwrap_err();
            let prefix = format!("compiling expression {expression:?}: ERROR: <input>:1:");
            assert!(error.starts_with(&prefix) && error.contains(part), "{error}");
        }
    }

    #[test]
    fn failed_evaluations_are_errors() {
        for (expression, expected) in [
            ("1 / (vcpus - 2)", "division by zero"),
            ("1 % (vcpus - 2)", "modulus by zero"),
            ("1.0 / 0.0", "the result is no 64-bit integer"),
            ("0.0 / 0.0", "the result is no 64-bit integer"),
            ("9300000000000000000.0", "the result is no 64-bit integer"),
            ("9223372036854775807 + vcpus", "integer overflow"),
        ] {
            assert_eq!(value(expression), Err(format!("evaluating expression: {expected}")), "{expression}");
        }
        assert_eq!(value("1.0 / 0.0 > 5.0 ? 3 : 4"), Ok(3), "infinity is a value until the end");
    }

    #[test]
    fn reservations_are_rounded_up_in_their_unit() {
        for (resource, value, expected) in [
            ("cpu", 61, "70m"),
            ("cpu", 60, "60m"),
            ("cpu", 0, "0m"),
            ("memory", 81, "96Mi"),
            ("memory", 96, "96Mi"),
            ("memory", i64::MAX, "9223372036854775807Mi"),
            ("ephemeral-storage", 3, "3Gi"),
            ("pid", 1_001, "1001"),
        ] {
            assert_eq!(reserved_quantity(resource, value), expected);
        }
    }
}
