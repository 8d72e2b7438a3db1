#!/usr/bin/env python3
"""Calls every operation of an EC2 in memory over HTTP with boto3, and compares each raw answer with botocore's service models.

  wire-check.py http://127.0.0.1:4566       check a server that runs already
  wire-check.py --run program [argument …]  start the program, which prints its endpoint first, and stop it at the end

Prints one line for each operation and a closing count. Exits 1 if an answer differs from the models, if an operation has another result than
expected, or if fewer operations are called than the server has.
"""

import base64
import datetime
import json
import os
import re
import select
import subprocess
import sys
import time
import urllib.request

import boto3
import botocore.config
import botocore.exceptions

from wire_model import check_answer, check_error

REGION = "us-west-2"
# Time in which a started server must print its endpoint.
START_SECONDS = 60
# Operations that the server has.
OPERATIONS = 33
SERVICES = ("ec2", "iam", "ssm", "eks", "sqs", "sts", "pricing", "arc-zonal-shift")
# The region in which AWS has the price list of us-west-2.
PRICING_REGION = "us-east-1"
CLUSTER = "demo"
USER_DATA = "MIME-Version: 1.0\r\n<&> ü\n"


class WireCheck:
    def __init__(self, endpoint):
        self.endpoint = endpoint
        self.last = None
        self.findings = 0
        self.operations = set()
        self.calls = 0
        self.clients = {service: self.client(service) for service in SERVICES}

    def client(self, service, **options):
        """Returns a client whose raw answers are stored in `self.last`."""
        settings = {
            "endpoint_url": self.endpoint,
            "region_name": PRICING_REGION if service == "pricing" else REGION,
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
            "config": botocore.config.Config(
                connect_timeout=5, read_timeout=30, retries={"max_attempts": 1, "mode": "standard"}, **options.pop("config", {})
            ),
        }
        client = boto3.session.Session().client(service, **{**settings, **options})
        client.meta.events.register("before-parse.*.*", self.store)
        return client

    def store(self, operation_model, response_dict, **_):
        self.last = (operation_model, response_dict["status_code"], response_dict["headers"], response_dict["body"])

    def call(self, service, method, expect=None, client=None, **parameters):
        """Calls an operation, checks its raw answer and prints a line. `expect` is the error code of a call that must fail."""
        client = client or self.clients[service]
        operation = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[method])
        self.last = None
        findings = []
        answer = None
        try:
            answer = getattr(client, method)(**parameters)
            code = None
        except botocore.exceptions.ClientError as error:
            code = error.response["Error"]["Code"]
        except botocore.exceptions.BotoCoreError as error:
            code = type(error).__name__
            findings.append(f"boto3 cannot read the answer: {error}")
        if code != expect:
            findings.append(f"result {code or 'success'}, expected {expect or 'success'}")
        size = 0
        if self.last is None:
            findings.append("no answer")
        else:
            model, status, headers, body = self.last
            size = len(body)
            if code is None:
                findings += check_answer(model, body)
            else:
                findings += check_error(model, status, headers, body, code)
            if not headers.get("x-amzn-requestid"):
                findings.append("no request ID in the headers")
        self.operations.add(f"{service}:{operation.name}")
        self.calls += 1
        self.findings += len(findings)
        print(f"{service:15} {operation.name:30} {code or 'ok':45} {size:9} bytes  {len(findings)} findings")
        for finding in findings[:20]:
            print(f"     {finding}")
        return answer

    def expect(self, text, actual, expected):
        if actual != expected:
            self.findings += 1
            print(f"     {text}: {actual!r}, expected {expected!r}")

    def get(self, path):
        with urllib.request.urlopen(self.endpoint + path, timeout=10) as answer:
            return answer.read().decode()


def check_catalogue(check):
    check.call("ec2", "describe_regions")
    zones = check.call("ec2", "describe_availability_zones")
    check.expect("zones", [zone["ZoneId"] for zone in zones["AvailabilityZones"]], ["usw2-az1", "usw2-az2", "usw2-az3"])
    hvm = [{"Name": "supported-virtualization-type", "Values": ["hvm"]}]
    types, token = [], None
    while True:
        page = check.call("ec2", "describe_instance_types", Filters=hvm, MaxResults=100, **({"NextToken": token} if token else {}))
        types += page["InstanceTypes"]
        token = page.get("NextToken")
        if not token:
            break
    check.expect("more than 1,000 types", len(types) > 1000, True)
    by_name = {info["InstanceType"]: info for info in types}
    check.expect("vCPUs of m5.large", by_name["m5.large"]["VCpuInfo"]["DefaultVCpus"], 2)
    check.expect("GPUs of g5.12xlarge", by_name["g5.12xlarge"]["GpuInfo"]["Gpus"][0]["Count"], 4)
    one = check.call("ec2", "describe_instance_types", InstanceTypes=["m5.large"])
    check.expect("types by name", [info["InstanceType"] for info in one["InstanceTypes"]], ["m5.large"])
    check.call("ec2", "describe_instance_types", expect="InvalidInstanceType", InstanceTypes=["m5.tiny"])
    check.call("ec2", "describe_instance_types", expect="DryRunOperation", DryRun=True)
    offerings = check.call("ec2", "describe_instance_type_offerings", LocationType="availability-zone", MaxResults=1000)
    check.expect("page of offerings", (len(offerings["InstanceTypeOfferings"]), bool(offerings.get("NextToken"))), (1000, True))


def check_prices(check):
    now = datetime.datetime.now(datetime.timezone.utc)
    history = check.call("ec2", "describe_spot_price_history", ProductDescriptions=["Linux/UNIX"], StartTime=now, MaxResults=1000)
    check.expect("page of spot prices", (len(history["SpotPriceHistory"]), bool(history["NextToken"])), (1000, True))
    none = check.call("ec2", "describe_spot_price_history", ProductDescriptions=["Windows"])
    check.expect("spot prices of Windows", (none["SpotPriceHistory"], none["NextToken"]), ([], ""))
    on_demand = {
        "regionCode": REGION, "serviceCode": "AmazonEC2", "preInstalledSw": "NA", "operatingSystem": "Linux", "capacitystatus": "Used",
        "marketoption": "OnDemand", "tenancy": "Shared", "productFamily": "Compute Instance",
    }
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in on_demand.items()]
    page = check.call("pricing", "get_products", ServiceCode="AmazonEC2", Filters=filters, MaxResults=100)
    check.expect("page of products", (len(page["PriceList"]), bool(page.get("NextToken"))), (100, True))
    check.call("pricing", "get_products", ServiceCode="AmazonEC2", Filters=filters, MaxResults=100, NextToken=page["NextToken"])
    m5 = filters + [{"Type": "TERM_MATCH", "Field": "instanceType", "Value": "m5.large"}]
    [product] = map(json.loads, check.call("pricing", "get_products", ServiceCode="AmazonEC2", Filters=m5)["PriceList"])
    [term] = product["terms"]["OnDemand"].values()
    [dimension] = term["priceDimensions"].values()
    check.expect("price of m5.large", float(dimension["pricePerUnit"]["USD"]), 0.096)
    check.call("pricing", "get_products", expect="InvalidParameterException", ServiceCode="AmazonEC2", FormatVersion="aws_v2")


def check_reserved(check):
    """Checks what the account has by itself: a capacity reservation, three placement groups, and a cluster that is enabled for zonal shift."""
    active = [{"Name": "state", "Values": ["active"]}]
    [reservation] = check.call("ec2", "describe_capacity_reservations", Filters=active, MaxResults=1000)["CapacityReservations"]
    ids = [reservation["CapacityReservationId"]]
    check.call("ec2", "describe_capacity_reservations", CapacityReservationIds=ids)
    not_found = "InvalidCapacityReservationId.NotFound"
    check.call("ec2", "describe_capacity_reservations", expect=not_found, CapacityReservationIds=["cr-1"])
    groups = check.call("ec2", "describe_placement_groups")["PlacementGroups"]
    check.expect("strategies", sorted(group["Strategy"] for group in groups), ["cluster", "partition", "spread"])
    check.call("ec2", "describe_placement_groups", GroupNames=[groups[0]["GroupName"]])
    check.call("ec2", "describe_placement_groups", expect="InvalidPlacementGroup.Unknown", GroupNames=["absent"])
    arn = check.call("eks", "describe_cluster", name=CLUSTER)["cluster"]["arn"]
    resource = check.call("arc-zonal-shift", "get_managed_resource", resourceIdentifier=arn)
    check.expect("shifts", resource["zonalShifts"], [])
    check.call("arc-zonal-shift", "get_managed_resource", expect="ResourceNotFoundException", resourceIdentifier=f"{arn}-2")


def check_messages(check):
    url = check.call("sqs", "get_queue_url", QueueName=CLUSTER)["QueueUrl"]
    check.call("sqs", "get_queue_url", expect="QueueDoesNotExist", QueueName="absent")
    none = check.call("sqs", "receive_message", QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=20, WaitTimeSeconds=1,
                      MessageSystemAttributeNames=["SentTimestamp"], MessageAttributeNames=["All"])
    check.expect("messages", none.get("Messages"), None)
    check.call("sqs", "delete_message", expect="ReceiptHandleIsInvalid", QueueUrl=url, ReceiptHandle="x")


def check_network(check):
    discovery = [{"Name": "tag:karpenter.sh/discovery", "Values": [CLUSTER]}]
    subnets = check.call("ec2", "describe_subnets", Filters=discovery, MaxResults=500)["Subnets"]
    check.expect("number of subnets", len(subnets), 3)
    check.call("ec2", "describe_subnets", expect="InvalidParameterValue", Filters=[{"Name": "colour", "Values": ["red"]}])
    check.call("ec2", "describe_subnets", expect="InvalidSubnetID.NotFound", SubnetIds=["subnet-1"])
    one = check.call("ec2", "describe_subnets", SubnetIds=[subnets[0]["SubnetId"]])["Subnets"]
    check.expect("subnet by ID", one, subnets[:1])
    check.call("ec2", "describe_subnets", expect="DryRunOperation", DryRun=True)
    groups = check.call("ec2", "describe_security_groups", Filters=discovery, MaxResults=500)["SecurityGroups"]
    check.expect("number of groups", len(groups), 1)
    check.call("ec2", "describe_security_groups", GroupIds=[groups[0]["GroupId"]])
    return sorted(subnet["SubnetId"] for subnet in subnets), groups[0]["GroupId"]


def check_images(check):
    path = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id"
    image = check.call("ssm", "get_parameter", Name=path)["Parameter"]["Value"]
    check.call("ssm", "get_parameter", expect="ParameterNotFound", Name="/absent")
    found = check.call("ec2", "describe_images", Filters=[{"Name": "image-id", "Values": [image]}], IncludeDeprecated=True, MaxResults=1000)
    check.expect("image", [(own["ImageId"], own["Architecture"]) for own in found["Images"]], [(image, "x86_64")])
    check.call("ec2", "describe_images", Owners=["amazon", "self"])
    check.call("ec2", "describe_images", ImageIds=[image])
    return image


def check_profiles(check):
    name, role = "demo-profile", f"KarpenterNodeRole-{CLUSTER}"
    tags = [{"Key": "karpenter.k8s.aws/ec2nodeclass", "Value": "default"}, {"Key": "a", "Value": ""}]
    check.call("iam", "get_instance_profile", expect="NoSuchEntity", InstanceProfileName=name)
    path = "/karpenter/us-west-2/demo/uid/"
    created = check.call("iam", "create_instance_profile", InstanceProfileName=name, Path=path, Tags=tags)["InstanceProfile"]
    check.expect("ARN", created["Arn"], f"arn:aws:iam::111122223333:instance-profile{path}{name}")
    check.call("iam", "create_instance_profile", expect="EntityAlreadyExists", InstanceProfileName=name)
    check.call("iam", "add_role_to_instance_profile", expect="NoSuchEntity", InstanceProfileName=name, RoleName="absent")
    check.call("iam", "add_role_to_instance_profile", InstanceProfileName=name, RoleName=role)
    profile = check.call("iam", "get_instance_profile", InstanceProfileName=name)["InstanceProfile"]
    check.expect("roles", [own["RoleName"] for own in profile["Roles"]], [role])
    check.expect("tags", sorted(own["Key"] for own in profile["Tags"]), ["a", "karpenter.k8s.aws/ec2nodeclass"])
    check.call("iam", "create_instance_profile", InstanceProfileName="other", Tags=[])
    page = check.call("iam", "list_instance_profiles", PathPrefix="/", MaxItems=1)
    check.expect("first page", (len(page["InstanceProfiles"]), page["IsTruncated"]), (1, True))
    page = check.call("iam", "list_instance_profiles", PathPrefix="/", MaxItems=1, Marker=page["Marker"])
    check.expect("last page", (len(page["InstanceProfiles"]), page["IsTruncated"]), (1, False))
    check.call("iam", "delete_instance_profile", expect="DeleteConflict", InstanceProfileName=name)
    check.call("iam", "remove_role_from_instance_profile", InstanceProfileName=name, RoleName=role)
    check.call("iam", "delete_instance_profile", InstanceProfileName="other")
    check.call("iam", "add_role_to_instance_profile", InstanceProfileName=name, RoleName=role)
    return name


def template_data(image, group, profile):
    """Returns a launch template with every member that Kerf sends, except those of reservations and placement groups."""
    tags = [{"Key": "team", "Value": "a & b"}]
    return {
        "ImageId": image,
        "IamInstanceProfile": {"Name": profile},
        "Monitoring": {"Enabled": True},
        "UserData": base64.b64encode(USER_DATA.encode()).decode(),
        "BlockDeviceMappings": [
            {
                "DeviceName": "/dev/xvda",
                "Ebs": {
                    "DeleteOnTermination": True, "Encrypted": True, "Iops": 3000, "KmsKeyId": "key", "SnapshotId": "snap-1",
                    "Throughput": 125, "VolumeInitializationRate": 100, "VolumeSize": 20, "VolumeType": "gp3",
                },
            }
        ],
        "MetadataOptions": {
            "HttpEndpoint": "enabled", "HttpProtocolIpv6": "disabled", "HttpPutResponseHopLimit": 1, "HttpTokens": "required",
            "InstanceMetadataTags": "disabled",
        },
        "CpuOptions": {"NestedVirtualization": "disabled"},
        "NetworkInterfaces": [
            {
                "NetworkCardIndex": 0, "DeviceIndex": 0, "InterfaceType": "interface", "Groups": [group],
                "AssociatePublicIpAddress": False, "Ipv4PrefixCount": 1, "Ipv6PrefixCount": 0, "Ipv6AddressCount": 0, "PrimaryIpv6": False,
                "ConnectionTrackingSpecification": {"TcpEstablishedTimeout": 300, "UdpStreamTimeout": 60, "UdpTimeout": 30},
            }
        ],
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in ("network-interface", "spot-instances-request")],
        "Placement": {"Tenancy": "default"},
        "EnclaveOptions": {"Enabled": False},
        "CapacityReservationSpecification": {"CapacityReservationPreference": "none"},
    }


def check_launch(check, subnets, group, image, profile):
    name = "karpenter.k8s.aws/1"
    template_tags = [{"ResourceType": "launch-template", "Tags": [{"Key": "eks:eks-cluster-name", "Value": CLUSTER}]}]
    create = {"LaunchTemplateName": name, "LaunchTemplateData": template_data(image, group, profile), "TagSpecifications": template_tags}
    template = check.call("ec2", "create_launch_template", ClientToken="token-1", **create)["LaunchTemplate"]
    check.call("ec2", "create_launch_template", expect="InvalidLaunchTemplateName.AlreadyExistsException", **create)
    wrong = {**create, "LaunchTemplateName": "other", "LaunchTemplateData": {"KeyName": "mine"}}
    check.call("ec2", "create_launch_template", expect="UnknownParameter", **wrong)
    not_found = "InvalidLaunchTemplateName.NotFoundException"
    check.call("ec2", "describe_launch_templates", expect=not_found, LaunchTemplateNames=["absent"])
    found = check.call("ec2", "describe_launch_templates", LaunchTemplateNames=[name])["LaunchTemplates"]
    check.expect("template", [own["LaunchTemplateId"] for own in found], [template["LaunchTemplateId"]])
    by_tag = [{"Name": "tag:eks:eks-cluster-name", "Values": [CLUSTER]}]
    check.call("ec2", "describe_launch_templates", Filters=by_tag, MaxResults=200)

    def fleet(target, types, count=1, **options):
        overrides = [
            {"InstanceType": kind, "SubnetId": subnet, "ImageId": image, "AvailabilityZone": f"{REGION}{zone}", "Priority": 0.096}
            for kind in types
            for subnet, zone in zip(subnets, "abc")
        ]
        specification = {"LaunchTemplateName": name, "Version": "$Latest"}
        tags = [{"Key": "karpenter.sh/nodepool", "Value": "default"}]
        return {
            "Type": "instant",
            "LaunchTemplateConfigs": [{"LaunchTemplateSpecification": specification, "Overrides": overrides}],
            "TargetCapacitySpecification": {"TotalTargetCapacity": count, "DefaultTargetCapacityType": target},
            "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in ("instance", "volume", "fleet")],
            **options,
        }

    check.call("ec2", "create_fleet", expect="DryRunOperation", DryRun=True, **fleet("on-demand", ["m5.large"]))
    run = {
        "MinCount": 1, "MaxCount": 1, "InstanceType": "m5.large", "LaunchTemplate": {"LaunchTemplateName": name, "Version": "$Latest"},
        "NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": subnets[0]}],
    }
    check.call("ec2", "run_instances", expect="DryRunOperation", DryRun=True, **run)
    launched = check.call("ec2", "run_instances", **run)
    check.call("ec2", "terminate_instances", InstanceIds=[launched["Instances"][0]["InstanceId"]])
    on_demand = check.call(
        "ec2", "create_fleet", ClientToken="token-2",
        **fleet("on-demand", ["m5.large"], count=2, OnDemandOptions={"AllocationStrategy": "lowest-price"}),
    )
    spot_options = {"AllocationStrategy": "price-capacity-optimized"}
    spot = check.call("ec2", "create_fleet", **fleet("spot", ["m5.large", "c5.large"], SpotOptions=spot_options, Context="c"))
    check.expect("lifecycle", spot["Instances"][0]["Lifecycle"], "spot")
    failed = check.call("ec2", "create_fleet", **fleet("on-demand", ["m6g.large"]))
    check.expect("errors", {error["ErrorCode"] for error in failed["Errors"]}, {"InvalidParameterValue"})
    interruptible = {"ReservationTypes": ["interruptible-capacity-reservation"]}
    reserved = check.call("ec2", "create_fleet", **fleet("reserved-capacity", ["m5.large"], ReservedCapacityOptions=interruptible))
    check.expect("errors", {error["ErrorCode"] for error in reserved["Errors"]}, {"ReservationCapacityExceeded"})
    check.call("ec2", "create_fleet", expect="InvalidParameterValue", **{**fleet("on-demand", ["m5.large"]), "Type": "maintain"})
    ids = [own for answer in (on_demand, spot) for launched in answer["Instances"] for own in launched["InstanceIds"]]
    check.expect("number of instances", len(ids), 3)

    check.call("ec2", "create_tags", Resources=ids[:1], Tags=[{"Key": "Name", "Value": "<first> & \"only\""}])
    check.call("ec2", "create_tags", expect="InvalidInstanceID.NotFound", Resources=["i-0123456789abcdef0"], Tags=[{"Key": "a", "Value": "b"}])
    answer = check.call("ec2", "describe_instances", InstanceIds=ids)
    instances = {own["InstanceId"]: own for reservation in answer["Reservations"] for own in reservation["Instances"]}
    check.expect("described instances", sorted(instances), sorted(ids))
    tags = {tag["Key"]: tag["Value"] for tag in instances[ids[0]]["Tags"]}
    check.expect("tag with markup", tags["Name"], "<first> & \"only\"")
    check.expect("spot", instances[ids[2]].get("InstanceLifecycle"), "spot")
    by_state = [{"Name": "instance-state-name", "Values": ["pending", "running"]}, {"Name": "tag:karpenter.sh/nodepool", "Values": ["*"]}]
    check.call("ec2", "describe_instances", Filters=by_state, MaxResults=1000)
    check.call("ec2", "describe_instance_status", Filters=[{"Name": "instance-status.status", "Values": ["impaired"]}], MaxResults=1000)
    check.call("ec2", "describe_instance_status")
    check.call("ec2", "describe_instances", expect="InvalidInstanceID.NotFound", InstanceIds=["i-0123456789abcdef0"])
    check.call("ec2", "describe_instances", expect="InvalidInstanceID.Malformed", InstanceIds=["x"])
    for instance in json.loads(check.get("/kerf/instances")):
        check.expect("user data", instance["userData"], USER_DATA)
    changes = check.call("ec2", "terminate_instances", InstanceIds=ids)["TerminatingInstances"]
    check.expect("states", {change["CurrentState"]["Name"] for change in changes}, {"shutting-down"})
    check.call("ec2", "describe_instances", InstanceIds=ids)
    check.call("ec2", "delete_launch_template", LaunchTemplateName=name)
    check.call("ec2", "delete_launch_template", expect="InvalidLaunchTemplateId.NotFound", LaunchTemplateId=template["LaunchTemplateId"])


def check_access(check):
    from botocore import UNSIGNED

    unsigned = {"config": {"signature_version": UNSIGNED}}
    for service, method, parameters, code in [
        ("ec2", "describe_subnets", {}, "AuthFailure"),
        ("iam", "list_instance_profiles", {}, "MissingAuthenticationToken"),
        ("ssm", "get_parameter", {"Name": "x"}, "MissingAuthenticationTokenException"),
        ("eks", "describe_cluster", {"name": CLUSTER}, "MissingAuthenticationTokenException"),
    ]:
        check.call(service, method, expect=code, client=check.client(service, **unsigned), **parameters)
    elsewhere = {"region_name": "eu-west-1"}
    check.call("ec2", "describe_subnets", expect="AuthFailure", client=check.client("ec2", **elsewhere))
    check.call("ssm", "get_parameter", expect="InvalidSignatureException", client=check.client("ssm", **elsewhere), Name="x")
    check.call("eks", "describe_cluster", expect="InvalidSignatureException", client=check.client("eks", **elsewhere), name="x")
    # Operations that the server does not have are not counted as operations of the server.
    known = set(check.operations)
    check.call("ec2", "describe_volumes", expect="InvalidAction")
    check.call("iam", "list_users", expect="InvalidAction")
    check.call("ssm", "describe_parameters", expect="UnknownOperationException")
    check.call("eks", "list_clusters", expect="UnknownOperationException")
    check.operations = known


def check_the_checker(check):
    """Alters answers in ways that must be found: a check that finds nothing would pass everything."""
    cluster = {"name": CLUSTER}
    alterations = [
        ("ec2", "describe_subnets", {}, b"vpcId>", b"vpc>"),
        ("ec2", "describe_subnets", {}, b"<availableIpAddressCount>", b"<availableIpAddressCount>many"),
        ("ec2", "describe_subnets", {}, b"<state>available", b"<state>idle"),
        ("ec2", "describe_subnets", {}, b"item>", b"member>"),
        ("iam", "list_instance_profiles", {}, b"<IsTruncated>false", b"<IsTruncated>no"),
        ("iam", "list_instance_profiles", {}, b"<Path>/", b"<Path><Path>/</Path>"),
        ("iam", "list_instance_profiles", {}, b"<IsTruncated>", b"<InstanceProfiles><member/></InstanceProfiles><IsTruncated>"),
        ("iam", "list_instance_profiles", {}, b"<CreateDate>2", b"<CreateDate>on 2"),
        ("eks", "describe_cluster", cluster, b'"ACTIVE"', b'"ASLEEP"'),
        ("pricing", "get_products", {"ServiceCode": "AmazonEC2", "MaxResults": 1}, b'"FormatVersion"', b'"Format"'),
        ("ec2", "describe_placement_groups", {}, b"<spreadLevel>rack", b"<spreadLevel>planet"),
        ("eks", "describe_cluster", cluster, b'"version"', b'"versions"'),
        ("eks", "describe_cluster", cluster, b'"1.34"', b"1.34"),
    ]
    for service, method, parameters, text, altered_text in alterations:
        check.call(service, method, **parameters)
        model, _, _, body = check.last
        altered = body.replace(text, altered_text)
        is_found = altered != body and bool(check_answer(model, altered))
        check.expect(f"the altered answer with {altered_text!r} is found", is_found, True)


def run_check(endpoint):
    check = WireCheck(endpoint)
    identity = check.call("sts", "get_caller_identity")
    check.expect("account", identity["Account"], "111122223333")
    cluster = check.call("eks", "describe_cluster", name=CLUSTER)["cluster"]
    check.expect("version", cluster["version"], "1.34")
    check.call("eks", "describe_cluster", expect="ResourceNotFoundException", name="absent")
    check_catalogue(check)
    check_prices(check)
    check_messages(check)
    check_reserved(check)
    subnets, group = check_network(check)
    image = check_images(check)
    profile = check_profiles(check)
    check_launch(check, subnets, group, image, profile)
    check_access(check)
    check_the_checker(check)
    calls = [json.loads(line) for line in check.get("/kerf/calls").splitlines()]
    check.expect("calls in the server's log", len(calls), check.calls)
    check.expect("statuses in the server's log", all(isinstance(call["status"], int) for call in calls), True)
    check.expect("number of operations", len(check.operations), OPERATIONS)
    print(f"{check.calls} calls of {len(check.operations)} operations, {check.findings} findings")
    return 1 if check.findings else 0


def read_endpoint(server):
    """Returns the first URL in the output of a server, or `None` if it ends or prints none in time."""
    deadline = time.monotonic() + START_SECONDS
    output = b""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([server.stdout], [], [], left)[0]:
            return None
        chunk = os.read(server.stdout.fileno(), 4096)
        output += chunk
        found = re.search(rb"http://127\.0\.0\.1:\d+\b", output)
        if found and b"\n" in output[found.end():]:
            return found.group().decode()
        if not chunk:
            return None
    return None


def stop(server):
    server.stdin.close()
    server.terminate()
    try:
        server.wait(timeout=10)
    except subprocess.TimeoutExpired:
        server.kill()


def main(arguments):
    if len(arguments) >= 2 and arguments[0] == "--run":
        try:
            server = subprocess.Popen(arguments[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            print(f"{arguments[1]} cannot be started: {error.strerror}", file=sys.stderr)
            return 1
        with server:
            try:
                endpoint = read_endpoint(server)
                if endpoint is None:
                    print(f"{arguments[1]} printed no endpoint such as http://127.0.0.1:4566 within {START_SECONDS} s", file=sys.stderr)
                    return 1
                return run_check(endpoint)
            finally:
                stop(server)
    if len(arguments) == 1 and arguments[0].startswith("http://"):
        return run_check(arguments[0])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
