//! `cargo xtask tidy`: rules about the repository that the compiler does not check. A rule is a
//! function from the repository to its problems. All rules run every time, also as a test. A
//! problem names the file, the line and what to do.

mod contributing;
mod dead_files;
mod edges;
mod links;
mod sources;
pub(crate) mod style;

use std::fmt;

use crate::frozen_strings;
use crate::repository::Repository;

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TidyProblem {
    /// The file, from the root.
    path: String,
    /// Line number, counted from 1; `None` if the problem concerns the whole file.
    line: Option<usize>,
    /// The violation and what to do about it.
    message: String,
}

impl TidyProblem {
    fn in_file(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, message: message.into() }
    }

    fn on_line(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: Some(line), message: message.into() }
    }
}

impl fmt::Display for TidyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.message),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}

/// Returns all problems of the repository, sorted by file and line.
pub(crate) fn problems(repository: &Repository) -> Vec<TidyProblem> {
    let rules = [
        check_frozen_strings,
        contributing::check,
        dead_files::check,
        edges::check_crates,
        edges::check_dependency_table,
        links::check,
        sources::check_module_docs,
        sources::check_names,
        sources::check_lengths,
        sources::check_left_overs,
        sources::check_disabled_code,
        sources::check_comment_syntax,
        sources::check_local_paths,
        sources::check_module_layout,
        style::check,
    ];
    let mut problems: Vec<TidyProblem> = rules.iter().flat_map(|rule| rule(repository)).collect();
    problems.sort();
    problems
}

fn check_frozen_strings(repository: &Repository) -> Vec<TidyProblem> {
    let problems = frozen_strings::problems(repository).into_iter();
    problems.map(|message| TidyProblem::in_file(frozen_strings::LIST, message)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frozen_strings_are_a_rule() {
        let list = "annotation kerf.sh/lost\n";
        let problems = problems(&Repository::of(&[(frozen_strings::LIST, list)]));
        let problems: Vec<String> = problems.iter().map(TidyProblem::to_string).collect();
        assert!(
            problems.iter().any(|problem| problem.contains("annotation `kerf.sh/lost` is no longer in the tree")),
            "{problems:?}"
        );
    }

    #[test]
    fn this_repository_is_tidy() {
        let repository = Repository::read().expect("the repository can be read");
        let problems: Vec<String> = problems(&repository).iter().map(TidyProblem::to_string).collect();
        assert!(problems.is_empty(), "cargo xtask tidy found problems:\n{}", problems.join("\n"));
    }
}
