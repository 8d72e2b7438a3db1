//! Host ports: two pods on one node may not use the same port of the host.

use std::fmt;

use k8s_openapi::api::core::v1::Pod;

/// A port of the host that a pod occupies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// Address that the port is bound to; `0.0.0.0` and `::` mean every address.
    pub ip: String,
    /// Port number on the host.
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
}

impl HostPort {
    /// Returns true if both ports cannot be open on one host: number and protocol are equal, and
    /// the addresses are equal or one of them means every address.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let all = |ip: &str| ip == "0.0.0.0" || ip == "::";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || all(&self.ip) || all(&other.ip))
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}/{}", self.ip, self.port, self.protocol)
    }
}

/// Returns the host ports of the pod's containers. Init containers are not included.
pub fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let number = port.host_port.filter(|number| *number != 0)?;
            let or_default = |text: &Option<String>, default: &str| match text.as_deref() {
                None | Some("") => default.to_owned(),
                Some(text) => text.to_owned(),
            };
            Some(HostPort {
                ip: or_default(&port.host_ip, "0.0.0.0"),
                port: number,
                protocol: or_default(&port.protocol, "TCP"),
            })
        })
        .collect()
}

/// Returns the first pair of host ports of the two pods that conflict, `a`'s port first. Returns
/// `None` if no ports conflict.
pub fn conflict(a: &Pod, b: &Pod) -> Option<(HostPort, HostPort)> {
    let other_ports = host_ports(b);
    host_ports(a).into_iter().find_map(|port| {
        let other_port = other_ports.iter().find(|other_port| port.conflicts_with(other_port))?.clone();
        Some((port, other_port))
    })
}

#[cfg(test)]
mod tests;
