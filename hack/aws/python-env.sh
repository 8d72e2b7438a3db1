#!/bin/sh
# Creates a Python environment with boto3 and PyYAML in the folder $1, unless it exists already.
# The checks of the AWS wire formats and the acceptance test use it; it is not part of Kerf.
set -eu
folder=$1
version=1.44.0
if [ -x "$folder/bin/python" ] && "$folder/bin/python" -c "import boto3, botocore, yaml; assert boto3.__version__ == botocore.__version__ == '$version'" 2>/dev/null; then
    exit 0
fi
command -v python3 >/dev/null || { echo "python3 is not installed: apt-get install python3 python3-venv" >&2; exit 1; }
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check "boto3==$version" "botocore==$version" pyyaml==6.0.3
