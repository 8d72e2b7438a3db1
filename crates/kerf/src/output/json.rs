//! JSON that programs and people read: one line per field, so that `diff` can compare two results,
//! and lists of plain values on one line, because a list may hold 400 instance types.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Writes a value and a newline.
pub(crate) fn write(value: &impl Serialize, writer: &mut dyn io::Write) -> io::Result<()> {
    let mut serializer = Serializer::with_formatter(&mut *writer, ObjectLineFormatter { depth: 0, has_value: false });
    value.serialize(&mut serializer).map_err(io::Error::from)?;
    writer.write_all(b"\n")
}

/// Formatter that writes objects over several lines and lists on one line.
struct ObjectLineFormatter {
    /// Number of objects around the current position.
    depth: usize,
    /// True if the object or list that ends now contains a value.
    has_value: bool,
}

impl ObjectLineFormatter {
    fn write_line_start<W: io::Write + ?Sized>(&self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| writer.write_all(b"  "))
    }
}

impl Formatter for ObjectLineFormatter {
    fn begin_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth += 1;
        self.has_value = false;
        writer.write_all(b"{")
    }

    fn end_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        if self.has_value {
            self.write_line_start(writer)?;
        }
        self.has_value = true;
        writer.write_all(b"}")
    }

    fn begin_object_key<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(b",")?;
        }
        self.write_line_start(writer)
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn end_object_value<W: io::Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_value = true;
        Ok(())
    }

    fn begin_array_value<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

    use serde_json::{Value, json};

    #[test]
    fn fields_have_their_own_lines_and_lists_do_not() {
        let value = json!({"a": [1, 2], "b": {}, "c": [{"d": "x", "e": []}, {"d": {}}], "f": {"g": null}});
        let mut bytes = Vec::new();
        super::write(&value, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        insta::assert_snapshot!(text, @r#"
        {
          "a": [1, 2],
          "b": {},
          "c": [{
            "d": "x",
            "e": []
          }, {
            "d": {}
          }],
          "f": {
            "g": null
          }
        }
        "#);
    }
}
