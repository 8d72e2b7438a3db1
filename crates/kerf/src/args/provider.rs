//! The flag that selects the cloud provider.

use clap::{Args, ValueEnum as _};

use super::settings::Environment;
use crate::exit::Problem;
use crate::program::{ProviderChoice, ProviderName};

/// Variable that selects the provider if the flag is absent.
const PROVIDER_VARIABLE: &str = "KERF_PROVIDER";

/// The flag `--provider`.
#[derive(Debug, Args)]
pub(crate) struct TypedProvider {
    #[arg(
        long,
        value_name = "NAME",
        hide_possible_values = true,
        help_heading = "Provider",
        help = "Cloud provider: aws (Amazon EC2) or kwok (simulated instances) [env: KERF_PROVIDER] \
                [default: kwok; aws for the program kerf-aws]"
    )]
    provider: Option<ProviderName>,
}

impl TypedProvider {
    /// Returns the selected provider: the flag, else the variable, else the program's default.
    pub(super) fn resolve(&self, environment: Environment<'_>, default: ProviderName) -> Result<ProviderName, Problem> {
        Ok(self.resolve_choice(environment, default)?.without_input())
    }

    /// Returns the selected provider (the flag, else the variable) and the program's default.
    pub(super) fn resolve_choice(
        &self,
        environment: Environment<'_>,
        default: ProviderName,
    ) -> Result<ProviderChoice, Problem> {
        Ok(ProviderChoice { selected: self.resolve_selected(environment)?, default })
    }

    /// Returns the variable that selects the provider. Returns `None` if the flag does, or nothing.
    pub(super) fn selecting_variable(&self, environment: Environment<'_>) -> Option<&'static str> {
        let is_set = environment(PROVIDER_VARIABLE).is_some_and(|text| !text.trim().is_empty());
        (self.provider.is_none() && is_set).then_some(PROVIDER_VARIABLE)
    }

    fn resolve_selected(&self, environment: Environment<'_>) -> Result<Option<ProviderName>, Problem> {
        if self.provider.is_some() {
            return Ok(self.provider);
        }
        let Some(text) = environment(PROVIDER_VARIABLE).filter(|text| !text.trim().is_empty()) else {
            return Ok(None);
        };
        let name = ProviderName::from_str(text.trim(), false).map_err(|_| {
            Problem::new(format!("{PROVIDER_VARIABLE}: \"{text}\" is not a provider"))
                .with_hint("set it to aws or kwok")
        })?;
        Ok(Some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_wins_over_the_variable_and_the_variable_over_the_default() {
        let resolve = |flag: Option<ProviderName>, variable: Option<&str>| {
            let typed = TypedProvider { provider: flag };
            let environment = |name: &str| variable.filter(|_| name == PROVIDER_VARIABLE).map(str::to_owned);
            typed.resolve(&environment, ProviderName::Kwok)
        };
        assert_eq!(resolve(None, None), Ok(ProviderName::Kwok));
        assert_eq!(resolve(None, Some("aws")), Ok(ProviderName::Aws));
        assert_eq!(resolve(None, Some(" ")), Ok(ProviderName::Kwok));
        assert_eq!(resolve(Some(ProviderName::Kwok), Some("aws")), Ok(ProviderName::Kwok));
        let problem = resolve(None, Some("gcp")).unwrap_err();
        assert_eq!(problem.to_string(), "KERF_PROVIDER: \"gcp\" is not a provider");
    }
}
