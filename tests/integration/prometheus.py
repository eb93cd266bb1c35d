"""A real Prometheus on a port of its own, with the configuration that is shipped, and other addresses in it."""
import json
import os
import re
import shutil
import signal
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from urllib.error import HTTPError, URLError

import pytest
import yaml

from harness import ROOT, free_port, wait_until

FOLDER = ROOT / "deploy/prometheus"
needs_prometheus = pytest.mark.skipif(not shutil.which("prometheus") or not shutil.which("promtool"), reason="prometheus is not installed")


def promtool(*words, stdin=None, cwd=FOLDER):
    done = subprocess.run(["promtool", *map(str, words)], cwd=cwd, input=stdin, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rules():
    """{alert: rule} as they lie there."""
    groups = yaml.safe_load((FOLDER / "pawl.rules.yml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def metric_names(query):
    """What of pawl, of the process and of Prometheus itself a query names."""
    words = re.sub(r'"[^"]*"', '""', re.sub(r"\b(by|on|without|ignoring|group_left)\s*\([^)]*\)", r"\1", query))
    return set(re.findall(r"\b(?:pawl_\w+|process_\w+|up|ALERTS)\b", words))


class Prometheus:
    """targets: {job: [ports]}, for the jobs of prometheus.yml."""

    def __init__(self, folder, targets):
        self.folder, self.port = Path(folder), free_port()
        config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(FOLDER / name) for name in config["rule_files"]]
        for job in config["scrape_configs"]:
            job["static_configs"] = [{"targets": [f"127.0.0.1:{port}" for port in targets.get(job["job_name"], ())]}]
        (self.folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        self.log = self.folder / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                 f"--web.listen-address=127.0.0.1:{self.port}", "--storage.tsdb.retention.size=64MB", "--log.level=warn"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, env={"PATH": os.environ["PATH"], "GOMAXPROCS": "1"})
        wait_until(self.ready, lambda: f"a ready Prometheus: {self.log.read_text()}")

    def ready(self):
        assert self.process.poll() is None, self.log.read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5) as answer:
                return answer.status == 200
        except (URLError, OSError):
            return False

    def ask(self, path, **parameters):
        """The data of its answer. An error of a query fails the test."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except HTTPError as error:
            raise AssertionError(f"{path} {parameters}: {error.read().decode()}") from None

    def query(self, query):
        """[(labels, value)] at this moment."""
        data = self.ask("query", query=query)
        return [(one["metric"], float(one["value"][1])) for one in data["result"]]

    def value(self, query):
        found = self.query(query)
        return found[0][1] if len(found) == 1 else None

    def wait(self, query, value):
        wait_until(lambda: self.value(query) == value, lambda: f"{query} to be {value}: {self.query(query)}; {self.ask('targets')}")

    def alerts(self):
        """(name, state) of those that are pending or fire; but for the machine's disk, which other tests may fill."""
        return {(one["labels"]["alertname"], one["state"]) for one in self.ask("alerts")["alerts"]} - {("PawlDiskFills", "pending")}

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def make_prometheus(tmp_path):
    made = []

    def make(**targets):
        folder = tmp_path / f"prometheus{len(made)}"
        folder.mkdir()
        made.append(Prometheus(folder, {name.replace("_", "-"): ports for name, ports in targets.items()}))
        return made[-1]
    yield make
    for one in made:
        one.stop()
        shutil.rmtree(one.folder, ignore_errors=True)
