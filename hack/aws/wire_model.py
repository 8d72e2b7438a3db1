"""Compares raw answers of a server with botocore's service models.

boto3's own parsers drop unknown members silently, so the answers are walked here once more: unknown members, texts that are no number,
boolean or time, unknown values of enumerations and missing required members are findings.
"""

import base64
import binascii
import json
import re
import xml.etree.ElementTree as ElementTree

# Values that AWS's services send although these models do not list them: clients must accept unknown values.
EXTRA_ENUM_VALUES = {"SupportedAdditionalProcessorFeature": {"metal-compatibility"}}

TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
INTEGER = re.compile(r"^-?\d+$")
DOUBLE = re.compile(r"^-?\d+(\.\d+)?([eE][-+]?\d+)?$")


def check_answer(operation, body):
    """Returns the findings of a successful answer, each with its path."""
    protocol = operation.service_model.metadata["protocol"]
    shape = operation.output_shape
    findings = []
    if protocol in ("ec2", "query"):
        root = ElementTree.fromstring(body)
        namespace = operation.service_model.metadata["xmlNamespace"].rstrip("/")
        expected = "{%s}%sResponse" % (namespace, operation.name)
        if root.tag.replace("/}", "}") != expected:
            findings.append(f"root element is {root.tag}, not {expected}")
        element = root
        metadata = {"requestId"}
        if protocol == "query":
            metadata = {"ResponseMetadata"}
            element = _child(root, f"{operation.name}Result")
            if element is None:
                if shape is not None:
                    findings.append(f"{operation.name}Result is missing")
                return findings
            others = [_name(child) for child in root if _name(child) not in metadata | {f"{operation.name}Result"}]
            findings += [f"unknown element {name}" for name in others]
            metadata = set()
            if _child(root, "ResponseMetadata") is None:
                findings.append("ResponseMetadata is missing")
        elif _child(root, "requestId") is None:
            findings.append("requestId is missing")
        if shape is None:
            # EC2 answers operations without a result with <return>true</return>.
            allowed = metadata | {"return"}
            findings += [f"unknown element {_name(child)}" for child in element if _name(child) not in allowed]
        else:
            _check_xml(shape, element, operation.name, findings, metadata)
    else:
        value = json.loads(body)
        if shape is None:
            findings += [f"unknown member {name}" for name in value]
        else:
            _check_json(shape, value, operation.name, findings)
    return findings


def check_error(operation, status, headers, body, expected_code):
    """Returns the findings of an error answer, from the raw bytes."""
    protocol = operation.service_model.metadata["protocol"]
    findings = []
    if protocol == "ec2":
        root = ElementTree.fromstring(body)
        codes = [element.text for element in root.findall("Errors/Error/Code")]
        if root.tag != "Response" or root.find("RequestID") is None or root.find("Errors/Error/Message") is None:
            findings.append("not the form <Response><Errors><Error>…</Error></Errors><RequestID>")
    elif protocol == "query":
        root = ElementTree.fromstring(body)
        error = _child(root, "Error")
        codes = [] if error is None or _child(error, "Code") is None else [_child(error, "Code").text]
        if _name(root) != "ErrorResponse" or _child(root, "RequestId") is None:
            findings.append("not the form <ErrorResponse><Error>…</Error><RequestId>")
        elif _child(error, "Type") is None or _child(error, "Type").text not in ("Sender", "Receiver"):
            findings.append("Type is neither Sender nor Receiver")
    else:
        value = json.loads(body)
        codes = [value.get("__type") or headers.get("x-amzn-errortype")]
        known = {"__type", "message"}
        findings += [f"unknown member {name} of the error" for name in value if name not in known]
    if codes != [expected_code]:
        findings.append(f"error codes {codes}, not {expected_code}")
    if not 400 <= status < 600:
        findings.append(f"status {status} of an error")
    return findings


def _name(element):
    return element.tag.rsplit("}", 1)[-1]


def _child(element, name):
    for child in element:
        if _name(child) == name:
            return child
    return None


def _check_xml(shape, element, path, findings, metadata=frozenset()):
    if shape.type_name == "structure":
        if (element.text or "").strip():
            findings.append(f"{path}: text {element.text.strip()!r} in a structure")
        members = {}
        for name, member in shape.members.items():
            members[member.serialization.get("name", name)] = (name, member)
        seen = set()
        for child in element:
            wire_name = _name(child)
            if wire_name in metadata:
                continue
            if wire_name not in members:
                findings.append(f"{path}: unknown member {wire_name}")
                continue
            name, member = members[wire_name]
            if name in seen:
                findings.append(f"{path}: member {wire_name} occurs twice")
            seen.add(name)
            _check_xml(member, child, f"{path}.{name}", findings)
        for name in shape.required_members:
            if name not in seen:
                findings.append(f"{path}: required member {name} is missing")
    elif shape.type_name == "list":
        item_name = shape.member.serialization.get("name", "member")
        for number, child in enumerate(element):
            if _name(child) != item_name:
                findings.append(f"{path}[{number}]: element {_name(child)}, not {item_name}")
            _check_xml(shape.member, child, f"{path}[{number}]", findings)
    else:
        if len(element):
            findings.append(f"{path}: elements in a scalar")
        _check_text(shape, element.text or "", path, findings)


def _check_text(shape, text, path, findings):
    kind = shape.type_name
    is_wrong = (
        (kind in ("integer", "long") and not INTEGER.match(text))
        or (kind == "integer" and INTEGER.match(text) and not -(2**31) <= int(text) < 2**31)
        or (kind in ("double", "float") and not DOUBLE.match(text))
        or (kind == "boolean" and text not in ("true", "false"))
        or (kind == "timestamp" and not TIME.match(text))
    )
    if kind == "blob":
        try:
            base64.b64decode(text, validate=True)
        except binascii.Error:
            is_wrong = True
    if is_wrong:
        findings.append(f"{path}: {text!r} is no {kind}")
    if kind == "string":
        _check_enum(shape, text, path, findings)


def _check_enum(shape, text, path, findings):
    values = getattr(shape, "enum", None)
    if values and text not in values and text not in EXTRA_ENUM_VALUES.get(shape.name, ()):
        findings.append(f"{path}: unknown value {text!r} of {shape.name}")


def _check_json(shape, value, path, findings):
    kind = shape.type_name
    types = {
        "structure": dict,
        "map": dict,
        "list": list,
        "string": str,
        "blob": str,
        "boolean": bool,
        "integer": int,
        "long": int,
        "double": (int, float),
        "float": (int, float),
        "timestamp": (int, float, str),
    }
    if not isinstance(value, types[kind]) or (isinstance(value, bool) and kind != "boolean"):
        findings.append(f"{path}: {value!r} is no {kind}")
        return
    if kind == "structure":
        members = {member.serialization.get("name", name): (name, member) for name, member in shape.members.items()}
        for wire_name, content in value.items():
            if wire_name not in members:
                findings.append(f"{path}: unknown member {wire_name}")
                continue
            name, member = members[wire_name]
            _check_json(member, content, f"{path}.{name}", findings)
        for name in shape.required_members:
            if shape.members[name].serialization.get("name", name) not in value:
                findings.append(f"{path}: required member {name} is missing")
    elif kind == "map":
        for key, content in value.items():
            _check_json(shape.value, content, f"{path}.{key}", findings)
    elif kind == "list":
        for number, item in enumerate(value):
            _check_json(shape.member, item, f"{path}[{number}]", findings)
    elif kind == "string":
        _check_enum(shape, value, path, findings)
