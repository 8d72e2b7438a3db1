//! Subnets and security groups, and the addresses that instances use.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use super::AwsFailure;
use super::filters::{check_filters, matches_filters};
use super::paging::PageLimits;
use super::records::{LaunchedInstance, SubnetAddresses};
use super::state::AwsState;
use crate::ports::ec2::{SecurityGroup, Subnet};
use crate::ports::{Filter, Page, PageRequest};

const LIMITS: PageLimits = PageLimits { min: 5, max: 1000, default: Some(1000) };

/// First address of the first subnet; each subnet has a range of 2^16 addresses.
const FIRST_ADDRESS: u32 = 0x0a00_0000;
/// Addresses at the start of each subnet that AWS keeps.
const RESERVED_ADDRESSES: u32 = 4;
/// Largest number of addresses of a subnet.
const ADDRESSES_MAX: u32 = 0xfff0;

impl AwsState {
    pub(super) fn describe_subnets(&self, filters: &[Filter], page: &PageRequest) -> Result<Page<Subnet>, AwsFailure> {
        let names = ["subnet-id", "vpc-id", "availability-zone", "availability-zone-id", "state"];
        check_filters(filters, &names, true)?;
        let matching = self.account.subnets.values().filter(|subnet| {
            matches_filters(filters, Some(&subnet.tags), |name| match name {
                "subnet-id" => vec![&subnet.id],
                "vpc-id" => vec![&subnet.vpc_id],
                "availability-zone" => vec![&subnet.zone],
                "availability-zone-id" => vec![&subnet.zone_id],
                _ => vec!["available"],
            })
        });
        let with_free_addresses = |subnet: &Subnet| Subnet {
            available_ip_count: i32::try_from(self.free_addresses(subnet)).unwrap_or(i32::MAX),
            ..subnet.clone()
        };
        self.page(matching, |subnet| subnet.id.clone(), with_free_addresses, page, LIMITS)
    }

    pub(super) fn describe_security_groups(
        &self,
        filters: &[Filter],
        page: &PageRequest,
    ) -> Result<Page<SecurityGroup>, AwsFailure> {
        check_filters(filters, &["group-id", "group-name", "vpc-id"], true)?;
        let matching = self.account.security_groups.values().filter(|group| {
            matches_filters(filters, Some(&group.tags), |name| match name {
                "group-id" => vec![&group.id],
                "group-name" => vec![&group.name],
                _ => vec![&group.vpc_id],
            })
        });
        self.page(matching, |group| group.id.clone(), SecurityGroup::clone, page, LIMITS)
    }

    /// Returns the number of free addresses of a subnet.
    pub(super) fn free_addresses(&self, subnet: &Subnet) -> u32 {
        let total = u32::try_from(subnet.available_ip_count).unwrap_or(0).min(ADDRESSES_MAX);
        total.saturating_sub(self.used_addresses(&subnet.id))
    }

    /// Returns the number of addresses of a subnet that instances use.
    pub(super) fn used_addresses(&self, subnet_id: &str) -> u32 {
        self.addresses.get(subnet_id).map_or(0, |addresses| {
            u32::try_from(addresses.used.len()).unwrap_or(u32::MAX).saturating_add(addresses.used_by_prefixes)
        })
    }

    /// Takes the addresses of one instance and returns its own. The caller has checked that enough
    /// addresses are free.
    pub(super) fn take_addresses(&mut self, subnet_id: &str, count: u32) -> Ipv4Addr {
        let range = u32::try_from(self.addresses.len()).unwrap_or(u32::MAX);
        let addresses = self.addresses.entry(subnet_id.to_owned()).or_insert_with(|| SubnetAddresses {
            range,
            used: BTreeSet::new(),
            used_by_prefixes: 0,
            next: RESERVED_ADDRESSES,
        });
        while addresses.used.contains(&addresses.next) {
            addresses.step();
        }
        let offset = addresses.next;
        addresses.used.insert(offset);
        addresses.used_by_prefixes += count.saturating_sub(1);
        addresses.step();
        Ipv4Addr::from(FIRST_ADDRESS.wrapping_add(addresses.range << 16).wrapping_add(offset))
    }

    /// Gives the addresses of a terminated instance back.
    pub(super) fn release_addresses(&mut self, launched: &LaunchedInstance) {
        if let Some(addresses) = self.addresses.get_mut(&launched.instance.subnet_id) {
            addresses.used.remove(&(u32::from(launched.private_address) & 0xffff));
            let by_prefixes = launched.address_count.saturating_sub(1);
            addresses.used_by_prefixes = addresses.used_by_prefixes.saturating_sub(by_prefixes);
        }
    }
}

impl SubnetAddresses {
    fn step(&mut self) {
        self.next = if self.next + 1 < RESERVED_ADDRESSES + ADDRESSES_MAX { self.next + 1 } else { RESERVED_ADDRESSES };
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SUBNETS, aws};
    use super::*;
    use crate::ports::{Ec2 as _, Eks as _};

    // spec 05 §10.1, #70
    #[tokio::test(start_paused = true)]
    async fn subnets_and_groups_are_found_by_tag_id_and_name() {
        let aws = aws();
        let find = async |filters: Vec<Filter>| {
            let page = aws.describe_subnets(filters, PageRequest::first(500)).await.unwrap();
            page.items.into_iter().map(|subnet| subnet.id).collect::<Vec<_>>()
        };
        assert_eq!(find(vec![Filter::new("tag:karpenter.sh/discovery", "demo")]).await, SUBNETS);
        assert_eq!(find(vec![Filter::new("tag:karpenter.sh/discovery", "d*o")]).await, SUBNETS);
        assert_eq!(find(vec![Filter::new("tag-key", "kubernetes.io/role/internal-elb")]).await, SUBNETS);
        assert_eq!(find(vec![Filter::any_of("subnet-id", [SUBNETS[1], "subnet-9"])]).await, [SUBNETS[1]]);
        assert_eq!(find(vec![]).await.len(), 6);
        let groups = async |filter: Filter| {
            let page = aws.describe_security_groups(vec![filter], PageRequest::first(500)).await.unwrap();
            page.items.into_iter().map(|group| group.name).collect::<Vec<_>>()
        };
        assert_eq!(groups(Filter::new("tag:karpenter.sh/discovery", "demo")).await, ["demo-node"]);
        assert_eq!(groups(Filter::new("group-name", "default")).await, ["default"]);
        let error = aws.describe_subnets(vec![Filter::new("colour", "red")], PageRequest::default()).await.unwrap_err();
        assert!(error.has_code("InvalidParameterValue"), "{error}");
        let error = aws.describe_subnets(vec![], PageRequest::first(4)).await.unwrap_err();
        assert!(error.has_code("InvalidParameterValue"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_is_described_by_name() {
        let aws = aws();
        let cluster = aws.describe_cluster("demo").await.unwrap();
        assert_eq!(cluster.version.as_deref(), Some("1.34"));
        assert_eq!(cluster.service_ipv4_cidr.as_deref(), Some("10.100.0.0/16"));
        let error = aws.describe_cluster("other").await.unwrap_err();
        assert_eq!((error.code.as_deref(), error.http_status), (Some("ResourceNotFoundException"), Some(404)));
    }

    #[test]
    fn addresses_are_used_once_and_again_after_the_last() {
        let mut addresses =
            SubnetAddresses { range: 0, used: BTreeSet::new(), used_by_prefixes: 0, next: RESERVED_ADDRESSES };
        for _ in 0..ADDRESSES_MAX {
            addresses.step();
        }
        assert_eq!(addresses.next, RESERVED_ADDRESSES);
    }
}
