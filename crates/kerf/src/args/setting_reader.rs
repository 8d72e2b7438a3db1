//! Reads settings that are a flag and an environment variable of the same name.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::settings::{Environment, ignored_variable, parse_bool, parse_duration};
use crate::exit::Problem;

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

    pub(super) fn report_invalid<T>(&mut self, name: &str, value: &str, default: T) -> T {
        self.problems.push(Problem::new(format!("validating cli flags / env vars, invalid {name} \"{value}\"")));
        default
    }
}
