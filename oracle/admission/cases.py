#!/usr/bin/env python3
"""Writes the admission cases, one JSON object per line. With a file of results as its argument it writes cases and results together, as the tests read them."""
import json, sys, copy

SCHEMAS = {}
def crd(spec=None, *a, **kw):
    c = full_crd(spec, *a, **kw)
    if not a and not kw and spec is not None:
        bare = {k: v for k, v in spec.items() if k != "x-kubernetes-validations"}
        key = json.dumps(bare, sort_keys=True)
        name = SCHEMAS.setdefault(key, f"schema {len(SCHEMAS)}")
        c["_compact"] = {"schema": name, **({"rules": spec["x-kubernetes-validations"]} if "x-kubernetes-validations" in spec else {})}
    return c

def full_crd(spec=None, status=None, root=None, versions=None, scope="Cluster", sub=True, **over):
    schema = root or {"type": "object", "properties": {"spec": spec or {"type": "object"}, "status": status or {"type": "object", "properties": {"nodes": {"type": "integer", "format": "int64", "default": 0}, "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"], "items": {"type": "object", "required": ["type", "status"], "properties": {"type": {"type": "string", "maxLength": 16}, "status": {"type": "string", "enum": ["True", "False", "Unknown"]}}}}}}}}
    v = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if sub:
        v["subresources"] = {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"}}
    c = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.kerf.test"},
         "spec": {"group": "kerf.test", "scope": scope, "names": {"plural": "widgets", "kind": "Widget"}, "versions": versions or [v]}}
    for k, val in over.items():
        c["spec"][k] = val
    return c

def widget(spec, **meta):
    o = {"apiVersion": "kerf.test/v1", "kind": "Widget", "metadata": {"name": "w", **meta}}
    if spec is not None:
        o["spec"] = spec
    return o

cases = []
def case(name, **kw):
    cases.append({"name": name, **kw})

def create(name, schema, *specs, **kw):
    for i, s in enumerate(specs):
        case(f"{name} #{i}", op="create", crd=crd(schema), object=widget(s), **kw)

def obj(props, **kw):
    return {"type": "object", "properties": props, **kw}

S = {"type": "string"}; I = {"type": "integer"}; N = {"type": "number"}; B = {"type": "boolean"}
QTY = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"}

# types
for t in ["string", "integer", "number", "boolean", "array", "object"]:
    sch = {"type": t}
    if t == "array": sch["items"] = S
    create(f"type {t}", obj({"x": sch}), *[{"x": v} for v in ["a", "", 1, 1.5, 2.0, 1e3, 1e300, -3, True, None, [], ["a"], [1], [None], {}, {"a": 1}, 9223372036854775807, 9223372036854775808, 18446744073709551616]])
    create(f"nullable {t}", obj({"x": {**sch, "nullable": True}}), {"x": None}, {"x": "a"})
create("int32", obj({"x": {"type": "integer", "format": "int32"}}), *[{"x": v} for v in [1, 2.0, 1.5, 2147483647, 2147483648, -2147483649, "a", True, [], {}, None, 1e10, 1.0000000001]])
create("int64", obj({"x": {"type": "integer", "format": "int64"}}), *[{"x": v} for v in [1, 2.0, 1.5, 9223372036854775807, 9223372036854775808, "a", True, [], {}]])
create("float", obj({"x": {"type": "number", "format": "float"}}), *[{"x": v} for v in [1, 1.5, 1e39, "a"]])
create("double", obj({"x": {"type": "number", "format": "double"}}), *[{"x": v} for v in [1, 1.5, 1e308, "a"]])
create("bounds int", obj({"x": {"type": "integer", "minimum": 1, "maximum": 100}}), *[{"x": v} for v in [0, 1, 100, 101, 0.5, 1.0, 200.0, "a"]])
create("bounds exclusive", obj({"x": {"type": "integer", "minimum": 1, "exclusiveMinimum": True, "maximum": 3, "exclusiveMaximum": True}}), *[{"x": v} for v in [1, 2, 3]])
create("bounds number", obj({"x": {"type": "number", "minimum": 0.5, "maximum": 2000000}}), *[{"x": v} for v in [0.25, 0, 1, 3000000, 2000000.5, 0.00001]])
create("bounds big", obj({"x": {"type": "integer", "format": "int32", "maximum": 3000000000}}), *[{"x": v} for v in [1, 2147483647]])
create("multipleOf", obj({"x": {"type": "integer", "multipleOf": 5}, "y": {"type": "number", "multipleOf": 0.5}, "z": {"type": "integer", "multipleOf": 2.5}}), {"x": 10}, {"x": 11}, {"y": 1.5}, {"y": 1.3}, {"x": 10.0}, {"z": 5}, {"z": 6})
create("string bounds", obj({"x": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]*$"}}), *[{"x": v} for v in ["a", "ab", "abcde", "AB", "éé", "ééééé", "\"\n\\"]])
create("maxLength 1", obj({"x": {"type": "string", "maxLength": 1}}), {"x": "ab"})
create("array bounds", obj({"x": {"type": "array", "minItems": 1, "maxItems": 2, "items": I}}), *[{"x": v} for v in [[], [1], [1, 2, 3], ["a", "b", "c"], [1, None]]])
create("maxItems 1", obj({"x": {"type": "array", "maxItems": 1, "items": I}}), {"x": [1, 2]})
create("object bounds", obj({"x": {"type": "object", "minProperties": 1, "maxProperties": 2, "additionalProperties": I}}), *[{"x": v} for v in [{}, {"a": 1}, {"a": 1, "b": 2, "c": 3}, {"a": "x"}, {"a/b": "x"}, {"a": None}]])
create("enum", obj({"x": {"type": "string", "enum": ["Balanced", "WhenEmpty"]}, "y": {"type": "integer", "enum": [1, 2]}, "z": {"type": "string", "nullable": True, "enum": ["a", None]}}), *[{"x": v} for v in ["Balanced", "balanced", "", 1]], {"y": 1}, {"y": 3}, {"y": 1.0}, {"y": "1"}, {"z": None}, {"z": "b"})
create("enum object", obj({"x": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "enum": [{"a": 1}]}}), {"x": {"a": 1}}, {"x": {"a": 2}})
create("required", obj({"a": S, "b": obj({"c": S}, required=["c"])}, required=["a", "b"]), {}, {"a": "x"}, {"a": "x", "b": {}}, {"a": None, "b": {"c": None}}, {"a": "x", "b": {"c": "y"}})
create("additionalProperties true", obj({"x": {"type": "object", "additionalProperties": True}}), {"x": {"a": 1, "b": {"c": 1}}})
create("additionalProperties false", obj({"x": {"type": "object", "additionalProperties": False}}), {"x": {"a": 1}}, {"x": {}})
create("quantity", obj({"x": QTY}), *[{"x": v} for v in [1, "1", "1.5", 1.5, 2.0, "1Gi", "x", True, [], {}, None, "", 1e3]])
create("quantity map", obj({"x": {"type": "object", "additionalProperties": QTY}}), {"x": {"cpu": "1", "memory": 5}}, {"x": {"cpu": "x", "memory": 1.5}}, {"x": {"cpu": None}})
create("anyOf", obj({"x": {"type": "string", "anyOf": [{"minLength": 3}, {"pattern": "^a"}]}}), {"x": "abcd"}, {"x": "a"}, {"x": "b"}, {"x": 1})
create("oneOf", obj({"a": S, "b": S}, oneOf=[{"required": ["a"]}, {"required": ["b"]}]), {"a": "x"}, {"b": "x"}, {}, {"a": "x", "b": "x"})
create("allOf", obj({"x": {"type": "integer", "allOf": [{"minimum": 2}, {"maximum": 4}, {"multipleOf": 2}]}}), {"x": 2}, {"x": 1}, {"x": 5}, {"x": 7})
create("not", obj({"x": {"type": "string", "not": {"enum": ["bad"]}}}), {"x": "good"}, {"x": "bad"})
create("nested junctors", obj({"p": obj({"k": S, "v": I}, anyOf=[{"required": ["k"], "properties": {"v": {"minimum": 5}}}, {"properties": {"k": {"pattern": "^z"}}, "not": {"required": ["v"]}}])}), {"p": {"k": "a", "v": 6}}, {"p": {"k": "a", "v": 1}}, {"p": {"v": 1}}, {"p": {"k": "zz"}})
# formats
fm = {"date-time": ["2024-01-01T00:00:00Z", "2024-01-01", "x", "2024-01-01T00:00:00.123+02:00", "2024-13-01T00:00:00Z", 1, [], {}, True], "date": ["2024-02-30", "2024-02-29"],
      "duration": ["1h", "x", "1h30m", "3 days", "", "5"], "uri": ["https://a/b", "a b", "", "foo"], "email": ["a@b.c", "x"], "hostname": ["a.b", "-a", "a_b"], "ipv4": ["1.2.3.4", "x", "::1"],
      "ipv6": ["::1", "1.2.3.4"], "cidr": ["10.0.0.0/8", "10.0.0.0"], "mac": ["01:23:45:67:89:ab", "x"], "uuid": ["123e4567-e89b-12d3-a456-426614174000", "x"], "byte": ["aGk=", "x"], "password": ["x"],
      "k8s-short-name": ["a", "A"], "k8s-long-name": ["a.b", "A"], "unknown-format": ["x"], "int32": ["x"], "hexcolor": ["#fff", "x"], "rgbcolor": ["rgb(1,2,3)", "x"], "ssn": ["111-22-3333", "x"], "creditcard": ["4111111111111111", "x"], "isbn": ["0321751043", "x"], "bsonobjectid": ["507f1f77bcf86cd799439011", "x"], "uuid4": ["123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"]}
for f, vs in fm.items():
    create(f"format {f}", obj({"x": {"type": "string", "format": f}}), *[{"x": v} for v in vs])
# lists
create("set", obj({"x": {"type": "array", "x-kubernetes-list-type": "set", "items": S}, "y": {"type": "array", "x-kubernetes-list-type": "set", "items": I}}), {"x": ["a", "b"]}, {"x": ["a", "b", "a", "a", "b"]}, {"y": [1, 2, 1]}, {"y": [1, 1.0]})
create("map list", obj({"x": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": obj({"k": S, "v": I}, required=["k"])},
                        "y": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"], "items": obj({"a": S, "b": {"type": "integer", "default": 1}}, required=["a"])}}),
       {"x": [{"k": "a"}, {"k": "b"}]}, {"x": [{"k": "a"}, {"k": "a"}]}, {"x": [{}, {}]}, {"x": ["a", {"k": "a"}]}, {"x": [None]}, {"y": [{"a": "x"}, {"a": "x", "b": 1}]}, {"y": [{"a": "x"}, {"a": "x", "b": 2}]})
# unknown fields, defaults, nulls
D = obj({"policy": {"type": "string", "default": "x"}, "plain": S, "open": {"type": "string", "nullable": True}, "opendef": {"type": "string", "nullable": True, "default": "d"},
         "map": {"type": "object", "additionalProperties": S}, "list": {"type": "array", "items": S},
         "nested": {"type": "object", "default": {"a": "1"}, "properties": {"a": S, "b": {"type": "string", "default": "2"}}},
         "objs": {"type": "array", "items": obj({"n": {"type": "string", "default": "10%"}, "m": S})},
         "omap": {"type": "object", "additionalProperties": obj({"n": {"type": "integer", "default": 7}})},
         "keep": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"known": obj({"a": S})}},
         "any": {"x-kubernetes-preserve-unknown-fields": True}})
create("defaults", D, {}, {"policy": None, "plain": None, "nested": None, "open": None, "opendef": None}, {"map": {"a": None, "b": "x"}}, {"list": [None]}, {"list": None}, {"nested": {}}, {"nested": {"b": None}},
       {"objs": [{}, {"n": None}, {"m": "x", "z": 1}]}, {"objs": [None]}, {"omap": {"a": {}, "b": None, "c": {"n": 1, "q": 2}}}, {"keep": {"x": {"y": [1, {"z": None}]}, "known": {"a": "1", "b": 2}}}, {"any": {"a": [1, None], "b": 2.0}}, {"any": "x"}, {"any": None},
       {"unknown": 1, "nested": {"u": 1}, "objs": [{"u": {"v": 1}}], "list": ["a", {"x": 1}]})
case("no spec", op="create", crd=crd(D), object=widget(None))
case("null spec", op="create", crd=crd(D), object={**widget(None), "spec": None})
case("string spec", op="create", crd=crd(D), object=widget("x"))
case("unknown root", op="create", crd=crd(D), object={**widget({}), "data": {"a": 1}})
case("status dropped", op="create", crd=crd(D), object={**widget({}), "status": {"nodes": "x"}})
case("status kept without subresource", op="create", crd=crd(D, sub=False), object={**widget({}), "status": {"conditions": []}})
case("status bad without subresource", op="create", crd=crd(D, sub=False), object={**widget({}), "status": {"nodes": "x", "u": 1}})
# scale
RS = obj({"replicas": {"type": "integer", "format": "int64", "minimum": 0}})
create("scale", RS, *[{"replicas": v} for v in [0, 3, -100, 2147483647, 2147483648, 3.0, "x", None]])
# metadata
for i, m in enumerate([{}, {"name": ""}, {"name": "UPPER"}, {"name": "a" * 254}, {"name": "a_b"}, {"generateName": "x-", "name": "x-abc"}, {"generateName": "X_", "name": "abc"}, {"generateName": "X-", "name": "X-abc"}, {"namespace": "ns"}, {"labels": {"a": "b"}}, {"labels": {"bad key": "b", "a": "bad value!", "x/y/z": ""}},
                       {"labels": {"a": 1}}, {"labels": []}, {"labels": {}}, {"labels": {"a": None}}, {"annotations": {"A/b": "x", "bad key": "y"}}, {"annotations": {"a": "x" * 262145}}, {"finalizers": ["a", "x.io/y", "bad one", "x.io"]}, {"finalizers": ["orphan", "foregroundDeletion"]},
                       {"finalizers": "x"}, {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}, {"ownerReferences": [{}]}, {"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "p", "uid": "u"}]},
                       {"ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "p", "uid": "u", "controller": True}, {"apiVersion": "v1", "kind": "B", "name": "q", "uid": "v", "controller": True}]}, {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "extra": 1}]},
                       {"ownerReferences": [1]}, {"name": 1}, {"creationTimestamp": None}, {"creationTimestamp": "yesterday"}, {"creationTimestamp": 5}, {"nickname": "x"}, {"generation": -1}, {"generation": "x"}, {"generation": 1.5}, {"deletionGracePeriodSeconds": True}, {"name": "a-"}, {"name": "-a.b"}, {"name": "a..b"}]):
    o = widget({}); o["metadata"] = {"name": "w", **m} if m.get("name") is None and "generateName" not in m and m != {} else m
    case(f"metadata #{i}", op="create", crd=crd(), object=o)
for i, m in enumerate([{"namespace": "default"}, {}, {"namespace": "Bad"}]):
    o = widget({}); o["metadata"] = {"name": "w", **m}
    case(f"namespaced #{i}", op="create", crd=crd(scope="Namespaced"), object=o)
case("wrong kind", op="create", crd=crd(), object={"apiVersion": "kerf.test/v1", "kind": "Gadget", "metadata": {"name": "w"}})
case("wrong version", op="create", crd=crd(), object={"apiVersion": "kerf.test/v2", "kind": "Widget", "metadata": {"name": "w"}})
case("metadata string", op="create", crd=crd(), object={"apiVersion": "kerf.test/v1", "kind": "Widget", "metadata": "x"})
case("no metadata", op="create", crd=crd(), object={"apiVersion": "kerf.test/v1", "kind": "Widget"})
# embedded
EMB = obj({"e": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}})
create("embedded", EMB, {"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": {"a": "b"}, "zzz": 1}, "spec": {"a": 1}}}, {"e": {}}, {"e": {"apiVersion": "", "kind": ""}}, {"e": {"apiVersion": "a/b/c", "kind": "Bad Kind"}}, {"e": {"apiVersion": 1, "kind": "X"}}, {"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"bad key": "x"}}}}, {"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 1}}})

# CEL
def rule(r, spec_schema, spec, **kw):
    sch = copy.deepcopy(spec_schema)
    sch["x-kubernetes-validations"] = [{"rule": r, **kw}]
    case(f"cel: {r} on {json.dumps(spec)[:60]}", op="create", crd=crd(sch), object=widget(spec))
P = obj({"s": {"type": "string", "maxLength": 100}, "t": {"type": "string", "maxLength": 100}, "i": I, "j": I, "n": N, "b": B, "when": {"type": "string", "format": "date-time"}, "day": {"type": "string", "format": "date"}, "dur": {"type": "string", "format": "duration"}, "bytes": {"type": "string", "format": "byte", "maxLength": 100},
         "l": {"type": "array", "maxItems": 20, "items": {"type": "string", "maxLength": 50}}, "li": {"type": "array", "maxItems": 20, "items": I}, "ll": {"type": "array", "maxItems": 5, "items": {"type": "array", "maxItems": 5, "items": I}}, "m": {"type": "object", "maxProperties": 20, "additionalProperties": {"type": "string", "maxLength": 50}},
         "o": obj({"a": {"type": "string", "maxLength": 50}, "b": I, "namespace": {"type": "string", "maxLength": 50}, "foo-bar": I, "x__y": I, "a.b/c": I}), "q": {**QTY, "maxLength": 40}, "ol": {"type": "array", "maxItems": 20, "items": obj({"k": {"type": "string", "maxLength": 40}, "v": I, "w": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 10}}})},
         "nul": {"type": "string", "nullable": True, "maxLength": 10}, "ps": {"x-kubernetes-preserve-unknown-fields": True}, "po": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
         "ds": {"type": "array", "maxItems": 10, "items": {"type": "string", "format": "duration"}},
         "set": {"type": "array", "maxItems": 10, "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 10}}})
full = {"s": "hello world", "t": "lo", "i": 7, "j": 0, "n": 2.5, "b": True, "when": "2024-03-05T10:20:30.5Z", "day": "2024-03-05", "dur": "1h30m", "bytes": "aGVsbG8=", "l": ["a", "b", "c"], "li": [3, 1, 2], "ll": [[1], [2, 3]], "m": {"x": "1", "y": "2"}, "o": {"a": "z", "b": 4, "namespace": "ns", "foo-bar": 1, "x__y": 2, "a.b/c": 3}, "q": "5Gi", "ol": [{"k": "a", "v": 1, "w": ["p"]}, {"k": "b", "v": 2}], "set": ["u", "v"], "ds": []}
exprs = r'''
self.i == 7
self.i + 1 == 8 && self.i - 1 == 6 && self.i * 2 == 14 && self.i / 2 == 3 && self.i % 4 == 3
-self.i == -7
self.i / self.j == 1
self.i % self.j == 1
self.i + 9223372036854775807 > 0
-9223372036854775808 - self.i < 0
9223372036854775807 * self.i > 0
self.n == 2.5 && self.n > 2.4 && self.n * 2.0 == 5.0 && self.n / 0.0 > 1.0
self.i > 2.5
self.i == 7.0
self.n == 2
1u + 2u == 3u && uint(self.i) == 7u
1u - 2u == 0u
uint(-1) == 0u
int(2.9) == 2 && int(-2.9) == -2 && int('12') == 12 && int(self.when) == 1709634030
int('abc') == 1
int('1.5') == 1
int(1e30) == 1
double('1.5') == 1.5 && double(3) == 3.0
double('x') == 1.0
string(5) == '5' && string(2.5) == '2.5' && string(true) == 'true' && string(1e21) == '1e+21' && string(100000000.0) == '1e+08'
string(self.dur) == '5400s'
string(self.when) == '2024-03-05T10:20:30.5Z'
string(self.bytes) == 'hello'
bool('true') && !bool('false')
bool('yes')
bytes('abc') == b'abc'
type(self.i) == int && type(self.s) == string && type(self.l) == list && type(self.m) == map && type(self.o) == map && type(self.when) == google.protobuf.Timestamp
type(self.q) == string
type(null) == null_type && type(type(1)) == type
size(self.s) == 11 && self.s.size() == 11 && size('ééé') == 3 && size(self.l) == 3 && size(self.m) == 2 && size(b'abc') == 3
self.s.contains('lo w') && self.s.startsWith('hell') && self.s.endsWith('rld') && !self.s.contains('zz')
self.s.matches('^h.*d$') && matches(self.s, 'wor') && !self.s.matches('^x')
self.s.matches(self.t + '[')
self.s.charAt(0) == 'h' && self.s.charAt(11) == ''
self.s.charAt(12) == ''
self.s.indexOf('o') == 4 && self.s.indexOf('o', 5) == 7 && self.s.indexOf('zz') == -1 && self.s.indexOf('') == 0
self.s.indexOf('o', -1) == 0
self.s.indexOf('o', 99) == -1
self.s.lastIndexOf('o') == 7 && self.s.lastIndexOf('o', 6) == 4 && self.s.lastIndexOf('hello world!') == -1 && self.s.lastIndexOf('') == 11
'éaéaé'.lastIndexOf('éa') == 2 && 'éaéaé'.indexOf('a', 2) == 3
self.s.lowerAscii() == 'hello world' && self.s.upperAscii() == 'HELLO WORLD' && 'É'.lowerAscii() == 'É'
self.s.replace('o', '0') == 'hell0 w0rld' && self.s.replace('o', '0', 1) == 'hell0 world' && self.s.replace('l', '', -1) == 'heo word' && 'ab'.replace('', '-') == '-a-b-'
self.s.split(' ') == ['hello', 'world'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'abc'.split('') == ['a', 'b', 'c'] && 'a,b'.split(',', 0) == [] && 'a,b'.split(',', -1) == ['a','b'] && ''.split(',') == ['']
self.s.substring(6) == 'world' && self.s.substring(0, 5) == 'hello'
self.s.substring(12) == ''
self.s.substring(5, 2) == ''
self.s.substring(0, 50) == ''
'  x \t\n'.trim() == 'x'
self.l.join() == 'abc' && self.l.join(',') == 'a,b,c' && ['x'].join('-') == 'x'
strings.quote('a"b') == '"a\\"b"'
'%s is %d and %.2f %t'.format(['a', 1, 2.5, true]) == ''
'%s is %d and %.2f'.format(['a', 1, 2.5]) == 'a is 1 and 2.50'
'%s %s %s'.format([[1, 'a'], {'k': 'v'}, true]) == '[1, "a"] {"k":"v"} true'
'%x %X %o %b %e'.format([255, 'hi', 8, 5, 1234.5]) == 'ff 6869 10 101 1.234500e+03'
'%d'.format(['x']) == ''
'%s'.format([]) == ''
self.s.find('o.') == 'o ' && self.s.find('zz') == '' && self.s.findAll('o') == ['o', 'o'] && self.s.findAll('o', 1) == ['o']
self.s.reverse() == 'x'
math.greatest(1, 2) == 2
self.li.isSorted() || self.li.sum() == 6 && self.li.max() == 3 && self.li.min() == 1
self.li.indexOf(1) == 1 && self.li.lastIndexOf(9) == -1 && self.l.indexOf('c') == 2
[].max() == 1
self.ds.sum() == duration('0s')
[1.5, 2.5].sum() == 4.0 && ['b', 'a'].min() == 'a' && [duration('1h'), duration('2h')].sum() == duration('3h')
self.li.sort() == [1, 2, 3] && self.li.reverse() == [2, 1, 3] && [1, 1, 2].distinct() == [1, 2] && self.li.slice(1, 3) == [1, 2]
self.li.slice(2, 1) == []
self.li.slice(0, 9) == []
[[1], [2, [3]]].flatten() == [1, 2, [3]]
self.ll.flatten() == [1, 2, 3]
lists.range(3) == [0, 1, 2]
self.ol.sortBy(e, -e.v).map(e, e.k) == ['b', 'a']
self.li.first() == optional.of(3) && self.li.last().value() == 2 && [].first().hasValue() == false
sets.contains([1, 2], [2]) && sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1, 2], [2, 3]) && !sets.intersects([1], [2])
'a' in self.l && !('z' in self.l) && 'x' in self.m && !('z' in self.m) && 1 in [1, 2]
self.l[0] == 'a' && self.m['x'] == '1' && self.m.y == '2'
self.l[9] == 'a'
self.l[-1] == 'a'
self.m['zz'] == '1'
self.m.zz == '1'
self.o.a == 'z' && self.o.__namespace__ == 'ns' && self.o.foo__dash__bar == 1 && self.o.x__underscores__y == 2 && self.o.a__dot__b__slash__c == 3
has(self.o.a) && has(self.m.x) && !has(self.m.zz) && has(self.l) && !has(self.nul)
self.nul == 'x'
self.l.all(x, x < 'd') && self.l.exists(x, x == 'b') && self.l.exists_one(x, x == 'b') && self.l.map(x, x + '!') == ['a!', 'b!', 'c!'] && self.l.filter(x, x != 'b') == ['a', 'c'] && self.l.map(x, x != 'b', x + x) == ['aa', 'cc']
self.m.all(k, self.m[k] != '3') && self.m.exists(k, k == 'x') && self.m.map(k, k) == ['x', 'y']
self.ol.all(x, has(x.w) && x.w.all(y, y != ''))
self.ol.exists(x, x.w.size() == 1)
self.ol.all(x, x.w.size() > 0)
self.ol.exists_one(x, x.w.size() == 1)
self.ol.map(x, x.w.size()) == [1]
self.ol.filter(x, x.v > 1).map(x, x.k)[0] == 'b'
self.l.all(i, v, v != '' && i < 3) && self.m.all(k, v, k != v) && self.l.exists(i, v, i == 2 && v == 'c') && self.l.existsOne(i, v, v == 'a')
self.l.transformList(i, v, v + string(i)) == ['a0', 'b1', 'c2'] && self.l.transformList(i, v, i > 0, v) == ['b', 'c']
self.m.transformMap(k, v, v + '!') == {'x': '1!', 'y': '2!'} && self.m.transformMap(k, v, k == 'x', v) == {'x': '1'}
self.m.transformMapEntry(k, v, {v: k}) == {'1': 'x', '2': 'y'}
self.?o.?a == optional.of('z') && self.?nul.orValue('d') == 'd' && self.o.?b.hasValue() && self.m[?'zz'].orValue('q') == 'q' && self.l[?0].value() == 'a' && !self.l[?9].hasValue()
optional.none().orValue(1) == 1 && optional.of(1).or(optional.of(2)).value() == 1 && optional.ofNonZeroValue(0).hasValue() == false && optional.ofNonZeroValue('x').hasValue()
optional.none().value() == 1
self.?o.a.optMap(x, x + '!').value() == 'z!' && self.?o.a.optFlatMap(x, optional.of(x)).value() == 'z'
[?self.?nul, 'a'] == ['a'] && {?'k': self.?nul} == {}
optional.unwrap([optional.of(1), optional.none()]) == [1] && [optional.of(1)].unwrapOpt() == [1]
quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('1').isLessThan(quantity('2')) && quantity('1000m').compareTo(quantity('1')) == 0 && isQuantity('5Mi') && !isQuantity('x')
quantity('x').isInteger()
quantity('1.5').isInteger() || quantity('2').asInteger() == 2 && sign(quantity('-1')) == -1 && quantity('1').add(quantity('1')) == quantity('2') && quantity('5').sub(2).asInteger() == 3 && quantity('1500m').asApproximateFloat() == 1.5
quantity('1.5').asInteger() == 1
quantity(self.q).isGreaterThan(quantity('1Gi'))
self.q == '5Gi' && type(self.q) == string && self.q != 5
self.q + 1 == 6
self.q > 5
self.q.startsWith('5')
duration('1h') < duration('90m') && self.dur == duration('90m') && self.dur.getHours() == 1 && self.dur.getMinutes() == 90 && self.dur.getSeconds() == 5400 && self.dur.getMilliseconds() == 5400000 && duration('1h') + duration('30m') == self.dur && duration('1.5s').getMilliseconds() == 1500
duration(self.s) == duration('1h')
self.when.getFullYear() == 2024 && self.when.getMonth() == 2 && self.when.getDayOfMonth() == 4 && self.when.getDate() == 5 && self.when.getDayOfWeek() == 2 && self.when.getDayOfYear() == 64 && self.when.getHours() == 10 && self.when.getMinutes() == 20 && self.when.getSeconds() == 30 && self.when.getMilliseconds() == 500 && self.when.getHours('+02:00') == 12
self.when > timestamp('2024-01-01T00:00:00Z') && self.when + duration('1h') == timestamp('2024-03-05T11:20:30.5Z') && self.when - timestamp('2024-03-05T10:20:30Z') == duration('500ms') && self.day == timestamp('2024-03-05T00:00:00Z')
timestamp(self.s) == self.when
url('https://a.b:80/p/q?x=1&x=2').getHost() == 'a.b:80' && url('https://a.b:80/p').getHostname() == 'a.b' && url('https://a.b:80/p').getPort() == '80' && url('https://a.b/p q').getEscapedPath() == '/p%20q' && url('https://a.b/?x=1&x=2').getQuery() == {'x': ['1', '2']} && url('https://a').getScheme() == 'https' && isURL('/x') && !isURL('x y')
url('x y').getHost() == ''
ip('127.0.0.1').isLoopback() && ip('::1').family() == 6 && isIP('1.2.3.4') && !isIP('x') && ip.isCanonical('::1') && !ip.isCanonical('0:0::1') && ip('0.0.0.0').isUnspecified() && ip('224.0.0.1').isLinkLocalMulticast() && ip('169.254.1.1').isLinkLocalUnicast() && ip('8.8.8.8').isGlobalUnicast() && string(ip('1.2.3.4')) == '1.2.3.4'
ip('x').family() == 4
ip('::ffff:1.2.3.4').family() == 4
cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsIP(ip('10.1.2.3')) && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.0.0.0/8').prefixLength() == 8 && cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.1.2.3/8').ip() == ip('10.1.2.3') && isCIDR('::/0') && !isCIDR('x') && string(cidr('10.0.0.0/8')) == '10.0.0.0/8'
cidr('x').prefixLength() == 1
format.dns1123Label().validate('abc').hasValue() == false && format.dns1123Label().validate('ABC').hasValue() && format.named('uuid').hasValue() && !format.named('zz').hasValue()
semver('1.2.3').isGreaterThan(semver('1.2.3-alpha')) && semver('1.2.3').major() == 1 && isSemver('1.0.0') && !isSemver('1.0') && semver('v1.2', true).minor() == 2 && semver('1.10.0').compareTo(semver('1.9.0')) == 1
semver('x').major() == 1
false && self.i / self.j == 1
self.i / self.j == 1 || true
true || self.i / self.j == 1
self.i / self.j == 1 && true
self.b ? self.i == 7 : self.i / self.j == 1
self.unknown == 1
self.o.unknown == 1
self.i == 'a'
self.s + 1 == 'a'
unknownFn(self.i)
self.s.unknownMethod()
foo == 1
self.l.all(1, true)
self.i.all(x, true)
self.i
'a'
self.ps == 1
has(self.ps)
self.po.x == 1
has(self.po)
self.po == self.po
[1, 'a'].size() == 2
{'a': 1, 'b': 'x'}.size() == 2
self.l == ['a', 'b', 'c'] && self.l != ['a'] && self.l + ['d'] == ['a', 'b', 'c', 'd'] && self.m == {'x': '1', 'y': '2'}
self.set == ['v', 'u'] && self.set + ['u', 'w'] == ['u', 'v', 'w']
self.o == self.o && self == self
self.when == null
self.o == null
self.s == null
dyn(self.s) == 1
dyn(self.i) == 7 && dyn([1, 'a']).size() == 2
self.metadata.name == 'w'
timestamp('bad') == self.when
duration('bad') == self.dur
'a'.matches('[')
1 == 1 &&
self.s ==
self..s
"unterminated
self.l.exists(x, y, z)
'\u00e9' == 'é' && r'\d' == '\\d' && """a'b""" == 'a\'b' && b'\x61' == b'a'
0x10 == 16 && 1e3 == 1000.0 && 10u == 10u
1 < 2 == true
!(1 in [2]) && !!true
- - 1 == 1
'a' < 'b' && b'a' < b'b' && false < true
[1,2] == [1.0, 2.0]
{1: 'a'}[1] == 'a' && {1: 'a'}[1u] == 'a' && {true: 1}[true] == 1
{'a': 1, 'a': 2}.size() == 1
self.l.map(x, self.li.map(y, x + string(y))).size() == 3
self.ol[0].w[0] == 'p'
self.ol.map(o, o.v).sum() == 3
self.ol.all(o, o.k in ['a', 'b'])
self.s.size() <= 11 ? true : false
cel.bind(x, 1, x == 1)
base64.encode(b'a') == ''
size(1) == 1
self.li.all(x, x > 0) && self.li.all(x, 10 / (x - 1) > 0)
self.li.exists(x, 10 / (x - 1) > 4)
int(self.q) == 5
string(null) == ''
google.protobuf.Duration{seconds: 1} == duration('1s')
authorizer.path('/x').check('get').allowed()
'abc' + 'def' == 'abcdef' && b'a' + b'b' == b'ab'
[1] + [2] == [1, 2]
[1] + ['a'] == [1]
{}.size() == 0 && [].size() == 0
self.i in self.li
self.n in [2.5]
'x' in 'xyz'
self.m.x.size() == 1
self.bytes == b'hello'
has(self.o)
has(self.o.a.b)
has(self)
'é'.charAt(0) == 'é'
self.l.exists(x, x.matches('^[a-c]$'))
timestamp(0) == timestamp('1970-01-01T00:00:00Z')
duration('1h') > duration('1m') ? self.i > 3 : false
[true, false].max() && [b'a'].min() == b'a'
self.ll.all(x, x.size() > 0) && self.ll[1][1] == 3
self.ll.map(x, x.sum()) == [1, 5]
'%s'.format([duration('1h')]) == '3600s' && '%s'.format([timestamp('2024-01-01T00:00:00Z')]) == '2024-01-01T00:00:00Z'
'%%'.format([]) == '%'
'%q'.format([1]) == ''
'%.1e'.format([12345.678]) == '1.2e+04'
'%s'.format([1.5]) == '1.5' && '%s'.format([null]) == 'null' && '%s'.format([b'abc']) == 'abc'
'%s'.format([[1.5]]) == '[1.500000]'
'''
for e in exprs.strip().split("\n"):
    rule(e, P, full)
rule("self.x > 1", obj({"x": I}), {"x": 2.0})
rule("self.x > 1", obj({"x": I}), {})
rule("self.x == 1", obj({"x": QTY}), {"x": 2.0})
rule("self.x == 1", obj({"x": QTY}), {"x": 1})
rule("self.l.all(x, x > 0)", obj({"l": {"type": "array", "maxItems": 5, "items": I}}), {"l": [1, 2.0]})
rule("self.a == 1", obj({"a": I}), {"a": 2}, message="must be one")
rule("self.a == 1", obj({"a": I}), {"a": 2}, message="  trimmed  ")
rule("self.a == 1", obj({"a": I}), {"a": 2}, messageExpression="'a is ' + string(self.a)")
rule("self.a == 1", obj({"a": I}), {"a": 2}, message="fallback", messageExpression="'a is ' + string(self.a / 0)")
rule("self.a == 1", obj({"a": I}), {"a": 2}, message="fallback", messageExpression="'  '")
rule("self.a == 1", obj({"a": I}), {"a": 2}, message="fallback", messageExpression="'a\\nb'")
rule("self.a == 1", obj({"a": I}), {"a": 2}, reason="FieldValueForbidden", message="no")
rule("self.a == 1", obj({"a": I}), {"a": 2}, reason="FieldValueRequired", message="no")
rule("self.a == 1", obj({"a": I}), {"a": 2}, reason="FieldValueDuplicate", message="no")
rule("self.a == 1", obj({"a": I}), {"a": 2}, reason="FieldValueInvalid", message="no", fieldPath=".a")
rule("self.m.size() == 1", obj({"m": {"type": "object", "additionalProperties": S, "maxProperties": 5}}), {"m": {}}, message="no", fieldPath=".m['a/b']")
rule("self.l.all(x, self.l.all(y, self.l.all(z, x + y + z != '')))", obj({"l": {"type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": 5}}}), {"l": ["x"] * 100})
# rules on scalars, lists, maps, nested
def nested(name, prop, value, r, **kw):
    case(f"rule on {name}", op="create", crd=crd(obj({"x": {**prop, "x-kubernetes-validations": [{"rule": r, **kw}]}})), object=widget({"x": value}))
nested("string", {"type": "string", "maxLength": 20}, "bad", "self != 'bad'", message="is bad")
nested("integer", I, 3, "self < 3", message="is bad")
nested("number", N, 3.5, "self < 3.0", message="is bad")
nested("boolean", B, False, "self", message="is bad")
nested("quantity", {**QTY, "maxLength": 10}, "5", "type(self) == int", message="is bad")
nested("quantity int", {**QTY, "maxLength": 10}, 5, "type(self) == string", message="is bad")
nested("list", {"type": "array", "maxItems": 4, "items": S}, ["a"], "self.size() > 1", message="is bad")
nested("map", {"type": "object", "maxProperties": 4, "additionalProperties": S}, {"a": "b"}, "!('a' in self)", message="is bad")
nested("map values", {"type": "object", "maxProperties": 4, "additionalProperties": {"type": "string", "maxLength": 9}}, {"a/b": "b"}, "self.all(k, self[k] != 'b')", message="is bad")
case("rule on items", op="create", crd=crd(obj({"x": {"type": "array", "maxItems": 9, "items": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self != 'b'"}]}}})), object=widget({"x": ["a", "b", "b"]}))
case("rule on map values", op="create", crd=crd(obj({"x": {"type": "object", "maxProperties": 9, "additionalProperties": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self != 'b'"}]}}})), object=widget({"x": {"k/1": "a", "k/2": "b"}}))
case("rule at root", op="create", crd=crd(root={"type": "object", "properties": {"spec": obj({"a": I})}, "x-kubernetes-validations": [{"rule": "self.metadata.name == 'x' && self.spec.a > 0", "message": "root"}]}), object=widget({"a": 1}))
case("rule at root kind", op="create", crd=crd(root={"type": "object", "properties": {"spec": obj({"a": I})}, "x-kubernetes-validations": [{"rule": "self.kind == 'Widget' && self.apiVersion == 'kerf.test/v1' && !has(self.metadata.generateName)"}]}), object=widget({"a": 1}))
case("rule at root labels", op="compile", crd=crd(root={"type": "object", "properties": {"spec": obj({"a": I})}, "x-kubernetes-validations": [{"rule": "self.metadata.labels.size() == 0"}]}))
case("blocked by type", op="create", crd=crd(obj({"a": I, "b": S}, **{"x-kubernetes-validations": [{"rule": "self.a == 1"}]})), object=widget({"a": 2, "b": 3}))
case("not blocked by bound", op="create", crd=crd(obj({"a": I, "b": {"type": "integer", "minimum": 4}}, **{"x-kubernetes-validations": [{"rule": "self.a == 1"}]})), object=widget({"a": 2, "b": 3}))
two = obj({"a": I}, **{"x-kubernetes-validations": [{"rule": "self.a == 1", "message": "one"}, {"rule": "self.a == 3", "message": "three"}]})
case("two rules", op="create", crd=crd(two), object=widget({"a": 2}))

# updates
IMM = obj({"a": I, "t": {"type": "string", "format": "date-time"}, "q": {**QTY, "maxLength": 20}, "l": {"type": "array", "maxItems": 5, "items": S}, "o": obj({"x": S}), "d": {"type": "string", "default": "720h"}, "cm": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": obj({"k": S, "v": I}, required=["k"])}, "st": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "set", "items": S}}, **{"x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "spec is immutable"}]})
def update(name, schema, old, new, op="update", **kw):
    o = widget(old, uid="u", resourceVersion="1"); n = widget(new, uid="u", resourceVersion="1")
    case(name, op=op, crd=crd(schema), old=o, object=n, **kw)
base = {"a": 1, "t": "2024-01-01T00:00:00Z", "q": "50000", "l": ["a"], "o": {"x": "1"}, "d": "720h", "cm": [{"k": "a", "v": 1}, {"k": "b", "v": 2}], "st": ["a", "b"]}
def changed(**kw): return {**base, **kw}
for i, n in enumerate([base, changed(a=2), changed(q="50k"), changed(q=50000), changed(t="2024-01-01T01:00:00+01:00"), changed(t="2024-01-01T01:00:00Z"), changed(l=[]), {k: v for k, v in base.items() if k != "l"}, changed(o={}), {k: v for k, v in base.items() if k != "d"}, changed(u=1), changed(cm=[{"k": "b", "v": 2}, {"k": "a", "v": 1}]), changed(cm=[{"k": "b", "v": 2}, {"k": "a", "v": 3}]), changed(st=["b", "a"]), changed(st=["b", "c"]), changed(o=None), changed(a=1.0)]):
    update(f"immutable #{i}", IMM, base, n)
TR = obj({"r": I, "list": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": obj({"k": S, "v": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "only up"}]}}, required=["k"])},
         "m": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "only up"}]}}}, **{"x-kubernetes-validations": [{"rule": "has(self.r) == has(oldSelf.r)", "message": "cannot add or remove"}]})
for i, (o, n) in enumerate([({"r": 1}, {"r": 2}), ({"r": 1}, {}), ({}, {"r": 1}), ({"list": [{"k": "a", "v": 5}]}, {"list": [{"k": "b", "v": 1}, {"k": "a", "v": 4}]}), ({"list": [{"k": "a", "v": 5}]}, {"list": [{"k": "b", "v": 1}]}), ({"m": {"x": 5}}, {"m": {"x": 4, "y": 1}}), (None, {"r": 1})]):
    update(f"transition #{i}", TR, o, n)
OO = obj({"a": I}, **{"x-kubernetes-validations": [{"rule": "oldSelf.hasValue() ? self.a >= oldSelf.value().a : self.a == 0", "optionalOldSelf": True, "message": "bad"}]})
update("optionalOldSelf up", OO, {"a": 1}, {"a": 2}); update("optionalOldSelf down", OO, {"a": 1}, {"a": 0}); create("optionalOldSelf create", OO, {"a": 0}, {"a": 1})
# ratcheting
RA = obj({"a": {"type": "integer", "minimum": 5}, "b": {"type": "string", "maxLength": 3}, "c": obj({"x": {"type": "integer", "minimum": 5}, "y": I}), "e": {"type": "string", "enum": ["x"]}, "l": {"type": "array", "maxItems": 5, "items": {"type": "integer", "minimum": 5}}, "ml": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": obj({"k": S, "v": {"type": "integer", "minimum": 5}}, required=["k"])}, "st": {"type": "array", "x-kubernetes-list-type": "set", "items": S},
         "r": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5", "message": "r"}]}, "q": obj({"z": I}, **{"x-kubernetes-validations": [{"rule": "self.z > 5", "message": "q"}]})})
for i, (o, n) in enumerate([({"a": 1}, {"a": 1}), ({"a": 1}, {"a": 2}), ({"a": 1, "b": "long"}, {"a": 1, "b": "long"}), ({"a": 1, "b": "long"}, {"a": 1, "b": "longer"}), ({"c": {"x": 1}}, {"c": {"x": 1, "y": 2}}), ({"c": {"x": 1}}, {"c": {"x": 2}}), ({"e": "y"}, {"e": "y"}), ({"e": "y"}, {"e": "z"}),
                            ({"l": [1]}, {"l": [1]}), ({"l": [1]}, {"l": [1, 6]}), ({"ml": [{"k": "a", "v": 1}]}, {"ml": [{"k": "b", "v": 9}, {"k": "a", "v": 1}]}), ({"ml": [{"k": "a", "v": 1}]}, {"ml": [{"k": "a", "v": 2}]}), ({"st": ["a", "a"]}, {"st": ["a", "a", "b"]}), ({"st": ["a"]}, {"st": ["a", "a"]}), ({"r": 1}, {"r": 1}), ({"r": 1}, {"r": 2}), ({"q": {"z": 1}}, {"q": {"z": 1}, "a": 9}), ({"q": {"z": 1}}, {"q": {"z": 2}})]):
    update(f"ratchet #{i}", RA, o, n)
# metadata updates
def meta_update(name, om, nm, schema=None):
    o = widget({}); o["metadata"] = {"name": "w", "uid": "u", "resourceVersion": "1", **om}
    n = widget({}); n["metadata"] = {"name": "w", "uid": "u", "resourceVersion": "1", **nm}
    case(name, op="update", crd=crd(), old=o, object=n)
meta_update("rename", {}, {"name": "x"}); meta_update("label bad", {}, {"labels": {"bad key": "x"}}); meta_update("uid change", {}, {"uid": "v"}); meta_update("finalizer while deleting", {"deletionTimestamp": "2024-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0, "finalizers": ["a.io/b"]}, {"finalizers": ["a.io/b", "c.io/d"]}); meta_update("finalizer added", {}, {"finalizers": ["x"]}); meta_update("finalizer kept", {"finalizers": ["x"]}, {"finalizers": ["x"]}); meta_update("creation ignored", {"creationTimestamp": "2024-01-01T00:00:00Z"}, {"creationTimestamp": "2025-01-01T00:00:00Z"}); meta_update("generation ignored", {"generation": 4}, {"generation": 2})
# status updates
def stat(name, os_, ns, spec_old={"a": 1}, spec_new={"a": 2}):
    o = {**widget(spec_old, uid="u", resourceVersion="1")}; n = {**widget(spec_new, uid="u", resourceVersion="1")}
    if os_ is not None: o["status"] = os_
    if ns is not None: n["status"] = ns
    case(name, op="status", crd=crd(obj({"a": I})), old=o, object=n)
stat("status set", None, {"nodes": 3}); stat("status bad", None, {"nodes": "x"}); stat("status negative", None, {"nodes": -1}); stat("status conditions", None, {"conditions": [{"type": "A", "status": "True"}, {"type": "A", "status": "False"}]}); stat("status enum", None, {"conditions": [{"type": "A", "status": "Maybe"}]}); stat("status required", None, {"conditions": [{"type": "A"}]}); stat("status too long", None, {"conditions": [{"type": "A" * 17, "status": "True"}]}); stat("status ratchet", {"conditions": [{"type": "A" * 17, "status": "True"}]}, {"conditions": [{"type": "A" * 17, "status": "True"}], "nodes": 2}); stat("status removed", {"nodes": 3}, None)
case("spec update keeps status", op="update", crd=crd(obj({"a": I})), old={**widget({"a": 1}, uid="u", resourceVersion="1"), "status": {"nodes": 4}}, object={**widget({"a": 2}, uid="u", resourceVersion="1"), "status": {"nodes": 5}})
case("spec update drops status", op="update", crd=crd(obj({"a": I})), old=widget({"a": 1}, uid="u", resourceVersion="1"), object={**widget({"a": 2}, uid="u", resourceVersion="1"), "status": {"nodes": 5}})

# definitions
def bad(name, spec=None, **kw):
    case(f"crd {name}", op="compile", crd=crd(spec, **kw))
def field(name, sch, **kw): bad(name, obj({"x": sch}), **kw)
bad("ok", obj({"a": I}))
c = crd(); c["metadata"]["name"] = "wrong"; case("crd name", op="compile", crd=c)
c = crd(); c["metadata"] = {}; case("crd no name", op="compile", crd=c)
bad("no group", group=""); bad("group no dot", group="kerf"); bad("bad group", group="Kerf.Test"); bad("scope", scope="Galaxy"); bad("no scope", scope="")
for k in [{"plural": "Widgets", "kind": "Widget"}, {"plural": "widgets", "kind": "bad kind"}, {"plural": "widgets"}, {"kind": "Widget"}, {"plural": "widgets", "kind": "Widget", "listKind": "Widget"}, {"plural": "widgets", "kind": "Widget", "shortNames": ["W", "w"], "categories": ["All"]}, {"plural": "widgets", "kind": "Widget", "singular": "Widget"}]:
    bad(f"names {json.dumps(k)}", names=k)
V = lambda **kw: {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}, **kw}
bad("no storage", versions=[V(storage=False)]); bad("two storage", versions=[V(), V(name="v2")]); bad("same version", versions=[V(), V(storage=False)]); bad("bad version name", versions=[V(name="V1")]); bad("no schema", versions=[{"name": "v1", "served": True, "storage": True}]); bad("two versions ok", versions=[V(), V(name="v2", storage=False)])
bad("two versions one bad", versions=[V(), V(name="v2", storage=False, schema={"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}})])
bad("deprecation", versions=[V(deprecationWarning="x")]); bad("deprecation empty", versions=[V(deprecated=True, deprecationWarning="")])
bad("columns", versions=[V(additionalPrinterColumns=[{"name": "", "type": "x", "jsonPath": "spec"}, {"name": "a", "type": "", "jsonPath": ""}, {"name": "a", "type": "string", "format": "zz", "jsonPath": ".a"}])])
bad("scale paths", versions=[V(subresources={"scale": {"specReplicasPath": "spec.x", "statusReplicasPath": ".spec.x", "labelSelectorPath": ".x"}})]); bad("scale empty", versions=[V(subresources={"scale": {"specReplicasPath": "", "statusReplicasPath": ""}})])
bad("selectable", versions=[V(schema={"openAPIV3Schema": obj({"spec": obj({"a": S, "o": obj({}), "l": {"type": "array", "items": S}})})}, selectableFields=[{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.a"}, {"jsonPath": ".spec.o"}, {"jsonPath": ".spec.z"}, {"jsonPath": ""}, {"jsonPath": ".spec.l[0]"}, {"jsonPath": "spec"}])])
bad("conversion", conversion={"strategy": "Webhook"}); bad("conversion bad", conversion={"strategy": "X"}); bad("conversion none with webhook", conversion={"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://x"}}}); bad("conversion webhook ok", conversion={"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://x.y/z"}}}); bad("conversion webhook versions", conversion={"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v9"], "clientConfig": {"url": "https://x.y/z"}}})
bad("preserveUnknownFields", preserveUnknownFields=True)
c = crd(group="x.k8s.io"); c["metadata"]["name"] = "widgets.x.k8s.io"; case("crd protected", op="compile", crd=c)
c = copy.deepcopy(c); c["metadata"]["annotations"] = {"api-approved.kubernetes.io": "maybe"}; case("crd protected bad", op="compile", crd=c)
c = copy.deepcopy(c); c["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://github.com/x"}; case("crd protected ok", op="compile", crd=c)
bad("root type", root={"type": "array", "items": S}); bad("root no type", root={"properties": {}}); bad("root nullable", root={"type": "object", "nullable": True}); bad("root additional", root={"type": "object", "additionalProperties": S}, sub=False); bad("root metadata", root={"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}); bad("root metadata name", root={"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}}}}); bad("root metadata default", root={"type": "object", "properties": {"metadata": {"type": "object", "default": {}}}}); bad("root kind", root={"type": "object", "properties": {"kind": I}}); bad("root allOf with status", root={"type": "object", "properties": {"a": S}, "allOf": [{"required": ["a"]}]})
field("no type", {}); field("bad type", {"type": "thing"}); field("null type", {"type": "null"}); field("array no items", {"type": "array"}); field("items array", {"type": "array", "items": [S]}); field("items no type", {"type": "array", "items": {}})
for kw in ["id", "$schema"]: field(kw, {"type": "string", kw: "x"})
field("$ref", {"type": "string", "$ref": "#/x"}); field("patternProperties", {"type": "object", "patternProperties": {"a": S}}); field("definitions", {"type": "object", "definitions": {"a": S}}); field("dependencies", {"type": "object", "dependencies": {"a": ["b"]}}); field("additionalItems", {"type": "array", "items": S, "additionalItems": S}); field("uniqueItems", {"type": "array", "items": S, "uniqueItems": True})
field("props and additional", {"type": "object", "properties": {"a": S}, "additionalProperties": S}); field("props and additional true", {"type": "object", "properties": {"a": S}, "additionalProperties": True})
field("preserve false", {"type": "object", "x-kubernetes-preserve-unknown-fields": False}); field("pattern", {"type": "string", "pattern": "("}); field("pattern lookahead", {"type": "string", "pattern": "(?!a)"}); field("list type on object", {"type": "object", "x-kubernetes-list-type": "set"}); field("list type bad", {"type": "array", "items": S, "x-kubernetes-list-type": "zz"}); field("map type on array", {"type": "array", "items": S, "x-kubernetes-map-type": "atomic"}); field("map type bad", {"type": "object", "x-kubernetes-map-type": "zz"}); field("list type no type", {"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-list-type": "set"})
field("set of objects", {"type": "array", "x-kubernetes-list-type": "set", "items": obj({"a": S})}); field("set of atomic", {"type": "array", "x-kubernetes-list-type": "set", "items": obj({"a": S}, **{"x-kubernetes-map-type": "atomic"})}); field("set of lists", {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "array", "x-kubernetes-list-type": "set", "items": S}}); field("set nullable", {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "nullable": True}})
field("map no keys", {"type": "array", "x-kubernetes-list-type": "map", "items": obj({"a": S})}); field("keys no map", {"type": "array", "x-kubernetes-list-map-keys": ["a"], "items": obj({"a": S})}); field("keys set", {"type": "array", "x-kubernetes-list-type": "set", "x-kubernetes-list-map-keys": ["a"], "items": S}); field("keys unknown", {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["b", "b"], "items": obj({"a": S})}); field("keys optional", {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"], "items": obj({"a": S})}); field("keys nullable", {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"], "items": obj({"a": {"type": "string", "nullable": True}}, required=["a"], nullable=True)}); field("keys object", {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"], "items": obj({"a": obj({})}, required=["a"])}); field("map of strings", {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"], "items": S})
field("int-or-string ok", QTY); field("int-or-string allOf", {"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "a"}]}); field("int-or-string wrong", {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "string"}, {"type": "integer"}]}); field("int-or-string preserve", {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True}); field("int-or-string embedded", {"type": "object", "x-kubernetes-int-or-string": True, "x-kubernetes-embedded-resource": True})
field("anyOf typed", {"type": "string", "anyOf": [{"type": "string", "description": "x", "title": "y", "nullable": True, "default": "a"}]}); field("anyOf extension", {"type": "array", "items": S, "anyOf": [{"x-kubernetes-list-type": "set", "x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-int-or-string": True, "x-kubernetes-embedded-resource": True, "x-kubernetes-list-map-keys": ["a"], "x-kubernetes-map-type": "atomic", "x-kubernetes-validations": [{"rule": "true"}]}]}); field("anyOf additional", {"type": "object", "anyOf": [{"additionalProperties": {"minLength": 1}}]}); field("anyOf undeclared", {"type": "object", "anyOf": [{"properties": {"a": {"minLength": 1}}}]}); field("anyOf items undeclared", {"type": "object", "anyOf": [{"items": {"minLength": 1}}]}); field("not metadata", {"type": "object", "properties": {"metadata": {"type": "object"}}, "not": {"properties": {"metadata": {"minProperties": 1}}}})
field("embedded no type", {"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}); field("embedded string", {"type": "string", "x-kubernetes-embedded-resource": True}); field("embedded empty", {"type": "object", "x-kubernetes-embedded-resource": True}); field("embedded additional", {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True, "additionalProperties": S})
field("default wrong type", {"type": "integer", "default": "x"}); field("default out of range", {"type": "integer", "minimum": 5, "default": 1}); field("default unknown field", obj({"a": S}, default={"b": 1})); field("default in items", {"type": "array", "items": {"type": "string", "default": 1}}); field("default rule", {"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self > 5"}]}); field("default null", {"type": "string", "default": None}); field("default ok", obj({"a": {"type": "string", "default": "x"}}, default={})); field("default required missing", obj({"a": S}, required=["a"], default={}))
def crule(name, sch, *rules, **kw): field(name, {**sch, "x-kubernetes-validations": list(rules)}, **kw)
crule("rule empty", S, {"rule": ""}); crule("rule blank message", {"type": "string", "maxLength": 9}, {"rule": "self != ''", "message": "  "}); crule("rule message newline", {"type": "string", "maxLength": 9}, {"rule": "self != ''", "message": "a\nb"}); crule("rule newline no message", {"type": "string", "maxLength": 9}, {"rule": "self\n != ''"}); crule("rule newline message", {"type": "string", "maxLength": 9}, {"rule": "self\n != ''", "message": "m"}); crule("rule reason", {"type": "string", "maxLength": 9}, {"rule": "self != ''", "reason": "Bad"}); crule("rule fieldPath", obj({"a": S}), {"rule": "self.a != ''", "fieldPath": ".b"}, {"rule": "true", "fieldPath": "a"}, {"rule": "true", "fieldPath": " "}); crule("rule not bool", {"type": "string", "maxLength": 9}, {"rule": "self"}); crule("rule message expr", {"type": "string", "maxLength": 9}, {"rule": "self != ''", "messageExpression": "1"}, {"rule": "self != ''", "messageExpression": "self."}, {"rule": "self != ''", "messageExpression": " "}); crule("rule optionalOldSelf unused", {"type": "string", "maxLength": 9}, {"rule": "self != ''", "optionalOldSelf": True}); crule("rule syntax", {"type": "string", "maxLength": 9}, {"rule": "self ==", "message": "m", "reason": "FieldValueInvalid"}); crule("rule undeclared", obj({"a": S}), {"rule": "self.b == 1 || self.c"})
field("rule oldSelf uncorrelatable", {"type": "array", "maxItems": 9, "items": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}})
field("rule oldSelf set", {"type": "array", "maxItems": 9, "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}})
crule("rule too expensive", {"type": "array", "items": S}, {"rule": "self.all(x, self.all(y, x != y))"}); crule("rule a bit expensive", {"type": "array", "maxItems": 3000, "items": {"type": "string", "maxLength": 30}}, {"rule": "self.all(x, self.exists_one(y, x == y))"})
field("rule cost total", {"type": "array", "maxItems": 1000, "items": {"type": "string", "maxLength": 500, "x-kubernetes-validations": [{"rule": "self.matches('^[a-z]{1,500}(abc|def|ghi)$')", "message": str(i)} for i in range(12)]}})
crule("rule message cost", {"type": "array", "items": {"type": "string"}}, {"rule": "true", "messageExpression": "self.map(x, self.join(x)).join(',')"})
crule("rule unbounded ok", {"type": "array", "items": S}, {"rule": "self.all(x, x != '')"}); crule("rule on map unbounded", {"type": "object", "additionalProperties": S}, {"rule": "self.all(k, self[k].startsWith('a'))"})

answers = None
if len(sys.argv) > 1:
    answers = [json.loads(l) for l in open(sys.argv[1])]
if answers is None:
    for c in cases:
        c = copy.deepcopy(c); c["crd"].pop("_compact", None)
        print(json.dumps(c, ensure_ascii=False, sort_keys=True))
else:
    dump = lambda x: print(json.dumps(x, ensure_ascii=False, sort_keys=True, separators=(",", ":")))
    for key, name in SCHEMAS.items():
        dump({"schema": name, "is": json.loads(key)})
    for c, a in zip(cases, answers):
        assert c["name"] == a["name"]
        c = copy.deepcopy(c)
        compact = c["crd"].pop("_compact", None)
        if compact: c.pop("crd"); c.update(compact)
        a.pop("name"); a.pop("message", None)
        c["answer"] = a
        dump(c)
