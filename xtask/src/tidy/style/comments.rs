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
    let is_person = |word: &str| {
        let is_any = matches!(word, "anybody" | "anyone" | "everybody" | "everyone");
        is_any || matches!(word, "who" | "whoever" | "nobody" | "somebody" | "someone")
    };
    let places = collect(repository, |_, comment| {
        let word = code::words(comment.text).find(|word| is_person(&word.to_lowercase()))?;
        Some(format!("`{word}` in: {}", comment.text))
    });
    Count { name: "who-words", advice: "name the pod, node or component", places }
}

/// Counts the passive of say, tell, look, hear and ask, which hides the component that acts. It may
/// begin on one line of a comment and end on the next.
pub(super) fn passive_speech(repository: &Repository) -> Count {
    let mut places = Vec::new();
    for file in repository.rust() {
        for sentence in sentences(&file.comments()) {
            for (index, word) in sentence.iter().enumerate() {
                if matches!(word.text.as_str(), "said" | "told" | "looked" | "heard" | "asked")
                    && follows_to_be(&sentence[..index])
                {
                    places.push(place(file, word.comment, word.comment.text.to_owned()));
                }
            }
        }
    }
    Count { name: "passive-say-tell-look-hear-ask", advice: "name the component and what it does", places }
}

/// Returns true if the words end with a form of *to be*, one word in between and any number of
/// adverbs.
fn follows_to_be(before: &[SentenceWord]) -> bool {
    let is_form = |word: &str| matches!(word, "is" | "are" | "was" | "were" | "be" | "been" | "being");
    let is_adverb = |word: &str| {
        let is_frequent = matches!(word, "not" | "never" | "also" | "already" | "always" | "ever" | "first" | "just");
        is_frequent
            || word.ends_with("ly")
            || matches!(word, "now" | "often" | "once" | "only" | "still" | "then" | "yet")
    };
    let mut words = before.iter().rev().map(|word| word.text.as_str()).skip_while(|word| is_adverb(word));
    words.by_ref().take(2).any(is_form)
}

/// A word of a comment, in lower case.
struct SentenceWord<'c, 's> {
    comment: &'c Comment<'s>,
    text: String,
}

/// Returns the sentences of the comments. Consecutive lines of one kind are one text.
fn sentences<'c, 's>(comments: &'c [Comment<'s>]) -> Vec<Vec<SentenceWord<'c, 's>>> {
    let mut sentences = Vec::new();
    let mut sentence = Vec::new();
    for (index, comment) in comments.iter().enumerate() {
        let is_continued = index.checked_sub(1).is_some_and(|before| {
            let before = &comments[before];
            before.line + 1 == comment.line && before.kind == comment.kind && !comment.text.is_empty()
        });
        if !is_continued {
            sentences.push(std::mem::take(&mut sentence));
        }
        for token in comment.text.split_whitespace() {
            sentence.extend(code::words(token).map(|word| SentenceWord { comment, text: word.to_lowercase() }));
            if token.ends_with(['.', '!', '?']) {
                sentences.push(std::mem::take(&mut sentence));
            }
        }
    }
    sentences.push(sentence);
    sentences
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
    let name: Vec<String> = code::name_parts(name).iter().map(|part| singular(part)).collect();
    let mut words = code::words(comment).map(str::to_lowercase).peekable();
    words.peek().is_some() && words.all(|word| FILLERS.contains(&word.as_str()) || name.contains(&singular(&word)))
}

fn singular(word: &str) -> String {
    let is_plural = word.len() > 3 && word.ends_with('s') && !word.ends_with("ss");
    if is_plural { word[..word.len() - 1].to_owned() } else { word.to_owned() }
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
        assert_eq!(lines(who_words, "// Someone.\n// for anyone\n/// everybody\n// one\n"), [1, 2, 3]);
    }

    #[test]
    fn passive_speech_may_have_one_word_and_adverbs_between() {
        let source = "// It is told.\n// are never asked.\n// the pod was there and said.\n// he said.\n// be it never only told.\n";
        assert_eq!(lines(passive_speech, source), [1, 2, 5]);
    }

    #[test]
    fn passive_speech_is_found_across_lines_of_one_sentence() {
        assert_eq!(lines(passive_speech, "/// A pod that must be\n/// told.\nfn a() {}\n"), [2]);
        let others =
            "// what it is.\n// Asked once.\n\n// what it is\n\n// told\n//! as it is\n// told\n// is\n//\n// told\n";
        assert_eq!(lines(passive_speech, others), Vec::<usize>::new());
    }
}
