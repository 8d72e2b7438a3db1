# The commands for people and CI. Each recipe is a few plain commands; everything more complex is in xtask.
# You need Rust (rustup reads rust-toolchain.toml) and make; cargo fetches the libraries.

CARGO ?= cargo

# Minimum number of tests that must pass in each run, see hack/count-tests.sh: otherwise a name filter that matches no test would pass.
# Raise these numbers when you add tests; lower them only when you remove tests on purpose.
UNIT_TESTS_MIN = 2404
FIDELITY_TESTS_MIN = 1
SCENARIO_TESTS_MIN = 38
AWS_SDK_TESTS_MIN = 49
MOTO_TESTS_MIN = 5

.DEFAULT_GOAL := help
.PHONY: help demo test test-real test-aws referee-real scale-real kills-real idle latency week scenarios day-of-faults spot kills-aws acceptance-aws karpenter-on-kerf compare-builds tools fmt fmt-check lint doc unit bench oracle properties differential differential-aws coverage fuzz

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## build Kerf in release mode, print a plan and run a simulated cluster
	$(CARGO) build --release --quiet --package kerf
	@echo && echo "A plan for ten pending pods: kerf plan -f examples/kwok.yaml -f examples/deployment.yaml" && echo
	@$(CARGO) run --release --quiet --package kerf -- plan -f examples/kwok.yaml -f examples/deployment.yaml
	@echo && echo "A simulated cluster in virtual time, with Kerf: kerf sandbox run scenarios/story.yaml" && echo
	@$(CARGO) run --release --quiet --package kerf -- sandbox run scenarios/story.yaml
	@echo && echo "The same in real time, with an API for kubectl: kerf sandbox --demo"

# A cluster with constant demand must settle. The report has the number of evicted pods whose workload had not changed, and the price
# compared with the best plan. The lines of progress go to a file, so that the exit code is that of the run.
week: ## simulate seven days of constant demand, with jobs and rollouts
	$(CARGO) build --release --quiet --package kerf
	@mkdir -p "$${CARGO_TARGET_DIR:-target}/tmp"
	@$(CARGO) run --release --quiet --package kerf -- sandbox run scenarios/week.yaml > "$${CARGO_TARGET_DIR:-target}/tmp/week.txt"; \
		code=$$?; tail -n 40 "$${CARGO_TARGET_DIR:-target}/tmp/week.txt"; exit $$code

# Every scenario runs with SEEDS seeds, JOBS at a time; the week ends after 49 hours, and the day of faults has a target of its own. A
# line of a failed run has the command that repeats it.
SEEDS ?= 2
JOBS ?= 2
scenarios: ## simulate all scenarios of scenarios/ with SEEDS (2) seeds each
	$(CARGO) build --release --quiet --package kerf
	hack/scenarios.py $${CARGO_TARGET_DIR:-target}/release/kerf --seeds $(SEEDS) --jobs $(JOBS) scenarios/week.yaml:49h \
		$(filter-out scenarios/week.yaml scenarios/day-of-faults.yaml,$(sort $(wildcard scenarios/*.yaml)))

day-of-faults: SEEDS = 10
day-of-faults: ## simulate 24 hours with all faults, kills and stops with SEEDS (10) seeds
	$(CARGO) build --release --quiet --package kerf
	hack/scenarios.py $${CARGO_TARGET_DIR:-target}/release/kerf --seeds $(SEEDS) --jobs $(JOBS) scenarios/day-of-faults.yaml

# Prices, interruptions and stock-outs follow from the seed. The report of each run has the waiting times of pods, evictions, pods that were
# killed with their instance, and the cost beside that of the plan of an empty cluster.
spot: ## simulate a fleet of 100 spot nodes: 24 hours with 3 seeds, 6 hours with 10 seeds
	$(CARGO) build --release --quiet --package kerf
	hack/scenarios.py $${CARGO_TARGET_DIR:-target}/release/kerf --report --seeds 3 --jobs $(JOBS) scenarios/aws/spot-day.yaml
	hack/scenarios.py $${CARGO_TARGET_DIR:-target}/release/kerf --report --seeds 10 --first-seed 100 --jobs $(JOBS) scenarios/aws/spot-day.yaml:6h

# `make test` runs the same test with five claims. It prints each failure, the number of points and the CPU time.
kills-aws: KILLS_TEST = $(CARGO) test --release --quiet --package kerf --lib a_successor_cleans_up_after_a_crash -- --nocapture
kills-aws: ## kill the controller after every AWS call and API write of 20 claims, and at 200 points of 1,000
	KERF_KILL_CLAIMS=20 hack/count-tests.sh 1 $(KILLS_TEST)
	KERF_KILL_CLAIMS=1000 KERF_KILL_POINTS=200 hack/count-tests.sh 1 $(KILLS_TEST)

# The steps run one after the other, fastest first. clippy and rustdoc share their artefacts. The tests are last, so that their results are
# at the end of the output. The first run builds the real control plane, which takes ten minutes. While working, run `make unit`.
test: ## run all checks of CI: format, lints, docs, all tests, also on a real control plane
	@$(MAKE) --no-print-directory tools
	@$(MAKE) --no-print-directory fmt-check
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory doc
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory test-real
	@$(MAKE) --no-print-directory test-aws

# kube-apiserver, kube-scheduler, kube-controller-manager, etcd and KWOK are built once (about ten minutes on two cores, kept under
# .cache/) and run on loopback. The test binaries are those of `make unit`; under cluster.sh they use the real control plane. There are
# two clusters, because the first has other variants of the CRDs than the second. Later runs take five to seven minutes, mostly waiting.
test-real: ## run the scenarios and the sandbox comparison on a real control plane (installs Go)
	@hack/controlplane/build.sh >/dev/null
	$(CARGO) test --quiet --test it --no-run
	hack/controlplane/cluster.sh -- hack/count-tests.sh $(FIDELITY_TESTS_MIN) $(CARGO) test --quiet --test it fidelity::the_
	hack/controlplane/cluster.sh --fast -- hack/count-tests.sh $(SCENARIO_TESTS_MIN) $(CARGO) test --quiet --test it scenarios:: -- --test-threads=1

# kerf-aws-sdk is not a default member of the workspace, because the AWS SDK takes longer to compile than everything else: clippy and rustdoc
# check it once, the tests compile it once. `make fmt-check` covers the crate already. moto is a third-party AWS in Python, which is installed
# by its first use. At the end `kerf-aws controller` runs as a process, with a real API server, on `kerf-aws aws serve` and on moto.
test-aws: KERF_AWS = $${CARGO_TARGET_DIR:-target}/debug/kerf-aws
test-aws: MOTO_PYTHON = $${CARGO_TARGET_DIR:-target}/tmp/moto/bin/python
test-aws: ## lint, document and test kerf-aws, also as a process on moto and on a real API server (installs moto)
	$(CARGO) clippy --quiet --package kerf-aws-sdk --all-targets --test moto -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --no-deps --package kerf-aws-sdk
	hack/count-tests.sh $(AWS_SDK_TESTS_MIN) $(CARGO) test --quiet --package kerf-aws-sdk
	hack/aws/moto.sh hack/count-tests.sh $(MOTO_TESTS_MIN) $(CARGO) test --quiet --package kerf-aws-sdk --test moto
	hack/aws/wire-check.sh $(KERF_AWS) aws serve --cluster-name demo --kubernetes-version 1.34
	@hack/controlplane/build.sh >/dev/null
	hack/controlplane/cluster.sh -- $(MOTO_PYTHON) hack/aws/one_node.py $(KERF_AWS) $(KERF_AWS)
	hack/controlplane/cluster.sh -- hack/aws/moto.sh $(MOTO_PYTHON) hack/aws/one_node.py --moto $(KERF_AWS) $(KERF_AWS)

# Each scenario of spec 07 section 13 that takes minutes, on the real clock. About 45 minutes, mostly waiting: SCENARIOS=B,D runs some of
# them. Logs and results are in target/tmp/acceptance.
acceptance-aws karpenter-on-kerf: KERF_AWS = $${CARGO_TARGET_DIR:-target}/debug/kerf-aws
acceptance-aws karpenter-on-kerf: AWS_PYTHON = $${CARGO_TARGET_DIR:-target}/tmp/aws-python
acceptance-aws karpenter-on-kerf: KEEP = $${CARGO_TARGET_DIR:-target}/tmp/acceptance
acceptance-aws: ## run kerf-aws controller through the acceptance scenarios on a real control plane (needs Go)
	$(CARGO) build --quiet --package kerf-aws-sdk
	@hack/controlplane/build.sh >/dev/null
	@hack/aws/python-env.sh "$(AWS_PYTHON)"
	hack/controlplane/cluster.sh -- $(AWS_PYTHON)/bin/python hack/aws/acceptance --kerf $(KERF_AWS) --kerf-aws $(KERF_AWS) \
		--keep $(KEEP)/kerf $(if $(SCENARIOS),--scenarios $(SCENARIOS))

# Karpenter's own AWS controller, built from its source, runs the same scenarios on Kerf's EC2. Then Kerf and Karpenter take turns on one
# cluster with running nodes. The last command prints the AWS calls of both. About 40 minutes, and ten more to build Karpenter.
karpenter-on-kerf: ## run Karpenter's own AWS controller on kerf aws serve, and swap it with Kerf (needs Go)
	$(CARGO) build --quiet --package kerf-aws-sdk
	@hack/controlplane/build.sh >/dev/null
	@hack/karpenter/build.sh >/dev/null
	@hack/aws/python-env.sh "$(AWS_PYTHON)"
	hack/controlplane/cluster.sh -- $(AWS_PYTHON)/bin/python hack/aws/acceptance --kerf $(KERF_AWS) --karpenter "$$(hack/karpenter/build.sh)" \
		--keep $(KEEP)/karpenter
	hack/controlplane/cluster.sh -- $(AWS_PYTHON)/bin/python hack/aws/acceptance --kerf $(KERF_AWS) --kerf-aws $(KERF_AWS) \
		--scenarios B,D,F,I,L,M --keep $(KEEP)/compared
	hack/controlplane/cluster.sh -- $(AWS_PYTHON)/bin/python hack/aws/acceptance --kerf $(KERF_AWS) --kerf-aws $(KERF_AWS) \
		--karpenter "$$(hack/karpenter/build.sh)" --scenarios "" --swap --keep $(KEEP)/swap
	hack/aws/acceptance/compare.py $(KEEP)/karpenter/results.json $(KEEP)/compared/results.json

# Measures kerf controller for a thousand pods, for three hundred drifted nodes, and for ten thousand pods. Use a quiet machine.
scale-real: ## measure kerf controller for large changes on a real control plane (needs Go)
	$(CARGO) build --release --quiet --package kerf
	hack/controlplane/cluster.sh --audit "$${CARGO_TARGET_DIR:-target}/tmp/audit.log" -- \
		hack/controlplane/scale.py $${CARGO_TARGET_DIR:-target}/release/kerf "$${CARGO_TARGET_DIR:-target}/tmp/audit.log"
	hack/controlplane/cluster.sh --fast --audit "$${CARGO_TARGET_DIR:-target}/tmp/audit-large.log" -- \
		hack/controlplane/scale.py $${CARGO_TARGET_DIR:-target}/release/kerf "$${CARGO_TARGET_DIR:-target}/tmp/audit-large.log" large shrink

# A kill of the leader costs the 15 seconds of its lease, so 100 kills and 20 stops take 40 minutes, mostly waiting.
KILLS ?= 100
STOPS ?= 20
kills-real: ## kill (KILLS, 100) and stop (STOPS, 20) two replicas of kerf controller on a real control plane (needs Go)
	$(CARGO) build --release --quiet --package kerf
	hack/controlplane/cluster.sh --fast --audit "$${CARGO_TARGET_DIR:-target}/tmp/audit-kills.log" -- \
		hack/kills.py $${CARGO_TARGET_DIR:-target}/release/kerf --audit "$${CARGO_TARGET_DIR:-target}/tmp/audit-kills.log" \
		--kills $(KILLS) --stops $(STOPS)

# The cluster is the sandbox, so that the machine does no other work; only the controller is measured.
idle: ## measure kerf controller on 5,000 nodes and 100,000 pods without changes
	$(CARGO) build --release --quiet --package kerf
	$${CARGO_TARGET_DIR:-target}/release/kerf sandbox --no-controller --instant -- hack/idle.py $${CARGO_TARGET_DIR:-target}/release/kerf

latency: ## measure how fast kerf controller creates NodeClaims for 1,000 and 10,000 pods
	$(CARGO) build --release --quiet --package kerf
	$${CARGO_TARGET_DIR:-target}/release/kerf sandbox --no-controller --instant -- hack/latency.py $${CARGO_TARGET_DIR:-target}/release/kerf

# Each world (a generated cluster) takes one or two seconds. It runs on a real control plane and on the sandbox; both must bind the
# planned pods.
referee-real: WORLDS = 500
referee-real: ## check that kube-scheduler binds the pods of WORLDS (500) random plans (needs Go)
	$(CARGO) build --quiet --package kerf --package kerf-referee --bin kerf --example world
	hack/scheduler/worlds.py 0 $(WORLDS) $${CARGO_TARGET_DIR:-target}/debug/kerf $${CARGO_TARGET_DIR:-target}/debug/examples/world --controlplane "$$(hack/controlplane/build.sh)"
	$${CARGO_TARGET_DIR:-target}/debug/kerf sandbox --no-controller --instant -- \
		hack/scheduler/worlds.py 0 $(WORLDS) $${CARGO_TARGET_DIR:-target}/debug/kerf $${CARGO_TARGET_DIR:-target}/debug/examples/world

# Use this for changes that must not alter behaviour, such as renames. OLD is the `target/release` of a build before the change, with the
# example programs:
#   git worktree add ../kerf-old main && cd ../kerf-old && cargo build --release -p kerf -p kerf-referee --bin kerf --example world --example clusters
# OPTIONS are options of hack/compare-builds.py: --worlds N, --clusters N, --seeds N, --skip-week, --texts.
compare-builds: ## compare plans, simulations and logs with those of the build in OLD=dir
	@test -n "$(OLD)" || { echo "OLD is not set: make compare-builds OLD=dir, the target/release of the build to compare with" >&2; exit 2; }
	$(CARGO) build --release --quiet --package kerf --package kerf-referee --bin kerf --example world --example clusters
	hack/compare-builds.py "$(OLD)" "$${CARGO_TARGET_DIR:-target}/release" $(OPTIONS)

# The tests use kubectl and the official Python client, and fail with the messages below if they are missing.
tools: ## install the clients that the tests need, if they are missing
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

lint: ## run clippy on all targets; warnings are errors
	$(CARGO) clippy --quiet --all-targets -- -D warnings

doc: ## build the documentation; warnings are errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --no-deps

# The property tests draw the same inputs in every run, so that a failure comes from your change. `make unit SEED=...` draws other inputs.
SEED ?= 20260101
unit: ## run the tests only; SEED=n draws other random inputs
	PROPTEST_RNG_SEED=$(SEED) hack/count-tests.sh $(UNIT_TESTS_MIN) $(CARGO) test --quiet

bench: ## run the benchmarks of docs/PERFORMANCE.md
	$(CARGO) bench --package kerf-state --package kerf-engine --benches

oracle: ## build the program that runs Karpenter's code on kerf plan's input (needs Go)
	hack/oracle/build.sh

# The tests use a few hundred inputs. These numbers take much longer.
WORLDS ?= 10000
CLUSTERS ?= 2000
properties: ## check plans on WORLDS (10000) and CLUSTERS (2000) random inputs
	$(CARGO) build --release --quiet --package kerf
	$(CARGO) run --release --quiet --package kerf-referee --example properties -- $${CARGO_TARGET_DIR:-target}/release/kerf $(WORLDS)
	$(CARGO) run --release --quiet --package kerf-referee --example clusters -- properties $${CARGO_TARGET_DIR:-target}/release/kerf $(CLUSTERS)

differential: WORLDS = 1000
differential: CLUSTERS = 500
differential: ## compare with Karpenter on WORLDS (1000) and CLUSTERS (500) random inputs (needs Go)
	$(CARGO) build --release --quiet --package kerf
	$(CARGO) run --release --quiet --package kerf-referee --example differential -- "$$(hack/oracle/build.sh)" $${CARGO_TARGET_DIR:-target}/release/kerf $(WORLDS)
	$(CARGO) run --release --quiet --package kerf-referee --example clusters -- differential "$$(hack/oracle/build.sh)" $${CARGO_TARGET_DIR:-target}/release/kerf $(CLUSTERS)

# Each document is asked of `kerf aws ask` and of Karpenter's AWS provider (spec 11). A difference is asked three times before it counts.
DOCUMENTS ?= 2000
differential-aws: ## compare the AWS provider with Karpenter's on DOCUMENTS (2000) random inputs (needs Go)
	@hack/python-client.sh "$${CARGO_TARGET_DIR:-target}/tmp/python-client"
	$(CARGO) build --release --quiet --package kerf
	$${CARGO_TARGET_DIR:-target}/tmp/python-client/bin/python hack/oracle-aws/differential.py $${CARGO_TARGET_DIR:-target}/release/kerf "$$(hack/oracle-aws/build.sh)" --count $(DOCUMENTS)

coverage: ## list the edge cases of docs/spec that no test names
	$(CARGO) xtask spec-coverage

# The tests run the same properties on mutated inputs for a few seconds; this target lets libFuzzer search for new code paths.
FUZZ_SECONDS ?= 60
fuzz: ## fuzz each parser for FUZZ_SECONDS (60) (installs nightly Rust and cargo-fuzz)
	@rustup run nightly rustc --version >/dev/null 2>&1 || rustup toolchain install nightly --profile minimal
	@$(CARGO) fuzz --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-fuzz
	@for target in quantity duration schedule manifest; do \
		echo "fuzzing $$target for $(FUZZ_SECONDS)s"; \
		$(CARGO) +nightly fuzz run --sanitizer none $$target -- -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 || exit 1; \
	done
