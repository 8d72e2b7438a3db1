#!/usr/bin/env python3
"""Prints the AWS calls of two runs of the acceptance scenarios beside each other, as a table of Markdown.

    hack/aws/acceptance/compare.py FIRST/results.json SECOND/results.json

A cell has one number if both runs made as many calls, else both numbers, those of the first run first. Below the table are the calls of each
scenario that change something, in order.
"""
import json, sys


def cell(counts):
    first, second = counts
    return str(first or "") if first == second else f"{first} / {second}"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    runs = [json.load(open(path)) for path in sys.argv[1:]]
    # The part without calls deletes what the scenarios left.
    results = [{result["scenario"]: result for result in run["results"] if result["calls"]} for run in runs]
    scenarios = [key for key in results[0] if key in results[1]]
    names = [run["controller"] for run in runs]
    print(f"| {' / '.join(names)} | {' | '.join('start' if key == '-' else key for key in scenarios)} |")
    print("|---" * (len(scenarios) + 1) + "|")
    seconds = [cell(["failed" if not own[key]["passed"] else round(own[key]["seconds"]) for own in results]) for key in scenarios]
    print(f"| seconds | {' | '.join(seconds)} |")
    counts = [[own[key]["calls"]["counts"] for own in results] for key in scenarios]
    for call in sorted({call for pair in counts for own in pair for call in own}):
        print(f"| {call} | {' | '.join(cell([own.get(call, 0) for own in pair]) for pair in counts)} |")
    print()
    for key in scenarios:
        for name, own in zip(names, results):
            print(f"{'start' if key == '-' else key}, {name}: {', '.join(own[key]['calls']['writes'])}")


if __name__ == "__main__":
    main()
