//! Serves an EC2 in memory on 127.0.0.1 until its standard input is closed. The first line of its
//! output is the endpoint. `hack/aws/wire-check.sh` runs it; `kerf aws serve` has more options.

use std::error::Error;
use std::io::{Read as _, Write as _};

use kerf_aws::data;
use kerf_aws::http::AwsServer;
use kerf_aws::memory::{Account, MemoryAws, MemorySettings};
use kerf_runtime::Clock;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut account = Account::eks("demo", "1.34", data::catalogue().instance_types.clone());
        account.set_offerings(data::catalogue().offerings.iter().cloned());
        account.add_example_capacity("demo");
        let region = account.region.clone();
        let aws = MemoryAws::new(Clock::system(), account, MemorySettings::default());
        aws.change_market(|market| {
            for (instance_type, price) in data::prices(&region) {
                market.set_on_demand_price(instance_type, *price);
            }
        });
        let server = AwsServer::bind(aws, 0).await?;
        writeln!(std::io::stdout(), "{}", server.endpoint())?;
        let is_closed = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
        is_closed.await??;
        server.shutdown().await;
        Ok(())
    })
}
