#!/usr/bin/env python3
"""Runs `kerf-aws controller` as a process, from its start to a Running pod and to the termination of the instance.

    hack/controlplane/cluster.sh -- PYTHON hack/aws/one_node.py KERF KERF_AWS
    hack/controlplane/cluster.sh -- hack/aws/moto.sh PYTHON hack/aws/one_node.py --moto KERF KERF_AWS

PYTHON is the Python of hack/aws/moto.sh (target/tmp/moto/bin/python), which has boto3 and yaml. KERF and KERF_AWS are the two programs.
The API server is real. AWS is `kerf aws serve`, which the script starts, or with --moto the moto of hack/aws/moto.sh. Instances have no
nodes, so the script registers a node for each running instance, as the instance's user data says. KWOK plays its kubelet. The script
prints one JSON object: seconds since the start of the controller, its peak memory, and its AWS calls in order (without --moto).
"""
import base64, email, gzip, json, os, signal, subprocess, sys, tempfile, threading, time, urllib.request

import boto3, botocore.config, yaml

CLUSTER = "kerf-sandbox"
HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "examples", "aws")
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


def wait(what, check, describe=lambda: ""):
    begun = time.monotonic()
    while time.monotonic() - begun < LIMIT:
        found = check()
        if found:
            return found
        time.sleep(0.1)
    raise SystemExit(f"{LIMIT} s have passed, and not yet: {what}\n{describe()}")


def node_config(user_data):
    """Returns the NodeConfig of user data, read as cloud-init reads it."""
    message = email.message_from_string(user_data)
    parts = [part for part in message.walk() if part.get_content_type() == "application/node.eks.aws"]
    if not message.is_multipart() or len(parts) != 1:
        raise SystemExit(f"the user data has {len(parts)} NodeConfigs:\n{user_data}")
    return yaml.safe_load(parts[0].get_payload())


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
            return next(kind for kind in json.load(gzip.open(CATALOGUE))["instanceTypes"] if kind["InstanceType"] == name)
        return self.ec2.describe_instance_types(InstanceTypes=[name])["InstanceTypes"][0]

    def register(self, instance):
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
        labels = dict(pair.split("=", 1) for pair in flags.split(","))
        labels.update({"kubernetes.io/hostname": instance["PrivateDnsName"], "kubernetes.io/os": "linux", "kubernetes.io/arch": architecture,
                       "node.kubernetes.io/instance-type": instance["InstanceType"], "topology.kubernetes.io/zone": zone,
                       "topology.kubernetes.io/region": zone[:-1]})
        reserved = 255 + 11 * int(capacity["pods"]) + 100
        allocatable = dict(capacity, cpu=f"{cpu * 1000 - 100}m", memory=f"{memory - reserved}Mi", **{"ephemeral-storage": "17Gi"})
        node = {"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": instance["PrivateDnsName"], "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
                "spec": {"providerID": f"aws:///{zone}/{instance['InstanceId']}", "taints": config["kubelet"]["config"]["registerWithTaints"]},
                "status": {"capacity": capacity, "allocatable": allocatable}}
        kubectl("create", "-f", "-", text=json.dumps(node))


def kubeconfig():
    return json.loads(kubectl("config", "view", "--raw", "--minify", "-o", "json"))["clusters"][0]["cluster"]


def server():
    return kubeconfig()["server"]


def authority():
    cluster = kubeconfig()
    data = cluster.get("certificate-authority-data")
    return base64.b64decode(data).decode() if data else open(cluster["certificate-authority"]).read()


def start_aws(kerf, children):
    """Starts `kerf aws serve` and returns its endpoint."""
    child = subprocess.Popen([kerf, "aws", "serve", "--cluster-name", CLUSTER, "--cluster-endpoint", server()], stdout=subprocess.PIPE, text=True)
    children.append(child)
    return child.stdout.readline().split(" answers on ")[1].split(". ")[0]


def prepare_moto(ec2):
    """Creates what the class selects, and returns the ID of an image: moto has no parameters of EKS."""
    tags = [{"Key": "karpenter.sh/discovery", "Value": CLUSTER}]
    subnets = [subnet["SubnetId"] for subnet in ec2.describe_subnets()["Subnets"]]
    groups = [group["GroupId"] for group in ec2.describe_security_groups()["SecurityGroups"]]
    ec2.create_tags(Resources=subnets + groups, Tags=tags)
    trust = json.dumps({"Version": "2012-10-17", "Statement": []})
    boto3.client("iam").create_role(RoleName=f"KarpenterNodeRole-{CLUSTER}", AssumeRolePolicyDocument=trust)
    boto3.client("eks").create_cluster(name=CLUSTER, version="1.36", roleArn="arn:aws:iam::123456789012:role/eks", resourcesVpcConfig={"subnetIds": subnets})
    return next(image["ImageId"] for image in ec2.describe_images()["Images"] if image["Architecture"] == "x86_64" and image["State"] == "available")


def manifests(image):
    documents = list(yaml.safe_load_all(open(os.path.join(EXAMPLES, "getting-started.yaml"))))
    if image:
        spec = next(document for document in documents if document["kind"] == "EC2NodeClass")["spec"]
        spec.update(amiFamily="AL2023", amiSelectorTerms=[{"id": image}])
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})


def peak_megabytes(child):
    line = next(line for line in open(f"/proc/{child.pid}/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024


def run(kerf, kerf_aws, is_moto, children, log):
    endpoint = None if is_moto else start_aws(kerf, children)
    environment = dict(os.environ, CLUSTER_NAME=CLUSTER, AWS_EC2_METADATA_DISABLED="true")
    if endpoint:
        environment.update(AWS_ENDPOINT_URL=endpoint, AWS_REGION="us-west-2", AWS_DEFAULT_REGION="us-west-2", AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")
    else:
        environment.update(CLUSTER_ENDPOINT=server())
    os.environ.update(environment)
    ec2 = boto3.client("ec2", config=botocore.config.Config(retries={"total_max_attempts": 2}))
    image = prepare_moto(ec2) if is_moto else None
    kubectl("apply", "--server-side", "-f", "-", text=subprocess.run([kerf, "crds"], capture_output=True, text=True, check=True).stdout)
    nodes = Nodes(ec2, endpoint)
    nodes.start()
    controller = subprocess.Popen([kerf_aws, "controller", "--disable-leader-election", "--metrics-port", "0", "--health-probe-port", "0"],
                                  env=environment, stdout=log, stderr=subprocess.STDOUT)
    children.append(controller)
    begun, times = time.monotonic(), {}

    def reached(what, check):
        def guarded():
            if controller.poll() is not None:
                raise SystemExit(f"kerf-aws controller ended with {controller.returncode}")
            if nodes.failure:
                raise nodes.failure
            return check()
        found = wait(what, guarded, lambda: kubectl("get", "ec2nodeclasses,nodeclaims,nodes,pods,events", "-A", "-o", "wide"))
        times[what] = round(time.monotonic() - begun, 1)
        return found

    kubectl("wait", "--for", "condition=Established", "--timeout", "60s", "crd", "--all")
    kubectl("apply", "-f", "-", text=manifests(image))
    kubectl("apply", "-f", os.path.join(EXAMPLES, "inflate.yaml"))
    reached("class ready", lambda: all(is_true(item, "Ready") for item in objects("ec2nodeclasses")))
    reached("claim launched", lambda: any(is_true(item, "Launched") for item in objects("nodeclaims")))
    reached("node registered", lambda: any(is_true(item, "Registered") for item in objects("nodeclaims")))
    reached("pods running", lambda: sum(pod["status"].get("phase") == "Running" for pod in objects("pods")) == 5)
    instances = nodes.running()
    kubectl("scale", "deployment", "inflate", "--replicas", "0")
    kubectl("delete", "nodeclaims", "--all", "--wait=false")
    reached("instances terminated", lambda: not nodes.running())
    reached("claims gone", lambda: not objects("nodeclaims") and not objects("nodes"))
    nodes.stopped.set()
    result = {"aws": "moto" if is_moto else "kerf aws serve", "secondsSinceStart": times, "instances": len(instances),
              "instanceTypes": sorted({instance["InstanceType"] for instance in instances}), "peakMegabytes": peak_megabytes(controller)}
    if endpoint:
        lines = urllib.request.urlopen(f"{endpoint}/kerf/calls", timeout=10).read().decode().splitlines()
        result["calls"] = shortened(map(json.loads, lines))
    print(json.dumps(result, indent=1))


def shortened(calls):
    """Returns the names of the calls in order. A repeated name is counted."""
    names = []
    for call in calls:
        name = f"{call['service']} {call['operation']}" + (f" ({call['error']})" if call["error"] else "")
        if names and names[-1][0] == name:
            names[-1][1] += 1
        else:
            names.append([name, 1])
    return [name if count == 1 else f"{name} x {count}" for name, count in names]


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--moto"]
    if "--help" in arguments or "-h" in arguments or len(arguments) != 2:
        sys.exit(__doc__)
    children, log = [], tempfile.NamedTemporaryFile("w+", prefix="kerf-aws-", suffix=".log", delete=False)
    try:
        run(*arguments, "--moto" in sys.argv, children, log)
        os.unlink(log.name)
    except BaseException:
        print(f"the log of kerf-aws controller is {log.name}", file=sys.stderr)
        raise
    finally:
        for child in reversed(children):
            child.terminate()
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()


if __name__ == "__main__":
    # On SIGTERM the script exits, and ends the processes that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
