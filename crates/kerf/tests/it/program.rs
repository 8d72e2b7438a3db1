//! Runs the program and renders exit code, stdout and stderr as one text for snapshots.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use assert_cmd::Command;

/// Builder of a run of the program.
pub(crate) struct KerfCommand {
    command: Command,
}

/// Exit code and output of a run.
pub(crate) struct RunResult {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Returns the program with arguments and with an empty environment, except for `HOME`.
pub(crate) fn kerf(arguments: &[&str]) -> KerfCommand {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("kerf"));
    command.args(arguments).env_clear().env("HOME", "/nonexistent");
    KerfCommand { command }
}

impl KerfCommand {
    /// Sets the working directory, so that paths in messages do not depend on the machine.
    pub(crate) fn current_dir(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn stdin(mut self, text: &str) -> Self {
        self.command.write_stdin(text);
        self
    }

    /// Runs the program to its end.
    pub(crate) fn run(mut self) -> RunResult {
        let output = self.command.output().unwrap();
        RunResult {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs the program and renders exit code, stdout and stderr; empty streams are omitted.
    pub(crate) fn transcript(self) -> String {
        let output = self.run();
        let mut text = format!("exit code {}\n", output.code);
        for (name, stream) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            if !stream.is_empty() {
                let _ = write!(text, "--- {name}\n{stream}");
            }
        }
        text
    }
}

/// Returns exit code and stderr of a run whose stdout is closed before the program gets its input.
pub(crate) fn run_without_reader(arguments: &[&str], stdin: &str) -> (Option<i32>, String) {
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("kerf"))
        .args(arguments)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin_writer = child.stdin.take().unwrap();
    stdin_writer.write_all(stdin.as_bytes()).unwrap();
    drop(stdin_writer);
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Creates a temporary folder with these files.
pub(crate) fn temp_folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}
