//! `kerf aws data`: shows the data about EC2 that the program ships.

use std::io;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use kerf_aws::data;
use kerf_runtime::Clock;
use serde::Serialize;

use crate::args::{AwsDataOptions, Format};
use crate::exit::{CommandFailure, Exit};
use crate::output;

/// The shipped data. Its JSON is a published interface: fields are only added.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ShippedData {
    sources: Vec<PublishedSource>,
    /// Instance types that are described.
    instance_types: usize,
    regions: Vec<PublishedRegion>,
    price_tables: Vec<PublishedPriceTable>,
}

/// The source of a file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PublishedSource {
    content: &'static str,
    source: &'static str,
    version: &'static str,
    date: String,
    age_days: i32,
    licence: &'static str,
}

/// A region with instance types.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PublishedRegion {
    name: &'static str,
    zones: usize,
    /// Instance types that are offered in the region.
    instance_types: usize,
    /// Offered types without a known price.
    types_without_price: usize,
    /// Region whose price table is used.
    prices_of: &'static str,
}

/// A table of on-demand prices.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PublishedPriceTable {
    region: &'static str,
    instance_types: usize,
    currency: &'static str,
}

impl ShippedData {
    fn new(today: Date) -> Self {
        let source = |source: &'static data::DataSource| PublishedSource {
            content: &source.content,
            source: &source.source,
            version: &source.version,
            date: source.date.to_string(),
            age_days: (today - source.date).get_days(),
            licence: &source.licence,
        };
        let region = |name: &'static str| {
            let prices = data::prices(name);
            PublishedRegion {
                name,
                zones: data::zones(name).len(),
                instance_types: data::offered_types(name).count(),
                types_without_price: data::offered_types(name).filter(|offered| !prices.contains_key(*offered)).count(),
                prices_of: data::price_region(name),
            }
        };
        let table = |(region, instance_types): (&'static str, usize)| PublishedPriceTable {
            region,
            instance_types,
            currency: data::currency(region),
        };
        Self {
            sources: data::sources().iter().map(source).collect(),
            instance_types: data::catalogue().instance_types.len(),
            regions: data::regions().map(region).collect(),
            price_tables: data::price_table_sizes().map(table).collect(),
        }
    }

    fn table(&self) -> String {
        let sources = self.sources.iter().map(|source| {
            let age = if source.age_days == 1 { "1 day".to_owned() } else { format!("{} days", source.age_days) };
            let from = format!("{} {}", source.source, source.version);
            vec![source.content.to_owned(), source.date.clone(), age, from, source.licence.to_owned()]
        });
        let regions = self.regions.iter().map(|region| {
            let [zones, types, unpriced] =
                [region.zones, region.instance_types, region.types_without_price].map(|count| count.to_string());
            vec![region.name.to_owned(), zones, types, region.prices_of.to_owned(), unpriced]
        });
        let tables = self
            .price_tables
            .iter()
            .map(|table| vec![table.region.to_owned(), table.instance_types.to_string(), table.currency.to_owned()]);
        [
            output::table(&["CONTENT", "DATE", "AGE", "SOURCE", "LICENCE"], sources),
            output::table(&["REGION", "ZONES", "TYPES", "PRICES OF", "TYPES WITHOUT PRICE"], regions),
            output::table(&["PRICE TABLE", "TYPES", "CURRENCY"], tables),
            format!(
                "{} instance types are described. No spot prices are shipped: spot is priced as on-demand.\n",
                self.instance_types
            ),
        ]
        .join("\n")
    }
}

pub(super) fn run(options: &AwsDataOptions) -> Result<Exit, CommandFailure> {
    let today = Clock::system().now().to_zoned(TimeZone::UTC).date();
    let shipped = ShippedData::new(today);
    output::print(|writer| write(&shipped, options.format, writer))?;
    Ok(Exit::Done)
}

fn write(shipped: &ShippedData, format: Format, writer: &mut dyn io::Write) -> io::Result<()> {
    match format {
        Format::Table => writer.write_all(shipped.table().as_bytes()),
        Format::Json => output::json::write(shipped, writer),
        Format::Yaml => serde_yaml_ng::to_writer(writer, shipped).map_err(io::Error::other),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn the_table_names_sources_ages_regions_and_price_tables() {
        let shipped = ShippedData::new(Date::constant(2026, 11, 18));
        let table = shipped.table();
        let lines: Vec<&str> =
            table.lines().filter(|line| !line.starts_with("ap-") && !line.starts_with("eu-")).collect();
        assert_snapshot!(lines.join("\n"));
    }
}
