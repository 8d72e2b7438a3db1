//! User data of Windows: a PowerShell block that calls the image's bootstrap script after the text
//! of the user (spec 05 §14.5). The instance store policy has no effect.

use std::fmt::Write as _;

use super::UserDataInput;
use super::kubelet_flags::kubelet_flags;

/// Returns the user data.
pub(super) fn render(input: &UserDataInput<'_>) -> String {
    let mut text = String::from("<powershell>\n");
    // Writing to a String cannot fail.
    if let Some(custom) = input.custom.filter(|custom| !custom.is_empty()) {
        let _ = writeln!(text, "{custom}");
    }
    text.push_str("[string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n");
    let (name, endpoint) = (input.cluster_name, &input.cluster.endpoint);
    let _ = write!(text, "& $EKSBootstrapScriptFile -EKSClusterName '{name}' -APIServerEndpoint '{endpoint}'");
    if let Some(ca_bundle) = &input.cluster.ca_bundle {
        let _ = write!(text, " -Base64ClusterCA '{ca_bundle}'");
    }
    let _ = write!(text, " -KubeletExtraArgs '{}'", kubelet_flags(input));
    if let Some(address) = input.cluster_dns().first() {
        let _ = write!(text, " -DNSClusterIP '{address}'");
    }
    text.push_str("\n</powershell>");
    text
}
