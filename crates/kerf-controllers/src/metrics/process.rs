//! Metrics of this process from the operating system, under the names of Prometheus' standard
//! process collector. They are read when `/metrics` is requested.

use std::fmt::Write as _;

/// Clock ticks per second (`USER_HZ`), which is 100 on all platforms that Kerf supports.
const TICKS_PER_SECOND: f64 = 100.0;
/// Bytes per memory page.
const PAGE_BYTES: f64 = 4096.0;

/// Returns the metrics as text. Empty where there is no `/proc`.
pub(crate) fn text() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut out = exposition(&read("/proc/self/stat"), &read("/proc/stat"));
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        gauge(&mut out, "process_open_fds", "Number of open file descriptors.", open.count() as f64);
    }
    out.push_str(&limits(&read("/proc/self/limits")));
    out
}

fn exposition(own: &str, system: &str) -> String {
    let mut out = String::new();
    // The process name, in parentheses, may contain any character, so split at the last `)`.
    let Some((_, rest)) = own.rsplit_once(')') else { return out };
    let fields: Vec<f64> = rest.split_whitespace().skip(1).map(|field| field.parse().unwrap_or_default()).collect();
    let field = |number: usize| fields.get(number - 4).copied().unwrap_or_default();
    let seconds = (field(14) + field(15)) / TICKS_PER_SECOND;
    let _ = writeln!(
        out,
        "# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.\n# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total {seconds}"
    );
    gauge(&mut out, "process_resident_memory_bytes", "Resident memory size in bytes.", field(24) * PAGE_BYTES);
    gauge(&mut out, "process_virtual_memory_bytes", "Virtual memory size in bytes.", field(23));
    let booted =
        system.lines().find_map(|line| line.strip_prefix("btime ")).and_then(|text| text.trim().parse::<f64>().ok());
    if let Some(booted) = booted {
        let started = booted + field(22) / TICKS_PER_SECOND;
        gauge(
            &mut out,
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            started,
        );
    }
    out
}

/// Returns the resource limits of the process. An unlimited resource has the value `u64::MAX`.
fn limits(own: &str) -> String {
    let mut out = String::new();
    for (row, name, help) in [
        ("Max open files", "process_max_fds", "Maximum number of open file descriptors."),
        (
            "Max address space",
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes.",
        ),
    ] {
        let soft = own.lines().find_map(|line| line.strip_prefix(row)?.split_whitespace().next());
        let value = soft.and_then(|soft| if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() });
        if let Some(value) = value {
            gauge(&mut out, name, help, value as f64);
        }
    }
    out
}

fn gauge(out: &mut String, name: &str, help: &str, value: f64) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_with_parentheses_is_parsed() {
        let own = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 4 0 1000 9000 25 0";
        let text = exposition(own, "cpu 1 2\nbtime 1700000000\n");
        for line in [
            "process_cpu_seconds_total 2",
            "process_resident_memory_bytes 102400",
            "process_virtual_memory_bytes 9000",
            "process_start_time_seconds 1700000010",
        ] {
            assert!(text.lines().any(|served| served == line), "{line} in {text}");
        }
        assert_eq!(exposition("", ""), "");
    }

    #[test]
    fn resource_limits_are_parsed() {
        let own = "Limit                     Soft Limit           Hard Limit           Units     \n\
                   Max open files            1024                 524288               files     \n\
                   Max address space         unlimited            unlimited            bytes     \n";
        let text = limits(own);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(lines, ["process_max_fds 1024", "process_virtual_memory_max_bytes 18446744073709552000"]);
        assert_eq!(limits("Max open files"), "");
    }
}
