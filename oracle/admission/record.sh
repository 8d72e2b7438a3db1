#!/bin/sh
# Asks kube-apiserver's own libraries again and records what they say, for crates/kerf-api/src/admission/tests/kubernetes.rs.
# Needs Go and Python 3; the version of Kubernetes is the one in go.mod.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/oracle" .
python3 cases.py > "$work/cases.jsonl"
"$work/oracle" < "$work/cases.jsonl" > "$work/answers.jsonl" 2> "$work/log"
python3 cases.py "$work/answers.jsonl" > ../../crates/kerf-api/src/admission/testdata/kubernetes.jsonl
