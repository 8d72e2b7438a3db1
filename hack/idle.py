#!/usr/bin/env python3
"""Measures CPU and memory of `kerf controller` on a large cluster without changes.

    kerf sandbox --no-controller --instant -- hack/idle.py KERF [NODES [SECONDS]]

KERF is the program, built with --release. Kerf launches one node for twenty pods. The script copies this node and its NodeClaim until there
are NODES (5,000) nodes. Each has twenty pods that fill it, so that there is nothing to consolidate. Then a new controller starts on this
cluster. Once its CPU use is low, the script measures its CPU time for SECONDS (120). It prints one JSON object.
"""
import base64, concurrent.futures, copy, http.client, json, os, signal, ssl, subprocess, sys, tempfile, threading, time, urllib.parse

PODS_PER_NODE = 20
REQUESTS = {"cpu": "780m", "memory": "1Gi"}
POOL = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {
    "disruption": {"consolidateAfter": "30s"},
    "template": {"spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-16x-amd64-linux"]},
                         {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}}}}
CLASS = {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}, "spec": {}}
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"


class Api:
    """A client for the cluster of KUBECONFIG that sends plain requests: kubectl would take an hour."""

    def __init__(self):
        view = subprocess.run(["kubectl", "config", "view", "--raw", "--minify", "-o", "json"], capture_output=True, text=True, check=True).stdout
        config = json.loads(view)
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.host = urllib.parse.urlsplit(cluster["server"]).netloc
        authority = cluster.get("certificate-authority-data")
        self.tls = ssl.create_default_context(cadata=base64.b64decode(authority).decode() if authority else None, cafile=cluster.get("certificate-authority"))
        self.headers = {}
        if "token" in user:
            self.headers["Authorization"] = f"Bearer {user['token']}"
        else:
            with tempfile.NamedTemporaryFile() as identity:
                identity.write(base64.b64decode(user["client-certificate-data"]) + b"\n" + base64.b64decode(user["client-key-data"]))
                identity.flush()
                self.tls.load_cert_chain(identity.name)
        self.threads = threading.local()

    def __call__(self, method, path, body=None, kind="application/json"):
        if not hasattr(self.threads, "connection"):
            self.threads.connection = http.client.HTTPSConnection(self.host, context=self.tls)
        connection = self.threads.connection
        for _ in range(60):
            connection.request(method, path, None if body is None else json.dumps(body), {**self.headers, "Content-Type": kind})
            answer = connection.getresponse()
            content = json.loads(answer.read())
            # The storage of a new CRD is not ready at once.
            if answer.status != 429:
                break
            time.sleep(0.5)
        if answer.status >= 300:
            raise SystemExit(f"{method} {path}: {answer.status} {content.get('message')}")
        return content


class Controller:
    def __init__(self, kerf):
        arguments = [kerf, "controller", "--disable-leader-election", "--metrics-port", "0", "--health-probe-port", "0", "--log-level", "error"]
        self.child = subprocess.Popen(arguments)

    def cpu(self):
        fields = open(f"/proc/{self.child.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self, what):
        line = next(line for line in open(f"/proc/{self.child.pid}/status") if line.startswith(what))
        return int(line.split()[1]) // 1024

    def calm(self, limit):
        """Waits until the process uses less than a twentieth of a core for ten seconds."""
        begun, last = time.monotonic(), self.cpu()
        while time.monotonic() - begun < limit:
            time.sleep(10)
            now = self.cpu()
            if now - last < 0.5:
                return time.monotonic() - begun
            last = now
        raise SystemExit(f"still at work after {limit} s")

    def stop(self):
        self.child.terminate()
        self.child.wait(60)


def pod(name, node=None):
    spec = {"containers": [{"name": "c", "image": "i:1", "resources": {"requests": REQUESTS}}], "terminationGracePeriodSeconds": 1}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": f"app-{name.split('-')[1]}"}}, "spec": spec}


def original(api, kerf):
    """Returns the node that Kerf launches for the first pods, and its NodeClaim."""
    controller = Controller(kerf)
    for number in range(PODS_PER_NODE):
        api("POST", "/api/v1/namespaces/default/pods", pod(f"pod-0-{number}"))
    try:
        for _ in range(60):
            time.sleep(1)
            claims = api("GET", CLAIMS)["items"]
            if claims and any(c["type"] == "Initialized" and c["status"] == "True" for c in claims[0].get("status", {}).get("conditions", [])):
                return claims[0], api("GET", f"/api/v1/nodes/{claims[0]['status']['nodeName']}")
    finally:
        controller.stop()
    raise SystemExit("Kerf launched nothing for the first pods within a minute")


def grow(api, claim, node, number):
    """Creates the copy with this number, and its pods."""
    name = f"copy-{number}"
    claim, node = copy.deepcopy(claim), copy.deepcopy(node)
    provider = claim["status"]["providerID"].replace(claim["metadata"]["name"], name)
    hostname = node["metadata"]["name"]
    for metadata in (claim["metadata"], node["metadata"]):
        for field in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
            metadata.pop(field, None)
    claim["metadata"]["name"] = name
    claim["status"].update(providerID=provider, nodeName=name)
    made = api("POST", CLAIMS, claim)
    made["status"] = claim["status"]
    api("PUT", f"{CLAIMS}/{name}/status", made)
    node["metadata"]["name"] = name
    node["metadata"]["labels"]["kubernetes.io/hostname"] = name
    node["metadata"]["ownerReferences"] = [{**node["metadata"]["ownerReferences"][0], "name": name, "uid": made["metadata"]["uid"]}]
    node["spec"]["providerID"] = provider
    text = json.dumps(node).replace(hostname, name)
    api("POST", "/api/v1/nodes", json.loads(text))
    for index in range(PODS_PER_NODE):
        api("POST", "/api/v1/namespaces/default/pods", pod(f"pod-{number % 100}-{number}-{index}", name))


def install(api, kerf, node_class, pool):
    """Creates the objects that Kerf needs on an empty cluster."""
    definitions = subprocess.run([kerf, "crds", "--provider", "kwok"], capture_output=True, text=True, check=True).stdout
    subprocess.run(["kubectl", "apply", "--server-side", "-f", "-"], input=definitions, text=True, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["kubectl", "wait", "--for=condition=Established", "crd", "--all"], check=True, stdout=subprocess.DEVNULL)
    for path, thing in (("/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses", node_class), ("/apis/karpenter.sh/v1/nodepools", pool)):
        api("POST", path, thing)


def main():
    if "--help" in sys.argv or "-h" in sys.argv:
        print(__doc__)
        return
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    kerf, wanted, seconds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5000, int(sys.argv[3]) if len(sys.argv) > 3 else 120
    api = Api()
    install(api, kerf, CLASS, POOL)
    claim, node = original(api, kerf)
    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(4) as workers:
        for done in [workers.submit(grow, api, claim, node, number) for number in range(1, wanted)]:
            done.result()
    print(f"{wanted} nodes, {wanted * PODS_PER_NODE} pods after {time.monotonic() - begun:.0f} s", file=sys.stderr)
    controller = Controller(kerf)
    try:
        calm, start = controller.calm(600), controller.cpu()
        time.sleep(seconds)
        used = controller.cpu() - start
        print(json.dumps({"nodes": len(api("GET", "/api/v1/nodes")["items"]), "claims": len(api("GET", CLAIMS)["items"]), "pods": wanted * PODS_PER_NODE,
                          "calm_after_seconds": round(calm), "cpu_seconds_until_calm": start, "idle_cpu_percent": round(100 * used / seconds, 2),
                          "resident_megabytes": controller.megabytes("VmRSS"), "peak_megabytes": controller.megabytes("VmHWM")}))
    finally:
        controller.stop()


if __name__ == "__main__":
    # On SIGTERM the script exits, and ends the processes that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
