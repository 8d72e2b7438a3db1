//! Tests of host port conflicts.

use serde_json::json;

use super::*;
use crate::fixtures::pod;

fn with_port(ip: &str, port: i32, protocol: &str) -> Pod {
    let port = json!({"containerPort": 80, "hostPort": port, "hostIP": ip, "protocol": protocol});
    pod("p", json!({}), json!({"containers": [{"name": "c", "ports": [port]}]}))
}

#[test]
fn spec_02_66_ports_conflict_by_number_protocol_and_address() {
    let one = with_port("10.0.0.1", 8080, "TCP");
    assert!(conflict(&one, &with_port("0.0.0.0", 8080, "TCP")).is_some());
    assert!(conflict(&one, &with_port("::", 8080, "TCP")).is_some());
    assert!(conflict(&one, &with_port("", 8080, "")).is_some());
    assert!(conflict(&one, &with_port("10.0.0.1", 8080, "TCP")).is_some());
    assert!(conflict(&one, &with_port("10.0.0.2", 8080, "TCP")).is_none());
    assert!(conflict(&one, &with_port("10.0.0.1", 8081, "TCP")).is_none());
    assert!(conflict(&one, &with_port("10.0.0.1", 8080, "SCTP")).is_none());
}

#[test]
fn a_container_port_without_host_port_uses_no_host_port() {
    assert!(host_ports(&with_port("", 0, "TCP")).is_empty());
}
