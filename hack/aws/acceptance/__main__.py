#!/usr/bin/env python3
"""Runs the acceptance scenarios of docs/spec/07-operations.md section 13 on the real clock, with processes only.

    hack/controlplane/cluster.sh -- PYTHON hack/aws/acceptance --kerf KERF --kerf-aws KERF_AWS
    hack/controlplane/cluster.sh -- PYTHON hack/aws/acceptance --kerf KERF --karpenter FOLDER
    hack/controlplane/cluster.sh -- PYTHON hack/aws/acceptance --kerf KERF --karpenter FOLDER --kerf-aws KERF_AWS --swap

PYTHON is that of hack/aws/python-env.sh. The API server is real, AWS is `KERF aws serve`, and a stand-in registers a node for each running
instance. The controller is `KERF_AWS controller`, or with --karpenter Karpenter's own (FOLDER is what hack/karpenter/build.sh prints).
--swap runs both in turn on one cluster with running nodes: no node may be replaced, and no instance may leak.

The script prints a line for each scenario: passed or failed, seconds, AWS calls with their counts. It exits with 1 if one fails. A scenario
that fails leaves the objects and the logs in the folder of --keep (default: a temporary folder, which is printed).
"""
import argparse, json, os, shutil, signal, socket, sys, tempfile, time, traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE), os.path.dirname(os.path.dirname(HERE))]

import cluster
import controllers
import swap
from scenarios import SCENARIOS
from world import Failed, World

KARPENTER_SCENARIOS = "BDFILM"


def free_port():
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return own.getsockname()[1]


def install(world, options):
    """Installs the CRDs of the first controller, three nodes that no controller manages, and the class."""
    if options.karpenter:
        cluster.kubectl("apply", "--server-side", "-f", os.path.join(options.karpenter, "crds"))
    else:
        cluster.kubectl("apply", "--server-side", "-f", "-", text=cluster.crds(options.kerf))
    cluster.kubectl("wait", "--for", "condition=Established", "--timeout", "60s", "crd", "--all")
    for number in range(3):
        amount = {"cpu": "4", "memory": "16Gi", "pods": "110"}
        labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": f"unmanaged-{number}"}
        metadata = {"name": f"unmanaged-{number}", "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
        world.create("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": amount, "allocatable": amount}})
    world.node_class()


def run_scenario(world, key, previous, folder):
    """Runs one scenario. Returns its result."""
    function, continues = SCENARIOS[key]
    result = {"scenario": key, "title": function.__doc__.split(". ", 1)[1].split("\n")[0]}
    begun = time.monotonic()
    try:
        if previous is None or previous != continues:
            world.clean()
        world.mark()
        begun = time.monotonic()
        result["note"] = function(world)
        result["passed"] = True
    except (Failed, SystemExit) as failure:
        result["passed"], result["failure"] = False, str(failure)
    except Exception:
        result["passed"], result["failure"] = False, traceback.format_exc()
    result["seconds"] = round(time.monotonic() - begun, 1)
    try:
        result["calls"] = world.result_calls()
        if not result["passed"]:
            world.dump(os.path.join(folder, f"{key}.json"))
    except (Failed, OSError, SystemExit) as failure:
        result["failure"] = result.get("failure", "") + f"\nthe world does not answer: {failure}"
        result["passed"] = False
    return result


def report(result):
    word = "passed" if result["passed"] else "FAILED"
    print(f"{result['scenario']}  {word}  {result['seconds']:6.1f} s  {result['title']}", flush=True)
    if result.get("note"):
        print(f"      {result['note']}")
    if not result["passed"]:
        print("      " + result["failure"].strip().replace("\n", "\n      "))
    counts = result.get("calls", {}).get("counts", {})
    if counts:
        print("      " + ", ".join(f"{name} {count}" for name, count in counts.items()), flush=True)


def run(options, folder, children):
    world = World(options.kerf, folder, children)
    install(world, options)
    kerf = options.kerf_aws and controllers.kerf(options.kerf_aws, folder, free_port())
    karpenter = options.karpenter and controllers.karpenter(os.path.join(options.karpenter, "controller"), folder, free_port())
    first = karpenter or kerf
    world.new_replica = lambda: (controllers.karpenter(os.path.join(options.karpenter, "controller"), folder, free_port(), 2) if karpenter
                                 else controllers.kerf(options.kerf_aws, folder, free_port(), 2))
    results = []
    try:
        world.mark()
        begun = time.monotonic()
        world.start(first)
        world.wait_for_class()
        start = {"scenario": "-", "title": f"{first.name} starts, and the class is Ready", "passed": True, "seconds": round(time.monotonic() - begun, 1),
                 "calls": world.result_calls()}
        report(start)
        results.append(start)
        previous = None
        for key in options.scenarios:
            result = run_scenario(world, key, previous, folder)
            if not result["passed"]:
                # The scenario may have left another replica, other settings, or no controller at all.
                for controller in world.controllers:
                    controller.stop(signal.SIGKILL)
                del world.controllers[1:]
                world.restore_account()
                world.start(first)
            previous = key if result["passed"] else None
            report(result)
            results.append(result)
        if options.swap:
            for result in swap.run(world, karpenter, kerf, options.kerf, folder):
                report(result)
                results.append(result)
        end = {"scenario": "-", "title": "everything is deleted, and no instance is left", "passed": True, "calls": {}}
        begun = time.monotonic()
        try:
            world.clean()
        except (Failed, SystemExit) as failure:
            end.update(passed=False, failure=str(failure))
        end["seconds"] = round(time.monotonic() - begun, 1)
        report(end)
        results.append(end)
    finally:
        for controller in [own for own in (kerf, karpenter, *world.controllers) if own]:
            controller.stop(signal.SIGKILL)
        world.kubelets.stopped.set()
    peak = {own.name: own.peak_megabytes for own in (kerf, karpenter) if own and own.peak_megabytes}
    print(f"peak memory in MiB: {peak}")
    return {"controller": first.name, "peakMegabytes": peak, "results": results}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--kerf", required=True, help="program that serves AWS and prints CRDs")
    parser.add_argument("--kerf-aws", help="program whose controller is tested")
    parser.add_argument("--karpenter", help="folder with Karpenter's controller and CRDs")
    parser.add_argument("--scenarios", help=f"letters of the scenarios, for example B,D,F; default: all, {KARPENTER_SCENARIOS} with Karpenter")
    parser.add_argument("--swap", action="store_true")
    parser.add_argument("--keep", help="folder for logs and results")
    options = parser.parse_args()
    default = KARPENTER_SCENARIOS if options.karpenter else "".join(SCENARIOS)
    options.scenarios = [key for key in (default if options.scenarios is None else options.scenarios).replace(",", "")]
    unknown = [key for key in options.scenarios if key not in SCENARIOS]
    if unknown or not (options.karpenter or options.kerf_aws) or (options.swap and not (options.karpenter and options.kerf_aws)):
        parser.error(f"unknown scenarios {unknown}; there are {', '.join(SCENARIOS)}" if unknown else "--kerf-aws or --karpenter is missing; --swap needs both")
    folder = options.keep or tempfile.mkdtemp(prefix="kerf-acceptance.")
    os.makedirs(folder, exist_ok=True)
    for left in os.listdir(folder):
        if left.endswith((".log", ".json")):
            os.unlink(os.path.join(folder, left))
    children, is_passed, begun = [], False, time.monotonic()
    try:
        outcome = run(options, folder, children)
        with open(os.path.join(folder, "results.json"), "w") as file:
            json.dump(outcome, file, indent=1)
        failed = [result["scenario"] for result in outcome["results"] if not result["passed"]]
        is_passed = not failed
        print(f"{len(outcome['results'])} parts in {time.monotonic() - begun:.0f} s" + (f", failed: {', '.join(failed)}" if failed else ", all passed"))
    finally:
        for child in reversed(children):
            child.terminate()
            try:
                child.wait(20)
            except Exception:
                child.kill()
        if is_passed and not options.keep:
            shutil.rmtree(folder)
        else:
            print(f"logs and results are in {folder}", file=sys.stderr)
    return 0 if is_passed else 1


if __name__ == "__main__":
    # On SIGTERM the script exits, and ends the processes that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
