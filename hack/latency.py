#!/usr/bin/env python3
"""Measures the time in which `kerf controller` creates NodeClaims for pods that appear at once, and its CPU time.

    kerf sandbox --no-controller --instant -- hack/latency.py KERF [PODS...]

KERF is the program, built with --release. For each number of PODS (1,000 and 10,000) a controller starts on an empty cluster. The script then
creates this number of pending pods, as fast as four connections can. The node class delays the registration of nodes, so that only the
NodeClaims of the first pass are counted. For each number the script prints one JSON object:
the seconds from the last pod to the last NodeClaim, and the controller's CPU seconds from the first pod to the last NodeClaim. The former
include the batching of pods (one second without a new pod, ten seconds at most).
"""
import concurrent.futures, copy, json, signal, sys, time

from idle import CLAIMS, CLASS, POOL, Api, Controller, install

PODS = "/api/v1/namespaces/default/pods"
SIZES = [("250m", "512Mi"), ("900m", "3100Mi"), ("1500m", "2Gi"), ("3500m", "28Gi")]


def pod(number):
    cpu, memory = SIZES[number % len(SIZES)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{number}", "labels": {"app": f"app-{number % 20}"}},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]}}


def claims(api):
    return len(api("GET", CLAIMS)["items"])


def last_claim(api, controller):
    """Returns the time of the last NodeClaim and the controller's CPU time then. No NodeClaim followed for longer than a batch window."""
    seen, when, cpu = 0, time.monotonic(), controller.cpu()
    while not seen or time.monotonic() - when < 12:
        now, used = claims(api), controller.cpu()
        if now != seen:
            seen, when, cpu = now, time.monotonic(), used
        if controller.child.poll() is not None:
            raise SystemExit(f"kerf controller ended with {controller.child.returncode}")
        time.sleep(0.05)
    return seen, when, cpu


def measure(api, kerf, pods):
    controller = Controller(kerf)
    try:
        time.sleep(5)
        start = controller.cpu()
        begun = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(4) as workers:
            list(workers.map(lambda number: api("POST", PODS, pod(number)), range(pods)))
        created = time.monotonic()
        count, when, cpu = last_claim(api, controller)
    finally:
        controller.stop()
    print(json.dumps({"pods": pods, "seconds_to_create_the_pods": round(created - begun, 2), "claims": count,
                      "seconds_from_last_pod_to_last_claim": round(when - created, 2), "cpu_seconds": round(cpu - start, 2)}), flush=True)
    for what in (PODS, CLAIMS, "/api/v1/nodes"):
        api("DELETE", what)
    for claim in api("GET", CLAIMS)["items"]:
        api("PATCH", f"{CLAIMS}/{claim['metadata']['name']}", {"metadata": {"finalizers": None}}, "application/merge-patch+json")


def main():
    if "--help" in sys.argv or "-h" in sys.argv:
        print(__doc__)
        return
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    kerf, sizes = sys.argv[1], [int(size) for size in sys.argv[2:]] or [1000, 10_000]
    api = Api()
    pool = copy.deepcopy(POOL)
    pool["spec"]["template"]["spec"]["requirements"] = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]
    install(api, kerf, {**CLASS, "spec": {"nodeRegistrationDelay": "10m"}}, pool)
    for pods in sizes:
        measure(api, kerf, pods)


if __name__ == "__main__":
    # On SIGTERM the script exits, and ends the processes that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
