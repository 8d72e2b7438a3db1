//! Tags of everything that a launch creates (spec 05 §15.2).

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::labels::{self, aws};
use kerf_api::nodeclaim::NodeClaim;

use crate::instances::CLUSTER_NAME_TAG;
use crate::nodeclass::{RestrictedTagsError, check_restricted_tags};
use crate::ports::Tags;

/// Returns the tags of a class, overlaid by the tags by which Kerf finds an instance again. The
/// name of the claim is not among them, so that equal claims can share one request.
pub(crate) fn launch_tags(
    class: &EC2NodeClass,
    claim: &NodeClaim,
    cluster_name: &str,
) -> Result<Tags, RestrictedTagsError> {
    let spec = class.spec.clone().unwrap_or_default();
    check_restricted_tags(&spec)?;
    let pool = claim.metadata.labels.as_ref().and_then(|labels| labels.get(labels::NODEPOOL));
    let mut tags = spec.tags.unwrap_or_default();
    tags.extend([
        (format!("kubernetes.io/cluster/{cluster_name}"), "owned".to_owned()),
        (labels::NODEPOOL.to_owned(), pool.cloned().unwrap_or_default()),
        (CLUSTER_NAME_TAG.to_owned(), cluster_name.to_owned()),
        (aws::EC2NODECLASS.to_owned(), class.metadata.name.clone().unwrap_or_default()),
    ]);
    Ok(tags)
}
