//! Counts comments that are hard to read: too wide, without content, or in a style that has to be
//! read twice.

use super::{Count, Place};
use crate::code::{self, Comment, CommentKind};
use crate::repository::{Repository, TextFile};

/// Maximum column of comments. Code may use 120 columns, as in the settings of rustfmt.
const WIDTH: usize = 100;

/// Words that are ignored when a doc comment is compared with the name of its item.
const FILLERS: [&str; 14] =
    ["the", "a", "an", "of", "its", "it", "this", "that", "for", "in", "to", "is", "and", "returns"];

pub(super) fn wide(repository: &Repository) -> Count {
    let places = collect(repository, |file, comment| {
        let columns = file.text.lines().nth(comment.line - 1).map_or(0, |line| line.chars().count());
        (columns > WIDTH).then(|| format!("the comment ends at column {columns}"))
    });
    Count { name: "wide-comments", advice: "comments end at column 100", places }
}

/// Counts doc comments of one line whose words are all in the name of the item below.
pub(super) fn repeating_the_name(repository: &Repository) -> Count {
    let mut places = Vec::new();
    for file in repository.rust() {
        let lines: Vec<&str> = file.text.lines().collect();
        let comments = file.comments();
        for (index, comment) in comments.iter().enumerate() {
            let stands_alone = |other: Option<&Comment>, line: usize| other.is_none_or(|other| other.line != line);
            if comment.kind == CommentKind::Item
                && stands_alone(comments.get(index + 1), comment.line + 1)
                && stands_alone(index.checked_sub(1).and_then(|before| comments.get(before)), comment.line - 1)
                && let Some(name) = lines[comment.line..].iter().find_map(|line| item_name(line))
                && repeats(comment.text, name)
            {
                places.push(Place { path: file.path.clone(), line: comment.line, text: comment.text.to_owned() });
            }
        }
    }
    Count { name: "docs-that-repeat-the-name", advice: "add to the name, or delete the comment", places }
}

/// Counts doc comments whose first word is a question word such as `What` or `Whether`.
pub(super) fn question_words(repository: &Repository) -> Count {
    let mut places = Vec::new();
    for file in repository.rust() {
        let mut last_doc_line = None;
        for comment in file.comments() {
            if comment.kind == CommentKind::Plain {
                continue;
            }
            let begins = last_doc_line != Some(comment.line - 1);
            last_doc_line = Some(comment.line);
            if begins && matches!(code::words(comment.text).next(), Some("What" | "Whether" | "Who" | "Whose" | "Whom"))
            {
                places.push(place(file, &comment, comment.text.to_owned()));
            }
        }
    }
    Count { name: "docs-that-begin-with-a-question-word", advice: "begin with a verb or a noun", places }
}

/// Counts words that treat pods, nodes and processes as persons.
pub(super) fn who_words(repository: &Repository) -> Count {
    let is_person = |word: &str| matches!(word, "who" | "whoever" | "nobody" | "somebody");
    let places = collect(repository, |_, comment| {
        let word = code::words(comment.text).find(|word| is_person(&word.to_lowercase()))?;
        Some(format!("`{word}` in: {}", comment.text))
    });
    Count { name: "who-words", advice: "name the pod, node or component", places }
}

/// Counts the passive of say, tell, look, hear and ask, which hides the component that acts.
pub(super) fn passive_speech(repository: &Repository) -> Count {
    let places = collect(repository, |_, comment| {
        let words: Vec<String> = code::words(comment.text).map(str::to_lowercase).collect();
        let is_passive = words.iter().enumerate().any(|(index, word)| {
            matches!(word.as_str(), "said" | "told" | "looked" | "heard" | "asked") && follows_to_be(&words[..index])
        });
        is_passive.then(|| comment.text.to_owned())
    });
    Count { name: "passive-say-tell-look-hear-ask", advice: "name the component and what it does", places }
}

/// Returns true if a form of *to be* is one of the last two words.
fn follows_to_be(before: &[String]) -> bool {
    let is_form = |word: &String| matches!(word.as_str(), "is" | "are" | "was" | "were" | "be" | "been" | "being");
    before.iter().rev().take(2).any(is_form)
}

fn collect(repository: &Repository, text: impl Fn(&TextFile, &Comment) -> Option<String>) -> Vec<Place> {
    let mut places = Vec::new();
    for file in repository.rust() {
        for comment in file.comments() {
            places.extend(text(file, &comment).map(|text| place(file, &comment, text)));
        }
    }
    places
}

fn place(file: &TextFile, comment: &Comment, text: String) -> Place {
    Place { path: file.path.clone(), line: comment.line, text }
}

/// Returns the name of the item, field or variant that a line of code defines. Attributes have no
/// name.
fn item_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if line.starts_with('#') || line.starts_with("//") {
        return None;
    }
    let is_keyword = |word: &str| {
        let visibility = matches!(word, "pub" | "crate" | "super" | "self" | "in");
        let modifier = matches!(word, "async" | "unsafe" | "extern" | "mut");
        visibility
            || modifier
            || matches!(word, "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "mod")
    };
    code::words(line).find(|word| !is_keyword(word))
}

/// Returns true if each word of the comment is a filler or part of the name. A plural counts as its
/// singular.
fn repeats(comment: &str, name: &str) -> bool {
    let name: Vec<String> = parts(name).iter().map(|part| singular(part)).collect();
    let mut words = code::words(comment).map(str::to_lowercase).peekable();
    words.peek().is_some() && words.all(|word| FILLERS.contains(&word.as_str()) || name.contains(&singular(&word)))
}

fn singular(word: &str) -> String {
    let is_plural = word.len() > 3 && word.ends_with('s') && !word.ends_with("ss");
    if is_plural { word[..word.len() - 1].to_owned() } else { word.to_owned() }
}

/// Splits `NodeClaim`, `node_claim` and `NODE_CLAIM` into `node` and `claim`.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut after_lower = false;
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && after_lower) {
            parts.push(String::new());
        }
        after_lower = c.is_lowercase();
        if c != '_' {
            parts.last_mut().expect("there is always a last part").extend(c.to_lowercase());
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: impl Fn(&Repository) -> Count, source: &str) -> Vec<usize> {
        count(&Repository::of(&[("a.rs", source)])).places.iter().map(|at| at.line).collect()
    }

    #[test]
    fn comments_beyond_column_100_are_wide() {
        let source = format!("// {}\n// {}\nlet a = \"{}\";\n", "x".repeat(97), "x".repeat(98), "x".repeat(100));
        assert_eq!(lines(wide, &source), [2]);
    }

    #[test]
    fn a_doc_that_repeats_the_name_is_found() {
        let source = "/// The node claims.\npub(crate) struct NodeClaims {\n    /// Its name.\n    name: u8,\n    /// Name of the pool.\n    name: u8,\n}\n";
        assert_eq!(lines(repeating_the_name, source), [1, 3]);
        let longer = "/// The name.\n/// It is unique.\nname: u8,\n/// Returns the hash.\n#[must_use]\nfn hash() {}\n";
        assert_eq!(lines(repeating_the_name, longer), [4]);
    }

    #[test]
    fn only_the_first_word_of_a_doc_comment_counts_as_a_question() {
        let source =
            "//! What it is.\n//! What else.\n\n/// Returns it.\n/// Whether so.\nfn a() {}\n// What now?\n/// Who.\n";
        assert_eq!(lines(question_words, source), [1, 8]);
    }

    #[test]
    fn words_for_persons_are_found_in_any_case() {
        assert_eq!(lines(who_words, "// Whoever.\n// whole\n//! a pod who\nlet nobody = 1;\n"), [1, 3]);
    }

    #[test]
    fn passive_speech_may_have_one_word_between() {
        let source = "// It is told.\n// are never asked\n// the pod was there and said\n// he said\n";
        assert_eq!(lines(passive_speech, source), [1, 2]);
    }
}
