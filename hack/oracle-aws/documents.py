"""Generates documents for the questions of spec 11."""

QUESTIONS = ["instance-types", "hash", "userdata"]

FAMILIES = {
    "al2": "AL2", "al2023": "AL2023", "bottlerocket": "Bottlerocket", "windows2019": "Windows2019",
    "windows2022": "Windows2022", "windows2025": "Windows2025",
}
ZONES = [("us-west-2a", "usw2-az2"), ("us-west-2b", "usw2-az1"), ("us-west-2c", "usw2-az3"), ("us-west-2d", "usw2-az4")]
# Types with something special: GPUs, Neuron, EFA, local disks, metal, high memory, arm64, flex, old ones.
SPECIAL_TYPES = [
    "m5.large", "m5.xlarge", "c6g.large", "a1.medium", "t3.micro", "t4g.nano", "g4dn.8xlarge", "g5.48xlarge", "p4d.24xlarge",
    "p5.48xlarge", "inf1.24xlarge", "inf2.48xlarge", "trn1.32xlarge", "i4i.large", "m5d.24xlarge", "m5.metal", "u-6tb1.metal",
    "u7i-12tb.224xlarge", "c7i-flex.large", "m7i-flex.8xlarge", "c1.medium", "r5b.4xlarge", "hpc7a.96xlarge", "x2iedn.32xlarge",
]


def family_of(document):
    """Returns the AMI family of the document's node class (spec 05 section 1)."""
    spec = document["nodeClass"].get("spec", {})
    if spec.get("amiFamily"):
        return spec["amiFamily"]
    for term in spec.get("amiSelectorTerms", []):
        if "alias" in term:
            return FAMILIES.get(term["alias"].split("@")[0].lower(), "AL2")
    return "Custom"


def maybe(rng, probability):
    return rng.random() < probability


def pick_some(rng, items, most):
    return rng.sample(items, rng.randint(0, min(most, len(items))))


def ami_terms(rng):
    """Returns amiSelectorTerms and amiFamily."""
    if maybe(rng, 0.75):
        family = rng.choice(list(FAMILIES))
        version = "latest" if family.startswith("windows") else rng.choice(["latest", "v20250101", "1.45.0", "v1.46.0", "1.52.1"])
        alias = f"{family}@{version}"
        return [{"alias": alias}], ("Custom" if maybe(rng, 0.05) else None)
    family = rng.choice([*FAMILIES.values(), "Custom", None])
    term = rng.choice([
        {"id": "ami-1"}, {"name": "bottlerocket-aws-k8s-1.34-x86_64-v1.50.0-abc"}, {"name": "my-image-*"}, {"tags": {"a": "b"}},
    ])
    return [term], family


KUBELET_SIGNALS = ["memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "pid.available"]


def kubelet(rng):
    fields = {}
    if maybe(rng, 0.3):
        fields["maxPods"] = rng.choice([0, 1, 8, 29, 58, 110, 250, 737])
    if maybe(rng, 0.25):
        fields["podsPerCore"] = rng.choice([0, 1, 2, 10, 40])
    for name in ("systemReserved", "kubeReserved"):
        if maybe(rng, 0.3):
            values = {"cpu": ["100m", "1", "0.5"], "memory": ["100Mi", "1Gi", "500M", "64Gi"],
                      "ephemeral-storage": ["1Gi", "10G"], "pid": ["1000"]}
            fields[name] = {key: rng.choice(values[key]) for key in pick_some(rng, list(values), 4)}
    for name in ("evictionHard", "evictionSoft"):
        if maybe(rng, 0.3):
            values = ["100Mi", "5%", "1Gi", "10%", "0.5%", "100%", "12.5%", "1G"]
            fields[name] = {signal: rng.choice(values) for signal in pick_some(rng, KUBELET_SIGNALS, 3)}
    if maybe(rng, 0.15):
        periods = ["1m", "90s", "1h30m", "2m0s", "0s"]
        fields["evictionSoftGracePeriod"] = {signal: rng.choice(periods) for signal in pick_some(rng, KUBELET_SIGNALS, 2)}
    for name, values in (("evictionMaxPodGracePeriod", [0, 60]), ("imageGCHighThresholdPercent", [80, 90]),
                         ("imageGCLowThresholdPercent", [20, 0]), ("cpuCFSQuota", [True, False])):
        if maybe(rng, 0.12):
            fields[name] = rng.choice(values)
    if maybe(rng, 0.15):
        fields["clusterDNS"] = pick_some(rng, ["10.0.100.10", "169.254.20.10", "fd00::10"], 2)
    return fields


def block_devices(rng):
    devices = []
    for _ in range(rng.randint(0, 3)):
        device = {}
        if maybe(rng, 0.9):
            device["deviceName"] = rng.choice(["/dev/xvda", "/dev/xvdb", "/dev/sda1", "/dev/xvdc"])
        ebs = {}
        if maybe(rng, 0.8):
            ebs["volumeSize"] = rng.choice(["20Gi", "100Gi", "200G", "20480Mi", "1.5Gi", "1Ti", "1000000000"])
        if maybe(rng, 0.5):
            ebs["volumeType"] = rng.choice(["gp3", "io2", "standard"])
        if maybe(rng, 0.3):
            ebs["encrypted"] = maybe(rng, 0.5)
        if maybe(rng, 0.3):
            ebs["deleteOnTermination"] = maybe(rng, 0.5)
        if maybe(rng, 0.2):
            ebs["iops"] = rng.choice([0, 3000, 64000])
        if maybe(rng, 0.2):
            ebs["throughput"] = rng.choice([0, 125, 1000])
        if maybe(rng, 0.1):
            ebs["kmsKeyID"] = "key-1"
        if maybe(rng, 0.1):
            ebs["snapshotID"] = "snap-1"
        if maybe(rng, 0.1):
            ebs["volumeInitializationRate"] = 200
        device["ebs"] = ebs
        if maybe(rng, 0.15) and not any(other.get("rootVolume") for other in devices):
            device["rootVolume"] = True
        devices.append(device)
    return devices


USER_DATA = [
    "#!/bin/bash\necho hello\n", "echo one", "", "[settings.kubernetes]\nmax-pods = 5\nlog-level = 3\n",
    "[settings.kubernetes]\nunknown-key = 'x'\n'kube-api-qps' = 30\n[settings.kubernetes.node-labels]\nteam = 'a'\n'karpenter.sh/capacity-type' = 'x'\n",
    "[settings.kernel.sysctl]\n'user.max_user_namespaces' = '16384'\n[other]\na = 1\n",
    "[settings.kubernetes]\nmax-pods = 'seven'\n", "[settings.kubernetes]\na = 1\na = 2\n", "not toml = = =",
    "[settings.bootstrap-commands.mine]\ncommands = [['apiclient', 'set', 'motd=x']]\nmode = 'once'\nessential = false\n",
    "[settings.kubernetes.static-pods.web]\nenabled = true\nmanifest = 'abc'\n[settings.kubernetes.eviction-hard]\n'memory.available' = '5%'\n",
    "[settings.kubernetes.credential-providers.ecr]\nenabled = true\nimage-patterns = ['*.dkr.ecr.us-east-1.amazonaws.com']\n",
    "[settings.kubernetes.node-taints]\nspecial = ['true:NoSchedule']\n[settings.host-containers.admin]\nenabled = true\n",
    "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    config:\n      maxPods: 7\n",
    "# only a comment\n", "   \n", "a: b\n---\nnot: used\n", "- a\n- b\n",
    "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"X\"\n\n--X\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\n\necho a\n\n--X--\n",
    "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B1\n\n--B1\nContent-Type: text/x-shellscript\nContent-Transfer-Encoding: 7bit\n\necho a\n--B1\nContent-Type: application/node.eks.aws\n\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n--B1--\n",
    "Content-Type: multipart/mixed; boundary=\"Y\"\nMIME-Version: 1.0\n\n--Y\nContent-Type: text/plain\nContent-Transfer-Encoding: quoted-printable\n\na=3Db\n--Y--\n",
    "MIME-Version: 1.0\nContent-Type: text/plain\n\nhello\n", "\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"Z\"\n\n--Z--\n",
    "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"Q\"\n\n--Q\nContent-Type: text/x-shellscript\n\nno end\n",
    "<powershell>\nWrite-Host 'a'\n</powershell>", "Write-Host \"hi\"",
]


def node_class(rng):
    terms, family = ami_terms(rng)
    spec = {"amiSelectorTerms": terms}
    if family:
        spec["amiFamily"] = family
    if maybe(rng, 0.6):
        spec["role"] = "KarpenterNodeRole-demo"
    elif maybe(rng, 0.5):
        spec["instanceProfile"] = "profile-1"
    if maybe(rng, 0.6):
        spec["kubelet"] = kubelet(rng)
    if maybe(rng, 0.4):
        spec["blockDeviceMappings"] = block_devices(rng)
    if maybe(rng, 0.2):
        spec["instanceStorePolicy"] = "RAID0"
    if maybe(rng, 0.3):
        spec["tags"] = {f"tag-{number}": rng.choice(["", "a", "b c"]) for number in range(rng.randint(0, 3))}
    if maybe(rng, 0.15):
        spec["detailedMonitoring"] = maybe(rng, 0.5)
    if maybe(rng, 0.15):
        spec["associatePublicIPAddress"] = maybe(rng, 0.5)
    if maybe(rng, 0.1):
        spec["context"] = "context-1"
    if maybe(rng, 0.2):
        spec["metadataOptions"] = {
            name: value for name, value in (("httpEndpoint", "enabled"), ("httpProtocolIPv6", "disabled"),
                                            ("httpPutResponseHopLimit", 2), ("httpTokens", "required")) if maybe(rng, 0.7)}
    if maybe(rng, 0.1):
        spec["cpuOptions"] = rng.choice([{}, {"nestedVirtualization": "enabled"}, {"nestedVirtualization": "disabled"}])
    if maybe(rng, 0.1):
        spec["connectionTracking"] = rng.choice([{}, {"tcpEstablishedTimeout": 300}, {"udpTimeout": 30, "udpStreamTimeout": 60}])
    if maybe(rng, 0.12):
        count = rng.randint(0, 3)
        spec["networkInterfaces"] = [
            {"networkCardIndex": index, "deviceIndex": 0 if index == 0 else 1,
             "interfaceType": "interface" if index == 0 else rng.choice(["interface", "efa-only"])} for index in range(count)]
    if maybe(rng, 0.1):
        spec["placementGroupSelector"] = rng.choice([{"name": "group-1"}, {"id": "pg-1"}])
    if maybe(rng, 0.1):
        spec["ipPrefixCount"] = rng.choice([0, 2])
    return {"spec": spec}


def subnets(rng):
    chosen = rng.sample(ZONES, rng.randint(1, len(ZONES)))
    found = []
    for zone, zone_id in chosen:
        for _ in range(rng.choice([1, 1, 2])):
            found.append({"id": f"subnet-{len(found) + 1}", "zone": zone, "zoneID": zone_id})
    return found


def instance_types_document(rng, catalogue, allow_whole):
    document = {"nodeClass": node_class(rng)}
    spec = document["nodeClass"]["spec"]
    # Karpenter's arithmetic on such a size changes the size itself, so that its answer depends on the number of types.
    for device in spec.get("blockDeviceMappings", []):
        if device["ebs"].get("volumeSize") == "1.5Gi":
            device["ebs"]["volumeSize"] = "2Gi"
    document["nodeClass"]["status"] = {"subnets": subnets(rng) if maybe(rng, 0.97) else []}
    if not (allow_whole and maybe(rng, 0.05)):
        names = [info["InstanceType"] for info in catalogue["instanceTypes"]]
        special = [name for name in SPECIAL_TYPES if name in names]
        document["instanceTypes"] = sorted({*rng.sample(names, 12), *rng.sample(special, 8)})
        if maybe(rng, 0.4):
            zones = [zone for zone, _ in ZONES]
            document["offerings"] = [
                {"InstanceType": name, "Location": zone} for name in document["instanceTypes"] for zone in zones if maybe(rng, 0.7)]
    if maybe(rng, 0.4):
        document["options"] = options(rng)
    names = document.get("instanceTypes", SPECIAL_TYPES)
    if maybe(rng, 0.3):
        document["prices"] = {"onDemand": {name: round(rng.uniform(0.01, 40), 6) for name in pick_some(rng, names, 8)}}
        if maybe(rng, 0.6):
            document["prices"]["spot"] = {
                name: {zone: round(rng.uniform(0.01, 20), 6) for zone, _ in ZONES if maybe(rng, 0.7)}
                for name in pick_some(rng, names, 12)}
    if maybe(rng, 0.35):
        add_reservations(rng, document, names)
    if maybe(rng, 0.3):
        add_placement_groups(rng, document)
    if maybe(rng, 0.2):
        document["shiftedZones"] = [*pick_some(rng, [zone_id for _, zone_id in ZONES], 2), "usw2-az9"]
    if maybe(rng, 0.3):
        marks = []
        for _ in range(rng.randint(1, 5)):
            mark = {"capacityType": rng.choice(["spot", "on-demand"]), "instanceType": rng.choice(names), "zone": rng.choice(ZONES)[0]}
            # Karpenter never reads marks of a partition (spec 05 section 22).
            if maybe(rng, 0.3):
                mark["placementGroup"] = rng.choice(["pg-1", "pg-2"])
            marks.append(rng.choice([mark, mark, mark, {"subnet": f"subnet-{rng.randint(1, 4)}"}, {"capacityType": "spot"}]))
        document["unavailable"] = marks
    return document


def add_reservations(rng, document, names):
    """Adds capacity reservations to the status, and free slots of some of them."""
    reservations = []
    for number in range(rng.randint(1, 6)):
        reservation = {
            "id": f"cr-{rng.randint(1, 9)}{number}", "availabilityZone": rng.choice([*ZONES, ("us-west-2z", "")])[0],
            "instanceType": rng.choice(names), "instanceMatchCriteria": rng.choice(["open", "targeted"]), "ownerID": "123456789012",
            # Without a type the API server writes the default, which the oracle does not have.
            "reservationType": rng.choice(["default", "default", "capacity-block"]),
        }
        if maybe(rng, 0.5):
            reservation["state"] = rng.choice(["active", "active", "expiring"])
        if maybe(rng, 0.5):
            reservation["interruptible"] = maybe(rng, 0.5)
        if maybe(rng, 0.3):
            reservation["endTime"] = "2026-08-02T12:00:00Z"
        reservations.append(reservation)
    document["nodeClass"]["status"]["capacityReservations"] = reservations
    free = pick_some(rng, [reservation["id"] for reservation in reservations], len(reservations))
    document["reservations"] = {name: rng.choice([0, 1, 3, 100]) for name in free}
    if maybe(rng, 0.15):
        document.setdefault("options", {})["featureGates"] = {"ReservedCapacity": False}


def add_placement_groups(rng, document):
    """Adds placement groups, and a selector that finds one of them or none."""
    groups = []
    for number in (1, 2):
        group = {"GroupId": f"pg-{number}", "GroupName": f"group-{number}", "Strategy": rng.choice(["cluster", "partition", "partition", "spread"])}
        if group["Strategy"] == "partition":
            group["PartitionCount"] = rng.choice([0, 1, 3, 7])
        if group["Strategy"] == "spread":
            group["SpreadLevel"] = rng.choice(["rack", "host"])
        if maybe(rng, 0.2):
            group["State"] = rng.choice(["pending", "available", "deleting"])
        groups.append(group)
    document["placementGroups"] = groups
    document["nodeClass"]["spec"]["placementGroupSelector"] = rng.choice(
        [{"id": "pg-1"}, {"name": "group-1"}, {"name": "group-2"}, {"id": "pg-2"}, {"name": "pg-1"}, {"id": "pg-9"}])


MATRIX_CLASSES = {
    "AL2023": {"amiSelectorTerms": [{"alias": "al2023@latest"}]},
    "AL2": {"amiSelectorTerms": [{"alias": "al2@latest"}]},
    "Bottlerocket": {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]},
    "Windows2022": {"amiSelectorTerms": [{"alias": "windows2022@latest"}]},
    "Custom": {"amiFamily": "Custom", "amiSelectorTerms": [{"id": "ami-1"}]},
}
MATRIX_VARIANTS = {
    "default": {}, "maxPods": {"kubelet": {"maxPods": 42}}, "podsPerCore": {"kubelet": {"podsPerCore": 4}},
    "RAID0": {"instanceStorePolicy": "RAID0"},
}


def matrix():
    """Yields a name and a document over the whole catalogue for each AMI family and variant."""
    subnets = [{"id": f"subnet-{zone}", "zone": zone, "zoneID": zone_id} for zone, zone_id in ZONES]
    for family, spec in MATRIX_CLASSES.items():
        for variant, more in MATRIX_VARIANTS.items():
            yield f"{family}, {variant}", {"nodeClass": {"spec": {**spec, **more}, "status": {"subnets": subnets}}}


def options(rng):
    chosen = {}
    if maybe(rng, 0.3):
        chosen["region"] = rng.choice(["us-west-2", "us-east-1", "eu-central-1", "us-gov-west-1", "cn-north-1"])
    if maybe(rng, 0.3):
        chosen["vmMemoryOverheadPercent"] = rng.choice([0.0, 0.05, 0.075, 0.2])
    if maybe(rng, 0.3):
        chosen["reservedENIs"] = rng.choice([0, 1, 2, 20])
    if maybe(rng, 0.2):
        chosen["clusterCABundle"] = rng.choice(["", "YWJj"])
    if maybe(rng, 0.2):
        chosen["clusterDNS"] = rng.choice(["", "fd00:10::a", "172.20.0.10"])
    if maybe(rng, 0.1):
        chosen["clusterCIDR"] = rng.choice(["", "172.20.0.0/16", "fd00:10::/108"])
    if maybe(rng, 0.1):
        chosen["clusterName"] = "demo"
    return chosen


def hash_document(rng):
    document = {"nodeClass": node_class(rng)}
    if maybe(rng, 0.5):
        document["nodeClass"]["spec"]["userData"] = rng.choice(USER_DATA)
    if maybe(rng, 0.3):
        document["options"] = {"clusterCABundle": rng.choice(["", "YWJj"])}
    return document


def taints(rng):
    effects = ["NoSchedule", "NoExecute", "PreferNoSchedule"]
    found = []
    for number in range(rng.randint(0, 3)):
        taint = {"key": rng.choice([f"example.com/t{number}", "special", "karpenter.sh/unregistered"]), "effect": rng.choice(effects)}
        if maybe(rng, 0.6):
            taint["value"] = rng.choice(["true", "a", ""])
        found.append(taint)
    return found


def user_data_document(rng):
    document = {"nodeClass": node_class(rng), "maxPods": rng.choice([8, 29, 110, 737])}
    if maybe(rng, 0.5):
        document["nodeClass"]["spec"]["userData"] = rng.choice(USER_DATA)
    if maybe(rng, 0.3):
        name = rng.choice(["bottlerocket-aws-k8s-1.34-x86_64-v1.46.0-431fe75a", "bottlerocket-aws-k8s-1.34-aarch64-v1.40.0-1", "other"])
        document["nodeClass"]["status"] = {"amis": [{"id": "ami-1", "name": name, "requirements": []}]}
    if maybe(rng, 0.7):
        labels = {"team": "a", "kubernetes.io/os": "linux", "x.k8s.io/a": "b", "node-restriction.kubernetes.io/c": "d",
                  "karpenter.sh/nodepool": "default", "topology.k8s.aws/zone-id": "usw2-az1", "karpenter.k8s.aws/instance-cpu": "4"}
        claim = {"metadata": {"labels": {key: labels[key] for key in pick_some(rng, list(labels), 7)}}, "spec": {}}
        if maybe(rng, 0.5):
            claim["spec"]["taints"] = taints(rng)
        if maybe(rng, 0.4):
            claim["spec"]["startupTaints"] = taints(rng)
        document["nodeClaim"] = claim
    if maybe(rng, 0.3):
        document["capacityType"] = rng.choice(["spot", "on-demand", "reserved"])
    if maybe(rng, 0.5):
        document["options"] = options(rng)
    return document


def generate(question, rng, catalogue, allow_whole):
    """Returns a document for the question; the same for the same state of `rng`."""
    if question == "instance-types":
        return instance_types_document(rng, catalogue, allow_whole)
    if question == "hash":
        return hash_document(rng)
    return user_data_document(rng)
