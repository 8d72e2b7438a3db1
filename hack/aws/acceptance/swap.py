"""Y: two controllers take turns on a cluster with running nodes. No node is replaced, and no instance leaks."""
import os, time, traceback

import cluster
from world import Failed

# Each controller has this time to find something wrong with the nodes of the other. Its loops run at least every ten seconds,
# those of drift and garbage collection within two minutes.
WATCHED_SECONDS = 150


def _identities(w):
    """Returns what must not change: each claim with its node and its instance."""
    return {claim["metadata"]["name"]: (claim["status"].get("nodeName"), claim["status"].get("providerID")) for claim in w.claims()}


def _check_same(w, before):
    now = _identities(w)
    w.expect(now == before, f"the claims were {before} and are {now}")
    drifted = [claim["metadata"]["name"] for claim in w.claims() if cluster.is_true(claim, "Drifted")]
    w.expect(not drifted, f"claims are Drifted: {[(each, cluster.condition(w.get('nodeclaims', each), 'Drifted')) for each in drifted]}")
    return True


def _leaks(w):
    """Returns instances without a claim, and claims without an instance."""
    instances = {instance["InstanceId"] for instance in w.instances()}
    claims = {w.instance_of(claim) for claim in w.claims()}
    return sorted(instances ^ claims)


def _pools(w):
    """Three pools: on demand, spot, and one with a class and taints of its own."""
    w.node_class("second", tags={"team": "b"}, kubelet={"maxPods": 50})
    w.wait_for_class("second")
    w.pool(limits={"cpu": "100"}, consolidate_after="Never")
    w.pool("spot", capacity_type="spot", labels={"kind": "spot"}, consolidate_after="Never")
    taint = [{"key": "own", "effect": "NoSchedule"}]
    w.pool("own", labels={"kind": "own"}, taints=taint, node_class="second", consolidate_after="Never")
    w.deployment(replicas=5)
    w.deployment("spot", 3, selector={"kind": "spot"}, apart="spot")
    w.deployment("own", 2, selector={"kind": "own"}, apart="own", tolerations=[{**taint[0], "operator": "Exists"}])


def _wait_settled(w, replicas):
    for app, count in replicas.items():
        w.wait_running(count, app, 180)
    w.until("all claims are Initialized", lambda: (claims := w.claims()) and all(cluster.is_true(claim, "Initialized") for claim in claims))


def run(w, karpenter, kerf, kerf_program, folder):
    """Yields the result of each turn."""
    results = []

    def part(title, function):
        result, begun = {"scenario": "Y", "title": title}, time.monotonic()
        w.mark()
        try:
            result["note"], result["passed"] = function(), True
        except (Failed, SystemExit) as failure:
            result["passed"], result["failure"] = False, str(failure)
        except Exception:
            result["passed"], result["failure"] = False, traceback.format_exc()
        result.update(seconds=round(time.monotonic() - begun, 1), calls=w.result_calls())
        if not result["passed"]:
            w.dump(os.path.join(folder, f"Y-{len(results)}.json"))
        results.append(result)
        return result

    replicas = {"inflate": 5, "spot": 3, "own": 2}

    def begin():
        w.clean()
        _pools(w)
        _wait_settled(w, replicas)
        return f"{len(w.claims())} nodes of three NodePools"

    yield part("Karpenter launches nodes of three NodePools", begin)

    def turn(old, new, scaled):
        def act():
            before = _identities(w)
            code = old.stop()
            w.controllers.remove(old)
            w.offsets[new.name] = new.log_size()
            w.start(new)
            w.hold(f"{new.name} keeps the nodes of {old.name}", lambda: _check_same(w, before), WATCHED_SECONDS)
            w.expect(not w.calls_of("CreateFleet") and not w.calls_of("TerminateInstances"), "instances were launched or terminated")
            commands = w.lines(message="disrupting node(s)")
            w.expect(not commands, f"{new.name} disrupts nodes: {commands}")
            # The new controller also serves pods, and ends nodes that the other launched.
            app, count = scaled
            replicas[app] = count
            w.scale(count, app)
            _wait_settled(w, replicas)
            w.delete("nodeclaims", sorted(before)[0])
            w.until("the deleted claim and its instance are gone", lambda: not w.get("nodeclaims", sorted(before)[0]) and not _leaks(w), 180, 1)
            _wait_settled(w, replicas)
            w.until("EC2 and the cluster agree", lambda: not _leaks(w), 60, 1)
            return f"{old.name} ended with {code}; {len(before)} claims kept for {WATCHED_SECONDS} s, then one more launched and one ended"
        return act

    turns = [(karpenter, kerf, ("spot", 4)), (kerf, karpenter, ("own", 3)), (karpenter, kerf, ("spot", 5)), (kerf, karpenter, ("own", 4))]
    for number, (old, new, scaled) in enumerate(turns):
        if number == 2:
            # The second round is with Kerf's CRDs, which an upgrade installs.
            cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=cluster.crds(kerf_program))
        crds = "Karpenter's" if number < 2 else "Kerf's"
        result = part(f"{new.name} takes over from {old.name}, with {crds} CRDs", turn(old, new, scaled))
        yield result
        if not result["passed"]:
            return

    def end():
        w.clean()
        return "no instance is left"

    yield part("everything is deleted", end)
