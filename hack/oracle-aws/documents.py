"""Generates documents for the questions of spec 11."""

QUESTIONS = ["instance-types", "hash", "userdata", "ami", "nodeclass"]

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


ACCOUNT = "123456789012"
KUBERNETES_VERSIONS = ["1.30", "1.32", "1.33", "1.34", "1.35"]


def alias_parameters(family, version, kubernetes):
    """Returns the names of the SSM parameters of an alias (spec 05 section 12.1)."""
    eks = f"/aws/service/eks/optimized-ami/{kubernetes}"

    def pinned(prefix):
        return "recommended" if version == "latest" else f"{prefix}-{kubernetes}-{version}"

    if family == "al2":
        return [f"{eks}/amazon-linux-2{suffix}/{pinned(prefix)}/image_id" for suffix, prefix in (
            ("", "amazon-eks-node"), ("-arm64", "amazon-eks-arm64-node"), ("-gpu", "amazon-eks-gpu-node"))]
    if family == "al2023":
        variants = [("x86_64", "standard"), ("arm64", "standard"), ("x86_64", "nvidia"), ("arm64", "nvidia"), ("x86_64", "neuron")]
        return [f"{eks}/amazon-linux-2023/{arch}/{variant}/{pinned(f'amazon-eks-node-al2023-{arch}-{variant}')}/image_id"
                for arch, variant in variants]
    if family == "bottlerocket":
        number = version.removeprefix("v")
        return [f"/aws/service/bottlerocket/aws-k8s-{kubernetes}{variant}/{arch}/{number}/image_id"
                for variant in ("", "-nvidia") for arch in ("x86_64", "arm64")]
    return [f"/aws/service/ami-windows-latest/Windows_Server-{family.removeprefix('windows')}-English-Core-EKS_Optimized-{kubernetes}/image_id"]


def architecture_of(parameter):
    return "arm64" if "arm64" in parameter else "x86_64"


def image(rng, number, architecture=None):
    found = {
        "ImageId": f"ami-{number}", "Name": rng.choice(["my-image-1", "my-image-2", "other", "amazon-eks-node-1.34-v20250101"]),
        "Architecture": architecture or rng.choice(["x86_64", "x86_64", "arm64", "arm64", "i386"]),
        "OwnerId": rng.choice([ACCOUNT, ACCOUNT, "602401143452", "111111111111"]),
    }
    if maybe(rng, 0.95):
        found["CreationDate"] = f"2026-0{rng.randint(1, 6)}-1{rng.randint(0, 2)}T10:00:0{rng.randint(0, 1)}.{rng.randint(0, 1)}00Z"
    if found["OwnerId"] == "602401143452":
        found["ImageOwnerAlias"] = "amazon"
    if maybe(rng, 0.3):
        found["DeprecationTime"] = rng.choice(["2026-07-01T00:00:00.000Z", "2026-08-01T12:00:00.000Z", "2027-01-01T00:00:00.000Z"])
    if maybe(rng, 0.1):
        found["State"] = rng.choice(["available", "pending", "failed"])
    if maybe(rng, 0.7):
        tags = {"team": rng.choice(["a", "b", "a/b"]), "env": rng.choice(["dev", "prod"]), "kubernetes.io/arch": "amd64"}
        found["Tags"] = [{"Key": key, "Value": tags[key]} for key in pick_some(rng, list(tags), 3)]
    return found


def tag_term(rng):
    terms = [{"team": "a"}, {"team": "*"}, {"team": "a*", "env": "dev"}, {"env": "?rod"}, {"none": "x"}, {"kubernetes.io/arch": "amd64"}]
    return dict(rng.choice(terms))


def selected_images(rng):
    """Returns amiSelectorTerms and amiFamily, and images, parameters and options that fit them more or less."""
    images = [image(rng, number) for number in range(1, rng.randint(1, 8) + 1)]
    parameters, chosen, kubernetes = {}, {}, "1.34"
    if maybe(rng, 0.5):
        kubernetes = chosen["kubernetesVersion"] = rng.choice(KUBERNETES_VERSIONS)
    if maybe(rng, 0.5):
        family = rng.choice([*FAMILIES, "al2023", "al2023", "bottlerocket"])
        version = "latest" if family.startswith("windows") else rng.choice(["latest", "latest", "v20250101", "1.45.0", "v1.46.0"])
        for name in alias_parameters(family, version, kubernetes):
            number = len(images) + 1
            if maybe(rng, 0.85):
                parameters[name] = f"ami-{number}" if maybe(rng, 0.9) else rng.choice(["ami-1", "ami-missing"])
                images.append(image(rng, number, architecture_of(name) if maybe(rng, 0.95) else None))
            elif maybe(rng, 0.5):
                parameters[name] = rng.choice(["!AccessDeniedException", "!InternalServerError"])
        return [{"alias": f"{family}@{version}"}], None, images, parameters, chosen
    terms = []
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(["id", "id", "name", "tags", "tags", "ssm"])
        if kind == "id":
            terms.append({"id": f"ami-{rng.randint(1, 9)}"})
        elif kind == "ssm":
            name = rng.choice(["/my/image", "my-image", f"arn:aws:ssm:us-west-2:{ACCOUNT}:parameter/my/arn"])
            terms.append({"ssmParameter": name})
            if maybe(rng, 0.8):
                values = ["ami-1", "ami-2", "ami-9", "none", "!ParameterNotFound"]
                parameters[name] = rng.choice(values if maybe(rng, 0.9) else ["!InternalServerError", "!AccessDeniedException"])
        else:
            term = {"name": rng.choice(["my-image-*", "my-image-1", "other", "amazon-eks-*", "x"])} if kind == "name" else {"tags": tag_term(rng)}
            if kind == "name" and maybe(rng, 0.2):
                term["tags"] = tag_term(rng)
            if maybe(rng, 0.4):
                term["owner"] = rng.choice(["self", "amazon", ACCOUNT, "602401143452", "222222222222"])
            terms.append(term)
    return terms, rng.choice([*FAMILIES.values(), "AL2023", "Custom"]), images, parameters, chosen


def complete_images(rng):
    """Returns what selected_images returns, with an available image for every type."""
    images, parameters, chosen = [], {}, {}

    def add(architecture):
        images.append({**image(rng, len(images) + 1, architecture), "State": "available", "OwnerId": ACCOUNT})
        return images[-1]["ImageId"]

    if maybe(rng, 0.7):
        family = rng.choice(["al2", "al2023", "al2023", "bottlerocket", "windows2019", "windows2022", "windows2025"])
        kubernetes = chosen["kubernetesVersion"] = {"al2": "1.32", "windows2025": "1.35"}.get(family, rng.choice(["1.33", "1.34"]))
        version = "latest" if family.startswith("windows") else rng.choice(["latest", "v20250101", "1.46.0"])
        for name in alias_parameters(family, version, kubernetes):
            parameters[name] = add(architecture_of(name))
        return [{"alias": f"{family}@{version}"}], None, images, parameters, chosen
    terms = [{"id": add("x86_64")}, {"id": add("arm64")}]
    return terms, rng.choice(["AL2", "AL2023", "Bottlerocket", "Windows2022", "Custom"]), images, parameters, chosen


def failure(rng, codes):
    code, message = rng.choice(codes)
    return {"code": code, "message": message, "server": code.startswith("Internal")}


ORDINARY_FAILURES = [("InternalError", "An internal error has occurred"), ("RequestLimitExceeded", "Request limit exceeded."),
                     ("UnauthorizedOperation", "You are not authorized to perform this operation."), ("InvalidParameterValue", "no")]


def ami_document(rng):
    terms, family, images, parameters, chosen = selected_images(rng)
    spec = {"amiSelectorTerms": terms}
    if family:
        spec["amiFamily"] = family
    document = {"nodeClass": {"spec": spec}, "images": images, "parameters": parameters}
    if chosen:
        document["options"] = chosen
    if maybe(rng, 0.1):
        operation = rng.choice(["DescribeImages", "GetParameter"])
        document["fail"] = {operation: [rng.choice([None, failure(rng, ORDINARY_FAILURES)]) for _ in range(rng.randint(1, 3))]}
    return document


def valid_kubelet(rng, family):
    """Returns settings that Karpenter 1.14 and 1.15 both accept for the family."""
    fields = kubelet(rng)
    soft = fields.pop("evictionSoft", None)
    fields.pop("evictionSoftGracePeriod", None)
    if soft:
        fields["evictionSoft"] = soft
        fields["evictionSoftGracePeriod"] = {signal: rng.choice(["1m", "90s", "1h30m"]) for signal in soft}
    if family == "Bottlerocket":
        fields.pop("podsPerCore", None)
    if family not in ("AL2023", "Custom"):
        fields["clusterDNS"] = fields.get("clusterDNS", [])[:1]
    # Karpenter 1.14 drops empty maps and lists, 1.15 keeps them.
    return {name: value for name, value in fields.items() if value not in ({}, [])}


DRY_RUN_FAILURES = [
    *ORDINARY_FAILURES,
    ("UnauthorizedOperation", "You are not authorized: with an explicit deny in a service control policy"),
    ("UnauthorizedOperation", "no: with an explicit deny in a permissions boundary"),
    ("UnauthorizedOperation", "no: because no identity-based policy allows the ec2:CreateFleet action"),
    ("InsufficientInstanceCapacity", "none left"),
]
TEMPLATE_FAILURES = [
    *DRY_RUN_FAILURES, ("InvalidUserData.Malformed", "User data is limited to 16384 bytes"),
    ("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data"),
]
LIVE_FAILURES = {
    "DescribeSubnets": ORDINARY_FAILURES, "DescribeSecurityGroups": ORDINARY_FAILURES, "DescribeImages": ORDINARY_FAILURES,
    "DescribeLaunchTemplates": ORDINARY_FAILURES, "CreateLaunchTemplate": TEMPLATE_FAILURES, "CreateFleet(dry run)": DRY_RUN_FAILURES,
    "RunInstances(dry run)": DRY_RUN_FAILURES, "GetInstanceProfile": [("InternalFailure", "no"), ("NoSuchEntity", "gone"), ("AccessDenied", "no")],
    "CreateInstanceProfile": [("LimitExceeded", "no"), ("InternalFailure", "no")],
    "AddRoleToInstanceProfile": [("LimitExceeded", "no"), ("InternalFailure", "no"), ("UnmodifiableEntity", "no")],
    "DescribeCapacityReservations": [*ORDINARY_FAILURES, ("InvalidCapacityReservationId.NotFound", "cr-9")],
    # Not InvalidPlacementGroup.Unknown, which counts as an empty answer (spec 06 section 12).
    "DescribePlacementGroups": ORDINARY_FAILURES,
}


def network(rng, document, spec):
    """Adds subnets and groups, and the terms that select some of them."""
    document["subnets"] = [
        {"SubnetId": f"subnet-{number}", "AvailabilityZone": zone, "AvailabilityZoneId": zone_id,
         "AvailableIpAddressCount": rng.choice([0, 5, 100, 100, 4000]),
         "Tags": [{"Key": "karpenter.sh/discovery", "Value": "demo"}, {"Key": "tier", "Value": rng.choice(["a", "b"])}]}
        for number, (zone, zone_id) in enumerate(rng.choices(ZONES, k=rng.randint(1, 5)), 1)]
    document["securityGroups"] = [
        {"GroupId": f"sg-{number}", "GroupName": f"group-{number}", "Tags": [{"Key": "karpenter.sh/discovery", "Value": rng.choice(["demo", "demo", "demo", "x"])}]}
        for number in range(1, rng.randint(1, 4) + 1)]
    discovery = {"tags": {"karpenter.sh/discovery": "demo"}}
    subnet_terms = [discovery, discovery, discovery, {"id": "subnet-1"}, {"id": "subnet-2"}, {"tags": {"tier": "a"}}, {"tags": {"tier": "*", "karpenter.sh/discovery": "d*"}}]
    group_terms = [discovery, discovery, discovery, {"id": "sg-1"}, {"id": "sg-2"}, {"name": "group-1"}, {"name": "group-2"}]
    # Equal terms once: Karpenter asks once for each.
    spec["subnetSelectorTerms"] = unique(rng.choices(subnet_terms, k=rng.choice([1, 1, 2])))
    spec["securityGroupSelectorTerms"] = unique(rng.choices(group_terms, k=rng.choice([1, 1, 2])))


def unique(items):
    return [item for number, item in enumerate(items) if item not in items[:number]]


def node_pool(rng, name):
    requirements = []
    if maybe(rng, 0.3):
        requirements.append({"key": "karpenter.k8s.aws/instance-tenancy", "operator": "In", "values": rng.choice([["default"], ["dedicated"], ["default", "dedicated"]])})
    if maybe(rng, 0.3):
        requirements.append({"key": "karpenter.sh/capacity-type", "operator": "In", "values": rng.choice([["spot"], ["on-demand"]])})
    template = {"spec": {"requirements": requirements}}
    if maybe(rng, 0.3):
        template["metadata"] = {"labels": {"team": "a"}}
    return {"metadata": {"name": name}, "spec": {"template": template}}


RESERVATION_TAGS = [{}, {"team": "a"}, {"team": "a", "env": "dev"}, {"team": "b"}]


def described_reservations(rng, types):
    """Returns capacity reservations as EC2 describes them."""
    found = []
    for number in range(1, rng.randint(0, 6) + 1):
        reservation = {
            "CapacityReservationId": f"cr-{number}", "InstanceType": rng.choice([*types, "m5.large"]), "AvailabilityZone": rng.choice(ZONES)[0],
            "OwnerId": rng.choice([ACCOUNT, ACCOUNT, "222222222222"]), "InstanceMatchCriteria": rng.choice(["open", "targeted"]),
            "TotalInstanceCount": 10, "AvailableInstanceCount": rng.choice([0, 1, 10]),
            "Tags": [{"Key": key, "Value": value} for key, value in rng.choice(RESERVATION_TAGS).items()],
        }
        if maybe(rng, 0.8):
            reservation["ReservationType"] = rng.choice(["default", "default", "capacity-block"])
        if maybe(rng, 0.3):
            reservation["State"] = rng.choice(["active", "expired", "scheduled", "cancelled"])
        if maybe(rng, 0.3):
            reservation["Interruptible"] = maybe(rng, 0.5)
        if maybe(rng, 0.05):
            reservation["InstanceMatchCriteria" if maybe(rng, 0.5) else "ReservationType"] = "future"
        if maybe(rng, 0.4):
            reservation["EndDate"] = rng.choice([
                "2026-08-01T11:00:00Z", "2026-08-01T12:00:00Z", "2026-08-01T12:00:30Z", "2026-08-01T12:20:00Z", "2026-08-01T12:40:00Z",
                "2026-08-01T12:40:01Z", "2026-08-02T12:00:00Z"])
        found.append(reservation)
    return found


def reservation_term(rng):
    if maybe(rng, 0.4):
        return {"id": f"cr-{rng.randint(1, 7)}"}
    term = {}
    if maybe(rng, 0.7):
        term["tags"] = rng.choice([{"team": "a"}, {"team": "*"}, {"team": "a", "env": "dev"}, {"env": "*"}, {"none": "x"}])
    if maybe(rng, 0.4) or not term:
        term["instanceMatchCriteria"] = rng.choice(["open", "targeted"])
    if maybe(rng, 0.4):
        term["ownerID"] = rng.choice([ACCOUNT, "222222222222"])
    return term


def select_reserved_capacity(rng, document, spec):
    """Adds reservations and placement groups to the account, and the terms that select some of them or none."""
    if maybe(rng, 0.5):
        document["capacityReservations"] = described_reservations(rng, document["instanceTypes"])
        # Equal terms once: Karpenter asks once for each.
        spec["capacityReservationSelectorTerms"] = unique([reservation_term(rng) for _ in range(rng.randint(0, 3))])
    if maybe(rng, 0.35):
        add_placement_groups(rng, document)


def node_class_document(rng):
    """Returns one run of the controller. At most one type qualifies for the dry runs: with several, Karpenter takes any."""
    terms, family, images, parameters, chosen = complete_images(rng) if maybe(rng, 0.8) else selected_images(rng)
    spec = node_class(rng)["spec"]
    spec.pop("placementGroupSelector", None)
    for name in ("role", "instanceProfile", "kubelet", "amiFamily"):
        spec.pop(name, None)
    # Without an EBS section Karpenter crashes, and it changes a size with a fraction while it computes.
    for device in spec.get("blockDeviceMappings", []):
        if device["ebs"].get("volumeSize") == "1.5Gi":
            device["ebs"]["volumeSize"] = "2Gi"
    spec["amiSelectorTerms"] = terms
    if family:
        spec["amiFamily"] = family
    document = {"nodeClass": {"spec": spec}, "images": images, "parameters": parameters, "options": chosen}
    if maybe(rng, 0.4):
        spec["kubelet"] = valid_kubelet(rng, family_of(document))
    if maybe(rng, 0.3):
        spec["userData"] = rng.choice(USER_DATA)
    network(rng, document, spec)
    document["instanceTypes"] = rng.choice([["m5.large"], ["m5.large"], ["m6g.large"], ["g5.48xlarge"], ["c6g.large"], ["m5.large", "g4dn.8xlarge"], ["inf2.48xlarge"]])
    select_reserved_capacity(rng, document, spec)
    status = document["nodeClass"]["status"] = {}
    if maybe(rng, 0.1):
        status["capacityReservations"] = [{
            "id": "cr-0", "availabilityZone": "us-west-2a", "instanceType": "m5.large", "instanceMatchCriteria": "open", "ownerID": ACCOUNT,
            "reservationType": "default", "interruptible": False, "state": "active"}]
    document["profiles"] = {"profile-1": "role-1", "profile-2": "", "profile-3": "role-3"}
    if maybe(rng, 0.75):
        spec["role"] = rng.choice(["role-1", "role-1", "role-3"])
        if maybe(rng, 0.7):
            status["instanceProfile"] = rng.choice(["profile-1", "profile-1", "profile-2", "profile-3", "profile-9"])
        elif maybe(rng, 0.2):
            spec["role"] = "my/path/role-1"
    else:
        spec["instanceProfile"] = "profile-1"
    if maybe(rng, 0.5):
        document["nodePools"] = [node_pool(rng, f"pool-{number}") for number in range(rng.randint(1, 2))]
    if maybe(rng, 0.05):
        spec["tags"] = {rng.choice(["karpenter.sh/nodepool", "eks:eks-cluster-name", "kubernetes.io/cluster/demo"]): "x"}
    if maybe(rng, 0.15):
        chosen["disableDryRun"] = True
    if maybe(rng, 0.1):
        chosen["featureGates"] = {"ReservedCapacity": False}
    if maybe(rng, 0.3):
        chosen.update({name: value for name, value in options(rng).items() if name != "region"})
    if maybe(rng, 0.1):
        chosen["isolatedVPC"] = True
    metadata = document["nodeClass"]["metadata"] = {}
    if maybe(rng, 0.6):
        metadata["finalizers"] = ["karpenter.k8s.aws/termination"]
    if maybe(rng, 0.2):
        metadata["annotations"] = {"a": "b"}
    if maybe(rng, 0.12):
        metadata["deletionTimestamp"] = "2026-08-01T11:00:00Z"
        metadata["finalizers"] = ["karpenter.k8s.aws/termination"]
        document["nodeClaims"] = [{"metadata": {"name": f"claim-{number}"}} for number in range(rng.choice([0, 0, 1, 3, 7]))]
    if maybe(rng, 0.35):
        operation = rng.choice([*LIVE_FAILURES, "CreateLaunchTemplate", "CreateFleet(dry run)", "RunInstances(dry run)"])
        document["fail"] = {operation: [rng.choice([None, failure(rng, LIVE_FAILURES[operation])]) if maybe(rng, 0.3)
                                        else failure(rng, LIVE_FAILURES[operation]) for _ in range(rng.randint(1, 5))]}
    if maybe(rng, 0.08) and "deletionTimestamp" not in metadata and spec.get("role"):
        document["fail"] = {"RunInstances(dry run)": [failure(rng, [("InvalidParameterValue", "Value (profile-1) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name")]) for _ in range(5)]}
    if maybe(rng, 0.06):
        chosen["clusterCIDR"] = ""
        document["fail"] = {"DescribeCluster": [None, failure(rng, [("InternalFailure", "no"), ("AccessDeniedException", "no")])]} if maybe(rng, 0.6) else {}
    return document


def generate(question, rng, catalogue, allow_whole):
    """Returns a document for the question; the same for the same state of `rng`."""
    if question == "instance-types":
        return instance_types_document(rng, catalogue, allow_whole)
    if question == "hash":
        return hash_document(rng)
    if question == "ami":
        return ami_document(rng)
    if question == "nodeclass":
        return node_class_document(rng)
    return user_data_document(rng)
