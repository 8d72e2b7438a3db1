//! Settings of EC2 instances: metadata service, CPU, network, placement (spec 01 §7.3).
//!
//! Values that are only passed to EC2 are kept as strings; the schema lists the values that EC2
//! accepts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::open_enum::open_enum;
use crate::schema::{CelRule, rule};

/// Access to the metadata service from an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetadataOptions {
    /// Whether the metadata service answers at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "enabled", "enum" = ["enabled", "disabled"]))]
    pub http_endpoint: Option<String>,
    /// Whether the metadata service answers on IPv6.
    #[serde(default, rename = "httpProtocolIPv6", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "disabled", "enum" = ["enabled", "disabled"]))]
    pub http_protocol_ipv6: Option<String>,
    /// Network hops that an answer of the metadata service may travel. One keeps pods out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 1, "minimum" = 1, "maximum" = 64))]
    pub http_put_response_hop_limit: Option<i64>,
    /// Whether the metadata service insists on session tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "required", "enum" = ["required", "optional"]))]
    pub http_tokens: Option<String>,
}

/// Options of an instance's processors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuOptions {
    /// Whether virtual machines can run inside the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["enabled", "disabled"]))]
    pub nested_virtualization: Option<String>,
}

const SOME_TIMEOUT: CelRule = rule(
    "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
    "at least one of tcpEstablishedTimeout, udpStreamTimeout, or udpTimeout must be set",
);

/// How long idle connections are tracked, in seconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [SOME_TIMEOUT]))]
pub struct ConnectionTracking {
    /// Seconds that an idle established TCP connection is tracked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 60, "maximum" = 432_000))]
    pub tcp_established_timeout: Option<i32>,
    /// Seconds that an idle UDP flow with more than one request and answer is tracked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 60, "maximum" = 180))]
    pub udp_stream_timeout: Option<i32>,
    /// Seconds that an idle UDP flow in one direction, or with a single answer, is tracked.
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

/// A network interface that an instance is launched with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkInterface {
    /// Position of the interface on its network card.
    #[schemars(extend("minimum" = 0))]
    pub device_index: i32,
    /// What the interface is: an ordinary one (interface) or an Elastic Fabric Adapter without an
    /// address (efa-only).
    pub interface_type: InterfaceType,
    /// Network card that the interface is on.
    #[schemars(extend("minimum" = 0))]
    pub network_card_index: i32,
}

const NAME_OR_ID: CelRule = rule("has(self.name) || has(self.id)", "expected at least one, got none, ['name', 'id']");
const NOT_NAME_AND_ID: CelRule = rule("!has(self.name) || !has(self.id)", "'name' and 'id' are mutually exclusive");

/// A placement group by name or by id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [NAME_OR_ID, NOT_NAME_AND_ID]))]
pub struct PlacementGroupSelector {
    /// Id of the placement group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^pg-[0-9a-z]+$"))]
    pub id: Option<String>,
    /// Name of the placement group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minLength" = 1))]
    pub name: Option<String>,
}
