"""The world of the acceptance scenarios: a real control plane, `kerf aws serve`, the stand-in for kubelets, and controllers.

A scenario calls the methods of `World`. Each wait has a limit, and fails with what it waited for.
"""
import json, os, threading, time, urllib.error, urllib.request

import boto3, botocore.config

import cluster
import controllers
from calls import CallLog, counts, writes
from idle import Api

DISCOVERY = {"karpenter.sh/discovery": cluster.CLUSTER}
KARPENTER_LABEL = "karpenter.sh/nodepool"
LABEL = {"eks-immersion-team": "my-team"}
CORE, APPS, POLICY = "/api/v1/namespaces/default", "/apis/apps/v1/namespaces/default", "/apis/policy/v1/namespaces/default"
PATHS = {
    "nodes": "/api/v1/nodes",
    "pods": f"{CORE}/pods",
    "events": "/api/v1/events",
    "deployments": f"{APPS}/deployments",
    "poddisruptionbudgets": f"{POLICY}/poddisruptionbudgets",
    "leases": "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
    "nodeclaims": "/apis/karpenter.sh/v1/nodeclaims",
    "nodepools": "/apis/karpenter.sh/v1/nodepools",
    "ec2nodeclasses": "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
}
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
# Most waits end within a few seconds. A launch takes 15, a termination 35, because instances start and stop as slowly as in EC2.
LIMIT = 120


class Failed(Exception):
    """A scenario does not hold."""


class Kubernetes(Api):
    """Requests to the API server, without a process for each of them."""

    def request(self, method, path, body=None, kind="application/json"):
        """Returns the status and the content of an answer."""
        try:
            return 200, super().__call__(method, path, body, kind)
        except SystemExit as refused:
            text = str(refused)
            status = text.removeprefix(f"{method} {path}: ").split(" ", 1)[0]
            if not status.isdigit():
                raise
            return int(status), text
        except OSError:
            # The server closes connections that are idle.
            del self.threads.connection
            return 200, super().__call__(method, path, body, kind)

    def __call__(self, method, path, body=None, kind="application/json"):
        status, content = self.request(method, path, body, kind)
        if status >= 300:
            raise Failed(content)
        return content


class Kubelets(cluster.Nodes):
    """The stand-in for kubelets. It also plays what happens to a node whose instance ends: the kubelet reports no longer."""

    def __init__(self, endpoint, api):
        super().__init__(None, endpoint)
        self.api, self.names = api, {}

    def register(self, instance):
        self.names[instance["InstanceId"]] = instance["PrivateDnsName"]
        self.api("POST", PATHS["nodes"], self.node(instance))

    def running(self):
        running = super().running()
        alive = {instance["InstanceId"] for instance in running}
        for ended in [known for known in self.names if known not in alive]:
            self.lose(self.names.pop(ended))
        return running

    def lose(self, name):
        """KWOK no longer plays the kubelet, and the node controller finds the node unreachable."""
        path = f"{PATHS['nodes']}/{name}"
        self.api.request("PATCH", path, {"metadata": {"annotations": {"kwok.x-k8s.io/node": None}}}, MERGE)
        lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
        self.api.request("PATCH", f"{path}/status", {"status": {"conditions": [lost]}}, STRATEGIC)


class World:
    def __init__(self, kerf, folder, children):
        self.folder, self.new_replica = folder, None
        self.api = Kubernetes()
        self.endpoint = cluster.start_aws(kerf, children)
        self.aws_server = children[-1]
        # The queue that `kerf aws serve` fills has the name of the cluster.
        settings = {"AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": "us-west-2", "AWS_DEFAULT_REGION": "us-west-2", "AWS_ACCESS_KEY_ID": "test",
                    "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true", "CLUSTER_NAME": cluster.CLUSTER,
                    "INTERRUPTION_QUEUE": cluster.CLUSTER, "DISABLE_LEADER_ELECTION": "true"}
        os.environ.update(settings)
        self.ec2 = boto3.client("ec2", config=botocore.config.Config(retries={"total_max_attempts": 2}))
        self.calls = CallLog(self.endpoint)
        self.kubelets = Kubelets(self.endpoint, self.api)
        self.kubelets.start()
        self.controllers, self.offsets, self.begun = [], {}, 0

    # --- waits and checks -----------------------------------------------------------------------------------------------------------

    def check_alive(self):
        for controller in self.controllers:
            controller.check()
        if self.kubelets.failure:
            raise self.kubelets.failure
        if self.aws_server.poll() is not None:
            raise SystemExit(f"kerf aws serve ended with {self.aws_server.returncode}")

    def until(self, what, check, limit=LIMIT, interval=0.2):
        """Returns the first result of `check` that is true."""
        begun = time.monotonic()
        while True:
            self.check_alive()
            found = check()
            if found:
                return found
            if time.monotonic() - begun > limit:
                raise Failed(f"not within {limit} s: {what}")
            time.sleep(interval)

    def hold(self, what, check, seconds):
        """Fails if `check` is false at any time of the next seconds."""
        begun = time.monotonic()
        while time.monotonic() - begun < seconds:
            self.check_alive()
            self.expect(check(), f"for {seconds} s: {what}")
            time.sleep(0.5)

    @staticmethod
    def expect(is_true, what):
        if not is_true:
            raise Failed(what)

    # --- objects ----------------------------------------------------------------------------------------------------------------------

    def list(self, kind):
        return self.api("GET", PATHS[kind])["items"]

    def get(self, kind, name):
        """Returns an object; None if it does not exist."""
        status, content = self.api.request("GET", f"{PATHS[kind]}/{name}")
        if status == 404:
            return None
        if status >= 300:
            raise Failed(content)
        return content

    def create(self, kind, body):
        return self.api("POST", PATHS[kind], body)

    def patch(self, kind, name, body, subresource="", form=MERGE):
        return self.api("PATCH", f"{PATHS[kind]}/{name}{subresource}", body, form)

    def delete(self, kind, name):
        status, content = self.api.request("DELETE", f"{PATHS[kind]}/{name}")
        if status not in (200, 202, 404):
            raise Failed(content)

    def claims(self):
        return self.list("nodeclaims")

    def nodes(self):
        """Returns the nodes that a controller launched."""
        return [node for node in self.list("nodes") if KARPENTER_LABEL in node["metadata"]["labels"]]

    def pods(self, app):
        return [pod for pod in self.list("pods") if pod["metadata"]["labels"].get("app") == app]

    def running(self, app="inflate"):
        return [pod for pod in self.pods(app) if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]]

    def instance_of(self, item):
        """Returns the ID of the instance of a node or claim."""
        provider_id = item["spec"].get("providerID") or item.get("status", {}).get("providerID", "")
        return provider_id.rsplit("/", 1)[-1]

    def instances(self):
        """Returns the instances that run or will run, from EC2 itself."""
        states = [{"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}]
        answer = self.ec2.describe_instances(Filters=states)
        self.calls.add_own(answer)
        return [instance for reservation in answer["Reservations"] for instance in reservation["Instances"]]

    def events(self, reason, name=None):
        """Returns the events of the scenario with a reason, about an object or about any."""
        def at(event):
            times = [event.get("lastTimestamp"), event.get("eventTime"), event["metadata"]["creationTimestamp"]]
            return max(controllers.seconds_of(time) for time in times if time)

        return [event for event in self.list("events") if event.get("reason") == reason and at(event) >= self.begun - 1
                and (name is None or event["involvedObject"]["name"] == name)]

    def event(self, reason, name=None, text="", limit=LIMIT):
        """Waits for an event whose message contains a text."""
        about = f" about {name}" if name else ""
        return self.until(f"event {reason}{about} with {text!r}",
                          lambda: [event for event in self.events(reason, name) if text in event["message"]], limit, 0.5)[0]

    # --- what a user creates --------------------------------------------------------------------------------------------------------

    def node_class(self, name="default", alias="al2023@latest", **spec):
        own = {"amiSelectorTerms": [{"alias": alias}], "role": f"KarpenterNodeRole-{cluster.CLUSTER}",
               "subnetSelectorTerms": [{"tags": DISCOVERY}], "securityGroupSelectorTerms": [{"tags": DISCOVERY}], **spec}
        self.create("ec2nodeclasses", {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name}, "spec": own})

    def wait_for_class(self, name="default", limit=LIMIT):
        self.until(f"EC2NodeClass {name} is Ready", lambda: cluster.is_true(self.get("ec2nodeclasses", name), "Ready"), limit)

    def pool(self, name="default", requirements=(), capacity_type="on-demand", arch="amd64", limits=None, node_class="default", weight=None,
             labels=None, taints=None, consolidate_after="30s", budgets=None, categories=("c", "m", "r"), wait=True):
        """Creates the NodePool of spec 07 section 13, with changes."""
        def operator(key, values, name="In"):
            return {"key": key, "operator": name, "values": list(values)}

        own = [operator("kubernetes.io/arch", [arch] if isinstance(arch, str) else arch), operator("kubernetes.io/os", ["linux"]),
               operator("karpenter.sh/capacity-type", [capacity_type])]
        if categories:
            own += [operator("karpenter.k8s.aws/instance-category", categories), operator("karpenter.k8s.aws/instance-generation", ["2"], "Gt")]
        own += [operator(key, values) for key, values in requirements]
        template = {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": node_class}, "requirements": own, "expireAfter": "Never"}
        if taints:
            template["taints"] = taints
        spec = {"template": {"metadata": {"labels": LABEL if labels is None else labels}, "spec": template},
                "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": consolidate_after,
                               **({"budgets": budgets} if budgets else {})},
                **({"limits": limits} if limits else {}), **({"weight": weight} if weight else {})}
        self.create("nodepools", {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec})
        if wait:
            self.until(f"NodePool {name} is Ready", lambda: cluster.is_true(self.get("nodepools", name), "Ready"))

    def deployment(self, name="inflate", replicas=0, cpu="1", selector=None, apart=False, labels=None, resources=None, **pod):
        """Creates a Deployment as in spec 07 section 13. With `apart` its pods need a node each."""
        labels = {"app": name, **(labels or {})}
        requests = {"cpu": cpu, **(resources or {})}
        limits = {key: value for key, value in requests.items() if "/" in key}
        container = {"name": "inflate", "image": "public.ecr.aws/eks-distro/kubernetes/pause:3.7", "resources": {"requests": requests, "limits": limits}}
        spec = {"terminationGracePeriodSeconds": 0, "nodeSelector": LABEL if selector is None else selector, "containers": [container], **pod}
        if apart:
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"apart": apart}}}]}}
            labels["apart"] = apart
        annotations = spec.pop("annotations", {})
        self.create("deployments", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}}})

    def scale(self, replicas, name="inflate"):
        self.patch("deployments", name, {"spec": {"replicas": replicas}})

    def wait_running(self, count, app="inflate", limit=LIMIT):
        return self.until(f"{count} pods of {app} run", lambda: len(running := self.running(app)) == count and running, limit)

    def wait_no_nodes(self, limit=LIMIT):
        self.until("no claim and no node is left", lambda: not self.claims() and not self.nodes(), limit)

    # --- AWS ------------------------------------------------------------------------------------------------------------------------------

    def change(self, **step):
        """Changes the AWS account, with what scenarios of the sandbox have under `aws` (docs/SANDBOX.md)."""
        request = urllib.request.Request(f"{self.endpoint}/kerf/aws", json.dumps(step).encode())
        try:
            urllib.request.urlopen(request, timeout=10).read()
        except urllib.error.HTTPError as refused:
            raise Failed(f"{step}: {refused.read().decode().strip()}") from None

    def restore_account(self):
        """Takes back what a scenario that failed has changed in the account."""
        for step in ({"endZonalShift": "us-west-2a"}, {"restock": {"instanceType": "c5.2xlarge"}}, {"allow": ["ec2:CreateFleet"]},
                     {"tags": {"resources": "subnet-01*", "add": DISCOVERY}}):
            try:
                self.change(**step)
            except Failed:  # The scenario has not changed this.
                pass

    def calls_of(self, operation, error=None):
        """Returns the calls of this scenario of an operation that ended with an error, or without."""
        return [call for call in self.calls.since_mark() if call["operation"] == operation and call["error"] == error]

    # --- controllers --------------------------------------------------------------------------------------------------------------------

    def second_replica(self):
        """Returns a second replica of the controller, which does not run yet."""
        replica = self.new_replica()
        self.controllers.append(replica)
        return replica

    def start(self, controller, **settings):
        if controller not in self.controllers:
            self.controllers.append(controller)
        controller.start(**settings)

    def lines(self, **fields):
        """Returns the log lines of this scenario with these fields, of all controllers."""
        found = []
        for controller in self.controllers:
            found += controller.lines(self.offsets.get(controller.name, 0))
        return [line for line in found if all(line.get(key) == value for key, value in fields.items())]

    def logged(self, message, limit=LIMIT, **fields):
        return self.until(f"log line {message!r} {fields or ''}", lambda: self.lines(message=message, **fields), limit, 0.5)[0]

    def expect_log_order(self, *messages):
        """Checks that the messages were logged one after the other, from the first line with the first message on."""
        lines, position = [line.get("message") for line in self.lines(level="INFO")], 0
        for message in messages:
            self.expect(message in lines[position:], f"no log line {message!r}" if message not in lines else
                        f"no log line {message!r} after {lines[position - 1]!r}; the order is {[line for line in lines if line in messages]}")
            position = lines.index(message, position) + 1

    # --- begin and end of a scenario -------------------------------------------------------------------------------------------------

    def mark(self):
        self.begun = time.time()
        self.offsets = {controller.name: controller.log_size() for controller in self.controllers}
        self.calls.mark()

    def result_calls(self):
        calls = self.calls.since_mark()
        return {"counts": counts(calls), "writes": writes(calls)}

    def clean(self):
        """Deletes what scenarios created, except the class `default`, and checks that no instance is left."""
        for kind in ("deployments", "poddisruptionbudgets", "nodepools"):
            for item in self.list(kind):
                self.delete(kind, item["metadata"]["name"])
        for pod in self.list("pods"):
            self.delete("pods", pod["metadata"]["name"])
        # Deleting a NodePool deletes its claims. A claim without its pool is deleted here.
        for claim in self.claims():
            self.delete("nodeclaims", claim["metadata"]["name"])
        self.wait_no_nodes(180)
        for node_class in self.list("ec2nodeclasses"):
            if node_class["metadata"]["name"] != "default":
                self.delete("ec2nodeclasses", node_class["metadata"]["name"])
        self.until("only the class default is left", lambda: len(self.list("ec2nodeclasses")) <= 1)
        self.until("all pods are gone", lambda: not self.list("pods"))
        if not self.get("ec2nodeclasses", "default"):
            self.node_class()
            self.wait_for_class()
        leaked = [instance["InstanceId"] for instance in self.instances()]
        self.expect(not leaked, f"instances without a claim: {leaked}")

    def dump(self, path):
        """Writes all objects to a file, for a person who reads about a failure."""
        with open(path, "w") as file:
            json.dump({kind: self.list(kind) for kind in PATHS}, file, indent=1)
