//! Counts identifiers: retired words, and type names that are defined several times.

use std::collections::BTreeMap;

use super::{Count, Place};
use crate::code;
use crate::repository::Repository;

/// Identifiers that were replaced by the words of Kubernetes and Karpenter (`CONTRIBUTING.md` has
/// the table).
const RETIRED: [&str; 72] = [
    "Calm",
    "Chance",
    "Circumstances",
    "ClassBook",
    "Conduct",
    "Face",
    "Fate",
    "Flavour",
    "Floor",
    "Given",
    "Ground",
    "Half",
    "Haste",
    "Heard",
    "Heed",
    "Hung",
    "Kept",
    "Merit",
    "Moment",
    "Noted",
    "Orchestration",
    "Picture",
    "Plenty",
    "Rack",
    "Remembered",
    "Rig",
    "Saying",
    "Scrutiny",
    "Seat",
    "Sheet",
    "Shelf",
    "Sight",
    "Sold",
    "Speaker",
    "Taste",
    "Teller",
    "Tone",
    "Town",
    "Underway",
    "Whim",
    "Widths",
    "Wish",
    "Witness",
    "about_ours",
    "chance",
    "close_books",
    "concession",
    "despair",
    "first_look",
    "followers",
    "furnished",
    "hang",
    "hang_if",
    "hear",
    "homeless",
    "impatient",
    "is_desperate",
    "is_lonely",
    "kin",
    "minds",
    "minds_nobody",
    "peace_until",
    "put_in_order",
    "second_look",
    "small_change",
    "taken_in",
    "thorough",
    "thrifty",
    "tilt",
    "wish",
    "wishes",
    "worth_it",
];

/// Number of definitions from which a type name counts as repeated.
const REPEATED: usize = 3;

pub(super) fn retired_words(repository: &Repository) -> Count {
    let mut places = Vec::new();
    for file in repository.rust() {
        for (index, line) in file.code().lines().enumerate() {
            for word in code::words(line).filter(|word| RETIRED.contains(word)) {
                places.push(Place { path: file.path.clone(), line: index + 1, text: format!("`{word}`") });
            }
        }
    }
    Count { name: "retired-words", advice: "CONTRIBUTING.md names the word to use", places }
}

/// Counts each repeated name once, at its first definition.
pub(super) fn repeated_type_names(repository: &Repository) -> Count {
    let mut definitions: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for file in repository.rust() {
        for (index, line) in file.code().lines().enumerate() {
            if let Some(name) = defined_type(line) {
                definitions.entry(name).or_default().push((&file.path, index + 1));
            }
        }
    }
    let repeated = definitions.iter().filter(|(_, at)| at.len() >= REPEATED);
    let places = repeated.map(|(name, at)| {
        let (path, line) = at[0];
        Place { path: path.to_owned(), line, text: format!("`{name}` is defined {} times", at.len()) }
    });
    Count { name: "repeated-type-names", advice: "qualify the name", places: places.collect() }
}

/// Returns the type that a line of code defines. Associated types are indented and do not count,
/// nor do names that a macro takes as an argument.
fn defined_type(line: &str) -> Option<&str> {
    let is_indented = line.starts_with(' ');
    let mut words = code::words(line).skip_while(|word| matches!(*word, "pub" | "crate" | "super" | "self" | "in"));
    let name = match words.next()? {
        "struct" | "enum" | "trait" | "union" => words.next(),
        "type" if !is_indented => words.next(),
        _ => None,
    };
    name.filter(|_| !line.contains('$'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retired_words_are_found_in_code_only() {
        let source = "//! Rack\nfn a(rack: Rack) { let s = \"Rack\"; Racked }\n";
        let words = retired_words(&Repository::of(&[("a.rs", source)]));
        let words: Vec<_> = words.places.iter().map(|at| (at.line, at.text.as_str())).collect();
        assert_eq!(words, [(2, "`Rack`")]);
    }

    #[test]
    fn a_type_name_that_is_defined_three_times_is_counted_once() {
        let repository = Repository::of(&[
            ("a.rs", "struct State;\npub(crate) enum Kind {}\nimpl X { type Kind = u8; }\n"),
            ("b.rs", "pub type State = u8;\nmod c {\n    trait State {}\n}\n"),
            ("c.rs", "enum Kind {}\n// struct Kind;\n"),
        ]);
        let names = repeated_type_names(&repository);
        let names: Vec<_> = names.places.iter().map(|at| at.text.as_str()).collect();
        assert_eq!(names, ["`State` is defined 3 times"]);
    }
}
