#!/usr/bin/env python3
"""Checks on random worlds whether a real kube-scheduler binds the pods that `kerf plan` places, once the planned nodes exist.

    hack/scheduler/worlds.py FIRST COUNT KERF WORLD --controlplane BIN [-o FILE]     # etcd, kube-apiserver and kube-scheduler from BIN
    kerf sandbox --no-controller --instant -- hack/scheduler/worlds.py FIRST COUNT KERF WORLD [-o FILE]     # the sandbox's scheduler

KERF is the program. WORLD is the example `world` of kerf-referee, which writes the world of a seed. For each seed the script plans the world,
creates the planned nodes in addition to the existing nodes, and releases the pods one by one. Each pod has its planned node as its nominated
node: the scheduler uses this node if all its filters allow it. The script writes one line per world to FILE, with the pods that were bound, so
that two schedulers can be compared. The exit code is 1 if a pod that the plan places is not bound.

Every world is used without the objects that need controllers that do not run here (DaemonSets, volumes).
"""
import http.client, json, os, re, signal, ssl, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import record

AT = "2026-03-04T12:00:00Z"
OVERHEAD = {"cpu": "100m", "memory": "10Mi"}


class Api:
    """A persistent connection to an API server."""

    def __init__(self, host, port, token, context):
        self.connect = lambda: http.client.HTTPSConnection(host, port, context=context, timeout=30)
        self.connection, self.token = self.connect(), token

    def call(self, method, path, body=None, media="application/json", missing=False):
        text = None if body is None else json.dumps(body)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": media}
        for attempt in range(2):
            try:
                self.connection.request(method, path, body=text, headers=headers)
                answer = self.connection.getresponse()
                data = answer.read()
                break
            except (http.client.HTTPException, OSError):
                self.connection.close()
                self.connection = self.connect()
                if attempt:
                    raise
        if answer.status >= 300 and not (missing and answer.status in (404, 409)):
            raise RuntimeError(f"{method} {path}: {answer.status} {data.decode()[:400]}")
        return json.loads(data)

    def merge(self, path, body):
        return self.call("PATCH", path, body, "application/merge-patch+json")


def of_kubeconfig():
    text = open(os.environ["KUBECONFIG"]).read()
    try:
        config = json.loads(text)
        server, token = config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]["token"]
    except json.JSONDecodeError:
        server = re.search(r"server: *\"?(https://[^\s\",}]+)", text).group(1)
        token = re.search(r"token: *\"?([^\s\",}]+)", text).group(1)
    host, port = server.removeprefix("https://").rsplit(":", 1)
    # The server runs on this machine and was started for this run.
    return Api(host, int(port), token, ssl._create_unverified_context())


def volumes(pod_spec):
    return any("persistentVolumeClaim" in v or "ephemeral" in v for v in pod_spec.get("volumes", []))


def readable(world):
    """Returns the objects of the world without those that need other controllers."""
    kept = []
    for obj in world["items"]:
        spec = obj.get("spec", {})
        if obj["kind"] in ("DaemonSet", "StorageClass", "PersistentVolume", "PersistentVolumeClaim", "CSINode", "PodDisruptionBudget"):
            continue
        if volumes(spec) or volumes(spec.get("template", {}).get("spec", {})):
            continue
        owners = obj.get("metadata", {}).get("ownerReferences", [])
        if obj["kind"] == "Pod" and any(owner["kind"] == "DaemonSet" for owner in owners):
            continue
        kept.append(obj)
    return kept


def milli(quantity):
    units = {"m": 1, "Ki": 1024_000, "Mi": 1024**2 * 1000, "Gi": 1024**3 * 1000, "Ti": 1024**4 * 1000, "k": 10**6, "M": 10**9, "G": 10**12}
    for unit in sorted(units, key=len, reverse=True):
        if str(quantity).endswith(unit):
            return int(float(str(quantity)[: -len(unit)]) * units[unit])
    return int(float(quantity) * 1000)


def node_of(claim, number, pools, types):
    """Returns the node for a NodeClaim: its estimated launch, with every label that its requirements determine."""
    kind = types[claim["estimate"]["instanceType"]]
    template = pools[claim["nodePool"]]["spec"]["template"]
    labels = {"kubernetes.io/arch": kind["architecture"], "node.kubernetes.io/instance-type": kind["name"]}
    systems = kind.get("operatingSystems") or ["linux"]
    for offering in kind["offerings"]:
        fixed = {r["key"]: r["values"][0] for r in offering["Requirements"] if r["operator"] == "In"}
        if (fixed.get("topology.kubernetes.io/zone"), fixed.get("karpenter.sh/capacity-type")) == (claim["estimate"]["zone"], claim["estimate"]["capacityType"]):
            labels |= fixed
    parts = kind["name"].split("-")
    labels |= {"karpenter.kwok.sh/instance-cpu": str(kind["resources"]["cpu"]), "karpenter.kwok.sh/instance-memory": str(kind["resources"]["memory"]),
               "karpenter.kwok.sh/instance-family": parts[0], "karpenter.kwok.sh/instance-size": parts[1].removesuffix("x") if len(parts) > 1 else ""}
    labels |= template.get("metadata", {}).get("labels", {})
    for r in claim["requirements"] or []:
        if r["operator"] == "In" and r["key"] not in labels and r.get("values"):
            allowed = [v for v in r["values"] if r["key"] != "kubernetes.io/os" or v in systems]
            labels[r["key"]] = allowed[0]
        elif r["operator"] in ("Gt", "Gte") and r["key"] not in labels:
            labels[r["key"]] = str(int(r["values"][0]) + 1)
        elif r["operator"] in ("Exists", "NotIn") and r["key"] not in labels:
            labels[r["key"]] = "987654321"
        elif r["operator"] in ("Lt", "Lte") and r["key"] not in labels:
            labels[r["key"]] = str(max(int(r["values"][0]) - 1, 0))
    labels.setdefault("kubernetes.io/os", systems[0])
    labels |= {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true", "kubernetes.io/hostname": f"claim-{number}"}
    for old, new in (("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"), ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
                     ("beta.kubernetes.io/os", "kubernetes.io/os"), ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type")):
        if new in labels:
            labels.setdefault(old, labels[new])
    capacity = {resource: str(amount) for resource, amount in kind["resources"].items()}
    free = dict(capacity)
    for resource, amount in OVERHEAD.items():
        free[resource] = f"{milli(capacity[resource]) - milli(amount)}m"
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"claim-{number}", "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "spec": {"taints": template["spec"].get("taints", [])}, "status": {"capacity": capacity, "allocatable": free,
            "conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": "m", "lastHeartbeatTime": AT, "lastTransitionTime": AT}]}}


EPHEMERAL = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.cloudprovider.kubernetes.io/uninitialized", "karpenter.sh/unregistered")


def as_they_will_be(items, pools):
    """Returns the existing nodes as the plan assumes them, and the names of the nodes that are being deleted: deleting nodes are removed, launched
    nodes have joined, and starting nodes are ready."""
    claims = [o for o in items if o["kind"] == "NodeClaim"]
    of = lambda node: next((c for c in claims if c.get("status", {}).get("providerID") and c["status"]["providerID"] == node["spec"].get("providerID")), None)
    nodes, going, come = [], set(), set()
    for node in (json.loads(json.dumps(o)) for o in items if o["kind"] == "Node"):
        claim, meta, spec = of(node), node["metadata"], node["spec"]
        if claim:
            come.add(claim["metadata"]["name"])
        leaves = meta.get("deletionTimestamp") or (claim and claim["metadata"].get("deletionTimestamp"))
        if leaves or any(taint["key"] == "karpenter.sh/disrupted" for taint in spec.get("taints", [])):
            going.add(meta["name"])
            continue
        if claim and meta.get("labels", {}).get("karpenter.sh/initialized") != "true":
            starting = {(taint["key"], taint["effect"]) for taint in claim["spec"].get("startupTaints", [])}
            spec["taints"] = [taint for taint in spec.get("taints", []) if taint["key"] not in EPHEMERAL and (taint["key"], taint["effect"]) not in starting]
            node.setdefault("status", {})["allocatable"] = node.get("status", {}).get("allocatable", {}) | claim["status"].get("allocatable", {})
            node["status"]["capacity"] = node["status"].get("capacity", {}) | claim["status"].get("capacity", {})
        for key in ("uid", "resourceVersion", "ownerReferences", "finalizers", "creationTimestamp"):
            meta.pop(key, None)
        meta.setdefault("annotations", {})["kwok.x-k8s.io/node"] = "fake"
        nodes.append(node)
    for claim in claims:
        name = claim["metadata"]["name"]
        if name not in come and not claim["metadata"].get("deletionTimestamp") and claim.get("status", {}).get("allocatable"):
            labels = claim["metadata"].get("labels", {}) | {"kubernetes.io/hostname": name, "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
            nodes.append({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
                          "spec": {"taints": claim["spec"].get("taints", [])},
                          "status": {"capacity": claim["status"].get("capacity", {}), "allocatable": claim["status"]["allocatable"]}})
    return nodes, going


def planned(seed, kerf, writer, folder):
    size = ("small", "medium", "large", "small", "medium")[seed % 5]
    subprocess.run([writer, str(seed), size, folder], check=True)
    items = readable(json.load(open(f"{folder}/manifests.json")))
    json.dump({"apiVersion": "v1", "kind": "List", "items": items}, open(f"{folder}/readable.json", "w"))
    types = {t["name"]: t for t in json.load(open(f"{folder}/types.json"))}
    out = subprocess.run([kerf, "plan", "-o", "json", "--no-stats", "--max-passes", "1", "--at", AT, "--instance-types", f"{folder}/types.json",
                          "-f", f"{folder}/readable.json"],
                         check=True, capture_output=True).stdout
    return items, types, json.loads(out)["provisioning"]


def clear(api):
    for namespace in {"default", *SEEN}:
        api.call("DELETE", f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
    api.call("DELETE", "/api/v1/nodes")
    end = time.time() + 20
    while time.time() < end and (api.call("GET", "/api/v1/pods?limit=1")["items"] or api.call("GET", "/api/v1/nodes?limit=1")["items"]):
        time.sleep(0.05)


SEEN = set()
GATE = "kerf.sh/wait"


def trial(api, items, types, plan):
    """Returns the planned nodes of the pods, the pods that the plan leaves pending, the nodes of all bound pods, and the messages for planned pods that were not bound."""
    clear(api)
    pools = {o["metadata"]["name"]: o for o in items if o["kind"] == "NodePool"}
    pods = {f"{o['metadata'].get('namespace', 'default')}/{o['metadata']['name']}": o for o in items if o["kind"] == "Pod"}
    deployments = [o for o in items if o["kind"] == "Deployment"]
    for obj in items:
        if obj["kind"] == "Namespace" and obj["metadata"]["name"] not in SEEN:
            api.call("POST", "/api/v1/namespaces", {"metadata": {"name": obj["metadata"]["name"]}}, missing=True)
            SEEN.add(obj["metadata"]["name"])
        if obj["kind"] == "Namespace":
            labels = {"team": None} | obj["metadata"].get("labels", {})
            api.merge(f"/api/v1/namespaces/{obj['metadata']['name']}", {"metadata": {"labels": labels}})
    nodes, going = as_they_will_be(items, pools)
    for node in nodes:
        api.call("POST", "/api/v1/nodes", node)

    def source_of(key):
        if key in pods:
            return pods[key]
        namespace, name = key.split("/")
        owner = next(d for d in deployments if name.rsplit("-", 1)[0] == d["metadata"]["name"] and d["metadata"].get("namespace", "default") == namespace)
        return {"metadata": {"labels": owner["spec"]["template"]["metadata"].get("labels", {})}, "spec": owner["spec"]["template"]["spec"]}

    def submit(key, nominated=None):
        namespace, name = key.split("/")
        source = source_of(key)
        spec = dict(source["spec"])
        spec.pop("priorityClassName", None)
        spec.pop("priority", None)
        if nominated or key in moved:
            # The pod runs on a node that is being deleted, and the plan places it again.
            spec.pop("nodeName", None)
        if nominated:
            spec["schedulingGates"] = [{"name": GATE}]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": source["metadata"].get("labels", {}),
               "annotations": source["metadata"].get("annotations", {})}, "spec": {"automountServiceAccountToken": False} | spec}
        at = f"/api/v1/namespaces/{namespace}/pods"
        try:
            api.call("POST", at, pod)
        except RuntimeError as problem:
            if " 422 " not in str(problem):
                raise
            return None
        if nominated:
            api.merge(f"{at}/{name}/status", {"status": {"nominatedNodeName": nominated}})
        return f"{at}/{name}"

    moved = {pod for place in (plan["nodeClaims"] or []) + (plan["existingNodes"] or []) for pod in place["pods"]}
    moved |= {pod["pod"] for pod in plan["unschedulable"] or []}
    for key, pod in pods.items():
        ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if pod["spec"].get("nodeName") and pod["spec"]["nodeName"] not in going and key not in moved and not ended and not pod["metadata"].get("deletionTimestamp"):
            submit(key)
    where = {}
    for number, claim in enumerate(plan["nodeClaims"] or []):
        api.call("POST", "/api/v1/nodes", node_of(claim, number, pools, types))
        where |= {pod: f"claim-{number}" for pod in claim["pods"]}
    for placement in plan["existingNodes"] or []:
        where |= {pod: placement["node"] for pod in placement["pods"]}
    until_ready(api)
    spread = lambda key: any(c["whenUnsatisfiable"] == "DoNotSchedule" for c in source_of(key)["spec"].get("topologySpreadConstraints", []))
    where, paths = place(api, where, spread, submit)
    left = [u["pod"] for u in plan["unschedulable"] or [] if u["pod"] in pods or deployments]
    left = [key for key in left if submit(key)]
    if left:
        settle(api, set(left), 1.5)
    bound = {f"{p['metadata']['namespace']}/{p['metadata']['name']}": p["spec"]["nodeName"]
             for p in api.call("GET", "/api/v1/pods")["items"] if p["spec"].get("nodeName")}
    messages = {}
    for key in where:
        if key not in bound:
            pod = api.call("GET", paths[key])
            messages[key] = next((c.get("message", "") for c in pod["status"].get("conditions", []) if c["type"] == "PodScheduled"), "")
    return where, left, bound, messages


def place(api, where, spread, submit):
    """Releases the pods one by one. A plan is a state, and with spread constraints the order decides whether the state can be reached. Pods with
    required spread constraints are therefore first. A pod that the scheduler binds to another node, or to none, is deleted and tried again after the
    other pods, as long as at least one more pod gets its node. The remaining pods are then released without a further attempt."""
    paths, waiting, rest = {}, {key: node for key, node in where.items() if spread(key)}, {key: node for key, node in where.items() if not spread(key)}
    while waiting or rest:
        if not waiting:
            waiting, rest = rest, {}
        later = {}
        for key, node in waiting.items():
            path = submit(key, nominated=node)
            if path is None:
                continue  # The API server rejects the pod, so the scheduler never receives it.
            paths[key] = path
            api.merge(path, {"spec": {"schedulingGates": None}})
            if decided(api, path) != node:
                later[key] = node
                api.call("DELETE", f"{path}?gracePeriodSeconds=0", missing=True)
        if rest and len(later) == len(waiting):
            waiting, rest = later | rest, {}
            continue
        if len(later) == len(waiting):
            for key, node in later.items():
                api.merge(submit(key, nominated=node), {"spec": {"schedulingGates": None}})
            settle(api, set(later), 10)
            break
        waiting = later
    return {key: node for key, node in where.items() if key in paths}, paths


def decided(api, path):
    """Returns the node to which the scheduler binds a pod; None if it binds the pod to none."""
    end = time.time() + 5
    while time.time() < end:
        pod = api.call("GET", path)
        if pod["spec"].get("nodeName"):
            return pod["spec"]["nodeName"]
        if any(c["type"] == "PodScheduled" and c.get("reason") == "Unschedulable" for c in pod["status"].get("conditions", [])):
            return None
        time.sleep(0.005)
    return None


def until_ready(api):
    """Waits until a simulated kubelet or the control plane has removed the node.kubernetes.io/ taints of new nodes."""
    end = time.time() + 15
    while time.time() < end:
        nodes = api.call("GET", "/api/v1/nodes?resourceVersion=0")["items"]
        if not any(t["key"].startswith("node.kubernetes.io/") for n in nodes for t in n["spec"].get("taints", [])):
            return
        time.sleep(0.1)


def settle(api, keys, limit):
    end = time.time() + limit
    while time.time() < end:
        waiting = api.call("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3D")["items"]
        if not any(f"{p['metadata']['namespace']}/{p['metadata']['name']}" in keys for p in waiting):
            return
        time.sleep(0.05)


def main():
    if "--help" in sys.argv or "-h" in sys.argv:
        print(__doc__)
        return
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    arguments = sys.argv[1:]
    option = lambda name: arguments[arguments.index(name) + 1] if name in arguments else None
    first, count, kerf, writer = int(arguments[0]), int(arguments[1]), arguments[2], arguments[3]
    plane = record.ControlPlane(option("--controlplane")) if option("--controlplane") else None
    out = open(option("-o"), "w") if option("-o") else None
    tally = dict(worlds=0, planned=0, bound=0, as_planned=0, unplanned=0, unplanned_bound=0)
    failures = []
    try:
        if plane:
            host, port = plane.base.removeprefix("https://").split(":")
            api = Api(host, int(port), plane.token, ssl._create_unverified_context())
        else:
            api = of_kubeconfig()
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(first, first + count):
                items, types, plan = planned(seed, kerf, writer, folder)
                where, left, bound, messages = trial(api, items, types, plan)
                tally["worlds"] += 1
                tally["planned"] += len(where)
                tally["bound"] += sum(key in bound for key in where)
                tally["as_planned"] += sum(bound.get(key) == node for key, node in where.items())
                tally["unplanned"] += len(left)
                tally["unplanned_bound"] += sum(key in bound for key in left)
                print(f"world {seed}: {len(where)} pods planned, {len(messages)} of them not bound", file=sys.stderr, flush=True)
                failures += [f"world {seed}: {key} was planned for {where[key]}: {message}" for key, message in messages.items()]
                if out:
                    print(json.dumps({"seed": seed, "bound": sorted(set(bound) & (set(where) | set(left)))}), file=out, flush=True)
    finally:
        if plane:
            plane.stop()
    print(json.dumps(tally))
    for failure in failures:
        print(failure)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    # On SIGTERM the script exits, and ends the processes that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
