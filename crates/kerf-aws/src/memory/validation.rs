//! Rules of EC2 about the content of requests: tags and volumes.

use super::AwsFailure;
use crate::ports::Tags;
use crate::ports::ec2::{LaunchTemplateData, TemplateBlockDevice};

/// EC2's quota of tags per resource.
pub(super) const TAGS_MAX: usize = 50;
/// Largest number of characters of the key of a tag.
const TAG_KEY_MAX_CHARS: usize = 128;
/// Largest number of characters of the value of a tag.
const TAG_VALUE_MAX_CHARS: usize = 256;

/// Prefix of tag keys that only AWS may set.
const RESERVED_PREFIX: &str = "aws:";

/// Checks the tags of a request by their number, keys and values.
pub(super) fn check_tags(tags: &Tags) -> Result<(), AwsFailure> {
    if tags.len() > TAGS_MAX {
        return Err(too_many_tags());
    }
    for (key, value) in tags {
        // EC2 rejects the prefix in any case.
        if key.get(..RESERVED_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(RESERVED_PREFIX)) {
            return Err(AwsFailure::invalid_value("Tag keys starting with 'aws:' are reserved for internal use"));
        }
        if key.is_empty() || key.chars().count() > TAG_KEY_MAX_CHARS {
            let message = format!("Tag key '{key}' must have between 1 and {TAG_KEY_MAX_CHARS} characters");
            return Err(AwsFailure::invalid_value(message));
        }
        if value.chars().count() > TAG_VALUE_MAX_CHARS {
            let message =
                format!("Tag value of '{key}' exceeds the maximum length of {TAG_VALUE_MAX_CHARS} characters");
            return Err(AwsFailure::invalid_value(message));
        }
    }
    Ok(())
}

/// Returns EC2's answer to more tags than a resource may have.
pub(super) fn too_many_tags() -> AwsFailure {
    AwsFailure::bad_request("TagLimitExceeded", "The maximum number of Tags for a resource has been reached.")
}

/// Checks the volumes of a launch by their types.
pub(super) fn check_volumes(data: &LaunchTemplateData) -> Result<(), AwsFailure> {
    data.block_devices.iter().try_for_each(check_volume)
}

fn check_volume(volume: &TemplateBlockDevice) -> Result<(), AwsFailure> {
    // gp2 is EC2's default.
    let volume_type = volume.volume_type.as_deref().unwrap_or("gp2");
    let (has_iops, size_max, iops_max) = match volume_type {
        "gp2" => (false, 16_384, 0),
        "gp3" => (true, 65_536, 80_000),
        "io1" => (true, 16_384, 64_000),
        "io2" => (true, 65_536, 256_000),
        "st1" | "sc1" => (false, 16_384, 0),
        "standard" => (false, 1_024, 0),
        name => return Err(AwsFailure::invalid_value(format!("Value ({name}) for parameter volumeType is invalid."))),
    };
    let unsupported = |parameter: &str| {
        let message = format!("The parameter {parameter} is not supported for {volume_type} volumes.");
        AwsFailure::bad_request("InvalidParameterCombination", message)
    };
    match volume.iops {
        Some(_) if !has_iops => return Err(unsupported("iops")),
        Some(iops) if !(100..=iops_max).contains(&iops) => {
            let message = format!(
                "Volume iops of {iops} is not supported for {volume_type}; it must be between 100 and {iops_max}."
            );
            return Err(AwsFailure::invalid_value(message));
        }
        None if volume_type.starts_with("io") => return Err(AwsFailure::missing("iops")),
        Some(_) | None => {}
    }
    if volume.throughput.is_some() && volume_type != "gp3" {
        return Err(unsupported("throughput"));
    }
    match volume.volume_size_gib {
        Some(size) if !(1..=size_max).contains(&size) => {
            let message = format!(
                "Volume of {size}GiB is not supported for {volume_type}; it must be between 1GiB and {size_max}GiB."
            );
            Err(AwsFailure::invalid_value(message))
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SUBNETS, aws, fleet, on_demand, template};
    use super::*;
    use crate::ports::Ec2 as _;

    fn tags(pairs: impl IntoIterator<Item = (String, String)>) -> Tags {
        pairs.into_iter().collect()
    }

    // spec 05 §15.2
    #[test]
    fn tags_are_checked_as_ec2_does() {
        let numbered = |count: usize| tags((0..count).map(|number| (format!("key-{number}"), String::new())));
        let one = |key: String, value: String| tags([(key, value)]);
        for good in [numbered(50), one("k".repeat(128), "v".repeat(256)), one("ä".repeat(128), String::new())] {
            assert_eq!(check_tags(&good), Ok(()));
        }
        for (bad, code) in [
            (numbered(51), "TagLimitExceeded"),
            (one("k".repeat(129), String::new()), "InvalidParameterValue"),
            (one(String::new(), String::new()), "InvalidParameterValue"),
            (one("k".into(), "v".repeat(257)), "InvalidParameterValue"),
            (one("aws:x".into(), String::new()), "InvalidParameterValue"),
            (one("AWS:x".into(), String::new()), "InvalidParameterValue"),
            (one("Aws:".into(), String::new()), "InvalidParameterValue"),
        ] {
            assert_eq!(check_tags(&bad).unwrap_err().code, code);
        }
    }

    // spec 05 §13.4
    #[tokio::test(start_paused = true)]
    async fn a_volume_that_ec2_does_not_offer_is_an_error_of_the_override() {
        let aws = aws();
        let volume = |volume_type: &str| TemplateBlockDevice {
            volume_type: Some(volume_type.to_owned()),
            volume_size_gib: Some(20),
            ..TemplateBlockDevice::default()
        };
        let answer = async |device: TemplateBlockDevice| {
            let mut request = template(&aws, "volumes");
            request.data.block_devices = vec![device];
            aws.create_launch_template(request).await.unwrap();
            let mut answer =
                aws.create_fleet(fleet(1, on_demand(), "volumes", &[("m5.large", SUBNETS[0])])).await.unwrap();
            aws.state().templates.remove("volumes");
            answer.errors.pop().map(|error| format!("{}: {}", error.code, error.message)).unwrap_or_default()
        };
        assert_eq!(answer(volume("gp3")).await, "");
        assert_eq!(answer(TemplateBlockDevice { iops: Some(4000), ..volume("gp3") }).await, "");
        assert_eq!(
            answer(TemplateBlockDevice { iops: Some(4000), ..volume("gp2") }).await,
            "InvalidParameterCombination: The parameter iops is not supported for gp2 volumes."
        );
        assert_eq!(
            answer(TemplateBlockDevice { throughput: Some(200), ..volume("io2") }).await,
            "MissingParameter: The request must contain the parameter iops"
        );
        assert!(answer(TemplateBlockDevice { throughput: Some(200), ..volume("st1") }).await.contains("throughput"));
        assert!(answer(TemplateBlockDevice { iops: Some(99), ..volume("gp3") }).await.contains("between 100"));
        assert!(answer(TemplateBlockDevice { volume_size_gib: Some(0), ..volume("gp3") }).await.contains("0GiB"));
        assert!(answer(volume("floppy")).await.contains("(floppy)"));
    }
}
