#!/usr/bin/env python3
"""Runs scenarios in virtual time with several seeds, and fails if a run fails.

usage: hack/scenarios.py KERF [--seeds N] [--first-seed N] [--jobs N] [--options TEXT] [--report] FILE[:UNTIL]...

KERF is the kerf program. FILE:UNTIL ends a scenario earlier (kerf sandbox run --until). --seeds is the number of seeds (2), --jobs the
number of runs at a time (2). --options are further options of kerf sandbox run, such as "--faults error,conflict". Each line has the
result, the wall time, the largest memory of the process and the command that repeats the run. With --report, further lines have the
waiting times of pods, evictions, and the cost beside that of the best plan. The last line has the counts.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor


def figures(report):
    """Returns lines with the main figures of a report."""
    pods, nodes, cost, plan = report["pods"], report["nodes"], report["cost"], report.get("planComparison")
    times = pods["timeToRun"]
    p50, p95, longest = (f"{times[name] / 1000:.1f} s" for name in ("p50Millis", "p95Millis", "maxMillis"))
    evictions = ", ".join(f"{reason} {count}" for reason, count in report["evictionsByReason"].items()) or "none"
    lines = [
        f"pods: {pods['created']} created, waited {p50} (half), {p95} (95 %), {longest} (longest)",
        f"evictions: {evictions}; killed with their instance: {pods['killed']}",
        f"nodes: {nodes['launched']} launched, peak {nodes['peak']}; {cost['spentMicroDollars'] / 1e6:.2f} dollars spent",
    ]
    if plan:
        paid, best = plan["microDollarsPerHour"] / 1e6, plan["bestMicroDollarsPerHour"] / 1e6
        lines.append(
            f"nodes cost {paid:.4f} dollars per hour, the plan of an empty cluster {best:.4f}: "
            f"{100 * paid / best:.1f} % ({plan['comparisons']} comparisons)"
        )
    return lines


def run(kerf, scenario, seed, options, with_report):
    """Runs one scenario. Returns the lines to print and whether the run has passed."""
    path, _, until = scenario.partition(":")
    command = ["sandbox", "run", path, "--seed", str(seed), *(["--until", until] if until else []), *options]
    started = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen([kerf, *command, "-o", "json"], stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        report, errors = out.read(), err.read().decode(errors="replace").strip()
    details = []
    try:
        report = json.loads(report)
        violations = [f"{v['atSeconds']}s {v['rule']}: {v['what']}" for v in report["violations"]]
        details = figures(report) if with_report else []
    except (ValueError, KeyError):
        violations = [errors or "no report"]
    passed = child.returncode == 0 and not violations
    seconds, mebibytes = time.monotonic() - started, usage.ru_maxrss // 1024
    line = f"{'ok    ' if passed else 'FAILED'} {seconds:6.1f} s {mebibytes:5} MiB  kerf {shlex.join(command)}"
    shown = violations[:5] + ([f"and {len(violations) - 5} more"] if len(violations) > 5 else [])
    return "\n".join([line, *(f"         {text}" for text in details + shown)]), passed


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("kerf")
    parser.add_argument("scenarios", nargs="+")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--options", default="")
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    started, failed, total = time.monotonic(), 0, 0
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        options = shlex.split(arguments.options)
        runs = [pool.submit(run, arguments.kerf, scenario, seed, options, arguments.report) for scenario in arguments.scenarios for seed in seeds]
        for finished in runs:
            text, passed = finished.result()
            total += 1
            failed += not passed
            print(text, flush=True)
    scenarios = len(arguments.scenarios)
    print(f"{total} runs of {scenarios} scenarios: {failed} failed, {time.monotonic() - started:.0f} s")
    return 1 if failed or total == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
