//! Malformed scenario files: `kerf sandbox run` rejects each, names line and field, and says what
//! is expected in the words of YAML.

use std::fmt::Write as _;

use crate::program::kerf;
use crate::program::temp_folder;

/// Scenario files with a mistake each, in sections that begin with `=== title`.
const FILES: &str = include_str!("malformed_scenarios/files.txt");

/// Words that only a Rust programmer knows, or that name the reader's own types.
const RUST_TERMS: [&str; 12] =
    ["u32", "u64", "usize", "i64", "f64", "struct ", "variant", "enum ", "sequence", "expected", "null", "unit"];

#[test]
fn malformed_scenarios_are_rejected_with_line_and_field() {
    let sections: Vec<(&str, &str)> =
        FILES.split("=== ").skip(1).map(|section| section.split_once('\n').unwrap()).collect();
    assert!(sections.len() >= 60, "{}", sections.len());
    let folder = temp_folder(&[]);
    let mut answers = String::new();
    for (title, text) in sections {
        std::fs::write(folder.path().join("sc.yaml"), text).unwrap();
        let output = kerf(&["sandbox", "run", "sc.yaml"]).current_dir(folder.path()).run();
        assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{title}: {}", output.stderr);
        for line in output.stderr.lines() {
            assert!(line.starts_with("error: sc.yaml, line "), "{title}: {line}");
        }
        for term in RUST_TERMS {
            assert!(!output.stderr.contains(term), "{title}: {term:?} in {}", output.stderr);
        }
        write!(answers, "{title}\n{}\n", output.stderr).unwrap();
    }
    insta::assert_snapshot!(answers);
}

#[test]
fn options_that_do_not_fit_a_scenario_are_rejected() {
    let folder = temp_folder(&[("sc.yaml", "{name: x, until: 1h, steps: []}")]);
    let stderr = |arguments: &[&str]| {
        let output = kerf(&[&["sandbox", "run", "sc.yaml"], arguments].concat()).current_dir(folder.path()).run();
        assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{}", output.stderr);
        output.stderr
    };
    insta::assert_snapshot!(stderr(&["--until", "300000h"]), @"error: --until: must be at most 8784h, a year");
    insta::assert_snapshot!(stderr(&["--until", "30m", "--faults", "error@10m,conflict@30m-40m"]), @"error: --faults: the window begins at the end of the scenario or later, so the fault is never active; both ends of a window are times since the start of the run");
    let every_second = "{name: x, until: 1h, steps: [{at: 0s, every: 1s, say: a}]}";
    std::fs::write(folder.path().join("sc.yaml"), every_second).unwrap();
    insta::assert_snapshot!(stderr(&["--until", "8784h"]), @"error: --until: steps: happen 31622401 times, at most 500000 are possible: repeat them less often");
    insta::assert_snapshot!(stderr(&["--until", "0s"]), @"error: --until: must be longer than 0s");
}
