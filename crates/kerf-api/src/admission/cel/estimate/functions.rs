//! Estimated cost of calls: CEL's own functions, its list and set extensions, and the functions for
//! which Kubernetes defines the cost.

use cel::common::ast::{Expr, IdedExpr, LiteralValue};

use super::super::types::{OpaqueType, Type};
use super::range::{EntrySizes, EstimateRange};
use super::{CallEstimate, Estimator};

const TRAVERSAL_COST_FACTOR: f64 = 0.1;
const PATTERN_COST_FACTOR: f64 = 0.25;

impl Estimator<'_, '_> {
    pub(super) fn overload(
        &mut self,
        expr: &IdedExpr,
        name: &str,
        params: &[Type<'static>],
        target: Option<&IdedExpr>,
        args: &[IdedExpr],
        arg_costs: &[EstimateRange],
    ) -> CallEstimate {
        let args_cost = arg_costs.iter().fold(EstimateRange::ZERO, |sum, cost| sum.add(*cost));
        if let Some(estimate) =
            self.list_library(name, params, target, args).or_else(|| self.kubernetes(name, params, target, args))
        {
            return CallEstimate { cost: estimate.cost.add(args_cost), size: estimate.size };
        }
        let param = |at: usize| params.get(at);
        let is_text = matches!(param(0), Some(Type::String | Type::Bytes));
        match (name, target, args) {
            ("format", Some(target), _) => {
                CallEstimate::with_cost(self.size_or_unknown(target).scale(TRAVERSAL_COST_FACTOR).add(args_cost))
            }
            ("bytes", None, [arg]) if matches!(param(0), Some(Type::String)) => {
                let size = self.size_or_unknown(arg);
                CallEstimate::with_cost_and_size(
                    size.scale(TRAVERSAL_COST_FACTOR).add(args_cost),
                    EstimateRange { min: size.min, max: size.max.wrapping_mul(4) },
                )
            }
            ("string", None, [arg]) if matches!(param(0), Some(Type::Bytes)) => {
                let size = self.size_or_unknown(arg);
                CallEstimate::with_cost_and_size(
                    size.scale(TRAVERSAL_COST_FACTOR).add(args_cost),
                    EstimateRange { min: size.min / 4, max: size.max },
                )
            }
            ("startsWith" | "endsWith", Some(_), [arg]) => {
                CallEstimate::with_cost(self.size_or_unknown(arg).scale(TRAVERSAL_COST_FACTOR).add(args_cost))
            }
            ("@in", None, [_, list]) if matches!(param(1), Some(Type::List(_))) => {
                CallEstimate::with_cost(self.size_or_unknown(list).add(args_cost))
            }
            ("matches", Some(text), [pattern]) => {
                let text = self.size_or_unknown(text).add(EstimateRange::fixed(1)).scale(TRAVERSAL_COST_FACTOR);
                CallEstimate::with_cost(
                    text.times(self.size_or_unknown(pattern).scale(PATTERN_COST_FACTOR)).add(args_cost),
                )
            }
            ("contains", Some(text), [part]) => {
                let text = self.size_or_unknown(text).scale(TRAVERSAL_COST_FACTOR);
                CallEstimate::with_cost(
                    text.times(self.size_or_unknown(part).scale(TRAVERSAL_COST_FACTOR)).add(args_cost),
                )
            }
            ("_+_", None, [left, right]) if is_text || matches!(param(0), Some(Type::List(_))) => {
                let size = self.size_or_unknown(left).add(self.size_or_unknown(right));
                if let Some(entry) = EntrySizes::union(self.entry(left), self.entry(right)) {
                    self.entries.insert(expr.id, entry);
                }
                let cost = if is_text { size.scale(TRAVERSAL_COST_FACTOR) } else { EstimateRange::fixed(1) };
                CallEstimate::with_cost_and_size(cost.add(args_cost), size)
            }
            ("_<_" | "_<=_" | "_>_" | "_>=_", None, [left, right]) if is_text => {
                CallEstimate::with_cost(self.comparison(left, right).add(args_cost))
            }
            ("_==_" | "_!=_", None, [left, right]) => {
                CallEstimate::with_cost(self.comparison(left, right).add(args_cost))
            }
            ("_&&_" | "_||_", None, [_, _]) => CallEstimate::with_cost(EstimateRange {
                min: arg_costs[0].min,
                max: arg_costs[0].add(arg_costs[1]).max,
            }),
            ("_?_:_", None, [_, then, otherwise]) => {
                let size = self.size_or_unknown(then).union(self.size_or_unknown(otherwise));
                if let Some(entry) = EntrySizes::union(self.entry(then), self.entry(otherwise)) {
                    self.entries.insert(expr.id, entry);
                }
                CallEstimate::with_cost_and_size(arg_costs[0].add(arg_costs[1].union(arg_costs[2])), size)
            }
            _ => CallEstimate::with_cost(EstimateRange::fixed(1).add(args_cost)),
        }
    }

    fn comparison(&mut self, left: &IdedExpr, right: &IdedExpr) -> EstimateRange {
        let max = self.size_or_unknown(left).max.min(self.size_or_unknown(right).max);
        EstimateRange { min: u64::from(max > 0), max }.scale(TRAVERSAL_COST_FACTOR)
    }

    /// Estimates the list and set functions of cel-go's extensions. Returns `None` for other
    /// functions.
    fn list_library(
        &mut self,
        name: &str,
        params: &[Type<'static>],
        target: Option<&IdedExpr>,
        args: &[IdedExpr],
    ) -> Option<CallEstimate> {
        let allocating = |factor: f64, size: EstimateRange| {
            CallEstimate::with_cost_and_size(
                size.scale(factor).add(EstimateRange::fixed(1 + super::super::cost::NEW_LIST_COST)),
                size,
            )
        };
        let literal = |expr: &IdedExpr, otherwise: u64| match &expr.expr {
            Expr::Literal(LiteralValue::Int(n)) => u64::try_from(*n.inner()).unwrap_or(0),
            _ => otherwise,
        };
        let sorting = |params: &[Type<'static>], at: usize| match params.get(at) {
            Some(Type::List(element)) if matches!(**element, Type::String | Type::Bytes) => 2.0 + TRAVERSAL_COST_FACTOR,
            _ => 2.0,
        };
        Some(match (name, target, args) {
            ("sets.contains" | "sets.intersects" | "sets.equivalent", None, [a, b]) => {
                let factor = if name == "sets.equivalent" { 2.0 } else { 1.0 };
                let pairs = self.size_or_unknown(a).times(self.size_or_unknown(b));
                CallEstimate::with_cost(pairs.scale(factor).add(EstimateRange::fixed(1)))
            }
            ("slice", Some(list), [start, end]) => {
                let size = self.size_or_unknown(list);
                allocating(1.0, EstimateRange::fixed(literal(end, size.max).wrapping_sub(literal(start, 0))))
            }
            ("lists.range", None, [end]) => allocating(1.0, EstimateRange::fixed(literal(end, u64::MAX))),
            ("reverse", Some(list), []) => allocating(1.0, self.size_or_unknown(list)),
            ("flatten", Some(list), [] | [_]) => {
                let depth = args.first().map_or(1, |depth| literal(depth, u64::MAX));
                allocating(depth as f64, self.size_or_unknown(list))
            }
            ("distinct", Some(list), []) => {
                let size = self.size_or_unknown(list);
                allocating(2.0, size.times(size))
            }
            ("sort", Some(list), []) => {
                let size = self.size_or_unknown(list);
                allocating(sorting(params, 0), size.times(size))
            }
            ("@sortByAssociatedKeys", Some(_), [keys]) => {
                let size = self.size_or_unknown(keys);
                allocating(sorting(params, 1), size.times(size))
            }
            _ => return None,
        })
    }

    /// Returns the size of a list's elements by the path of the list, and true if they are text or
    /// bytes.
    fn element(&mut self, list: &IdedExpr) -> Option<(EstimateRange, bool)> {
        let element_type = match self.types.get(&list.id)? {
            Type::List(element) => (**element).clone(),
            Type::Map(entry) => entry.0.clone(),
            Type::Optional(inner) | Type::Meta(inner) => (**inner).clone(),
            _ => return None,
        };
        let mut path = self.path(list);
        if path.first().is_some_and(|first| first == "@result") {
            path.clear();
        }
        let size = if path.is_empty() {
            None
        } else {
            path.push("@items".to_owned());
            self.declared_size(&path)
        };
        Some((size.unwrap_or(EstimateRange::UNKNOWN), matches!(element_type, Type::String | Type::Bytes)))
    }

    /// Estimates the functions that Kubernetes adds, and the string functions, for which it defines
    /// the cost. Returns `None` for other functions.
    fn kubernetes(
        &mut self,
        name: &str,
        params: &[Type<'static>],
        target: Option<&IdedExpr>,
        args: &[IdedExpr],
    ) -> Option<CallEstimate> {
        let unit_cost = || CallEstimate::with_cost(EstimateRange::fixed(1));
        Some(match (name, target, args) {
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(target), _) => {
                let size = self.size_or_unknown(target);
                match self.element(target) {
                    Some((element, is_text)) => {
                        let element_cost = if is_text {
                            EstimateRange::fixed(1).add(element.scale(TRAVERSAL_COST_FACTOR))
                        } else {
                            EstimateRange::fixed(1)
                        };
                        CallEstimate::with_cost(size.times(element_cost))
                    }
                    None => CallEstimate::with_cost(size.scale(TRAVERSAL_COST_FACTOR)),
                }
            }
            ("url", None, [text]) => {
                let size = self.size_or_unknown(text);
                CallEstimate::with_cost_and_size(size.scale(TRAVERSAL_COST_FACTOR), size)
            }
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(text), _) => {
                let size = self.size_or_unknown(text);
                CallEstimate::with_cost_and_size(size.scale(TRAVERSAL_COST_FACTOR), size)
            }
            ("replace", Some(text), [from, to, ..]) => {
                let (text, from, to) =
                    (self.size_or_unknown(text), self.size_or_unknown(from), self.size_or_unknown(to));
                CallEstimate::with_cost_and_size(text.scale(2.0 * TRAVERSAL_COST_FACTOR), replaced_size(text, from, to))
            }
            ("split", Some(text), _) => {
                let size = self.size_or_unknown(text);
                let max = match args.get(1).map(|limit| &limit.expr) {
                    Some(Expr::Literal(LiteralValue::Int(n))) => *n.inner() as u64,
                    _ => size.max,
                };
                CallEstimate::with_cost_and_size(size.scale(2.0 * TRAVERSAL_COST_FACTOR), EstimateRange { min: 0, max })
            }
            ("join", Some(list), _) => {
                let count = self.size_or_unknown(list);
                let mut size = self.element(list).map_or(EstimateRange::ZERO, |(element, _)| count.times(element));
                if let Some(separator) = args.first() {
                    let separators =
                        EstimateRange { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
                    size = size.add(self.size_or_unknown(separator).times(separators));
                }
                CallEstimate::with_cost_and_size(size.scale(TRAVERSAL_COST_FACTOR), size)
            }
            ("find" | "findAll", Some(text), [pattern, ..]) => {
                let size = self.size_or_unknown(text);
                let cost = size
                    .add(EstimateRange::fixed(1))
                    .scale(TRAVERSAL_COST_FACTOR)
                    .times(self.size_or_unknown(pattern).scale(PATTERN_COST_FACTOR));
                CallEstimate::with_cost_and_size(cost, EstimateRange { min: 0, max: size.max })
            }
            ("ip", Some(_), _) => unit_cost(),
            (
                "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver",
                None,
                [text, ..],
            ) => CallEstimate::with_cost(self.size_or_unknown(text).scale(TRAVERSAL_COST_FACTOR)),
            ("ip.isCanonical", None, [text]) => {
                CallEstimate::with_cost(self.size_or_unknown(text).scale(2.0 * TRAVERSAL_COST_FACTOR))
            }
            ("containsIP" | "containsCIDR", Some(_), [other]) => {
                let bytes = EstimateRange { min: 4, max: 16 };
                let mut cost = bytes.add(bytes).scale(TRAVERSAL_COST_FACTOR);
                if name == "containsCIDR" {
                    cost = cost.add(bytes.scale(TRAVERSAL_COST_FACTOR)).add(EstimateRange::fixed(1));
                }
                if matches!(params.get(1), Some(Type::String)) {
                    cost = cost.add(self.size_or_unknown(other).scale(TRAVERSAL_COST_FACTOR));
                }
                CallEstimate::with_cost(cost)
            }
            ("validate", Some(_), [text]) => CallEstimate::with_cost(
                self.size_or_unknown(text).scale(TRAVERSAL_COST_FACTOR).scale(128.0 * PATTERN_COST_FACTOR),
            ),
            (
                "masked"
                | "prefixLength"
                | "family"
                | "isUnspecified"
                | "isLoopback"
                | "isLinkLocalMulticast"
                | "isLinkLocalUnicast"
                | "isGlobalUnicast"
                | "format.named"
                | "sign"
                | "asInteger"
                | "isInteger"
                | "asApproximateFloat"
                | "isGreaterThan"
                | "isLessThan"
                | "compareTo"
                | "add"
                | "sub"
                | "major"
                | "minor"
                | "patch"
                | "getScheme"
                | "getHostname"
                | "getHost"
                | "getPort"
                | "getEscapedPath"
                | "getQuery",
                _,
                _,
            ) => unit_cost(),
            ("_==_", None, [left, right]) => match (self.types.get(&left.id), self.types.get(&right.id)) {
                (Some(Type::Opaque(a)), Some(Type::Opaque(b))) if a == b => match a {
                    OpaqueType::Ip | OpaqueType::Cidr | OpaqueType::Quantity | OpaqueType::Semver => unit_cost(),
                    OpaqueType::Format => {
                        CallEstimate::with_cost(EstimateRange { min: 1, max: 64 }.scale(TRAVERSAL_COST_FACTOR))
                    }
                    OpaqueType::Url => {
                        let size = self.size(right).unwrap_or(EstimateRange::fixed(1));
                        CallEstimate::with_cost(EstimateRange { min: 1, max: size.max }.scale(TRAVERSAL_COST_FACTOR))
                    }
                },
                _ => return None,
            },
            _ => return None,
        })
    }
}

/// Returns the possible lengths of a text after a replacement.
fn replaced_size(text: EstimateRange, from: EstimateRange, to: EstimateRange) -> EstimateRange {
    let (mut count, mut kept) = (EstimateRange::ZERO, EstimateRange::ZERO);
    if from.min == 0 {
        count.max = text.max.saturating_add(1);
        kept.max = text.max;
    } else if to.max <= from.min {
        kept.max = text.max;
    } else {
        count.max = (text.max as f64 / from.min as f64).ceil() as u64;
    }
    if from.max == 0 {
        count.min = text.min.saturating_add(1);
        kept.min = text.min;
    } else if from.max <= to.min {
        kept.min = text.min;
    } else {
        count.min = (text.min as f64 / from.max as f64).ceil() as u64;
    }
    count.times(to).add(kept)
}
