"""The profile `monitoring`: Prometheus reads every worker and the monitor, and the page is there. Grafana's image has no stand-in, so it is left
out here: tests/integration/test_prometheus.py checks what it is given."""
import json
import urllib.parse
import urllib.request

import pytest

from harness import wait_until
from stack import docker


class Monitoring:
    def __init__(self, stack):
        self.stack = stack

    def address(self, service, port):
        return docker("port", self.stack.containers(service)[0], port).splitlines()[0]

    def get(self, service, port, path):
        with urllib.request.urlopen(f"http://{self.address(service, port)}{path}", timeout=10) as answer:
            return answer.read().decode()

    def ask(self, path, **parameters):
        return json.loads(self.get("prometheus", "9090", f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}"))["data"]

    def value(self, query):
        found = self.ask("query", query=query)["result"]
        return float(found[0]["value"][1]) if len(found) == 1 else None

    def is_ready(self):
        try:
            return "ready" in self.get("prometheus", "9090", "/-/ready").lower()
        except OSError:
            return False

    def wait(self, query, value):
        wait_until(lambda: self.value(query) == value, lambda: f"{query} to be {value}: {self.value(query)}; {self.ask('targets')}", 120)


PORTS = {f"{name}_PORT": "127.0.0.1:" for name in ("PAWL_MONITOR", "PAWL_MONITOR_B", "PROMETHEUS", "GRAFANA")}  # any that is free


@pytest.mark.timeout(600)
def test_monitoring(make_stack):
    stack = make_stack(**PORTS, PAWL_WORKERS="2", PAWL_WORKERS_T2="1")
    stack.compose("--profile", "monitoring", "up", "-d", "--no-build", "worker", "worker-t2", "monitor", "prometheus")
    seen = Monitoring(stack)
    wait_until(seen.is_ready, "a ready Prometheus", 60)
    for name, count in (("t1", 30), ("nobody", 7)):
        done = stack.run("pawl-enqueue", "--uri", stack.uri, "--type", name, stdin=b"line\n" * count)
        assert done.returncode == 0, done
    seen.wait('count(up{job="pawl"} == 1)', 3)
    seen.wait('up{job="pawl-monitor"}', 1)
    seen.wait('sum(pawl_documents_total{type="t1"})', 30)
    seen.wait('pawl_queue_documents{type="nobody"}', 7)
    rules = [rule for group in seen.ask("rules")["groups"] for rule in group["rules"]]
    assert {"PawlQueueOld", "PawlNoWorker"} <= {rule["name"] for rule in rules} and all(rule["health"] != "err" for rule in rules), rules
    assert "<html" in seen.get("monitor", "9465", "/")
    for service, port in (("prometheus", "9090"), ("monitor", "9465")):
        assert seen.address(service, port).startswith("127.0.0.1:"), service
    stack.compose("--profile", "monitoring", "down")
    assert not docker("ps", "-aq", "--filter", f"label=com.docker.compose.project={stack.name}")


@pytest.mark.timeout(600)
def test_monitoring_two_sets(make_stack):
    """A monitor for each set. Prometheus tells the sets apart, also where a type waits on both."""
    stack = make_stack("two", **PORTS, PAWL_WORKERS="1", PAWL_WORKERS_T2="1")
    stack.compose("--profile", "monitoring", "up", "-d", "--no-build", "worker", "worker-t2", "monitor", "monitor-b", "prometheus")
    seen = Monitoring(stack)
    wait_until(seen.is_ready, "a ready Prometheus", 60)
    for uri, count in ((stack.uri, 7), ("mongodb://mongo-b/?replicaSet=rs1", 5)):
        done = stack.run("pawl-enqueue", "--uri", uri, "--type", "nobody", stdin=b"line\n" * count)
        assert done.returncode == 0, done
    for name, worker, count in (("rs0", "t1", 7), ("rs1", "t2", 5)):
        seen.wait(f'count(up{{namespace="{name}"}} == 1)', 2)
        seen.wait(f'count(pawl_queue_empty{{type="{worker}", namespace="{name}"}})', 1)
        seen.wait(f'pawl_queue_documents{{type="nobody", namespace="{name}"}}', count)
    assert "<html" in seen.get("monitor-b", "9465", "/")
    assert seen.address("monitor-b", "9465").startswith("127.0.0.1:")
    stack.compose("--profile", "monitoring", "down")
