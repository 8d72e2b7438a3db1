//! Parses the text of a rule into a syntax tree, with the macros that Kubernetes enables. The `cel`
//! crate, which follows cel-go's grammar, does the parsing. Limits that the crate does not enforce
//! are checked here before it is called.

use std::sync::LazyLock;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, SourceInfo, operators,
};
use cel::parser::{Macro, MacroExprHelper};
use cel::{Env, ParseError};

/// cel-go's limit on the size of an expression.
const MAX_CODE_POINTS: usize = 100_000;
/// Limit on the nesting of operators and brackets, because the tree is traversed recursively. Rules
/// written by hand are far below it.
const MAX_NESTING: usize = 400;

/// A parsed expression with the source positions of its parts.
pub(super) struct Parsed {
    pub(super) expr: IdedExpr,
    pub(super) source: SourceInfo,
}

/// A mistake at a position of the text.
#[derive(Clone, Debug)]
pub(super) struct Issue {
    /// Line number, beginning with 1.
    pub(super) line: usize,
    /// Column in characters, beginning with 1.
    pub(super) column: usize,
    pub(super) message: String,
}

impl Parsed {
    /// Returns an issue at the position of the sub-expression `id`.
    pub(super) fn issue_at(&self, id: u64, message: String) -> Issue {
        let start = self.source.offset_for(id).map_or(0, |(start, _)| start as usize);
        let before: Vec<char> = self.source.source.chars().take(start).collect();
        let line = before.iter().filter(|c| **c == '\n').count() + 1;
        let column = before.iter().rev().take_while(|c| **c != '\n').count() + 1;
        Issue { line, column, message }
    }
}

/// Formats issues as cel-go prints them: sorted by position, each with its source line.
pub(super) fn format_issues(source: &str, mut issues: Vec<Issue>) -> String {
    issues.sort_by_key(|issue| (issue.line, issue.column));
    let texts: Vec<String> = issues
        .iter()
        .map(|issue| {
            let mut text = format!("ERROR: <input>:{}:{}: {}", issue.line, issue.column, issue.message);
            if let Some(line) = source.split('\n').nth(issue.line - 1) {
                let dots = ".".repeat(issue.column.saturating_sub(1));
                text = format!("{text}\n | {line}\n | {dots}^");
            }
            text
        })
        .collect();
    texts.join("\n")
}

/// Parses an expression, or returns its syntax errors.
pub(super) fn parse(text: &str) -> Result<Parsed, Vec<Issue>> {
    let single_issue = |message: String| vec![Issue { line: 1, column: 1, message }];
    let size = text.chars().count();
    if size > MAX_CODE_POINTS {
        return Err(single_issue(format!(
            "expression code point size exceeds limit: size: {size}, limit {MAX_CODE_POINTS}"
        )));
    }
    if nesting_depth(text) > MAX_NESTING {
        return Err(single_issue(format!("expression recursion limit exceeded: {MAX_NESTING}")));
    }
    // The parser is third-party code: a panic on an unforeseen text must not end the process.
    let parsed = std::panic::catch_unwind(|| ENVIRONMENT.parser().parse_with_source_info(text));
    match parsed {
        Ok(Ok((expr, source))) => Ok(Parsed { expr, source }),
        Ok(Err(errors)) => Err(errors
            .errors
            .into_iter()
            .map(|error| Issue {
                line: usize::try_from(error.pos.0).unwrap_or(1).max(1),
                column: usize::try_from(error.pos.1).unwrap_or(1).max(1),
                message: error.msg,
            })
            .collect()),
        Err(_) => Err(single_issue("Syntax error: the expression cannot be parsed".to_owned())),
    }
}

/// Returns an upper bound of the depth of the syntax tree. Brackets nest, and a chain of operators
/// or selections adds one level each. `&&`, `||` and commas start a new chain, because the parser
/// balances the first two and lists arguments side by side.
fn nesting_depth(text: &str) -> usize {
    let mut deepest = 0;
    // Lengths of the chains around the open brackets. `depth` is their sum plus the current chain
    // plus one per bracket.
    let mut outer_chains: Vec<usize> = Vec::new();
    let (mut chain, mut depth): (usize, usize) = (0, 0);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' => skip_literal(c, &mut chars),
            '(' | '[' | '{' => {
                outer_chains.push(std::mem::take(&mut chain));
                depth += 1;
            }
            ')' | ']' | '}' => {
                // The text after a bracket belongs to the outer chain; the bracket's own level
                // counts as one part of that chain.
                depth -= chain;
                match outer_chains.pop() {
                    Some(outer_chain) => chain = outer_chain + 1,
                    None => chain = 0,
                }
            }
            '&' | '|' | ',' => depth -= std::mem::take(&mut chain),
            '?' | '+' | '-' | '*' | '/' | '%' | '!' | '<' | '>' | '=' | '.' => {
                chain += 1;
                depth += 1;
            }
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn skip_literal(quote: char, chars: &mut impl Iterator<Item = char>) {
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                chars.next();
            }
            c if c == quote => return,
            _ => {}
        }
    }
}

static ENVIRONMENT: LazyLock<Env> = LazyLock::new(|| {
    let mut environment = Env::stdlib();
    let macros = [
        Macro::receiver("all", 3, |helper, target, args| all(helper, target, args).map(Some)),
        Macro::receiver("exists", 3, |helper, target, args| exists(helper, target, args).map(Some)),
        Macro::receiver("existsOne", 3, |helper, target, args| exists_one(helper, target, args).map(Some)),
        Macro::receiver("transformList", 3, |helper, target, args| transform_list(helper, target, args).map(Some)),
        Macro::receiver("transformList", 4, |helper, target, args| transform_list(helper, target, args).map(Some)),
        Macro::receiver("transformMap", 3, |helper, target, args| transform_map(helper, target, args, true).map(Some)),
        Macro::receiver("transformMap", 4, |helper, target, args| transform_map(helper, target, args, true).map(Some)),
        Macro::receiver("transformMapEntry", 3, |helper, target, args| {
            transform_map(helper, target, args, false).map(Some)
        }),
        Macro::receiver("transformMapEntry", 4, |helper, target, args| {
            transform_map(helper, target, args, false).map(Some)
        }),
        Macro::receiver("sortBy", 2, |helper, target, args| sort_by(helper, target, args).map(Some)),
    ];
    for definition in macros {
        environment
            .add_macro(definition)
            .expect("no macro of these names and argument counts is in the standard library");
    }
    environment
});

type MacroResult = Result<IdedExpr, ParseError>;

const ACCUMULATOR: &str = "@result";

/// Builds the expressions into which a macro expands.
struct ExprBuilder<'h, 'p> {
    helper: &'h mut MacroExprHelper<'p>,
}

impl ExprBuilder<'_, '_> {
    fn accumulator(&mut self) -> IdedExpr {
        self.helper.next_expr(Expr::Ident(ACCUMULATOR.to_owned()))
    }

    fn boolean(&mut self, value: bool) -> IdedExpr {
        self.helper.next_expr(Expr::Literal(LiteralValue::Boolean(value.into())))
    }

    fn int(&mut self, value: i64) -> IdedExpr {
        self.helper.next_expr(Expr::Literal(LiteralValue::Int(value.into())))
    }

    fn call(&mut self, function: &str, args: Vec<IdedExpr>) -> IdedExpr {
        self.helper.next_expr(Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args }))
    }

    fn list(&mut self, items: Vec<IdedExpr>) -> IdedExpr {
        self.helper.next_expr(Expr::List(ListExpr::new(items)))
    }

    /// Removes and returns the two iteration variables of a two-variable comprehension.
    fn variables(&mut self, args: &mut Vec<IdedExpr>) -> Result<(String, String), ParseError> {
        let second = args.remove(1);
        let first = args.remove(0);
        let (first_id, second_id) = (first.id, second.id);
        let (Expr::Ident(first), Expr::Ident(second)) = (first.expr, second.expr) else {
            return Err(self.helper.new_error(first_id, "argument must be a simple name"));
        };
        if first == second {
            return Err(self.helper.new_error(second_id, format!("duplicate variable name: {first}")));
        }
        if first == ACCUMULATOR || second == ACCUMULATOR {
            return Err(self.helper.new_error(first_id, "iteration variable overwrites accumulator variable"));
        }
        Ok((first, second))
    }

    fn comprehension(
        &mut self,
        range: Option<IdedExpr>,
        variables: (String, String),
        parts: ComprehensionParts,
    ) -> IdedExpr {
        self.helper.next_expr(Expr::Comprehension(Box::new(ComprehensionExpr {
            iter_range: range.unwrap_or_default(),
            iter_var: variables.0,
            iter_var2: Some(variables.1),
            accu_var: ACCUMULATOR.to_owned(),
            accu_init: parts.init,
            loop_cond: parts.condition,
            loop_step: parts.step,
            result: parts.result,
        })))
    }
}

struct ComprehensionParts {
    init: IdedExpr,
    condition: IdedExpr,
    step: IdedExpr,
    result: IdedExpr,
}

fn all(helper: &mut MacroExprHelper<'_>, target: &mut Option<IdedExpr>, args: &mut Vec<IdedExpr>) -> MacroResult {
    let mut builder = ExprBuilder { helper };
    let variables = builder.variables(args)?;
    let predicate = args.pop().unwrap_or_default();
    let (accumulator, step_accumulator, result) = (builder.accumulator(), builder.accumulator(), builder.accumulator());
    let parts = ComprehensionParts {
        init: builder.boolean(true),
        condition: builder.call(operators::NOT_STRICTLY_FALSE, vec![accumulator]),
        step: builder.call(operators::LOGICAL_AND, vec![step_accumulator, predicate]),
        result,
    };
    Ok(builder.comprehension(target.take(), variables, parts))
}

fn exists(helper: &mut MacroExprHelper<'_>, target: &mut Option<IdedExpr>, args: &mut Vec<IdedExpr>) -> MacroResult {
    let mut builder = ExprBuilder { helper };
    let variables = builder.variables(args)?;
    let predicate = args.pop().unwrap_or_default();
    let (accumulator, step_accumulator, result) = (builder.accumulator(), builder.accumulator(), builder.accumulator());
    let not = builder.call(operators::LOGICAL_NOT, vec![accumulator]);
    let parts = ComprehensionParts {
        init: builder.boolean(false),
        condition: builder.call(operators::NOT_STRICTLY_FALSE, vec![not]),
        step: builder.call(operators::LOGICAL_OR, vec![step_accumulator, predicate]),
        result,
    };
    Ok(builder.comprehension(target.take(), variables, parts))
}

fn exists_one(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
) -> MacroResult {
    let mut builder = ExprBuilder { helper };
    let variables = builder.variables(args)?;
    let predicate = args.pop().unwrap_or_default();
    let (accumulator, unchanged, result) = (builder.accumulator(), builder.accumulator(), builder.accumulator());
    let (one, expected) = (builder.int(1), builder.int(1));
    let incremented = builder.call(operators::ADD, vec![accumulator, one]);
    let parts = ComprehensionParts {
        init: builder.int(0),
        condition: builder.boolean(true),
        step: builder.call(operators::CONDITIONAL, vec![predicate, incremented, unchanged]),
        result: builder.call(operators::EQUALS, vec![result, expected]),
    };
    Ok(builder.comprehension(target.take(), variables, parts))
}

fn transform_list(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
) -> MacroResult {
    let mut builder = ExprBuilder { helper };
    let variables = builder.variables(args)?;
    let transform = args.pop().unwrap_or_default();
    let (accumulator, result) = (builder.accumulator(), builder.accumulator());
    let element = builder.list(vec![transform]);
    let step = builder.call(operators::ADD, vec![accumulator, element]);
    let step = apply_filter(&mut builder, args.pop(), step);
    let parts = ComprehensionParts { init: builder.list(Vec::new()), condition: builder.boolean(true), step, result };
    Ok(builder.comprehension(target.take(), variables, parts))
}

fn transform_map(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
    keep_key: bool,
) -> MacroResult {
    let mut builder = ExprBuilder { helper };
    let variables = builder.variables(args)?;
    let transform = args.pop().unwrap_or_default();
    let (accumulator, result) = (builder.accumulator(), builder.accumulator());
    let mut insert = vec![accumulator];
    if keep_key {
        insert.push(builder.helper.next_expr(Expr::Ident(variables.0.clone())));
    }
    insert.push(transform);
    let step = builder.call("cel.@mapInsert", insert);
    let step = apply_filter(&mut builder, args.pop(), step);
    let init = builder.helper.next_expr(Expr::Map(MapExpr { entries: Vec::new() }));
    let parts = ComprehensionParts { init, condition: builder.boolean(true), step, result };
    Ok(builder.comprehension(target.take(), variables, parts))
}

fn apply_filter(builder: &mut ExprBuilder<'_, '_>, filter: Option<IdedExpr>, step: IdedExpr) -> IdedExpr {
    match filter {
        Some(filter) => {
            let unchanged = builder.accumulator();
            builder.call(operators::CONDITIONAL, vec![filter, step, unchanged])
        }
        None => step,
    }
}

/// Expands `list.sortBy(e, key)`: binds the list once, computes the keys, and sorts the list by
/// them.
fn sort_by(helper: &mut MacroExprHelper<'_>, target: &mut Option<IdedExpr>, args: &mut Vec<IdedExpr>) -> MacroResult {
    const INPUT: &str = "@__sortBy_input__";
    let mut builder = ExprBuilder { helper };
    let key = args.pop().unwrap_or_default();
    let variable = args.pop().unwrap_or_default();
    let Expr::Ident(name) = variable.expr else {
        return Err(builder.helper.new_error(variable.id, "argument must be a simple name"));
    };
    let input = |builder: &mut ExprBuilder<'_, '_>| builder.helper.next_expr(Expr::Ident(INPUT.to_owned()));
    let (accumulator, result) = (builder.accumulator(), builder.accumulator());
    let element = builder.list(vec![key]);
    let (init, condition, range) = (builder.list(Vec::new()), builder.boolean(true), input(&mut builder));
    let step = builder.call(operators::ADD, vec![accumulator, element]);
    let keys = builder.helper.next_expr(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: range,
        iter_var: name,
        iter_var2: None,
        accu_var: ACCUMULATOR.to_owned(),
        accu_init: init,
        loop_cond: condition,
        loop_step: step,
        result,
    })));
    let receiver = input(&mut builder);
    let sorted = builder.helper.next_expr(Expr::Call(CallExpr {
        func_name: "@sortByAssociatedKeys".to_owned(),
        target: Some(Box::new(receiver)),
        args: vec![keys],
    }));
    let (empty_range, false_condition, unchanged) =
        (builder.list(Vec::new()), builder.boolean(false), input(&mut builder));
    Ok(builder.helper.next_expr(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: empty_range,
        iter_var: "#unused".to_owned(),
        iter_var2: None,
        accu_var: INPUT.to_owned(),
        accu_init: target.take().unwrap_or_default(),
        loop_cond: false_condition,
        loop_step: unchanged,
        result: sorted,
    }))))
}
