#!/bin/sh
# Reads the documents with the YAML library of kubectl and the API server and records the results, for crates/kerf-api/src/yaml/tests.rs.
# It needs Go. go.mod contains the version of the library.
set -eu
cd "$(dirname "$0")"
go run . > ../../crates/kerf-api/src/yaml/testdata/sigs-yaml.jsonl
