//! `kerf crds`: prints the CRD manifests. A test compares `deploy/crds/` with the output of the
//! same code.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;
use kerf_api::crds::{self, Crd, CrdVariant};
use serde_json::{Value, json};

use crate::args::{CrdsOptions, CrdsOutput};
use crate::exit::{CommandFailure, Exit, Problem};
use crate::output;

pub(super) fn run(options: &CrdsOptions) -> Result<Exit, CommandFailure> {
    let crds = select_crds(options.crd_variant, options.group.as_deref())?;
    match &options.output {
        CrdsOutput::Yaml => output::print_text(&yaml_stream(&crds)),
        CrdsOutput::Json => output::print(|writer| output::json::write(&json_list(&crds), writer)),
        CrdsOutput::Table => output::print_text(&summary_table(&crds)),
        CrdsOutput::Folder(folder) => {
            output::print_text(&write_files(folder, &crds).map_err(CommandFailure::ExecutionFailed)?)
        }
    }?;
    Ok(Exit::Done)
}

fn select_crds(variant: CrdVariant, group: Option<&str>) -> Result<Vec<Crd>, CommandFailure> {
    let all = crds::all(variant);
    let Some(group) = group else { return Ok(all) };
    let mut groups: Vec<&str> = all.iter().map(Crd::group).collect();
    groups.dedup();
    if !groups.contains(&group) {
        let problem = Problem::new(format!("--group: Kerf has no CRD in the API group `{group}`"));
        return Err(CommandFailure::bad_input(problem.with_hint(format!("use one of: {}", groups.join(", ")))));
    }
    Ok(all.into_iter().filter(|crd| crd.group() == group).collect())
}

/// Returns the manifests as a stream of YAML documents.
fn yaml_stream(crds: &[Crd]) -> String {
    let documents: Vec<String> = crds.iter().map(Crd::to_yaml).collect();
    format!("---\n{}", documents.join("---\n"))
}

/// Returns the manifests as one `List` object that `kubectl` accepts.
fn json_list(crds: &[Crd]) -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "items": crds.iter().map(Crd::json).collect::<Vec<_>>() })
}

fn summary_table(crds: &[Crd]) -> String {
    let row = |crd: &Crd| {
        let spec = &crd.json()["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let short_names: Vec<String> = spec["names"]["shortNames"].as_array().into_iter().flatten().map(text).collect();
        let version = format!("{}/{}", crd.group(), text(&spec["versions"][0]["name"]));
        [crd.kind().to_owned(), version, text(&spec["scope"]), crd.plural().to_owned(), short_names.join(",")]
    };
    output::table(&["KIND", "APIVERSION", "SCOPE", "NAME", "SHORT"], crds.iter().map(row))
}

/// Writes one file per kind and returns the paths, one per line.
fn write_files(folder: &Path, crds: &[Crd]) -> anyhow::Result<String> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create the folder {}", folder.display()))?;
    let mut paths = String::new();
    for crd in crds {
        let path = folder.join(crd.file_name());
        std::fs::write(&path, crd.to_yaml()).with_context(|| format!("cannot write {}", path.display()))?;
        let _ = writeln!(paths, "{}", path.display());
    }
    Ok(paths)
}
