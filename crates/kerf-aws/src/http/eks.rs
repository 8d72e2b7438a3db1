//! EKS: REST with JSON.

use http::Method;
use serde_json::{Map, Value, json};

use super::Content;
use super::query::path_decoded;
use crate::memory::{AwsFailure, MemoryAws};
use crate::ports::Eks as _;

/// First part of the path of a cluster.
pub(super) const CLUSTERS: &str = "/clusters/";

const DESCRIBE_CLUSTER: &str = "DescribeCluster";

pub(super) fn operation(method: &Method, path: &str) -> Option<&'static str> {
    let name = path.strip_prefix(CLUSTERS)?;
    (method == Method::GET && !name.is_empty() && !name.contains('/')).then_some(DESCRIBE_CLUSTER)
}

pub(super) async fn call(aws: &MemoryAws, operation: &str, path: &str) -> Content {
    if operation != DESCRIBE_CLUSTER {
        let message = format!("This server has the operation GET {CLUSTERS}{{name}}.");
        return Err(AwsFailure::new(404, "UnknownOperationException", message).into());
    }
    let name = path_decoded(path.strip_prefix(CLUSTERS).unwrap_or_default())
        .ok_or_else(|| AwsFailure::bad_request("InvalidParameterException", "The name of the cluster is not UTF-8."))?;
    let info = aws.describe_cluster(&name).await?;
    let mut network = Map::new();
    insert_if_any(&mut network, "serviceIpv4Cidr", info.service_ipv4_cidr);
    let family = if info.service_ipv6_cidr.is_some() { "ipv6" } else { "ipv4" };
    insert_if_any(&mut network, "serviceIpv6Cidr", info.service_ipv6_cidr);
    network.insert("ipFamily".to_owned(), json!(family));
    let mut cluster = Map::from_iter([
        ("name".to_owned(), json!(name)),
        ("status".to_owned(), json!("ACTIVE")),
        ("kubernetesNetworkConfig".to_owned(), Value::Object(network)),
    ]);
    insert_if_any(&mut cluster, "arn", info.arn);
    insert_if_any(&mut cluster, "endpoint", info.endpoint);
    insert_if_any(&mut cluster, "version", info.version);
    if let Some(data) = info.certificate_authority {
        cluster.insert("certificateAuthority".to_owned(), json!({ "data": data }));
    }
    Ok(json!({ "cluster": cluster }).to_string())
}

fn insert_if_any(object: &mut Map<String, Value>, name: &str, value: Option<String>) {
    if let Some(value) = value {
        object.insert(name.to_owned(), json!(value));
    }
}
