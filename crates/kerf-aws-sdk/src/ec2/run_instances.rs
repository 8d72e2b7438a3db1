//! `RunInstances`.

use aws_sdk_ec2::operation::run_instances::builders::RunInstancesFluentBuilder;
use aws_sdk_ec2::types;
use kerf_aws::ports::ec2::{RunInstances, RunNetworkInterface};

use super::fleet::LATEST_VERSION;
use crate::convert::{sent_list, sent_tag_specifications, sent_text};

pub(super) fn sent_instances(builder: RunInstancesFluentBuilder, request: RunInstances) -> RunInstancesFluentBuilder {
    let template = types::LaunchTemplateSpecification::builder()
        .launch_template_name(request.template_name)
        .version(LATEST_VERSION);
    builder
        .min_count(1)
        .max_count(1)
        .launch_template(template.build())
        .set_instance_type(sent_text(request.instance_type).map(|text| text.as_str().into()))
        .set_network_interfaces(sent_list(request.network_interfaces, network_interface))
        .set_tag_specifications(sent_tag_specifications(request.tags))
        .set_dry_run(request.is_dry_run.then_some(true))
}

fn network_interface(interface: RunNetworkInterface) -> types::InstanceNetworkInterfaceSpecification {
    types::InstanceNetworkInterfaceSpecification::builder()
        .network_card_index(interface.network_card_index)
        .device_index(interface.device_index)
        .set_interface_type(interface.interface_type)
        .set_subnet_id(sent_text(interface.subnet_id))
        .build()
}
