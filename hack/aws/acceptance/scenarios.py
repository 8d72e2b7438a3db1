"""The acceptance scenarios of docs/spec/07-operations.md section 13 that pass on the real clock within minutes.

H, P and Q wait 10 to 15 minutes by design, V too: they run in virtual time (crates/kerf/tests/it/aws_scenarios.rs). A and the dashboards of X
need a chart and Grafana. Each function is written once and runs with either controller; `World` is in world.py.
"""
import signal, subprocess, time

import cluster
from controllers import seconds_of
from world import KARPENTER_LABEL

DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
# The pods that the disrupting commands of the scenarios move are those of this Deployment.
INFLATE_CPUS = 8
# Spot prices differ by pool, so that two smaller nodes may be cheaper than one of 8 vCPU.
EIGHT_CPUS = ("karpenter.k8s.aws/instance-cpu", ["8"])
LAUNCH_ORDER = ["created nodeclaim", "launched nodeclaim", "registered nodeclaim", "initialized nodeclaim"]
OLD_RELEASE, NEW_RELEASE = "20251120", "20260115"


def name(item):
    return item["metadata"]["name"]


def label(node, key):
    return node["metadata"]["labels"].get(key)


def instance_cpus(node):
    return int(label(node, "karpenter.k8s.aws/instance-cpu"))


def is_disrupted(node):
    return any(taint["key"] == DISRUPTED["key"] for taint in node["spec"].get("taints", []))


def reason(line):
    """Returns the reason of a command. Karpenter 1.14 logs it only in the text of the command, `Empty/…`."""
    return line["command"].split("/", 1)[0].lower()


def count_disrupted(w):
    """Returns the number of nodes that count against a budget. A node whose instance is being terminated no longer does."""
    ended = {claim["status"].get("nodeName") for claim in w.claims() if cluster.is_true(claim, "InstanceTerminating")}
    return sum((is_disrupted(node) or "deletionTimestamp" in node["metadata"]) and name(node) not in ended for node in w.nodes())


def transition(item, condition):
    return seconds_of(cluster.condition(item, condition)["lastTransitionTime"])


def five_pods(w, **pool):
    """Makes five pods run on one node of 8 vCPU."""
    if not w.get("nodepools", "default"):
        w.pool(limits={"cpu": "10"}, **pool)
    if not w.get("deployments", "inflate"):
        w.deployment()
    w.scale(5)
    w.wait_running(5)
    claim = w.until("one claim is Initialized", lambda: [claim for claim in w.claims() if cluster.is_true(claim, "Initialized")])[0]
    w.expect(len(w.claims()) == 1, f"{len(w.claims())} claims for five pods")
    return claim


def nodes_apart(w, count, cpu="1", **deployment):
    """Makes pods run that need a node each."""
    if not w.get("deployments", "inflate"):
        w.deployment(cpu=cpu, apart="yes", **deployment)
    w.scale(count)
    w.wait_running(count, limit=180)
    w.until(f"{count} claims are Initialized", lambda: sum(cluster.is_true(claim, "Initialized") for claim in w.claims()) == count)
    return w.claims()


def scale_up(w):
    """B. Five pods get one node of 8 vCPU, with one CreateFleet."""
    w.pool(limits={"cpu": "10"})
    w.deployment()
    w.scale(5)
    pods = w.until("five pods exist", lambda: len(pods := w.pods("inflate")) == 5 and pods)
    w.wait_running(5)
    claim = w.claims()[0]
    for pod in pods:
        w.event("Nominated", name(pod), f"nodeclaim/{name(claim)}", 10)
    w.logged("initialized nodeclaim")
    w.expect_log_order("found provisionable pod(s)", "computed new nodeclaim(s) to fit pod(s)", *LAUNCH_ORDER)
    computed = w.lines(message="computed new nodeclaim(s) to fit pod(s)")
    w.expect([(line["nodeclaims"], line["pods"]) for line in computed] == [(1, 5)], f"computed {computed}")
    ids = {w.lines(message=message)[0].get("reconcileID") for message in ("found provisionable pod(s)", computed[0]["message"], "created nodeclaim")}
    w.expect(len(ids) == 1 and None not in ids, f"the decision has the reconcileIDs {ids}")
    fleets = w.calls_of("CreateFleet")
    w.expect(len(fleets) == 1, f"{len(fleets)} calls of CreateFleet: {fleets}")
    node = w.nodes()[0]
    w.expect(instance_cpus(node) == INFLATE_CPUS, f"the node has {instance_cpus(node)} vCPUs")
    table = cluster.kubectl("get", "nodeclaims").splitlines()
    row = dict(zip(table[0].split(), table[1].split()))
    wanted = {"TYPE": label(node, "node.kubernetes.io/instance-type"), "CAPACITY": "on-demand", "ZONE": label(node, "topology.kubernetes.io/zone"),
              "NODE": name(node), "READY": "True"}
    w.expect({key: row.get(key) for key in wanted} == wanted, f"kubectl get nodeclaims prints {row}")
    w.until("the NodePool counts one node and 8 vCPU",
            lambda: (own := w.get("nodepools", "default")["status"].get("resources", {})).get("nodes") == "1" and own.get("cpu") == "8", 30)
    claim = w.until("the claim is Consolidatable", lambda: (own := w.claims()[0]) and cluster.is_true(own, "Consolidatable") and own, 60)
    times = [transition(claim, each) for each in ("Launched", "Registered", "Initialized", "Consolidatable")]
    w.expect(times == sorted(times), f"the conditions became True at {times}")
    after = times[3] - seconds_of(claim["status"].get("lastPodEventTime") or claim["metadata"]["creationTimestamp"])
    w.expect(28 <= after <= 50, f"Consolidatable {after} s after the last pod event")
    return f"Consolidatable {after:.0f} s after the last pod event"


def limits(w):
    """C. The limit of 10 vCPU admits one more node of 2 vCPU; raising the limit schedules the rest."""
    five_pods(w)
    w.scale(12)
    most = [0]

    def usage():
        cpu = w.get("nodepools", "default").get("status", {}).get("resources", {}).get("cpu", "0")
        cpus = sum(instance_cpus(node) for node in w.nodes())
        most[0] = max(most[0], cpus, int(cpu) if cpu.isdigit() else 0)
        return len(w.running()) == 8

    w.until("eight pods run", usage)
    failed = w.event("FailedScheduling", None, "all available instance types exceed limits for nodepool", 30)
    w.expect("NodePool=default" in failed["message"], failed["message"])
    w.until("ERROR could not schedule pod", lambda: w.lines(level="ERROR", message="could not schedule pod"), 30)
    w.expect(sorted(instance_cpus(node) for node in w.nodes()) == [2, 8], "the nodes have other sizes than 2 and 8 vCPU")
    w.hold("the limit holds", lambda: usage() and most[0] <= 10, 5)
    w.patch("nodepools", "default", {"spec": {"limits": {"cpu": "100"}}})
    w.wait_running(12)
    return f"at most {most[0]} vCPU under the limit of 10"


def scale_down(w):
    """D. Without pods, empty nodes are deleted one at a time after consolidateAfter and the validation delay."""
    if not w.claims():
        five_pods(w)
    nodes = len(w.nodes())
    w.scale(0)
    w.until("no pod is left", lambda: not w.pods("inflate"))
    emptied, most = time.time(), [0]

    def disrupted():
        most[0] = max(most[0], count_disrupted(w))
        return not w.claims() and not w.nodes()

    w.until("all nodes and claims are gone", disrupted, 120 + 60 * nodes)
    commands = w.lines(message="disrupting node(s)")
    w.expect(all((line["decision"], reason(line), line["pod-count"]) == ("delete", "empty", 0) for line in commands), f"commands: {commands}")
    w.expect_log_order("disrupting node(s)", "tainted node", "deleted node", "deleted nodeclaim")
    w.expect(most[0] == 1, f"{most[0]} nodes at a time, and the budget of 10 % allows one")
    first = seconds_of(commands[0]["time"]) - emptied
    w.expect(first >= 40, f"the first command came {first:.0f} s after the last pod")
    w.event("DisruptionTerminating", None, "Empty", 5)
    w.expect(not w.instances(), "an instance is left")
    unmanaged = [node for node in w.list("nodes") if KARPENTER_LABEL not in node["metadata"]["labels"]]
    w.expect(len(unmanaged) == 3 and not any(is_disrupted(node) for node in unmanaged), "the unmanaged nodes have changed")
    return f"{nodes} node(s), the first command {first:.0f} s after the last pod"


def drift_of_class(w):
    """E. A NodePool that refers to another class replaces its node; pods move when the replacement is initialized."""
    claim = five_pods(w)
    old = claim["status"]["nodeName"]
    w.node_class("newnode")
    w.wait_for_class("newnode")
    w.patch("nodepools", "default", {"spec": {"limits": {"cpu": "100"}, "template": {"spec": {"nodeClassRef": {"name": "newnode"}}}}})
    seen = {"tainted before": False, "moved before": False}

    def is_replaced():
        claims, pods = w.claims(), w.running()
        replacement = next((own for own in claims if name(own) != name(claim)), None)
        node = w.get("nodes", old)
        is_ready = replacement is not None and cluster.is_true(replacement, "Initialized")
        own = next((own for own in claims if name(own) == name(claim)), None)
        if own and cluster.is_true(own, "Drifted"):
            seen["reason"] = cluster.condition(own, "Drifted")["reason"]
        if own and cluster.is_true(own, "DisruptionReason"):
            seen["disruption"] = cluster.condition(own, "DisruptionReason")["reason"]
        if replacement and not is_ready and node:
            seen["tainted before"] |= is_disrupted(node)
            on_old = sum(pod["spec"].get("nodeName") == old for pod in pods)
            # The claim may have become Initialized since its list was read.
            if on_old < 5 and not cluster.is_true(w.get("nodeclaims", name(replacement)) or {}, "Initialized"):
                seen["moved before"] = True
        return own is None and len(pods) == 5 and not any(pod["spec"]["nodeName"] == old for pod in pods)

    w.until("five pods run on the replacement and the old claim is gone", is_replaced, 240)
    w.expect(seen == {"tainted before": True, "moved before": False, "reason": "NodePoolDrifted", "disruption": "Drifted"}, f"seen: {seen}")
    command = w.lines(message="disrupting node(s)")[0]
    w.expect((command["decision"], reason(command)) == ("replace", "drifted"), f"command: {command}")
    w.expect_log_order("disrupting node(s)", *LAUNCH_ORDER, "tainted node", "deleted node", "deleted nodeclaim")
    return None


def drift_of_images(w):
    """F. A new image behind the alias: nodes are replaced one by one, and none while a budget forbids it."""
    w.change(publishImages={"release": NEW_RELEASE, "bottlerocket": "1.53.0"})
    w.node_class("images", f"al2023@v{OLD_RELEASE}")
    w.wait_for_class("images")
    w.pool(node_class="images", budgets=[{"nodes": "10%"}, {"nodes": "0", "reasons": ["Drifted"]}])
    claims = {name(claim) for claim in nodes_apart(w, 2)}
    before = w.get("ec2nodeclasses", "images")["status"]["amis"]
    w.patch("ec2nodeclasses", "images", {"spec": {"amiSelectorTerms": [{"alias": f"al2023@v{NEW_RELEASE}"}]}})
    w.until("status.amis changes", lambda: w.get("ec2nodeclasses", "images")["status"].get("amis", before) != before)
    w.until("both claims are Drifted because of the image",
            lambda: sum(cluster.condition(own, "Drifted").get("reason") == "AMIDrift" for own in w.claims()) == 2)
    w.event("DisruptionBlocked", "default", "", 60)
    w.hold("nothing is replaced under a budget of 0", lambda: {name(own) for own in w.claims()} == claims, 20)
    w.patch("nodepools", "default", {"spec": {"disruption": {"budgets": [{"nodes": "10%"}]}}})
    most = [0]

    def is_replaced():
        most[0] = max(most[0], count_disrupted(w))
        return len(own := w.claims()) == 2 and not claims & {name(claim) for claim in own} and len(w.running()) == 2

    w.until("both claims are replaced", is_replaced, 300)
    w.expect(most[0] == 1, f"{most[0]} nodes were disrupted at a time, and the budget of 10 % allows one")
    # The oldest release of a class is what its status had before.
    old = {ami["id"] for ami in before}
    images = {instance["ImageId"] for instance in w.instances()}
    w.expect(not images & old, f"instances have the old images {images & old}")
    return None


def consolidation(w):
    """G. Three nodes with small pods become one cheaper node. A pod with do-not-disrupt keeps its node."""
    keep = [{"key": "keep", "effect": "NoSchedule"}]
    w.pool("keep", labels={"keep": "yes"}, taints=keep, requirements=[("karpenter.k8s.aws/instance-cpu", ["4"])])
    w.pool(budgets=[{"nodes": "100%"}])
    w.deployment("keep", 1, selector={"keep": "yes"}, tolerations=[{**keep[0], "operator": "Exists"}],
                 annotations={"karpenter.sh/do-not-disrupt": "true"})
    # Three nodes of 4 vCPU, each with a large pod and room for one small pod. The large pods then end.
    w.deployment("large", 3, cpu="3200m", apart="large")
    w.wait_running(3, "large")
    w.deployment("small", 3, cpu="600m")
    w.wait_running(3, "small")
    w.wait_running(1, "keep")
    started = time.time()
    w.create("poddisruptionbudgets", {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "small"},
                                      "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "small"}}}})
    before = [node for node in w.nodes() if label(node, KARPENTER_LABEL) == "default"]
    w.expect(len(before) == 3, f"{len(before)} nodes for three large pods")
    kept = next(node for node in w.nodes() if label(node, KARPENTER_LABEL) == "keep")
    w.expect(len({pod["spec"]["nodeName"] for pod in w.running("small")}) == 3, "the small pods share nodes")
    w.scale(0, "large")
    least = [3]

    def is_consolidated():
        least[0] = min(least[0], len(w.running("small")))
        nodes = [node for node in w.nodes() if label(node, KARPENTER_LABEL) == "default"]
        return len(nodes) == 1 and len(w.running("small")) == 3

    w.until("one node is left for the small pods", is_consolidated, 300)
    w.expect(least[0] >= 2, f"only {least[0]} small pods ran, and the PodDisruptionBudget demands 2")
    commands = [line for line in w.lines(message="disrupting node(s)") if reason(line) != "empty"]
    texts = [f"{line['decision']} {line['disrupted-node-count']} -> {line['replacement-node-count']}" for line in commands]
    w.expect(all("savings" in line["command"] and "$0.00" not in line["command"] for line in commands), f"commands: {[line['command'] for line in commands]}")
    w.expect(w.get("nodes", name(kept)), "the node of the pod with do-not-disrupt is gone")
    # The replacement holds three pods of 0.6 CPU: 2 vCPU suffice.
    after = next(node for node in w.nodes() if label(node, KARPENTER_LABEL) == "default")
    # An object has one such event within two minutes, and the first was about the pod that the node was launched for. Kerf looks
    # again after a change, and every five minutes without one.
    w.until("two minutes have passed since the first event", lambda: time.time() > started + 125, 130, 1)
    w.scale(2, "small")
    w.event("DisruptionBlocked", name(kept), "do-not-disrupt", 60)
    return f"{', '.join(texts)}; from 3 nodes of {instance_cpus(before[0])} vCPU to 1 of {instance_cpus(after)}"


def spot_interruption(w):
    """I. The warning of an interruption drains the node, and a replacement comes from another offering."""
    w.pool(capacity_type="spot", requirements=[EIGHT_CPUS])
    claim = five_pods(w)
    node = w.get("nodes", claim["status"]["nodeName"])

    def offering(own):
        return (label(own, "node.kubernetes.io/instance-type"), label(own, "topology.kubernetes.io/zone"))

    sent = time.time()
    w.change(reclaim={"id": w.instance_of(claim)})
    w.until("the claim is deleted", lambda: (own := w.get("nodeclaims", name(claim))) is None or "deletionTimestamp" in own["metadata"], 25)
    reaction = time.time() - sent
    w.logged("initiating delete from interruption message", 10, messageKind="spot_interrupted", action="CordonAndDrain")
    for about in (name(claim), name(node)):
        w.event("SpotInterrupted", about, "", 10)
        w.event("TerminatingOnInterruption", about, "", 10)
    w.until("five pods run on another node", lambda: len(pods := w.running()) == 5 and all(pod["spec"]["nodeName"] != name(node) for pod in pods))
    recovered = time.time() - sent
    w.until("the claim is gone", lambda: w.get("nodeclaims", name(claim)) is None)
    other = w.nodes()[0]
    w.expect(offering(other) != offering(node), f"the replacement has the interrupted offering {offering(node)}")
    w.until("the message is deleted from the queue", lambda: w.calls_of("DeleteMessage"), 10)
    w.expect(recovered < 120, f"the pods ran {recovered:.0f} s after the warning, and EC2 gives two minutes")
    return f"claim deleted after {reaction:.1f} s, pods run after {recovered:.0f} s; {'/'.join(offering(node))} -> {'/'.join(offering(other))}"


def ended_outside(w):
    """J. Instances that a person stops or terminates: at once with a queue, by garbage collection without."""
    w.pool()
    five_pods(w)
    notes = []
    for action, reason in (("stop", "InstanceStopping"), ("terminate", "InstanceTerminating")):
        claim = next(own for own in w.claims() if "deletionTimestamp" not in own["metadata"])
        sent = time.time()
        w.change(**{action: {"id": w.instance_of(claim)}})
        w.until(f"the claim of the instance is deleted after {action}",
                lambda: (own := w.get("nodeclaims", name(claim))) is None or "deletionTimestamp" in own["metadata"], 25)
        notes.append(f"{action}: {time.time() - sent:.1f} s")
        w.event(reason, name(claim), "", 10)
        w.until("five pods run on another node", lambda: len(pods := w.running()) == 5 and all(pod["spec"]["nodeName"] != claim["status"]["nodeName"] for pod in pods))
        w.until("the claim is gone", lambda: w.get("nodeclaims", name(claim)) is None, 180)
    controller = w.controllers[0]
    controller.stop()
    w.start(controller, INTERRUPTION_QUEUE="")
    claim = w.until("one claim is left", lambda: len(own := w.claims()) == 1 and own)[0]
    sent = time.time()
    w.change(terminate={"id": w.instance_of(claim)})
    # Garbage collection compares every two minutes.
    w.until("the claim is gone without a queue", lambda: w.get("nodeclaims", name(claim)) is None, 300)
    notes.append(f"without a queue: {time.time() - sent:.0f} s")
    w.wait_running(5)
    controller.stop()
    w.start(controller)
    return ", ".join(notes)


def rebalance(w):
    """K. A rebalance recommendation is only an event."""
    w.pool(capacity_type="spot", requirements=[EIGHT_CPUS])
    claim = five_pods(w)
    w.change(rebalance={"id": w.instance_of(claim)})
    w.event("SpotRebalanceRecommendation", name(claim), "", 25)
    w.event("SpotRebalanceRecommendation", claim["status"]["nodeName"], "", 10)
    w.hold("the claim stays", lambda: "deletionTimestamp" not in w.get("nodeclaims", name(claim))["metadata"], 10)
    return None


def insufficient_capacity(w):
    """L. All offerings of the chosen type are out of stock: the claim is deleted, the next attempt uses another type."""
    w.pool("first", weight=10, requirements=[("node.kubernetes.io/instance-type", ["c5.2xlarge"])])
    w.pool("second", requirements=[("node.kubernetes.io/instance-type", ["m5.2xlarge"])])
    w.change(stockOut={"instanceType": "c5.2xlarge"})
    w.deployment(replicas=5)
    w.event("InsufficientCapacityError", None, "")
    w.until("ERROR failed launching nodeclaim", lambda: w.lines(level="ERROR", message="failed launching nodeclaim"), 10)
    w.wait_running(5)
    kinds = sorted({label(node, "node.kubernetes.io/instance-type") for node in w.nodes()})
    w.expect(kinds == ["m5.2xlarge"], f"the nodes are {kinds}")
    w.until("the claim without instance is gone", lambda: all(label(own, KARPENTER_LABEL) == "second" for own in w.claims()), 30)
    fleets = len(w.calls_of("CreateFleet"))
    w.change(restock={"instanceType": "c5.2xlarge"})
    # Further pods within three minutes do not try the offerings again, although they are back in stock.
    w.scale(10)
    w.wait_running(10)
    kinds = sorted({label(node, "node.kubernetes.io/instance-type") for node in w.nodes()})
    w.expect(kinds == ["m5.2xlarge"], f"the nodes are {kinds} within three minutes")
    return f"{fleets} calls of CreateFleet until the pods ran"


def broken_class(w):
    """M. Without subnets nothing is launched, and nodes stay; with them the class is Ready within a minute or so."""
    w.pool()
    claim = five_pods(w)
    broken = time.time()
    w.change(tags={"resources": "subnet-01*", "remove": ["karpenter.sh/discovery"]})
    w.until("SubnetsReady is False", lambda: cluster.condition(w.get("ec2nodeclasses", "default"), "SubnetsReady").get("status") == "False", 150)
    noticed = time.time() - broken
    w.until("class and NodePool are not Ready", lambda: not cluster.is_true(w.get("ec2nodeclasses", "default"), "Ready")
            and not cluster.is_true(w.get("nodepools", "default"), "Ready"), 30)
    w.scale(20)
    w.until("ERROR ignoring nodepool, not ready", lambda: w.lines(level="ERROR", message="ignoring nodepool, not ready"), 60)
    fleets = len(w.calls_of("CreateFleet"))
    w.hold("nothing is launched, and nothing drifts", lambda: [name(own) for own in w.claims()] == [name(claim)]
           and not cluster.is_true(w.claims()[0], "Drifted"), 20)
    w.expect(len(w.calls_of("CreateFleet")) == fleets, "CreateFleet was called")
    restored = time.time()
    w.change(tags={"resources": "subnet-01*", "add": {"karpenter.sh/discovery": cluster.CLUSTER}})
    w.wait_for_class("default", 150)
    ready = time.time() - restored
    w.wait_running(20)
    return f"not Ready after {noticed:.0f} s, Ready {ready:.0f} s after the tags are back"


def missing_permission(w):
    """N. Without ec2:CreateFleet the class says so. After any change of an annotation it is validated again."""
    w.change(deny=["ec2:CreateFleet"])
    w.node_class("denied")

    def validation():
        return cluster.condition(w.get("ec2nodeclasses", "denied"), "ValidationSucceeded")

    w.until("ValidationSucceeded is False", lambda: validation().get("status") == "False")
    own = validation()
    w.expect(own["reason"] == "CreateFleetAuthCheckFailed" and "CreateFleet" in own["message"], f"the condition is {own}")
    w.change(allow=["ec2:CreateFleet"])
    w.patch("ec2nodeclasses", "denied", {"metadata": {"annotations": {"checked": "again"}}})
    allowed = time.time()
    w.until("ValidationSucceeded is True", lambda: validation().get("status") == "True", 15)
    return f"True {time.time() - allowed:.1f} s after the annotation: {own['message'][:90]}"


def manual_deletion(w):
    """O. Deleting a node, a claim, a NodePool and a class by hand ends their instances, templates and profile."""
    w.node_class("manual")
    w.wait_for_class("manual")
    w.pool(node_class="manual")
    nodes_apart(w, 3)
    for kind in ("nodes", "nodeclaims"):
        claim = w.claims()[0]
        target = claim["status"]["nodeName"] if kind == "nodes" else name(claim)
        instance = w.instance_of(claim)
        w.delete(kind, target)
        w.until(f"node, claim and instance are gone after deleting one of {kind}", lambda: not w.get("nodeclaims", name(claim))
                and not w.get("nodes", claim["status"]["nodeName"]) and instance not in [own["InstanceId"] for own in w.instances()])
        w.wait_running(3)
        w.until("three claims are Initialized", lambda: sum(cluster.is_true(own, "Initialized") for own in w.claims()) == 3)
    w.delete("ec2nodeclasses", "manual")
    w.event("WaitingOnNodeClaimTermination", "manual", "", 30)
    w.hold("the class waits for its claims", lambda: w.get("ec2nodeclasses", "manual"), 5)
    w.scale(0)
    w.delete("nodepools", "default")
    w.wait_no_nodes()
    w.until("NodePool and class are gone", lambda: not w.get("nodepools", "default") and not w.get("ec2nodeclasses", "manual"), 60)
    w.expect(w.calls_of("DeleteLaunchTemplate"), "no launch template was deleted")
    w.expect(len(w.calls_of("DeleteInstanceProfile")) == 1, "the instance profile was not deleted")
    return None


def leader_failover(w):
    """R. The second replica leads after the death or the end of the first, and adopts what the first began."""
    first = w.controllers[0]
    first.stop()
    second = w.second_replica()
    settings = {"DISABLE_LEADER_ELECTION": "false", "LEADER_ELECTION_NAMESPACE": "kube-system"}

    def holder():
        lease = w.get("leases", "karpenter-leader-election")
        return lease and lease["spec"].get("holderIdentity")

    w.start(first, **settings)
    leader = w.until("the first replica leads", holder, 30)
    w.start(second, **settings)
    w.pool()
    claims = nodes_apart(w, 2)
    fleets = len(w.calls_of("CreateFleet"))
    w.deployment("late", 3, apart="late")
    w.until("the first fleet of the new pods is launched", lambda: len(w.calls_of("CreateFleet")) > fleets, 60, 0.02)
    first.stop(signal.SIGKILL)
    killed = time.time()
    # A taint of a command that the dead leader did not finish.
    w.patch("nodes", claims[0]["status"]["nodeName"], {"spec": {"taints": [DISRUPTED]}})
    w.until("the other replica leads", lambda: holder() not in (leader, "", None), 40)
    took = time.time() - killed
    w.expect(took <= 20, f"the other replica leads after {took:.1f} s")
    w.wait_running(3, "late")
    w.until("the taint is removed", lambda: not is_disrupted(w.get("nodes", claims[0]["status"]["nodeName"])), 60)
    w.expect({name(own) for own in claims} <= {name(own) for own in w.claims()}, "a claim was replaced")
    w.until("five claims are Initialized", lambda: sum(cluster.is_true(own, "Initialized") for own in w.claims()) == 5)
    w.expect(len(w.claims()) == 5, f"{len(w.claims())} claims for five pods")
    # The dead leader may have launched instances of which no claim knows. Garbage collection terminates them.
    orphans = len(w.instances()) - 5
    w.until("each claim has one instance", lambda: len(w.instances()) == 5, 240, 1)
    collected = time.time() - killed
    w.hold("each claim has one instance", lambda: len(w.instances()) == 5, 5)
    leader = holder()
    w.start(first, **settings)
    w.until("the log of the replica grows", lambda: first.lines(w.offsets.get(first.name, 0)), 20)
    time.sleep(3)
    ended = time.time()
    second.stop()
    w.until("the first replica leads again", lambda: holder() not in (leader, "", None), 20)
    clean = time.time() - ended
    first.stop()
    w.controllers.remove(second)
    w.start(first)
    w.expect(clean <= 5, f"after a clean shutdown the other replica leads {clean:.1f} s later")
    return f"{took:.1f} s after SIGKILL, {clean:.1f} s after SIGTERM; {orphans} instances without a claim, terminated {collected:.0f} s after SIGKILL"


def restart_during_launch(w):
    """S. The controller dies after CreateFleet, before it knows the answer: no instance leaks, and no second one stays."""
    w.pool()
    controller = w.controllers[0]
    w.change(callFault={"operation": "CreateFleet", "fault": "lost-answer", "for": "20s"})
    faulty = time.time()
    w.deployment(replicas=5)
    w.until("EC2 has launched the instance", lambda: w.calls_of("CreateFleet", "no answer"), 60, 0.02)
    controller.stop(signal.SIGKILL)
    time.sleep(15)
    launched = {own["InstanceId"] for own in w.instances()}
    w.expect(len(launched) == 1, f"before the restart EC2 has {launched}")
    w.until("the fault is over", lambda: time.time() > faulty + 21)
    restarted = time.time()
    w.start(controller)
    w.wait_running(5)
    w.until("one claim is Initialized", lambda: [own for own in w.claims() if cluster.is_true(own, "Initialized")])
    w.until("one instance is left", lambda: len(w.instances()) == 1, 240, 2)
    took = time.time() - restarted
    is_adopted = {own["InstanceId"] for own in w.instances()} == launched
    w.expect(len(w.claims()) == 1, f"{len(w.claims())} claims")
    return f"{'adopted' if is_adopted else 'launched another instance, the orphan was terminated'}; {took:.0f} s after the restart"


def routing(w):
    """T. A pod for a GPU runs on a GPU NodePool only; one for arm64 on an arm64 node of a pool with both."""
    gpu = [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]
    w.pool("gpu", labels={}, taints=gpu, categories=None, requirements=[("karpenter.k8s.aws/instance-category", ["g"])])
    w.pool("both", arch=("amd64", "arm64"))
    w.deployment("gpu", 1, selector={}, resources={"nvidia.com/gpu": "1"}, tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}])
    # The unmanaged nodes have room for a pod without selector, so the pods for arm64 select the label of the pool too.
    w.deployment("arm", 1, affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]}]}}})
    w.wait_running(1, "gpu")
    w.wait_running(1, "arm")
    on = {app: w.get("nodes", w.running(app)[0]["spec"]["nodeName"]) for app in ("gpu", "arm")}
    found = {app: (label(node, KARPENTER_LABEL), label(node, "kubernetes.io/arch")) for app, node in on.items()}
    w.expect(found["gpu"][0] == "gpu" and found["arm"] == ("both", "arm64"), f"the pods run on {found}")
    w.expect(on["gpu"]["status"]["allocatable"].get("nvidia.com/gpu"), "the GPU node has no GPU")
    return ", ".join(label(node, "node.kubernetes.io/instance-type") for node in on.values())


def weights(w):
    """U. The pool with the greater weight is used until its limit, then the other."""
    w.pool("spot", capacity_type="spot", weight=100, limits={"cpu": "16"}, requirements=[EIGHT_CPUS])
    w.pool("on-demand", weight=1, requirements=[EIGHT_CPUS])
    # Each pod needs a node of 8 vCPU for itself.
    w.deployment(replicas=4, cpu="5")
    w.wait_running(4)
    pools = sorted(label(node, KARPENTER_LABEL) for node in w.nodes())
    w.expect(pools == ["on-demand", "on-demand", "spot", "spot"], f"the nodes are of {pools}")
    kinds = {(label(node, KARPENTER_LABEL), label(node, "karpenter.sh/capacity-type")) for node in w.nodes()}
    w.expect(kinds == {("spot", "spot"), ("on-demand", "on-demand")}, f"the nodes are {kinds}")
    return None


def zonal_shift(w):
    """W. During a shift new claims avoid the zone."""
    zone = "us-west-2a"
    controller = w.controllers[0]
    controller.stop()
    w.start(controller, ENABLE_ZONAL_SHIFT="true")
    w.pool()
    w.change(zonalShift={"zone": zone, "for": "10m"})
    begun = time.time()
    w.event("ZonalShiftActive", "default", "", 60)
    active = time.time() - begun
    spread = [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
               "labelSelector": {"matchLabels": {"app": "inflate"}}}]
    nodes_apart(w, 3, topologySpreadConstraints=spread)
    zones = sorted(label(node, "topology.kubernetes.io/zone") for node in w.nodes())
    w.expect(zone not in zones, f"the nodes are in {zones}")
    w.change(endZonalShift=zone)
    ended = time.time()
    w.event("ZonalShiftCleared", "default", "", 60)
    cleared = time.time() - ended
    w.expect(active <= 35 and cleared <= 35, f"active after {active:.0f} s, cleared after {cleared:.0f} s")
    controller.stop()
    w.start(controller)
    return f"active after {active:.0f} s, cleared after {cleared:.0f} s, nodes in {', '.join(sorted(set(zones)))}"


def observability(w):
    """X. Metrics have the expected values during a launch and a drift; jq reads each log line."""
    controller = w.controllers[0]
    names = [("karpenter_nodeclaims_created_total", {"reason": "provisioned", "nodepool": "default"}),
             ("karpenter_nodeclaims_created_total", {"reason": "drifted", "nodepool": "default"}),
             ("karpenter_nodes_created_total", {"nodepool": "default"}),
             ("karpenter_voluntary_disruption_decisions_total", {"decision": "replace", "reason": "drifted"})]

    def values():
        return [controller.metric(own, **labels) for own, labels in names]

    before = values()
    five_pods(w)
    # Equal labels are of one pod each.
    w.until("karpenter_pods_state has the five pods", lambda: sum(
        value for own, pairs, value in controller.metrics() if own == "karpenter_pods_state" and pairs.get("name", "").startswith("inflate-")
        and pairs.get("phase") == "Running" and pairs.get("nodepool") == "default") == 5, 30, 1)
    w.until("usage and limit of the NodePool are 8 and 10", lambda: [
        controller.metric(f"karpenter_nodepools_{own}", nodepool="default", resource_type="cpu") for own in ("usage", "limit")] == [8, 10], 30, 1)
    w.patch("nodepools", "default", {"spec": {"limits": {"cpu": "100"}, "template": {"metadata": {"annotations": {"round": "2"}}}}})
    old = name(w.claims()[0])
    w.until("the node is replaced", lambda: len(own := w.claims()) == 1 and name(own[0]) != old and len(w.running()) == 5, 240)
    added = [after - own for after, own in zip(values(), before)]
    w.expect(added == [1, 1, 2, 1], f"{[own for own, _ in names]} grew by {added}")
    text = open(controller.log_path, "rb").read()
    done = subprocess.run(["jq", "-r", ".level, .time[11:], .message, .error"], input=text, capture_output=True)
    lines, printed = len(text.splitlines()), len(done.stdout.splitlines())
    w.expect(done.returncode == 0 and printed >= 4 * lines, f"jq ends with {done.returncode} after {printed} lines: {done.stderr.decode().strip()}")
    return f"{lines} log lines; the metrics grew by {added}"


# Name, function, and the scenario whose cluster it continues: without it, everything is deleted first.
SCENARIOS = {
    "B": (scale_up, None), "C": (limits, "B"), "D": (scale_down, "C"), "E": (drift_of_class, "D"), "F": (drift_of_images, None),
    "G": (consolidation, None), "I": (spot_interruption, None), "J": (ended_outside, None), "K": (rebalance, None),
    "L": (insufficient_capacity, None), "M": (broken_class, None), "N": (missing_permission, None), "O": (manual_deletion, None),
    "R": (leader_failover, None), "S": (restart_during_launch, None), "T": (routing, None), "U": (weights, None), "W": (zonal_shift, None),
    "X": (observability, None),
}
