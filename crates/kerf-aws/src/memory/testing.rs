//! Worlds and requests for tests.

use kerf_runtime::Clock;

use super::{Account, MemoryAws, MemorySettings};
use crate::ports::Tags;
use crate::ports::ec2::{
    CreateFleet, CreateLaunchTemplate, FleetConfig, FleetOverride, FleetTarget, InstanceTypeInfo, LaunchTemplateData,
    MemoryInfo, ProcessorInfo, TagSpecification, TemplateNetworkInterface, VcpuInfo,
};

/// IDs of the private subnets in the three zones of [`aws`].
pub(crate) const SUBNETS: [&str; 3] =
    ["subnet-01000000000000001", "subnet-01000000000000002", "subnet-01000000000000003"];

/// Returns the description of an instance type.
pub(crate) fn instance_type(name: &str, vcpus: i32, memory_mib: i64, architecture: &str) -> InstanceTypeInfo {
    InstanceTypeInfo {
        name: name.to_owned(),
        current_generation: true,
        hypervisor: "nitro".to_owned(),
        supported_usage_classes: vec!["on-demand".to_owned(), "spot".to_owned()],
        supported_virtualization_types: vec!["hvm".to_owned()],
        vcpus: VcpuInfo { default_vcpus: vcpus },
        memory: MemoryInfo { size_mib: memory_mib },
        processor: Some(ProcessorInfo {
            supported_architectures: vec![architecture.to_owned()],
            ..ProcessorInfo::default()
        }),
        ..InstanceTypeInfo::default()
    }
}

/// Returns an EC2 with the cluster `demo` and the types m5.large, m5.xlarge and m6g.large.
pub(crate) fn aws_with(settings: MemorySettings) -> MemoryAws {
    let types = vec![
        instance_type("m5.large", 2, 8192, "x86_64"),
        instance_type("m5.xlarge", 4, 16384, "x86_64"),
        instance_type("m6g.large", 2, 8192, "arm64"),
    ];
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    MemoryAws::new(clock, Account::eks("demo", "1.34", types), settings)
}

pub(crate) fn aws() -> MemoryAws {
    aws_with(MemorySettings::default())
}

/// Returns the ID of the AL2023 image for x86.
pub(crate) fn x86_image(aws: &MemoryAws) -> String {
    let name = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id";
    aws.change_account(|account| account.parameters[name].clone())
}

pub(crate) fn template(aws: &MemoryAws, name: &str) -> CreateLaunchTemplate {
    CreateLaunchTemplate {
        name: name.to_owned(),
        data: LaunchTemplateData {
            image_id: x86_image(aws),
            network_interfaces: vec![TemplateNetworkInterface {
                security_group_ids: vec!["sg-00000000000000002".to_owned()],
                ..TemplateNetworkInterface::default()
            }],
            ..LaunchTemplateData::default()
        },
        tags: Tags::new(),
        client_token: String::new(),
    }
}

pub(crate) fn on_demand() -> FleetTarget {
    FleetTarget::OnDemand { allocation_strategy: "lowest-price".to_owned() }
}

pub(crate) fn spot() -> FleetTarget {
    FleetTarget::Spot { allocation_strategy: "price-capacity-optimized".to_owned() }
}

/// Returns a fleet request with these types and subnets.
pub(crate) fn fleet(count: i32, target: FleetTarget, template: &str, overrides: &[(&str, &str)]) -> CreateFleet {
    let overrides = overrides.iter().map(|(instance_type, subnet_id)| FleetOverride {
        instance_type: (*instance_type).to_owned(),
        subnet_id: (*subnet_id).to_owned(),
        ..FleetOverride::default()
    });
    CreateFleet {
        target_capacity: count,
        target,
        configs: vec![FleetConfig { template_name: template.to_owned(), overrides: overrides.collect() }],
        tags: vec![TagSpecification {
            resource_type: "instance",
            tags: Tags::from([("karpenter.sh/nodepool".to_owned(), "default".to_owned())]),
        }],
        context: None,
        client_token: String::new(),
        is_dry_run: false,
    }
}
