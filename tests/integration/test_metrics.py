"""The metrics of the health port: each is exact, in the docs and in the format, and the alerts fire on them."""
import re
import shutil
import subprocess
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from harness import ROOT, run, wait_until

PROMTOOL = shutil.which("promtool")


def test_metrics_are_exact(field, listening):
    """Documents and messages, one by one and in bundles, committed and deleted; and what the ledger says."""
    _, port = listening("--linger", "1h")
    before = port.metrics()
    assert all(before[f"pawl_{name}_total", "t1"] == 0 for name in ("documents", "messages", "blocks", "written_bytes", "deleted_documents",
                                                                     "acquisitions", "segments"))
    assert ("pawl_last_commit_age_seconds", "t1") not in before
    field.fill(7)
    field.insert("bundles", [{"type": "t1", "batch": [{"n": n} for n in range(100)]} for _ in range(3)])
    port.wait_metric(("pawl_deleted_documents_total", "t1"), 10)
    field.fill(5)
    port.wait_metric(("pawl_deleted_documents_total", "t1"), 15)
    after, ledger = port.metrics(), field.ledger()
    assert after["pawl_documents_total", "t1"] == 15 == ledger["seq"]
    assert after["pawl_messages_total", "t1"] == 312 == ledger["items"]
    assert after["pawl_written_bytes_total", "t1"] == ledger["length"] - 4096
    assert after["pawl_blocks_total", "t1"] >= 2
    assert (after["pawl_acquisitions_total", "t1"], after["pawl_segments_total", "t1"]) == (1, 1)
    assert (after["pawl_committed_seq", "t1"], after["pawl_settled_seq", "t1"]) == (15, 15)
    assert (after["pawl_holder", "t1"], after["pawl_epoch", "t1"]) == (1, ledger["epoch"])
    assert 0 < after["pawl_lease_remaining_seconds", "t1"] <= 30
    assert 0 <= after["pawl_last_commit_age_seconds", "t1"] < 60
    assert after["pawl_state", "t1", "draining"] == 1
    assert sum(value for key, value in after.items() if key[:2] == ("pawl_state", "t1")) == 1
    assert sum(value for key, value in after.items() if key[0] == "pawl_problems_total") == 0
    port.wait_metric(("pawl_queue_empty", "t1"), 1)
    field.compare(live=True)


def test_metrics_of_the_process(listening):
    _, port = listening()
    port.wait_metric(("pawl_wakeups", "messages"), 1)
    port.wait_metric(("pawl_wakeups", "locks"), 1)
    port.wait_metric(("pawl_ready",), 1)
    metrics = port.metrics()
    version = run("pawl-worker", "--version").stdout.split()[-1].decode()
    assert metrics["pawl_build_info", version] == 1 and metrics["pawl_database_answers",] == 1
    assert time.time() - 60 < metrics["process_start_time_seconds",] < time.time()


def test_who_waits_holds_nothing(field, listening):
    holder, first = listening("--linger", "1h")
    field.fill(10)
    first.wait_metric(("pawl_deleted_documents_total", "t1"), 10)
    _, second = listening("--linger", "1h")
    second.wait("/readyz", 200)
    metrics = second.metrics()
    assert (metrics["pawl_holder", "t1"], metrics["pawl_documents_total", "t1"]) == (0, 0)
    assert ("pawl_lease_remaining_seconds", "t1") not in metrics
    assert holder.stop()[0] == 0, str(holder)
    field.fill(5)
    second.wait_metric(("pawl_deleted_documents_total", "t1"), 5)
    metrics = second.metrics()
    assert (metrics["pawl_holder", "t1"], metrics["pawl_committed_seq", "t1"]) == (1, 15)


def test_a_lost_lock_is_counted(field, listening):
    """Frozen past its lease, and replaced."""
    worker, port = listening("--lease", "1s", "--linger", "1h")
    field.fill(10)
    port.wait_metric(("pawl_deleted_documents_total", "t1"), 10)
    worker.freeze()
    field.fill(10)
    field.drain()
    worker.thaw()
    wait_until(lambda: sum(port.metrics()["pawl_problems_total", "t1", event] for event in ("lost", "fenced")) > 0, lambda: str(worker))
    field.compare()


def test_format(field, listening):
    """Conventions of Prometheus: as the library reads it, and as promtool does, where that is installed."""
    field.fill(10, "a.b-C_1")
    _, port = listening(types=["t1", "a.b-C_1"])
    port.wait_metric(("pawl_deleted_documents_total", "a.b-C_1"), 10)
    text = port.ask("/metrics")[1]
    families = list(text_string_to_metric_families(text))
    assert len(families) > 15 and len({family.name for family in families}) == len(families)
    for family in families:
        assert family.documentation and family.type in ("counter", "gauge"), family
        assert family.name == "process_start_time_seconds" or family.name.startswith("pawl_"), family
        if family.name not in ("pawl_build_info", "process_start_time_seconds", "pawl_ready", "pawl_database_answers", "pawl_wakeups"):
            assert all("type" in sample.labels for sample in family.samples), family
    if PROMTOOL:
        done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_metric_is_in_the_docs(listening):
    _, port = listening()
    documented = set(re.findall(r"`(pawl_\w+|process_start_time_seconds)", (ROOT / "docs/monitoring.md").read_text()))
    names = set(re.findall(r"^# TYPE (\S+)", port.ask("/metrics")[1], re.M))
    assert names == {name for name in documented if not name.startswith("pawl_test")}


@pytest.mark.skipif(not PROMTOOL, reason="promtool is not installed")
def test_alert_rules():
    """They are rules, and fire when they should, and only then."""
    folder = ROOT / "deploy/prometheus"
    for command in (["check", "rules", "pawl.rules.yml"], ["test", "rules", "pawl.rules.test.yml"]):
        done = subprocess.run([PROMTOOL, *command], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
