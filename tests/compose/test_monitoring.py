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

    def wait(self, query, value):
        wait_until(lambda: self.value(query) == value, lambda: f"{query} to be {value}: {self.value(query)}; {self.ask('targets')}", 120)


@pytest.mark.timeout(600)
def test_monitoring(make_stack):
    stack = make_stack(PAWL_MONITOR_PORT="127.0.0.1:", PROMETHEUS_PORT="127.0.0.1:", GRAFANA_PORT="127.0.0.1:", PAWL_WORKERS="2", PAWL_WORKERS_T2="1")
    stack.compose("--profile", "monitoring", "up", "-d", "--no-build", "worker", "worker-t2", "monitor", "prometheus")
    seen = Monitoring(stack)

    def is_ready():
        try:
            return "ready" in seen.get("prometheus", "9090", "/-/ready").lower()
        except OSError:
            return False
    wait_until(is_ready, "a ready Prometheus", 60)
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
