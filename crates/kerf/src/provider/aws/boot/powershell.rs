//! User data of Windows: a PowerShell block that calls `Start-EKSBootstrap.ps1`. The last call
//! counts.

use super::{BootConfig, BootSoftware, UserDataProblem, kubelet_flags, shell_words};

const SCRIPT: &str = "Start-EKSBootstrap.ps1";
/// Parameter that every call of the script has.
const CLUSTER_NAME: &str = "-EKSClusterName";

/// Reads the text between the tags.
pub(super) fn read(text: &str) -> Result<BootConfig, UserDataProblem> {
    let begin = text.find("<powershell>").map(|at| at + "<powershell>".len());
    let block = begin.and_then(|begin| text.get(begin..)).ok_or(UserDataProblem::NoBootstrapCall(SCRIPT))?;
    let block = block.split_once("</powershell>").map_or(block, |(block, _)| block);
    let call = block.lines().rfind(|line| line.contains(CLUSTER_NAME));
    let words = words(call.ok_or(UserDataProblem::NoBootstrapCall(SCRIPT))?);
    let value = |parameter: &str| -> Option<String> {
        let position = words.iter().position(|word| word.eq_ignore_ascii_case(parameter))?;
        words.get(position + 1).cloned()
    };
    let extra_arguments = value("-KubeletExtraArgs").unwrap_or_default();
    let flags = kubelet_flags::read(&shell_words::words(&extra_arguments).map_err(UserDataProblem::Script)?)?;
    let cluster_name = value(CLUSTER_NAME).filter(|name| !name.is_empty());
    Ok(BootConfig {
        software: BootSoftware::Windows,
        cluster_name: cluster_name.ok_or(UserDataProblem::NoClusterName { script: SCRIPT })?,
        endpoint: value("-APIServerEndpoint"),
        certificate_authority: value("-Base64ClusterCA"),
        cidr: String::new(),
        kubelet: flags.kubelet,
        labels: flags.labels,
        uses_raid0: false,
    })
}

/// Returns the words of a line. Quotes hold a word together; two single quotes in single quotes are
/// one, and a backtick makes the next character literal in double quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            char if char.is_whitespace() => words.extend(word.take()),
            quote @ ('\'' | '"') => {
                let word = word.get_or_insert_default();
                while let Some(char) = chars.next() {
                    if char == quote {
                        if chars.next_if_eq(&quote).is_none() {
                            break;
                        }
                        word.push(quote);
                    } else if char == '`' && quote == '"' {
                        word.extend(chars.next());
                    } else {
                        word.push(char);
                    }
                }
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}
