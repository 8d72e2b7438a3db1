//! Rules that depend on the AMI family of a node class (spec 05 §4.8, §13.4).

use kerf_api::ec2nodeclass::AmiFamily;

/// A block device that a family has unless the node class lists its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultDevice {
    /// Name, for example `/dev/xvda`.
    pub name: &'static str,
    /// Size of the volume in GiB, as the family's images need it.
    pub size_gib: i32,
}

/// Differences between AMI families that resources depend on (spec 05 §4.8).
#[derive(Debug, PartialEq, Eq)]
pub struct AmiFamilyRules {
    /// The family. An unknown family has the rules of AL2.
    pub family: AmiFamily,
    /// Build of Windows Server; `None` for Linux.
    pub windows_build: Option<&'static str>,
    /// True if the default of `kubeReserved` depends on the pods that the network interfaces allow;
    /// false if it depends on the resolved number of pods.
    pub reserves_for_eni_limited_pods: bool,
    /// True if the kubelet honours `podsPerCore`.
    pub honours_pods_per_core: bool,
    /// True if the number of pods is limited by the network interfaces; false for 110 pods.
    pub has_eni_limited_pods: bool,
    /// Name of the device that holds the ephemeral storage; `None` if the image decides.
    pub ephemeral_device: Option<&'static str>,
    /// Block devices of a node class that lists none.
    pub default_devices: &'static [DefaultDevice],
}

const XVDA_20: DefaultDevice = DefaultDevice { name: "/dev/xvda", size_gib: 20 };

const AL2: AmiFamilyRules = AmiFamilyRules {
    family: AmiFamily::Al2,
    windows_build: None,
    reserves_for_eni_limited_pods: true,
    honours_pods_per_core: true,
    has_eni_limited_pods: true,
    ephemeral_device: Some("/dev/xvda"),
    default_devices: &[XVDA_20],
};
const AL2023: AmiFamilyRules = AmiFamilyRules { family: AmiFamily::Al2023, ..AL2 };
const BOTTLEROCKET: AmiFamilyRules = AmiFamilyRules {
    family: AmiFamily::Bottlerocket,
    reserves_for_eni_limited_pods: false,
    honours_pods_per_core: false,
    ephemeral_device: Some("/dev/xvdb"),
    default_devices: &[
        DefaultDevice { name: "/dev/xvda", size_gib: 4 },
        DefaultDevice { name: "/dev/xvdb", size_gib: 20 },
    ],
    ..AL2
};
const CUSTOM: AmiFamilyRules =
    AmiFamilyRules { family: AmiFamily::Custom, ephemeral_device: None, default_devices: &[], ..AL2 };
const WINDOWS_2019: AmiFamilyRules = AmiFamilyRules {
    family: AmiFamily::Windows2019,
    windows_build: Some("10.0.17763"),
    reserves_for_eni_limited_pods: false,
    honours_pods_per_core: true,
    has_eni_limited_pods: false,
    ephemeral_device: Some("/dev/sda1"),
    default_devices: &[DefaultDevice { name: "/dev/sda1", size_gib: 50 }],
};
const WINDOWS_2022: AmiFamilyRules =
    AmiFamilyRules { family: AmiFamily::Windows2022, windows_build: Some("10.0.20348"), ..WINDOWS_2019 };
const WINDOWS_2025: AmiFamilyRules =
    AmiFamilyRules { family: AmiFamily::Windows2025, windows_build: Some("10.0.26100"), ..WINDOWS_2019 };

impl AmiFamilyRules {
    /// Returns the rules of a family.
    pub fn of(family: &AmiFamily) -> &'static Self {
        match family {
            AmiFamily::Al2 | AmiFamily::Unsupported(_) => &AL2,
            AmiFamily::Al2023 => &AL2023,
            AmiFamily::Bottlerocket => &BOTTLEROCKET,
            AmiFamily::Custom => &CUSTOM,
            AmiFamily::Windows2019 => &WINDOWS_2019,
            AmiFamily::Windows2022 => &WINDOWS_2022,
            AmiFamily::Windows2025 => &WINDOWS_2025,
        }
    }
}
