//! Reads files, folders and stdin. All of them are read before anything is decoded, in an order
//! that does not depend on the file system. Everything that cannot be read is reported at once.

use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::args::InputPath;
use crate::exit::Problem;

/// Extensions of files that are read from a folder. A file that is named explicitly may have any
/// extension.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// One text that was read.
#[derive(Debug)]
pub(crate) struct Source {
    /// Name for messages: the path, `stdin`, or the list of a live cluster.
    pub(crate) name: String,
    pub(crate) text: String,
    /// True for a file that was found in a folder. It need not be a manifest.
    pub(crate) is_from_folder: bool,
}

/// The origin of an object: its position in the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectOrigin {
    /// Index of the source.
    pub(crate) source: u32,
    /// Number of the document in the source, from 1.
    pub(crate) document: u32,
    /// Number of the object among the items of the lists in the document, from 1; 0 if the document
    /// is not a list.
    pub(crate) item: u32,
    /// Line on which the object begins, from 1; for an item of a YAML list the line of its
    /// document.
    pub(crate) line: u32,
}

/// Names of the sources; they are needed longer than the texts.
#[derive(Debug, Default)]
pub(crate) struct SourceNames(Vec<String>);

impl SourceNames {
    pub(crate) fn of(sources: &[Source]) -> Self {
        Self(sources.iter().map(|source| source.name.clone()).collect())
    }

    /// Returns the origin for a message: `pools.yaml, document 3, line 17`.
    pub(crate) fn display_origin(&self, origin: ObjectOrigin) -> OriginDisplay<'_> {
        OriginDisplay { name: self.0.get(origin.source as usize).map_or("?", String::as_str), origin }
    }
}

/// Displays an origin; see [`SourceNames::display_origin`].
pub(crate) struct OriginDisplay<'n> {
    name: &'n str,
    origin: ObjectOrigin,
}

impl fmt::Display for OriginDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectOrigin { document, item, line, .. } = self.origin;
        write!(f, "{}, document {document}, line {line}", self.name)?;
        if item > 0 { write!(f, ", item {item}") } else { Ok(()) }
    }
}

/// Reads all paths. Returns a problem for each path that cannot be read.
pub(crate) fn read(inputs: &[InputPath]) -> (Vec<Source>, Vec<Problem>) {
    let mut reader = SourceReader::default();
    for input in inputs {
        match input {
            InputPath::Stdin => reader.read_stdin(),
            InputPath::Path(path) if path.is_dir() => reader.read_folder(path),
            InputPath::Path(path) => reader.read_file(path, false),
        }
    }
    (reader.sources, reader.problems)
}

#[derive(Default)]
struct SourceReader {
    sources: Vec<Source>,
    problems: Vec<Problem>,
    /// Real paths of the folders that were entered: symbolic links may form a cycle.
    entered: BTreeSet<PathBuf>,
    stdin_is_read: bool,
}

impl SourceReader {
    fn read_stdin(&mut self) {
        if std::mem::replace(&mut self.stdin_is_read, true) {
            self.problems.push(Problem::new("stdin: can be read only once, and `-f -` was given twice"));
            return;
        }
        let mut bytes = Vec::new();
        let outcome = std::io::stdin().lock().read_to_end(&mut bytes);
        self.add_source("stdin".to_owned(), outcome.map(|_| bytes), false);
    }

    fn read_file(&mut self, path: &Path, is_from_folder: bool) {
        self.add_source(path.display().to_string(), std::fs::read(path), is_from_folder);
    }

    fn read_folder(&mut self, folder: &Path) {
        let entries = std::fs::canonicalize(folder).and_then(|real| {
            if !self.entered.insert(real) {
                return Ok(Vec::new());
            }
            let mut entries = std::fs::read_dir(folder)?
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<Result<Vec<_>, _>>()?;
            entries.sort();
            Ok(entries)
        });
        match entries {
            Ok(entries) => {
                for entry in entries {
                    if entry.is_dir() {
                        self.read_folder(&entry);
                    } else if entry
                        .extension()
                        .is_some_and(|extension| EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)))
                    {
                        self.read_file(&entry, true);
                    }
                }
            }
            Err(cause) => self.problems.push(Problem::new(format!("{}: cannot be read: {cause}", folder.display()))),
        }
    }

    fn add_source(&mut self, name: String, bytes: std::io::Result<Vec<u8>>, is_from_folder: bool) {
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(cause) => {
                self.problems.push(Problem::new(format!("{name}: cannot be read: {cause}")));
                return;
            }
        };
        match String::from_utf8(bytes) {
            Ok(mut text) => {
                if text.starts_with('\u{feff}') {
                    text.remove(0);
                }
                self.sources.push(Source { name, text, is_from_folder });
            }
            Err(cause) => {
                let valid = cause.utf8_error().valid_up_to();
                self.problems.push(Problem::new(format!("{name}: is not text: byte {} is not UTF-8", valid + 1)));
            }
        }
    }
}
