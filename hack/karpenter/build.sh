#!/usr/bin/env bash
# Builds Karpenter's own AWS controller, unchanged, through the Go module proxy and prints the folder that holds it: the program
# `controller`, and `crds/` with the CRDs of the same version. The folder is named after the contents of go.mod, go.sum and this script.
# It needs Go 1.26. The first build takes five to ten minutes on two cores and 130 MB under .cache/, later builds take nothing.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${KERF_CACHE:-$(cd "$here/../.." && pwd)/.cache}/karpenter
key=$(cat "$here"/go.mod "$here"/go.sum "${BASH_SOURCE[0]}" | sha256sum | cut -c1-16)
out=$cache/$key

if [[ -e $out/complete ]]; then
    echo "$out"
    exit 0
fi
# hack/controlplane/build.sh installs Go there if the system has none.
if ! command -v go >/dev/null; then
    export PATH=$PATH:${KERF_CACHE:-$here/../../.cache}/controlplane/go/bin
fi
command -v go >/dev/null || { echo "hack/karpenter/build.sh: Go is missing: install Go 1.26, or run hack/controlplane/build.sh, which does" >&2; exit 1; }
mkdir -p "$out"
log=$out/build.log
export CGO_ENABLED=0 GOFLAGS="-mod=readonly -trimpath"
module=github.com/aws/karpenter-provider-aws
version=$(cd "$here" && go list -m -f '{{.Version}}' "$module" 2>>"$log")
printf 'building Karpenter %s ...' "$version" >&2
# Karpenter's own build sets its version in the same way.
stamp="-X sigs.k8s.io/karpenter/pkg/operator.Version=${version#v}"
if ! (cd "$here" && go build -ldflags "-s -w $stamp" -o "$out/.controller" "$module/cmd/controller") >>"$log" 2>&1; then
    printf '\nhack/karpenter/build.sh: Karpenter does not build; see %s\n' "$log" >&2
    exit 1
fi
mv "$out/.controller" "$out/controller"
# Files of modules are read-only, copies must not be.
rm -rf "$out/crds"
cp -r "$(cd "$here" && go list -m -f '{{.Dir}}' "$module")/pkg/apis/crds" "$out/crds"
chmod -R u+w "$out/crds"
touch "$out/complete"
printf ' %d s\n' "$SECONDS" >&2
echo "$out"
