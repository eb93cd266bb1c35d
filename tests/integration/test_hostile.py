"""Hostile documents in each collection: no crash, no path, no forged line, and no harm to what is committed."""
import json
import re
import uuid
from datetime import datetime, timedelta, timezone

import bson
import pytest
from bson.int64 import Int64

import reader
from harness import CALM, answered, run, side_by_side, wait_until

# For a worker with many types at once: QUICK would be thousands of requests a second, and leases that a busy machine does not renew in time.
MANY_TYPES = [*CALM, "--poll", "1s", "--retry", "200ms"]
BIG = Int64((1 << 63) - 1)
RUBBISH = [None, True, -1, 0, 2.5, float("nan"), BIG, Int64(-(1 << 63)), "text", "x" * 100000, b"bytes", [], [1], {}, {"a": {"b": 1}}, bson.ObjectId(),
           bson.Decimal128("1E+6000"), bson.MinKey(), bson.Regex("x"), bson.Code("while(1);"), bson.Timestamp(1, 1)]


# --- names ---


NO_TYPES = ["../t1", "a/b", "/etc/passwd", "..", ".", ".t1", "-t1", "t1\n", "a\0b", "t 1", "t1@5", "ü", "", "x" * 129, "%2e%2e"]


def test_type_is_no_path(field):
    """A message's type is never made a path: such a type cannot be asked for, and such a message stays where it is."""
    field.messages.insert_many([{"type": name} for name in ["t1", *NO_TYPES]])
    before = set(field.folder.rglob("*"))
    calls = []
    for name in NO_TYPES:
        if "\0" not in name:
            for words in (["pawl-worker", "--type", name], ["pawl-setup", "--adopt", name, "--yes"], ["pawl-dump", "--type", name]):
                calls.append(lambda words=words: field.run(*words, "--dir", field.dir))
    for done in side_by_side(*calls):
        assert done.returncode == 2 and re.search(b"--type|--adopt", done.stderr), done
    assert set(field.folder.rglob("*")) == before
    field.drain()
    assert field.segments() == ["t1.bin"] and field.messages.count_documents({}) == len(NO_TYPES)
    assert {path.name for path in field.dir.iterdir()} == {"t1.bin"}


NO_SEGMENTS = ["../../etc/x.bin", "/etc/passwd", "TYPE/../TYPE.bin", "other.bin", "TYPE@.bin", "TYPE@0.bin", "TYPE@05.bin", "TYPE@-5.bin", "TYPE@5.bin.bin",
               "TYPE@1000000000000000000.bin", "TYPE@99999999999999999999.bin", "TYPE.bin\n", "TYPE.bin\0", "TYPE.bin.bak", "TYPE", "", "x" * 5000]


def test_file_of_a_ledger_is_no_path(field):
    """Whoever may write to the ledger cannot make a worker or a reader open another file. Each name with a type of its own."""
    types = [f"f{n}" for n in range(len(NO_SEGMENTS))]
    for name in types:
        field.fill(5, name)
    field.drain(*MANY_TYPES, types=types)
    good, files = {name: field.ledger(name) for name in types}, sorted(path.name for path in field.dir.iterdir())
    for name, file in zip(types, NO_SEGMENTS):
        field.fill(5, name)
        field.ledgers.update_one({"_id": name}, {"$set": {"file": file.replace("TYPE", name)}})
    worker = field.worker(*MANY_TYPES, types=types, env={"PAWL_TEST_DISTRUST_MS": "300"})
    assert worker.wait() == 74, str(worker)
    for name in types:
        assert re.search(rf'error {name} .*the ledger of "{name}" cannot be used: file is "', worker.log()), f"{name}: {worker}"
        assert field.queued(name) == 5
    for done in side_by_side(*(lambda name=name: field.run("pawl-dump", "--dir", field.dir, "--type", name) for name in types)):
        assert done.returncode != 0 and b"root:" not in done.stdout, done
    assert sorted(path.name for path in field.dir.iterdir()) == files
    for name in types:
        field.ledgers.replace_one({"_id": name}, good[name])
    field.drain(*MANY_TYPES, types=types)
    for name in types:
        assert [m.raw for m in reader.read_type(field.dir, name, field.ledger(name))] == field.acknowledged[f"producer of {name}"], name


# --- ledgers ---


MISSING = "missing"


def judged(key, value):
    """What is to be said of it: the field that is named; "" where it is the file that disagrees; None: it can be worked with."""
    usable = key == "owner" or (key, repr(value)) in [("guarded", repr(MISSING)), ("clean", "True"), ("items", "0"), ("settled", "0"), ("machine", "'text'"), ("machine", repr(MISSING))]
    if usable:
        return None
    if key == "link" and type(value) in (int, Int64) or (key, value) == ("tail", 0):
        return ""
    return {("seq", "0"): "settled is ", ("file", repr(MISSING)): "uuid is "}.get((key, repr(value)), f"{key} is ")


@pytest.mark.parametrize("keys", [["v", "epoch", "clean"], ["file", "uuid", "link"], ["length", "tail", "machine", "guarded"], ["seq", "items", "settled", "owner"]],
                         ids=" ".join)
def test_hostile_ledger(field, keys):
    """Each field as rubbish of each kind, and missing; each as a type of its own, all at once. Their worker names the field and stops
    the type, or goes on where it can; no byte below the committed end changes, and no message is gone."""
    cases = {}
    for key in keys:
        for n, value in enumerate([*RUBBISH, MISSING]):
            if key != "v" or not (isinstance(value, int) and value > 1):  # that is a newer pawl's, and no rubbish
                cases[f"{key}-{n}"] = (key, value)
    for name in cases:
        field.fill(20, name)
    field.drain(*MANY_TYPES, "--batch-messages", 15, types=cases)
    committed = {name: (field.dir / f"{name}.bin").read_bytes() for name in cases}
    for name, (key, value) in cases.items():
        field.ledgers.update_one({"_id": name}, {"$unset": {key: 1}} if value == MISSING else {"$set": {key: value}})
    before = {name: bson.encode(field.ledger(name)) for name in cases}
    for name in cases:
        field.fill(3, name)
    worker = field.worker(*MANY_TYPES, types=cases, env={"PAWL_TEST_DISTRUST_MS": "300"})
    usable = [name for name, case in cases.items() if judged(*case) is None]
    for name in usable:
        field.wait_settled(name)
    wait_until(lambda: worker.log().count("pawl-setup --adopt ") == len(cases) - len(usable) or not worker.alive(), lambda: str(worker))
    assert (worker.stop()[0] if usable else worker.wait()) == 74, str(worker)
    for name, case in cases.items():
        assert (field.dir / f"{name}.bin").read_bytes()[:len(committed[name])] == committed[name], name
        if name in usable:
            # What counts for people alone (items) is not looked up in the whole file.
            stored = [m.raw for m in reader.read_type(field.dir, name, {**field.ledger(name), "items": 23})]
            assert stored == field.acknowledged[f"producer of {name}"], f"{case}: {worker}"
        else:
            [said] = [line for line in worker.log().splitlines() if f"pawl-setup --adopt {name} " in line]
            words = judged(*case)
            assert (f'the ledger of "{name}" cannot be used: {words}' if words else f"{name}.bin") in said, f"{case}: {said}"
            assert field.queued(name) == 3 and bson.encode(field.ledger(name)) == before[name], f"{case}: {worker}"
    status = field.run("pawl-status", "--json")
    assert status.returncode == 1 and len(status.stdout.splitlines()) == len(cases), status


EDGE = Int64(1 << 62)
COUNT, ABOVE = "a whole number, not negative and below 2^62", "a whole number above 0 and below 2^62"
NUMBERS = [  # what is put into a good ledger; the field that is named and what is expected of it, or what the file has against it
    ({"epoch": BIG}, "epoch is 9223372036854775807, expected a whole number above 0 and at most 2^59"),
    ({"epoch": Int64((1 << 59) + 1)}, "epoch is 576460752303423489, expected"),
    ({"epoch": -1}, "epoch is -1, expected"),
    ({"seq": BIG, "settled": BIG}, f"seq is 9223372036854775807, expected {COUNT}"),
    ({"seq": EDGE}, f"seq is 4611686018427387904, expected {COUNT}"),
    ({"seq": -1}, f"seq is -1, expected {COUNT}"),
    ({"items": BIG}, f"items is 9223372036854775807, expected {COUNT}"),
    ({"items": Int64(-(1 << 63))}, f"items is -9223372036854775808, expected {COUNT}"),
    ({"settled": BIG}, f"settled is 9223372036854775807, expected {COUNT}"),
    ({"settled": 21}, "settled is 21, expected a number not above seq"),
    ({"settled": -1}, f"settled is -1, expected {COUNT}"),
    ({"length": BIG}, f"length is 9223372036854775807, expected {ABOVE}"),
    ({"length": BIG, "tail": BIG - 1}, f"length is 9223372036854775807, expected {ABOVE}"),
    ({"length": 0}, f"length is 0, expected {ABOVE}"),
    ({"tail": EDGE}, f"tail is 4611686018427387904, expected {COUNT}"),
    ({"tail": -4096}, f"tail is -4096, expected {COUNT}"),
    ({"tail": EDGE - 1}, "tail is 4611686018427387903, expected a number below length"),
    ({"length": EDGE - 1}, "4611686018427387903 bytes are committed, the file has"),
    ({"length": EDGE - 1, "tail": EDGE - 2}, "4611686018427387903 bytes are committed, the file has"),
    ({"seq": EDGE - 1, "settled": EDGE - 1, "items": EDGE - 1}, "4611686018427387903"),
    ({"seq": EDGE - 1, "settled": 0}, "4611686018427387903"),
    ({"length": 1, "tail": 0}, ""),
    ({"length": 4096, "tail": 4095}, ""),
    ({"tail": 4097}, ""),
    ({"tail": 0}, ""),
    ({"link": 0}, ""),
    ({"link": BIG}, ""),
]


def test_hostile_numbers_in_a_ledger(field):
    """Of the right type, and absurd: refused with a text that says where, what and why; no overflow, no crash, no harm to what is committed,
    and adopting is the way out. Each with a type of its own."""
    types = [f"n{n}" for n in range(len(NUMBERS))]
    for name in types:
        field.fill(20, name)
    field.drain(*MANY_TYPES, "--batch-messages", 5, types=types)
    committed = {name: (field.dir / f"{name}.bin").read_bytes() for name in types}
    for name, (change, _) in zip(types, NUMBERS):
        field.ledgers.update_one({"_id": name}, {"$set": change})
        field.fill(5, name)
    worker = field.worker(*MANY_TYPES, types=types, env={"PAWL_TEST_DISTRUST_MS": "300"})
    assert worker.wait() == 74, str(worker)
    status = field.run("pawl-status", "--json")
    rows = {row["type"]: row for row in map(json.loads, status.stdout.splitlines())}
    assert status.returncode == 1, status
    for name, (change, expected) in zip(types, NUMBERS):
        said = [line for line in worker.log().splitlines() if f" error {name} " in line]
        assert len(said) == 1 and expected in said[0], f"{change}: {said}"
        if " expected " in expected:
            assert f'the ledger of "{name}" cannot be used: {expected}' in said[0] and expected in rows[name]["problem"], f"{change}: {rows[name]}"
        assert field.queued(name) == 5 and (field.dir / f"{name}.bin").read_bytes() == committed[name], change
    for done in side_by_side(*(lambda name=name: answered(lambda: field.run("pawl-setup", "--adopt", name, "--dir", field.dir, "--yes"))
                               for name in types)):
        assert done.returncode == 0, done
    field.drain(*MANY_TYPES, types=types)
    for name in types:
        assert [m.raw for m in reader.read_type(field.dir, name, field.ledger(name))] == field.acknowledged[f"producer of {name}"], name
    field.compare(types[0], types[-1])


def test_last_epoch(field):
    """The highest that a ledger may have: one more, and it is refused before anything is written in that epoch, so that adopting helps."""
    field.fill(5)
    field.drain()
    committed = (field.dir / "t1.bin").read_bytes()
    field.ledgers.update_one({"_id": "t1"}, {"$set": {"epoch": Int64(1 << 59)}})
    field.fill(5)
    worker = field.worker(env={"PAWL_TEST_DISTRUST_MS": "300"})
    assert worker.wait() == 74 and "epoch is 576460752303423489, expected" in worker.log(), str(worker)
    assert (field.dir / "t1.bin").read_bytes() == committed
    done = field.run("pawl-setup", "--adopt", "t1", "--dir", field.dir, "--yes")
    assert done.returncode == 0, done
    field.drain()
    field.compare()


# --- locks ---


def alive_or_in_order(worker, codes=(0, 2, 74)):
    """Neither a signal nor a sanitizer's end."""
    status = worker.process.poll()
    assert status is None or status in codes, str(worker)


def test_hostile_locks(field):
    """Each field of a lock document as rubbish: refused with a text that names it, or stolen when it has no valid end; never a crash."""
    types = []
    owner = uuid.uuid4().bytes
    now = datetime.now(timezone.utc)
    sound = {"slot": 0, "owner": owner, "acquired_at": now, "expires_at": now + timedelta(seconds=600), "ttl_ms": 600000,
             "holder": {"host": "elsewhere", "boot": "-", "pid": 1, "started": now, "program": "test"}}
    assert field.run("pawl-setup").returncode == 0
    for key in ("owner", "expires_at", "ttl_ms", "holder", "acquired_at"):
        for n, value in enumerate([*RUBBISH, "missing"]):
            name = f"{key}{n}"
            lock = {**sound, "type": name, key: value}
            if value == "missing":
                lock.pop(key)
            field.db.locks.insert_one(lock)
            field.fill(1, name)
            types.append(name)
    field.fill(20)
    worker = field.worker(*MANY_TYPES, types=["t1", *types[:60]])
    other = field.worker(*MANY_TYPES, types=types[60:])
    field.wait_settled("t1")
    alive_or_in_order(worker)
    alive_or_in_order(other)
    owners = [name for name in types if name.startswith("owner")]
    wait_until(lambda: all(re.search(rf"{name} .*not pawl's", worker.log() + other.log()) for name in owners), lambda: str(worker))
    taken = [name for name in types if name.startswith("expires_at")]
    wait_until(lambda: all(field.queued(name) == 0 for name in taken), lambda: f"{[n for n in taken if field.queued(n)]} {worker} {other}")
    assert all(field.queued(name) == 1 for name in owners)
    status = field.run("pawl-status", "--json")
    assert status.returncode == 1, status
    done = field.run("pawl-setup", "--adopt", owners[3], "--dir", field.dir, "--yes")
    assert done.returncode == 74 and b"not pawl's" in done.stderr, done
    for each in (worker, other):
        assert each.stop()[0] == 0, str(each)
    field.compare("t1")


# --- messages ---


# All that the server takes; each must be found again by what is in the file, and deleted.
STRANGE_IDS = [None, False, 0, -0.5, float("nan"), float("inf"), BIG, "", "a\0b", b"", bson.Binary(b"x", 2), bson.Binary(b"x", 6), bson.MinKey(), bson.MaxKey(),
               bson.Timestamp(0, 0), bson.Decimal128("-1E+6000"), bson.Code("while(1);"), bson.Code("x", {"y": 1}), {}, {"": 1}, {"a.b": 1},
               {"a": [1, {"b": 2}]}, {"a": bson.Regex("x")}]


def test_hostile_messages(field):
    """Whatever BSON a producer may insert is written as it is; what is no message of the type is left alone."""
    deep = {"a": 1}
    for _ in range(150):
        deep = {"a": deep}
    strange = [{"type": "t1", "x": value} for value in RUBBISH] + [
        {"type": "t1", "deep": deep}, {"type": "t1", "payload": "x" * (15 << 20)}, {"type": "t1", "": ""}, {"type": "t1", "_pawl": b"x"},
        {"type": "t1", "many": {str(n): n for n in range(20000)}}, {"type": "t1", "$where": "x", "a.b": 1}, {"type": "t1"},
        {"_id": "x" * (1 << 20), "type": "t1"}, {"_id": {"nested": ["x" * 100000] * 20}, "type": "t1"}, {"_id": "../../x", "type": "t1"}]
    strange += [{"_id": value, "type": "t1"} for value in STRANGE_IDS]
    broken = bson.encode({"_id": bson.ObjectId(), "type": "t1", "text": "abcd"}).replace(b"abcd", b"\xff\xfe\xfdd")
    twice = bson.encode({"_id": bson.ObjectId(), "type": "t1", "typo": "t2"}).replace(b"typo", b"type")
    marker = bson.encode({"_id": bson.ObjectId(), "type": "t1", "m": reader.MARKER_START * 20 + reader.HEADER_START})
    symbol = bson.encode({"_id": bson.Code("x"), "type": "t1"}).replace(b"\x0d_id", b"\x0e_id")
    unreadable = bson.encode({"_id": "abcd", "type": "t1"}).replace(b"abcd", b"\xff\xfe\xfdd")
    for document in [*strange, broken, twice, marker, symbol, unreadable]:
        field.insert("producer of t1", [document])
    foreign = [{"type": ["t1"]}, {"type": None}, {"type": 1}, {"type": b"t1"}, {"type": bson.Code("t1")}, {"type": {"$eq": "t1"}}, {}, {"type": "t1\0"},
               {"type": "T1"}, {"type": ["t1", "t2"]}]
    field.messages.insert_many(foreign)
    assert not field.unknown, len(field.unknown)
    field.drain("--batch-messages", 7, types=["t1", "t2"])
    assert field.messages.count_documents({}) == len(foreign)
    stored = [m.raw for m in reader.read_type(field.dir, "t1", field.ledger())]
    assert sorted(stored) == sorted(field.acknowledged["producer of t1"])
    verify = run("pawl-dump", "--verify", "--dir", field.dir)
    assert verify.returncode == 0, verify
    for form in ("relaxed", "canonical", "payload", "summary", "blocks"):
        done = run("pawl-dump", "--dir", field.dir, "--type", "t1", "--format", form)
        assert done.returncode == 0, (form, done.stderr[:500])


def test_huge_ids_are_deleted(field):
    """Each delete fits into a command."""
    for size in (1 << 20, 4 << 20, 8 << 20):  # the server takes no larger ones
        for _ in range(2):
            field.insert("producer of t1", [{"_id": uuid.uuid4().hex + "x" * (size - 50), "type": "t1"}])
    assert not field.unknown
    field.drain()
    assert field.queued() == 0 and len(reader.read_type(field.dir, "t1", field.ledger())) == 6


def test_control_characters_do_not_reach_the_log(field):
    """What somebody wrote into a lock or a ledger cannot forge a line of the log, nor speak to a terminal."""
    nasty = "x\n2026-01-01T00:00:00.000Z error forged: line\x1b[31m\r\x07\x7f\x9b31m"
    control = rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]"
    assert field.run("pawl-setup").returncode == 0
    field.db.locks.insert_one({"type": "t1", "slot": 0, "owner": nasty, "holder": {"host": nasty, "program": nasty}})
    field.db.ledger.insert_one({"_id": "t2", "v": 1, "epoch": nasty, "file": nasty, "clean": nasty})
    field.fill(1, "t1")
    field.fill(1, "t2")
    field.fill(1, nasty)
    worker = field.worker("-v", types=["t1", "t2"], env={"PAWL_TEST_DISTRUST_MS": "500"})
    worker.wait_log("t2 .*the storage cannot be trusted")
    worker.wait_log("not pawl's")
    assert worker.stop()[0] == 74
    raw = worker.log_path.read_bytes()
    assert not re.search(rb"^\S+ error forged", raw, re.M) and not re.search(control, raw), raw
    for words in (["pawl-status"], ["pawl-status", "--json"], ["pawl-setup", "--adopt", "t2", "--dir", field.dir]):
        done = field.run(*words, stdin=b"n\n")
        assert not re.search(control, done.stdout + done.stderr) and b"\nforged" not in done.stdout, done
