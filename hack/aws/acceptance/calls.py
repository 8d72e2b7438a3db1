"""The AWS calls of a scenario, from the call log of `kerf aws serve`."""
import collections, json, urllib.request


class CallLog:
    """Reads the calls since the last mark, without those of the test itself."""

    def __init__(self, endpoint):
        self.endpoint, self.last, self.own_ids = endpoint, None, set()

    def add_own(self, answer):
        """Leaves out the call with this answer of boto3."""
        self.own_ids.add(answer["ResponseMetadata"]["RequestId"])

    def _all(self):
        lines = urllib.request.urlopen(f"{self.endpoint}/kerf/calls", timeout=20).read().decode().splitlines()
        return [call for call in map(json.loads, lines) if call["requestId"] not in self.own_ids]

    def mark(self):
        calls = self._all()
        self.last = calls[-1]["requestId"] if calls else None

    def since_mark(self):
        calls = self._all()
        for position, call in enumerate(calls):
            if call["requestId"] == self.last:
                return calls[position + 1:]
        return calls


def name_of(call):
    service, operation = call["service"], call["operation"]
    # A dry run that would succeed ends with this error.
    suffix = {None: "", "DryRunOperation": " (dry run)"}.get(call["error"], f" ({call['error']})")
    return f"{service} {operation}{suffix}"


def counts(calls):
    """Returns the number of calls by name."""
    return dict(sorted(collections.Counter(map(name_of, calls)).items()))


def writes(calls):
    """Returns the calls that change something, in order; a repeated name has its number."""
    names = []
    for call in calls:
        name = name_of(call)
        if not any(verb in call["operation"] for verb in ("Describe", "Get", "List", "Receive")):
            if names and names[-1][0] == name:
                names[-1][1] += 1
            else:
                names.append([name, 1])
    return [name if count == 1 else f"{name} x {count}" for name, count in names]
