//! Selector terms for AMIs, subnets, security groups and capacity reservations (spec 01 §7.2).
//!
//! Several rules check that not *all* terms are wrong where they seem to mean *any*: one wrong term
//! among correct ones passes, and an empty list of reservations fails. Karpenter's schema has the
//! same rules, and existing objects depend on them.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::open_enum::open_enum;
use crate::schema::{CelRule, rule};

open_enum! {
    /// Instances that a capacity reservation accepts.
    pub enum InstanceMatchCriteria {
        /// Any instance with matching attributes.
        Open = "open",
        /// Only instances that target the reservation explicitly.
        Targeted = "targeted",
    }
}

const TAGS_NOT_EMPTY: CelRule =
    rule("self.all(k, k != '' && self[k] != '')", "empty tag keys or values aren't supported");

/// Term that selects images.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AmiSelectorTerm {
    /// Image of a family at a version, as family@version. Families are al2, al2023, bottlerocket,
    /// windows2019, windows2022 and windows2025; Windows has only the version latest. An alias must
    /// be the only term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 30, "x-kubernetes-validations" = [ALIAS_FORM, ALIAS_FAMILY, ALIAS_WINDOWS]))]
    pub alias: Option<String>,
    /// ID of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "ami-[0-9a-z]+"))]
    pub id: Option<String>,
    /// Name of the image, not of its Name tag. May contain wildcards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Owner of the image: an account ID, or the words self or amazon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Name or ARN of an SSM parameter that contains the ID of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssm_parameter: Option<String>,
    /// Tags that the image must have. The value * matches any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 20, "x-kubernetes-validations" = [TAGS_NOT_EMPTY]))]
    pub tags: Option<BTreeMap<String, String>>,
}

const ALIAS_FORM: CelRule = rule(
    "self.matches('^[a-zA-Z0-9]+@.+$')",
    "'alias' is improperly formatted, must match the format 'family@version'",
);
const ALIAS_FAMILY: CelRule = rule(
    "self.matches('^(al2|al2023|bottlerocket|windows2019|windows2022|windows2025)(@|$)')",
    "family is not supported, must be one of the following: 'al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', \
     'windows2025'",
);
const ALIAS_WINDOWS: CelRule = rule(
    "!self.matches('^windows20(19|22|25)(@|$)') || self.matches('^[^@]*@latest(@|$)')",
    "windows families may only specify version 'latest'",
);

/// Sets the schema of the list of AMI terms.
pub(super) fn of_amis(schema: &mut Schema) {
    schema.insert("minItems".into(), json!(1));
    list(
        schema,
        &[
            rule(
                "self.all(x, has(x.tags) || has(x.id) || has(x.name) || has(x.alias) || has(x.ssmParameter))",
                "expected at least one, got none, ['tags', 'id', 'name', 'alias', 'ssmParameter']",
            ),
            rule(
                "!self.exists(x, has(x.id) && (has(x.alias) || has(x.tags) || has(x.name) || has(x.owner)))",
                "'id' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
            ),
            rule(
                "!self.exists(x, has(x.alias) && (has(x.id) || has(x.tags) || has(x.name) || has(x.owner)))",
                "'alias' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
            ),
            rule(
                "self.size() == 1 || !self.exists(x, has(x.alias))",
                "'alias' is mutually exclusive, cannot be set with a combination of other amiSelectorTerms",
            ),
        ],
    );
}

/// Term that selects subnets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubnetSelectorTerm {
    /// ID of the subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "subnet-[0-9a-z]+"))]
    pub id: Option<String>,
    /// Tags that the subnet must have. The value * matches any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 20, "x-kubernetes-validations" = [TAGS_NOT_EMPTY]))]
    pub tags: Option<BTreeMap<String, String>>,
}

/// Sets the schema of the list of subnet terms.
pub(super) fn of_subnets(schema: &mut Schema) {
    list(
        schema,
        &[
            rule("self.size() > 0", "subnetSelectorTerms cannot be empty"),
            rule("self.all(x, has(x.tags) || has(x.id))", "expected at least one, got none, ['tags', 'id']"),
            rule(
                "!self.all(x, has(x.id) && has(x.tags))",
                "'id' is mutually exclusive, cannot be set with a combination of other fields in a subnet selector term",
            ),
        ],
    );
}

/// Term that selects security groups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecurityGroupSelectorTerm {
    /// ID of the security group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "sg-[0-9a-z]+"))]
    pub id: Option<String>,
    /// Name of the security group, not of its Name tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Tags that the security group must have. The value * matches any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 20, "x-kubernetes-validations" = [TAGS_NOT_EMPTY]))]
    pub tags: Option<BTreeMap<String, String>>,
}

/// Sets the schema of the list of security group terms.
pub(super) fn of_security_groups(schema: &mut Schema) {
    list(
        schema,
        &[
            rule("self.size() > 0", "securityGroupSelectorTerms cannot be empty"),
            rule(
                "self.all(x, has(x.tags) || has(x.id) || has(x.name))",
                "expected at least one, got none, ['tags', 'id', 'name']",
            ),
            rule(
                "!self.all(x, has(x.id) && (has(x.tags) || has(x.name)))",
                "'id' is mutually exclusive, cannot be set with a combination of other fields in a security group selector \
                 term",
            ),
            rule(
                "!self.all(x, has(x.name) && (has(x.tags) || has(x.id)))",
                "'name' is mutually exclusive, cannot be set with a combination of other fields in a security group selector \
                 term",
            ),
        ],
    );
}

/// Term that selects capacity reservations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservationSelectorTerm {
    /// ID of the capacity reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^cr-[0-9a-z]+$"))]
    pub id: Option<String>,
    /// Instances that the reservation accepts: any with matching attributes (open), or only those
    /// that target it explicitly (targeted).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_match_criteria: Option<InstanceMatchCriteria>,
    /// ID of the account that owns the reservation.
    #[serde(default, rename = "ownerID", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^[0-9]{12}$"))]
    pub owner_id: Option<String>,
    /// Tags that the reservation must have. The value * matches any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 20, "x-kubernetes-validations" = [TAGS_NOT_EMPTY]))]
    pub tags: Option<BTreeMap<String, String>>,
}

/// Sets the schema of the list of capacity reservation terms.
pub(super) fn of_capacity_reservations(schema: &mut Schema) {
    list(
        schema,
        &[
            rule(
                "self.all(x, has(x.tags) || has(x.id) || has(x.instanceMatchCriteria))",
                "expected at least one, got none, ['tags', 'id', 'instanceMatchCriteria']",
            ),
            rule(
                "!self.all(x, has(x.id) && (has(x.tags) || has(x.ownerID) || has(x.instanceMatchCriteria)))",
                "'id' is mutually exclusive, cannot be set along with other fields in a capacity reservation selector term",
            ),
        ],
    );
}

fn list(schema: &mut Schema, rules: &[CelRule]) {
    schema.insert("maxItems".into(), json!(30));
    schema.insert("x-kubernetes-validations".into(), json!(rules));
}
