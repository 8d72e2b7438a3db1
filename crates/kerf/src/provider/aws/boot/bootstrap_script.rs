//! User data of AL2: shell scripts, alone or in a MIME archive, of which one calls the image's
//! `bootstrap.sh`. The last call counts.

use kerf_aws::user_data;

use super::kubelet_flags;
use super::{BootConfig, BootSoftware, UserDataProblem, shell_words};

const SCRIPT: &str = "/etc/eks/bootstrap.sh";

/// Reads the scripts in order.
pub(super) fn read(text: &str) -> Result<BootConfig, UserDataProblem> {
    let scripts = if text.trim_start().starts_with("#!") {
        vec![text.to_owned()]
    } else {
        let parts = user_data::read_archive(text).map_err(UserDataProblem::NoArchive)?;
        let is_script = |content_type: &str| content_type.trim_start().starts_with("text/x-shellscript");
        parts.into_iter().filter(|(content_type, _)| is_script(content_type)).map(|(_, content)| content).collect()
    };
    let mut call = None;
    for script in scripts {
        let commands = shell_words::commands(&script).map_err(UserDataProblem::Script)?;
        let mut calls = commands.into_iter().filter_map(|words| {
            let position = words.iter().position(|word| word == SCRIPT)?;
            Some(words[position + 1..].to_vec())
        });
        call = calls.next_back().or(call);
    }
    from_arguments(&call.ok_or(UserDataProblem::NoBootstrapCall(SCRIPT))?)
}

fn from_arguments(arguments: &[String]) -> Result<BootConfig, UserDataProblem> {
    let (mut cluster_name, mut endpoint, mut certificate_authority) = (None, None, None);
    let (mut extra_arguments, mut uses_raid0) = (String::new(), false);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--") else {
            // The script takes one name.
            cluster_name.get_or_insert_with(|| word.clone());
            continue;
        };
        // Option and value are two words: the script does not know `--option=value`.
        let value = words.next().cloned().unwrap_or_default();
        match option {
            "apiserver-endpoint" => endpoint = Some(value),
            "b64-cluster-ca" => certificate_authority = Some(value),
            "kubelet-extra-args" => extra_arguments = value,
            "local-disks" => uses_raid0 = value == "raid0",
            _ => {}
        }
    }
    let cluster_name = cluster_name.filter(|name| !name.is_empty());
    let flags = kubelet_flags::read(&shell_words::words(&extra_arguments).map_err(UserDataProblem::Script)?)?;
    Ok(BootConfig {
        software: BootSoftware::BootstrapScript,
        cluster_name: cluster_name.ok_or(UserDataProblem::NoClusterName { script: SCRIPT })?,
        endpoint,
        certificate_authority,
        cidr: String::new(),
        kubelet: flags.kubelet,
        labels: flags.labels,
        uses_raid0,
    })
}
