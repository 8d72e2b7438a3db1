//! Counts identifiers: retired words, and type names that are defined several times.

use std::collections::BTreeMap;

use super::{Count, Place};
use crate::code;
use crate::repository::Repository;

/// Words that are rejected in every identifier of which they are a part: `rack` also rejects
/// `find_rack` and `RackBuilder`. They were replaced by the words of Kubernetes and Karpenter
/// (`CONTRIBUTING.md` has the table).
const RETIRED_PARTS: [&str; 73] = [
    "about_ours",
    "calm",
    "chance",
    "circumstances",
    "class_book",
    "close_books",
    "concession",
    "conduct",
    "despair",
    "desperate",
    "fate",
    "first_look",
    "flavour",
    "followers",
    "furnish",
    "furnished",
    "hang_if",
    "haste",
    "hear",
    "heard",
    "heed",
    "homeless",
    "hung",
    "impatient",
    "is_lonely",
    "kin",
    "machine",
    "machines",
    "merit",
    "minds",
    "minds_nobody",
    "news",
    "noted",
    "orchestration",
    "peace_until",
    "picture",
    "plenty",
    "put_in_order",
    "rack",
    "racks",
    "refusal",
    "refusals",
    "refuse",
    "refused",
    "refuses",
    "remembered",
    "rig",
    "said",
    "saying",
    "scrutiny",
    "seat",
    "second_look",
    "shelf",
    "small_change",
    "sold",
    "speaker",
    "taken_in",
    "taste",
    "teller",
    "thorough",
    "thrifty",
    "tilt",
    "told",
    "tone",
    "town",
    "underway",
    "whim",
    "widths",
    "wish",
    "wishes",
    "wishlist",
    "witness",
    "worth_it",
];

/// Ordinary words that are rejected only as whole identifiers.
const RETIRED_NAMES: [&str; 10] =
    ["Face", "Floor", "Given", "Ground", "Half", "Kept", "Moment", "Sheet", "Sight", "hang"];

/// Identifiers of libraries that contain a retired word.
const ALLOWED: [&str; 1] = ["ConnectionRefused"];

/// Number of definitions from which a type name counts as repeated.
const REPEATED: usize = 3;

pub(super) fn retired_words(repository: &Repository) -> Count {
    let mut places = Vec::new();
    // Few identifiers are new in each line, so that each is split once.
    let mut known: BTreeMap<&str, bool> = BTreeMap::new();
    for file in repository.rust() {
        for (index, line) in file.code().lines().enumerate() {
            for word in code::words(line) {
                if *known.entry(word).or_insert_with(|| is_retired(word)) {
                    places.push(Place { path: file.path.clone(), line: index + 1, text: format!("`{word}`") });
                }
            }
        }
    }
    Count { name: "retired-words", advice: "CONTRIBUTING.md names the word to use", places }
}

fn is_retired(name: &str) -> bool {
    let parts = format!("_{}_", code::name_parts(name).join("_"));
    let has_retired_part = || RETIRED_PARTS.iter().any(|retired| parts.contains(&format!("_{retired}_")));
    RETIRED_NAMES.contains(&name) || (!ALLOWED.contains(&name) && has_retired_part())
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
        let source = "//! Rack\nfn a(b: Rack) { let s = \"Rack\"; Racked }\n";
        let words = retired_words(&Repository::of(&[("a.rs", source)]));
        let words: Vec<_> = words.places.iter().map(|at| (at.line, at.text.as_str())).collect();
        assert_eq!(words, [(2, "`Rack`")]);
    }

    #[test]
    fn retired_words_are_found_as_parts_of_identifiers() {
        for retired in
            ["find_rack", "RackBuilder", "picture", "heard", "wishlist", "MAX_SOLD", "the_first_look_at", "Kept"]
        {
            assert!(is_retired(retired), "{retired}");
        }
        for ordinary in ["tracking", "kept", "is_kept", "apimachinery", "look", "ConnectionRefused", "wished"] {
            assert!(!is_retired(ordinary), "{ordinary}");
        }
    }

    #[test]
    fn every_retired_part_can_be_found() {
        let unfound: Vec<_> = RETIRED_PARTS.iter().filter(|retired| !is_retired(retired)).collect();
        assert_eq!(unfound, Vec::<&&str>::new());
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
