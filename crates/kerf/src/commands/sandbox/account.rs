//! `kerf sandbox aws`: changes the AWS account of a running sandbox and prints what has changed, or
//! lists its instances. The
//! sandbox is that of the kubeconfig; its API server has the paths.

use std::time::Duration;

use http::{Method, Request};
use kerf_runtime::Causes;
use kube::Client;
use serde_json::Value;

use crate::args::SandboxAwsOptions;
use crate::exit::{CommandFailure, Exit, Problem};
use crate::input::cluster_config;
use crate::output;

/// Path that carries out a change.
const CHANGE_PATH: &str = "/kerf/aws";
/// Path that lists the instances.
const INSTANCES_PATH: &str = "/kerf/aws/instances";
/// Longest time for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Carries out the change and prints its effects, or prints the instances as YAML.
pub(in crate::commands) fn change_account(options: &SandboxAwsOptions) -> Result<Exit, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|cause| {
        CommandFailure::ExecutionFailed(anyhow::Error::new(cause).context("cannot start the runtime"))
    })?;
    let request = match &options.change {
        Some(change) => (Method::POST, CHANGE_PATH, change.as_str()),
        None => (Method::GET, INSTANCES_PATH, ""),
    };
    let answer = runtime.block_on(async { tokio::time::timeout(ANSWER_TIMEOUT, send(request)).await });
    let answer = answer.map_err(|_| {
        let seconds = ANSWER_TIMEOUT.as_secs();
        CommandFailure::ExecutionFailed(anyhow::anyhow!("the sandbox did not answer within {seconds} s"))
    })??;
    if options.change.is_some() {
        output::print_text(&format!("{}\n", answer["message"].as_str().unwrap_or_default()))?;
    } else {
        output::print(|writer| serde_yaml_ng::to_writer(writer, &answer).map_err(std::io::Error::other))?;
    }
    Ok(Exit::Done)
}

async fn send((method, path, body): (Method, &str, &str)) -> Result<Value, CommandFailure> {
    let hint = "set KUBECONFIG to the file that `kerf sandbox --provider aws` prints";
    let no_cluster = Problem::new("no sandbox: KUBECONFIG is not set").with_hint(hint);
    let config = cluster_config(no_cluster, hint).await.map_err(CommandFailure::bad_input)?;
    let server = config.cluster_url.to_string();
    let failed = |error: anyhow::Error| CommandFailure::ExecutionFailed(error);
    let client = Client::try_from(config).map_err(|cause| failed(anyhow::Error::new(cause)))?;
    let request = Request::builder().method(method).uri(path).body(body.as_bytes().to_vec());
    let request = request.map_err(|cause| failed(anyhow::Error::new(cause)))?;
    match client.request::<Value>(request).await {
        Ok(answer) => Ok(answer),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            let problem = Problem::new(format!("{server} is no sandbox of Kerf")).with_hint(hint);
            Err(CommandFailure::bad_input(problem))
        }
        Err(kube::Error::Api(status)) => Err(CommandFailure::bad_input(Problem::new(status.message.clone()))),
        Err(cause) => {
            Err(failed(anyhow::Error::msg(Causes(&cause).to_string()).context(format!("cannot reach {server}"))))
        }
    }
}
