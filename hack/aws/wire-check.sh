#!/bin/sh
# Starts the program $1 with the arguments behind it, which serves an EC2 in memory and prints its endpoint first, and checks every operation
# with boto3 and botocore's service models. Exits 1 if an answer differs from the models. Without arguments it builds and runs the example
# `serve` of kerf-aws.
set -eu
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
python=$target/tmp/aws-python
hack/aws/python-env.sh "$python"
if [ $# -eq 0 ]; then
    "${CARGO:-cargo}" build --quiet --package kerf-aws --example aws_server
    set -- "$target/debug/examples/aws_server"
fi
exec "$python/bin/python" hack/aws/wire-check.py --run "$@"
