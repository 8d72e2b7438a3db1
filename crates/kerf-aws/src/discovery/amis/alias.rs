//! The parameters that an alias stands for (spec 05 §12.1).

use kerf_api::ec2nodeclass::{Alias, AmiFamily};
use kerf_api::labels::{self, aws};
use kerf_api::requirement::{NodeSelectorRequirement, Operator};

use super::{AmiError, required};
use crate::instance_types::ami_family::AmiFamilyRules;
use crate::settings::ClusterFacts;

/// First minor Kubernetes version without AL2 images.
const AL2_REMOVED_IN_MINOR: u32 = 33;
/// First minor Kubernetes version with images of Windows Server 2025.
const WINDOWS_2025_SINCE_MINOR: u32 = 35;

/// A parameter that names an image of an alias.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AliasParameter {
    pub(super) name: String,
    /// True if AWS changes the value.
    pub(super) is_mutable: bool,
    /// Requirements of each variant of the image.
    pub(super) variants: Vec<Vec<NodeSelectorRequirement>>,
}

/// Devices that an image supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    /// Neither GPUs nor accelerators.
    Standard,
    /// GPUs of any manufacturer.
    Nvidia,
    /// Accelerators of AWS.
    Neuron,
}

impl Variant {
    fn requirements(self) -> Vec<NodeSelectorRequirement> {
        match self {
            Self::Standard => vec![
                required(aws::INSTANCE_ACCELERATOR_COUNT, Operator::DoesNotExist, &[]),
                required(aws::INSTANCE_GPU_COUNT, Operator::DoesNotExist, &[]),
            ],
            Self::Nvidia => vec![required(aws::INSTANCE_GPU_COUNT, Operator::Exists, &[])],
            Self::Neuron => vec![required(aws::INSTANCE_ACCELERATOR_COUNT, Operator::Exists, &[])],
        }
    }
}

/// Returns the requirements of images without support for GPUs and accelerators.
pub(crate) fn standard_requirements() -> Vec<NodeSelectorRequirement> {
    Variant::Standard.requirements()
}

/// Checks that the cluster's Kubernetes version has images of the alias.
pub(super) fn check_supported(alias: &Alias<'_>, facts: &ClusterFacts) -> Result<(), AmiError> {
    let minor = facts.kubernetes_minor();
    match alias.family {
        AmiFamily::Al2 if minor >= AL2_REMOVED_IN_MINOR => Err(AmiError::UnsupportedAlias(
            "AL2 aliases are no longer supported on EKS 1.33+ (see \
             https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions-standard.html#kubernetes-1-33)"
                .to_owned(),
        )),
        AmiFamily::Windows2025 if minor < WINDOWS_2025_SINCE_MINOR => Err(AmiError::UnsupportedAlias(format!(
            "Windows Server 2025 requires EKS version 1.35 or higher, current version: {}",
            facts.kubernetes_version
        ))),
        AmiFamily::Al2
        | AmiFamily::Al2023
        | AmiFamily::Bottlerocket
        | AmiFamily::Custom
        | AmiFamily::Windows2019
        | AmiFamily::Windows2022
        | AmiFamily::Windows2025
        | AmiFamily::Unsupported(_) => Ok(()),
    }
}

/// Returns the parameters of an alias for a Kubernetes version.
pub(super) fn parameters(alias: &Alias<'_>, kubernetes: &str) -> Vec<AliasParameter> {
    use Variant::{Neuron, Nvidia, Standard};
    let version = alias.version;
    let is_latest = version == "latest";
    let parameter = |name: String, variants: &[Variant]| AliasParameter {
        name,
        is_mutable: is_latest,
        variants: variants.iter().map(|variant| variant.requirements()).collect(),
    };
    let eks = format!("/aws/service/eks/optimized-ami/{kubernetes}");
    let release = |pinned: String| if is_latest { "recommended".to_owned() } else { pinned };
    match &alias.family {
        AmiFamily::Al2 => [
            ("amazon-linux-2", "amazon-eks-node", &[Standard][..]),
            ("amazon-linux-2-arm64", "amazon-eks-arm64-node", &[Standard]),
            ("amazon-linux-2-gpu", "amazon-eks-gpu-node", &[Neuron, Nvidia]),
        ]
        .into_iter()
        .map(|(folder, product, variants)| {
            let release = release(format!("{product}-{kubernetes}-{version}"));
            parameter(format!("{eks}/{folder}/{release}/image_id"), variants)
        })
        .collect(),
        AmiFamily::Al2023 => [
            ("x86_64", "standard", Standard),
            ("x86_64", "nvidia", Nvidia),
            ("x86_64", "neuron", Neuron),
            ("arm64", "standard", Standard),
            ("arm64", "nvidia", Nvidia),
        ]
        .into_iter()
        .map(|(arch, name, variant)| {
            let release = release(format!("amazon-eks-node-al2023-{arch}-{name}-{kubernetes}-{version}"));
            parameter(format!("{eks}/amazon-linux-2023/{arch}/{name}/{release}/image_id"), &[variant])
        })
        .collect(),
        AmiFamily::Bottlerocket => {
            let version = version.trim_start_matches('v');
            [
                ("", "x86_64", &[Standard, Neuron][..]),
                ("", "arm64", &[Standard]),
                ("-nvidia", "x86_64", &[Nvidia]),
                ("-nvidia", "arm64", &[Nvidia]),
            ]
            .into_iter()
            .map(|(suffix, arch, variants)| {
                let folder = format!("/aws/service/bottlerocket/aws-k8s-{kubernetes}{suffix}/{arch}");
                parameter(format!("{folder}/{version}/image_id"), variants)
            })
            .collect()
        }
        AmiFamily::Windows2019 => vec![windows("2019", kubernetes, &alias.family)],
        AmiFamily::Windows2022 => vec![windows("2022", kubernetes, &alias.family)],
        AmiFamily::Windows2025 => vec![windows("2025", kubernetes, &alias.family)],
        // These families have no alias.
        AmiFamily::Custom | AmiFamily::Unsupported(_) => Vec::new(),
    }
}

fn windows(year: &str, kubernetes: &str, family: &AmiFamily) -> AliasParameter {
    let product = format!("Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}");
    let build = AmiFamilyRules::of(family).windows_build.unwrap_or_default();
    AliasParameter {
        name: format!("/aws/service/ami-windows-latest/{product}/image_id"),
        is_mutable: true,
        variants: vec![vec![
            required(labels::OS, Operator::In, &["windows"]),
            required(labels::WINDOWS_BUILD, Operator::In, &[build]),
        ]],
    }
}
