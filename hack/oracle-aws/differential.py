#!/usr/bin/env python3
"""Compares `kerf aws ask` with Karpenter's AWS provider (spec 11) on generated documents.

usage: differential.py KERF ORACLE [--count N] [--seed N] [--questions a,b] [--record FILE]
       differential.py KERF ORACLE --matrix
       differential.py KERF --recorded FILE

Each document comes from a seed, so that a difference can be repeated: --seed S --count 1. A difference
is asked three times before it counts, because some of Karpenter's answers depend on chance. An oracle
that ends (Karpenter calls log.Fatal for some inputs) is started again, and its document is skipped.
Exit code 1 if an answer differs in a way that spec 11 section 4 does not allow.
"""

import argparse
import copy
import email
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import tomllib
from decimal import Decimal

import yaml

import documents
import live_documents

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CATALOGUE = os.path.join(ROOT, "crates", "kerf-aws", "data", "catalogue-us-west-2.json.gz")
TRIES = 3
QUESTIONS = [*documents.QUESTIONS, *live_documents.QUESTIONS]


class Program:
    """A program that answers one document per line."""

    def __init__(self, command, question, catalogue):
        self.command = [*command, question, "--catalogue", catalogue]
        self.process = None

    def ask(self, document):
        """Returns the answer, or None if the program ended without one."""
        if self.process is None:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            self.process.stdin.write(json.dumps(document) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.stop()
            return None
        return json.loads(line)

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


SUFFIXES = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1), "k": Decimal(10**3),
    "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50),
}


def quantity(text):
    """Returns the value of a Kubernetes quantity."""
    digits = text.rstrip("numkKMGTPEi")
    return Decimal(digits) * SUFFIXES[text[len(digits):]]


RESOURCES = ("capacity", "kubeReserved", "systemReserved", "evictionThreshold", "allocatable")


def canonical_types(answer):
    for instance_type in answer.get("instanceTypes", []):
        # Newer than Karpenter 1.14 (spec 11 section 4).
        instance_type["requirements"].pop("karpenter.k8s.aws/nitro-sandbox", None)
        for member in RESOURCES:
            values = {name: quantity(text) for name, text in instance_type[member].items()}
            instance_type[member] = {name: str(value.normalize()) for name, value in values.items()}
        for offering in instance_type["offerings"]:
            offering["price"] = f"{offering['price']:.9e}"


def words(text):
    return text.split()


def canonical_user_data(answer, family, member="userData"):
    text = answer.get(member)
    if text is None:
        return
    if family == "Bottlerocket":
        answer[member] = tomllib.loads(text)
    elif family in ("Custom",):
        pass
    elif family.startswith("Windows"):
        answer[member] = words(text)
    else:
        message = email.message_from_string(text)
        parts = []
        for part in message.get_payload() if message.is_multipart() else []:
            content_type = part.get("Content-Type", "")
            body = part.get_payload(decode=False)
            if content_type == "application/node.eks.aws":
                body = list(yaml.safe_load_all(body))
            elif "EKS" in body or "/etc/eks/bootstrap.sh" in body:
                body = words(body)
            parts.append([sorted(part.items()), body])
        answer[member] = parts


def canonical_node_class(answer, family):
    if "error" in answer:
        # Spec 11 section 2.8: not compared after an error.
        del answer["requeue"], answer["requeueAfterSeconds"]
    for call in answer["calls"]:
        canonical_user_data(call["input"].get("LaunchTemplateData", {}), family, "UserData")


def canonical_claim(claim):
    # Newer than Karpenter 1.14 (spec 11 section 4).
    claim.get("labels", {}).pop("karpenter.k8s.aws/nitro-sandbox", None)
    for member in ("capacity", "allocatable"):
        if member in claim:
            claim[member] = {name: str(quantity(text).normalize()) for name, text in claim[member].items()}


def sort_by_text(items):
    items.sort(key=lambda item: json.dumps(item, sort_keys=True))


def ends_run(call):
    return call["operation"].startswith(("CreateFleet", "RunInstances"))


def canonical_calls(steps, family):
    """Numbers the launch templates of all steps by their content, and sorts the calls of a run again."""
    calls = [call for step in steps for call in step["calls"]]
    contents = {}
    for call in calls:
        canonical_user_data(call["input"].get("LaunchTemplateData", {}), family, "UserData")
        if call["operation"] == "CreateLaunchTemplate":
            name = call["input"].pop("LaunchTemplateName")
            contents.setdefault(name, json.dumps(call["input"], sort_keys=True))
            call["input"]["LaunchTemplateName"] = name
    order = sorted(contents, key=lambda name: contents[name])
    numbers = {name: f"by content {order.index(name)}" for name in order}
    for call in calls:
        values = call["input"]
        for row in [values, *values.get("Overrides", [])]:
            if "LaunchTemplateName" in row:
                row["LaunchTemplateName"] = numbers.get(row["LaunchTemplateName"], "not created")
            if "Priority" in row:
                row["Priority"] = f"{row['Priority']:.9e}"
        if "LaunchTemplateNames" in values:
            values["LaunchTemplateNames"] = [numbers.get(name, "not created") for name in values["LaunchTemplateNames"]]
        sort_by_text(values.get("Overrides", []))
    for step in steps:
        # Claims of one moment that get different subnets are several fleets, in an order of chance.
        fleets = [index for index, call in enumerate(step["calls"]) if call["operation"] == "CreateFleet"]
        if fleets and fleets == list(range(fleets[0], fleets[-1] + 1)):
            in_order = [step["calls"][index] for index in fleets]
            sort_by_text(in_order)
            step["calls"][fleets[0]:fleets[-1] + 1] = in_order
        runs, run = [], []
        for call in step["calls"]:
            if ends_run(call):
                sort_by_text(run)
                runs, run = [*runs, *run, call], []
            else:
                run.append(call)
        sort_by_text(run)
        step["calls"] = runs + run


def canonical_launch(answer, family):
    for step in answer["steps"]:
        for result in step["results"]:
            result.get("error", {}).pop("text", None)
            for claim in [result, *result.get("list", [])]:
                canonical_claim(claim)
            sort_by_text(result.get("list", []))
        sort_by_text(step["results"])
    canonical_calls(answer["steps"], family)


def canonical(question, document, answer):
    """Returns an answer in which equal meanings are equal values."""
    answer = copy.deepcopy(answer)
    if "error" in answer:
        answer["error"].pop("text", None)
    if question == "instance-types":
        canonical_types(answer)
    elif question == "userdata":
        canonical_user_data(answer, documents.family_of(document))
    elif question == "launch" and "steps" in answer:
        canonical_launch(answer, documents.family_of(document))
    elif question == "nodeclass" and "calls" in answer:
        canonical_node_class(answer, documents.family_of(document))
    return answer


def first_difference(one, two, path="answer"):
    """Returns a text that says where two values differ first, or None."""
    if isinstance(one, dict) and isinstance(two, dict):
        for key in sorted(set(one) | set(two)):
            if key not in one or key not in two:
                return f"{path}.{key}: only {'Karpenter' if key in two else 'Kerf'} has it: {(one | two)[key]!r:.300}"
            found = first_difference(one[key], two[key], f"{path}.{key}")
            if found:
                return found
        return None
    if isinstance(one, list) and isinstance(two, list):
        if len(one) != len(two):
            return f"{path}: Kerf has {len(one)} items, Karpenter {len(two)}: {one!r:.300} and {two!r:.300}"
        for index, (a, b) in enumerate(zip(one, two)):
            found = first_difference(a, b, f"{path}[{index}]")
            if found:
                return found
        return None
    return None if one == two else f"{path}: Kerf {one!r:.300}, Karpenter {two!r:.300}"


def has_panic(answer):
    results = [result for step in answer.get("steps", []) for result in step["results"]]
    return any(entry.get("error", {}).get("class") == "Panic" for entry in [answer, *results])


def compare(question, document, kerf, oracle):
    """Returns (outcome, detail, answer): outcome is equal, skipped or different."""
    detail, answer = None, None
    for _ in range(TRIES):
        answer = oracle.ask(document)
        if answer is None:
            return "skipped", "the oracle ended", None
        if has_panic(answer):
            return "skipped", "Karpenter panics", None
        own = kerf.ask(document)
        if own is None:
            return "different", "Kerf ended without an answer", answer
        detail = first_difference(canonical(question, document, own), canonical(question, document, answer))
        if detail is None:
            return "equal", None, answer
    return "different", detail, answer


def compare_recorded(kerf, path):
    """Compares Kerf's answers with recorded answers of Karpenter. Returns the exit code."""
    passed, failed, programs = 0, 0, {}
    with gzip.open(CATALOGUE) as packed, tempfile.NamedTemporaryFile("wb", suffix=".json") as catalogue:
        catalogue.write(packed.read())
        catalogue.flush()
        with gzip.open(path, "rt") as file:
            for line in file:
                case = json.loads(line)
                question, document = case["question"], case["document"]
                if question not in programs:
                    programs[question] = Program([kerf, "aws", "ask"], question, catalogue.name)
                own = programs[question].ask(document)
                detail = "Kerf ended without an answer" if own is None else first_difference(
                    canonical(question, document, own), canonical(question, document, case["answer"]))
                passed, failed = passed + (detail is None), failed + (detail is not None)
                if detail:
                    print(f"seed {case['seed']}, {question}: {detail}")
        for program in programs.values():
            program.stop()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def compare_matrix(kerf, oracle, catalogue_path):
    """Compares every type of the catalogue for each AMI family and variant. Returns the exit code."""
    programs = (Program([kerf, "aws", "ask"], "instance-types", catalogue_path), Program([oracle], "instance-types", catalogue_path))
    equal, different = 0, 0
    for name, document in documents.matrix():
        own, other = (program.ask(document) for program in programs)
        own, other = ({each["name"]: each for each in canonical("instance-types", document, answer).get("instanceTypes", [])}
                      for answer in (own or {}, other or {}))
        details = [(type_name, first_difference(own.get(type_name), other.get(type_name), type_name)) for type_name in sorted(set(own) | set(other))]
        wrong = [detail for _, detail in details if detail]
        equal, different = equal + len(details) - len(wrong), different + len(wrong)
        offerings = sum(len(each["offerings"]) for each in own.values())
        print(f"{name}: {len(details) - len(wrong)} types equal with {offerings} offerings, {len(wrong)} different", flush=True)
        for detail in wrong[:5]:
            print(f"  {detail}")
    for program in programs:
        program.stop()
    print(f"{equal} passed, {different} failed")
    return 1 if different or not equal else 0


def generate(question, rng, catalogue, allow_whole):
    """Returns a document for the question; the same for the same state of `rng`."""
    if question in live_documents.QUESTIONS:
        return live_documents.generate(question, rng, catalogue)
    return documents.generate(question, rng, catalogue, allow_whole)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kerf")
    parser.add_argument("oracle", nargs="?")
    parser.add_argument("--count", type=int, default=2000, help="number of documents")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first document")
    parser.add_argument("--questions", default=",".join(QUESTIONS))
    parser.add_argument("--whole", type=int, default=50, help="documents over the whole catalogue, at most")
    parser.add_argument("--matrix", action="store_true", help="compare all types for each AMI family and kubelet variant instead")
    parser.add_argument("--record", help="write documents with Karpenter's answers to this file, one per line")
    parser.add_argument("--recorded", help="compare with the answers in this file, which --record wrote (gzip)")
    arguments = parser.parse_args()
    if (arguments.oracle is None) == (arguments.recorded is None):
        parser.error("give either ORACLE or --recorded")
    if arguments.recorded:
        sys.exit(compare_recorded(arguments.kerf, arguments.recorded))
    with gzip.open(CATALOGUE) as file:
        catalogue = json.load(file)
    questions = arguments.questions.split(",")
    counts = {question: {"equal": 0, "skipped": 0, "different": 0} for question in questions}
    record = open(arguments.record, "w") if arguments.record else None
    whole_left = arguments.whole
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(catalogue, file)
        file.flush()
        if arguments.matrix:
            sys.exit(compare_matrix(arguments.kerf, arguments.oracle, file.name))
        programs = {
            question: (Program([arguments.kerf, "aws", "ask"], question, file.name),
                       Program([arguments.oracle], question, file.name)) for question in questions}
        for number in range(arguments.count):
            seed = arguments.seed + number
            question = questions[seed % len(questions)]
            document = generate(question, random.Random(seed), catalogue, whole_left > 0)
            if question == "instance-types" and "instanceTypes" not in document:
                whole_left -= 1
            outcome, detail, answer = compare(question, document, *programs[question])
            counts[question][outcome] += 1
            if outcome == "different":
                print(f"seed {seed}, {question}: {detail}", flush=True)
            if record and outcome == "equal":
                record.write(json.dumps({"question": question, "seed": seed, "document": document, "answer": answer}) + "\n")
        for kerf, oracle in programs.values():
            kerf.stop()
            oracle.stop()
    total = {"equal": 0, "skipped": 0, "different": 0}
    for question, count in counts.items():
        print(f"{question}: {count['equal']} equal, {count['skipped']} skipped, {count['different']} different")
        total = {outcome: total[outcome] + count[outcome] for outcome in total}
    print(f"{total['equal']} passed, {total['different']} failed, {total['skipped']} skipped")
    sys.exit(1 if total["different"] or not total["equal"] else 0)


if __name__ == "__main__":
    main()
