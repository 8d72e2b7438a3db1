//! Counts that may only fall: words, comments and names that `CONTRIBUTING.md` advises against. The
//! limit of each count is in `xtask/style-limits.txt`. A count above its limit is a problem; so is
//! a count below its limit, because the limit has to follow.

mod comments;
mod cycles;
mod names;

use std::collections::BTreeMap;

use super::TidyProblem;
use crate::repository::Repository;

const LIMITS: &str = "xtask/style-limits.txt";

/// Number of places that a problem lists. `cargo xtask style NAME` lists all of them.
const LISTED_PLACES: usize = 5;

/// A count, with every place where the counted thing occurs.
pub(crate) struct Count {
    /// Name in the file of limits and on the command line.
    pub(crate) name: &'static str,
    /// Advice on what to do instead, for the message.
    pub(crate) advice: &'static str,
    /// The places, in the order of the files.
    pub(crate) places: Vec<Place>,
}

/// One occurrence.
pub(crate) struct Place {
    /// The file, from the root.
    pub(crate) path: String,
    /// The line, counted from 1.
    pub(crate) line: usize,
    /// The text that was counted.
    pub(crate) text: String,
}

/// Returns all counts of the repository, in a fixed order.
pub(crate) fn counts(repository: &Repository) -> Vec<Count> {
    vec![
        names::retired_words(repository),
        names::repeated_type_names(repository),
        comments::wide(repository),
        comments::repeating_the_name(repository),
        comments::question_words(repository),
        comments::who_words(repository),
        comments::passive_speech(repository),
        cycles::modules_in_cycles(repository),
    ]
}

pub(super) fn check(repository: &Repository) -> Vec<TidyProblem> {
    let Some(file) = repository.file(LIMITS) else { return vec![TidyProblem::in_file(LIMITS, "is missing")] };
    match limits(&file.text) {
        Ok(limits) => compare(&counts(repository), &limits),
        Err(line) => vec![TidyProblem::on_line(LIMITS, line, "is not `name = number`")],
    }
}

fn compare(counts: &[Count], limits: &BTreeMap<String, usize>) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    for count in counts {
        let (name, number) = (count.name, count.places.len());
        let Some(&limit) = limits.get(name) else {
            problems.push(TidyProblem::in_file(LIMITS, format!("add the line `{name} = {number}`")));
            continue;
        };
        if number > limit {
            let advice = count.advice;
            let message = format!(
                "{name}: {number}, at most {limit} are allowed ({advice}); `cargo xtask style {name}` lists them"
            );
            problems.push(TidyProblem::in_file(LIMITS, message));
            let first = count.places.iter().take(LISTED_PLACES);
            problems.extend(first.map(|at| TidyProblem::on_line(&at.path, at.line, format!("{name}: {}", at.text))));
        } else if number < limit {
            problems.push(TidyProblem::in_file(LIMITS, format!("{name} fell to {number}: write `{name} = {number}`")));
        }
    }
    for name in limits.keys().filter(|name| !counts.iter().any(|count| count.name == name.as_str())) {
        problems.push(TidyProblem::in_file(LIMITS, format!("`{name}` is not counted: delete the line")));
    }
    problems
}

/// Parses the limits. The error is the number of the first line that cannot be parsed.
fn limits(text: &str) -> Result<BTreeMap<String, usize>, usize> {
    let mut limits = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parsed = line.split_once('=').and_then(|(name, limit)| Some((name.trim(), limit.trim().parse().ok()?)));
        let (name, limit) = parsed.ok_or(index + 1)?;
        limits.insert(name.to_owned(), limit);
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(places: usize) -> Count {
        let place = |line| Place { path: "a.rs".to_owned(), line, text: "word".to_owned() };
        Count { name: "words", advice: "use others", places: (1..=places).map(place).collect() }
    }

    fn messages(places: usize, limits_text: &str) -> Vec<String> {
        let limits = limits(limits_text).expect("the limits can be read");
        compare(&[count(places)], &limits).iter().map(TidyProblem::to_string).collect()
    }

    #[test]
    fn a_count_equal_to_its_limit_is_fine() {
        assert_eq!(messages(2, "# comment\n\nwords = 2\n"), Vec::<String>::new());
    }

    #[test]
    fn a_count_above_its_limit_lists_places() {
        let problems = messages(7, "words = 6");
        assert_eq!(problems.len(), 1 + LISTED_PLACES);
        assert!(problems[0].contains("words: 7, at most 6 are allowed (use others)"), "{problems:?}");
        assert_eq!(problems[1], "a.rs:1: words: word");
    }

    #[test]
    fn a_count_below_its_limit_asks_for_the_lower_limit() {
        assert_eq!(messages(1, "words = 2"), ["xtask/style-limits.txt: words fell to 1: write `words = 1`"]);
    }

    #[test]
    fn missing_and_unknown_limits_are_problems() {
        let problems = messages(3, "letters = 2");
        assert_eq!(
            problems,
            [
                "xtask/style-limits.txt: add the line `words = 3`",
                "xtask/style-limits.txt: `letters` is not counted: delete the line",
            ]
        );
        assert_eq!(limits("words = 1\nwords two\n"), Err(2));
    }
}
