//! What holds for every command (spec 09 section 1): help, version, exit codes, where output goes.

use std::process::{Command, Stdio};

use insta::assert_snapshot;

use crate::program::{folder, kerf};

#[test]
fn help_reads_like_documentation() {
    assert_snapshot!("help", kerf(&["--help"]).seen());
    assert_snapshot!("help_controller", kerf(&["controller", "--help"]).seen());
    assert_snapshot!("help_crds", kerf(&["crds", "--help"]).seen());
    assert_snapshot!("help_plan", kerf(&["plan", "--help"]).seen());
    assert_snapshot!("help_sandbox", kerf(&["sandbox", "--help"]).seen());
    assert_snapshot!("help_validate", kerf(&["validate", "--help"]).seen());
}

#[test]
fn version_is_one_line() {
    assert_snapshot!(kerf(&["--version"]).seen(), @r"
    exit code 0
    --- stdout
    kerf 0.1.0
    ");
}

#[test]
fn bad_usage_ends_with_2_and_says_nothing_on_stdout() {
    for arguments in [&["nonsense"][..], &["validate", "--nonsense"], &[]] {
        let seen = kerf(arguments).run();
        assert_eq!((seen.code, seen.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(seen.stderr.contains("Usage: kerf"), "{arguments:?}: {}", seen.stderr);
    }
}

#[test]
fn nothing_is_coloured_when_nobody_looks() {
    let seen = kerf(&["validate", "-f", "missing.yaml"]).run();
    assert!(!seen.stderr.contains('\x1b'), "{}", seen.stderr);
}

// spec 09 #13, for every command: a pipe that closes early ends the program quietly
#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = folder(&[("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")]);
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("kerf"))
        .args(["validate", "-f", "-"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The reader goes before the program has even its input.
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n").unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

// A full disk is a failure of the work, not of the input.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_said_and_ends_with_1() {
    let folder = folder(&[("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(assert_cmd::cargo::cargo_bin!("kerf"))
        .args(["validate", "-f", "pod.yaml"])
        .current_dir(folder.path())
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @"error: cannot write the result to stdout: No space left on device (os error 28)");
}
