"""Generates documents for the questions of spec 11 about running instances: launch, drift and interruption."""

import json

import documents
from documents import ZONES, add_placement_groups, add_reservations, maybe, options, pick_some, unique

QUESTIONS = ["launch", "drift", "interruption"]

# Types for launches: ordinary ones of several sizes, and those with something special.
ORDINARY_TYPES = ["m5.large", "m5.xlarge", "m5.2xlarge", "c5.large", "c5.xlarge", "c6g.large", "m6g.xlarge", "r5.large", "t3.medium",
                  "t3a.small", "m6a.large", "c7i-flex.large"]
SPECIAL_TYPES = ["g4dn.8xlarge", "g5.48xlarge", "p4d.24xlarge", "p5.48xlarge", "inf2.48xlarge", "m5.metal", "m5d.24xlarge", "a1.medium",
                 "u-6tb1.metal", "m6idn.32xlarge"]

FLEET_ERRORS = [
    ("InsufficientInstanceCapacity", "We currently do not have sufficient capacity in the Availability Zone you requested."),
    ("InsufficientInstanceCapacity", "You have reached the limit of instances in this spread placement group"),
    ("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"), ("VcpuLimitExceeded", "You have requested more vCPU capacity."),
    ("UnfulfillableCapacity", "Unable to fulfill capacity due to your request configuration."),
    ("Unsupported", "The requested configuration is currently not supported."),
    ("InsufficientFreeAddressesInSubnet", "There are not enough free addresses in subnet."), ("MaxFleetCountExceeded", "no"),
    ("ReservationCapacityExceeded", "The reservation has no capacity."),
    ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "The provided credentials do not have permission to create the service-linked role."),
    ("UnauthorizedOperation", "You are not authorized to perform this operation."),
    ("UnauthorizedOperation", "no: with an explicit deny in a service control policy"),
    ("UnauthorizedOperation", "Not authorized for images: [ami-1]"), ("AccessDenied", "with an explicit deny in a permissions boundary"),
    ("InvalidParameter", "Security group sg-1 and subnet subnet-1 belong to different networks."),
    ("InvalidParameterValue", "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"),
    ("InvalidLaunchTemplateId.NotFound", "no"), ("InvalidAMIID.Malformed", "no"), ("InvalidAMIID.NotFound", "The image id '[ami-1]' does not exist"),
    ("RequestLimitExceeded", "Request limit exceeded."), ("InternalError", "An internal error has occurred"),
    ("InvalidParameterCombination", "The specified instance type is not eligible for Free Tier."), ("PendingVerification", "wait"),
    ("TagPolicyViolation", "The tag policy does not allow the specified value for the following tag key: 'team'."), ("", "no code"),
]
CALL_ERRORS = [
    ("RequestLimitExceeded", "Request limit exceeded."), ("InternalError", "An internal error has occurred"),
    ("UnauthorizedOperation", "You are not authorized to perform this operation."), ("InvalidParameterValue", "no"),
    ("InvalidLaunchTemplateName.NotFoundException", "The specified launch template does not exist."),
    ("InvalidUserData.Malformed", "User data is limited to 16384 bytes"), ("MaxFleetCountExceeded", "no"),
    ("InsufficientInstanceCapacity", "none left"), ("TagPolicyViolation", "no"), ("InvalidAMIID.NotFound", "no"),
]
TEMPLATE_ERRORS = [
    *CALL_ERRORS, ("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use."),
    ("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data"),
]


CONDITIONS = ["AMIsReady", "SubnetsReady", "SecurityGroupsReady", "InstanceProfileReady", "ValidationSucceeded", "PlacementGroupReady",
              "CapacityReservationsReady", "Ready"]


def scripted(rng, errors):
    code, message = rng.choice(errors)
    return {"code": code, "message": message, "server": code.startswith("Internal")}


def requirement(key, *values, operator="In"):
    return {"key": key, "operator": operator, "values": list(values)}


def status_amis(rng, family):
    """Returns images in the status that fit most types."""
    def image(number, architecture, *more):
        return {"id": f"ami-{number}", "name": f"image-{number}",
                "requirements": [requirement("kubernetes.io/arch", architecture), *more]}

    absent = [{"key": f"karpenter.k8s.aws/instance-{kind}-count", "operator": "DoesNotExist"} for kind in ("gpu", "accelerator")]
    gpu = {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Exists"}
    neuron = {"key": "karpenter.k8s.aws/instance-accelerator-count", "operator": "Exists"}
    if family == "Custom" or maybe(rng, 0.4):
        amis = [image(1, "amd64"), image(2, "arm64")]
    else:
        amis = [image(1, "amd64", *absent), image(2, "arm64", *absent), image(3, "amd64", gpu), image(4, "amd64", neuron), image(5, "arm64", gpu)]
    if maybe(rng, 0.1):
        amis = pick_some(rng, amis, 2)
    return amis


def live_class(rng, names):
    """Returns a node class whose status is resolved."""
    spec = documents.node_class(rng)["spec"]
    spec.pop("placementGroupSelector", None)
    for device in spec.get("blockDeviceMappings", []):
        if device["ebs"].get("volumeSize") == "1.5Gi":
            device["ebs"]["volumeSize"] = "2Gi"
    if maybe(rng, 0.2):
        spec["userData"] = rng.choice(documents.USER_DATA)
    family = documents.family_of({"nodeClass": {"spec": spec}})
    if family not in ("AL2", "AL2023", "Bottlerocket", "Custom") and maybe(rng, 0.7):
        spec["amiSelectorTerms"], family = [{"alias": "al2023@latest"}], "AL2023"
        spec.pop("amiFamily", None)
    status = {"subnets": documents.subnets(rng), "instanceProfile": "profile-1", "amis": status_amis(rng, family),
              "securityGroups": [{"id": f"sg-{number}", "name": f"group-{number}"} for number in range(1, rng.choice([2, 2, 3]))]}
    if maybe(rng, 0.03):
        status[rng.choice(["subnets", "securityGroups", "amis"])] = []
    return {"metadata": {}, "spec": spec, "status": status}


def spoil_class(rng, node_class):
    """Makes launches from the class fail."""
    kind = rng.choice(["False", "Unknown", "stale", "tags", "terminating", "name"])
    metadata = node_class["metadata"]
    if kind == "tags":
        node_class["spec"]["tags"] = {rng.choice(["karpenter.sh/nodepool", "eks:eks-cluster-name", "kubernetes.io/cluster/demo", "karpenter.sh/nodeclaim"]): "x"}
    elif kind == "terminating":
        metadata["deletionTimestamp"] = "2026-08-01T11:00:00Z"
    elif kind == "name":
        metadata["name"] = "other"
    else:
        metadata["generation"] = 3
        status = "True" if kind == "stale" else kind
        kinds = [name for name in CONDITIONS if maybe(rng, 0.98)]
        node_class["status"]["conditions"] = [
            {"type": name, "status": status if name == "Ready" else "True", "reason": "R", "message": "SubnetsReady=False",
             "lastTransitionTime": "2026-08-01T10:00:00Z", "observedGeneration": 2 if kind == "stale" else 3} for name in kinds]


def claim(rng, names, zones):
    """Returns a claim, and whether it requires a partition."""
    requirements, has_partition = [], False
    if maybe(rng, 0.4):
        requirements.append(requirement("karpenter.sh/capacity-type", *rng.choice(
            [["spot"], ["on-demand"], ["spot", "on-demand"], ["reserved"], ["reserved", "on-demand"], ["reserved", "spot", "on-demand"]])))
    if maybe(rng, 0.3):
        requirements.append(requirement("topology.kubernetes.io/zone", *rng.sample(zones, rng.randint(1, len(zones)))))
    if maybe(rng, 0.4):
        entry = requirement("node.kubernetes.io/instance-type", *rng.sample(names, rng.randint(1, len(names))))
        if maybe(rng, 0.5):
            entry["minValues"] = rng.choice([1, 2, 3, 8])
        requirements.append(entry)
    for key, choices in (("kubernetes.io/arch", [["amd64"], ["arm64"], ["amd64", "arm64"]]), ("karpenter.k8s.aws/instance-category", [["c", "m"], ["g", "p"], ["m"]]),
                         ("karpenter.k8s.aws/instance-tenancy", [["default"], ["dedicated"], ["default", "dedicated"]])):
        if maybe(rng, 0.2):
            entry = requirement(key, *rng.choice(choices))
            if key.endswith("category") and maybe(rng, 0.4):
                entry["minValues"] = rng.choice([1, 2])
            requirements.append(entry)
    if maybe(rng, 0.1):
        requirements.append(requirement("karpenter.k8s.aws/instance-cpu", "3", operator=rng.choice(["Gt", "Lt"])))
    if maybe(rng, 0.1):
        requirements.append(requirement("karpenter.k8s.aws/placement-group-partition", *rng.choice([["1"], ["2", "3"], ["2"]])))
        has_partition = True
    requests = {"cpu": rng.choice(["100m", "1", "1", "3", "30"])}
    if maybe(rng, 0.3):
        requests["memory"] = rng.choice(["100Mi", "2Gi", "6Gi", "60Gi"])
    for name, amounts in (("pods", ["3", "30", "200"]), ("nvidia.com/gpu", ["1", "8"]), ("vpc.amazonaws.com/efa", ["1", "2"]),
                          ("aws.amazon.com/neuron", ["1"]), ("eks.amazonaws.com/nip-slots", ["1"]), ("ephemeral-storage", ["10Gi", "500Gi"])):
        if maybe(rng, 0.07):
            requests[name] = rng.choice(amounts)
    metadata = {"name": "claim", "labels": {"karpenter.sh/nodepool": "default", "team": rng.choice(["a", "b"])}}
    if maybe(rng, 0.05):
        metadata["labels"] = {}
    annotations = {key: value for key, value in (("karpenter.sh/price-overlay-applied", "true"), ("karpenter.sh/nodeclaim-min-values-relaxed", "true"))
                   if maybe(rng, 0.1)}
    if annotations:
        metadata["annotations"] = annotations
    spec = {"requirements": requirements, "resources": {"requests": requests}}
    if maybe(rng, 0.2):
        spec["taints"] = documents.taints(rng)
    if maybe(rng, 0.1):
        spec["startupTaints"] = documents.taints(rng)
    return {"metadata": metadata, "spec": spec}, has_partition


def launch_prices(rng, document, names):
    """Adds prices without ties, since ties are broken by chance."""
    def price():
        return round(rng.uniform(0.01, 3), 6)

    document["prices"] = {"onDemand": {name: price() for name in names if maybe(rng, 0.9)}}
    if maybe(rng, 0.8):
        spot = {name: {zone: price() / 2 for zone, _ in ZONES if maybe(rng, 0.9)} for name in names}
        spot = {name: zones for name, zones in spot.items() if zones}
        if spot:
            document["prices"]["spot"] = spot


def fleet_rules(rng, names, zones):
    rules = []
    for _ in range(rng.randint(1, 4)):
        code, message = rng.choice(FLEET_ERRORS)
        rule = {"code": code, "message": message}
        for member, values in (("capacityType", ["spot", "on-demand"]), ("instanceType", names), ("zone", zones), ("subnet", ["subnet-1", "subnet-2"])):
            if maybe(rng, 0.35):
                rule[member] = rng.choice(values)
        rules.append(rule)
    return rules


def marks(rng, names, zones, groups):
    found = []
    for _ in range(rng.randint(1, 3)):
        mark = {"capacityType": rng.choice(["spot", "on-demand"]), "instanceType": rng.choice(names), "zone": rng.choice(zones)}
        # Karpenter never reads marks of a partition (spec 05 section 22).
        if groups and maybe(rng, 0.3):
            mark["placementGroup"] = rng.choice(["pg-1", "pg-2"])
        found.append(rng.choice([mark, mark, mark, {"subnet": f"subnet-{rng.randint(1, 4)}"}, {"capacityType": "spot"}]))
    return found


def instance_id(number):
    return f"i-{number:017d}"


def instance(rng, identifier, name, zone, subnet="subnet-1"):
    """Returns an instance as DescribeInstances shows it."""
    tags = {"karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default", "eks:eks-cluster-name": "test-cluster"}
    if maybe(rng, 0.2):
        tags.pop(rng.choice(list(tags)))
    elif maybe(rng, 0.2):
        tags[rng.choice(list(tags))] = rng.choice(["other", ""])
    found = {
        "InstanceId": identifier, "InstanceType": name, "ImageId": rng.choice(["ami-1", "ami-1", "ami-2", "ami-9"]), "SubnetId": subnet,
        "State": {"Name": rng.choice(["pending", "running", "running", "running", "stopping", "stopped", "shutting-down"])},
        "Placement": {"AvailabilityZone": zone, "Tenancy": rng.choice(["default", "dedicated"])}, "LaunchTime": "2026-08-01T11:00:00Z",
        "SecurityGroups": [{"GroupId": group} for group in rng.choice([["sg-1"], ["sg-1"], ["sg-1", "sg-2"], ["sg-2"], []])],
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }
    if maybe(rng, 0.3):
        found["Placement"]["AvailabilityZoneId"] = dict(ZONES).get(zone, "")
    if maybe(rng, 0.2):
        found["Placement"]["PartitionNumber"] = rng.choice([0, 2])
    if maybe(rng, 0.3):
        found["SpotInstanceRequestId"] = "sir-1"
    if maybe(rng, 0.4):
        found["CapacityReservationId"] = rng.choice(["cr-11", "cr-12", "cr-9"])
        found["CapacityReservationSpecification"] = {"CapacityReservationPreference": rng.choice(["capacity-reservations-only", "capacity-reservations-only", "open", "none"])}
    if maybe(rng, 0.15):
        found["InstanceLifecycle"] = rng.choice(["capacity-block", "interruptible-capacity-reservation", "spot"])
    if maybe(rng, 0.3):
        found["NetworkInterfaces"] = [{"InterfaceType": rng.choice(["interface", "efa", "efa-only"])} for _ in range(rng.randint(1, 3))]
    return found


def launch_document(rng, catalogue):
    known = {info["InstanceType"] for info in catalogue["instanceTypes"]}
    names = [name for name in rng.sample(ORDINARY_TYPES, rng.randint(1, 8)) + rng.sample(SPECIAL_TYPES, rng.randint(0, 3)) if name in known]
    fails_templates = maybe(rng, 0.12)
    if fails_templates:
        # With several templates, Karpenter's map order decides which of them exist when one fails.
        names = names[:1]
    document = {"instanceTypes": names, "nodeClass": live_class(rng, names)}
    status = document["nodeClass"]["status"]
    zones = unique([subnet["zone"] for subnet in status["subnets"]]) or ["us-west-2a"]
    launch_prices(rng, document, names)
    if maybe(rng, 0.5):
        document["freeIPs"] = {subnet["id"]: rng.choice([0, 10, 100, 100, 250]) for subnet in status["subnets"]}
    if maybe(rng, 0.35):
        add_reservations(rng, document, names)
        for reservation in status["capacityReservations"]:
            # Karpenter crashes if a capacity block is interruptible, which EC2 does not have.
            if reservation["reservationType"] == "capacity-block":
                reservation["interruptible"] = False
    has_groups = maybe(rng, 0.3)
    if has_groups:
        add_placement_groups(rng, document)
    if maybe(rng, 0.3):
        document.setdefault("options", {}).update({name: value for name, value in options(rng).items() if name != "region"})
    if maybe(rng, 0.1):
        document.setdefault("options", {})["minValuesPolicy"] = "BestEffort"
    if maybe(rng, 0.07):
        document.setdefault("options", {})["region"] = rng.choice(["us-iso-east-1", "us-east-1"])
    if maybe(rng, 0.1):
        spoil_class(rng, document["nodeClass"])
    if maybe(rng, 0.7):
        document["nodePools"] = [{"metadata": {"name": "default"}}]
    if maybe(rng, 0.3):
        document["instances"] = [instance(rng, f"i-old{number}", rng.choice(names), rng.choice(zones)) for number in range(rng.randint(1, 3))]
    if maybe(rng, 0.15):
        document["shiftedZones"] = pick_some(rng, [zone_id for _, zone_id in ZONES], 2)
    wanted, has_partition = claim(rng, names, zones)
    if fails_templates:
        operation = rng.choice(["DescribeLaunchTemplates", "CreateLaunchTemplate"])
        document["fail"] = {operation: [rng.choice([None, scripted(rng, TEMPLATE_ERRORS)]) for _ in range(rng.randint(1, 2))]}
    elif maybe(rng, 0.2):
        operation = rng.choice(["CreateFleet", "CreateFleet", "DescribeInstances", "TerminateInstances"])
        document["fail"] = {operation: [rng.choice([None, scripted(rng, CALL_ERRORS)]) for _ in range(rng.randint(1, 3))]}
    document["steps"] = steps(rng, wanted, names, zones, has_partition, has_groups)
    if "fail" in document or any("ice" in step or "fail" in step for step in document["steps"]):
        # With several subnets in a zone, claims of one moment are several fleets, and chance decides which of them fails.
        by_zone = {subnet["zone"]: subnet for subnet in status["subnets"]}
        status["subnets"] = list(by_zone.values())
    elif any(len(step.get("launch", [])) > 1 for step in document["steps"]) and status["subnets"]:
        # Several fleets in several zones get their instances in an order of chance.
        status["subnets"] = [subnet for subnet in status["subnets"] if subnet["zone"] == status["subnets"][0]["zone"]]
    if not status["subnets"]:
        # Karpenter fails the whole list if a type cannot be resolved (spec 05 section 22).
        document["steps"] = [step for step in document["steps"] if "list" not in step]
    return document


def steps(rng, wanted, names, zones, has_partition, has_groups):
    found = []
    launched = 0
    for number in range(rng.randint(1, 4)):
        step = {}
        if maybe(rng, 0.3):
            step["ice"] = fleet_rules(rng, names, zones) if maybe(rng, 0.8) else []
        if maybe(rng, 0.2):
            step["unavailable"] = marks(rng, names, zones, has_groups)
        if maybe(rng, 0.07):
            step["fail"] = {"CreateFleet": [scripted(rng, CALL_ERRORS)]}
        kind = "launch" if number == 0 else rng.choice(["launch", "launch", "get", "list", "delete", "delete"])
        # A launch marks its partition, and Karpenter does not read that mark.
        if kind == "launch" and has_partition and number > 0:
            kind = "list"
        if kind == "launch":
            count = rng.choice([1, 1, 1, 2, 5])
            step["launch"] = [wanted] * count
            launched += count
        elif kind == "list":
            step["list"] = True
        else:
            identifier = rng.choice([instance_id(rng.randint(1, max(launched, 1))), instance_id(1), "i-old0", "i-gone"])
            provider_id = rng.choice([f"aws:///{zones[0]}/{identifier}"] * 9 + ["nonsense"])
            if kind == "get":
                step["get"] = provider_id
            else:
                step["delete"] = {"metadata": {"labels": rng.choice([{}, {"karpenter.k8s.aws/capacity-reservation-id": "cr-11"}])}, "status": {"providerID": provider_id}}
        found.append(step)
    return found


def hash_annotations(rng):
    values = {"karpenter.k8s.aws/ec2nodeclass-hash": rng.choice(["1", "2"]), "karpenter.k8s.aws/ec2nodeclass-hash-version": rng.choice(["v5", "v5", "v5", "v4"])}
    return {key: value for key, value in values.items() if maybe(rng, 0.85)}


def drift_document(rng, catalogue):
    known = {info["InstanceType"] for info in catalogue["instanceTypes"]}
    names = [name for name in rng.sample(ORDINARY_TYPES, 3) + rng.sample(SPECIAL_TYPES, 1) if name in known]
    document = {"instanceTypes": names, "nodeClass": live_class(rng, names)}
    node_class, status = document["nodeClass"], document["nodeClass"]["status"]
    zone = status["subnets"][0]["zone"] if status["subnets"] else "us-west-2a"
    if maybe(rng, 0.4):
        node_class["metadata"]["annotations"] = hash_annotations(rng)
    if maybe(rng, 0.05):
        spoil_class(rng, node_class)
    if maybe(rng, 0.4):
        status["capacityReservations"] = [
            {"id": name, "availabilityZone": zone, "instanceType": names[0], "instanceMatchCriteria": "targeted", "ownerID": "123456789012", "reservationType": "default"}
            for name in pick_some(rng, ["cr-11", "cr-12"], 2)]
    name = rng.choice(names)
    labels = {"karpenter.sh/nodepool": "default", "node.kubernetes.io/instance-type": name}
    if maybe(rng, 0.05):
        labels["node.kubernetes.io/instance-type"] = "x9.large"
    if maybe(rng, 0.05):
        labels.pop(rng.choice(list(labels)))
    if maybe(rng, 0.25):
        labels["karpenter.k8s.aws/placement-group-id"] = rng.choice(["pg-1", "pg-2", ""])
    subnet = rng.choice([*(subnet["id"] for subnet in status["subnets"]), *(["subnet-9"] if maybe(rng, 0.3) else []), "subnet-1"])
    described = instance(rng, "i-1", name, zone, subnet)
    if maybe(rng, 0.7):
        described["SecurityGroups"] = [{"GroupId": group["id"]} for group in status["securityGroups"]]
        described["ImageId"] = "ami-2" if name.split(".")[0].endswith("g") or name.startswith("a1") else "ami-1"
    document["instances"] = [described] if maybe(rng, 0.93) else []
    if maybe(rng, 0.3):
        cached = dict(described)
        if maybe(rng, 0.5):
            cached["CapacityReservationId"] = "cr-9"
            cached["CapacityReservationSpecification"] = {"CapacityReservationPreference": "capacity-reservations-only"}
            cached.pop("SpotInstanceRequestId", None)
        document["cachedInstances"] = [cached]
    claim_status = {"providerID": rng.choice([f"aws:///{zone}/i-1"] * 20 + ["nonsense", ""])}
    if maybe(rng, 0.96):
        claim_status["imageID"] = rng.choice([described["ImageId"]] * 5 + ["ami-1", "ami-9"])
    document["nodeClaim"] = {"metadata": {"labels": labels}, "status": claim_status}
    if maybe(rng, 0.4):
        document["nodeClaim"]["metadata"]["annotations"] = hash_annotations(rng)
    if maybe(rng, 0.3):
        add_placement_groups(rng, document)
        if maybe(rng, 0.2):
            document["fail"] = {"DescribeInstances": [rng.choice([None, scripted(rng, CALL_ERRORS)])]}
    if maybe(rng, 0.1):
        document["nodePools"] = rng.choice([[], [{"metadata": {"name": "other"}}], [{"metadata": {"name": "default"}, "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "missing"}}}}}]])
    if maybe(rng, 0.1):
        document["fail"] = {"DescribeInstances": [rng.choice([None, scripted(rng, CALL_ERRORS)]) for _ in range(2)]}
    if maybe(rng, 0.1):
        document.setdefault("options", {})["featureGates"] = {"ReservedCapacity": False}
    if maybe(rng, 0.1):
        document["shiftedZones"] = pick_some(rng, [zone_id for _, zone_id in ZONES], 2)
    return document


DETAIL_TYPES = [
    "EC2 Spot Instance Interruption Warning", "EC2 Instance Rebalance Recommendation", "EC2 Instance State-change Notification",
    "EC2 Capacity Reservation Instance Interruption Warning", "AWS Health Event",
]


def event(rng, identifiers):
    """Returns an event of one of the five types, sometimes with a wrong part."""
    kind = rng.choice(DETAIL_TYPES)
    identifier = rng.choice(identifiers)
    found = {"version": "0", "id": "1", "source": "aws.ec2", "detail-type": kind, "account": "123456789012", "region": "us-west-2",
             "time": "2026-08-01T11:59:50Z", "resources": [f"arn:aws:ec2:us-west-2:123456789012:instance/{identifier}"]}
    if kind == "AWS Health Event":
        found["source"] = "aws.health"
        found["detail"] = {
            "service": rng.choice(["EC2", "EC2", "EC2", "RDS", "ec2"]), "eventTypeCategory": rng.choice(["scheduledChange", "scheduledChange", "issue"]),
            "eventArn": "arn:aws:health:us-west-2::event/x", "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
            "eventDescription": [{"language": "en_US", "latestDescription": "retired"}],
            "affectedEntities": [{"entityValue": rng.choice(identifiers)} for _ in range(rng.randint(0, 3))]}
    else:
        found["detail"] = {"instance-id": identifier, "instance-action": "terminate",
                           "state": rng.choice(["pending", "running", "stopping", "stopped", "shutting-down", "terminated", "Terminated"])}
    if maybe(rng, 0.3):
        spoil_event(rng, found)
    return found


def spoil_event(rng, found):
    kind = rng.choice(["member", "type", "detail", "entities", "case", "null"])
    member = rng.choice(list(found))
    if kind == "member":
        found.pop(member)
    elif kind == "type":
        found[member] = rng.choice([1, True, ["x"], {"a": 1}, "yesterday", "2026-08-01", "2026-08-01T11:59:50.123+02:00"])
    elif kind == "detail":
        name = rng.choice(list(found["detail"]))
        found["detail"][name] = rng.choice([1, None, "", [], {"a": 1}])
    elif kind == "entities":
        found["detail"]["affectedEntities"] = rng.choice([[None], ["i-1"], [{"entityValue": 1}], {}])
    elif kind == "case":
        found[member.upper()] = found.pop(member)
    else:
        found[member] = None


def interruption_document(rng, catalogue):
    names = rng.sample(ORDINARY_TYPES, 3)
    zones = [zone for zone, _ in ZONES[:2]]
    identifiers = [f"i-{number}" for number in range(1, 5)]
    document = {"instanceTypes": names, "offerings": [{"InstanceType": name, "Location": zone} for name in names for zone in zones]}
    claims, nodes = [], []
    for number, identifier in enumerate(identifiers[:rng.randint(1, 3)]):
        zone = rng.choice(zones)
        labels = {"topology.kubernetes.io/zone": zone, "node.kubernetes.io/instance-type": rng.choice(names), "karpenter.sh/nodepool": "default",
                  "karpenter.sh/capacity-type": rng.choice(["spot", "on-demand", "reserved"]), "karpenter.k8s.aws/capacity-reservation-id": rng.choice(["cr-1", "cr-2"])}
        for key in pick_some(rng, list(labels), 2):
            if maybe(rng, 0.3):
                labels.pop(key)
        metadata = {"name": f"claim-{number}", "uid": f"uid-{number}", "labels": labels}
        if maybe(rng, 0.5):
            metadata["finalizers"] = ["karpenter.sh/termination"]
        if maybe(rng, 0.1):
            metadata["finalizers"] = ["karpenter.sh/termination"]
            metadata["deletionTimestamp"] = "2026-08-01T11:00:00Z"
        claims.append({"metadata": metadata, "status": {"providerID": rng.choice([f"aws:///{zone}/{identifier}"] * 9 + ["nonsense"])}})
        if maybe(rng, 0.7):
            nodes.append({"metadata": {"name": f"node-{number}", "uid": f"node-uid-{number}"}, "spec": {"providerID": f"aws:///{zone}/{identifier}"}})
    document["nodeClaims"], document["nodes"] = claims, nodes
    document["reservations"] = {"cr-1": rng.choice([0, 3]), "cr-2": 5} if maybe(rng, 0.8) else {"cr-2": 1}
    if maybe(rng, 0.2):
        document["unavailable"] = marks(rng, names, zones, False)
    if maybe(rng, 0.2):
        add_placement_groups(rng, {**document, "nodeClass": {"spec": {}}})
    messages = []
    for _ in range(rng.randint(1, 6)):
        found = event(rng, identifiers)
        messages.append(rng.choice([found] * 12 + [json.dumps(found), "", "not json", None, 5, [], {}, "{", {"field1": "value1"}]))
    document["messages"] = messages
    return document


def generate(question, rng, catalogue):
    """Returns a document for one of the three questions."""
    return {"launch": launch_document, "drift": drift_document, "interruption": interruption_document}[question](rng, catalogue)
