//! Rules on the text of files: module docs, meaningful names, limited length, no unfinished or
//! disabled code, no comments that the style counts cannot read, and no paths of a single machine.

use super::TidyProblem;
use crate::code;
use crate::repository::{Repository, TextFile};

/// Names that say nothing about the content of a file or module.
const MEANINGLESS_NAMES: [&str; 8] = ["utils", "util", "common", "helpers", "helper", "manager", "misc", "shared"];

/// Maximum number of lines of a source file, without its tests.
const FILE_LINES_MAX: usize = 500;

/// Files that exceed the maximum, each with its own limit. This list may only become shorter.
const LENGTH_EXCEPTIONS: [(&str, usize); 0] = [];

/// Unfinished code, and code that waits for the wall clock. Each text is concatenated, so that this
/// file does not contain it.
const LEFT_OVERS: [(&str, &str); 4] = [
    (concat!("to", "do!"), "implement it"),
    (concat!("unimple", "mented!"), "implement it"),
    (concat!("#[ig", "nore"), "a test that does not run proves nothing: enable it or delete it"),
    (concat!("thread::", "sleep"), "wait for an event, or advance the virtual clock"),
];

/// Paths that exist on one machine only.
const LOCAL_PATHS: [&str; 4] =
    [concat!("../", "shared"), concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

pub(super) fn check_module_docs(repository: &Repository) -> Vec<TidyProblem> {
    let lacks_module_docs = |file: &&TextFile| !file.text.starts_with("//! ");
    let message = "the file must begin with `//!`: why it exists and what always holds";
    repository.rust().filter(lacks_module_docs).map(|file| TidyProblem::on_line(&file.path, 1, message)).collect()
}

pub(super) fn check_names(repository: &Repository) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    let message = |name: &str| format!("`{name}` does not describe its content: use a name of the domain");
    for file in repository.rust() {
        for part in file.path.trim_end_matches(".rs").split('/') {
            if MEANINGLESS_NAMES.contains(&part) {
                problems.push(TidyProblem::in_file(&file.path, message(part)));
            }
        }
        for module in code::modules(file.code()).into_iter().filter(|module| !module.is_in_other_file) {
            if MEANINGLESS_NAMES.contains(&module.name.as_str()) {
                problems.push(TidyProblem::in_file(&file.path, message(&module.name)));
            }
        }
    }
    problems
}

/// A module is `name.rs` and, for its children, the folder `name/`. A module that several
/// benchmarks share keeps `name/mod.rs`: cargo takes each file directly in `benches/` for a
/// benchmark.
pub(super) fn check_module_layout(repository: &Repository) -> Vec<TidyProblem> {
    let is_other_layout = |file: &&TextFile| file.path.ends_with("/mod.rs") && !file.path.contains("/benches/");
    let message = |file: &TextFile| {
        let folder = file.path.trim_end_matches("/mod.rs");
        TidyProblem::in_file(&file.path, format!("one module layout: move it to `{folder}.rs`"))
    };
    repository.rust().filter(is_other_layout).map(message).collect()
}

pub(super) fn check_lengths(repository: &Repository) -> Vec<TidyProblem> {
    length_problems(repository, &LENGTH_EXCEPTIONS)
}

fn length_problems(repository: &Repository, exceptions: &[(&str, usize)]) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    for file in repository.rust().filter(|file| file.path.contains("/src/") && !file.is_for_tests()) {
        let lines = code::test_lines(file.code()).iter().filter(|is_test| !**is_test).count();
        let limit = exceptions.iter().find(|(path, _)| *path == file.path).map(|(_, lines)| *lines);
        let message = match limit {
            None if lines > FILE_LINES_MAX => {
                format!("{lines} lines without tests, {FILE_LINES_MAX} are allowed: split the file by concept")
            }
            Some(limit) if lines > limit => {
                format!("{lines} lines without tests, its limit is {limit}: shorten it")
            }
            Some(_) if lines <= FILE_LINES_MAX => {
                "is short enough now: delete it from the list of longer files".to_owned()
            }
            None | Some(_) => continue,
        };
        problems.push(TidyProblem::in_file(&file.path, message));
    }
    for (path, _) in exceptions.iter().filter(|(path, _)| repository.file(path).is_none()) {
        problems.push(TidyProblem::in_file(path, "does not exist: delete it from the list of longer files"));
    }
    problems
}

pub(super) fn check_left_overs(repository: &Repository) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    for file in repository.rust() {
        for (index, line) in file.code().lines().enumerate() {
            for (text, advice) in LEFT_OVERS.iter().filter(|(text, _)| line.contains(text)) {
                problems.push(TidyProblem::on_line(&file.path, index + 1, format!("`{text}`: {advice}")));
            }
        }
    }
    problems
}

/// Rejects attributes that disable a test or another item.
pub(super) fn check_disabled_code(repository: &Repository) -> Vec<TidyProblem> {
    let is_constant =
        |text: &str| ["any()", "all()", "(true", "(false", ",true", ",false"].iter().any(|c| text.contains(c));
    let mut problems = Vec::new();
    for file in repository.rust() {
        for attribute in code::attributes(file.code()) {
            let text = attribute.text.as_str();
            let is_conditional = text.starts_with("cfg_attr(");
            let message = if is_conditional && code::words(text).any(|word| word == concat!("ig", "nore")) {
                "a test that does not run proves nothing: enable it or delete it"
            } else if (is_conditional || text.starts_with("cfg(")) && is_constant(text) {
                "the condition is constant: delete the attribute, or the item"
            } else {
                continue;
            };
            problems.push(TidyProblem::on_line(&file.path, attribute.line, format!("`#[{text}]`: {message}")));
        }
    }
    problems
}

/// Rejects block comments and `#[doc = "…"]`, which the style counts do not read.
pub(super) fn check_comment_syntax(repository: &Repository) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    for file in repository.rust() {
        for line in code::block_comment_lines(&file.text) {
            problems.push(TidyProblem::on_line(
                &file.path,
                line,
                "block comment: begin each line with `//`, `///` or `//!`",
            ));
        }
        // The code has no literals: only the end of the attribute or of an argument follows.
        let has_literal_doc = |text: &str| {
            let ends = ["doc=", "doc=,", "doc=)"];
            text == ends[0]
                || (text.starts_with("cfg_attr(") && ends[1..].iter().any(|end| text.contains(&format!(",{end}"))))
        };
        for attribute in code::attributes(file.code()).iter().filter(|attribute| has_literal_doc(&attribute.text)) {
            problems.push(TidyProblem::on_line(&file.path, attribute.line, "`#[doc = \"…\"]`: write `///` or `//!`"));
        }
    }
    problems
}

pub(super) fn check_local_paths(repository: &Repository) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    for file in &repository.files {
        for (index, line) in file.text.lines().enumerate() {
            for path in LOCAL_PATHS.iter().filter(|path| line.contains(**path)) {
                problems.push(TidyProblem::on_line(
                    &file.path,
                    index + 1,
                    format!("`{path}` exists on one computer only"),
                ));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(problems: Vec<TidyProblem>) -> Vec<String> {
        problems.iter().map(TidyProblem::to_string).collect()
    }

    #[test]
    fn a_file_without_module_docs_is_reported() {
        let repository = Repository::of(&[("a.rs", "//! Why.\n"), ("b.rs", "// Why.\n"), ("c.md", "")]);
        assert_eq!(messages(check_module_docs(&repository)).len(), 1);
    }

    #[test]
    fn meaningless_names_are_rejected_for_files_folders_and_inline_modules() {
        let repository = Repository::of(&[
            ("crates/a/src/utils.rs", ""),
            ("crates/a/tests/common/mod.rs", ""),
            ("crates/a/src/lib.rs", "mod utils;\nmod helpers {}\n// mod misc {}\n"),
            ("crates/a/src/managers.rs", ""),
        ]);
        let paths: Vec<_> = check_names(&repository).into_iter().map(|problem| problem.path).collect();
        assert_eq!(paths, ["crates/a/src/lib.rs", "crates/a/src/utils.rs", "crates/a/tests/common/mod.rs"]);
    }

    #[test]
    fn only_benchmarks_have_modules_in_mod_files() {
        let repository = Repository::of(&[
            ("crates/a/src/b/mod.rs", ""),
            ("crates/a/src/b.rs", ""),
            ("crates/a/benches/world/mod.rs", ""),
        ]);
        let messages = messages(check_module_layout(&repository));
        assert_eq!(messages, ["crates/a/src/b/mod.rs: one module layout: move it to `crates/a/src/b.rs`"]);
    }

    #[test]
    fn long_files_are_reported_without_their_tests() {
        let long = "x();\n".repeat(501);
        let tests = format!("x();\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
        let repository = Repository::of(&[
            ("a/src/long.rs", &long),
            ("a/src/tested.rs", &tests),
            ("a/src/long/tests.rs", &long),
            ("a/src/listed.rs", &long),
            ("a/src/grown.rs", &long),
            ("a/src/shrunk.rs", "x();\n"),
        ]);
        let list =
            [("a/src/listed.rs", 501), ("a/src/grown.rs", 500), ("a/src/shrunk.rs", 600), ("a/src/gone.rs", 600)];
        let paths: Vec<_> = length_problems(&repository, &list).into_iter().map(|problem| problem.path).collect();
        assert_eq!(paths, ["a/src/grown.rs", "a/src/long.rs", "a/src/shrunk.rs", "a/src/gone.rs"]);
    }

    #[test]
    fn left_overs_are_found_in_code_only() {
        let sleep = LEFT_OVERS[3].0;
        let source = format!("//! {sleep}\nlet text = \"{sleep}\";\n{sleep}(a);\n");
        let messages = messages(check_left_overs(&Repository::of(&[("a.rs", &source)])));
        assert!(messages.len() == 1 && messages[0].starts_with("a.rs:3: "), "{messages:?}");
    }

    #[test]
    fn disabled_code_is_reported() {
        let skip = concat!("ig", "nore");
        let source = format!(
            "#[cfg_attr(all(), {skip})]\n#[cfg_attr(miri, {skip} = \"slow\")]\n#[cfg(any())]\n#[cfg(not(all()))]\n\
             #[cfg(false)]\n#[cfg(any(unix, test))]\n#[cfg(test)]\n#[allow({skip})]\n"
        );
        let lines: Vec<_> =
            check_disabled_code(&Repository::of(&[("a.rs", &source)])).iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [Some(1), Some(2), Some(3), Some(4), Some(5)]);
    }

    #[test]
    fn comments_that_are_not_line_comments_are_reported() {
        let source = "//! a\n/** b */\nfn c() {}\n#[doc = \"d\"]\n#[cfg_attr(test, doc = \"e\")]\n#[doc = include_str!(\"f\")]\n\
                      #[doc(hidden)]\nlet g = \"/* h */\"; /* i */\n";
        let mut problems = check_comment_syntax(&Repository::of(&[("a.rs", source)]));
        problems.sort();
        let lines: Vec<_> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [Some(2), Some(4), Some(5), Some(8)]);
    }

    #[test]
    fn local_paths_are_found_in_every_file() {
        let text = format!("see\n{}/DESIGN.md\n", LOCAL_PATHS[0]);
        let messages = messages(check_local_paths(&Repository::of(&[("README.md", &text)])));
        assert!(messages.len() == 1 && messages[0].starts_with("README.md:2: "), "{messages:?}");
    }
}
