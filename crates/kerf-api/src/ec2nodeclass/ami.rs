//! AMI families and aliases such as `al2023@latest` (spec 01 §7.2).

use crate::ec2nodeclass::EC2NodeClassSpec;
use crate::open_enum::open_enum;
use crate::schema::CelRule;

open_enum! {
    /// Family of AMIs, which determines how an instance is configured.
    pub enum AmiFamily {
        /// Amazon Linux 2.
        Al2 = "AL2",
        /// Amazon Linux 2023.
        Al2023 = "AL2023",
        /// AWS's container operating system.
        Bottlerocket = "Bottlerocket",
        /// Images that the controller knows nothing about.
        Custom = "Custom",
        /// Windows Server 2019.
        Windows2019 = "Windows2019",
        /// Windows Server 2022.
        Windows2022 = "Windows2022",
        /// Windows Server 2025.
        Windows2025 = "Windows2025",
    }
}

/// Name of each family in `amiFamily` and in an alias. `Custom` has no alias.
pub(super) const FAMILIES: [(AmiFamily, Option<&str>); 7] = [
    (AmiFamily::Al2, Some("al2")),
    (AmiFamily::Al2023, Some("al2023")),
    (AmiFamily::Bottlerocket, Some("bottlerocket")),
    (AmiFamily::Custom, None),
    (AmiFamily::Windows2019, Some("windows2019")),
    (AmiFamily::Windows2022, Some("windows2022")),
    (AmiFamily::Windows2025, Some("windows2025")),
];

/// Returns the rule that `amiFamily`, if set beside an alias, is the alias's family or Custom.
pub(super) fn alias_rule(alias: &str, family: &AmiFamily) -> CelRule {
    let article = if family.as_str().starts_with('A') { "an" } else { "a" };
    CelRule {
        rule: format!(
            "!has(self.amiFamily) || self.amiFamily in ['{family}', 'Custom'] || \
             !self.amiSelectorTerms.exists(x, has(x.alias) && x.alias.matches('^{alias}(@|$)'))"
        )
        .into(),
        message: format!("if set, amiFamily must be '{family}' or 'Custom' when using {article} {family} alias").into(),
    }
}

/// AMI alias, such as `al2023@latest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias<'a> {
    /// Family named before the `@`.
    pub family: AmiFamily,
    /// `latest`, or a version of the family.
    pub version: &'a str,
}

/// Reason why a text is not an alias. Admission accepts some such texts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AliasError {
    /// The text does not have the form `family@version`.
    #[error("alias {0:?} is not of the form family@version")]
    Malformed(String),
    /// The family is unknown or has no alias.
    #[error("alias {0:?} names an unknown family")]
    UnknownFamily(String),
}

impl<'a> Alias<'a> {
    /// Parses an alias. It must contain exactly one `@`, with text on both sides.
    pub fn parse(text: &'a str) -> Result<Self, AliasError> {
        let (family, version) = text
            .split_once('@')
            .filter(|(family, version)| !family.is_empty() && !version.is_empty() && !version.contains('@'))
            .ok_or_else(|| AliasError::Malformed(text.to_owned()))?;
        let family = family_of(family).ok_or_else(|| AliasError::UnknownFamily(text.to_owned()))?;
        Ok(Self { family, version })
    }
}

fn family_of(alias_family: &str) -> Option<AmiFamily> {
    FAMILIES.iter().find(|(_, alias)| *alias == Some(alias_family)).map(|(family, _)| family.clone())
}

impl EC2NodeClassSpec {
    /// Returns the alias that selects the image, or `None` if there is none. Admission ensures that
    /// an alias is the only term.
    pub fn alias(&self) -> Option<Result<Alias<'_>, AliasError>> {
        self.ami_selector_terms.iter().find_map(|term| term.alias.as_deref()).map(Alias::parse)
    }

    /// Returns the family that instances are configured for: `amiFamily`, else the family of the
    /// alias, else Custom. The family of an alias counts even if its version cannot be resolved.
    pub fn effective_ami_family(&self) -> AmiFamily {
        if let Some(family) = &self.ami_family {
            return family.clone();
        }
        self.ami_selector_terms
            .iter()
            .filter_map(|term| term.alias.as_deref())
            .find_map(|alias| family_of(alias.split('@').next()?))
            .unwrap_or(AmiFamily::Custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ec2nodeclass::AmiSelectorTerm;

    #[test]
    fn invalid_aliases_are_errors() {
        assert_eq!(Alias::parse("al2023@latest").unwrap(), Alias { family: AmiFamily::Al2023, version: "latest" });
        assert_eq!(Alias::parse("bottlerocket@v1.10.0").unwrap().version, "v1.10.0");
        for text in ["", "@", "@latest", "al2023", "al2023@", "al2023@a@b", "al2023@@"] {
            assert_eq!(Alias::parse(text), Err(AliasError::Malformed(text.to_owned())));
        }
        assert_eq!(Alias::parse("AL2@latest"), Err(AliasError::UnknownFamily("AL2@latest".to_owned())));
    }

    #[test]
    fn the_effective_family_is_the_field_else_that_of_the_alias_else_custom() {
        let with = |family: Option<AmiFamily>, alias: Option<&str>| EC2NodeClassSpec {
            ami_family: family,
            ami_selector_terms: vec![AmiSelectorTerm { alias: alias.map(Into::into), ..Default::default() }],
            ..Default::default()
        };
        assert_eq!(with(None, Some("windows2022@latest")).effective_ami_family(), AmiFamily::Windows2022);
        assert_eq!(with(None, Some("al2023@a@b")).effective_ami_family(), AmiFamily::Al2023);
        assert_eq!(with(Some(AmiFamily::Custom), Some("al2@latest")).effective_ami_family(), AmiFamily::Custom);
        assert_eq!(with(None, None).effective_ami_family(), AmiFamily::Custom);
        assert!(with(None, Some("al2023@a@b")).alias().unwrap().is_err());
    }
}
