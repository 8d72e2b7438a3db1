//! A writer of XML: elements with texts, without attributes other than a namespace.

use std::fmt::{Display, Write as _};

/// Elements one after the other.
#[derive(Debug, Default)]
pub(super) struct Xml {
    text: String,
}

impl Xml {
    /// Returns the elements that `write` adds.
    pub(super) fn fragment(write: impl FnOnce(&mut Self)) -> String {
        let mut xml = Self::default();
        write(&mut xml);
        xml.text
    }

    /// Returns a document with a root element that holds `content`, which is XML. An empty
    /// `namespace` is left out.
    pub(super) fn document(root: &str, namespace: &str, content: &str) -> String {
        let declaration = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
        let namespace = if namespace.is_empty() { String::new() } else { format!(" xmlns=\"{namespace}\"") };
        format!("{declaration}<{root}{namespace}>{content}</{root}>")
    }

    /// Adds an element with a text.
    pub(super) fn text(&mut self, name: &str, value: impl Display) {
        // Writing to a String cannot fail.
        let _ = write!(self.text, "<{name}>{}</{name}>", escaped(&value.to_string()));
    }

    /// Adds an element with a text, unless the text is empty.
    pub(super) fn text_unless_empty(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.text(name, value);
        }
    }

    /// Adds an element with a text, unless the text is missing.
    pub(super) fn text_if_some(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    /// Adds an element with elements in it.
    pub(super) fn element(&mut self, name: &str, write: impl FnOnce(&mut Self)) {
        let _ = write!(self.text, "<{name}>");
        write(self);
        let _ = write!(self.text, "</{name}>");
    }

    /// Adds a list of EC2: an element with one `item` each.
    pub(super) fn items<T>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.element(name, |xml| {
            for item in items {
                xml.element("item", |xml| write(xml, item));
            }
        });
    }

    /// Adds elements that are XML already.
    pub(super) fn raw(&mut self, xml: &str) {
        self.text.push_str(xml);
    }
}

/// Returns a text in which no character ends an element. Characters that XML cannot express become
/// U+FFFD.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // A parser would read it as a line feed.
            '\r' => escaped.push_str("&#xD;"),
            '\t' | '\n' => escaped.push(char),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            char => escaped.push(char),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped() {
        for (text, expected) in [
            ("a<b>&\"c\"'", "a&lt;b&gt;&amp;&quot;c&quot;'"),
            ("line\r\n\tnext", "line&#xD;\n\tnext"),
            ("\0\u{b}\u{ffff}ä", "\u{fffd}\u{fffd}\u{fffd}ä"),
        ] {
            assert_eq!(escaped(text), expected);
        }
    }

    #[test]
    fn elements_nest() {
        let content = Xml::fragment(|xml| {
            xml.text("count", 2);
            xml.text_if_some("missing", None::<&str>);
            xml.text_unless_empty("empty", "");
            xml.items("tagSet", ["<a>", "b"], |xml, key| xml.text("key", key));
        });
        assert_eq!(
            Xml::document("R", "urn:x", &content),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<R xmlns=\"urn:x\"><count>2</count><tagSet><item><key>&lt;a&gt;\
             </key></item><item><key>b</key></item></tagSet></R>"
        );
    }
}
