//! The report of a scenario for people: a timeline, and lines on pods, nodes, moves, evictions and
//! cost.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kerf_sandbox::sim::{PlanComparisonReport, Sample, SimulationReport, SteadyReport, TimesToRun};

use super::table;

/// Maximum number of rows of the timeline.
const ROWS_MAX: usize = 16;

pub(crate) fn render_report(report: &SimulationReport) -> String {
    let mut text = format!(
        "{}: {} of virtual time, seed {}\n\n",
        report.scenario,
        format_clock(report.virtual_seconds),
        report.seed
    );
    let head = ["TIME", "PENDING", "RUNNING", "NODES", "$/HOUR"];
    let step = report.timeline.len().div_ceil(ROWS_MAX).max(1);
    let row = |sample: &Sample| {
        vec![
            format_clock(sample.at_seconds),
            sample.pending.to_string(),
            sample.running.to_string(),
            sample.nodes.to_string(),
            dollars(sample.micro_dollars_per_hour),
        ]
    };
    let last = report.timeline.len().saturating_sub(1);
    let shown = report.timeline.iter().enumerate().filter(|(index, _)| index % step == 0 || *index == last);
    let _ = writeln!(text, "{}", table(&head, shown.map(|(_, sample)| row(sample))));
    let (pods, nodes, cost) = (&report.pods, &report.nodes, &report.cost);
    let _ = writeln!(
        text,
        "Pods        {} created, {} ran{}",
        pods.created,
        pods.ran,
        describe_times_to_run(pods.time_to_run)
    );
    let _ = writeln!(text, "Nodes       {} launched, peak {}, {} at the end", nodes.launched, nodes.peak, nodes.at_end);
    let _ = writeln!(text, "NodeClaims  deleted: {}", describe_counts(&report.moves));
    let _ = writeln!(text, "Evictions   {}", describe_counts(&report.evictions_by_reason));
    let _ = writeln!(
        text,
        "Cost        {} spent, {} less than if no node had been removed",
        dollars(cost.spent_micro_dollars),
        dollars(cost.saved_micro_dollars)
    );
    if pods.killed > 0 {
        let _ = writeln!(text, "Killed      {} pods ran on an instance when it ended", pods.killed);
    }
    if let Some(plan) = &report.plan_comparison {
        let _ = writeln!(text, "Plan        {}", describe_plan_comparison(plan));
    }
    if let Some(steady) = &report.steady {
        let _ = writeln!(text, "Steady      {}", describe_steady(steady));
    }
    if report.violations.is_empty() {
        let _ = writeln!(text, "Invariants  all held");
    } else {
        let _ = writeln!(text, "Invariants  {} violated (repeat with --seed {})", report.violations.len(), report.seed);
        for violation in &report.violations {
            let _ = writeln!(text, "  {}  {}: {}", format_clock(violation.at_seconds), violation.rule, violation.what);
        }
    }
    text
}

fn describe_counts(counts: &BTreeMap<String, usize>) -> String {
    let counts: Vec<String> = counts.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
}

fn describe_times_to_run(times: TimesToRun) -> String {
    let seconds = |millis: u64| format!("{}.{} s", millis / 1000, millis % 1000 / 100);
    let (p50, p95, max) = (seconds(times.p50_millis), seconds(times.p95_millis), seconds(times.max_millis));
    format!("; from creation to Running: half within {p50}, 95 % within {p95}, all within {max}")
}

fn describe_plan_comparison(plan: &PlanComparisonReport) -> String {
    let permille = plan.permille();
    format!(
        "the nodes cost {} per hour on average, the best plan for an empty cluster {}: {}.{} % ({} comparisons)",
        dollars(plan.micro_dollars_per_hour),
        dollars(plan.best_micro_dollars_per_hour),
        permille / 10,
        permille % 10,
        plan.comparisons
    )
}

fn describe_steady(steady: &SteadyReport) -> String {
    let SteadyReport { evictions, unchanged_evicted, cost_comparisons, most_expensive } = steady;
    let mut text = format!("{evictions} pods evicted, {unchanged_evicted} of them of unchanged workloads");
    if let Some(most_expensive) = most_expensive {
        let (permille, at) = (most_expensive.permille(), format_clock(most_expensive.at_seconds));
        let _ = write!(
            text,
            "; cost at most {}.{} % of the best plan's (at {at}; {cost_comparisons} comparisons)",
            permille / 10,
            permille % 10
        );
    }
    text
}

/// Formats seconds as `hh:mm:ss`.
fn format_clock(seconds: u64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Formats an amount, rounded to a hundredth of a cent.
fn dollars(micro: u64) -> String {
    let price = (micro + 50) / 100;
    format!("${}.{:04}", price / 10_000, price % 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_listed_by_reason() {
        assert_eq!(describe_counts(&BTreeMap::new()), "none");
        let counts = [("Drifted", 2), ("Underutilized", 31)].map(|(reason, count)| (reason.to_owned(), count));
        assert_eq!(describe_counts(&BTreeMap::from(counts)), "Drifted 2, Underutilized 31");
    }

    #[test]
    fn prices_are_rounded_and_times_are_formatted() {
        assert_eq!(dollars(1_234_549), "$1.2345");
        assert_eq!(dollars(1_234_550), "$1.2346");
        assert_eq!(format_clock(3_725), "01:02:05");
    }
}
