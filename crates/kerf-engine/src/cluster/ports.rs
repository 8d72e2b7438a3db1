//! Host ports: two pods on one node cannot use the same address, port and protocol (spec 02 §9.3).

use kerf_api::slim::{HostPort, Pod, PodSpec};

/// Returns the host ports of a pod. Init containers do not count.
pub(crate) fn host_ports_of_spec(spec: &PodSpec) -> Vec<HostPort> {
    spec.containers.iter().flat_map(|c| c.ports.iter().cloned()).collect()
}

/// Returns the first wanted port that conflicts, with the port that is in use.
pub(crate) fn first_conflict<'a>(wanted: &'a [HostPort], used: &'a [HostPort]) -> Option<(&'a HostPort, &'a HostPort)> {
    wanted.iter().find_map(|w| used.iter().find(|t| are_conflicting(w, t)).map(|t| (w, t)))
}

fn are_conflicting(a: &HostPort, b: &HostPort) -> bool {
    let is_unspecified = |p: &HostPort| p.ip == "0.0.0.0" || p.ip == "::";
    a.port == b.port && a.protocol == b.protocol && (a.ip == b.ip || is_unspecified(a) || is_unspecified(b))
}

pub(crate) fn host_ports(pod: &Pod) -> Vec<HostPort> {
    host_ports_of_spec(&pod.spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(ip: &str, port: i32, protocol: &str) -> HostPort {
        HostPort { ip: ip.into(), port, protocol: protocol.into() }
    }

    #[test]
    fn spec_02_66_an_unspecified_address_conflicts_with_every_address() {
        let wanted = [port("10.0.0.1", 80, "TCP")];
        assert!(first_conflict(&wanted, &[port("0.0.0.0", 80, "TCP")]).is_some());
        assert!(first_conflict(&wanted, &[port("::", 80, "TCP")]).is_some());
        assert!(first_conflict(&wanted, &[port("10.0.0.2", 80, "TCP")]).is_none());
        assert!(first_conflict(&wanted, &[port("0.0.0.0", 80, "SCTP")]).is_none());
        assert!(first_conflict(&wanted, &[port("0.0.0.0", 81, "TCP")]).is_none());
    }
}
