//! `kerf aws serve`: serves an EC2 in memory on loopback, in the wire formats of AWS, until a
//! signal arrives.

use anyhow::Context as _;
use kerf_aws::http::{AwsHttp, AwsServer};
use kerf_runtime::Clock;

use super::controller_process::listen_problem;
use crate::args::AwsServeOptions;
use crate::exit::{CommandFailure, Exit};
use crate::output;
use crate::provider::{AccountOptions, account_change, memory_aws};

pub(super) fn run(options: &AwsServeOptions) -> Result<Exit, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(super::available_threads().get().min(2))
        .build()
        .context("cannot start the runtime")
        .map_err(CommandFailure::ExecutionFailed)?;
    let outcome = runtime.block_on(serve(options));
    // Do not wait for open connections.
    runtime.shutdown_background();
    outcome
}

async fn serve(options: &AwsServeOptions) -> Result<Exit, CommandFailure> {
    let account = AccountOptions {
        cluster_name: &options.cluster_name,
        kubernetes_version: &options.kubernetes_version,
        endpoint: options.cluster_endpoint.clone(),
        is_instant: false,
        seed: 0,
    };
    let aws = memory_aws(Clock::system(), &account);
    let region = aws.region();
    let change = account_change(aws.clone(), options.cluster_name.clone(), options.kubernetes_version.clone());
    let server = AwsServer::bind_front(AwsHttp::new(aws).with_account_change(change), options.port)
        .await
        .map_err(|cause| CommandFailure::ExecutionFailed(listen_problem("--port", options.port, &cause).into()))?;
    output::print_text(&format!(
        "An EC2 in memory answers on http://{address}. In another terminal:\n\n  \
         export AWS_ENDPOINT_URL=http://{address} AWS_REGION={region} \\\n    \
         AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test\n  \
         kerf-aws controller --cluster-name {name}\n\n\
         Ctrl-C stops it and deletes everything in it.\n",
        address = server.address(),
        name = options.cluster_name,
    ))?;
    kerf_runtime::termination_signal().await;
    drop(server);
    Ok(Exit::Done)
}
