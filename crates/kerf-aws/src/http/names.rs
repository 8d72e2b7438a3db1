//! ARNs, identifiers and times in AWS's forms.

use jiff::Timestamp;

use crate::memory::Account;

/// Returns a time as EC2 and IAM write it.
pub(super) fn time_text(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// Returns the ARN of a resource of IAM, for example `role` and `/KarpenterNodeRole-demo`.
pub(super) fn iam_arn(account: &Account, kind: &str, path_and_name: &str) -> String {
    format!("arn:{}:iam::{}:{kind}{path_and_name}", partition(&account.region), account.account_id)
}

/// Returns the partition of a region.
pub(super) fn partition(region: &str) -> &'static str {
    if region.starts_with("cn-") {
        "aws-cn"
    } else if region.starts_with("us-gov-") {
        "aws-us-gov"
    } else {
        "aws"
    }
}

/// Returns a unique ID of IAM for a name, for example `AIPA` and 17 characters. AWS draws it at
/// random; here one name always has one ID.
pub(super) fn iam_id(prefix: &str, name: &str) -> String {
    const DIGITS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut hash = fnv1a(name.as_bytes());
    let mut id = prefix.to_owned();
    for position in 0..17 {
        id.push(char::from(DIGITS[(hash % 32) as usize]));
        // 64 bits are 12 digits; the hash is drawn anew before they are used up.
        hash = if position % 8 == 7 { fnv1a(id.as_bytes()) } else { hash / 32 };
    }
    id
}

/// FNV-1a with 64 bits.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_forms_of_aws() {
        let time: Timestamp = "2026-01-02T03:04:05.006789Z".parse().unwrap();
        assert_eq!(time_text(time), "2026-01-02T03:04:05.006Z");
        let id = iam_id("AIPA", "demo");
        assert_eq!(id.len(), 21);
        assert_eq!(id, iam_id("AIPA", "demo"));
        assert_ne!(id, iam_id("AIPA", "demp"));
        let account = Account::new("us-gov-west-1");
        assert_eq!(iam_arn(&account, "role", "/path/name"), "arn:aws-us-gov:iam::111122223333:role/path/name");
        assert_eq!((partition("cn-north-1"), partition("us-west-2")), ("aws-cn", "aws"));
    }
}
