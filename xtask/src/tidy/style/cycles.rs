//! Counts the modules of a crate that depend on each other in a cycle.
//!
//! A crate's modules form a tree. The check compares siblings: a module stands for all files below
//! it, and depends on a sibling if one of its files names a path into that sibling, from `crate::`
//! or `super::`. Re-exports of a parent belong to the parent, and tests do not count. Each module
//! of a cycle counts once.

use std::collections::{BTreeMap, BTreeSet};

use super::{Count, Place};
use crate::code;
use crate::repository::Repository;

/// A path of module names from the crate's root.
type ModulePath = Vec<String>;

/// Modules on which each module depends.
type Dependencies = BTreeMap<ModulePath, BTreeSet<ModulePath>>;

pub(super) fn modules_in_cycles(repository: &Repository) -> Count {
    let mut places = Vec::new();
    for krate in &repository.crates {
        let Some(source) =
            krate.roots.iter().find(|root| root.ends_with("/src/lib.rs") || root.ends_with("/src/main.rs"))
        else {
            continue;
        };
        let folder = source.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut files: Vec<(ModulePath, &str, String)> = Vec::new();
        for file in repository.rust().filter(|file| !file.is_for_tests()) {
            let Some(inside) = file.path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')) else { continue };
            files.push((module_path(inside), &file.path, without_tests(file.code())));
        }
        let modules: BTreeSet<ModulePath> = files.iter().map(|(module, _, _)| module.clone()).collect();
        let mut edges = Dependencies::new();
        for (module, _, code) in &files {
            for target in named_paths(module, code) {
                add_edge(&mut edges, &modules, module, &target);
            }
        }
        for module in cyclic(&edges) {
            let path = files.iter().find(|(other, _, _)| *other == module).map_or(source.as_str(), |(_, path, _)| path);
            places.push(Place {
                path: path.to_owned(),
                line: 1,
                text: format!("`{}` is part of a cycle", module.join("::")),
            });
        }
    }
    Count { name: "modules-in-cycles", advice: "move the shared items into a module of their own", places }
}

/// Returns the module path of a file: `solve/pass.rs` is the module `solve::pass`.
fn module_path(file: &str) -> ModulePath {
    let name = file.trim_end_matches(".rs").trim_end_matches("/mod");
    name.split('/').filter(|part| !matches!(*part, "lib" | "main")).map(str::to_owned).collect()
}

fn without_tests(code: &str) -> String {
    let tests = code::test_lines(code);
    let lines = code.lines().zip(tests).map(|(line, is_test)| if is_test { "" } else { line });
    lines.collect::<Vec<_>>().join("\n")
}

/// Adds the edge between the two siblings above `from` and `to`, if they are in different branches.
fn add_edge(edges: &mut Dependencies, modules: &BTreeSet<ModulePath>, from: &ModulePath, to: &ModulePath) {
    let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    if shared == from.len() || shared == to.len() {
        return;
    }
    let (from, to) = (from[..=shared].to_vec(), to[..=shared].to_vec());
    if modules.contains(&to) {
        edges.entry(from).or_default().insert(to);
    }
}

/// Returns every path that the code names from `crate::` or `super::`, as seen from `module`.
fn named_paths(module: &ModulePath, code: &str) -> Vec<ModulePath> {
    let mut paths = Vec::new();
    let tokens = tokens(code);
    let mut at = 0;
    while at < tokens.len() {
        let starts_path = matches!(tokens[at], "crate" | "super" | "self")
            && tokens.get(at + 1) == Some(&"::")
            && (at == 0 || tokens[at - 1] != "::");
        if starts_path {
            at = use_tree(&tokens, at, module, &mut paths, None);
        } else {
            at += 1;
        }
    }
    paths
}

/// Parses one path, with its braces if it has any, and returns the index after it.
fn use_tree(
    tokens: &[&str],
    mut at: usize,
    module: &ModulePath,
    paths: &mut Vec<ModulePath>,
    prefix: Option<ModulePath>,
) -> usize {
    let mut path = prefix;
    while let Some(&token) = tokens.get(at) {
        match (token, &mut path) {
            ("{", Some(prefix)) => {
                let prefix = prefix.clone();
                at += 1;
                while tokens.get(at).is_some_and(|token| *token != "}") {
                    let after = use_tree(tokens, at, module, paths, Some(prefix.clone()));
                    at = after.max(at + 1);
                    if tokens.get(at) == Some(&",") {
                        at += 1;
                    }
                }
                return at + 1;
            }
            ("crate", path) => *path = Some(ModulePath::new()),
            ("self", path @ None) => *path = Some(module.clone()),
            ("super", Some(path)) => drop(path.pop()),
            ("super", path @ None) => *path = Some(module[..module.len().saturating_sub(1)].to_vec()),
            ("self", Some(_)) => {}
            (word, Some(path)) if word.chars().all(code::is_word) => path.push(word.to_owned()),
            (_, _) => break,
        }
        at += 1;
        match tokens.get(at) {
            Some(&"::") => at += 1,
            _ => break,
        }
    }
    paths.extend(path);
    at
}

/// Splits code into words, `::` and single other characters.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if code::is_word(first) {
            rest.find(|c| !code::is_word(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

/// Returns the modules that can reach themselves.
fn cyclic(edges: &Dependencies) -> Vec<ModulePath> {
    let reaches_itself = |start: &&ModulePath| {
        let mut seen = BTreeSet::new();
        let mut pending: Vec<&ModulePath> = edges[*start].iter().collect();
        while let Some(module) = pending.pop() {
            if seen.insert(module) {
                pending.extend(edges.get(module).into_iter().flatten());
            }
        }
        seen.contains(*start)
    };
    edges.keys().filter(reaches_itself).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cyclic_modules(files: &[(&str, &str)]) -> Vec<String> {
        let repository = Repository::of(files).with_crate("a", &["crates/a/src/lib.rs"], &[]);
        modules_in_cycles(&repository).places.iter().map(|at| at.text.clone()).collect()
    }

    #[test]
    fn two_siblings_that_name_each_other_are_a_cycle() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\nmod c;\n"),
            ("crates/a/src/b.rs", "use crate::c::{X, y::{Z, W}};\n"),
            ("crates/a/src/c.rs", "fn f() { super::b::g(); }\n"),
            ("crates/a/src/d.rs", "use crate::b::B;\n"),
        ];
        assert_eq!(cyclic_modules(&files), ["`b` is part of a cycle", "`c` is part of a cycle"]);
    }

    #[test]
    fn parents_children_and_tests_do_not_count() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\nuse b::X;\n"),
            (
                "crates/a/src/b.rs",
                "mod e;\nuse self::e::E;\nuse crate::T;\n#[cfg(test)]\nmod tests {\n    use crate::c::C;\n}\n",
            ),
            ("crates/a/src/b/e.rs", "use super::{B, super::T};\n"),
            ("crates/a/src/c.rs", "use crate::b::B;\n"),
        ];
        assert_eq!(cyclic_modules(&files), Vec::<String>::new());
    }

    #[test]
    fn a_cycle_through_files_below_is_found_at_the_siblings() {
        let files = [
            ("crates/a/src/lib.rs", ""),
            ("crates/a/src/b/deep.rs", "use super::super::c::C;\n"),
            ("crates/a/src/b.rs", ""),
            ("crates/a/src/c.rs", ""),
            ("crates/a/src/c/deep.rs", "use crate::b::deep::B;\n"),
        ];
        assert_eq!(cyclic_modules(&files), ["`b` is part of a cycle", "`c` is part of a cycle"]);
    }
}
