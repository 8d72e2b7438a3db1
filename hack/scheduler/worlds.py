#!/usr/bin/env python3
"""Random worlds: does a real kube-scheduler run the pods that `kerf plan` says will run, once the planned nodes exist?

    hack/scheduler/worlds.py FIRST COUNT KERF WORLD --controlplane BIN [-o FILE]     # etcd, kube-apiserver and kube-scheduler from BIN
    kerf sandbox --no-controller --instant -- hack/scheduler/worlds.py FIRST COUNT KERF WORLD [-o FILE]     # the sandbox's scheduler

KERF is the program, WORLD the example `world` of kerf-referee, which writes the world of a seed. For each seed the world is planned, the planned
nodes are created beside those that there are, and the pods are let go in the plan's order, each nominated for its planned node: the
scheduler takes that node if all its filters allow it, and looks for another if not. FILE gets a line for each world with the pods that were
bound, by which two schedulers can be compared. The exit code is 1 if a pod that the plan places is not bound.

Left out of every world: what needs controllers that do not run here (DaemonSets, volumes).
"""
import http.client, json, os, ssl, subprocess, sys, tempfile, time
import base64

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ask

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
    import re
    text = open(os.environ["KUBECONFIG"]).read()
    try:
        config = json.loads(text)
        server, token = config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]["token"]
    except json.JSONDecodeError:
        server = re.search(r"server: *\"?(https://[^\s\",}]+)", text).group(1)
        token = re.search(r"token: *\"?([^\s\",}]+)", text).group(1)
    host, port = server.removeprefix("https://").rsplit(":", 1)
    # The server is this machine's own, started for this run.
    return Api(host, int(port), token, ssl._create_unverified_context())


def volumes(pod_spec):
    return any("persistentVolumeClaim" in v or "ephemeral" in v for v in pod_spec.get("volumes", []))


def readable(world):
    """The world without what needs other controllers."""
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
    """The node that a claim becomes: its likeliest launch, with every label that its requirements fix."""
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


def planned(seed, kerf, writer, folder):
    size = ("small", "medium", "large", "small", "medium")[seed % 5]
    subprocess.run([writer, str(seed), size, folder], check=True)
    items = readable(json.load(open(f"{folder}/manifests.json")))
    json.dump({"apiVersion": "v1", "kind": "List", "items": items}, open(f"{folder}/readable.json", "w"))
    types = {t["name"]: t for t in json.load(open(f"{folder}/types.json"))}
    out = subprocess.run([kerf, "plan", "-o", "json", "--no-stats", "--at", AT, "--instance-types", f"{folder}/types.json", "-f", f"{folder}/readable.json"],
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
    """Which of the planned pods, and which of the others, the scheduler binds; and how many where they were planned."""
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
        if obj["kind"] == "Node":
            node = json.loads(json.dumps(obj))
            node["metadata"].setdefault("annotations", {})["kwok.x-k8s.io/node"] = "fake"
            for key in ("uid", "resourceVersion", "ownerReferences", "finalizers", "creationTimestamp", "deletionTimestamp"):
                node["metadata"].pop(key, None)
            api.call("POST", "/api/v1/nodes", node)

    def submit(key, nominated=None):
        namespace, name = key.split("/")
        source = pods.get(key)
        if source is None:
            owner = next(d for d in deployments if name.startswith(d["metadata"]["name"]) and d["metadata"].get("namespace", "default") == namespace)
            source = {"metadata": {"labels": owner["spec"]["template"]["metadata"].get("labels", {})}, "spec": owner["spec"]["template"]["spec"]}
        spec = dict(source["spec"])
        spec.pop("priorityClassName", None)
        spec.pop("priority", None)
        if nominated or key in moved:
            # It runs on a node that is on its way out, and is planned anew.
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
        if pod["spec"].get("nodeName") and key not in moved and not ended and not pod["metadata"].get("deletionTimestamp"):
            submit(key)
    where = {}
    for number, claim in enumerate(plan["nodeClaims"] or []):
        api.call("POST", "/api/v1/nodes", node_of(claim, number, pools, types))
        where |= {pod: f"claim-{number}" for pod in claim["pods"]}
    for placement in plan["existingNodes"] or []:
        where |= {pod: placement["node"] for pod in placement["pods"]}
    paths = {key: submit(key, nominated=node) for key, node in where.items()}
    # What no API server takes, no scheduler sees.
    where = {key: node for key, node in where.items() if paths[key]}
    until_ready(api)
    for path in filter(None, paths.values()):
        api.merge(path, {"spec": {"schedulingGates": None}})
    settle(api, set(where), 10)
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


def until_ready(api):
    """A simulated kubelet or the control plane may need a moment with new nodes."""
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
    arguments = sys.argv[1:]
    option = lambda name: arguments[arguments.index(name) + 1] if name in arguments else None
    first, count, kerf, writer = int(arguments[0]), int(arguments[1]), arguments[2], arguments[3]
    plane = ask.ControlPlane(option("--controlplane")) if option("--controlplane") else None
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
    main()
