//! Checks links in Markdown files. A link to a file must lead to a file of the repository, and its
//! anchor to a heading there. A link to a Rust file whose text is code, such as
//! [`solve`](src/solve.rs), must name identifiers that occur in that file, so that the pages that
//! introduce the code are updated when it is renamed.

use super::TidyProblem;
use crate::code;
use crate::repository::{Repository, TextFile};

/// A link of a Markdown page.
#[derive(Debug, PartialEq, Eq)]
struct Link<'p> {
    line: usize,
    text: &'p str,
    target: &'p str,
}

pub(super) fn check(repository: &Repository) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    for file in repository.files.iter().filter(|file| file.is_markdown()) {
        for link in links(&file.text) {
            if let Some(message) = problem(repository, file, &link) {
                problems.push(TidyProblem::on_line(
                    &file.path,
                    link.line,
                    format!("link `{}`: {message}", link.target),
                ));
            }
        }
    }
    problems
}

fn problem(repository: &Repository, from: &TextFile, link: &Link) -> Option<String> {
    if link.target.contains("://") || link.target.starts_with("mailto:") {
        return None;
    }
    if link.target.starts_with('[') {
        return Some("the page does not define this label".to_owned());
    }
    let (path, anchor) = link.target.split_once('#').map_or((link.target, None), |(path, anchor)| (path, Some(anchor)));
    let path = if path.is_empty() { Some(from.path.clone()) } else { resolve(&from.path, path) };
    let Some(path) = path else { return Some("points outside the repository".to_owned()) };
    let is_folder =
        repository.files.iter().any(|file| file.path.starts_with(&format!("{}/", path.trim_end_matches('/'))));
    let Some(file) = repository.file(&path) else {
        return (!is_folder).then(|| format!("the file `{path}` does not exist"));
    };
    if let Some(anchor) = anchor.filter(|_| file.is_markdown()) {
        let is_heading = headings(&file.text).any(|heading| heading == anchor);
        return (!is_heading).then(|| format!("`{path}` has no heading `#{anchor}`"));
    }
    if file.is_rust() && link.text.starts_with('`') {
        let missing = code::words(link.text).find(|word| !code::words(file.code()).any(|other| other == *word));
        return missing.map(|word| format!("`{path}` does not contain `{word}`: link to what replaced it"));
    }
    None
}

/// Returns the path of `target` as seen from the folder of `from`; `None` if it leaves the root.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns the links of a page outside of code blocks and code spans, with those that are defined
/// on a line `[label]: target`. A link whose label is not defined has the label in brackets as
/// target.
fn links(page: &str) -> Vec<Link<'_>> {
    let mut links = Vec::new();
    let definitions: Vec<Link<'_>> = lines_of_prose(page).filter_map(|(line, text)| definition(line, text)).collect();
    for (number, line) in lines_of_prose(page) {
        let mut at = 0;
        while let Some((middle, close)) = link_middle(line, at) {
            at = middle + 2;
            let Some(end) = line[at..].find(close).map(|offset| at + offset) else { break };
            let Some(start) = opening_bracket(&line[..middle]) else { continue };
            // A link inside a code span is only an example.
            if line[..start].matches('`').count() % 2 != 0 {
                continue;
            }
            let (text, mut target) = (&line[start + 1..middle], &line[at..end]);
            if close == ']' {
                let label = if target.is_empty() { text } else { target };
                let defined = definitions.iter().find(|definition| definition.text.eq_ignore_ascii_case(label));
                target = defined.map_or(&line[middle + 1..=end], |definition| definition.target);
            }
            links.push(Link { line: number, text, target });
        }
    }
    links.extend(definitions.into_iter().map(|definition| Link { text: "", ..definition }));
    links.sort_by_key(|link| link.line);
    links
}

/// Returns the lines of a page outside of code blocks, with their numbers, counted from 1.
fn lines_of_prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_block = false;
    page.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        (!in_block && !is_fence).then_some((index + 1, line))
    })
}

/// Returns the label and the target of a line `[label]: target`. Footnotes have other text there.
fn definition(line: usize, text: &str) -> Option<Link<'_>> {
    let (label, target) = text.trim_start().strip_prefix('[')?.split_once("]:")?;
    let is_label = !label.starts_with('^') && !label.contains(']');
    Some(Link { line, text: label, target: target.split_whitespace().next()? }).filter(|_| is_label)
}

/// Returns the position of the next `](` or `][` from `at` on, and the bracket that ends the link.
fn link_middle(line: &str, at: usize) -> Option<(usize, char)> {
    let find = |middle: &str, close| line[at..].find(middle).map(|offset| (at + offset, close));
    [find("](", ')'), find("][", ']')].into_iter().flatten().min()
}

/// Returns the position of the bracket that the end of `text` closes.
fn opening_bracket(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices().rev() {
        match c {
            ']' => depth += 1,
            '[' if depth == 0 => return Some(at),
            '[' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Returns the anchors of a page's headings: lower case, spaces as hyphens, punctuation dropped.
fn headings(page: &str) -> impl Iterator<Item = String> {
    page.lines().filter(|line| line.starts_with('#')).map(|line| {
        let title = line.trim_start_matches('#').trim();
        let kept = title.chars().filter(|&c| code::is_word(c) || c == ' ' || c == '-');
        kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_outside_code_are_found_with_their_text() {
        let page = "See [`a`](b.rs) and `[c](d)`.\n```\n[e](f)\n```\n[g [h]](i#j)\n";
        let links: Vec<_> = links(page).iter().map(|link| (link.line, link.text, link.target)).collect();
        assert_eq!(links, [(1, "`a`", "b.rs"), (5, "g [h]", "i#j")]);
    }

    #[test]
    fn reference_links_have_the_target_of_their_definition() {
        let page = "[a][x], [Y][] and `[b][c]`\n\n[x]: one.md\n [y]: two.md \"title\"\n[^1]: note\n[d][z]\n```\n[e]: f.md\n```\n";
        let links: Vec<_> = links(page).iter().map(|link| (link.line, link.text, link.target)).collect();
        let expected = [(1, "a", "one.md"), (1, "Y", "two.md"), (3, "", "one.md"), (4, "", "two.md"), (6, "d", "[z]")];
        assert_eq!(links, expected);
        let repository = Repository::of(&[("a.md", "[x][y] [x][z]\n[y]: nothing.md\n")]);
        let messages: Vec<String> = check(&repository).iter().map(TidyProblem::to_string).collect();
        assert_eq!(
            messages,
            [
                "a.md:1: link `nothing.md`: the file `nothing.md` does not exist",
                "a.md:1: link `[z]`: the page does not define this label",
                "a.md:2: link `nothing.md`: the file `nothing.md` does not exist",
            ]
        );
    }

    #[test]
    fn dead_links_are_reported_with_what_is_missing() {
        let page = "[a](../src/a.rs) [b](../src/b.rs) [c](#here) [d](#gone) [`known`](../src/a.rs) [`lost`](../src/a.rs)\n\
                    # Here\n[e](../../x) [f](https://example.com/y) [g](../src) [h](other.md#Head)\n";
        let repository = Repository::of(&[
            ("docs/page.md", page),
            ("docs/other.md", "# Head of `it`\n"),
            ("src/a.rs", "fn known() {} // lost\n"),
        ]);
        let messages: Vec<String> = check(&repository).iter().map(TidyProblem::to_string).collect();
        assert_eq!(
            messages,
            [
                "docs/page.md:1: link `../src/b.rs`: the file `src/b.rs` does not exist",
                "docs/page.md:1: link `#gone`: `docs/page.md` has no heading `#gone`",
                "docs/page.md:1: link `../src/a.rs`: `src/a.rs` does not contain `lost`: link to what replaced it",
                "docs/page.md:3: link `../../x`: points outside the repository",
                "docs/page.md:3: link `other.md#Head`: `docs/other.md` has no heading `#Head`",
            ]
        );
    }
}
