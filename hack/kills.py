#!/usr/bin/env python3
"""Kills and stops two replicas of `kerf controller` at random instants, while the workload changes.

    hack/controlplane/cluster.sh --audit FILE -- hack/kills.py KERF [--audit FILE] [--kills N] [--stops N] [--seed N]
    kerf sandbox --no-controller -- hack/kills.py KERF ...

KERF is the program, built with --release. --kills (100) is the number of SIGKILLs, four of five to the leader; --stops (20) is the number of
times that the leader is stopped (SIGSTOP) for longer than its lease of 15 seconds. A process that has ended starts again after a second. Every
pod needs a node of its own, so that the number of NodeClaims that a change needs is known. The script fails if

- a NodeClaim gets two Nodes, or a change creates another number of NodeClaims than it needs (drift excepted: a process that finds a replacement
  without its command may not use it);
- a pod does not run, or a Node or NodeClaim is without the other, four minutes after the last kill of a change;
- with --audit: a replica sends a write, other than to the lease, when its last renewal is older than 10 seconds, or after another replica has
  acquired the lease. Each process sends its requests as a user of its own.

It prints one JSON object.
"""
import argparse, datetime, json, os, random, signal, subprocess, sys, tempfile, time

from idle import CLAIMS, Api, install

CLASS = {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}, "spec": {"nodeRegistrationDelay": "3s"}}
POOL = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {
    "disruption": {"consolidateAfter": "5s", "budgets": [{"nodes": "100%"}]},
    "template": {"metadata": {"annotations": {"round": "0"}}, "spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-2x-amd64-linux"]},
                         {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}}}}
WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
    "replicas": 0, "selector": {"matchLabels": {"app": "web"}},
    "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1500m", "memory": "64Mi"}}}]}}}}
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/web"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/kerf-kills"
NODES = "/api/v1/nodes"
MERGE = "application/merge-patch+json"
MAX_PODS = 16
# A change settles within this time after the last kill: a lease that expires, a drain, a launch.
SETTLE_SECONDS = 240
# Writes are not sent when the last renewal is older than this.
RENEWAL_SECONDS = 10
# The audit log has the times at which requests arrive. A request is on its way for less than this.
TRANSIT_SECONDS = 0.5
WRITES = {"create", "update", "patch", "delete", "deletecollection"}


class Replica:
    """One of the two replicas: a process that starts again after it has ended."""

    def __init__(self, kerf, folder, starts):
        self.kerf, self.folder, self.starts = kerf, folder, starts
        self.child, self.restart_at, self.stopped = None, 0.0, False
        self.peak_kilobytes, self.exits = 0, []
        self.start()

    def start(self):
        """Starts a process that sends its requests as a user of its own."""
        user = f"replica-{next(self.starts)}"
        source = os.environ.get("KERF_CONTROLPLANE", "") + "/kerf.kubeconfig"
        source = source if os.path.exists(source) else os.environ["KUBECONFIG"]
        view = subprocess.run(["kubectl", "--kubeconfig", source, "config", "view", "--raw", "-o", "json"], capture_output=True, text=True, check=True)
        config = json.loads(view.stdout)
        for each in config["users"]:
            each["user"].update({"as": user, "as-groups": ["system:masters"]})
        path = f"{self.folder}/{user}.kubeconfig"
        with open(path, "w") as file:
            json.dump(config, file)
        log = open(f"{self.folder}/{user}.log", "w")
        arguments = ["--metrics-port", "0", "--health-probe-port", "0", "--debug-address", "0",
                     "--leader-election-name", "kerf-kills", "--leader-election-namespace", "default"]
        self.child = subprocess.Popen([self.kerf, "controller", *arguments], env=dict(os.environ, KUBECONFIG=path), stdout=log, stderr=log)
        self.stopped = False

    def advance(self):
        """Starts the process again a second after it has ended, and reads its memory."""
        if self.child is None:
            if time.monotonic() >= self.restart_at:
                self.start()
        elif self.child.poll() is not None:
            self.exits.append(self.child.returncode)
            self.child, self.restart_at = None, time.monotonic() + 1
        else:
            self.peak_kilobytes = max(self.peak_kilobytes, self.kilobytes("VmHWM"))

    def kilobytes(self, what):
        try:
            with open(f"/proc/{self.child.pid}/status") as lines:
                return next((int(line.split()[1]) for line in lines if line.startswith(what)), 0)
        except OSError:
            return 0

    def signal(self, number):
        self.advance()
        if self.child:
            self.child.send_signal(number)


class Cluster:
    """What the API server has, and all NodeClaims and Nodes that it has had."""

    def __init__(self, api):
        self.api = api
        self.claims_seen, self.nodes_of = set(), {}
        self.claims, self.nodes = {}, {}

    def read(self):
        claims = self.api("GET", CLAIMS)["items"]
        nodes = self.api("GET", NODES)["items"]
        self.claims = {each["metadata"]["name"]: each for each in claims}
        self.nodes = {each["metadata"]["name"]: each for each in nodes}
        self.claims_seen.update(each["metadata"]["uid"] for each in claims)
        for name, node in self.nodes.items():
            self.nodes_of.setdefault(node["metadata"]["labels"].get("kubernetes.io/hostname", name), set()).add(node["metadata"]["uid"])

    def claims_with_two_nodes(self):
        return [claim for claim, nodes in self.nodes_of.items() if len(nodes) > 1]

    def unsettled(self, pods, generation):
        """Returns why the cluster has not settled, or None."""
        self.read()
        status = self.api("GET", DEPLOYMENT).get("status", {})
        if (status.get("replicas", 0), status.get("readyReplicas", 0)) != (pods, pods):
            return f"{status.get('readyReplicas', 0)} of {pods} pods are ready"
        if (len(self.claims), len(self.nodes)) != (pods, pods):
            return f"{len(self.claims)} NodeClaims and {len(self.nodes)} Nodes for {pods} pods"
        for name, claim in self.claims.items():
            if claim.get("status", {}).get("nodeName") not in self.nodes:
                return f"NodeClaim {name} has no Node"
            if claim["metadata"].get("deletionTimestamp"):
                return f"NodeClaim {name} is being deleted"
            if claim["metadata"]["annotations"].get("round") != str(generation):
                return f"NodeClaim {name} is drifted"
        return None


class Run:
    def __init__(self, arguments, folder):
        self.random = random.Random(arguments.seed)
        self.api = Api()
        install(self.api, arguments.kerf, CLASS, POOL)
        self.api("POST", "/apis/apps/v1/namespaces/default/deployments", WEB)
        self.cluster = Cluster(self.api)
        starts = iter(range(10_000))
        self.replicas = [Replica(arguments.kerf, folder, starts) for _ in range(2)]
        self.pods, self.generation = 0, 0
        self.change, self.claims_before, self.claims_needed = "start", 0, 0
        self.changes, self.violations = {}, []
        self.strikes = {"leader killed": 0, "standby killed": 0, "leader stopped": 0}
        self.last_strike = time.monotonic()

    def wait(self, seconds):
        """Lets time pass, reads the cluster, and starts processes again."""
        end = time.monotonic() + seconds
        while True:
            for replica in self.replicas:
                replica.advance()
            self.cluster.read()
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.4))

    def leader(self):
        """Waits until one of the processes holds the lease. Returns its replica."""
        limit = time.monotonic() + 60
        while time.monotonic() < limit:
            self.wait(0)
            try:
                holder = self.api("GET", LEASE)["spec"].get("holderIdentity") or ""
            except SystemExit:
                holder = ""
            pid = holder.rsplit("_", 1)[-1].split("-")[0]
            for replica in self.replicas:
                if replica.child and str(replica.child.pid) == pid and not replica.stopped:
                    return replica
            time.sleep(0.3)
        processes = [(replica.child and replica.child.pid, replica.stopped) for replica in self.replicas]
        raise SystemExit(f"no process has acquired the lease for 60 s: holder {holder!r}, processes {processes}")

    def begin_change(self):
        """Changes the workload. The number of NodeClaims that each change needs is known."""
        name = self.random.choice(["scale", "scale", "scale", "drift", "delete"]) if self.pods else "scale"
        self.claims_before, before = len(self.cluster.claims_seen), self.pods
        if name == "scale":
            while self.pods == before:
                self.pods = self.random.randrange(2, MAX_PODS + 1)
            name = "scale-out" if self.pods > before else "scale-in"
            self.claims_needed = max(0, self.pods - before)
            self.api("PATCH", DEPLOYMENT, {"spec": {"replicas": self.pods}}, MERGE)
        elif name == "drift":
            self.generation += 1
            self.claims_needed = None
            patch = {"spec": {"template": {"metadata": {"annotations": {"round": str(self.generation)}}}}}
            self.api("PATCH", "/apis/karpenter.sh/v1/nodepools/default", patch, MERGE)
        else:
            self.claims_needed = 1
            self.api("DELETE", f"{CLAIMS}/{self.random.choice(sorted(self.cluster.claims))}")
        self.change = name
        self.changes[name] = self.changes.get(name, 0) + 1

    def end_change(self):
        """Checks how many NodeClaims the change created."""
        created = len(self.cluster.claims_seen) - self.claims_before
        if self.claims_needed is not None and created != self.claims_needed:
            self.violations.append(f"{self.change} to {self.pods} pods created {created} NodeClaims, and needs {self.claims_needed}")

    def settle(self):
        """Waits until the change is complete."""
        limit = time.monotonic() + SETTLE_SECONDS
        while (why := self.cluster.unsettled(self.pods, self.generation)) is not None:
            if time.monotonic() > limit:
                raise SystemExit(f"{self.change} is not complete {SETTLE_SECONDS} s after the last kill: {why}")
            self.wait(0.4)
        self.end_change()

    def strike(self, action):
        """Kills or stops a process at a random instant of the leader's work."""
        while True:
            leader = self.leader()
            process = leader.child
            self.wait(self.random.uniform(0, 8))
            if leader.child is process and process.poll() is None:
                break
        if action == "stop":
            leader.stopped = True
            leader.signal(signal.SIGSTOP)
            self.wait(self.random.uniform(16, 25))
            leader.signal(signal.SIGCONT)
            leader.stopped = False
            self.strikes["leader stopped"] += 1
            return
        is_leader = self.random.random() < 0.8
        victim = leader if is_leader else next(each for each in self.replicas if each is not leader)
        victim.signal(signal.SIGKILL)
        if victim.child:
            victim.child.wait(10)
        self.strikes["leader killed" if is_leader else "standby killed"] += 1

    def play(self, kills, stops):
        actions = ["kill"] * kills + ["stop"] * stops
        self.random.shuffle(actions)
        during = 0
        for number, action in enumerate(actions):
            if during == 0:
                self.begin_change()
            self.strike(action)
            during += 1
            # A change survives one to four strikes, and then has to complete.
            if during == 4 or self.random.random() < 0.5:
                self.settle()
                during = 0
            if number % 10 == 9:
                print(f"{number + 1} of {len(actions)} kills and stops", file=sys.stderr, flush=True)
        if during:
            self.settle()
        at_rest = self.leader().kilobytes("VmRSS")
        self.change, self.pods = "scale to zero", 0
        self.claims_before, self.claims_needed = len(self.cluster.claims_seen), 0
        self.api("PATCH", DEPLOYMENT, {"spec": {"replicas": 0}}, MERGE)
        self.settle()
        self.violations += [f"NodeClaim {claim} had two Nodes" for claim in self.cluster.claims_with_two_nodes()]
        return at_rest // 1024

    def stop(self):
        for replica in self.replicas:
            if replica.child:
                replica.child.send_signal(signal.SIGCONT)
                replica.child.terminate()
        for replica in self.replicas:
            if replica.child:
                replica.child.wait(60)


def audited_writes(path):
    """Checks the writes of the audit log. Returns violations, the number of writes, and the largest age of a renewal at a write."""
    events = []
    with open(path) as lines:
        for line in lines:
            event = json.loads(line)
            user = event.get("impersonatedUser", {}).get("username", "")
            if user.startswith("replica-") and event["verb"] in WRITES:
                events.append((datetime.datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp(), user, event))
    events.sort(key=lambda each: each[0])
    renewed, holder, violations, count, oldest = {}, None, [], 0, 0.0
    for at, user, event in events:
        about = event.get("objectRef", {})
        what = f"{event['verb']} {about.get('resource')}/{about.get('name', '')}"
        if about.get("resource") == "leases":
            if event["responseStatus"].get("code", 500) < 300:
                renewed[user], holder = at, user
            continue
        count += 1
        age = at - renewed[user] if user in renewed else float("inf")
        oldest = max(oldest, age)
        if age > RENEWAL_SECONDS + TRANSIT_SECONDS:
            violations.append(f"{user} sent {what} {age:.3f} s after its last renewal")
        if holder != user:
            violations.append(f"{user} sent {what} while {holder} held the lease")
    if count == 0:
        violations.append("the audit log has no write of a replica")
    return violations, count, oldest


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("kerf")
    parser.add_argument("--audit")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--stops", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kerf-kills.") as folder:
        run = Run(arguments, folder)
        try:
            at_rest = run.play(arguments.kills, arguments.stops)
        except BaseException:
            for replica in run.replicas:
                print(f"exit codes: {replica.exits}", file=sys.stderr)
            for name in sorted(os.listdir(folder)):
                if name.endswith(".log"):
                    with open(f"{folder}/{name}") as log:
                        print(f"--- {name}\n" + "".join(log.readlines()[-15:]), file=sys.stderr)
            raise
        finally:
            run.stop()
    result = {"seed": arguments.seed, "seconds": round(time.monotonic() - started), "strikes": run.strikes, "changes": run.changes,
              "nodeclaims": len(run.cluster.claims_seen), "resident_megabytes": at_rest,
              "peak_megabytes": max(replica.peak_kilobytes for replica in run.replicas) // 1024}
    if arguments.audit:
        violations, result["writes"], oldest = audited_writes(arguments.audit)
        result["oldest_renewal_at_a_write_seconds"] = round(oldest, 3)
        run.violations += violations
    result["violations"] = run.violations[:20]
    print(json.dumps(result), flush=True)
    return 1 if run.violations else 0


if __name__ == "__main__":
    # On SIGTERM the script exits, and ends the processes that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
