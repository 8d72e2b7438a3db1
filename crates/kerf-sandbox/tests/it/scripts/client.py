"""Steps with the official Python client.

Each prints `ok` and what it has checked. The first failure ends the script.
"""

import time

from kubernetes import client, config, utils, watch
from kubernetes.client.rest import ApiException

config.load_kube_config()
core, apps, policy = client.CoreV1Api(), client.AppsV1Api(), client.PolicyV1Api()
batch, custom = client.BatchV1Api(), client.CustomObjectsApi()
DEADLINE = 60


def ok(what, holds, seen=None):
    if not holds:
        raise SystemExit(f"FAILED {what}: {seen!r}")
    print(f"ok {what}")


def rejected(what, code, call):
    try:
        call()
    except ApiException as problem:
        ok(what, problem.status == code, (problem.status, problem.body))
        return problem
    raise SystemExit(f"FAILED {what}: it was not refused")


def until(what, list_function, holds, **arguments):
    """Watches a collection until `holds` is true of its objects, by name."""
    watcher, seen = watch.Watch(), {}
    for event in watcher.stream(list_function, timeout_seconds=DEADLINE, **arguments):
        seen[event["object"].metadata.name] = event["object"]
        if event["type"] == "DELETED":
            del seen[event["object"].metadata.name]
        if holds(seen):
            watcher.stop()
            ok(what, True)
            return seen
    raise SystemExit(f"FAILED {what}: {sorted(seen)}")


def gone(what, list_function):
    begun, left = time.monotonic(), True
    while left and time.monotonic() - begun < DEADLINE:
        left = list_function()
    ok(what, not left, left)


def is_ready(thing):
    return any(c.type == "Ready" and c.status == "True" for c in thing.status.conditions or [])


nodes = until("three nodes become ready", core.list_node, lambda seen: sum(map(is_ready, seen.values())) == 3)
ok("nodes have addresses", all(node.status.addresses for node in nodes.values()))
ok("the version is told", client.VersionApi().get_code().git_version.endswith("+kerf"))
names = [namespace.metadata.name for namespace in core.list_namespace().items]
ok("namespaces are listed in order", names == ["default", "kube-node-lease", "kube-public", "kube-system"], names)

labels = {"app": "py"}
container = client.V1Container(name="c", image="nginx", resources=client.V1ResourceRequirements(requests={"cpu": "100m"}))
template = client.V1PodTemplateSpec(
    metadata=client.V1ObjectMeta(labels=labels),
    spec=client.V1PodSpec(containers=[container], termination_grace_period_seconds=1),
)
deployment = client.V1Deployment(
    metadata=client.V1ObjectMeta(name="py"),
    spec=client.V1DeploymentSpec(replicas=3, selector=client.V1LabelSelector(match_labels=labels), template=template),
)
created = apps.create_namespaced_deployment("default", deployment)
ok("a deployment is created", created.metadata.uid and created.spec.strategy.type == "RollingUpdate")
rejected("twice is once too often", 409, lambda: apps.create_namespaced_deployment("default", deployment))
pods = until(
    "its pods run", core.list_namespaced_pod,
    lambda seen: len(seen) == 3 and all(is_ready(pod) for pod in seen.values()),
    namespace="default", label_selector="app=py",
)
ok("its pods have nodes and addresses", all(pod.spec.node_name and pod.status.pod_ip for pod in pods.values()))
page = core.list_namespaced_pod("default", label_selector="app=py", limit=2)
ok("a page has two and a rest", len(page.items) == 2 and page.metadata._continue)
rest = core.list_namespaced_pod("default", label_selector="app=py", limit=2, _continue=page.metadata._continue)
ok("the next page has the rest", len(rest.items) == 1 and not rest.metadata._continue)
one = next(iter(pods.values()))
found = core.list_pod_for_all_namespaces(field_selector=f"spec.nodeName={one.spec.node_name},metadata.name={one.metadata.name}")
ok("a field selector finds one", [pod.metadata.name for pod in found.items] == [one.metadata.name])

patched = apps.patch_namespaced_deployment("py", "default", {"spec": {"replicas": 4}})
ok("a patch changes the replicas", patched.spec.replicas == 4)
until(
    "a fourth pod runs", core.list_namespaced_pod,
    lambda seen: len(seen) == 4 and all(is_ready(pod) for pod in seen.values()),
    namespace="default", label_selector="app=py",
)
# The status is written once more after that. Replacing an object read before would be a conflict.
until(
    "the deployment has noticed", apps.list_namespaced_deployment,
    lambda seen: seen["py"].status.ready_replicas == 4 and seen["py"].status.updated_replicas == 4 and not seen["py"].status.unavailable_replicas,
    namespace="default", field_selector="metadata.name=py",
)
scale = apps.read_namespaced_deployment_scale("py", "default")
ok("the scale says four", scale.spec.replicas == 4 and scale.status.selector == "app=py", scale)
scale.spec.replicas = 3
ok("the scale is replaced", apps.replace_namespaced_deployment_scale("py", "default", scale).spec.replicas == 3)
until("three are left", core.list_namespaced_pod, lambda seen: len(seen) == 3, namespace="default", label_selector="app=py")

node = core.patch_node("node-1", {"metadata": {"labels": {"rack": "7"}}})
ok("a node is labelled", node.metadata.labels["rack"] == "7")
stale = core.read_namespaced_config_map("kube-root-ca.crt", "default")
core.patch_namespaced_config_map("kube-root-ca.crt", "default", {"data": {"more": "x"}})
rejected("a stale update is a conflict", 409, lambda: core.replace_namespaced_config_map("kube-root-ca.crt", "default", stale))
rejected("what is not there is not found", 404, lambda: core.read_namespaced_pod("nobody", "default"))
rejected("nonsense is invalid", 422, lambda: core.create_namespaced_pod("default", {"metadata": {"name": "x"}, "spec": {"containers": []}}))

budget = client.V1PodDisruptionBudget(
    metadata=client.V1ObjectMeta(name="py"),
    spec=client.V1PodDisruptionBudgetSpec(max_unavailable=1, selector=client.V1LabelSelector(match_labels=labels)),
)
policy.create_namespaced_pod_disruption_budget("default", budget)
until(
    "the budget allows one", policy.list_namespaced_pod_disruption_budget,
    lambda seen: all(b.status and b.status.disruptions_allowed == 1 for b in seen.values()) and seen, namespace="default",
)
budget = policy.patch_namespaced_pod_disruption_budget("py", "default", {"spec": {"maxUnavailable": 0}})
until(
    "the budget allows none", policy.list_namespaced_pod_disruption_budget,
    lambda seen: all(b.status.disruptions_allowed == 0 and b.status.observed_generation == b.metadata.generation for b in seen.values()),
    namespace="default",
)
victim = core.list_namespaced_pod("default", label_selector="app=py").items[0].metadata.name
eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name=victim, namespace="default"))
problem = rejected("an eviction against the budget is refused", 429, lambda: core.create_namespaced_pod_eviction(victim, "default", eviction))
ok("the refusal says why", "disruption budget" in problem.body, problem.body)
policy.delete_namespaced_pod_disruption_budget("py", "default")
core.create_namespaced_pod_eviction(victim, "default", eviction)
ok("without a budget it is evicted", True)
until(
    "another pod takes its place", core.list_namespaced_pod,
    lambda seen: victim not in seen and sum(map(is_ready, seen.values())) == 3,
    namespace="default", label_selector="app=py",
)
job = {
    "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "py"},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "c"}]}}},
}
utils.create_from_dict(client.ApiClient(), job)
until("a job completes", batch.list_namespaced_job, lambda seen: "py" in seen and seen["py"].status.succeeded == 1, namespace="default")
batch.delete_namespaced_job("py", "default", propagation_policy="Foreground")
gone("a job goes with its pods", lambda: batch.list_namespaced_job("default").items)
rejected("a kind that nobody knows is not found", 404, lambda: custom.list_cluster_custom_object("example.com", "v1", "things"))
apps.delete_namespaced_deployment("py", "default", propagation_policy="Foreground")
gone("the deployment takes its pods along", lambda: core.list_namespaced_pod("default", label_selector="app=py").items)
