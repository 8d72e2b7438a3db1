//! Settings of EC2 instances: metadata service, CPU, network, placement (spec 01 §7.3).
//!
//! Values that are only passed to EC2 are kept as strings; the schema lists the values that EC2
//! accepts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::open_enum::open_enum;
use crate::schema::{CelRule, rule};

/// Access of an instance to the instance metadata service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetadataOptions {
    /// Enables or disables the metadata service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "enabled", "enum" = ["enabled", "disabled"]))]
    pub http_endpoint: Option<String>,
    /// Enables or disables the IPv6 endpoint of the metadata service.
    #[serde(default, rename = "httpProtocolIPv6", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "disabled", "enum" = ["enabled", "disabled"]))]
    pub http_protocol_ipv6: Option<String>,
    /// Number of network hops that a response of the metadata service may travel. A limit of one
    /// keeps it from pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 1, "minimum" = 1, "maximum" = 64))]
    pub http_put_response_hop_limit: Option<i64>,
    /// If required, requests to the metadata service need a session token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "required", "enum" = ["required", "optional"]))]
    pub http_tokens: Option<String>,
}

/// CPU options of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuOptions {
    /// Enables or disables virtual machines inside the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["enabled", "disabled"]))]
    pub nested_virtualization: Option<String>,
}

/// Nitro Enclaves of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnclaveOptions {
    /// If true, instances have Nitro Enclaves enabled, and only types that support them are
    /// launched.
    pub enabled: bool,
}

const SOME_TIMEOUT: CelRule = rule(
    "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
    "at least one of tcpEstablishedTimeout, udpStreamTimeout, or udpTimeout must be set",
);

/// Timeouts of connection tracking, in seconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [SOME_TIMEOUT]))]
pub struct ConnectionTracking {
    /// Seconds after which an idle established TCP connection is no longer tracked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 60, "maximum" = 432_000))]
    pub tcp_established_timeout: Option<i32>,
    /// Seconds after which an idle UDP flow with more than one request and response is no longer
    /// tracked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 60, "maximum" = 180))]
    pub udp_stream_timeout: Option<i32>,
    /// Seconds after which an idle UDP flow in one direction, or with a single response, is no
    /// longer tracked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 30, "maximum" = 60))]
    pub udp_timeout: Option<i32>,
}

open_enum! {
    /// Type of a network interface.
    #[derive(Default)]
    pub enum InterfaceType {
        /// Standard network interface.
        #[default]
        Interface = "interface",
        /// Elastic Fabric Adapter without an IP address.
        EfaOnly = "efa-only",
    }
}

/// The list is empty or has a primary interface.
pub(super) const PRIMARY_INTERFACE: CelRule = rule(
    "self.size() == 0 || self.exists(x, x.networkCardIndex == 0 && x.deviceIndex == 0 && x.interfaceType == 'interface')",
    "networkInterfaces must include a primary interface with interfaceType='interface'",
);
/// No two interfaces have the same position, and no network card has two EFA-only interfaces.
pub(super) const DISTINCT_INTERFACES: CelRule = rule(
    "self.all(x, \
       self.exists_one(y, y.networkCardIndex == x.networkCardIndex && y.deviceIndex == x.deviceIndex) && \
       (x.interfaceType != 'efa-only' || \
         self.exists_one(y, y.networkCardIndex == x.networkCardIndex && y.interfaceType == 'efa-only')))",
    "networkInterfaces must not have duplicate networkCardIndex and deviceIndex pairs, and can have at most one efa device \
     per network card",
);

/// Network interface of an instance at launch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkInterface {
    /// Position of the interface on its network card.
    #[schemars(extend("minimum" = 0))]
    pub device_index: i32,
    /// Type of the interface: a standard one (interface) or an Elastic Fabric Adapter without an IP
    /// address (efa-only).
    pub interface_type: InterfaceType,
    /// Index of the network card of the interface.
    #[schemars(extend("minimum" = 0))]
    pub network_card_index: i32,
}

const NAME_OR_ID: CelRule = rule("has(self.name) || has(self.id)", "expected at least one, got none, ['name', 'id']");
const NOT_NAME_AND_ID: CelRule = rule("!has(self.name) || !has(self.id)", "'name' and 'id' are mutually exclusive");

/// Placement group, by name or by ID.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [NAME_OR_ID, NOT_NAME_AND_ID]))]
pub struct PlacementGroupSelector {
    /// ID of the placement group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^pg-[0-9a-z]+$"))]
    pub id: Option<String>,
    /// Name of the placement group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minLength" = 1))]
    pub name: Option<String>,
}
