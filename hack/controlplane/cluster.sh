#!/usr/bin/env bash
# Runs a real Kubernetes control plane while one command runs:
#
#   hack/controlplane/cluster.sh [--fast] [--audit FILE] [--keep-logs DIR] -- COMMAND [ARG...]
#
# etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK start in a temporary folder on free ports of 127.0.0.1, with keys
# of their own. COMMAND runs with KUBECONFIG set, the built binaries first in PATH, and the folder (pids, logs, kubeconfigs) in
# KERF_CONTROLPLANE. The script exits with COMMAND's exit code. When COMMAND ends, fails or is interrupted, the script stops every process and
# removes the folder. If the script itself is killed, the kernel stops its children.
#
#   --fast            raises the client rate limits of the controller manager and the scheduler, so that they do not limit a measurement of Kerf
#   --audit FILE      records every request that is made with kerf.kubeconfig, one JSON object per line
#   --keep-logs DIR   copies the logs to DIR before the folder is removed
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fast=
keep=
audit=
while (($#)); do
    case $1 in
    --fast) fast=1 ;;
    --audit) audit=$(realpath -- "${2:?--audit needs a file}"); shift ;;
    --keep-logs) keep=${2:?--keep-logs needs a folder}; shift ;;
    --) shift; break ;;
    *) echo "cluster.sh: what is $1? usage: cluster.sh [--fast] [--audit FILE] [--keep-logs DIR] -- COMMAND [ARG...]" >&2; exit 2 ;;
    esac
    shift
done
(($#)) || { echo "cluster.sh: no command; usage: cluster.sh [--fast] [--audit FILE] [--keep-logs DIR] -- COMMAND [ARG...]" >&2; exit 2; }
for need in openssl curl setpriv; do
    command -v "$need" >/dev/null || { echo "cluster.sh: $need is missing; install it (Debian packages openssl, curl, util-linux)" >&2; exit 1; }
done
bin=$("$here/build.sh")

umask 077
dir=$(mktemp -d "${TMPDIR:-/tmp}/kerf-controlplane.XXXXXX")
mkdir -p "$dir"/{log,certs,etcd}
declare -A pids=()
order=()

stop() {
    local code=$? name _
    trap - EXIT INT TERM HUP
    # Stop in reverse order of start, so that no process logs the loss of a component on which it depends.
    for ((i = ${#order[@]} - 1; i >= 0; i--)); do
        name=${order[i]}
        kill -TERM "${pids[$name]}" 2>/dev/null || continue
        for _ in {1..50}; do kill -0 "${pids[$name]}" 2>/dev/null || break; sleep 0.1; done
        kill -KILL "${pids[$name]}" 2>/dev/null || true
        wait "${pids[$name]}" 2>/dev/null || true
    done
    if [[ -n $keep ]]; then mkdir -p "$keep" && cp "$dir"/log/*.log "$keep"/; fi
    rm -rf "$dir"
    exit "$code"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

fail() { # fail <component> <sentence>: prints one line and keeps the log
    local kept=${keep:-${TMPDIR:-/tmp}/kerf-controlplane-logs}
    keep=$kept
    echo "cluster.sh: $2; read $kept/$1.log" >&2
    exit 1
}
spawn() { # spawn <name> <command...>
    local name=$1
    shift
    setpriv --pdeathsig TERM -- "$@" >"$dir/log/$name.log" 2>&1 </dev/null &
    pids[$name]=$!
    order+=("$name")
    echo $! >"$dir/$name.pid"
}
until_true() { # until_true <seconds> <component that must stay alive> <command...>
    local limit=$((SECONDS + $1)) name=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        kill -0 "${pids[$name]}" 2>/dev/null || fail "$name" "$name ended while starting"
        ((SECONDS < limit)) || fail "$name" "$name is not ready in time (waiting for: $1 ... ${*: -1})"
        sleep 0.1
    done
}
taken=" "
free_port() { # sets $port, below the range that the kernel assigns to outgoing connections
    while :; do
        port=$((20000 + RANDOM % 12000))
        [[ $taken == *" $port "* ]] && continue
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && continue
        taken+="$port "
        return
    done
}
free_port; api=$port
free_port; etcd=$port
free_port; peer=$port
free_port; kcm=$port
free_port; scheduler=$port
free_port; kwok=$port

# --- credentials: a token per user, and the key that signs service accounts ------------------------------------------------------
token() { openssl rand -hex 16; }
declare -A tokens=([admin]=$(token) [kcm]=$(token) [scheduler]=$(token) [kwok]=$(token) [kerf]=$(token))
cat >"$dir/tokens.csv" <<EOF
${tokens[admin]},admin,admin,system:masters
${tokens[kcm]},system:kube-controller-manager,kcm
${tokens[scheduler]},system:kube-scheduler,scheduler
${tokens[kwok]},kwok,kwok,system:masters
${tokens[kerf]},kerf,kerf,system:masters
EOF
openssl genrsa -out "$dir/sa.key" 2048 2>/dev/null
openssl rsa -in "$dir/sa.key" -pubout -out "$dir/sa.pub" 2>/dev/null
for who in "${!tokens[@]}"; do
    # The API server signs its own serving certificate; clients trust this file.
    cat >"$dir/$who.kubeconfig" <<EOF
apiVersion: v1
kind: Config
clusters: [{name: kerf, cluster: {server: "https://127.0.0.1:$api", certificate-authority: "$dir/certs/apiserver.crt"}}]
users: [{name: $who, user: {token: ${tokens[$who]}}}]
contexts: [{name: kerf, context: {cluster: kerf, user: $who}}]
current-context: kerf
EOF
done
as_admin() { "$bin/kubectl" --kubeconfig "$dir/admin.kubeconfig" "$@"; }

# --- etcd: without fsync, because no data is needed after the command --------------------------------------------------------------
spawn etcd "$bin/etcd" --name kerf --data-dir "$dir/etcd" --unsafe-no-fsync --log-level warn \
    --listen-client-urls "http://127.0.0.1:$etcd" --advertise-client-urls "http://127.0.0.1:$etcd" \
    --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
    --initial-cluster "kerf=http://127.0.0.1:$peer" \
    --quota-backend-bytes 4294967296 --auto-compaction-mode periodic --auto-compaction-retention 5m
until_true 30 etcd curl -sf "http://127.0.0.1:$etcd/health"

# --- the API server -------------------------------------------------------------------------------------------------------------
# The API server does not accept a loopback address to advertise. No component uses the address; 198.18.0.1 is reserved for tests (RFC 2544).
noting=()
if [[ -n $audit ]]; then
    cat >"$dir/audit.yaml" <<EOF
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata, users: [kerf]}, {level: None}]
EOF
    noting=(--audit-policy-file "$dir/audit.yaml" --audit-log-path "$audit")
fi
spawn apiserver "$bin/kube-apiserver" --etcd-servers "http://127.0.0.1:$etcd" \
    --bind-address 127.0.0.1 --secure-port "$api" --cert-dir "$dir/certs" --advertise-address 198.18.0.1 --endpoint-reconciler-type none \
    --service-cluster-ip-range 10.96.0.0/16 --token-auth-file "$dir/tokens.csv" --authorization-mode RBAC \
    --service-account-issuer https://kubernetes.default.svc \
    --service-account-key-file "$dir/sa.pub" --service-account-signing-key-file "$dir/sa.key" \
    --max-requests-inflight 3000 --max-mutating-requests-inflight 1000 --allow-privileged --profiling=false "${noting[@]}"
until_true 90 apiserver as_admin get --raw /readyz

# --- controller manager, scheduler, KWOK -------------------------------------------------------------------------------------------
kcm_rates=()
scheduler_rates=()
if [[ -n $fast ]]; then
    kcm_rates=(--kube-api-qps 2000 --kube-api-burst 4000 --concurrent-replicaset-syncs 20 --concurrent-deployment-syncs 20 --concurrent-gc-syncs 40)
    scheduler_rates=(--kube-api-qps 5000 --kube-api-burst 10000)
fi
auth() { echo --kubeconfig "$dir/$1.kubeconfig" --authentication-kubeconfig "$dir/$1.kubeconfig" --authorization-kubeconfig "$dir/$1.kubeconfig"; }
# shellcheck disable=SC2046 # three flags and their values, none with a space
spawn kcm "$bin/kube-controller-manager" $(auth kcm) --bind-address 127.0.0.1 --secure-port "$kcm" --cert-dir "$dir/certs" \
    --service-account-private-key-file "$dir/sa.key" --root-ca-file "$dir/certs/apiserver.crt" --use-service-account-credentials \
    --leader-elect=false --profiling=false "${kcm_rates[@]}"
# shellcheck disable=SC2046
spawn scheduler "$bin/kube-scheduler" $(auth scheduler) --bind-address 127.0.0.1 --secure-port "$scheduler" --cert-dir "$dir/certs" \
    --leader-elect=false --profiling=false "${scheduler_rates[@]}"
as_admin apply --server-side -k "$bin/kustomize/crd" >"$dir/log/apply.log" 2>&1 || fail apply "KWOK's definitions were refused"
# kubectl wait fails at once if the status of the CRD is still empty.
until_true 30 apiserver as_admin wait --for=condition=Established crd/stages.kwok.x-k8s.io --timeout=5s
as_admin apply --server-side -k "$bin/kustomize/stage/fast" >>"$dir/log/apply.log" 2>&1 || fail apply "KWOK's stages were refused"
spawn kwok "$bin/kwok" --kubeconfig "$dir/kwok.kubeconfig" --manage-all-nodes=false \
    --manage-nodes-with-annotation-selector kwok.x-k8s.io/node=fake --enable-crds Stage \
    --node-ip 198.18.0.1 --node-port "$kwok" --server-address "127.0.0.1:$kwok" --cidr 10.0.0.0/8 --node-lease-duration-seconds 40
until_true 60 kcm curl -skf "https://127.0.0.1:$kcm/healthz"
until_true 60 scheduler curl -skf "https://127.0.0.1:$scheduler/readyz"
until_true 60 kwok curl -sf "http://127.0.0.1:$kwok/healthz"
# Without the default service account, the API server rejects pods.
until_true 60 kcm as_admin -n default get serviceaccount default

export KUBECONFIG=$dir/admin.kubeconfig KERF_CONTROLPLANE=$dir PATH=$bin:$PATH
# Run the command in the background and wait for it, so that this script reacts to signals at once.
set +e
"$@" <&0 &
pids[command]=$!
order+=(command)
wait "${pids[command]}"
exit $?
