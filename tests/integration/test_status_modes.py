"""pawl-status --check and --peek, and what an overview costs the server."""
import datetime
import itertools
import json
import re
import subprocess
import time

import bson
import pytest
from harness import CALM, environment, program, run, wait_until



def aged(seconds, number=0):
    """An ObjectId of so long ago."""
    return bson.ObjectId(int(time.time() - seconds).to_bytes(4, "big") + number.to_bytes(8, "big"))


def check(field, *arguments, code=None):
    done = field.run("pawl-status", "--check", *arguments)
    line = done.stdout.decode()
    assert line.count("\n") == 1 and line.count("|") <= 1 and done.stderr == b"", done
    assert code is None or done.returncode == code, done
    assert line.startswith(("PAWL OK: ", "PAWL WARNING: ", "PAWL CRITICAL: ")[done.returncode]), done
    return line


# --- ages ---

def test_age_of_the_oldest(field):
    """From the ObjectId of the first document in the order of the index; another _id has none that one look could know."""
    field.insert("p", [{"_id": aged(3600 * 3 + 60), "type": "t1"}, {"_id": aged(5), "type": "t1"}, {"_id": "own", "type": "t2"}, {"_id": aged(-3600), "type": "t3"},
                       {"_id": aged(3600 * 72), "type": ["t1"]}])
    for _ in range(2):  # with and without the index
        rows = {row["type"]: row for row in map(json.loads, field.run("pawl-status", "--json").stdout.splitlines())}
        assert 10800000 <= rows["t1"]["oldest_age_ms"] - 59000 <= 10860000 and "oldest_seen" not in rows["t1"], rows
        assert (rows["t2"]["oldest_age_ms"], rows["t2"]["oldest_seen"], rows["t3"]["oldest_age_ms"]) == (0, True, 0), rows
        assert rows[None]["oldest_age_ms"] is None and rows["t1"]["waiting"] == 0, rows
        text = field.run("pawl-status").stdout.decode()
        assert re.search(r"^TYPE +QUEUED +OLDEST +HOLDER ", text) and re.search(r"^t1 +2 +3h ", text, re.M) and re.search(r"^\(untyped\) +1 +- ", text, re.M), text
        assert field.run("pawl-setup").returncode == 0


def test_who_waits(field):
    field.fill(3)
    holder = field.worker(*CALM, "--linger", "1h")
    wait_until(lambda: field.holder() == holder.pid, field.logs)
    field.worker(*CALM), field.worker(*CALM)
    with field.producing(count=1):
        def waiting():
            return json.loads(field.run("pawl-status", "--json").stdout.splitlines()[0])["waiting"] == 2
        wait_until(waiting, field.logs)


def test_dead_waiters_do_not_count(field):
    """Their entries stay in the queue until another process removes them."""
    assert field.run("pawl-setup").returncode == 0
    field.fill(1)
    now = datetime.datetime.now(datetime.timezone.utc)
    field.db.locks.insert_one({"type": "t1", "slot": -1, "queue": [
        {"owner": bson.Binary(bytes([number] * 16), 0), "kind": "worker", "at": now - datetime.timedelta(seconds=age), "ttl_ms": bson.Int64(60000 if age < 60 else 10000),
         "who": {"host": "w1", "pid": number, "program": "pawl-worker"}} for number, age in enumerate((0, 11, 100, 1))]})
    assert [row["waiting"] for row in map(json.loads, field.run("pawl-status", "--json").stdout.splitlines())] == [3]


def test_first_seen(field):
    """Where the _id has no time, --watch counts from when it saw exactly this document as the oldest."""
    assert field.run("pawl-setup").returncode == 0
    field.insert("p", [{"_id": "a", "type": "t1"}, {"_id": "b", "type": "t1"}])
    with subprocess.Popen([program("pawl-status"), *field.mongo, "--watch", "--json"], stdout=subprocess.PIPE, env=environment()) as watch:
        ages = (json.loads(line)["oldest_age_ms"] for line in watch.stdout)
        try:
            assert next(ages) == 0
            assert 900 < next(ages) < next(ages)
            field.messages.delete_one({"_id": "a"})
            assert any(age < 900 for age in itertools.islice(ages, 3))
            assert 900 < next(ages)
        finally:
            watch.terminate()


# --- what it costs ---

def profiled(field, run_it):
    """The finds and aggregates of messages that it sent, as the server saw them. An explain is neither: it plans, and reads nothing."""
    field.db.command("profile", 2)
    run_it()
    field.db.command("profile", 0)
    seen = list(field.db["system.profile"].find({"ns": f"{field.name}.messages", "appName": field.app_name("pawl-status")}))
    field.db["system.profile"].drop()
    return [one for one in seen if "find" in one["command"] or "aggregate" in one["command"]]


@pytest.mark.parametrize("clustered", [False, True])
def test_the_oldest_is_found_without_a_scan(field, clustered):
    """One index entry a type, with both layouts of the collection."""
    if clustered:
        assert field.run("pawl-setup").returncode == 0
    else:
        field.db.create_collection("messages")
        field.messages.create_index([("type", 1), ("_id", 1)])
    for name in range(20):
        field.fill(200, f"t{name}")
    seen = profiled(field, lambda: check(field, code=0))
    keys = sum(one.get("keysExamined", 0) for one in seen)
    assert keys <= 60 and sum(one.get("docsExamined", 0) for one in seen) <= 40, [(one.get("planSummary"), one.get("keysExamined")) for one in seen]
    assert any(one.get("planSummary") == "DISTINCT_SCAN { type: 1, _id: 1 }" for one in seen), [one.get("planSummary") for one in seen]
    counted = profiled(field, lambda: check(field, "--max-documents", 1000, code=0))
    assert max(one.get("keysExamined", 0) for one in counted) >= 4000 and sum(one.get("docsExamined", 0) for one in counted) <= 40
    chosen = profiled(field, lambda: check(field, "--type", "t3,t4", code=0))
    assert sum(one.get("keysExamined", 0) for one in chosen) <= 4 and len(chosen) == 2, chosen


def test_with_an_array_among_the_types(field):
    """MongoDB cannot skip in such an index: each type is asked for, and no type's queue is read."""
    assert field.run("pawl-setup").returncode == 0
    for name in range(20):
        field.fill(200, f"t{name}")
    field.insert("p", [{"_id": aged(9999), "type": ["t3", "x"]}, {"type": "\0odd"}])
    rows = [json.loads(line) for line in field.run("pawl-status", "--json").stdout.splitlines()]
    assert {row["type"]: row["queued"] for row in rows} == {None: 1, '"\\u0000odd"': 1, **{f"t{name}": 200 for name in range(20)}}, rows
    assert all(0 <= row["oldest_age_ms"] < 600000 for row in rows if row["type"]), rows
    seen = profiled(field, lambda: check(field, code=1))
    assert len(seen) > 20 and max(one["keysExamined"] for one in seen) <= 4, [one["command"] for one in seen if one["keysExamined"] > 4]


@pytest.mark.slow
def test_ten_thousand_types(field):
    assert field.run("pawl-setup").returncode == 0
    field.insert("p", [{"type": f"t{n:05}"} for n in range(10000)])
    field.ledgers.insert_many([{"_id": f"t{n:05}", "v": 1, "epoch": bson.Int64(1), "clean": True, "settled": bson.Int64(0)} for n in range(0, 10000, 2)])
    began = time.monotonic()
    rows = [json.loads(line) for line in field.run("pawl-status", "--json").stdout.splitlines()]
    assert [row["type"] for row in rows] == [f"t{n:05}" for n in range(10000)] and {row["queued"] for row in rows} == {1}
    assert time.monotonic() - began < 20
    line = check(field, "--max-age", "1h", "--max-documents", 0, code=2)
    assert "and 9995 more" in line and len(line) < 5000, line


# --- --check ---

def test_check(field):
    assert field.run("pawl-setup").returncode == 0
    assert check(field, code=0) == "PAWL OK: 0 types, 0 with documents that wait | types=0 waiting=0 oldest=0s;;300;0\n"
    field.insert("p", [{"_id": aged(1), "type": "t1"}, {"_id": aged(0, 7), "type": "t1"}])
    assert re.fullmatch(r"PAWL OK: 1 type, 1 with documents that wait, the oldest for \ds \| types=1 waiting=1 oldest=\ds;;300;0\n", check(field, code=0))
    assert re.fullmatch(r"PAWL OK: .* \| types=1 waiting=1 oldest=\ds;;;0 documents=2;;;0\n", check(field, "--max-age", "none", "--max-documents", 2, code=0))
    assert "PAWL CRITICAL: t1: 2 documents (limit 1) |" in check(field, "--max-documents", 1, code=2)
    field.insert("p", [{"_id": aged(400), "type": "t2"}, {"_id": aged(40), "type": "t3"}])
    assert re.match(r"PAWL CRITICAL: t2: the oldest waits 6m \(limit 5m\), no worker serves it; t3: no worker serves it \| types=3 waiting=3 oldest=4\d\ds;;300;0\n",
                    check(field, code=2))
    assert "PAWL WARNING: t2: no worker serves it; t3: no worker serves it |" in check(field, "--max-age", "1h", code=1)
    assert "PAWL WARNING: t3: no worker serves it |" in check(field, "--type", "t1,t3", code=1)
    check(field, "--type", "t1", code=0)
    check(field, "--type", "none", code=0)


def test_check_finds_what_is_odd(field):
    assert field.run("pawl-setup").returncode == 0
    field.insert("p", [{"type": "a|b\n"}, {"type": 5}])
    line = check(field, code=1)
    assert '"a/b\\n": no worker can take these documents; (untyped): no worker can take these documents |' in line, line
    field.messages.delete_many({})
    field.db.locks.insert_one({"type": "t1", "slot": 0, "owner": "somebody"})
    assert "PAWL WARNING: t1: the document of locks" in check(field, code=1)
    field.db.messages.create_index("at", name="ttl", expireAfterSeconds=60)
    assert re.match(rf"PAWL CRITICAL: database {field.name}: workers refuse it: the index .ttl. .*; t1: the document", check(field, code=2))
    assert "PAWL OK" in check(field, "--type", "t2")  # only this type, and not the database


def test_check_of_a_frozen_holder(field):
    field.fill(3)
    worker = field.worker("--linger", "1h")
    wait_until(lambda: field.seq() == 3, field.logs)
    worker.freeze()
    field.fill(3)
    wait_until(lambda: "t1: the lease of its holder is over" in check(field), field.logs)
    worker.thaw()
    wait_until(lambda: check(field).startswith("PAWL OK"), field.logs)


def test_check_without_an_answer(field):
    done = run("pawl-status", "--check", "--uri", "mongodb://127.0.0.1:1/")
    assert done.returncode == 2 and re.fullmatch(r"PAWL CRITICAL: it cannot be checked: .*127\.0\.0\.1:1.*\n", done.stdout.decode()) and done.stderr == b"", done
    assert field.run("pawl-setup").returncode == 0
    field.fill(3)
    with field.failing(["aggregate"], collection="messages", program="pawl-status", errorCode=50):
        assert "PAWL CRITICAL: the queue cannot be read: " in check(field, code=2)
    with field.failing(["aggregate"], {"skip": 1}, collection="messages", program="pawl-status", errorCode=50):
        assert "PAWL CRITICAL: the queue cannot be counted: " in check(field, "--max-documents", 5, code=2)


# --- --peek ---

def peek(field, *arguments):
    done = field.run("pawl-status", "--peek", *arguments)
    assert done.returncode == 0, done
    return done.stdout.decode().splitlines()


def test_peek(field):
    """The order is that of the _ids, and not of the inserts; the documents stay."""
    assert field.run("pawl-setup").returncode == 0
    field.insert("p", [{"_id": number, "type": "t1", "n": number} for number in (5, 3, 9, 1, 7, 2, 4, 6, 8, 11, 10, 12)] + [{"_id": 0, "type": "t2"}, {"_id": -1, "type": ["t1"]}])
    assert [json.loads(line)["n"] for line in peek(field, "t1")] == list(range(1, 11))
    assert [json.loads(line)["n"] for line in peek(field, "t1", "-n", 2)] == [1, 2]
    assert len(peek(field, "t1", "-n", "none")) == 12 and peek(field, "t1", "--limit", 0) == []
    assert field.messages.count_documents({}) == 14
    none = field.run("pawl-status", "--peek", "t3")
    assert (none.returncode, none.stdout) == (0, b"") and none.stderr == b"pawl-status: no document of type t3 waits\n", none
    seen = profiled(field, lambda: peek(field, "t1", "-n", 2))
    assert [(one["planSummary"], one["keysExamined"]) for one in seen] == [("IXSCAN { type: 1, _id: 1 }", 3)], seen  # with that of the array


def test_peek_needs_the_index(field):
    field.fill(3)
    done = field.run("pawl-status", "--peek", "t1")
    assert done.returncode == 2 and b"has no index {type: 1, _id: 1}" in done.stderr and b"pawl-setup" in done.stderr, done


def test_peek_needs_the_ledger(field):
    """It says whether there is a collection of the type's own: without it nothing is shown as the first."""
    assert field.run("pawl-setup", "--type", "t1", "--own-collection").returncode == 0
    field.db["messages.t1"].insert_one({"n": 1})
    with field.failing(["find"], {"times": 9}, program="pawl-status", collection="ledger", errorCode=50):
        done = field.run("pawl-status", "--peek", "t1")
    assert (done.returncode, done.stdout) == (69, b"") and b"reading the ledger: " in done.stderr, done
    field.db.ledger.update_one({"_id": "t1"}, {"$set": {"seq": "many"}})
    done = field.run("pawl-status", "--peek", "t1")
    assert (done.returncode, done.stdout) == (2, b"") and b"the ledger of \"t1\" cannot be used" in done.stderr, done


def test_peek_of_hostile_documents(field):
    assert field.run("pawl-setup").returncode == 0
    text = "\x1b[31m\x7f\x9b7m\u202e\u200b\U000e0041\r\n" + "é"
    field.insert("p", [{"_id": 1, "type": "t1", text.replace("\n", ""): text}, {"_id": 2, "type": "t1", "large": "é" * 100000},
                       bson.encode({"_id": 3, "type": "t1", "bad": "xyz"}).replace(b"xyz", b"x\xff\x80")])
    plain = field.run("pawl-status", "--peek", "t1").stdout
    hidden = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u200b\U000e0041]")
    assert not hidden.search(plain.decode()), plain
    lines = plain.decode().splitlines()
    assert len(lines) == 3 and len(lines[1].encode()) <= 2003 and lines[1].endswith("é…"), lines[1][-20:]
    whole = field.run("pawl-status", "--peek", "t1", "--json").stdout.decode()
    assert not hidden.search(whole)
    documents = [json.loads(line) for line in whole.splitlines()]
    assert documents[0][text.replace("\n", "")] == text and documents[1]["large"] == "é" * 100000 and documents[2]["bad"] == "x\ufffd\ufffd", documents[0]


# --- options ---

@pytest.mark.parametrize("arguments, said", [
    (["--top", "--watch"], "--watch and --top: takes one of them"),
    (["--check", "--peek", "t1"], "--check and --peek: takes one of them"),
    (["--top", "--json"], "--top and --json: takes one of them"),
    (["--check", "--json"], "--check and --json: takes one of them"),
    (["--peek", "t1", "--type", "t1"], "--peek and --type: takes one of them"),
    (["--peek", "a b"], '--peek: got "a b": takes a type'),
    (["-n", "3"], "--limit: takes --peek TYPE, too"),
    (["--max-age", "1m"], "--max-age: takes --check, too"),
    (["--watch", "--max-documents", "1"], "--max-documents: takes --check, too"),
    (["--check", "--max-age", "5"], "--max-age: got"),
])
def test_options_that_exclude_each_other(arguments, said):
    done = run("pawl-status", *arguments)
    assert done.returncode == 2 and f"pawl-status: {said}" in done.stderr.decode() and done.stdout == b"", done


def test_options_of_the_environment_are_for_other_calls(field):
    env = {"PAWL_MAX_AGE": "1h", "PAWL_LIMIT": "3", "PAWL_TYPE": "t2"}
    assert field.run("pawl-setup").returncode == 0
    field.insert("p", [{"_id": aged(3000, number), "type": "t1"} for number in range(5)])
    assert field.run("pawl-status", env=env).returncode == 0
    assert len(field.run("pawl-status", "--peek", "t1", env=env).stdout.splitlines()) == 3
