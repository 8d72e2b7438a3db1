//! `RunInstances` for one instance.

use super::super::Content;
use super::super::query::{Parameters, QueryReader};
use super::super::xml::Xml;
use super::fleet::read_template;
use super::{read_dry_run, read_tag_specifications};
use crate::memory::{AwsFailure, MemoryAws};
use crate::ports::Ec2 as _;
use crate::ports::ec2::{RunInstances, RunNetworkInterface};

pub(super) async fn run(aws: &MemoryAws, parameters: Parameters) -> Content {
    let request = parameters.read(read_request)?;
    let (instance_type, id) = (request.instance_type.clone(), aws.run_instances(request).await?);
    Ok(Xml::fragment(|xml| {
        xml.items("instancesSet", [(id, instance_type)], |xml, (id, instance_type)| {
            xml.text("instanceId", id);
            xml.text("instanceType", instance_type);
        });
    }))
}

fn read_request(query: &mut QueryReader<'_>) -> RunInstances {
    for name in ["MinCount", "MaxCount"] {
        let count: Option<i32> = query.number(name);
        if count != Some(1) {
            let value = count.map(|count| count.to_string()).unwrap_or_default();
            query.add_wrong_value(name, &value, "1, the only number of this server");
        }
    }
    // Each launch of a call is a new one, because the port has no client token.
    query.text("ClientToken");
    let template_name = query.object("LaunchTemplate", read_template).unwrap_or_else(|| {
        query.add_problem(AwsFailure::missing("LaunchTemplate"));
        String::new()
    });
    RunInstances {
        template_name,
        instance_type: query.required_text("InstanceType"),
        network_interfaces: query.objects("NetworkInterface", |interface| RunNetworkInterface {
            network_card_index: interface.number("NetworkCardIndex").unwrap_or_default(),
            device_index: interface.number("DeviceIndex").unwrap_or_default(),
            interface_type: interface.text("InterfaceType"),
            subnet_id: interface.required_text("SubnetId"),
        }),
        tags: read_tag_specifications(query),
        is_dry_run: read_dry_run(query),
    }
}
