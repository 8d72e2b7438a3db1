#!/usr/bin/env python3
"""Makes the facts about EC2 that Kerf ships (crates/kerf-aws/data) from public packages. No AWS account is needed.

    pip download --no-deps moto==5.2.5
    hack/aws/data/update.py --moto moto-5.2.5-py3-none-any.whl --oracle-aws "$(hack/oracle-aws/build.sh)"

moto (PyPI, Apache-2.0) has the answers of DescribeInstanceTypes and DescribeInstanceTypeOfferings. The oracle links Karpenter's AWS
provider (Go module, Apache-2.0) and prints its static tables. Without one of the two sources, the files of that source stay as they are.
The same sources give the same bytes. --check changes nothing and fails if a file has other content.

Dates: moto's files have none of their own, so the date is that of the wheel's files. Karpenter writes the dates of its tables into
generated comments; TABLES names them, and a new version of the module needs new dates there.
"""
import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
DATA = os.path.join(ROOT, "crates", "kerf-aws", "data")

# Region whose types and zones are in one file, which the oracle and the tests read too.
MAIN_REGION = "us-west-2"
ARCHITECTURES = {"x86_64", "arm64"}

# Argument of `oracle-aws data`, file, content, date of the table.
TABLES = [
    ("prices", "prices.json.gz", "on-demand prices (Linux)", "2026-07-06"),
    ("vpc-limits", "vpc-limits.json", "limits of network interfaces", "2026-05-18"),
    ("bandwidth", "bandwidth.json", "baseline network bandwidth", "2026-05-18"),
]
KARPENTER = "Karpenter AWS provider"


def compact(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def packed(content):
    # No time and no name in the header, so that the same content gives the same bytes.
    return gzip.compress(content, compresslevel=9, mtime=0)


def files_of_moto(path):
    """Returns the content of each file, and the entries of sources.json."""
    wheel = zipfile.ZipFile(path)
    version = re.search(r"^Version: (.+)$", wheel.read(next(
        name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))).decode(), re.MULTILINE).group(1)
    types_file = "moto/ec2/resources/instance_types.json.gz"
    date = "%04d-%02d-%02d" % wheel.getinfo(types_file).date_time[:3]
    types = json.loads(gzip.decompress(wheel.read(types_file)))
    types = [types[name] for name in sorted(types) if is_usable(types[name])]
    usable = {info["InstanceType"] for info in types}

    folder = "moto/ec2/resources/instance_type_offerings/availability-zone/"
    regions = {}
    main_offerings = None
    for name in sorted(name for name in wheel.namelist() if name.startswith(folder) and name.endswith(".json.gz")):
        region = name[len(folder):-len(".json.gz")]
        entries = json.loads(gzip.decompress(wheel.read(name)))
        pairs = sorted({(entry["InstanceType"], entry["Location"]) for entry in entries})
        regions[region] = offerings_of_region([pair for pair in pairs if pair[0] in usable])
        if region == MAIN_REGION:
            # As EC2 answers: with the types that Kerf does not ask for.
            main_offerings = [{key: entry[key] for key in ("InstanceType", "Location")} for entry in entries]

    source = {"source": "moto", "version": version, "date": date, "licence": "Apache-2.0"}
    return {
        f"catalogue-{MAIN_REGION}.json.gz": packed(compact({"instanceTypes": types, "offerings": main_offerings})),
        "offerings.json.gz": packed(compact(regions)),
    }, [
        {"file": f"catalogue-{MAIN_REGION}.json.gz", "content": "instance types", **source},
        {"file": "offerings.json.gz", "content": "zones of instance types", **source},
    ]


def is_usable(info):
    """Kerf asks EC2 for these types only (spec 05 §4.1)."""
    return "hvm" in info["SupportedVirtualizationTypes"] and bool(
        ARCHITECTURES & set(info["ProcessorInfo"]["SupportedArchitectures"]))


def offerings_of_region(pairs):
    """Returns the zones of a region, and for each type the positions of its zones as digits."""
    zones = sorted({zone for _, zone in pairs})
    assert len(zones) < 10, zones
    types = {}
    for name, zone in pairs:
        types[name] = types.get(name, "") + str(zones.index(zone))
    return {"zones": zones, "types": types}


def files_of_karpenter(oracle):
    with open(os.path.join(ROOT, "hack", "oracle-aws", "go.mod"), encoding="utf-8") as file:
        version = re.search(r"github.com/aws/karpenter-provider-aws (v\S+)", file.read()).group(1)
    files, sources = {}, []
    for table, file, content, date in TABLES:
        out = subprocess.run([oracle, "data", table], check=True, capture_output=True, timeout=60).stdout
        text = compact(json.loads(out))
        files[file] = packed(text) if file.endswith(".gz") else text
        sources.append({"file": file, "content": content, "source": KARPENTER, "version": version, "date": date,
                        "licence": "Apache-2.0"})
    return files, sources


def content_of(file, data):
    return json.loads(gzip.decompress(data) if file.endswith(".gz") else data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moto", help="wheel of moto")
    parser.add_argument("--oracle-aws", help="binary of hack/oracle-aws")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a file has other content")
    arguments = parser.parse_args()
    if not arguments.moto and not arguments.oracle_aws:
        parser.error("give --moto, --oracle-aws or both")

    files, sources = {}, []
    if arguments.moto:
        files, sources = files_of_moto(arguments.moto)
    if arguments.oracle_aws:
        more_files, more_sources = files_of_karpenter(arguments.oracle_aws)
        files.update(more_files)
        sources += more_sources

    # Sources that were not given keep their entries.
    path = os.path.join(DATA, "sources.json")
    known = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            known = {entry["file"]: entry for entry in json.load(file)}
    known.update((entry["file"], entry) for entry in sources)
    files["sources.json"] = (json.dumps([known[file] for file in sorted(known)], indent=2) + "\n").encode()

    differing = []
    for file, data in sorted(files.items()):
        path = os.path.join(DATA, file)
        old = b""
        if os.path.exists(path):
            with open(path, "rb") as stored:
                old = stored.read()
        # Compressors differ between versions of zlib: equal content keeps the stored bytes.
        if old and content_of(file, old) == content_of(file, data):
            continue
        differing.append(file)
        if not arguments.check:
            with open(path, "wb") as stored:
                stored.write(data)
            print(f"{file}: {len(old):,} -> {len(data):,} bytes")
    if arguments.check and differing:
        sys.exit("these files differ from their sources: " + ", ".join(differing))


if __name__ == "__main__":
    main()
