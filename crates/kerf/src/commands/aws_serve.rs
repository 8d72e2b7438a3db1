//! `kerf aws serve`: serves an EC2 in memory on loopback, in the wire formats of AWS.

use crate::args::AwsServeOptions;
use crate::exit::{CommandFailure, Exit, Problem};

pub(super) fn run(options: &AwsServeOptions) -> Result<Exit, CommandFailure> {
    let problem = format!("the account of {} cannot be served yet", options.cluster_name);
    Err(CommandFailure::ExecutionFailed(Problem::new(problem).into()))
}
