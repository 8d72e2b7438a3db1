#!/usr/bin/env python3
"""Compares two builds of Kerf: the same input must give the same bytes.

    hack/compare-builds.py OLD_DIR NEW_DIR [--worlds N] [--clusters N] [--seeds N] [--skip-week] [--jobs N] [--texts]
    make compare-builds OLD=DIR

OLD_DIR and NEW_DIR each hold the release binary `kerf` and the example programs `world` and `clusters` of kerf-referee, directly or in a
folder `examples` (as in `target/release`). Use it for changes that must not alter behaviour, such as renaming identifiers.

It compares stdout, stderr and exit code of:
  worlds     `kerf plan -o json --no-stats` on generated worlds (pods that need nodes)
  clusters   `kerf plan -o json --no-stats` on generated clusters (nodes that could be removed)
  stories    `kerf sandbox run scenarios/story.yaml` with the debug log, one run per seed
  faults     the same with every fault switched on
  week       `kerf sandbox run scenarios/week.yaml --until 49h` with the debug log
  inputs     the worlds and clusters that the two builds generate from the same seed

The inputs of `kerf plan` are generated once, by OLD_DIR; both builds read the same files. The scenarios are those of the repository that
contains this script. Before comparing, the script removes only paths of Rust modules and source positions from stderr.

--texts is for intended changes of texts. It removes nothing, runs all cases, and lists the lines that differ, grouped by the words that
changed (numbers and generated names replaced by a placeholder). A group is one changed text.

The exit code is 0 if everything is equal, 1 if something differs, 2 if the comparison could not be made. The script keeps the inputs of
cases that differ, and prints the command that repeats the case.
"""
import argparse, collections, concurrent.futures, itertools, os, re, shlex, shutil, signal, subprocess, sys, tempfile, threading, time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
AT = "2026-03-04T12:00:00Z"
SIZES = ("small", "medium", "large", "small", "medium")
FAULTS = "conflict,error,lost-response,dropped-watch,stale-read,stockout,throttling,never-joins,slow-boot,interruption"

# Time limits for one process, in seconds.
GENERATE_TIMEOUT_SECONDS = 60
PLAN_TIMEOUT_SECONDS = 120
STORY_TIMEOUT_SECONDS = 300
WEEK_TIMEOUT_SECONDS = 900

# Without --texts, a part ends after this many cases that differ.
MAX_DIFFERING_CASES = 3
# With --texts, at most this many groups are printed.
MAX_GROUPS = 300
# Number of lines that are searched for the next equal line after a difference.
RESYNC_LINES = 400
# Lines are printed up to this length.
MAX_LINE_CHARS = 600

# `"caller":"crates/kerf/src/main.rs:12",` of the JSON log, `kerf_engine::solver::run` and `crates/kerf/src/main.rs:12` elsewhere.
CALLER = re.compile(rb'"caller":"[^"]*",')
MODULE_PATH = re.compile(rb"\bkerf(?:_[a-z]+)*(?:::\w+)+|\b(?:crates/[\w-]+/)?src/[\w/]+\.rs(?::\d+)*")


class CannotCompare(Exception):
    """The comparison could not be made: a program is missing, does not start or does not end."""


class Build:
    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.kerf = self.program("kerf")
        self.world = self.program("world")
        self.clusters = self.program("clusters")

    def program(self, name):
        for path in (self.folder / name, self.folder / "examples" / name):
            if path.is_file() and os.access(path, os.X_OK):
                return str(path)
        raise CannotCompare(f"{self.folder} has no program `{name}`: build it with\n"
                            "  cargo build --release -p kerf -p kerf-referee --bin kerf --example world --example clusters")


class Runner:
    """Starts processes, each with a time limit, and ends those that still run when the comparison is interrupted."""

    def __init__(self):
        self.running, self.lock, self.stopped = set(), threading.Lock(), False
        # No setting of the caller's environment reaches the programs.
        self.environment = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}

    def run(self, command, timeout_seconds, stdout, stderr):
        with open(stdout, "wb") as out, open(stderr, "wb") as err:
            with self.lock:
                if self.stopped:
                    raise CannotCompare("interrupted")
                process = subprocess.Popen(command, cwd=REPOSITORY, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
                self.running.add(process)
            try:
                return process.wait(timeout=timeout_seconds)
            except subprocess.TimeoutExpired:
                raise CannotCompare(f"did not end within {timeout_seconds} s: {shlex.join(command)}")
            finally:
                process.kill()
                process.wait()
                with self.lock:
                    self.running.discard(process)

    def stop(self):
        with self.lock:
            self.stopped = True
            for process in self.running:
                process.kill()


class Case:
    """One input and the two outputs for it."""

    def __init__(self, part, name, folder):
        self.part, self.name, self.folder = part, name, folder
        self.commands = {}
        self.codes = {}

    def output(self, side, stream):
        return self.folder / f"{side}.{stream}"

    def first_difference(self, normalise):
        """Returns the first difference as text, or None if the two runs are equal."""
        if self.codes["old"] != self.codes["new"]:
            return f"exit code {self.codes['old']} became {self.codes['new']}"
        for stream in ("stdout", "stderr"):
            clean = normalise if stream == "stderr" else None
            with open(self.output("old", stream), "rb") as old, open(self.output("new", stream), "rb") as new:
                for number, (left, right) in enumerate(itertools.zip_longest(old, new), 1):
                    if left != right and (clean is None or left is None or right is None or clean(left) != clean(right)):
                        return f"{stream} line {number}\n    old: {shown(left, right)}\n    new: {shown(right, left)}"
        return None


def remove_positions(line):
    return MODULE_PATH.sub(b"", CALLER.sub(b"", line))


def shown(line, other):
    """Returns the part of a line that fits, starting shortly before the first byte that differs from the other line."""
    if line is None:
        return "(no line)"
    start = 0
    if other is not None and len(line) > MAX_LINE_CHARS:
        common = next((i for i, (a, b) in enumerate(zip(line, other)) if a != b), min(len(line), len(other)))
        start = max(0, common - 80)
    text = line[start : start + MAX_LINE_CHARS].decode(errors="replace").rstrip("\n")
    return f"{'…' if start else ''}{text}{'…' if len(line) > start + MAX_LINE_CHARS else ''}"


def differing_lines(old, new):
    """Returns pairs of lines at the same position of two files that differ. The partner of a line without a counterpart is None."""
    i = j = 0
    while i < len(old) or j < len(new):
        if i < len(old) and j < len(new) and old[i] == new[j]:
            i, j = i + 1, j + 1
            continue
        skipped_old, skipped_new = next_equal(old, i, new, j)
        yield from itertools.zip_longest(old[i : i + skipped_old], new[j : j + skipped_new])
        i, j = i + skipped_old, j + skipped_new


def next_equal(old, i, new, j):
    """Returns the number of lines to skip on each side until the next line that is equal on both."""
    first_in_new = {}
    for distance, line in enumerate(new[j : j + RESYNC_LINES]):
        first_in_new.setdefault(line, distance)
    best = None
    for distance, line in enumerate(old[i : i + RESYNC_LINES]):
        if best is not None and distance >= sum(best):
            break
        other = first_in_new.get(line)
        if other is not None and (best is None or distance + other < sum(best)):
            best = (distance, other)
    if best is not None:
        return best
    # No equal line nearby: compare the lines at the same position.
    steps = min(RESYNC_LINES, max(len(old) - i, len(new) - j))
    return min(steps, len(old) - i), min(steps, len(new) - j)


SHAPES = ((re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"), (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UID"),
          (re.compile(r"[\w./-]*\d[\w./-]*"), "#"), (re.compile(r"#(?:[, ]+#)+"), "#.."))


def shape(line):
    """Returns the line with all random, counted or measured values replaced by placeholders."""
    if line is None:
        return "(no line)"
    text = line.decode(errors="replace").strip()
    for pattern, placeholder in SHAPES:
        text = pattern.sub(placeholder, text)
    return text[:MAX_LINE_CHARS]


def changed_text(left, right):
    """Returns the key by which a pair of lines is grouped: the words that differ, with placeholders, and the two words before them."""
    if left is None or right is None:
        return shape(left), shape(right)
    old, new = shape(left).split(" "), shape(right).split(" ")
    equal = lambda pairs: sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    before = equal(zip(old, new))
    shortest = min(len(old), len(new)) - before
    after = min(shortest, equal(zip(reversed(old), reversed(new))))
    start = max(0, before - 2)
    return " ".join(old[start : len(old) - after]), " ".join(new[start : len(new) - after])


class Comparison:
    def __init__(self, old, new, options, scratch):
        self.old, self.new, self.options, self.scratch = old, new, options, scratch
        self.runner, self.lock = Runner(), threading.Lock()
        self.equal, self.differing = collections.Counter(), collections.Counter()
        self.skipped, self.bytes = collections.Counter(), collections.Counter()
        self.groups, self.reports = {}, []

    def tasks(self):
        """Yields the cases, longest first."""
        if not self.options.skip_week:
            yield lambda: self.sandbox("week", "week", ["scenarios/week.yaml", "--until", "49h"], WEEK_TIMEOUT_SECONDS)
        for seed in range(self.options.seeds):
            story = ["scenarios/story.yaml", "--seed", str(seed)]
            yield lambda seed=seed, story=story: self.sandbox("stories", f"story-{seed}", story, STORY_TIMEOUT_SECONDS)
            faulty = [*story, "--faults", FAULTS]
            yield lambda seed=seed, faulty=faulty: self.sandbox("faults", f"faults-{seed}", faulty, STORY_TIMEOUT_SECONDS)
        for seed in range(self.options.worlds):
            yield lambda seed=seed: self.plan("worlds", f"world-{seed}", lambda build: [build.world, str(seed), SIZES[seed % len(SIZES)]])
        for seed in range(self.options.clusters):
            yield lambda seed=seed: self.plan("clusters", f"cluster-{seed}", lambda build: [build.clusters, "write", str(seed)])

    def is_enough(self, part):
        with self.lock:
            enough = not self.options.texts and self.differing[part] >= MAX_DIFFERING_CASES
            self.skipped[part] += enough
            return enough

    def sandbox(self, part, name, arguments, timeout_seconds):
        if self.is_enough(part):
            return
        case = Case(part, name, self.new_folder(name))
        for side, build in (("old", self.old), ("new", self.new)):
            self.execute(case, side, [build.kerf, "sandbox", "run", *arguments, "--log-level", "debug"], timeout_seconds)
        self.judge(case)

    def plan(self, part, name, generate):
        if self.is_enough(part):
            return
        case = Case(part, name, self.new_folder(name))
        generated = {side: case.folder / side for side in ("input", "input-of-new")}
        for build, folder in ((self.old, generated["input"]), (self.new, generated["input-of-new"])):
            command = [*generate(build), str(folder)]
            log = case.folder / "generator.log"
            if self.runner.run(command, GENERATE_TIMEOUT_SECONDS, log, log):
                raise CannotCompare(f"the generator failed: {shlex.join(command)}\n{log.read_text(errors='replace')}")
        self.judge_inputs(case, generated, generate)
        given = generated["input"]
        for side, build in (("old", self.old), ("new", self.new)):
            command = [build.kerf, "plan", "-o", "json", "--no-stats", "--at", AT, "--instance-types", str(given / "types.json"),
                       "-f", str(given / "manifests.json")]
            self.execute(case, side, command, PLAN_TIMEOUT_SECONDS)
        self.judge(case)

    def new_folder(self, name):
        folder = self.scratch / name
        folder.mkdir()
        return folder

    def execute(self, case, side, command, timeout_seconds):
        case.commands[side] = command
        case.codes[side] = self.runner.run(command, timeout_seconds, case.output(side, "stdout"), case.output(side, "stderr"))
        if case.codes[side] < 0:
            raise CannotCompare(f"ended by signal {-case.codes[side]}: {shlex.join(command)}")

    def judge_inputs(self, case, generated, generate):
        for file in ("manifests.json", "types.json"):
            if (generated["input"] / file).read_bytes() != (generated["input-of-new"] / file).read_bytes():
                commands = [shlex.join([*generate(build), f"/tmp/{side}"]) for side, build in (("old", self.old), ("new", self.new))]
                text = f"{case.name}: the builds generate different inputs ({file})\n  repeat: " + "\n          ".join([*commands, f"cmp /tmp/old/{file} /tmp/new/{file}"])
                return self.count("inputs", text)
        return self.count("inputs", None)

    def judge(self, case):
        difference = case.first_difference(None if self.options.texts else remove_positions)
        sizes = sum(case.output("old", stream).stat().st_size for stream in ("stdout", "stderr"))
        if not case.output("old", "stdout").stat().st_size and not case.output("old", "stderr").stat().st_size:
            raise CannotCompare(f"prints nothing: {shlex.join(case.commands['old'])}")
        with self.lock:
            self.bytes[case.part] += sizes
        text = None
        if difference:
            commands = [f"cd {REPOSITORY}"] + [f"{shlex.join(case.commands[side])} >/tmp/{side}.stdout 2>/tmp/{side}.stderr" for side in ("old", "new")]
            text = f"{case.name}: {difference}\n  outputs: {case.folder}\n  repeat: " + "\n          ".join(commands)
            if self.options.texts:
                self.collect(case)
        self.count(case.part, text)
        if not difference:
            shutil.rmtree(case.folder)

    def count(self, part, difference):
        with self.lock:
            if difference is None:
                self.equal[part] += 1
                return
            self.differing[part] += 1
            if self.options.texts and self.differing[part] == 1:
                self.reports.append(f"{part}: {difference}")
            if not self.options.texts and self.differing[part] <= MAX_DIFFERING_CASES:
                print(f"DIFFERENT {part}: {difference}", flush=True)

    def collect(self, case):
        """Adds the differing lines of a case to the groups."""
        for stream in ("stdout", "stderr"):
            old, new = (case.output(side, stream).read_bytes().splitlines() for side in ("old", "new"))
            for left, right in differing_lines(old, new):
                with self.lock:
                    group = self.groups.setdefault((stream, *changed_text(left, right)), [0, left, right, case])
                    group[0] += 1

    def run(self):
        tasks = iter(self.tasks())
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            # Submit few cases at a time, so that an interrupt does not have to cancel thousands.
            waiting = {pool.submit(task) for task in itertools.islice(tasks, 2 * self.options.jobs)}
            try:
                while waiting:
                    done, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
                    for future in done:
                        future.result()
                    waiting |= {pool.submit(task) for task in itertools.islice(tasks, len(done))}
            except BaseException:
                self.runner.stop()
                raise

    def print_groups(self):
        ordered = sorted(self.groups.items(), key=lambda item: -item[1][0])
        for (stream, _, _), (count, left, right, case) in ordered[:MAX_GROUPS]:
            print(f"{count} × {stream}, first in {case.name}\n  - {shown(left, right)}\n  + {shown(right, left)}")
        if len(ordered) > MAX_GROUPS:
            print(f"… and {len(ordered) - MAX_GROUPS} more groups")
        if ordered:
            print(f"{sum(group[0] for group in self.groups.values())} differing lines in {len(ordered)} groups; the first case of each part:")
            for report in self.reports:
                print(report)

    def summary(self):
        texts = []
        for part in ("worlds", "clusters", "stories", "faults", "week", "inputs"):
            if self.equal[part] or self.differing[part]:
                size = f" ({self.bytes[part] / 1e6:.1f} MB)" if self.bytes[part] else ""
                texts.append(f"{self.equal[part]} {part} equal{size}")
            if self.differing[part]:
                texts.append(f"{self.differing[part]} {part} DIFFERENT")
            if self.skipped[part]:
                texts.append(f"{self.skipped[part]} {part} not compared after {MAX_DIFFERING_CASES} differences")
        return ", ".join(texts)


def arguments():
    def count(text):
        number = int(text)
        if number < 0:
            raise argparse.ArgumentTypeError("must not be negative")
        return number

    parser = argparse.ArgumentParser(description="Compares two builds of Kerf: the same input must give the same bytes. See the head of the file.")
    parser.add_argument("old", metavar="OLD_DIR", help="folder with the programs before the change")
    parser.add_argument("new", metavar="NEW_DIR", help="folder with the programs after the change")
    parser.add_argument("--worlds", metavar="N", type=count, default=2000, help="generated worlds to plan (2000)")
    parser.add_argument("--clusters", metavar="N", type=count, default=500, help="generated clusters to plan (500)")
    parser.add_argument("--seeds", metavar="N", type=count, default=10, help="seeds for scenarios/story.yaml, each with and without faults (10)")
    parser.add_argument("--skip-week", action="store_true", help="leave out scenarios/week.yaml, the longest run")
    parser.add_argument("--jobs", metavar="N", type=int, default=2, help="cases that run at the same time (2)")
    parser.add_argument("--texts", action="store_true", help="run all cases and list the differing lines, grouped by the words that changed")
    options = parser.parse_args()
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    return options


def main():
    options = arguments()
    started = time.monotonic()
    try:
        old, new = Build(options.old), Build(options.new)
    except CannotCompare as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    scratch = Path(tempfile.mkdtemp(prefix="compare-builds-"))
    comparison = Comparison(old, new, options, scratch)
    try:
        comparison.run()
    except CannotCompare as problem:
        print(f"error: {problem}\n  files: {scratch}", file=sys.stderr)
        return 2
    comparison.print_groups()
    if not sum(comparison.equal.values()) + sum(comparison.differing.values()):
        print("error: nothing was compared; ask for at least one world, cluster or seed", file=sys.stderr)
        shutil.rmtree(scratch)
        return 2
    print(f"{comparison.summary()}; {time.monotonic() - started:.0f} s")
    if sum(comparison.differing.values()):
        print(f"the inputs and outputs of the cases that differ are in {scratch}")
        return 1
    shutil.rmtree(scratch)
    return 0


if __name__ == "__main__":
    # On SIGTERM the script also ends the processes that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
