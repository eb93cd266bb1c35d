"""A type that was moved to another database: the tools say so at the old place, and what waits there is told as what it is."""
import json

import pytest
from harness import CALM, wait_until
from monitoring import Monitor


@pytest.fixture
def moved(field, make_field):
    """t1 goes to a second database; the field is the old place. t2 stays."""
    there = make_field(field.server)
    there.dir = field.dir
    assert field.run("pawl-setup").returncode == there.run("pawl-setup").returncode == 0
    field.fill(20)
    field.fill(5, "t2")
    field.drain(*CALM, types=["t1", "t2"])
    assert field.run("pawl-status", "--pause", "t1", "--reason", "it moves").returncode == 0
    done = field.run("pawl-setup", "--carry", "t1", "--to-uri", there.server.uri, "--to-db", there.name, "--yes")
    assert done.returncode == 0, done
    field.there = there
    return field


def status(field, *arguments, code=0):
    done = field.run("pawl-status", *arguments)
    assert done.returncode == code and done.stderr == b"", done
    return done.stdout.decode()


def row(field):
    return {one["type"]: one for one in map(json.loads, status(field, "--json").splitlines())}["t1"]


def test_status_says_where_to_and_since_when(moved):
    to = moved.ledger()["moved"]["to"]
    text = status(moved)
    assert f"\nt1 was moved to {to} at 20" in text and "paused" not in text and "no worker takes" not in text, text
    found = row(moved)
    assert found["moved"]["to"] == to and "@" in found["moved"]["by"] and "$date" in found["moved"]["at"] and "paused" not in found, found
    moved.fill(3, producer="late")
    assert "\nt1: the type was moved away, and no worker takes what waits here\n" in status(moved)
    assert "is served there" not in status(moved.there)


def test_check_knows_what_waits_for_nobody(moved):
    """A mark alone is no problem: it stays for ever. What waits is one, and the limits count for it."""
    to = moved.ledger()["moved"]["to"]
    line = status(moved, "--check")
    assert line.startswith("PAWL OK: 2 types, 0 with documents that wait, 1 moved away | "), line
    moved.fill(3, producer="late")
    line = status(moved, "--check", code=1)
    assert line.startswith(f"PAWL WARNING: t1: the type was moved away, and no worker takes what waits here: it is at {to} now | "), line
    line = status(moved, "--check", "--max-documents", "2", code=2)
    assert line.startswith(f"PAWL CRITICAL: t1: 3 documents (limit 2), the type was moved away, "), line


def test_the_monitor_tells_it(moved, tmp_path):
    to = moved.ledger()["moved"]["to"]
    monitor = Monitor(moved.mongo, tmp_path / "monitor.log")
    try:
        wait_until(lambda: monitor.row() is not None, lambda: f"a row; {monitor}")
        found = monitor.row()
        assert found["moved"]["to"] == to and found["moved"]["at_ms"] > 0 and found["paused"] is None, found
        assert monitor.types()["t2"]["moved"] is None
        text = monitor.ask("/metrics")[1]
        assert 'pawl_type_moved{type="t1"} 1' in text and 'pawl_type_moved{type="t2"} 0' in text and 'pawl_type_paused{type="t1"} 0' in text
        assert any(f"moved to {to} by " in event["text"] for event in monitor.json("/api/type", type="t1")["events"])
    finally:
        monitor.process.terminate()
        monitor.process.wait(30)
