#!/usr/bin/env python3
"""Runs `kerf-aws controller` as a process, from its start to a Running pod and to the termination of the instance.

    hack/controlplane/cluster.sh -- PYTHON hack/aws/one_node.py KERF KERF_AWS
    hack/controlplane/cluster.sh -- hack/aws/moto.sh PYTHON hack/aws/one_node.py --moto KERF KERF_AWS

PYTHON is the Python of hack/aws/moto.sh (target/tmp/moto/bin/python), which has boto3 and yaml. KERF and KERF_AWS are the two programs.
The API server is real. AWS is `kerf aws serve`, which the script starts, or with --moto the moto of hack/aws/moto.sh. Instances have no
nodes, so the script registers a node for each running instance, as the instance's user data says. KWOK plays its kubelet. The script
prints one JSON object: seconds since the start of the controller, its peak memory, and its AWS calls in order (without --moto).
"""
import json, os, signal, subprocess, sys, tempfile, time, urllib.request

import boto3, botocore.config, yaml

from cluster import CLUSTER, HERE, Nodes, crds, is_true, kubectl, objects, server, start_aws, wait

EXAMPLES = os.path.join(HERE, "..", "..", "examples", "aws")


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
    kubectl("apply", "--server-side", "-f", "-", text=crds(kerf))
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
