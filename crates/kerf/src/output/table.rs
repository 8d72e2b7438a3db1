//! Tables for people: aligned columns without lines, at most 100 columns wide, so that they fit on
//! a small terminal and can be pasted into an issue or processed with standard tools.

use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Table, Width, presets};

/// Maximum width in columns.
const WIDTH_MAX: u16 = 100;
/// Space behind each column.
const PADDING: u16 = 2;
/// Largest word for which a column leaves space to a column behind it.
const RESERVED_WORD_MAX: u16 = 24;

/// Renders a table with a header. Cells that do not fit continue on the next line. Returns an empty
/// text if there are no rows.
pub(crate) fn table<R>(head: &[&str], rows: impl IntoIterator<Item = R>) -> String
where
    R: IntoIterator<Item = String>,
{
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH_MAX);
    table.set_header(head.iter().copied());
    let mut sizes: Vec<ColumnSize> = head.iter().map(|text| ColumnSize::of(text)).collect();
    for row in rows {
        let texts: Vec<String> =
            row.into_iter().map(|text| super::escape_control_characters(&text).into_owned()).collect();
        for (sizes, text) in sizes.iter_mut().zip(&texts) {
            sizes.extend(ColumnSize::of(text));
        }
        table.add_row(texts.into_iter().map(Cell::new));
    }
    if table.is_empty() {
        return String::new();
    }
    let mut left = WIDTH_MAX;
    for (ix, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, PADDING));
        let Some((own, behind)) = sizes.get(ix..).and_then(<[ColumnSize]>::split_first) else { continue };
        let reserved: u16 = behind.iter().map(|sizes| sizes.word.min(RESERVED_WORD_MAX) + PADDING).sum();
        // The last column has sentences, which continue on the next line.
        let wanted = [own.text, own.word].into_iter().skip(usize::from(behind.is_empty()));
        let fitting =
            wanted.map(|width| width.saturating_add(PADDING)).find(|width| *width <= left.saturating_sub(reserved));
        if let Some(width) = fitting {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
            left -= width;
        }
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    text
}

/// The largest sizes of the cells of a column.
#[derive(Debug, Clone, Copy)]
struct ColumnSize {
    /// Width without a line break.
    text: u16,
    /// Width of the longest word.
    word: u16,
}

impl ColumnSize {
    fn of(text: &str) -> Self {
        let width = |text: &str| u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
        Self { text: width(text), word: text.split_whitespace().map(width).max().unwrap_or_default() }
    }

    fn extend(&mut self, other: Self) {
        *self = Self { text: self.text.max(other.text), word: self.word.max(other.word) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_nodes_are_not_broken() {
        let why = "can't remove without creating 2 candidates, and one of them would cost more than the present node";
        let row = ["ip-192-168-100-205.us-west-2.compute.internal +3", "MoreThanOneReplacement", why];
        let text = table(&["NODES", "CODE", "WHY"], [row.map(str::to_owned)]);
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(WIDTH_MAX)), "{text}");
        for whole in ["ip-192-168-100-205.us-west-2.compute.internal", "MoreThanOneReplacement"] {
            assert!(text.contains(whole), "{text}");
        }
    }

    #[test]
    fn a_word_that_is_wider_than_the_table_is_broken() {
        let text = table(&["A", "B"], [["x".repeat(150), "y y".to_owned()]]);
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(WIDTH_MAX)), "{text}");
        assert!(text.contains("y y"), "{text}");
    }
}
