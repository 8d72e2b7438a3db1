//! Checks that the names which `CONTRIBUTING.md` recommends exist in the code, so that its tables
//! follow renames.

use std::collections::BTreeSet;

use super::TidyProblem;
use crate::code;
use crate::repository::Repository;

const PAGE: &str = "CONTRIBUTING.md";

/// Headings of the section whose tables are checked, and of the next section.
const SECTION: [&str; 2] = ["## How to name", "### Frozen strings"];

pub(super) fn check(repository: &Repository) -> Vec<TidyProblem> {
    let Some(page) = repository.file(PAGE) else { return Vec::new() };
    let identifiers: BTreeSet<&str> = repository.rust().flat_map(|file| code::words(file.code())).collect();
    let mut problems = Vec::new();
    let lines = page.text.lines().enumerate().skip_while(|(_, line)| *line != SECTION[0]);
    for (index, line) in lines.take_while(|(_, line)| *line != SECTION[1]) {
        for name in recommended_names(line) {
            // `publish_*` stands for all names with this prefix.
            let exists = match name.strip_suffix('*') {
                Some(prefix) => identifiers.range(prefix..).next().is_some_and(|first| first.starts_with(prefix)),
                None => code::words(name).all(|word| identifiers.contains(word)),
            };
            if !exists {
                let message = format!("`{name}` is recommended and does not exist in the code: name what replaced it");
                problems.push(TidyProblem::on_line(PAGE, index + 1, message));
            }
        }
    }
    problems
}

/// Returns the code spans in the second column of a line of a table.
fn recommended_names(line: &str) -> impl Iterator<Item = &str> {
    let mut columns = line.strip_prefix('|').unwrap_or_default().split('|');
    let second = columns.nth(1).unwrap_or_default();
    second.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recommended_names_must_exist() {
        let page = "| a | `outside` |\n## How to name\nUse `text`.\n\n| retired | use instead |\n|---|---|\n\
                    | `old`, `b` | `known`; to add: `lost`, `publish_*` (events) or `log_*` |\n### Frozen strings\n| a | `later` |\n";
        let code = "fn known() { publish_event(); } // lost log_it\n";
        let repository = Repository::of(&[("CONTRIBUTING.md", page), ("src/a.rs", code)]);
        let problems: Vec<String> = check(&repository).iter().map(TidyProblem::to_string).collect();
        assert_eq!(
            problems,
            [
                "CONTRIBUTING.md:7: `lost` is recommended and does not exist in the code: name what replaced it",
                "CONTRIBUTING.md:7: `log_*` is recommended and does not exist in the code: name what replaced it",
            ]
        );
    }
}
