"""pawl-status: what it shows of types, locks and what is neither."""
import json
import re
from datetime import datetime, timedelta, timezone

import bson
from bson.raw_bson import RawBSONDocument

from harness import CALM, program, run, wait_until


def status(field, *arguments):
    done = field.run("pawl-status", "--json", *arguments)
    assert done.returncode == 0, done
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_status(field):
    field.fill(30)
    worker = field.worker(*CALM, "--linger", "1h")
    field.wait_empty()
    wait_until(lambda: field.ledger().get("seq") == 30, field.logs)
    field.fill(7, "t2")
    entries = {entry["type"]: entry for entry in status(field)}
    assert set(entries) == {"t1", "t2"}
    assert (entries["t1"]["queued"], entries["t2"]["queued"]) == (0, 7)
    assert entries["t1"]["holder"]["pid"] == worker.pid and not entries["t2"].get("holder")
    assert (entries["t1"]["seq"], entries["t1"]["epoch"], entries["t1"]["file"]) == (30, 1, "t1.bin")
    text = field.run("pawl-status")
    assert text.returncode == 0 and b"t1.bin" in text.stdout and b"t2" in text.stdout, text
    assert [entry["type"] for entry in status(field, "--type", "t2")] == ["t2"]


def test_status_of_what_is_no_type(field):
    """Shown as JSON, and never in the row of the type that it begins with."""
    longest = "x" * 128
    field.insert("p", [{"type": name} for name in ("hm", "hm\0x", "hm\0x", "hm\tx", longest, longest + "y")])
    assert {entry["type"]: entry["queued"] for entry in status(field)} == {
        "hm": 1, '"hm\\u0000x"': 2, '"hm\\tx"': 1, longest: 1, '"' + "x" * 79: 1}
    assert [entry["queued"] for entry in status(field, "--type", "hm")] == [1]


def test_status_shows_what_no_worker_can_take(field):
    """Documents without a string `type`, and names that are no types, with what cannot be seen in them; with and without the index."""
    untyped = [{}, {"type": 5}, {"type": None}, {"type": ["t1", 2]}, {"type": ["t1"]}, {"type": []}, {"type": {"t1": 1}}, {"type": bson.MaxKey()},
               {"type": bson.Binary(b"t1")}]
    names = {"t1": "t1", "t1 ": '"t1 "', "t1\u200b": '"t1\\u200b"', "\u0442\u2460": '"\\u0442\\u2460"', "": '""', "-x": '"-x"', "t1\U0001f600": '"t1\\ud83d\\ude00"'}
    field.insert("p", [*untyped, *({"type": name} for name in names)])
    for _ in range(2):
        rows = {row["type"]: row for row in status(field)}
        assert set(rows) == {None, *names.values()} and rows[None]["queued"] == len(untyped), rows
        assert {row["kind"] for name, row in rows.items() if name not in (None, "t1")} == {"invalid"}
        assert (rows[None]["kind"], rows["t1"]["kind"], rows["t1"]["queued"]) == ("untyped", "type", 1)
        text = field.run("pawl-status").stdout.decode()
        assert re.search(rf"^\(untyped\) +{len(untyped)} +- ", text, re.M) and "(untyped): no worker takes these documents: their type is not a string" in text
        assert '"t1\\u200b": no worker takes these documents: this is no valid type' in text and text.isascii(), text
        assert [row["type"] for row in status(field, "--type", "t1")] == ["t1"]
        assert field.run("pawl-setup").returncode == 0  # makes the index


def test_status_says_that_workers_refuse_the_database(field):
    field.fill(3)
    assert field.run("pawl-setup").returncode == 0
    status(field)
    field.db.messages.create_index("at", name="ttl", expireAfterSeconds=60)
    text, lines = field.run("pawl-status"), field.run("pawl-status", "--json")
    assert text.returncode == 2 and re.search(rf'^database {field.name}: workers refuse it: the index "ttl" on .* has expireAfterSeconds', text.stdout.decode(), re.M)
    row, refused = map(json.loads, lines.stdout.splitlines())
    assert lines.returncode == 2 and row["type"] == "t1" and refused["database"] == field.name and "expireAfterSeconds" in refused["refused"], refused
    status(field, "--type", "t1")  # of these types alone


def test_status_tells_locks_from_types(field):
    field.fill(3)
    field.drain()
    field.run("pawl-lock", "t1", "--", "true")
    assert field.run("pawl-lock", "nightly", "--", "true").returncode == 0
    held = field.run("pawl-lock", "deploy", "--", program("pawl-status"), "--json", *field.mongo)
    assert {row["type"]: row["kind"] for row in map(json.loads, held.stdout.splitlines())} == {"t1": "type", "nightly": "lock", "deploy": "lock"}
    assert re.search(r"^nightly +0 .* \(lock\)$", field.run("pawl-status").stdout.decode(), re.M)


def test_status_without_a_count(field):
    """A queue that could not be counted is not empty: neither the one without types, nor that of a name without a file. What is there
    and what is not is known without counting."""
    assert field.run("pawl-setup").returncode == 0
    field.insert("p", [{"type": 5}, {"type": "t1"}])
    assert field.run("pawl-lock", "t2", "--", "true").returncode == 0

    def without(mode):
        with field.failing(["aggregate", "find"], mode, collection="messages", program="pawl-status", errorCode=50):
            return {row["type"]: (row["kind"], row["queued"]) for row in status(field)}
    assert without({"skip": 3}) == {None: ("untyped", None), "t1": ("type", None), "t2": ("lock", 0)}
    assert without("alwaysOn")["t2"] == ("type", None)


def test_status_of_a_malformed_lock(field):
    field.fill(3)
    assert field.run("pawl-setup").returncode == 0
    field.db.locks.insert_one({"type": "t1", "slot": 0, "owner": "somebody"})
    text = field.run("pawl-status")
    line = next(line for line in text.stdout.decode().splitlines() if line.startswith("t1 "))
    assert text.returncode == 1 and re.fullmatch(r"t1 +3 +\d+s +malformed +- .*", line), text.stdout.decode()
    assert "not pawl's" in text.stdout.decode() and "deleteOne" in text.stdout.decode()
    done = field.run("pawl-status", "--json")
    entry = json.loads(done.stdout)
    assert done.returncode == 1 and (entry["holder"], entry["lease_left_ms"]) == (None, None) and "not pawl's" in entry["problem"], entry


def test_status_of_an_empty_database(field):
    assert field.run("pawl-status").returncode == 0
    status(field)


def test_status_without_a_server():
    assert run("pawl-status", "--uri", "mongodb://127.0.0.1:1/").returncode == 69


def test_a_holder_that_is_not_utf8(field):
    """Its type is shown all the same."""
    field.fill(3)
    assert field.run("pawl-setup").returncode == 0
    now = datetime.now(timezone.utc)
    lock = bson.encode({"type": "t1", "slot": 0, "owner": bson.Binary(b"o" * 16), "ttl_ms": 3600000, "acquired_at": now,
                        "expires_at": now + timedelta(hours=1), "holder": {"host": "hZZ", "pid": 7, "program": "pZZ", "boot": "b"}})
    field.db.locks.insert_one(RawBSONDocument(lock.replace(b"ZZ", b"\xff\xfe")))
    [entry] = status(field)
    assert (entry["type"], entry["queued"], entry["holder"]["host"]) == ("t1", 3, "h??"), entry
    listed = field.run("pawl-lock", "--list", "--json")
    assert listed.returncode == 0 and json.loads(listed.stdout)["program"] == "p??", listed
