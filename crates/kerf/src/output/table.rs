//! Tables for people: aligned columns without lines, at most 100 columns wide, so that they fit on
//! a small terminal and can be pasted into an issue or processed with standard tools.

use comfy_table::{Cell, ContentArrangement, Table, presets};

/// Maximum width in columns.
const WIDTH_MAX: u16 = 100;

/// Renders a table with a header. Cells that do not fit continue on the next line. Returns an empty
/// text if there are no rows.
pub(crate) fn table<R>(head: &[&str], rows: impl IntoIterator<Item = R>) -> String
where
    R: IntoIterator<Item = String>,
{
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH_MAX);
    table.set_header(head.iter().copied());
    let cell = |text: String| Cell::new(super::escape_control_characters(&text));
    table.add_rows(rows.into_iter().map(|row| row.into_iter().map(cell).collect::<Vec<_>>()));
    if table.is_empty() {
        return String::new();
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    text
}
