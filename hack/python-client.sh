#!/bin/sh
# Creates a Python environment with the official Kubernetes client in the folder $1, unless it exists already.
# The tests of the sandbox use it; it is not part of Kerf.
set -eu
folder=$1
version=35.0.0
if [ -x "$folder/bin/python" ] && "$folder/bin/python" -c "import kubernetes; assert kubernetes.__version__ == '$version'" 2>/dev/null; then
    exit 0
fi
command -v python3 >/dev/null || { echo "python3 is not installed: apt-get install python3 python3-venv" >&2; exit 1; }
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check "kubernetes==$version"
