//! Host ports: two pods on one node may not ask for the same port of the host.

use std::fmt;

use k8s_openapi::api::core::v1::Pod;

/// A port of the host that a pod occupies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// The address it is bound to; `0.0.0.0` and `::` are all addresses.
    pub ip: String,
    /// Its number.
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
}

impl HostPort {
    /// Whether both cannot be open on one host: same number and protocol, and one address or an address that is all of them.
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

/// The host ports of a pod: those of its containers, init containers aside.
pub fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let number = port.host_port.filter(|number| *number != 0)?;
            let or = |text: &Option<String>, default: &str| match text.as_deref() {
                None | Some("") => default.to_owned(),
                Some(text) => text.to_owned(),
            };
            Some(HostPort { ip: or(&port.host_ip, "0.0.0.0"), port: number, protocol: or(&port.protocol, "TCP") })
        })
        .collect()
}

/// The first pair of ports that two pods cannot both have.
pub fn conflict(a: &Pod, b: &Pod) -> Option<(HostPort, HostPort)> {
    let theirs = host_ports(b);
    host_ports(a).into_iter().find_map(|our| {
        let their = theirs.iter().find(|their| our.conflicts_with(their))?.clone();
        Some((our, their))
    })
}

#[cfg(test)]
mod tests;
