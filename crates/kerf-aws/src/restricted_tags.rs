//! Tags that users may not set (spec 05 §15.2).

use kerf_api::ec2nodeclass::{EC2NodeClassSpec, RESTRICTED_TAGS};

/// Prefix of tags that only AWS sets, in any case.
const AWS_TAG_PREFIX: &str = "aws:";
/// Prefix of the tags that name the owning cluster.
const CLUSTER_TAG_PREFIX: &str = "kubernetes.io/cluster/";

/// The class sets tags that Kerf or AWS owns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tags failed validation requirements (tags={})", quoted(.0))]
pub(crate) struct RestrictedTagsError(Vec<String>);

fn quoted(keys: &[String]) -> String {
    keys.iter().map(|key| format!("{key:?}")).collect::<Vec<_>>().join(", ")
}

/// Checks that a class sets no tag that Kerf or AWS owns. Admission checks those of Kerf too, but
/// not for objects that are older than the rule. EC2 would reject every launch with a tag of AWS.
pub(crate) fn check_restricted_tags(spec: &EC2NodeClassSpec) -> Result<(), RestrictedTagsError> {
    let keys = spec.tags.iter().flatten().map(|(key, _)| key);
    let restricted: Vec<String> = keys.filter(|key| is_restricted(key)).cloned().collect();
    if restricted.is_empty() { Ok(()) } else { Err(RestrictedTagsError(restricted)) }
}

/// Matches `^kubernetes\.io/cluster/[0-9A-Za-z][A-Za-z0-9\-_]*$`, the exact keys, and `aws:`.
fn is_restricted(key: &str) -> bool {
    let names_cluster = key.strip_prefix(CLUSTER_TAG_PREFIX).is_some_and(|name| {
        name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '-' || char == '_')
    });
    let is_of_aws = key.get(..AWS_TAG_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(AWS_TAG_PREFIX));
    names_cluster || is_of_aws || RESTRICTED_TAGS.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(keys: &[&str]) -> Result<(), String> {
        let tags = keys.iter().map(|key| ((*key).to_owned(), "v".to_owned())).collect();
        let spec = EC2NodeClassSpec { tags: Some(tags), ..EC2NodeClassSpec::default() };
        check_restricted_tags(&spec).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_that_kerf_or_aws_owns_are_rejected_in_their_order() {
        assert_eq!(
            check(&["Name", "team", "aws", "awsome:a", "kubernetes.io/cluster", "kubernetes.io/cluster/-a"]),
            Ok(())
        );
        assert_eq!(
            check(&["kubernetes.io/cluster/a-b_1", "Name", "karpenter.sh/nodepool"]).unwrap_err(),
            r#"tags failed validation requirements (tags="karpenter.sh/nodepool", "kubernetes.io/cluster/a-b_1")"#
        );
        for key in [
            "aws:createdBy",
            "AWS:x",
            "eks:eks-cluster-name",
            "karpenter.k8s.aws/ec2nodeclass",
            "karpenter.sh/nodeclaim",
        ] {
            assert!(check(&[key]).is_err(), "{key}");
        }
    }
}
