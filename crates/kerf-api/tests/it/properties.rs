//! Properties that each parser has for all inputs. A violation is a panic.
//!
//! The mutation tests of this crate run them on the stable toolchain, a few seconds each. The
//! targets under `fuzz/` include this file and run them with inputs that libFuzzer generates by
//! coverage.

use std::fmt::Debug;

use jiff::Timestamp;
use kerf_api::duration::{Duration, evaluate_do_not_disrupt, parse_nillable};
use kerf_api::quantity::Quantity;
use kerf_api::schedule::{Schedule, allowed_disruptions};
use kerf_api::{capacitybuffer, ec2nodeclass, hash, kwoknodeclass, nodeclaim, nodeoverlay, nodepool, slim};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The canonical text of a quantity has the same value and is its own canonical text.
pub(crate) fn quantity(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let quantity = match text.parse::<Quantity>() {
        Ok(quantity) => quantity,
        Err(error) => {
            return assert!(error.to_string().contains(&format!("{text:?}")), "{error} does not name {text:?}");
        }
    };
    let canonical = quantity.to_string();
    let reparsed: Quantity = canonical.parse().expect("a canonical text is a quantity");
    assert_eq!(reparsed, quantity, "{text:?} became {canonical:?}");
    assert_eq!(reparsed.to_string(), canonical);
    let json = serde_json::to_string(&quantity).expect("a quantity can be encoded");
    assert_eq!(serde_json::from_str::<Quantity>(&json).expect("an encoded quantity can be decoded"), quantity);
    assert!((quantity - reparsed).is_zero() && quantity + Quantity::ZERO == quantity);
    assert_eq!(quantity.is_negative(), quantity.value() < 0);
    assert_eq!(quantity.is_zero(), quantity.milli_value() == 0);
}

/// The text of a duration parses to the same value, and every evaluation of it terminates.
pub(crate) fn duration(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match text.parse::<Duration>() {
        Ok(duration) => assert_eq!(duration.to_string().parse(), Ok(duration), "{text:?} became {duration}"),
        Err(error) => assert!(error.to_string().starts_with("time: "), "{error}"),
    }
    assert_eq!(parse_nillable(Some(text)).ok().flatten(), text.parse().ok());
    for now in [Timestamp::MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX] {
        for started in [None, Some(Timestamp::MIN), Some(Timestamp::UNIX_EPOCH), Some(Timestamp::MAX)] {
            evaluate_do_not_disrupt(text, started, now);
        }
    }
}

/// The next match is in the future, and there is no earlier one.
pub(crate) fn schedule(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(schedule) = text.parse::<Schedule>() else { return };
    let noon: Timestamp = "2026-03-04T12:00:00Z".parse().expect("a time");
    for instant in [Timestamp::MIN, Timestamp::UNIX_EPOCH, noon, Timestamp::MAX] {
        let window = Duration::from_secs(3600);
        match schedule.next_after(instant) {
            Some(next_match) => {
                assert!(next_match > instant, "{text:?} matches at {next_match}, not after {instant}");
                assert_eq!(
                    schedule.next_after(Duration::from_nanos(1).before(next_match)),
                    Some(next_match),
                    "{text:?}"
                );
                assert!(schedule.is_active(window, next_match), "{text:?} is not active at its own match {next_match}");
            }
            None => assert!(schedule.is_active(Duration::ZERO, instant), "{text:?} never matches, so it is active"),
        }
    }
}

/// Any JSON is decoded or rejected. A decoded object can be serialized and decoded again.
pub(crate) fn manifest(input: &[u8]) {
    check_round_trip::<nodepool::NodePool>(input, |pool| {
        let _ = hash::nodepool_hash(&pool.spec.template);
        let budgets = pool.spec.disruption.iter().filter_map(|disruption| disruption.budgets.as_deref());
        for budgets in budgets {
            let _ = allowed_disruptions(budgets, &nodepool::DisruptionReason::Empty, 10, Timestamp::UNIX_EPOCH);
        }
    });
    check_round_trip::<ec2nodeclass::EC2NodeClass>(input, |class| {
        let _ = class.spec.as_ref().map(|spec| hash::ec2nodeclass_hash(spec, ""));
    });
    check_round_trip::<nodeclaim::NodeClaim>(input, |_| ());
    check_round_trip::<nodeoverlay::NodeOverlay>(input, |_| ());
    check_round_trip::<capacitybuffer::CapacityBuffer>(input, |_| ());
    check_round_trip::<kwoknodeclass::KWOKNodeClass>(input, |_| ());
    decode::<slim::Pod>(input);
    decode::<slim::Node>(input);
    decode::<slim::PersistentVolume>(input);
    decode::<slim::PersistentVolumeClaim>(input);
    decode::<slim::StorageClass>(input);
    decode::<slim::CsiNode>(input);
    decode::<slim::VolumeAttachment>(input);
    decode::<slim::DaemonSet>(input);
    decode::<slim::ReplicaOwner>(input);
    decode::<slim::Service>(input);
    decode::<slim::Namespace>(input);
    decode::<slim::PodDisruptionBudget>(input);
}

fn decode<T: DeserializeOwned>(input: &[u8]) -> Option<T> {
    match serde_json::from_slice(input) {
        Ok(object) => Some(object),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

fn check_round_trip<T: DeserializeOwned + Serialize + PartialEq + Debug>(input: &[u8], inspect: impl FnOnce(&T)) {
    let Some(object) = decode::<T>(input) else { return };
    let json = serde_json::to_string(&object).expect("a decoded object can be encoded");
    let reparsed: T = serde_json::from_str(&json).expect("an encoded object can be decoded");
    assert_eq!(reparsed, object);
    inspect(&object);
}
