"""Prometheus, its rules and the dashboard: a real one scrapes workers and a monitor by the configuration that is shipped."""
import json
import re
import subprocess
import time

import bson
import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from harness import ROOT, environment, free_port, program, wait_until
from health_port import Port
from prometheus import FOLDER, make_prometheus, metric_names, needs_prometheus, promtool, rules  # noqa: F401

DASHBOARD = json.loads((ROOT / "deploy/grafana/pawl.json").read_text())
ITS_OWN = {"up", "ALERTS"}  # Prometheus makes these
TESTS = ["pawl.rules.test.yml", "pawl.rules.static.test.yml"]


def names_of(text):
    """The series that a page of metrics has, by name."""
    return {re.match(r"\w+", line)[0] for line in text.splitlines() if line and not line.startswith("#")}


@pytest.fixture
def monitor(field):
    """Makes a pawl-monitor of the field's database, and returns its port."""
    started = []

    def make():
        number = free_port()
        with open(field.folder / f"monitor{len(started)}.log", "wb") as log:
            started.append(subprocess.Popen([program("pawl-monitor"), *field.mongo, "--listen", f"127.0.0.1:{number}"], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env=environment()))
        wait_until(lambda: Port(number).status("/healthz") == 200, "a monitor that answers")
        return Port(number)
    yield make
    for one in started:
        one.terminate()
        one.wait(30)


def expressions():
    """Each query of the dashboard, with what Grafana puts into it."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], re.sub(r"\$__rate_interval", "1m", re.sub(r"\$(type|namespace)\b", ".*", target["expr"]))


# --- the rules ---


@needs_prometheus
def test_alert_rules():
    """They are rules, and fire when they should, and only then, with the labels of each scrape configuration that is shipped."""
    promtool("check", "rules", "pawl.rules.yml")
    promtool("test", "rules", *TESTS)


def test_each_alert_says_what_to_do():
    page = (ROOT / "docs/metrics.md").read_text()
    for name, rule in rules().items():
        assert set(rule["annotations"]) == {"summary", "description", "runbook"}, name
        assert rule["labels"]["severity"] in ("warning", "critical"), name
        assert re.search(rf"^\| {name} \|", page, re.M), f"{name} is not in docs/metrics.md"
    assert set(re.findall(r"^\| (Pawl\w+) \|", page, re.M)) == set(rules())


def test_each_alert_is_tested():
    """It fires in each of the three kinds of labels, but for those that have none."""
    tests = [test for name in TESTS for test in yaml.safe_load((FOLDER / name).read_text())["tests"]]
    fired = [(one["alertname"], alert["exp_labels"]) for test in tests for one in test["alert_rule_test"] for alert in one.get("exp_alerts", ())]
    for name in rules():
        labels = [labels for alert, labels in fired if alert == name]
        if name in ("PawlNoWorker", "PawlNoMonitor"):
            assert labels and all(set(one) == {"severity"} for one in labels), name
        else:
            assert any("namespace" in one for one in labels) and any("namespace" not in one for one in labels), name
    quiet = {one["alertname"] for test in tests if test["name"].endswith("all is well") for one in test["alert_rule_test"]}
    assert quiet == set(rules())


def test_the_object_for_kubernetes_has_the_same_rules():
    one = yaml.safe_load((ROOT / "deploy/kubernetes/monitoring/rules.yaml").read_text())
    assert (one["apiVersion"], one["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert one["spec"] == yaml.safe_load((FOLDER / "pawl.rules.yml").read_text())


@needs_prometheus
@pytest.mark.parametrize("name", ["prometheus.yml", "compose.yml", "compose.two-sets.yml", "metrics.md"])
def test_configurations(name, tmp_path):
    if name == "metrics.md":
        (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / name).read_text(), re.S)
    else:
        text = (FOLDER / name).read_text()
    config = yaml.safe_load(text)
    config["rule_files"] = [str(FOLDER / "pawl.rules.yml")]
    (tmp_path / name).write_text(yaml.safe_dump(config))
    promtool("check", "config", tmp_path / name)
    assert [job["job_name"] for job in config["scrape_configs"]] == ["pawl", "pawl-monitor"]  # what the rules look for


# --- a real Prometheus ---


@needs_prometheus
def test_it_scrapes_workers_and_a_monitor(field, listening, monitor, make_prometheus):  # noqa: F811
    """Two workers, one with a pattern, and a monitor; the rules and the dashboard run, and name only what is there. A type that nobody serves
    is seen."""
    ports = [listening("--linger", "1h", types=[name])[1] for name in ("t1", "t2*")]
    seen = monitor()
    field.fill(30, "t1")
    field.fill(20, "t2")
    field.fill(10, "nobody")
    prometheus = make_prometheus(pawl=[port.number for port in ports], pawl_monitor=[seen.number])
    prometheus.wait('count(up{job=~"(.+/)?pawl(-monitor)?"} == 1)', 3)
    prometheus.wait("sum(pawl_documents_total)", 50)
    prometheus.wait('pawl_queue_documents{type="nobody"}', 10)
    prometheus.wait('pawl_queue_documents{type="t1"}', 0)
    assert prometheus.value('pawl_queue_oldest_age_seconds{type="nobody"}') < 600
    assert prometheus.value("histogram_quantile(0.5, sum by (le) (pawl_commit_duration_seconds_bucket))") > 0

    wait_until(lambda: "pawl_queue_in_rate" in names_of(seen.ask("/metrics")[1]), "a second count")
    exported = names_of(ports[0].ask("/metrics")[1]) | names_of(ports[1].ask("/metrics")[1]) | names_of(seen.ask("/metrics")[1]) | ITS_OWN
    for where, query in [*expressions(), *((name, rule["expr"]) for name, rule in rules().items())]:
        assert metric_names(query) and metric_names(query) <= exported, (where, query, metric_names(query) - exported)
        prometheus.query(query)
    for where, query in expressions():
        if "> 0" not in query:  # what is right has none of these
            wait_until(lambda: prometheus.query(query), f"something to see: {where}: {query}")

    def evaluated():
        found = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
        return len(found) == len(rules()) and all(rule["health"] == "ok" for rule in found)
    wait_until(evaluated, lambda: f"healthy rules: {prometheus.ask('rules')}")
    wait_until(lambda: not prometheus.alerts(), lambda: f"no alert: {prometheus.alerts()}")  # what was pending before the first scrape


@needs_prometheus
def test_what_is_broken_raises_its_alert(field, listening, make_prometheus):  # noqa: F811
    """A worker that ends, a type that stops, no monitor: pending, for each has to last a while."""
    field.fill(10)
    field.drain()
    (field.dir / "t1.bin").unlink()
    _, first = listening()
    second, port = listening(types=["t2"])
    prometheus = make_prometheus(pawl=[first.number, port.number], pawl_monitor=[free_port()])
    prometheus.wait("count(up == 1)", 2)
    assert second.stop()[0] == 0
    expected = {("PawlWorkerDown", "pending"), ("PawlStorageDisagrees", "pending"), ("PawlNoMonitor", "pending")}
    wait_until(lambda: expected <= prometheus.alerts(), lambda: f"{expected}: {prometheus.alerts()}")


@needs_prometheus
def test_a_type_that_nobody_serves_raises_its_alert(field, listening, monitor, make_prometheus):  # noqa: F811
    """Its message is as old as its ObjectId says."""
    _, port = listening()
    old = bson.ObjectId(f"{int(time.time()) - 1000:08x}0000000000000001")
    field.insert("producer", [{"_id": old, "type": "nobody"}])
    prometheus = make_prometheus(pawl=[port.number], pawl_monitor=[monitor().number])
    expected = {("PawlQueueOld", "pending"), ("PawlTypeUnserved", "pending")}
    wait_until(lambda: prometheus.alerts() == expected, lambda: f"{expected}: {prometheus.alerts()}")
    assert {one["labels"]["type"] for one in prometheus.ask("alerts")["alerts"]} == {"nobody"}


@needs_prometheus
def test_a_paused_type_raises_no_alert(field, listening, monitor, make_prometheus):  # noqa: F811
    """Its messages wait, and its worker stands by: that is right. The rules see why."""
    field.fill(10)
    field.drain()
    done = field.run("pawl-status", "--pause", "t1", "--reason", "maintenance")
    assert done.returncode == 0, done
    worker, port = listening()
    field.fill(5)
    prometheus = make_prometheus(pawl=[port.number], pawl_monitor=[monitor().number])
    prometheus.wait('max(pawl_type_paused{type="t1"})', 1)
    prometheus.wait('pawl_queue_documents{type="t1"}', 5)
    wait_until(lambda: "paused" in worker.log(), lambda: f"a worker that stands by: {worker}")
    port.wait("/readyz", 200)
    for name in ("PawlStorageDisagrees", "PawlStorage", "PawlTypeStopped", "PawlTypeUnserved", "PawlTypeProblem", "PawlDatabaseRefused"):
        assert not prometheus.query(rules()[name]["expr"]), name


# --- the dashboard ---


def test_dashboard_is_well_formed():
    """What Grafana 9 and later need of it. Grafana itself is not run here."""
    assert DASHBOARD["id"] is None and DASHBOARD["uid"] and DASHBOARD["schemaVersion"] == 37
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert cells and not cells & taken and at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells
        if panel["type"] == "row":
            continue
        assert panel["type"] in ("stat", "timeseries", "state-timeline", "heatmap"), panel["title"]
        assert panel["title"] and panel["description"] and panel["targets"] and {"defaults", "overrides"} == set(panel["fieldConfig"]), panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"] and target["format"] == ("heatmap" if panel["type"] == "heatmap" else "time_series")
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= {"type", "namespace", "__rate_interval"}
    names = [variable["name"] for variable in DASHBOARD["templating"]["list"]]
    assert names == ["datasource", "namespace", "type"]


def unknown_to(schema, value, path=""):
    """The fields, and values, that did not come back."""
    if isinstance(value, dict) and isinstance(schema, dict):
        return [lost for name, item in value.items() for lost in (unknown_to(schema[name], item, f"{path}.{name}") if name in schema else [f"{path}.{name}"])]
    if isinstance(value, list) and isinstance(schema, list) and len(value) == len(schema):
        return [lost for number, item in enumerate(value) for lost in unknown_to(schema[number], item, f"{path}.{number}")]
    return [] if value == schema else [path]


def test_dashboard_fits_the_schema_of_grafana():
    """Read and written again by the types that Grafana generates from its schema: nothing is lost, but what that schema does not name."""
    again = json.loads(JSONEncoder().encode(Dashboard.from_json(DASHBOARD)))
    unnamed = {"id", "style", "definition"}  # Grafana itself writes these
    assert {path.rpartition(".")[2] for path in unknown_to(again, DASHBOARD)} <= unnamed, unknown_to(again, DASHBOARD)
    strange = {**DASHBOARD, "panels": [{**DASHBOARD["panels"][1], "colour": "red"}]}
    assert unknown_to(json.loads(JSONEncoder().encode(Dashboard.from_json(strange))), strange) != unknown_to(again, DASHBOARD)


def test_provisioning_fits_together():
    """Compose mounts what Grafana looks for, and the dashboard finds a data source."""
    folder = ROOT / "deploy/grafana"
    (source,) = yaml.safe_load((folder / "provisioning/datasources/pawl.yml").read_text())["datasources"]
    (provider,) = yaml.safe_load((folder / "provisioning/dashboards/pawl.yml").read_text())["providers"]
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    assert source["type"] == "prometheus" and source["isDefault"] and source["url"] == "http://prometheus:9090"
    mounts = dict(mount.split(":")[:2] for mount in services["grafana"]["volumes"])
    assert mounts["./deploy/grafana/provisioning"] == "/etc/grafana/provisioning"
    assert mounts["./deploy/grafana/pawl.json"].startswith(provider["options"]["path"] + "/")
    services["monitor-b"] = yaml.safe_load((ROOT / "docker-compose.two-sets.yml").read_text())["services"]["monitor-b"]
    for service in ("prometheus", "grafana", "monitor", "monitor-b"):
        assert services[service]["profiles"] == ["monitoring"]
        assert all(re.match(r"\$\{\w+\}:\d+$", port) for port in services[service]["ports"]), service
    values = dict(line.split("=", 1) for line in (ROOT / ".env").read_text().splitlines() if re.match(r"\w+=", line))
    for name in ("PAWL_MONITOR_PORT", "PAWL_MONITOR_B_PORT", "PROMETHEUS_PORT", "GRAFANA_PORT"):
        assert values[name].startswith("127.0.0.1:"), name
