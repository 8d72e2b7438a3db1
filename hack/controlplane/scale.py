#!/usr/bin/env python3
"""Measures time, CPU, memory and requests of `kerf controller` for large changes on a real control plane.

    hack/controlplane/cluster.sh --audit /tmp/audit.log -- hack/controlplane/scale.py KERF /tmp/audit.log [WORKLOAD...]

KERF is the program, built with --release. Workloads (default: the first three):

  out      1,000 pods appear
  in       700 of them remain; needs out
  drift    300 nodes are replaced after the NodePool's template changed
  faults   the script kills the API server while pods are pending, then etcd; each is down for five seconds
  large    10,000 pods appear, enough for a thousand nodes; use cluster.sh --fast, or the controller manager takes ten minutes to create them
  shrink   3,000 of them remain; needs large

For each workload the script prints seconds, nodes, dollars per hour, CPU seconds and peak memory of the controller, its requests by verb and
resource, and the load of the machine. The other figures mean little without the load.
"""
import json, os, signal, subprocess, sys, time

POOL = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {
    "disruption": {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]},
    "template": {"metadata": {"annotations": {"round": "one"}}, "spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                         {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                         {"key": "karpenter.kwok.sh/instance-size", "operator": "Lt", "values": ["32"]}]}}}}
CLASS = {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}, "spec": {}}


def kubectl(*arguments, given=None):
    done = subprocess.run(["kubectl", *arguments], input=None if given is None else json.dumps(given), text=True, capture_output=True)
    if done.returncode:
        raise SystemExit(f"kubectl {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def deployment(name, replicas, cpu, memory, spread=False):
    spec = {"terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]}
    if spread:
        spec["topologySpreadConstraints"] = [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
                                              "labelSelector": {"matchLabels": {"app": name}}}]
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {"replicas": replicas,
            "selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}}, "spec": spec}}}


def running():
    """Returns the numbers of ready pods and of all pods. It reads Deployments, because listing ten thousand pods every second would distort the measurement."""
    every = [each["status"] for each in json.loads(kubectl("get", "deployments", "-o", "json"))["items"]]
    return sum(each.get("readyReplicas", 0) for each in every), sum(each.get("replicas", 0) for each in every)


def nodes():
    return set(kubectl("get", "nodes", "-o", "name").split())


class Controller:
    def __init__(self, kerf):
        environment = dict(os.environ, KUBECONFIG=f"{os.environ['KERF_CONTROLPLANE']}/kerf.kubeconfig")
        self.log = open(f"{os.environ['KERF_CONTROLPLANE']}/log/kerf.log", "w")
        arguments = ["controller", "--disable-leader-election", "--metrics-port", "0", "--health-probe-port", "0"]
        self.child = subprocess.Popen([kerf, *arguments], env=environment, stdout=self.log, stderr=self.log)

    def used(self):
        """Returns the CPU seconds and the peak memory so far, in MB."""
        fields = open(f"/proc/{self.child.pid}/stat").read().rsplit(")", 1)[1].split()
        cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        peak = next(line for line in open(f"/proc/{self.child.pid}/status") if line.startswith("VmHWM"))
        return cpu, int(peak.split()[1]) // 1024


def requests(audit, since):
    counts = {}
    with open(audit) as lines:
        for number, line in enumerate(lines):
            if number >= since:
                entry = json.loads(line)
                what = entry.get("objectRef", {})
                name = "/".join(filter(None, (what.get("resource"), what.get("subresource"))))
                key = f"{entry['verb']} {name}"
                counts[key] = counts.get(key, 0) + 1
    return dict(sorted(counts.items(), key=lambda pair: -pair[1]))


def lines(path):
    return sum(1 for _ in open(path)) if os.path.exists(path) else 0


def price(kerf):
    plan = json.loads(subprocess.run([kerf, "plan", "-o", "json"], capture_output=True, text=True, check=True).stdout)
    return plan["cost"]


def measured(name, kerf, controller, audit, work):
    since, (cpu, _) = lines(audit), controller.used()
    seconds = work()
    if controller.child.poll() is not None:
        raise SystemExit(f"kerf controller ended with {controller.child.returncode}")
    now, peak = controller.used()
    print(json.dumps({"workload": name, "seconds": round(seconds, 1), "nodes": len(nodes()), "cost": price(kerf), "cpu_seconds": round(now - cpu, 1),
                      "peak_megabytes": peak, "load": os.getloadavg()[0], "requests": requests(audit, since)}), flush=True)


def until(holds, limit):
    start = time.monotonic()
    while not holds():
        if time.monotonic() - start > limit:
            raise SystemExit(f"not settled after {limit} s; read {os.environ['KERF_CONTROLPLANE']}/log/kerf.log (cluster.sh --keep-logs)")
        time.sleep(1)
    return time.monotonic() - start


def scale_out():
    kubectl("apply", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": [
        deployment("small", 500, "900m", "3100Mi"), deployment("large", 500, "3500m", "28Gi")]})
    return until(lambda: running() == (1000, 1000), 900)


def settled(pods):
    """Waits until this number of pods runs and no node has changed for 90 seconds. Returns the seconds up to the last change."""
    start, last, before = time.monotonic(), time.monotonic(), nodes()
    while time.monotonic() - last < 90:
        now = nodes()
        if now != before or running() != (pods, pods):
            last, before = time.monotonic(), now
        if time.monotonic() - start > 1800:
            raise SystemExit("not settled after 1800 s")
        time.sleep(1)
    return last - start


def scale_in():
    for name in ("small", "large"):
        kubectl("scale", f"deployment/{name}", "--replicas=350")
    return settled(700)


FLEET = [f"fleet-{number}" for number in range(10)]


def large():
    """Waits until every pod has run. It does not wait for readiness: KWOK on two busy cores renews a thousand Leases too late, the controller
    manager then treats nodes as unreachable and marks their pods as not ready, and no component marks them as ready again."""
    kubectl("apply", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": [deployment(name, 1000, "1500m", "2Gi") for name in FLEET]})
    pending = lambda: kubectl("get", "pods", "--field-selector", "status.phase=Pending", "-o", "name").strip()
    return until(lambda: running()[1] == 10_000 and not pending(), 1800)


def shrink():
    kubectl("scale", "deployment", *FLEET, "--replicas=300")
    return settled(3000)


def drift():
    kubectl("delete", "deployment", "--all", "--wait")
    until(lambda: not nodes(), 900)
    kubectl("apply", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": [
        deployment("spread", 300, "900m", "3100Mi", spread=True), deployment("large", 300, "3500m", "28Gi")]})
    until(lambda: running() == (600, 600), 900)
    old = nodes()
    print(json.dumps({"workload": "drift", "nodes before": len(old)}), flush=True)
    kubectl("patch", "nodepool", "default", "--type=merge", "-p", json.dumps({"spec": {"template": {"metadata": {"annotations": {"round": "two"}}}}}))
    return until(lambda: not nodes() & old and running() == (600, 600), 1800)


# Processes that this script started and must end: cluster.sh ends only its own.
RESTARTED = []


def restart(component):
    """Kills a component of the control plane, and starts it again after five seconds with the same command line."""
    folder = os.environ["KERF_CONTROLPLANE"]
    pid = int(open(f"{folder}/{component}.pid").read())
    command = open(f"/proc/{pid}/cmdline").read().split("\0")[:-1]
    os.kill(pid, signal.SIGKILL)
    time.sleep(5)
    log = open(f"{folder}/log/{component}.again.log", "w")
    RESTARTED.append(subprocess.Popen(command, stdout=log, stderr=log))
    until(lambda: subprocess.run(["kubectl", "get", "--raw", "/readyz"], capture_output=True).returncode == 0, 60)


def faults():
    kubectl("apply", "-f", "-", given=deployment("steady", 20, "900m", "1Gi"))
    until(lambda: running() == (20, 20), 120)
    start = time.monotonic()
    for replicas, component in ((40, "apiserver"), (60, "etcd")):
        kubectl("scale", "deployment/steady", f"--replicas={replicas}")
        restart(component)
        until(lambda: running() == (replicas, replicas), 300)
    return time.monotonic() - start


WORKLOADS = {"out": scale_out, "in": scale_in, "drift": drift, "faults": faults, "large": large, "shrink": shrink}


def main():
    if "--help" in sys.argv or "-h" in sys.argv:
        print(__doc__)
        return
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    kerf, audit, wanted = sys.argv[1], sys.argv[2], sys.argv[3:] or ["out", "in", "drift"]
    definitions = subprocess.run([kerf, "crds", "--provider", "kwok"], capture_output=True, text=True, check=True).stdout
    subprocess.run(["kubectl", "apply", "--server-side", "-f", "-"], input=definitions, text=True, check=True, stdout=subprocess.DEVNULL)
    until(lambda: subprocess.run(["kubectl", "get", "nodepools,nodeclaims,kwoknodeclasses"], capture_output=True).returncode == 0, 30)
    kubectl("apply", "-f", "-", given=CLASS)
    kubectl("apply", "-f", "-", given=POOL)
    controller = Controller(kerf)
    try:
        time.sleep(3)
        for name in wanted:
            measured(name, kerf, controller, audit, WORKLOADS[name])
    finally:
        controller.child.terminate()
        controller.child.wait(60)
        # SIGKILL: they are not needed any more, and an API server that receives SIGTERM waits for its clients.
        for child in RESTARTED:
            child.kill()
            child.wait()


if __name__ == "__main__":
    # On SIGTERM the script exits, and ends the processes that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
