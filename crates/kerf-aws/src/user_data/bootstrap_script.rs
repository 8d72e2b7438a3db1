//! User data of AL2: a call of the image's `bootstrap.sh`, in a MIME archive after the parts of the
//! user (spec 05 §14.2).

use std::fmt::Write as _;
use std::net::Ipv6Addr;

use super::kubelet_flags::kubelet_flags;
use super::mime::{self, Part, SHELL_SCRIPT};
use super::{UserDataError, UserDataInput};

/// Returns the user data.
pub(super) fn render(input: &UserDataInput<'_>) -> Result<String, UserDataError> {
    let mut parts = mime::custom_parts(input.custom.unwrap_or_default(), || SHELL_SCRIPT)?;
    parts.push(Part::new(SHELL_SCRIPT, script(input)));
    Ok(mime::write(&parts))
}

/// Returns the script. `bootstrap.sh` accepts no `=` between an option and its value.
fn script(input: &UserDataInput<'_>) -> String {
    let mut script = String::from(
        "#!/bin/bash -xe\nexec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n",
    );
    let (name, endpoint) = (input.cluster_name, &input.cluster.endpoint);
    // Writing to a String cannot fail.
    let _ = write!(script, "/etc/eks/bootstrap.sh '{name}' --apiserver-endpoint '{endpoint}'");
    if let Some(ca_bundle) = &input.cluster.ca_bundle {
        let _ = write!(script, " --b64-cluster-ca '{ca_bundle}'");
    }
    if let Some(address) = input.cluster_dns().first() {
        let is_ipv6 = |address: Ipv6Addr| address.to_ipv4_mapped().is_none();
        if address.parse::<Ipv6Addr>().is_ok_and(is_ipv6) {
            script.push_str(" \\\n--ip-family ipv6");
        }
        let _ = write!(script, " \\\n--dns-cluster-ip '{address}'");
    }
    // The flags always have a number of pods, which the script would overwrite otherwise.
    let _ = write!(script, " \\\n--use-max-pods false \\\n--kubelet-extra-args '{}'", kubelet_flags(input));
    if input.uses_raid0 {
        script.push_str(" \\\n--local-disks raid0");
    }
    script
}
