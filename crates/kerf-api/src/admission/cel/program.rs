//! A checked expression in the form in which it is evaluated: variables are stack indices,
//! functions are resolved, and constant patterns are compiled.

use super::super::regexp::Regexp;
use super::library::Function;

/// A part of a checked expression.
#[derive(Debug)]
pub(super) enum ProgramNode {
    Constant(Constant),
    /// A variable, by its index on the stack.
    Variable(usize),
    Select {
        operand: Box<ProgramNode>,
        /// Field name as the expression writes it (escaped).
        field: String,
        mode: SelectMode,
    },
    And(Box<[ProgramNode; 2]>),
    Or(Box<[ProgramNode; 2]>),
    /// The condition of a loop, in which an error counts as true.
    NotStrictlyFalse(Box<ProgramNode>),
    Conditional(Box<[ProgramNode; 3]>),
    /// `or` and `orValue`, which evaluate their second operand only if necessary.
    OptionalOr {
        operands: Box<[ProgramNode; 2]>,
        unwrap: bool,
    },
    Call {
        function: &'static Function,
        args: Vec<ProgramNode>,
        pattern: Option<Regexp>,
    },
    List(Vec<Element>),
    Map(Vec<MapEntryNode>),
    Comprehension(Box<ComprehensionNode>),
}

/// The result that a selection returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SelectMode {
    /// The field. It is an error if the field is absent.
    Field,
    /// A boolean: true if the field is present.
    Presence,
    /// The field as an optional, which is empty if the field is absent.
    Optional,
}

#[derive(Debug)]
pub(super) enum Constant {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
    Type(String),
}

#[derive(Debug)]
pub(super) struct Element {
    pub(super) value: ProgramNode,
    pub(super) optional: bool,
}

#[derive(Debug)]
pub(super) struct MapEntryNode {
    pub(super) key: ProgramNode,
    pub(super) value: ProgramNode,
    pub(super) optional: bool,
}

/// A comprehension. Its accumulator is at `stack_index`; the iteration variables follow it.
#[derive(Debug)]
pub(super) struct ComprehensionNode {
    pub(super) range: ProgramNode,
    pub(super) init: ProgramNode,
    pub(super) condition: ProgramNode,
    pub(super) step: AccumulatorStep,
    pub(super) result: ProgramNode,
    pub(super) stack_index: usize,
    pub(super) has_two_variables: bool,
}

impl ComprehensionNode {
    /// Returns all expressions of the comprehension.
    pub(super) fn parts(&self) -> Vec<&ProgramNode> {
        let mut parts = vec![&self.range, &self.init, &self.condition, &self.result];
        self.step.parts(&mut parts);
        parts
    }
}

impl AccumulatorStep {
    fn parts<'n>(&'n self, parts: &mut Vec<&'n ProgramNode>) {
        match self {
            Self::Keep => {}
            Self::Append(node) | Self::Set(node) => parts.push(node),
            Self::Insert { key, value } => parts.extend([key, value]),
            Self::If { condition, then, otherwise } => {
                parts.push(condition);
                then.parts(parts);
                otherwise.parts(parts);
            }
        }
    }
}

/// The effect of one iteration on the accumulator. Lists and maps grow in place, because copying
/// them in each iteration would take quadratic time.
#[derive(Debug)]
pub(super) enum AccumulatorStep {
    Keep,
    Append(ProgramNode),
    Insert { key: ProgramNode, value: ProgramNode },
    If { condition: ProgramNode, then: Box<AccumulatorStep>, otherwise: Box<AccumulatorStep> },
    Set(ProgramNode),
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}
