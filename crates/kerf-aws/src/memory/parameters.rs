//! The images of EKS and the parameters of Systems Manager that name them (spec 05 §12.1).

use jiff::{SignedDuration, Timestamp};

use super::account::Account;
use crate::ports::Tags;
use crate::ports::ec2::Image;

/// Owner of the images of EKS.
const EKS_OWNER: &str = "602401143452";
/// Owner of the images of Bottlerocket.
const BOTTLEROCKET_OWNER: &str = "092701018921";
/// Owner of the images of Windows.
const WINDOWS_OWNER: &str = "801119661308";

/// Accounts that the owner `amazon` stands for.
pub(super) const AMAZON_OWNERS: [&str; 3] = [EKS_OWNER, BOTTLEROCKET_OWNER, WINDOWS_OWNER];

/// Time from the creation of an image to its deprecation.
const DEPRECATED_AFTER: SignedDuration = SignedDuration::from_hours(2 * 365 * 24);

/// Variants of AL2023 with their architecture.
const AL2023_VARIANTS: [(&str, &str); 5] =
    [("x86_64", "standard"), ("x86_64", "nvidia"), ("x86_64", "neuron"), ("arm64", "standard"), ("arm64", "nvidia")];

/// Flavours of AL2: suffix of the parameter's path, infix of the image's name, architecture.
const AL2_FLAVOURS: [(&str, &str, &str); 3] =
    [("", "", "x86_64"), ("-arm64", "arm64-", "arm64"), ("-gpu", "gpu-", "x86_64")];

impl Account {
    /// Publishes one release of all images for a Kubernetes version and lets `recommended` and
    /// `latest` point to it. Earlier releases stay. `release_date` is written as in AL2023's image
    /// names (`20251120`), `bottlerocket_version` without `v` (`1.52.0`).
    pub fn publish_eks_images(&mut self, kubernetes_version: &str, release_date: &str, bottlerocket_version: &str) {
        let created_at = creation_time(release_date);
        let version = kubernetes_version;
        for (arch, variant) in AL2023_VARIANTS {
            let name = format!("amazon-eks-node-al2023-{arch}-{variant}-{version}-v{release_date}");
            let id = self.add_image(&name, arch, EKS_OWNER, created_at);
            let folder = format!("/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{arch}/{variant}");
            self.name_image(&folder, &["recommended", &name], &id);
        }
        for (suffix, infix, arch) in AL2_FLAVOURS {
            let name = format!("amazon-eks-{infix}node-{version}-v{release_date}");
            let id = self.add_image(&name, arch, EKS_OWNER, created_at);
            let folder = format!("/aws/service/eks/optimized-ami/{version}/amazon-linux-2{suffix}");
            self.name_image(&folder, &["recommended", &name], &id);
        }
        for variant in ["", "-nvidia"] {
            for arch in ["x86_64", "arm64"] {
                let name = format!("bottlerocket-aws-k8s-{version}{variant}-{arch}-v{bottlerocket_version}");
                let id = self.add_image(&name, arch, BOTTLEROCKET_OWNER, created_at);
                let folder = format!("/aws/service/bottlerocket/aws-k8s-{version}{variant}/{arch}");
                self.name_image(&folder, &["latest", bottlerocket_version], &id);
            }
        }
        for year in ["2019", "2022", "2025"] {
            let product = format!("Windows_Server-{year}-English-Core-EKS_Optimized-{version}");
            let id = self.add_image(&format!("{product}-{release_date}"), "x86_64", WINDOWS_OWNER, created_at);
            self.name_image("/aws/service/ami-windows-latest", &[&product], &id);
        }
    }

    /// Adds an image in state `available` and returns its ID, which follows from its name.
    pub fn add_image(
        &mut self,
        name: &str,
        architecture: &str,
        owner_id: &str,
        created_at: Option<Timestamp>,
    ) -> String {
        let id = format!("ami-0{:016x}", name_hash(name));
        let image = Image {
            id: id.clone(),
            name: name.to_owned(),
            architecture: architecture.to_owned(),
            owner_id: owner_id.to_owned(),
            state: "available".to_owned(),
            created_at,
            deprecated_at: created_at.and_then(|at| at.saturating_add(DEPRECATED_AFTER).ok()),
            tags: Tags::new(),
        };
        self.images.insert(id.clone(), image);
        id
    }

    fn name_image(&mut self, folder: &str, names: &[&str], id: &str) {
        for name in names {
            self.parameters.insert(format!("{folder}/{name}/image_id"), id.to_owned());
        }
    }
}

/// Returns midnight of a date written as `20251120`. Returns `None` for another text.
fn creation_time(date: &str) -> Option<Timestamp> {
    let (year, month, day) = (date.get(..4)?, date.get(4..6)?, date.get(6..)?);
    format!("{year}-{month}-{day}T00:00:00Z").parse().ok()
}

/// FNV-1a with 64 bits.
fn name_hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
