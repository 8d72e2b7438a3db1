//! Reads settings that are a flag and an environment variable of the same name.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use super::settings::{Environment, ignored_variable, parse_bool, parse_duration};
use crate::exit::Problem;
use crate::program::ProviderName;

/// Reads settings. A flag wins over its environment variable, a variable over the default. A
/// variable with an invalid value is ignored with a warning; a flag with an invalid value is a
/// problem.
pub(super) struct SettingReader<'e> {
    pub(super) environment: Environment<'e>,
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<String>,
}

impl<'e> SettingReader<'e> {
    pub(super) fn new(environment: Environment<'e>) -> Self {
        Self { environment, problems: Vec::new(), warnings: Vec::new() }
    }

    pub(super) fn variable(&self, name: &str) -> Option<String> {
        (self.environment)(name).filter(|value| !value.trim().is_empty())
    }

    pub(super) fn text(&self, flag: Option<String>, name: &str) -> Option<String> {
        // An empty flag counts as absent.
        flag.or_else(|| self.variable(name)).filter(|value| !value.is_empty())
    }

    pub(super) fn number<N: FromStr + fmt::Display>(&mut self, flag: Option<N>, name: &str, default: N) -> N {
        if let Some(value) = flag {
            return value;
        }
        let Some(text) = self.variable(name) else { return default };
        text.trim().parse().unwrap_or_else(|_| {
            self.warnings.push(ignored_variable(name, &text, &default));
            default
        })
    }

    pub(super) fn boolean(&mut self, flag: Option<&str>, name: &str, default: bool) -> bool {
        match flag {
            Some("true") => true,
            Some("false") => false,
            Some(other) => {
                let message = format!("--{name}: \"{other}\" is not a valid value, must be true or false");
                self.problems.push(Problem::new(message));
                default
            }
            None => {
                let variable = name.to_uppercase().replace('-', "_");
                let Some(text) = self.variable(&variable) else { return default };
                parse_bool(&text).unwrap_or_else(|| {
                    self.warnings.push(ignored_variable(&variable, &text, default));
                    default
                })
            }
        }
    }

    pub(super) fn duration(&mut self, flag: Option<String>, name: &str, default: Duration) -> Duration {
        match flag {
            Some(text) => parse_duration(&text).unwrap_or_else(|why| {
                let flag = name.to_lowercase().replace('_', "-");
                self.problems.push(Problem::new(format!("--{flag}: \"{text}\" is not a valid duration: {why}")));
                default
            }),
            None => {
                let Some(text) = self.variable(name) else { return default };
                parse_duration(text.trim()).unwrap_or_else(|_| {
                    self.warnings.push(ignored_variable(name, &text, format_args!("{default:?}")));
                    default
                })
            }
        }
    }

    /// Reads an address: `host:port`, `:port` for all addresses, or `0` for none. An address with
    /// port 0 counts as none.
    pub(super) fn address(&mut self, flag: Option<String>, name: &str, default: SocketAddr) -> Option<SocketAddr> {
        let is_flag = flag.as_ref().is_some_and(|text| !text.is_empty());
        let address = match self.text(flag, name).as_deref().map(str::trim) {
            None => default,
            Some("0") => return None,
            Some(text) => match parse_address(text) {
                Some(address) => address,
                None if is_flag => {
                    let flag = name.to_lowercase().replace('_', "-");
                    let message = format!("--{flag}: \"{text}\" is not a valid address");
                    let hint = "write an IP address and a port, such as 127.0.0.1:8080, or :8080 for all addresses";
                    self.problems.push(Problem::new(message).with_hint(hint));
                    default
                }
                None => {
                    self.warnings.push(ignored_variable(name, text, default));
                    default
                }
            },
        };
        (address.port() > 0).then_some(address)
    }

    /// Adds a warning for each flag that the provider does not use.
    pub(super) fn warn_about_flags(&mut self, flags: &[&str], provider: ProviderName) {
        let warning = |flag: &&str| format!("--{flag} has no effect with --provider {}", provider.name());
        self.warnings.extend(flags.iter().map(warning));
    }

    pub(super) fn report_invalid<T>(&mut self, name: &str, value: &str, default: T) -> T {
        self.problems.push(Problem::new(format!("validating cli flags / env vars, invalid {name} \"{value}\"")));
        default
    }
}

/// Returns the names of the flags that have a value.
pub(super) fn names_of_given<const N: usize>(flags: [(&'static str, bool); N]) -> Vec<&'static str> {
    flags.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
}

/// Parses `host:port`, or `:port` for all addresses.
fn parse_address(text: &str) -> Option<SocketAddr> {
    match text.strip_prefix(':') {
        Some(port) => Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port.parse().ok()?))),
        None => text.parse().ok(),
    }
}
