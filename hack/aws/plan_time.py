#!/usr/bin/env python3
"""Measures `kerf plan` of 1,000 pods over all instance types of EC2: loading, resolving and solving, as `--timings` prints them.

    cargo build --release --package kerf
    hack/aws/plan_time.py [target/release/kerf]

Each line is the median of nine runs. A region with about 400 types shows how the time grows with the number of types.
"""
import re
import statistics
import subprocess
import sys
import time

RUNS = 9
# Region and number of its instance types (`kerf aws data`).
REGIONS = [("ap-southeast-3", 403), ("us-west-2", 1345), ("us-east-1", 1366)]

CLASS = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: all}
spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: all}, requirements: [
  {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}]}}}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: all}
spec: {role: r, amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerms: [{tags: {a: b}}], securityGroupSelectorTerms: [{tags: {a: b}}]}
"""

SPREAD = """      topologySpreadConstraints:
        - {{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {{matchLabels: {{app: a{0}}}}}}}
"""
DEPLOYMENT = """\
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: a{0}}}
spec:
  replicas: 20
  selector: {{matchLabels: {{app: a{0}}}}}
  template:
    metadata: {{labels: {{app: a{0}}}}}
    spec:
{1}      containers: [{{name: a, resources: {{requests: {{cpu: {2}m, memory: {3}Mi}}}}}}]
"""


def manifest():
    """Returns 50 deployments of 20 pods each. Every third one is spread over the zones."""
    text = CLASS
    for number in range(50):
        spread = SPREAD.format(number) if number % 3 == 0 else ""
        text += DEPLOYMENT.format(number, spread, 100 + number * 37 % 1900, 128 + number * 311 % 7000)
    return text


def main():
    kerf = sys.argv[1] if len(sys.argv) > 1 else "target/release/kerf"
    pods = manifest()
    print(f"{'region':16} {'types':>5} {'loading':>9} {'resolving':>9} {'solving':>9} {'whole':>9}")
    for region, types in REGIONS:
        runs = []
        for _ in range(RUNS):
            start = time.monotonic()
            command = [kerf, "plan", "-f", "-", "--region", region, "--timings", "-o", "json"]
            out = subprocess.run(command, input=pods, text=True, capture_output=True, timeout=60, check=True)
            seconds = re.search(r"loading ([\d.]+) s, resolving ([\d.]+) s, solving ([\d.]+) s", out.stderr)
            runs.append([float(text) for text in seconds.groups()] + [time.monotonic() - start])
        medians = [statistics.median(column) for column in zip(*runs)]
        print(f"{region:16} {types:5} " + " ".join(f"{1000 * seconds:6.0f} ms" for seconds in medians))


if __name__ == "__main__":
    main()
