#!/usr/bin/env bash
# Runs a command with moto, a third-party AWS in Python, as its AWS:
#
#   hack/aws/moto.sh COMMAND [ARG...]        hack/aws/moto.sh cargo test --package kerf-aws-sdk --test moto
#
# The first run installs moto into a Python environment under target/tmp. moto listens on a free loopback port and keeps everything in memory;
# the script stops it when COMMAND ends, and exits with COMMAND's exit code. COMMAND gets AWS_ENDPOINT_URL, AWS_REGION and credentials that
# moto accepts. MOTO_AMIS_PATH and the other variables of moto are passed on. moto is not part of Kerf.
set -euo pipefail

(($#)) || { echo "moto.sh: no command; usage: moto.sh COMMAND [ARG...]" >&2; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
environment=$target/tmp/moto
log=$target/tmp/moto.log
# The versions that the tests were written against. A change of one of them installs all of them again.
packages=('moto[ec2,eks,iam,sqs,ssm,sts,events]==5.2.5' flask==3.1.3 flask-cors==6.0.5 boto3==1.44.0 botocore==1.44.0)

if [[ $(cat "$environment/installed" 2>/dev/null) != "${packages[*]}" ]]; then
    command -v python3 >/dev/null || { echo "moto.sh: python3 is not installed: apt-get install python3 python3-venv" >&2; exit 1; }
    rm -rf "$environment"
    mkdir -p "$target/tmp"
    python3 -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}" >&2
    echo "${packages[*]}" >"$environment/installed"
fi

# moto prints no port that it chose itself, so a free one is chosen here. It is taken again at once, so that a collision is unlikely.
port=$("$environment/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export AWS_ENDPOINT_URL=http://127.0.0.1:$port AWS_REGION=us-west-2 AWS_DEFAULT_REGION=us-west-2
export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_EC2_METADATA_DISABLED=true
unset AWS_PROFILE AWS_SESSION_TOKEN AWS_CA_BUNDLE

"$environment/bin/moto_server" -H 127.0.0.1 -p "$port" >"$log" 2>&1 &
moto=$!
stop() {
    kill "$moto" 2>/dev/null || true
    # moto ends within a second of SIGTERM, unless a request hangs.
    timeout 5 tail --pid="$moto" -f /dev/null || kill -9 "$moto" 2>/dev/null || true
    wait "$moto" 2>/dev/null || true
}
trap stop EXIT

# moto is ready when STS answers: the port accepts connections earlier. The client retries refused connections with back-off.
"$environment/bin/python" - "$moto" <<'PYTHON' || { echo "moto.sh: moto does not answer; its log is $log:" >&2; tail -n 20 "$log" >&2; exit 1; }
import os, sys, time
import boto3, botocore.config, botocore.exceptions
config = botocore.config.Config(connect_timeout=1, read_timeout=30, retries={"total_max_attempts": 1})
sts = boto3.client("sts", config=config)
deadline = time.monotonic() + 60
while True:
    try:
        sts.get_caller_identity()
        sys.exit(0)
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError):
        os.kill(int(sys.argv[1]), 0)  # Raises an error if moto has ended.
        if time.monotonic() > deadline:
            raise
        time.sleep(0.1)
PYTHON

"$@"
