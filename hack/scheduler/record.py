#!/usr/bin/env python3
"""Runs a real kube-scheduler on small clusters ("worlds") and records its results.

    KERF_WRITE_WORLDS=/tmp/worlds.json cargo test -p kerf-sandbox --lib recorded
    hack/scheduler/record.py BIN /tmp/worlds.json crates/kerf-sandbox/src/cluster/scheduler/tests/answers.json

BIN is a folder with etcd, kube-apiserver and kube-scheduler (hack/controlplane/build.sh prints one). Only these three run, on free ports of
127.0.0.1 and in a temporary folder: no controller changes what the scheduler sees. For each world the script creates the objects, removes the
scheduling gate of the pod `new`, and records the result: the node to which the pod was bound, or the message of its condition, its nominated
node and the pods that were preempted. It keeps recorded results unless --all is given.
"""
import json, os, shutil, signal, socket, ssl, subprocess, sys, tempfile, time
import urllib.error, urllib.request

GATE = "kerf.sh/wait"
# Time after which a world without a scheduling result is given up.
RESULT_TIMEOUT_SECONDS = 15
COLLECTIONS = {
    "Node": "/api/v1/nodes", "PersistentVolume": "/api/v1/persistentvolumes",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses", "CSINode": "/apis/storage.k8s.io/v1/csinodes",
    "Namespace": "/api/v1/namespaces",
}
NAMESPACED = {
    "Pod": ("/api/v1", "pods"), "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"), "Service": ("/api/v1", "services"),
    "ReplicaSet": ("/apis/apps/v1", "replicasets"), "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets"),
}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class ControlPlane:
    def __init__(self, bin_folder):
        self.dir = tempfile.mkdtemp(prefix="kerf-record.")
        self.children = []
        api, etcd, peer, sched = (free_port() for _ in range(4))
        self.base, self.token = f"https://127.0.0.1:{api}", os.urandom(16).hex()
        with open(f"{self.dir}/tokens.csv", "w") as f:
            f.write(f"{self.token},admin,admin,system:masters\n")
        subprocess.run(["openssl", "genrsa", "-out", f"{self.dir}/sa.key", "2048"], check=True, capture_output=True)
        with open(f"{self.dir}/kubeconfig", "w") as f:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "k",
                       "clusters": [{"name": "k", "cluster": {"server": self.base, "insecure-skip-tls-verify": True}}],
                       "users": [{"name": "k", "user": {"token": self.token}}],
                       "contexts": [{"name": "k", "context": {"cluster": "k", "user": "k"}}]}, f)
        self.spawn(f"{bin_folder}/etcd", "--data-dir", f"{self.dir}/etcd", "--unsafe-no-fsync", "--log-level", "error",
                   "--listen-client-urls", f"http://127.0.0.1:{etcd}", "--advertise-client-urls", f"http://127.0.0.1:{etcd}",
                   "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
                   "--initial-cluster", f"default=http://127.0.0.1:{peer}")
        self.spawn(f"{bin_folder}/kube-apiserver", "--etcd-servers", f"http://127.0.0.1:{etcd}", "--bind-address", "127.0.0.1",
                   "--secure-port", str(api), "--cert-dir", f"{self.dir}/certs", "--advertise-address", "198.18.0.1",
                   "--endpoint-reconciler-type", "none", "--token-auth-file", f"{self.dir}/tokens.csv", "--authorization-mode", "RBAC",
                   "--service-cluster-ip-range", "10.96.0.0/16", "--service-account-issuer", "https://kubernetes.default.svc",
                   "--service-account-key-file", f"{self.dir}/sa.key", "--service-account-signing-key-file", f"{self.dir}/sa.key",
                   "--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition,Priority,DefaultTolerationSeconds,StorageObjectInUseProtection,DefaultStorageClass,RuntimeClass")
        self.until(lambda: self.call("GET", "/readyz", raw=True))
        self.until(lambda: self.call("GET", "/api/v1/namespaces/default"))
        self.spawn(f"{bin_folder}/kube-scheduler", "--kubeconfig", f"{self.dir}/kubeconfig", "--leader-elect=false", "--bind-address", "127.0.0.1",
                   "--secure-port", str(sched), "--cert-dir", f"{self.dir}/scheduler-certs", "--kube-api-qps", "1000", "--kube-api-burst", "1000")
        time.sleep(4)

    def spawn(self, *command):
        log = open(f"{self.dir}/{os.path.basename(command[0])}.log", "w")
        self.children.append(subprocess.Popen(command, stdout=log, stderr=log))

    def stop(self):
        for child in reversed(self.children):
            child.send_signal(signal.SIGTERM)
        for child in self.children:
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    def until(self, works, limit=90):
        end = time.time() + limit
        while True:
            try:
                return works()
            except Exception as problem:
                if time.time() > end:
                    raise problem
                time.sleep(0.3)

    def call(self, method, path, body=None, media="application/json", raw=False):
        request = urllib.request.Request(self.base + path, method=method, data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": f"Bearer {self.token}", "Content-Type": media})
        try:
            with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=30) as response:
                text = response.read()
                return text if raw else json.loads(text)
        except urllib.error.HTTPError as problem:
            raise RuntimeError(f"{method} {path}: {problem.code} {problem.read().decode()[:600]}") from None

    def merge(self, path, body):
        return self.call("PATCH", path, body, "application/merge-patch+json")


def collection(obj):
    kind = obj["kind"]
    if kind in COLLECTIONS:
        return COLLECTIONS[kind]
    group, plural = NAMESPACED[kind]
    return f"{group}/namespaces/{obj['metadata']['namespace']}/{plural}"


def create(plane, obj):
    """Creates an object with its status. An object with a deletionTimestamp is then deleted, and a finalizer keeps it."""
    obj = json.loads(json.dumps(obj))
    meta = obj["metadata"]
    deleted_at = meta.pop("deletionTimestamp", None)
    for key in ("uid", "resourceVersion"):
        meta.pop(key, None)
    if deleted_at:
        meta["finalizers"] = [GATE]
    path = collection(obj)
    if obj["kind"] == "Namespace":
        try:
            plane.call("POST", path, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": meta["name"]}})
        except RuntimeError:
            pass
        labels = {"team": None} | meta.get("labels", {})
        return plane.merge(f"{path}/{meta['name']}", {"metadata": {"labels": labels}})
    status = obj.pop("status", None) if obj["kind"] != "Node" else None
    made = plane.call("POST", path, obj)
    here = f"{path}/{meta['name']}"
    if status:
        plane.merge(f"{here}/status", {"status": status})
    if deleted_at:
        plane.call("DELETE", here)
    return made


def clear(plane):
    for kind in ("Pod", "PersistentVolumeClaim", "Service", "ReplicaSet", "PodDisruptionBudget"):
        group, plural = NAMESPACED[kind]
        for item in plane.call("GET", f"{group}/{plural}")["items"]:
            meta = item["metadata"]
            if kind == "Service" and meta["name"] == "kubernetes":
                continue
            path = f"{group}/namespaces/{meta['namespace']}/{plural}/{meta['name']}"
            if meta.get("finalizers"):
                plane.merge(path, {"metadata": {"finalizers": None}})
            try:
                plane.call("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
            except RuntimeError as problem:
                if " 404 " not in str(problem):
                    raise
    for kind in ("Node", "PersistentVolume", "StorageClass", "CSINode"):
        for item in plane.call("GET", COLLECTIONS[kind])["items"]:
            path = f"{COLLECTIONS[kind]}/{item['metadata']['name']}"
            if item["metadata"].get("finalizers"):
                plane.merge(path, {"metadata": {"finalizers": None}})
            try:
                plane.call("DELETE", path)
            except RuntimeError as problem:
                if " 404 " not in str(problem):
                    raise


def record(plane, world):
    """Returns the scheduler's result for the pod `new` of a world."""
    clear(plane)
    pods = "/api/v1/namespaces/default/pods"
    new = next(pod for pod in world["pods"] if pod["metadata"]["name"] == "new")
    new = json.loads(json.dumps(new))
    new["spec"]["schedulingGates"] = [{"name": GATE}]
    new.pop("status", None)
    for obj in world["others"]:
        if obj["kind"] == "Namespace":
            create(plane, obj)
    for pod in world["pods"]:
        if pod["metadata"]["namespace"] != "default":
            create(plane, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": pod["metadata"]["namespace"]}}) \
                if not any(o["kind"] == "Namespace" and o["metadata"]["name"] == pod["metadata"]["namespace"] for o in world["others"]) else None
    uid = create(plane, new)["metadata"]["uid"]
    for obj in world["others"]:
        if obj["kind"] != "Namespace":
            for owner in obj["metadata"].get("ownerReferences", []):
                owner["uid"] = uid if owner["name"] == "new" else owner["uid"]
            create(plane, obj)
    for node in world["nodes"]:
        create(plane, node)
    for pod in world["pods"]:
        if pod["metadata"]["name"] != "new":
            create(plane, pod)
    time.sleep(0.4)  # until the scheduler has received all objects
    plane.merge(f"{pods}/new", {"spec": {"schedulingGates": None}})
    end = time.time() + RESULT_TIMEOUT_SECONDS
    while time.time() < end:
        pod = plane.call("GET", f"{pods}/new")
        node = pod["spec"].get("nodeName")
        if not node and not any(c.get("reason") == "Unschedulable" for c in pod["status"].get("conditions", [])):
            # A pod that waits for its volumes has the node to which it will be bound as its nominated node.
            node = pod["status"].get("nominatedNodeName")
        if node:
            return {"node": node}
        for condition in pod["status"].get("conditions", []):
            if condition["type"] == "PodScheduled" and condition.get("reason") not in ("SchedulingGated", None):
                result = {"message": condition["message"]}
                if pod["status"].get("nominatedNodeName"):
                    result["nominated"] = pod["status"]["nominatedNodeName"]
                    time.sleep(0.3)
                    victims = {p["metadata"]["name"] for p in plane.call("GET", "/api/v1/pods")["items"]
                            if any(c["type"] == "DisruptionTarget" for c in p.get("status", {}).get("conditions", []))}
                    result["victims"] = sorted(victims)
                return result
        time.sleep(0.05)
    raise RuntimeError(f"no scheduling result after {RESULT_TIMEOUT_SECONDS} s")


def main():
    arguments = [a for a in sys.argv[1:] if a != "--all"]
    if "--help" in arguments or "-h" in arguments:
        print(__doc__)
        return
    if len(arguments) != 3:
        sys.exit(__doc__)
    bin_folder, worlds_file, results_file = arguments
    worlds = json.load(open(worlds_file))
    known = {}
    if "--all" not in sys.argv and os.path.exists(results_file):
        known = json.load(open(results_file))
    plane = ControlPlane(bin_folder)
    results, failed = {}, 0
    try:
        for text, world in worlds.items():
            if text in known:
                results[text] = known[text]
                continue
            try:
                results[text] = record(plane, world)
            except RuntimeError as problem:
                failed += 1
                print(f"not recorded: {text}\n  {problem}", file=sys.stderr)
    finally:
        plane.stop()
    with open(results_file, "w") as f:
        json.dump(results, f, indent=0, sort_keys=True)
        f.write("\n")
    print(f"{len(results)} results, {failed} not recorded")


if __name__ == "__main__":
    main()
