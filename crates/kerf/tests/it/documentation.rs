//! Compares the simulations that README.md and docs/DEBUGGING.md quote with what the program
//! prints. The simulations run in virtual time, so that equal arguments give equal output.

use std::path::Path;

use crate::program::{RunResult, kerf, temp_folder};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns the code block of a page that contains `text`.
fn code_block(page: &str, text: &str) -> String {
    let page = std::fs::read_to_string(root().join(page)).unwrap();
    let mut blocks = page.split("```").skip(1).step_by(2);
    blocks.find(|block| block.contains(text)).unwrap_or_else(|| panic!("no code block contains {text}")).to_owned()
}

/// Runs the `kerf` command of a line such as `$ kerf plan | jq .`, in the root of the repository.
fn run_line(line: &str) -> RunResult {
    let command = line.trim_start_matches("$ ").strip_prefix("kerf ").unwrap();
    let end = command.find(['|', '>']).unwrap_or(command.len());
    let arguments: Vec<&str> = command[..end].trim_end_matches(" 2").split_whitespace().collect();
    kerf(&arguments).current_dir(root()).run()
}

/// Returns true if the log has a line with all words of `quoted`, which may leave words out.
fn has_log_line(log: &str, quoted: &str) -> bool {
    let parts: Vec<&str> = quoted.split(|c: char| c == '…' || c.is_whitespace()).collect();
    log.lines().any(|line| parts.iter().all(|part| line.contains(part)))
}

#[test]
fn the_readme_quotes_the_story_scenario() {
    let block = code_block("README.md", "00:02:00");
    let output = kerf(&["sandbox", "run", "scenarios/story.yaml"]).current_dir(root()).run();
    for line in block.lines().filter(|line| line.starts_with("00:")) {
        assert!(output.stdout.lines().any(|printed| printed == line), "{line}\n{}", output.stdout);
    }
}

#[test]
fn the_debugging_page_quotes_a_violated_invariant() {
    let block = code_block("docs/DEBUGGING.md", "/tmp/big.yaml --seed 9");
    let (scenario, quoted) = block.split_once("$ kerf sandbox run /tmp/big.yaml --seed 9\n…\n").unwrap();
    let folder = temp_folder(&[("big.yaml", scenario.trim_start().strip_prefix("$ cat /tmp/big.yaml\n").unwrap())]);
    let output = kerf(&["sandbox", "run", "big.yaml", "--seed", "9"]).current_dir(folder.path()).run();
    assert!(output.stdout.ends_with(quoted), "{quoted}\n{}{}", output.stdout, output.stderr);
}

#[test]
fn the_debugging_page_quotes_a_run_in_its_current_form() {
    let block = code_block("docs/DEBUGGING.md", ".fingerprint");
    let (command, quoted) = block.trim().split_once('\n').unwrap();
    let output = run_line(command);
    let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    // The value changes with every change of a decision or of an object; only its form is compared.
    let quoted: serde_json::Value = serde_json::from_str(quoted).unwrap();
    let is_fingerprint = |text: &serde_json::Value| {
        text.as_str().is_some_and(|text| text.len() == 16 && u64::from_str_radix(text, 16).is_ok())
    };
    assert!(is_fingerprint(&quoted[0]) && is_fingerprint(&report["fingerprint"]), "{quoted} {}", report["fingerprint"]);
    assert_eq!(quoted[1], report["violations"]);
}

#[test]
fn the_debugging_page_quotes_the_log_of_a_run() {
    let command = code_block("docs/DEBUGGING.md", "2> /tmp/story-7.log");
    let log = run_line(command.trim()).stderr;
    let decision = code_block("docs/DEBUGGING.md", "computed new nodeclaim(s)");
    let disruption = code_block("docs/DEBUGGING.md", "grep 'command-id=");
    let quoted = decision.lines().chain(disruption.lines().filter(|line| !line.starts_with('$')));
    for line in quoted {
        assert!(has_log_line(&log, line), "{line}\n{log}");
    }
}

/// Returns the code blocks of docs/SANDBOX.md in this language; the shell blocks have none.
fn sandbox_blocks(language: &str) -> Vec<String> {
    let page = std::fs::read_to_string(root().join("docs/SANDBOX.md")).unwrap();
    let blocks = page.split("\n```").skip(1).step_by(2);
    blocks.filter_map(|block| Some(block.strip_prefix(language)?.strip_prefix('\n')?.to_owned())).collect()
}

#[test]
fn the_scenarios_of_the_sandbox_page_run_as_they_are() {
    let scenarios = sandbox_blocks("yaml");
    assert!(scenarios.len() >= 2);
    for scenario in scenarios {
        let folder = temp_folder(&[("scenario.yaml", &scenario)]);
        let output = kerf(&["sandbox", "run", "scenario.yaml"]).current_dir(folder.path()).run();
        assert_eq!(output.code, 0, "{scenario}\n{}{}", output.stdout, output.stderr);
    }
}

#[test]
fn the_commands_of_the_sandbox_page_run_as_they_are() {
    let mut manifests = 0;
    let mut sandboxes = 0;
    for block in sandbox_blocks("") {
        for line in block.lines() {
            let command = line.split(" #").next().unwrap().trim();
            let words: Vec<&str> = command.split_whitespace().collect();
            match words[..] {
                ["kubectl", "apply", "-f", file] => {
                    manifests += 1;
                    let output = kerf(&["validate", "-f", file]).current_dir(root()).run();
                    assert_eq!(output.code, 0, "{command}: {}", output.stderr);
                }
                // Other tests run the story scenario, the demo and changes of the account.
                ["kerf", "sandbox", "run" | "aws", ..] | ["kerf", "sandbox", "--demo"] => {}
                ["kerf", "sandbox", ..] => {
                    sandboxes += 1;
                    // Without a command of its own the sandbox runs until Ctrl-C.
                    let (own, script) = match words.iter().position(|word| *word == "--") {
                        Some(at) => (&words[1..at], words[at + 1..].join(" ")),
                        None => (&words[1..], "true".to_owned()),
                    };
                    let script =
                        format!("PATH=/usr/local/bin:/usr/bin:/bin HOME=/nonexistent; export PATH HOME; {script}");
                    let output = kerf(&[own, &["--", "/bin/sh", "-c", &script]].concat()).current_dir(root()).run();
                    assert_eq!(output.code, 0, "{command}: {}{}", output.stdout, output.stderr);
                }
                _ => {}
            }
        }
    }
    assert!(manifests >= 2 && sandboxes >= 4, "{manifests} {sandboxes}");
}
