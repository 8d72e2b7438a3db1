//! `kerf validate`: reads manifests as `kerf plan` does, and validates all fields of every object.
//! Loading reports the problems, so the result is only the number of valid objects per kind.

use std::fmt::Write as _;

use crate::args::ValidateOptions;
use crate::exit::{CommandFailure, Exit};
use crate::input::{self, ValidationScope};
use crate::output::{self, Messages};

pub(super) fn run(options: &ValidateOptions, messages: &mut Messages<'_>) -> Result<Exit, CommandFailure> {
    let scope = if options.is_strict { ValidationScope::Strict } else { ValidationScope::All };
    let loaded = input::load(&options.input, scope, super::available_threads())?;
    for warning in &loaded.warnings {
        messages.print_warning(warning);
    }
    let mut result = String::new();
    for (kind, count) in &loaded.counts {
        let _ = writeln!(result, "{count:>7} {}", kind.name());
    }
    output::print_text(&result)?;
    Ok(Exit::Done)
}
