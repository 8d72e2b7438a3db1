#!/usr/bin/env bash
# Builds the oracle (Karpenter's AWS provider behind the questions of spec 11) into .cache/oracle-aws and prints its path.
# It needs Go 1.26 and the Go module proxy. The first build takes 2-3 minutes, later builds take a second. It builds nothing if the binary is
# newer than its sources.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
out=${1:-$root/.cache/oracle-aws}

if [[ ! -x $out || -n $(find "$here" -maxdepth 1 \( -name '*.go' -o -name 'go.*' \) -newer "$out" -print -quit) ]]; then
    mkdir -p "$(dirname "$out")"
    (cd "$here" && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$out" .) >&2
fi
echo "$out"
