//! Skips files that a folder of an ordinary repository has besides manifests.

use std::ffi::OsStr;
use std::path::Path;

use super::documents::SplitText;
use super::source::Source;

/// Maximum number of names in the line about files that are not manifests.
const SKIPPED_NAMES_MAX: usize = 5;

/// Returns true if the file was found in a folder and is none that kubectl would apply: a Helm
/// template, a kustomization, or a file without `kind`, such as `Chart.yaml` or `package.json`.
pub(super) fn is_no_manifest(source: &Source, split: &SplitText<'_>) -> bool {
    let is_kustomization = || {
        let stem = Path::new(&source.name).file_stem().and_then(OsStr::to_str);
        stem.is_some_and(|stem| stem.eq_ignore_ascii_case("kustomization"))
    };
    let has_kind = || split.objects.iter().any(|object| !object.kind.is_empty());
    // The text of a file that cannot be parsed may still show that it is meant as a manifest.
    let mentions_kind = || source.text.contains("kind") && source.text.contains("apiVersion");
    let is_in_templates = || Path::new(&source.name).components().any(|part| part.as_os_str() == "templates");
    let is_template = || source.text.contains("{{") && (!split.unreadable.is_empty() || is_in_templates());
    let lacks_kind = || !has_kind() && (split.unreadable.is_empty() || !mentions_kind());
    let is_blank = || split.objects.is_empty() && split.unreadable.is_empty();
    source.is_from_folder && !is_blank() && (is_kustomization() || is_template() || lacks_kind())
}

/// Returns one line about files that were skipped, or `None` if there are none.
pub(super) fn skipped_files_warning(names: &[&str]) -> Option<String> {
    let listed = names.iter().take(SKIPPED_NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    let more = if names.len() > SKIPPED_NAMES_MAX { ", …" } else { "" };
    let files = if names.len() == 1 { "file that is no manifest" } else { "files that are no manifests" };
    (!names.is_empty()).then(|| format!("skipped {} {files}: {listed}{more}", names.len()))
}
