//! Mistakes in changes of an AWS account that do not depend on the account.

use std::time::Duration;

use super::{AwsStep, CallFaultName, QuotaStep};

/// Longest duration of a change: a leap year.
const LONGEST: Duration = Duration::from_hours(366 * 24);

impl AwsStep {
    /// Returns true if the step changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the mistakes that do not depend on the account.
    /// A field begins with a point, or is empty for the step itself.
    pub(crate) fn add_errors(&self, add_error: &mut impl FnMut(&str, &str)) {
        if self.is_empty() {
            add_error("", "has no action: add for example reclaim, stockOut or publishImages");
        }
        if self.call_fault.as_ref().is_some_and(|fault| fault.fault == CallFaultName::Error && fault.code.is_none()) {
            add_error(".callFault.code", "is missing: the fault `error` needs one, for example InternalError");
        }
        if self.tags.as_ref().is_some_and(|tags| tags.add.is_empty() && tags.remove.is_empty()) {
            add_error(".tags", "changes nothing: add `add` or `remove`");
        }
        if self.quota.is_some_and(|quota| quota == QuotaStep::default()) {
            add_error(".quota", "changes nothing: add onDemandVcpus, spotVcpus or volumeGib");
        }
        if self.spot_market.is_some_and(|market| market.change_every < Duration::from_secs(1)) {
            add_error(".spotMarket.changeEvery", "must be at least 1s");
        }
        let selectors = [
            ("reclaim", self.reclaim.as_ref()),
            ("rebalance", self.rebalance.as_ref()),
            ("healthEvent", self.health_event.as_ref()),
            ("terminate", self.terminate.as_ref()),
            ("stop", self.stop.as_ref()),
            ("fail.instances", self.fail.as_ref().map(|step| &step.instances)),
            ("statusCheck.instances", self.status_check.as_ref().map(|step| &step.instances)),
        ];
        for (field, _) in selectors.iter().filter(|(_, selector)| selector.is_some_and(|own| own.count == Some(0))) {
            add_error(&format!(".{field}.count"), "must be at least 1");
        }
        self.add_value_errors(add_error);
        self.add_duration_errors(add_error);
    }

    /// Adds the mistakes of values that no account has, or that change nothing.
    fn add_value_errors(&self, add_error: &mut impl FnMut(&str, &str)) {
        if self.empty_fleets == Some(0) {
            add_error(".emptyFleets", "must be at least 1");
        }
        if self.launch_failure.as_ref().is_some_and(|failure| failure.count == Some(0)) {
            add_error(".launchFailure.count", "must be at least 1");
        }
        let reasons = [
            ("fail", self.fail.as_ref().map(|step| &step.reason)),
            ("launchFailure", self.launch_failure.as_ref().map(|step| &step.reason)),
        ];
        for (field, _) in reasons.iter().filter(|(_, reason)| reason.is_some_and(|reason| reason.trim().is_empty())) {
            add_error(
                &format!(".{field}.reason"),
                "is empty: write the code of a reason, such as Server.InternalError",
            );
        }
        if let Some(fault) = &self.call_fault {
            if fault.rate.is_some_and(|rate| rate.per_million() == 0) {
                add_error(".callFault.rate", "is 0, so no call fails");
            }
            if fault.times == Some(0) {
                add_error(".callFault.times", "must be at least 1");
            }
        }
        if let Some(reservation) = &self.add_reservation
            && !is_reservation_id(&reservation.id)
        {
            let why = "must be `cr-` and hexadecimal digits, for example cr-0000000000000abcd";
            add_error(".addReservation.id", why);
        }
        if let Some(tags) = &self.tags {
            if tags.resources.is_empty() {
                add_error(".tags.resources", "is empty: write a pattern of IDs, for example subnet-*");
            }
            let keys = tags.add.keys().map(|key| ("add", key)).chain(tags.remove.iter().map(|key| ("remove", key)));
            for (field, key) in keys.filter(|(_, key)| key.is_empty() || key.to_lowercase().starts_with("aws:")) {
                let why = format!("nobody can change a tag with the key \"{key}\"");
                add_error(&format!(".tags.{field}"), &why);
            }
        }
        if let Some(images) = &self.publish_images {
            if !is_release_date(&images.release) {
                let why = "must be a date without separators, for example \"20260115\"";
                add_error(".publishImages.release", why);
            }
            let numbers: Vec<&str> = images.bottlerocket.split('.').collect();
            let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            if numbers.len() != 3 || !numbers.iter().all(is_number) {
                add_error(".publishImages.bottlerocket", "must be a version without `v`, for example 1.53.0");
            }
        }
    }

    fn add_duration_errors(&self, add_error: &mut impl FnMut(&str, &str)) {
        let durations = [
            ("stockOut.for", self.stock_out.as_ref().and_then(|step| step.duration)),
            ("callFault.for", self.call_fault.as_ref().and_then(|step| step.duration)),
            ("zonalShift.for", self.zonal_shift.as_ref().map(|step| step.duration)),
            ("addReservation.endsIn", self.add_reservation.as_ref().and_then(|step| step.ends_in)),
        ];
        for (field, duration) in durations {
            if duration.is_some_and(|duration| duration.is_zero()) {
                add_error(&format!(".{field}"), "must be longer than 0s");
            }
        }
        let others = [
            ("spotMarket.changeEvery", self.spot_market.map(|step| step.change_every)),
            ("instancesVisibleAfter", self.instances_visible_after),
        ];
        for (field, _) in durations.iter().chain(&others).filter(|(_, own)| own.is_some_and(|own| own > LONGEST)) {
            add_error(&format!(".{field}"), "must be at most 8784h, a year");
        }
    }
}

fn is_reservation_id(id: &str) -> bool {
    let digits = id.strip_prefix("cr-").unwrap_or_default();
    !digits.is_empty() && digits.len() <= 17 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns true for a date such as `20260115`.
fn is_release_date(text: &str) -> bool {
    let is_digits = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits && format!("{}-{}-{}", &text[..4], &text[4..6], &text[6..]).parse::<jiff::civil::Date>().is_ok()
}
