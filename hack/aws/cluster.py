"""A real cluster for the tests of `kerf-aws` as a process: kubectl, the objects, and a stand-in that registers nodes.

`kerf aws serve` and moto launch instances that have no operating system. `Nodes` registers a node for each running instance, as the
instance's user data says, and KWOK plays its kubelet. The cluster is that of hack/controlplane/cluster.sh.
"""
import base64, email, functools, gzip, json, os, subprocess, threading, time, urllib.request

import yaml

CLUSTER = "kerf-sandbox"
HERE = os.path.dirname(os.path.abspath(__file__))
# The instance types that Kerf ships, which are those of `kerf aws serve`.
CATALOGUE = os.path.join(HERE, "..", "..", "crates", "kerf-aws", "data", "catalogue-us-west-2.json.gz")
# A step that takes longer than this has failed.
LIMIT = 120


def kubectl(*arguments, text=None):
    done = subprocess.run(["kubectl", *arguments], input=text, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def objects(kind):
    return json.loads(kubectl("get", kind, "-o", "json"))["items"]


def condition(item, name):
    return next((c for c in item.get("status", {}).get("conditions", []) if c["type"] == name), {})


def is_true(item, name):
    return condition(item, name).get("status") == "True"


def wait(what, check, describe=lambda: "", limit=LIMIT):
    """Returns the first result of `check` that is true. Fails after `limit` seconds."""
    begun = time.monotonic()
    while time.monotonic() - begun < limit:
        found = check()
        if found:
            return found
        time.sleep(0.1)
    raise SystemExit(f"{limit} s have passed, and not yet: {what}\n{describe()}")


def node_config(user_data):
    """Returns the NodeConfig of user data, read as cloud-init reads it."""
    message = email.message_from_string(user_data)
    parts = [part for part in message.walk() if part.get_content_type() == "application/node.eks.aws"]
    if not message.is_multipart() or len(parts) != 1:
        raise SystemExit(f"the user data has {len(parts)} NodeConfigs:\n{user_data}")
    return yaml.safe_load(parts[0].get_payload())


@functools.cache
def catalogue():
    """Returns the instance types that Kerf ships, by name, with the members of DescribeInstanceTypes."""
    return {kind["InstanceType"]: kind for kind in json.load(gzip.open(CATALOGUE))["instanceTypes"]}


class Nodes(threading.Thread):
    """Registers a node for each running instance, from its user data and its instance type."""

    def __init__(self, ec2, endpoint):
        super().__init__(daemon=True)
        self.ec2, self.endpoint, self.known, self.failure, self.stopped = ec2, endpoint, set(), None, threading.Event()

    def run(self):
        try:
            while not self.stopped.wait(0.2):
                for instance in self.running():
                    if instance["InstanceId"] not in self.known:
                        self.known.add(instance["InstanceId"])
                        self.register(instance)
        except BaseException as failure:  # The main thread reports it.
            self.failure = failure

    def running(self):
        """Returns the running instances. `kerf aws serve` lists them outside of AWS's calls, so that its log has only those of the controller."""
        if self.endpoint:
            instances = json.load(urllib.request.urlopen(f"{self.endpoint}/kerf/instances", timeout=10))
            return [{"InstanceId": known["id"], "InstanceType": known["instanceType"], "PrivateDnsName": known["privateDnsName"],
                     "Placement": {"AvailabilityZone": known["zone"]}, "UserData": known["userData"]} for known in instances]
        reservations = self.ec2.describe_instances(Filters=[{"Name": "instance-state-name", "Values": ["running"]}])["Reservations"]
        return [instance for reservation in reservations for instance in reservation["Instances"]]

    def user_data(self, instance):
        if "UserData" in instance:
            return instance["UserData"]
        templates = self.ec2.describe_launch_templates()["LaunchTemplates"]
        versions = self.ec2.describe_launch_template_versions(LaunchTemplateId=templates[-1]["LaunchTemplateId"], Versions=["$Latest"])
        return base64.b64decode(versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]["UserData"]).decode()

    def instance_type(self, name):
        if self.endpoint:
            return catalogue()[name]
        return self.ec2.describe_instance_types(InstanceTypes=[name])["InstanceTypes"][0]

    def register(self, instance):
        kubectl("create", "-f", "-", text=json.dumps(self.node(instance)))

    def node(self, instance):
        """Returns the node that the kubelet of an instance registers."""
        config = node_config(self.user_data(instance))["spec"]
        if config["cluster"]["name"] != CLUSTER or config["cluster"]["apiServerEndpoint"] != server():
            raise SystemExit(f"the node would join another cluster: {config['cluster']}")
        if base64.b64decode(config["cluster"]["certificateAuthority"]).decode() != authority():
            raise SystemExit("the node would not trust the API server: its CA certificate differs")
        kind = self.instance_type(instance["InstanceType"])
        flags = " ".join(config["kubelet"]["flags"]).removeprefix("--node-labels=").strip('"')
        zone = instance["Placement"]["AvailabilityZone"]
        architecture = {"x86_64": "amd64"}.get(kind["ProcessorInfo"]["SupportedArchitectures"][0], "arm64")
        cpu, memory = kind["VCpuInfo"]["DefaultVCpus"], kind["MemoryInfo"]["SizeInMiB"] * 95 // 100
        capacity = {"cpu": str(cpu), "memory": f"{memory}Mi", "ephemeral-storage": "20Gi", "pods": str(config["kubelet"]["config"]["maxPods"])}
        # The device plugin reports the GPUs, with the node, so that the test does not wait for it.
        gpus = sum(gpu["Count"] for gpu in kind.get("GpuInfo", {}).get("Gpus", []) if gpu["Manufacturer"] == "NVIDIA")
        if gpus:
            capacity["nvidia.com/gpu"] = str(gpus)
        labels = dict(pair.split("=", 1) for pair in flags.split(","))
        labels.update({"kubernetes.io/hostname": instance["PrivateDnsName"], "kubernetes.io/os": "linux", "kubernetes.io/arch": architecture,
                       "node.kubernetes.io/instance-type": instance["InstanceType"], "topology.kubernetes.io/zone": zone,
                       "topology.kubernetes.io/region": zone[:-1]})
        reserved = 255 + 11 * int(capacity["pods"]) + 100
        allocatable = dict(capacity, cpu=f"{cpu * 1000 - 100}m", memory=f"{memory - reserved}Mi", **{"ephemeral-storage": "17Gi"})
        return {"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": instance["PrivateDnsName"], "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
                "spec": {"providerID": f"aws:///{zone}/{instance['InstanceId']}", "taints": config["kubelet"]["config"]["registerWithTaints"]},
                "status": {"capacity": capacity, "allocatable": allocatable}}


@functools.cache
def kubeconfig():
    return json.loads(kubectl("config", "view", "--raw", "--minify", "-o", "json"))["clusters"][0]["cluster"]


def server():
    return kubeconfig()["server"]


@functools.cache
def authority():
    cluster = kubeconfig()
    data = cluster.get("certificate-authority-data")
    return base64.b64decode(data).decode() if data else open(cluster["certificate-authority"]).read()


def start_aws(kerf, children):
    """Starts `kerf aws serve` and returns its endpoint."""
    child = subprocess.Popen([kerf, "aws", "serve", "--cluster-name", CLUSTER, "--cluster-endpoint", server()], stdout=subprocess.PIPE, text=True)
    children.append(child)
    return child.stdout.readline().split(" answers on ")[1].split(". ")[0]


def crds(kerf):
    """Returns the CRDs that Kerf prints for EC2NodeClasses."""
    return subprocess.run([kerf, "crds", "--provider", "aws"], capture_output=True, text=True, check=True).stdout
