#!/bin/sh
# Runs the admission cases with kube-apiserver's own libraries and records the results, for crates/kerf-api/src/admission/tests/kubernetes.rs.
# It needs Go and Python 3. go.mod contains the version of Kubernetes.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/oracle" .
python3 cases.py > "$work/cases.jsonl"
"$work/oracle" < "$work/cases.jsonl" > "$work/answers.jsonl" 2> "$work/log"
python3 cases.py "$work/answers.jsonl" > ../../crates/kerf-api/src/admission/testdata/kubernetes.jsonl
