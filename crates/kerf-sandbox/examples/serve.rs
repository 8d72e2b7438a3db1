//! Runs the API server alone on a socket until it is interrupted: `cargo run -p kerf-sandbox
//! --example serve -- 6443 kubeconfig.yaml`.
#![allow(clippy::print_stdout, reason = "the program prints for people")]

use kerf_runtime::Clock;
use kerf_sandbox::{ApiServer, ApiServerConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().map_or(Ok(0), |port| port.parse())?;
    let server = ApiServer::new(ApiServerConfig::new(Clock::system(), 1));
    let serving = server.serve(port).await?;
    match arguments.next() {
        Some(path) => std::fs::write(&path, serving.kubeconfig())?,
        None => println!("{}", serving.kubeconfig()),
    }
    println!("listening on {}", serving.address());
    std::future::pending().await
}
