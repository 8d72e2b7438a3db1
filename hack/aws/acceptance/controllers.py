"""The two controllers as processes: Kerf and Karpenter. Both have the same log format, metrics and settings."""
import datetime, json, os, signal, subprocess, time, urllib.request


class Controller:
    """A controller process, which can start several times. The log of all its processes is one file."""

    def __init__(self, name, command, log, metrics_port, environment):
        self.name, self.command, self.log_path, self.metrics_port = name, command, log, metrics_port
        self.environment, self.child, self.peak_megabytes = environment, None, 0

    def start(self, **settings):
        """Starts a process. `settings` are environment variables for this process only."""
        with open(self.log_path, "a") as log:
            self.child = subprocess.Popen(self.command, env={**os.environ, **self.environment, **settings}, stdout=log, stderr=subprocess.STDOUT)

    def check(self):
        """Fails if the process has ended by itself."""
        if self.child and self.child.poll() is not None:
            lines = open(self.log_path).read().splitlines()[-5:]
            raise SystemExit(f"{self.name} ended with {self.child.returncode}:\n" + "\n".join(lines))

    def stop(self, how=signal.SIGTERM):
        """Ends the process with a signal and returns its exit code."""
        if not self.child:
            return None
        self.measure()
        child, self.child = self.child, None
        child.send_signal(how)
        try:
            return child.wait(60)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(10)
            raise SystemExit(f"{self.name} has not ended a minute after signal {how}")

    def measure(self):
        try:
            line = next(line for line in open(f"/proc/{self.child.pid}/status") if line.startswith("VmHWM"))
            self.peak_megabytes = max(self.peak_megabytes, int(line.split()[1]) // 1024)
        except (OSError, StopIteration):
            pass

    def lines(self, since=0):
        """Returns the log lines from an offset on, as objects. A line that is no JSON becomes its message."""
        with open(self.log_path) as log:
            log.seek(since)
            lines = []
            for line in log.read().splitlines():
                try:
                    lines.append(json.loads(line))
                except ValueError:
                    lines.append({"message": line, "level": "PLAIN"})
            return lines

    def log_size(self):
        return os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0

    def metrics(self):
        """Returns the samples of the metrics endpoint: name, labels, value."""
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=20).read().decode()
        samples = []
        for line in text.splitlines():
            if line.startswith("#") or not line:
                continue
            series, value = line.rsplit(" ", 1)
            name, _, labels = series.partition("{")
            pairs = dict(pair.split("=", 1) for pair in _split_labels(labels.rstrip("}")))
            samples.append((name, pairs, float(value)))
        return samples

    def metric(self, name, **labels):
        """Returns the sum of all samples of a metric that have these labels."""
        return sum(value for own, pairs, value in self.metrics() if own == name and all(pairs.get(key) == text for key, text in labels.items()))


def _split_labels(text):
    """Yields `key=value` of each label. Values are quoted, and may contain commas and escaped quotes."""
    key, value, state = "", "", "key"
    position = 0
    while position < len(text):
        letter = text[position]
        if state == "key":
            if letter == "=":
                state, position = "value", position + 1  # Skips the opening quote.
            elif letter != ",":
                key += letter
        elif letter == "\\":
            position += 1
            value += text[position]
        elif letter == '"':
            yield f"{key}={value}"
            key, value, state = "", "", "key"
        else:
            value += letter
        position += 1


def kerf(program, folder, port, number=1):
    command = [program, "controller", "--metrics-bind-address", f"127.0.0.1:{port}", "--health-probe-port", "0", "--debug-address", "0"]
    return Controller("Kerf" if number == 1 else f"Kerf {number}", command, f"{folder}/kerf-{number}.log", port, {})


def karpenter(program, folder, port, number=1):
    # Karpenter has no setting for the address of its ports. A health port of 0 is a free port.
    environment = {"METRICS_PORT": str(port), "HEALTH_PROBE_PORT": "0", "SYSTEM_NAMESPACE": "kube-system"}
    return Controller("Karpenter" if number == 1 else f"Karpenter {number}", [program], f"{folder}/karpenter-{number}.log", port, environment)


def seconds_of(timestamp):
    """Returns the time of a Kubernetes timestamp in seconds."""
    return datetime.datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()


def now():
    return time.time()
