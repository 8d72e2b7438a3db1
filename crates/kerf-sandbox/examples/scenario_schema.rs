//! Prints the JSON schema of scenario files, for `docs/schemas/scenario.schema.json`.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    let schema = kerf_sandbox::sim::Scenario::json_schema();
    writeln!(std::io::stdout(), "{schema:#}")
}
