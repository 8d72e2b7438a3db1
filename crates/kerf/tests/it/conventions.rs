//! Conventions of all commands (spec 09 section 1): help, version, exit codes, stdout and stderr.

use std::process::Command;

use insta::assert_snapshot;

use crate::program::{kerf, run_without_reader, temp_folder};

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a}]}\n";

#[test]
fn the_help_pages_match_their_snapshots() {
    assert_snapshot!("help", kerf(&["--help"]).transcript());
    assert_snapshot!("help_aws", kerf(&["aws", "--help"]).transcript());
    assert_snapshot!("help_aws_serve", kerf(&["aws", "serve", "--help"]).transcript());
    assert_snapshot!("help_controller", kerf(&["controller", "--help"]).transcript());
    assert_snapshot!("help_crds", kerf(&["crds", "--help"]).transcript());
    assert_snapshot!("help_plan", kerf(&["plan", "--help"]).transcript());
    assert_snapshot!("help_sandbox", kerf(&["sandbox", "--help"]).transcript());
    assert_snapshot!("help_sandbox_run", kerf(&["sandbox", "run", "--help"]).transcript());
    assert_snapshot!("help_sandbox_aws", kerf(&["sandbox", "aws", "--help"]).transcript());
    assert_snapshot!("help_validate", kerf(&["validate", "--help"]).transcript());
}

#[test]
fn version_is_one_line() {
    assert_snapshot!(kerf(&["--version"]).transcript(), @r"
    exit code 0
    --- stdout
    kerf 0.1.0
    ");
}

#[test]
fn bad_usage_exits_with_2_and_prints_nothing_to_stdout() {
    for arguments in [&["nonsense"][..], &["validate", "--nonsense"], &[]] {
        let output = kerf(arguments).run();
        assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(output.stderr.contains("Usage: kerf"), "{arguments:?}: {}", output.stderr);
    }
}

#[test]
fn output_to_a_pipe_has_no_colour() {
    let output = kerf(&["validate", "-f", "missing.yaml"]).run();
    assert!(!output.stderr.contains('\x1b'), "{}", output.stderr);
}

// spec 09 #13, for every command: a pipe that closes early ends the program quietly
#[test]
fn a_closed_pipe_is_not_an_error() {
    assert_eq!(run_without_reader(&["validate", "-f", "-"], POD), (Some(0), String::new()));
    assert_eq!(run_without_reader(&["plan", "-f", "-"], POD), (Some(0), String::new()));
}

// Spec 09 section 1: a pipe that closes early ends the program with the right code, and the code of
// a tripped gate is 3.
#[test]
fn a_gate_trips_even_if_the_pipe_is_closed() {
    let (code, stderr) = run_without_reader(&["plan", "-f", "-", "--fail-on", "unschedulable", "-o", "json"], POD);
    assert_eq!((code, stderr.as_str()), (Some(3), "warning: --fail-on unschedulable: 1 pod would stay pending\n"));
}

// A full disk is an execution failure (code 1), not bad input (code 2).
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported_with_exit_code_1() {
    let folder = temp_folder(&[("pod.yaml", POD)]);
    for arguments in [&["validate", "-f", "pod.yaml"][..], &["--help"], &["plan", "--help"], &["--version"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let process_output = Command::new(assert_cmd::cargo::cargo_bin!("kerf"))
            .args(arguments)
            .current_dir(folder.path())
            .stdout(full)
            .output()
            .unwrap();
        let stderr = String::from_utf8(process_output.stderr).unwrap();
        let expected = "error: cannot write the result to stdout: No space left on device (os error 28)\n";
        assert_eq!((process_output.status.code(), stderr.as_str()), (Some(1), expected), "{arguments:?}");
    }
}
