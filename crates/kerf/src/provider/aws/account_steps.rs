//! Carries out changes of the AWS account of a sandbox, from a scenario or by hand.
//!
//! An action that finds nothing to change fails: a scenario would otherwise test nothing.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kerf_aws::http::AccountChange;
use kerf_aws::memory::{
    Account, AwsFault, AwsFaultRule, LaunchFailure, LaunchedInstance, MemoryAws, PoolPattern, StockOut,
    matches_pattern, operation_actions, operation_names,
};
use kerf_aws::ports::ec2::{Ec2CapacityReservation, InstanceStatus, ScheduledEvent, StatusCheck};
use kerf_aws::ports::{Tags, ZonalShiftRecord};
use kerf_engine::Price;
use kerf_sandbox::{
    AwsStep, CallFaultName, CallFaultStep, CapacityTypeName, InstanceSelector, PoolSelector, PriceStep,
    PublishImagesStep, ReservationStep, StatusCheckName, StatusCheckStep, SubnetAddressesStep, TagsStep,
    ZonalShiftStep,
};

/// State reason of an instance that a person terminates.
const TERMINATED_BY_HAND: &str = "Client.UserInitiatedShutdown";
/// Event type of AWS Health for instances on failing hardware.
const RETIREMENT: &str = "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED";

/// The account of the sandbox's cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct AccountSteps<'a> {
    pub(super) aws: &'a MemoryAws,
    pub(super) cluster_name: &'a str,
    /// Kubernetes version of the images that are published.
    pub(super) kubernetes_version: &'a str,
}

/// Result of one action: what it changed, one text per line, or the reason why it changed nothing.
type Outcome = Result<Vec<String>, String>;

/// Returns the function that changes an account over HTTP: it reads a step of a scenario in YAML
/// and carries it out.
pub(crate) fn account_change(aws: MemoryAws, cluster_name: String, kubernetes_version: String) -> AccountChange {
    Arc::new(move |body| {
        let step = kerf_sandbox::sim::read_aws_step(body)?;
        let steps = AccountSteps { aws: &aws, cluster_name: &cluster_name, kubernetes_version: &kubernetes_version };
        steps.perform(&step)
    })
}

impl AccountSteps<'_> {
    /// Carries out all actions of a step, and returns a line for each change. Fails with a message
    /// for each action that changed nothing.
    pub(super) fn perform(self, step: &AwsStep) -> Result<Vec<String>, Vec<String>> {
        let (mut changes, mut failures) = (Vec::new(), Vec::new());
        let mut record = |field: &str, outcome: Option<Outcome>| match outcome {
            None => {}
            Some(Ok(lines)) if lines.is_empty() => changes.push(format!("{field}: done")),
            Some(Ok(lines)) => changes.extend(lines.into_iter().map(|line| format!("{field}: {line}"))),
            Some(Err(problem)) => failures.push(format!("{field}: {problem}")),
        };
        self.change_market(step, &mut record);
        self.change_instances(step, &mut record);
        self.change_resources(step, &mut record);
        self.change_calls(step, &mut record);
        if failures.is_empty() { Ok(changes) } else { Err(failures) }
    }

    fn change_market(self, step: &AwsStep, record: &mut impl FnMut(&str, Option<Outcome>)) {
        let stock_out = step.stock_out.as_ref().map(|own| {
            let pools = self.known_pools(pattern(&own.instance_type, &own.zone, &own.capacity_type))?;
            let until = own.duration.map(|duration| self.after(duration));
            let end = until.map_or_else(|| "until restock".to_owned(), |until| format!("until {until:.0}"));
            let any = |pattern: &str, all: &str| if pattern.is_empty() { all.to_owned() } else { pattern.to_owned() };
            let (types, zones) = (any(&own.instance_type, "all types"), any(&own.zone, "all zones"));
            let capacity = any(&own.capacity_type, "all capacity types");
            self.aws.change_market(|market| market.add_stock_out(StockOut { pools, until }));
            Ok(vec![format!("no instances of {types} in {zones}, {capacity}, {end}")])
        });
        record("stockOut", stock_out);
        record("restock", step.restock.as_ref().map(|pools| self.restock(pools)));
        record("price", step.price.as_ref().map(|price| self.set_price(price)));
        let spot_market = step.spot_market.map(|own| {
            self.aws.set_spot_price_interval(own.change_every);
            Ok(Vec::new())
        });
        record("spotMarket", spot_market);
        let launch_failure = step.launch_failure.as_ref().map(|own| {
            let PoolSelector { instance_type, zone, capacity_type } = &own.pools;
            let pools = self.known_pools(pattern(instance_type, zone, capacity_type))?;
            let failure = LaunchFailure { pools, reason: own.reason.clone(), times: own.count };
            self.aws.change_market(|market| market.add_launch_failure(failure));
            Ok(Vec::new())
        });
        record("launchFailure", launch_failure);
        let empty_fleets = step.empty_fleets.map(|fleets| {
            self.aws.change_market(|market| market.answer_nothing(fleets));
            Ok(Vec::new())
        });
        record("emptyFleets", empty_fleets);
    }

    fn change_instances(self, step: &AwsStep, record: &mut impl FnMut(&str, Option<Outcome>)) {
        let aws = self.aws;
        let each = |selector: Option<&InstanceSelector>, act: &dyn Fn(&str) -> bool| -> Option<Outcome> {
            selector.map(|selector| self.for_each(selector, act))
        };
        record("reclaim", each(step.reclaim.as_ref(), &|id| aws.reclaim_instance(id)));
        record("rebalance", each(step.rebalance.as_ref(), &|id| aws.recommend_rebalance(id)));
        record("healthEvent", each(step.health_event.as_ref(), &|id| aws.send_health_event(id, RETIREMENT)));
        record("terminate", each(step.terminate.as_ref(), &|id| aws.fail_instance(id, TERMINATED_BY_HAND)));
        record("stop", each(step.stop.as_ref(), &|id| aws.stop_instance(id)));
        if let Some(own) = &step.fail {
            record("fail", Some(self.for_each(&own.instances, &|id| aws.fail_instance(id, &own.reason))));
        }
        if let Some(own) = &step.status_check {
            let status = |id: &str| self.status(id, own);
            let set = |id: &str| {
                aws.set_instance_status(status(id));
                true
            };
            record("statusCheck", Some(self.for_each(&own.instances, &set)));
        }
        let visible = step.instances_visible_after.map(|delay| {
            aws.set_instances_visible_after(delay);
            Ok(Vec::new())
        });
        record("instancesVisibleAfter", visible);
    }

    fn change_resources(self, step: &AwsStep, record: &mut impl FnMut(&str, Option<Outcome>)) {
        let aws = self.aws;
        record("publishImages", step.publish_images.as_ref().map(|own| self.publish_images(own)));
        record("addReservation", step.add_reservation.as_ref().map(|own| self.add_reservation(own)));
        record("expireReservation", step.expire_reservation.as_ref().map(|id| self.expire_reservation(id)));
        record("tags", step.tags.as_ref().map(|own| self.change_tags(own)));
        record(
            "deleteInstanceProfiles",
            step.delete_instance_profiles.as_ref().map(|names| {
                let deleted = aws.remove_instance_profiles(|name| matches_pattern(names, name));
                require(!deleted.is_empty(), || format!("no instance profile has a name like {names}"))?;
                Ok(deleted.iter().map(ToString::to_string).collect())
            }),
        );
        record("subnetAddresses", step.subnet_addresses.as_ref().map(|own| self.set_subnet_addresses(own)));
        aws.change_account(|account| {
            let quota = step.quota.map(|quota| {
                let quotas = [("on-demand", quota.on_demand_vcpus), ("spot", quota.spot_vcpus)];
                let quotas = quotas.into_iter().filter_map(|(name, vcpus)| Some((name.to_owned(), vcpus?)));
                account.vcpu_quotas.extend(quotas);
                account.volume_gib_quota = quota.volume_gib.or(account.volume_gib_quota);
                Ok(Vec::new())
            });
            record("quota", quota);
            for key in &step.disable_kms_keys {
                let is_changed = account.disabled_kms_keys.insert(key.clone());
                record("disableKmsKeys", Some(done_if(is_changed, || format!("the key {key} is disabled already"))));
            }
            for key in &step.enable_kms_keys {
                let is_changed = account.disabled_kms_keys.remove(key);
                record("enableKmsKeys", Some(done_if(is_changed, || format!("the key {key} is not disabled"))));
            }
            if let Some(queue) = &step.create_queue {
                let is_changed = account.queues.insert(queue.clone());
                record("createQueue", Some(done_if(is_changed, || format!("the queue {queue} exists already"))));
            }
            step.deny.iter().for_each(|action| record("deny", Some(deny(account, action))));
            step.allow.iter().for_each(|action| record("allow", Some(allow(account, action))));
            record("unmapRole", step.unmap_role.as_ref().map(|role| unmap_role(account, role)));
            record("mapRole", step.map_role.as_ref().map(|role| map_role(account, role)));
        });
        record(
            "deleteQueue",
            step.delete_queue.as_ref().map(|name| {
                let is_deleted = aws.change_account(|account| account.queues.remove(name));
                done_if(is_deleted, || format!("there is no queue {name}"))
            }),
        );
        record(
            "sendMessage",
            step.send_message.as_ref().map(|body| {
                let is_sent = aws.send_message(self.cluster_name, body.as_str());
                done_if(is_sent, || format!("there is no queue {}", self.cluster_name))
            }),
        );
        record("zonalShift", step.zonal_shift.as_ref().map(|own| self.begin_zonal_shift(own)));
        record("endZonalShift", step.end_zonal_shift.as_ref().map(|zone| self.end_zonal_shift(zone)));
    }

    fn change_calls(self, step: &AwsStep, record: &mut impl FnMut(&str, Option<Outcome>)) {
        record(
            "callFault",
            step.call_fault.as_ref().map(|own| {
                let is_known = own.operation.is_empty() || operation_names().any(|name| name == own.operation);
                require(is_known, || {
                    let names: Vec<&str> = operation_names().collect();
                    format!(
                        "operation: the EC2 in memory has no operation {}; use one of {}",
                        own.operation,
                        names.join(", ")
                    )
                })?;
                self.aws.add_fault(self.fault_rule(own));
                Ok(Vec::new())
            }),
        );
    }

    fn now(self) -> Timestamp {
        self.aws.clock().now()
    }

    fn after(self, duration: Duration) -> Timestamp {
        self.now().saturating_add(duration).unwrap_or(Timestamp::MAX)
    }

    /// Acts on the selected instances for which the action has an effect.
    fn for_each(self, selector: &InstanceSelector, act: &dyn Fn(&str) -> bool) -> Outcome {
        let mut instances: Vec<LaunchedInstance> = self.aws.instances();
        instances.retain(|launched| is_selected(selector, launched));
        instances.sort_by_key(|launched| (launched.instance.launched_at, launched.instance.id.clone()));
        let acted = instances.iter().filter(|launched| act(&launched.instance.id));
        let lines: Vec<String> = acted.take(selector.count.unwrap_or(1)).map(described).collect();
        require(!lines.is_empty(), || "no live instance matches, or the action does not apply to it".to_owned())?;
        Ok(lines)
    }

    /// Returns the pattern. Fails if it matches no pool of the account.
    fn known_pools(self, pools: PoolPattern) -> Result<PoolPattern, String> {
        require(self.aws.has_pool(&pools), || "no pool has such an instance type, zone and capacity type".to_owned())?;
        Ok(pools)
    }

    fn restock(self, pools: &PoolSelector) -> Outcome {
        let pools = pattern(&pools.instance_type, &pools.zone, &pools.capacity_type);
        let ended = self.aws.change_market(|market| market.end_stock_outs(&pools));
        done_if(ended > 0, || "there is no stock-out of these pools".to_owned())
    }

    fn set_price(self, own: &PriceStep) -> Outcome {
        let price = Price::from_decimal(&own.per_hour).ok_or_else(|| {
            format!("perHour: \"{}\" is no price; write dollars, for example \"0.031\"", own.per_hour)
        })?;
        let (zones, is_known) = self.aws.change_account(|account| {
            let zones: Vec<String> = account.zones.iter().map(|zone| zone.name.clone()).collect();
            (zones, account.instance_type(&own.instance_type).is_some())
        });
        require(is_known, || format!("instanceType: EC2 has no type {}", own.instance_type))?;
        let has_zone = own.zone.as_ref().is_none_or(|zone| zones.contains(zone));
        require(has_zone, || format!("zone: there is no such zone; use one of {}", zones.join(", ")))?;
        self.aws.change_market(|market| match own.capacity_type {
            CapacityTypeName::OnDemand => market.set_on_demand_price(&own.instance_type, price),
            CapacityTypeName::Spot => {
                let in_zone = |zone: &&String| own.zone.as_ref().is_none_or(|own| own == *zone);
                for zone in zones.iter().filter(in_zone) {
                    market.set_spot_price(&own.instance_type, zone, price);
                }
            }
        });
        Ok(Vec::new())
    }

    fn status(self, id: &str, own: &StatusCheckStep) -> InstanceStatus {
        let failed = |name: StatusCheckName| -> Vec<StatusCheck> {
            let check = StatusCheck {
                name: "reachability".to_owned(),
                status: "failed".to_owned(),
                impaired_since: Some(self.now()),
            };
            (own.fails == Some(name)).then_some(check).into_iter().collect()
        };
        let event = own.scheduled_event.as_ref().map(|code| ScheduledEvent {
            code: code.clone(),
            description: "The instance is on degraded hardware".to_owned(),
        });
        InstanceStatus {
            instance_id: id.to_owned(),
            instance_checks: failed(StatusCheckName::Instance),
            system_checks: failed(StatusCheckName::System),
            ebs_checks: failed(StatusCheckName::Ebs),
            events: event.into_iter().collect(),
        }
    }

    /// Publishes a release. The provider keeps the parameters of `latest` for a day; it reads them
    /// again now, so that nodes drift soon.
    fn publish_images(self, own: &PublishImagesStep) -> Outcome {
        let version = self.kubernetes_version;
        self.aws.change_account(|account| {
            let releases = account.images.values().filter_map(|image| {
                let (_, release) = image.name.strip_prefix("amazon-eks-node-al2023-")?.rsplit_once("-v")?;
                Some(release.to_owned())
            });
            let newest = releases.max().unwrap_or_default();
            require(own.release > newest, || {
                format!("release: {} is not newer than {newest}, the release of `@latest`", own.release)
            })?;
            account.publish_eks_images(version, &own.release, &own.bottlerocket);
            Ok::<(), String>(())
        })?;
        self.aws.refresh_parameters();
        Ok(vec![format!("`@latest` is {} and {} of Bottlerocket", own.release, own.bottlerocket)])
    }

    fn add_reservation(self, own: &ReservationStep) -> Outcome {
        let ends_at = own.ends_in.map(|duration| self.after(duration));
        let discovery = || ("karpenter.sh/discovery".to_owned(), self.cluster_name.to_owned());
        let tags: Tags = if own.tags.is_empty() { Tags::from([discovery()]) } else { own.tags.clone() };
        self.aws.change_account(|account| {
            let zone_id = zone_id(account, &own.zone)?;
            require(account.instance_type(&own.instance_type).is_some(), || {
                format!("instanceType: EC2 has no type {}", own.instance_type)
            })?;
            require(own.count > 0 || account.capacity_reservations.contains_key(&own.id), || {
                "count: a new reservation needs at least 1 instance".to_owned()
            })?;
            let count = i32::try_from(own.count).unwrap_or(i32::MAX);
            let reservation = Ec2CapacityReservation {
                id: own.id.clone(),
                owner_id: account.account_id.clone(),
                instance_type: own.instance_type.clone(),
                zone: own.zone.clone(),
                zone_id,
                state: "active".to_owned(),
                instance_match_criteria: "targeted".to_owned(),
                reservation_type: if own.is_capacity_block { "capacity-block" } else { "default" }.to_owned(),
                is_interruptible: own.is_interruptible,
                ends_at,
                total_instance_count: count,
                available_instance_count: count,
                tags,
                ..Ec2CapacityReservation::default()
            };
            account.capacity_reservations.insert(own.id.clone(), reservation);
            Ok(Vec::new())
        })
    }

    fn expire_reservation(self, id: &str) -> Outcome {
        let is_known = self.aws.expire_capacity_reservation(id);
        done_if(is_known, || format!("there is no capacity reservation {id}"))
    }

    fn change_tags(self, own: &TagsStep) -> Outcome {
        let changed = self.aws.change_tags(|id| matches_pattern(&own.resources, id), &own.add, &own.remove);
        require(changed > 0, || format!("no resource has an ID like {}", own.resources))?;
        Ok(vec![counted(changed, "resource")])
    }

    fn set_subnet_addresses(self, own: &SubnetAddressesStep) -> Outcome {
        let matches = |pattern: &Option<String>, name: &str| {
            pattern.as_ref().is_none_or(|pattern| matches_pattern(pattern, name))
        };
        let changed = self.aws.set_free_addresses(
            |subnet| matches(&own.subnet, &subnet.id) && matches(&own.zone, &subnet.zone),
            own.free,
        );
        require(changed > 0, || "no subnet matches".to_owned())?;
        Ok(vec![counted(changed, "subnet")])
    }

    fn fault_rule(self, own: &CallFaultStep) -> AwsFaultRule {
        let fault = match own.fault {
            CallFaultName::Throttled => AwsFault::Throttled,
            CallFaultName::LostAnswer => AwsFault::LostAnswer,
            CallFaultName::Error => AwsFault::Error {
                status: 400,
                code: own.code.clone().unwrap_or_default(),
                message: "The request fails on purpose.".to_owned(),
            },
        };
        AwsFaultRule {
            times: own.times,
            until: own.duration.map(|duration| self.after(duration)),
            per_million: own.rate.map_or(1_000_000, kerf_sandbox::Share::per_million),
            ..AwsFaultRule::always(&own.operation, fault)
        }
    }

    fn begin_zonal_shift(self, own: &ZonalShiftStep) -> Outcome {
        let (started_at, expires_at) = (Some(self.now()), Some(self.after(own.duration)));
        self.change_shifts(&own.zone, |zone_id, shifts| {
            shifts.retain(|shift| shift.away_from != zone_id);
            shifts.push(ZonalShiftRecord {
                id: format!("shift-{zone_id}"),
                away_from: zone_id.to_owned(),
                applied_status: "APPLIED".to_owned(),
                started_at,
                expires_at,
            });
            let until = expires_at.map_or_else(String::new, |until| format!(" until {until:.0}"));
            Ok(vec![format!("away from {} ({zone_id}){until}", own.zone)])
        })
    }

    fn end_zonal_shift(self, zone: &str) -> Outcome {
        self.change_shifts(zone, |zone_id, shifts| {
            let before = shifts.len();
            shifts.retain(|shift| shift.away_from != zone_id);
            done_if(shifts.len() < before, || format!("no shift away from {zone} is active"))
        })
    }

    fn change_shifts(self, zone: &str, change: impl FnOnce(&str, &mut Vec<ZonalShiftRecord>) -> Outcome) -> Outcome {
        self.aws.change_account(|account| {
            let zone_id = zone_id(account, zone)?;
            let arn = account.clusters.get(self.cluster_name).and_then(|cluster| cluster.arn.clone());
            let shifts = arn.and_then(|arn| account.zonal_shifts.get_mut(&arn));
            change(&zone_id, shifts.ok_or("the cluster is not enabled for zonal shift")?)
        })
    }
}

/// Fails with the problem unless the condition holds.
fn require(holds: bool, problem: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(problem()) }
}

/// Returns the outcome of an action that has changed something if the condition holds.
fn done_if(holds: bool, problem: impl FnOnce() -> String) -> Outcome {
    require(holds, problem).map(|()| Vec::new())
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Returns the facts by which a person knows an instance.
fn described(launched: &LaunchedInstance) -> String {
    let instance = &launched.instance;
    let claim = instance.tags.get("karpenter.sh/nodeclaim").map(|claim| format!(", claim {claim}")).unwrap_or_default();
    let (id, zone, node) = (&instance.id, &instance.zone, &instance.private_dns_name);
    format!("{id} ({}, {}, {zone}), node {node}{claim}", instance.instance_type, launched.capacity_type())
}

fn pattern(instance_type: &str, zone: &str, capacity_type: &str) -> PoolPattern {
    let owned = str::to_owned;
    PoolPattern { instance_type: owned(instance_type), zone: owned(zone), capacity_type: owned(capacity_type) }
}

fn zone_id(account: &Account, zone: &str) -> Result<String, String> {
    let known = account.zones.iter().find(|known| known.name == zone);
    known.map(|known| known.id.clone()).ok_or_else(|| {
        let names: Vec<&str> = account.zones.iter().map(|zone| zone.name.as_str()).collect();
        format!("there is no zone {zone}; use one of {}", names.join(", "))
    })
}

fn deny(account: &mut Account, action: &str) -> Outcome {
    require(operation_actions().any(|known| known == action), || {
        let service = action.split_once(':').map_or("", |(service, _)| service);
        let of_service = |known: &String| known.split_once(':').is_some_and(|(name, _)| name == service);
        let mut names: Vec<String> = operation_actions().filter(of_service).collect();
        if names.is_empty() {
            names = operation_actions().collect();
        }
        format!("the EC2 in memory has no action {action}; use one of {}", names.join(", "))
    })?;
    done_if(account.denied_actions.insert(action.to_owned()), || format!("{action} is denied already"))
}

fn allow(account: &mut Account, action: &str) -> Outcome {
    done_if(account.denied_actions.remove(action), || format!("{action} is not denied"))
}

fn unmap_role(account: &mut Account, role: &str) -> Outcome {
    require(account.roles.contains(role), || {
        let names: Vec<&str> = account.roles.iter().map(String::as_str).collect();
        format!("the account has no role {role}; use one of {}", names.join(", "))
    })?;
    done_if(account.unmapped_roles.insert(role.to_owned()), || format!("the role {role} has no access entry already"))
}

fn map_role(account: &mut Account, role: &str) -> Outcome {
    done_if(account.unmapped_roles.remove(role), || format!("the role {role} has not lost its access entry"))
}

fn is_selected(selector: &InstanceSelector, launched: &LaunchedInstance) -> bool {
    let instance = &launched.instance;
    let equals = |own: &Option<String>, value: &str| own.as_ref().is_none_or(|own| own == value);
    let matches = |own: &Option<String>, value: &str| own.as_ref().is_none_or(|own| matches_pattern(own, value));
    let pool = instance.tags.get("karpenter.sh/nodepool").map_or("", String::as_str);
    launched.is_live()
        && equals(&selector.id, &instance.id)
        && equals(&selector.node, &instance.private_dns_name)
        && equals(&selector.pool, pool)
        && matches(&selector.instance_type, &instance.instance_type)
        && matches(&selector.zone, &instance.zone)
        && equals(&selector.capacity_type, launched.capacity_type())
}

#[cfg(test)]
mod tests;
