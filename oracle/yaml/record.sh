#!/bin/sh
# Asks the reader of kubectl and the API server again and records what it says, for crates/kerf-api/src/yaml/tests.rs.
# Needs Go; the version is the one in go.mod.
set -eu
cd "$(dirname "$0")"
go run . > ../../crates/kerf-api/src/yaml/testdata/sigs-yaml.jsonl
