"""A type that was moved to another database: the tools say so at the old place, and what waits there is told as what it is."""
import json
import os
import subprocess

import bson
import pytest
from browser import Chromium
from harness import CALM, environment, program, wait_until
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


@pytest.mark.parametrize("option", ["--own-collection", "--shared-collection"])
def test_its_collection_is_left_alone(moved, option):
    before = moved.ledger()
    done = moved.run("pawl-setup", "--type", "t1", option)
    assert done.returncode == 2 and b"t1 was moved to" in done.stderr, done
    assert moved.ledger() == before and "messages.t1" not in moved.db.list_collection_names()


def test_a_damaged_ledger_is_not_adopted_there(moved):
    """The mark counts, whatever else is wrong: the files belong to the ledger at the new place."""
    moved.ledgers.update_one({"_id": "t1"}, {"$set": {"length": "long"}})
    before = moved.ledger()
    done = moved.run("pawl-setup", "--adopt", "t1", "--dir", moved.dir, "--yes")
    assert done.returncode == 1 and b"t1 was moved to another database" in done.stderr, done
    assert moved.ledger() == before


def test_its_own_collection_is_not_missed(field, make_field):
    """What was emptied and moved away may be dropped: it is no fault of this database, and nothing makes it again."""
    there = make_field(field.server)
    there.dir = field.dir
    assert field.run("pawl-setup", "--type", "t1", "--own-collection").returncode == there.run("pawl-setup").returncode == 0
    field.fill(5, own=True)
    field.drain(*CALM)
    assert field.run("pawl-status", "--pause", "t1", "--reason", "it moves").returncode == 0
    done = field.run("pawl-setup", "--carry", "t1", "--to-uri", there.server.uri, "--to-db", there.name, "--yes")
    assert done.returncode == 0, done
    field.db["messages.t1"].drop()
    status(field, "--check")
    assert field.run("pawl-setup").returncode == 0
    assert "messages.t1" not in field.db.list_collection_names()
    assert field.worker(*CALM, "--exit-when-empty", types=["*"]).wait() == 0, field.logs()
    named = field.worker(*CALM, "--exit-when-empty")
    field.fill(1, producer="late")
    assert named.wait() == 2 and "t1 was moved to" in named.log(), str(named)


def test_nothing_is_put_back_there(field, make_field):
    """No worker would take it."""
    there = make_field(field.server)
    there.dir = field.dir
    assert field.run("pawl-setup").returncode == there.run("pawl-setup").returncode == 0
    field.fill(5)
    field.drain(*CALM)
    field.server.client.admin.command({"applyOps": [{"op": "i", "ns": f"{field.name}.messages", "o": {"_id": bson.Regex("^a$"), "type": "t1"}}]})
    assert field.run("pawl-setup", "--set-aside", "t1", "--yes").returncode == 0
    assert field.run("pawl-status", "--pause", "t1", "--reason", "it moves").returncode == 0
    assert field.run("pawl-setup", "--carry", "t1", "--to-uri", there.server.uri, "--to-db", there.name, "--yes").returncode == 0
    done = field.run("pawl-setup", "--put-back", "t1", "--yes")
    assert b"t1 was moved to" in done.stdout + done.stderr and b"0 documents moved back" in done.stdout, done
    assert field.db.refused.count_documents({}) == 1 and field.queued() == 0


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


def test_the_page_tells_it(moved, tmp_path):
    to = moved.ledger()["moved"]["to"]
    monitor, page = Monitor(moved.mongo, tmp_path / "monitor.log"), Chromium()
    try:
        page.open(f"http://127.0.0.1:{monitor.number}/#/")
        page.wait_text("All is well, with 1 note", "#headline")
        page.wait_text(f"t1 was moved to {to} by ", "#problems")
        moved.fill(2, producer="late")
        page.wait_text(f"No worker takes what waits for t1 here: it was moved to {to}. 2 messages wait", "#problems")
        assert "Nobody serves" not in page.text("#problems") and "waits for nobody" in page.text()
        page.open(f"http://127.0.0.1:{monitor.number}/#/type/t1")
        page.wait_text(f"to {to}, by ")
        assert [fault for fault in page.faults() if "ERR_" not in fault] == []
    finally:
        page.close()
        monitor.process.terminate()
        monitor.process.wait(30)


# --- producers ---


def enqueue(field, *arguments, code=0, lines=b"one\ntwo\n"):
    done = field.run("pawl-enqueue", *arguments, stdin=lines)
    assert done.returncode == code, done
    return done.stderr.decode()


def test_enqueue_refuses(moved):
    to = moved.ledger()["moved"]["to"]
    said = enqueue(moved, "--type", "t1", code=2)
    assert f"t1 was moved to {to}: no worker takes its messages here" in said and moved.queued() == 0, said
    enqueue(moved, "--type", "t2")
    assert moved.queued("t2") == 2
    enqueue(moved.there, "--type", "t1")
    assert moved.there.queued() == 2


@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
def test_enqueue_learns_of_a_move(field, make_field, own):
    """It ran when the type moved. What it was told of as done is in the queue, and the rest is not."""
    there = make_field(field.server)
    assert field.run("pawl-setup").returncode == there.run("pawl-setup").returncode == 0
    field.fill(5)
    field.drain(*CALM)
    if own:
        assert field.run("pawl-setup", "--type", "t1", "--own-collection").returncode == 0
    process = subprocess.Popen([program("pawl-enqueue"), *field.mongo, "--type", "t1", "--batch-messages", "1"], stdin=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=environment())
    os.write(process.stdin.fileno(), b"one\n")
    wait_until(lambda: field.queued() == 1, lambda: "the first message")
    (field.db["messages.t1"] if own else field.messages).delete_many({})
    assert field.run("pawl-status", "--pause", "t1", "--reason", "it moves").returncode == 0
    done = field.run("pawl-setup", "--carry", "t1", "--to-uri", there.server.uri, "--to-db", there.name, "--yes")
    assert done.returncode == 0, done

    def ended():
        try:
            os.write(process.stdin.fileno(), b"more\n")
        except BrokenPipeError:
            pass
        return process.poll() is not None
    wait_until(ended, lambda: "an end", 30)
    assert b"t1 was moved to " in process.stderr.read() and process.returncode != 0
