//! Finds Rust files that are never compiled. A test file that no `mod` names looks like coverage
//! but never runs. The rule follows the `mod` declarations from the files that cargo compiles.

use std::collections::BTreeSet;

use super::TidyProblem;
use crate::code;
use crate::repository::Repository;

/// Files in this folder of a crate are compiled one by one by the fuzzer's own manifest.
const FUZZ_TARGETS: &str = "/fuzz_targets/";

pub(super) fn check(repository: &Repository) -> Vec<TidyProblem> {
    let mut pending: Vec<String> = repository.crates.iter().flat_map(|krate| krate.roots.iter().cloned()).collect();
    pending.extend(repository.rust().filter(|file| file.path.contains(FUZZ_TARGETS)).map(|file| file.path.clone()));
    let roots: BTreeSet<String> = pending.iter().cloned().collect();

    let mut alive = BTreeSet::new();
    while let Some(path) = pending.pop() {
        let Some(file) = repository.file(&path) else { continue };
        if !alive.insert(path.clone()) {
            continue;
        }
        let folder = module_folder(&path, roots.contains(&path));
        for module in code::modules(file.code()).into_iter().filter(|module| module.is_in_other_file) {
            pending.push(format!("{folder}/{}.rs", module.name));
            pending.push(format!("{folder}/{}/mod.rs", module.name));
        }
    }

    repository
        .rust()
        .filter(|file| !alive.contains(&file.path))
        .map(|file| {
            TidyProblem::in_file(&file.path, "no `mod` names this file, so it is never compiled: name it or delete it")
        })
        .collect()
}

/// Returns the folder that contains the modules that a file declares.
fn module_folder(path: &str, is_root: bool) -> &str {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    if is_root || path.ends_with("/mod.rs") { folder } else { path.strip_suffix(".rs").unwrap_or(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_no_mod_names_is_found() {
        let repository = Repository::of(&[
            ("crates/a/src/lib.rs", "mod b;\n#[cfg(test)]\nmod tests;\n// mod commented;\n"),
            ("crates/a/src/b.rs", "mod c;"),
            ("crates/a/src/b/c.rs", ""),
            ("crates/a/src/commented.rs", ""),
            ("crates/a/src/tests.rs", ""),
            ("crates/a/tests/it/main.rs", "mod plan;"),
            ("crates/a/tests/it/plan.rs", ""),
            ("crates/a/tests/it/orphan.rs", ""),
            ("crates/a/fuzz/fuzz_targets/quantity.rs", ""),
        ])
        .with_crate("a", &["crates/a/src/lib.rs", "crates/a/tests/it/main.rs"], &[]);
        let dead: Vec<String> = check(&repository).into_iter().map(|problem| problem.path).collect();
        assert_eq!(dead, ["crates/a/src/commented.rs", "crates/a/tests/it/orphan.rs"]);
    }
}
