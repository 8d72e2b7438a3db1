# What a person or CI types. Each recipe is a few plain commands; anything that needs thought lives in xtask.
# Rust (rustup reads rust-toolchain.toml) and make are all that is needed: cargo fetches the rest.

CARGO ?= cargo

# The least number of tests that each run must pass, see hack/count-tests.sh: a filter by name that matches nothing would pass otherwise.
# Raise them when tests are added; lower them only when tests are removed on purpose.
UNIT_TESTS_MIN = 1526
FIDELITY_TESTS_MIN = 1
SCENARIO_TESTS_MIN = 36

.DEFAULT_GOAL := help
.PHONY: help demo test test-real referee-real scale-real idle latency week compare-builds tools fmt fmt-check lint doc unit bench oracle properties differential coverage fuzz

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## build in release mode, then watch Kerf run a cluster: pods come and go, nodes follow
	$(CARGO) build --release --quiet --package kerf
	@echo && echo "What would happen to ten pending pods? (kerf plan -f examples/kwok.yaml -f examples/deployment.yaml)" && echo
	@$(CARGO) run --release --quiet --package kerf -- plan -f examples/kwok.yaml -f examples/deployment.yaml
	@echo && echo "A whole cluster in this process, in virtual time, and Kerf on it: (kerf sandbox run scenarios/story.yaml)" && echo
	@$(CARGO) run --release --quiet --package kerf -- sandbox run scenarios/story.yaml
	@echo && echo "The same on a clock that ticks, with an API for kubectl: kerf sandbox --demo"

# A cluster whose demand does not change must come to rest. It says how many pods were moved for whom nothing had changed, and how close
# the price is to the best.
week: ## seven days of steady demand with jobs and rollouts, in virtual time
	$(CARGO) build --release --quiet --package kerf
	@$(CARGO) run --release --quiet --package kerf -- sandbox run scenarios/week.yaml | tail -n 40

# One after the other, cheapest first. clippy and rustdoc share their artefacts; the tests come last so that their results
# are what stands at the end. The first time the real control plane has to be built, which takes ten minutes; `make unit` is what to run while working.
test: ## format, lint, docs, all tests, on the sandbox and on a real control plane: what CI runs
	@$(MAKE) --no-print-directory tools
	@$(MAKE) --no-print-directory fmt-check
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory doc
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory test-real

# kube-apiserver, kube-scheduler, kube-controller-manager, etcd and KWOK, built once (about ten minutes on two cores, kept under .cache/) and run on loopback.
# The same test binaries as for `make unit`: under cluster.sh they turn to the real thing. Two clusters, because the first is asked about definitions
# that the second has in another flavour. Later runs need five to seven minutes, mostly of waiting.
test-real: ## the scenarios, and what the sandbox claims, on a real control plane (installs Go if there is none)
	@hack/controlplane/build.sh >/dev/null
	$(CARGO) test --quiet --test it --no-run
	hack/controlplane/cluster.sh -- hack/count-tests.sh $(FIDELITY_TESTS_MIN) $(CARGO) test --quiet --test it fidelity::the_
	hack/controlplane/cluster.sh --fast -- hack/count-tests.sh $(SCENARIO_TESTS_MIN) $(CARGO) test --quiet --test it scenarios:: -- --test-threads=1

# What kerf controller takes for a thousand pods, for three hundred nodes that have drifted, and for ten thousand pods. For a quiet machine.
scale-real: ## time, CPU, memory and requests of large changes on a real control plane (needs Go)
	$(CARGO) build --release --quiet --package kerf
	hack/controlplane/cluster.sh --audit "$${CARGO_TARGET_DIR:-target}/tmp/audit.log" -- \
		hack/controlplane/scale.py $${CARGO_TARGET_DIR:-target}/release/kerf "$${CARGO_TARGET_DIR:-target}/tmp/audit.log"
	hack/controlplane/cluster.sh --fast --audit "$${CARGO_TARGET_DIR:-target}/tmp/audit-large.log" -- \
		hack/controlplane/scale.py $${CARGO_TARGET_DIR:-target}/release/kerf "$${CARGO_TARGET_DIR:-target}/tmp/audit-large.log" large shrink

# The sandbox is the cluster, so that the machine has nothing else to do; only the controller is measured.
idle: ## CPU and memory of kerf controller on 5,000 nodes and 100,000 pods where nothing happens
	$(CARGO) build --release --quiet --package kerf
	$${CARGO_TARGET_DIR:-target}/release/kerf sandbox --no-controller --instant -- hack/idle.py $${CARGO_TARGET_DIR:-target}/release/kerf

latency: ## how soon kerf controller has claims for 1,000 and 10,000 pods that appear at once
	$(CARGO) build --release --quiet --package kerf
	$${CARGO_TARGET_DIR:-target}/release/kerf sandbox --no-controller --instant -- hack/latency.py $${CARGO_TARGET_DIR:-target}/release/kerf

# Each world takes a second or two; two clusters are asked, and their schedulers must bind the same pods.
referee-real: WORLDS = 500
referee-real: ## does kube-scheduler run the pods that kerf plan places, on WORLDS (500) random worlds (needs Go)
	$(CARGO) build --quiet --package kerf --package kerf-referee --bin kerf --example world
	hack/scheduler/worlds.py 0 $(WORLDS) $${CARGO_TARGET_DIR:-target}/debug/kerf $${CARGO_TARGET_DIR:-target}/debug/examples/world --controlplane "$$(hack/controlplane/build.sh)"
	$${CARGO_TARGET_DIR:-target}/debug/kerf sandbox --no-controller --instant -- \
		hack/scheduler/worlds.py 0 $(WORLDS) $${CARGO_TARGET_DIR:-target}/debug/kerf $${CARGO_TARGET_DIR:-target}/debug/examples/world

# For changes that must not alter behaviour, such as renames. OLD is the `target/release` of a build before the change, with the example programs:
#   git worktree add ../kerf-old main && cd ../kerf-old && cargo build --release -p kerf -p kerf-referee --bin kerf --example world --example clusters
# OPTIONS are those of hack/compare-builds.py: --worlds N, --clusters N, --seeds N, --skip-week, --texts.
compare-builds: ## does this tree give the same plans, simulations and logs as the build in OLD=dir, byte by byte
	@test -n "$(OLD)" || { echo "OLD is not set: make compare-builds OLD=dir, the target/release of the build to compare with" >&2; exit 2; }
	$(CARGO) build --release --quiet --package kerf --package kerf-referee --bin kerf --example world --example clusters
	hack/compare-builds.py "$(OLD)" "$${CARGO_TARGET_DIR:-target}/release" $(OPTIONS)

# Clients that nobody here wrote: kubectl and the official Python client. The tests fail, with these words, if they are missing.
tools: ## install what the tests need and the machine lacks
	@command -v kubectl >/dev/null || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "installing kubectl (Debian package kubernetes-client)" && apt-get update -qq && \
			{ apt-get install -y -qq kubernetes-client >/dev/null || apt-get install -y -qq kubectl >/dev/null; }; \
		fi; }
	@command -v kubectl >/dev/null || { \
		echo "kubectl is missing: install it (Debian: apt-get install kubernetes-client) and see that it is in PATH" >&2; exit 1; }
	@hack/python-client.sh "$${CARGO_TARGET_DIR:-target}/tmp/python-client"

fmt: ## format the code
	$(CARGO) fmt --all

fmt-check:
	$(CARGO) fmt --all --check

lint: ## clippy on all targets, warnings are errors
	$(CARGO) clippy --quiet --all-targets -- -D warnings

doc: ## build the documentation, warnings are errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --no-deps

# Properties draw the same inputs in every run, so that a red test is about the change at hand. `make unit SEED=...` looks elsewhere.
SEED ?= 20260101
unit: ## the tests alone; SEED=n draws other random inputs
	PROPTEST_RNG_SEED=$(SEED) hack/count-tests.sh $(UNIT_TESTS_MIN) $(CARGO) test --quiet

bench: ## the benchmarks of docs/PERFORMANCE.md
	$(CARGO) bench --package kerf-state --package kerf-engine --benches

oracle: ## build Karpenter behind kerf plan's command line (needs Go)
	hack/oracle/build.sh

# The tests try a few hundred; these are for an evening.
WORLDS ?= 10000
CLUSTERS ?= 2000
properties: ## what must hold of every plan, on WORLDS (10000) random worlds and CLUSTERS (2000) random clusters
	$(CARGO) build --release --quiet --package kerf
	$(CARGO) run --release --quiet --package kerf-referee --example properties -- $${CARGO_TARGET_DIR:-target}/release/kerf $(WORLDS)
	$(CARGO) run --release --quiet --package kerf-referee --example clusters -- properties $${CARGO_TARGET_DIR:-target}/release/kerf $(CLUSTERS)

differential: WORLDS = 1000
differential: CLUSTERS = 500
differential: ## Kerf against Karpenter on WORLDS (1000) random worlds and CLUSTERS (500) random clusters (needs Go)
	$(CARGO) build --release --quiet --package kerf
	$(CARGO) run --release --quiet --package kerf-referee --example differential -- "$$(hack/oracle/build.sh)" $${CARGO_TARGET_DIR:-target}/release/kerf $(WORLDS)
	$(CARGO) run --release --quiet --package kerf-referee --example clusters -- differential "$$(hack/oracle/build.sh)" $${CARGO_TARGET_DIR:-target}/release/kerf $(CLUSTERS)

coverage: ## which edge cases of docs/spec no test names yet
	$(CARGO) xtask spec-coverage

# The tests run the same properties on mutated inputs for a few seconds; this lets libFuzzer look for new paths.
FUZZ_SECONDS ?= 60
fuzz: ## fuzz each parser for FUZZ_SECONDS (60); fetches nightly Rust and cargo-fuzz if they are missing
	@rustup run nightly rustc --version >/dev/null 2>&1 || rustup toolchain install nightly --profile minimal
	@$(CARGO) fuzz --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-fuzz
	@for target in quantity duration schedule manifest; do \
		echo "fuzzing $$target for $(FUZZ_SECONDS)s"; \
		$(CARGO) +nightly fuzz run --sanitizer none $$target -- -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 || exit 1; \
	done
