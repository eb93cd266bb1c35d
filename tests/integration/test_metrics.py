"""The metrics of the health port: each is exact, in the docs and in the format."""
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import bson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from disks import need_program
from harness import ROOT, run, wait_until

PROMTOOL = shutil.which("promtool")
LATENCIES = ("pawl_sync_duration_seconds", "pawl_commit_duration_seconds", "pawl_delete_duration_seconds", "pawl_insert_to_durable_seconds",
             "pawl_takeover_duration_seconds")


OF_THE_PROCESS = ("pawl_build_info", "pawl_ready", "pawl_database_answers", "pawl_wakeups", "pawl_clock_offset_seconds",
                  "pawl_storage_free_bytes", "pawl_storage_size_bytes", "pawl_memory_used_bytes", "pawl_memory_max_bytes",
                  "pawl_threads", "pawl_threads_max", "pawl_actions_lasting", "pawl_actions_waiting", "pawl_types_held", "pawl_types_max",
                  "pawl_types_waiting", "pawl_types_put_aside", "pawl_types_look_age_seconds")


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


def test_latencies_are_exact(field, listening):
    """One observation a sync, commit, delete, block and take-over; of both types together."""
    _, port = listening("--linger", "1h", types=["t1", "t2"])
    before = port.metrics()
    assert all(before[f"{name}_{what}",] == 0 for name in LATENCIES for what in ("count", "sum"))
    for name, count in (("t1", 7), ("t2", 5), ("t1", 3)):
        field.fill(count, name)
        seq = field.seq(name)
        port.wait_metric(("pawl_queue_empty", name), 1)
        wait_until(lambda: field.queued(name) == 0, f"an empty queue of {name}; it was at {seq}")
    port.wait_metric(("pawl_deleted_documents_total", "t1"), 10)
    after = port.metrics()
    blocks = sum(after["pawl_blocks_total", name] for name in ("t1", "t2"))
    segments = sum(after["pawl_segments_total", name] for name in ("t1", "t2"))
    assert (blocks, segments) == (after["pawl_sync_duration_seconds_count",], 2) and blocks >= 3
    assert after["pawl_commit_duration_seconds_count",] == blocks + segments
    assert after["pawl_delete_duration_seconds_count",] == blocks == after["pawl_insert_to_durable_seconds_count",]
    assert after["pawl_takeover_duration_seconds_count",] == 2
    for name in LATENCIES:
        assert 0 < after[f"{name}_sum",] < 60 and after[f"{name}_bucket", "+Inf"] == after[f"{name}_count",], name


def test_unclean_takeovers_are_counted(field, listening):
    field.fill(10)
    field.crash("block-committed")
    _, port = listening("--lease", "1s", "--linger", "1h")
    port.wait_metric(("pawl_deleted_documents_total", "t1"), 10)
    assert port.metrics()["pawl_unclean_takeovers_total", "t1"] == 1


def test_insert_to_durable_is_the_age_of_the_first(field, listening):
    """A message that waited for long, and one whose producer's clock is ahead."""
    now = int(time.time())
    field.insert("late", [{"_id": bson.ObjectId(f"{now - 1000:08x}0000000000000001"), "type": "t1"}])
    field.insert("early", [{"_id": bson.ObjectId(f"{now + 5000:08x}0000000000000002"), "type": "t2"}])
    _, port = listening("--linger", "1h", types=["t1", "t2"])
    port.wait_metric(("pawl_insert_to_durable_seconds_count",), 2)
    metrics = port.metrics()
    assert metrics["pawl_insert_to_durable_seconds_bucket", "1"] == 1 == metrics["pawl_insert_to_durable_seconds_bucket", "900"]
    assert metrics["pawl_insert_to_durable_seconds_bucket", "3600"] == 2
    assert 1000 <= metrics["pawl_insert_to_durable_seconds_sum",] < 1120


@pytest.mark.slow  # not that, but the sanitizers have a clock_gettime of their own
def test_clock_offset(listening, tmp_path):
    """Of this machine, and of a worker whose clock is wrong."""
    need_program("cc", "a clock that is wrong")
    _, port = listening()
    wait_until(lambda: ("pawl_clock_offset_seconds",) in port.metrics(), "an offset")
    assert abs(port.metrics()["pawl_clock_offset_seconds",]) < 1
    skew, library = tmp_path / "skew", tmp_path / "clock_skew.so"
    subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, ROOT / "tests/chaos/clock_skew.c", "-ldl"], check=True)
    skew.write_bytes((-100).to_bytes(8, sys.byteorder, signed=True))
    _, port = listening(env={"LD_PRELOAD": library, "CLOCK_SKEW_FILE": skew})
    wait_until(lambda: ("pawl_clock_offset_seconds",) in port.metrics(), "an offset")
    assert -101 < port.metrics()["pawl_clock_offset_seconds",] < -99


def test_space_left(field, listening):
    """What statvfs says of the file system of --dir."""
    _, port = listening()
    metrics, system = port.metrics(), os.statvfs(field.dir)
    assert metrics["pawl_storage_size_bytes",] == system.f_blocks * system.f_frsize
    assert abs(metrics["pawl_storage_free_bytes",] - system.f_bavail * system.f_frsize) < system.f_blocks * system.f_frsize / 10


def test_metrics_of_the_process(listening):
    worker, port = listening()
    port.wait_metric(("pawl_wakeups", "messages"), 1)
    port.wait_metric(("pawl_wakeups", "locks"), 1)
    port.wait_metric(("pawl_ready",), 1)
    metrics = port.metrics()
    version = run("pawl-worker", "--version").stdout.split()[-1].decode()
    assert metrics["pawl_build_info", version] == 1 and metrics["pawl_database_answers",] == 1
    assert time.time() - 60 < metrics["process_start_time_seconds",] < time.time()
    assert 0 < metrics["process_cpu_seconds_total",] < 60
    resident = int(Path(f"/proc/{worker.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    assert abs(metrics["process_resident_memory_bytes",] - resident) < resident / 2
    assert abs(metrics["process_open_fds",] - len(os.listdir(f"/proc/{worker.pid}/fd"))) < 10
    limit = re.search(r"Max open files\s+(\d+)", Path(f"/proc/{worker.pid}/limits").read_text())[1]
    assert metrics["process_max_fds",] == int(limit)


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
    _, port = listening(types=["t1", "a.b-C_1", "found*"])
    port.wait_metric(("pawl_deleted_documents_total", "a.b-C_1"), 10)
    wait_until(lambda: ("pawl_types_look_age_seconds",) in port.metrics(), "a look")
    text = port.ask("/metrics")[1]
    families = list(text_string_to_metric_families(text))
    assert len(families) > 15 and len({family.name for family in families}) == len(families)
    for family in families:
        assert family.documentation and family.type in ("counter", "gauge", "histogram"), family
        assert family.name.startswith(("pawl_", "process_")), family
        assert (family.type == "histogram") == (family.name in LATENCIES), family
        if family.name not in (*LATENCIES, *OF_THE_PROCESS) and not family.name.startswith("process_"):
            assert all("type" in sample.labels for sample in family.samples), family
    if PROMTOOL:
        done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_metric_is_in_the_docs(listening):
    """In the table of a worker's metrics, and nothing else is."""
    _, port = listening(types=["t1", "found*"])
    wait_until(lambda: port.metrics().keys() >= {("pawl_clock_offset_seconds",), ("pawl_types_look_age_seconds",)}, "all of them")
    page = (ROOT / "docs/metrics.md").read_text()
    (section,) = re.findall(r"^## Metrics\n(.*?)^## ", page, re.M | re.S)
    documented = {name for line in section.splitlines() if line.startswith("| `") for name in re.findall(r"`((?:pawl|process)_\w+)", line.split("|")[1])}
    assert set(re.findall(r"^# TYPE (\S+)", port.ask("/metrics")[1], re.M)) == documented
