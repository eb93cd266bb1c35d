"""Two versions of pawl at once: a worker leaves alone what it does not know, and a rolling restart loses and doubles nothing."""
import os
import re
import time
from datetime import datetime, timezone

import pytest
from bson import Int64, ObjectId

import segment as made
from harness import CALM, program, run, wait_until

SMALL = ["--batch-messages", 20]
TIME_TO_GO_WRONG_S = 2.5  # more than two looks of a worker that stands by


def newer_lines(worker):
    return re.findall(r"^\S+ warn .* newer: (.*)$", worker.log(), re.M)


def snapshot(field):
    return field.ledger(), {path.name: path.read_bytes() for path in field.dir.iterdir()}


def stands_by(field, workers, words):
    """Each says once that a newer pawl is needed, does not compete, does not stop, and changes nothing."""
    for worker in workers:
        worker.wait_log(" newer: ")
    wait_until(lambda: field.holder() is None, field.logs)
    before, end = snapshot(field), time.monotonic() + TIME_TO_GO_WRONG_S
    while time.monotonic() < end:
        assert field.holder() is None and all(worker.alive() for worker in workers), field.logs()
        time.sleep(0.02)
    assert snapshot(field) == before
    for worker in workers:
        assert len([line for line in newer_lines(worker) if line.startswith("standing by: ")]) == 1, str(worker)
        assert re.search(words, worker.log()) and "a newer pawl is needed" in worker.log(), str(worker)


# --- the ledger ---


def test_ledger_raised_under_a_holder(field):
    """As a newer pawl does it, in the middle of a block: all old workers stand aside, and go on when it is theirs again."""
    workers = [field.worker(*SMALL, *CALM, "--linger", "1h") for _ in range(3)]
    field.fill(500)
    field.holding_worker()
    wait_until(lambda: field.seq() > 100, field.logs)
    field.ledgers.update_one({"_id": "t1"}, {"$set": {"v": 3, "fields of": "version 3"}, "$inc": {"epoch": Int64(1)}})
    field.fill(500)
    stands_by(field, workers, r'the ledger of "t1" has v 3 and this pawl knows 1 and 2')
    field.compare(queue_empty=False, live=True)
    field.ledgers.update_one({"_id": "t1"}, {"$set": {"v": 1}})
    field.wait_empty()
    for worker in workers:
        assert worker.stop()[0] == 0, str(worker)
    assert len(field.compare()["t1"]) == 1000
    assert field.ledger()["fields of"] == "version 3"


def test_tools_with_a_newer_ledger(field):
    """Clear words, and nothing is harmed; what does not depend on the ledger works."""
    field.fill(10)
    field.drain()
    field.ledgers.update_one({"_id": "t1"}, {"$set": {"v": 3}})
    words = b'the ledger of "t1" has v 3 and this pawl knows 1 and 2: a newer pawl is needed'
    before = snapshot(field)
    for code, name, *arguments in [(1, "pawl-status"), (1, "pawl-dump", "--dir", field.dir, "--type", "t1", "--verify"),
                                   (74, "pawl-setup", "--adopt", "t1", "--dir", field.dir, "--yes"), (74, "pawl-lock", "t1", "--", "true")]:
        done = field.run(name, *arguments)
        assert done.returncode == code and words in (done.stdout + done.stderr).replace(b'\\"', b'"'), done
    assert field.run("pawl-setup").returncode == 0
    assert field.run("pawl-enqueue", "--type", "t1", stdin=b"one more\n").returncode == 0
    offline = run("pawl-dump", "--dir", field.dir, "--type", "t1", "--count")
    assert offline.returncode == 0 and offline.stdout == b"10\n", offline
    assert snapshot(field) == before and field.holder() is None


def test_fields_of_a_newer_version(field):
    """In lock, ledger and wake-up they are left alone, and in a message they are the producer's."""
    field.fill(50)
    field.drain()
    field.ledgers.update_one({"_id": "t1"}, {"$set": {"new": {"in": "0.2"}}})
    field.locks.insert_one({"type": "t1", "slot": 0, "owner": bytes(16), "holder": {"host": "h", "pid": Int64(1), "new": True}, "new": [1, 2],
                            "acquired_at": datetime.now(timezone.utc), "expires_at": datetime.fromtimestamp(0, timezone.utc),
                            "ttl_ms": Int64(1000), "waiters": [{"process": bytes(16)}]})
    field.db.wakeups.insert_one({"type": "t1", "about": "something new", "new": 1})
    field.insert("newer", [{"type": "t1", "v": 2, "format": {"new": ObjectId()}} for _ in range(50)])
    field.drain()
    assert len(field.compare()["t1"]) == 100 and field.ledger()["new"] == {"in": "0.2"}


# --- the file ---


def file_of(field, last=None, **header):
    """t1.bin as a newer pawl might have written it, and its ledger. last: flags, or the kind of its last block."""
    file = made.Segment(field.dir / "t1.bin", **header).numbered(*range(10))
    if last == "flags":
        file.data(made.message(10), flags=1)
    elif isinstance(last, int):
        file.add(last, b"future", 0)
    put_ledger(field, file, file.seq - 1)


def put_ledger(field, file, settled):
    """Of a type whose newest file this is."""
    assert field.run("pawl-setup").returncode == 0
    field.ledgers.insert_one({"_id": "t1", "v": 1, "epoch": Int64(file.epoch), "owner": os.urandom(16), "clean": True, "file": file.path.name,
                              "uuid": file.uuid, "length": Int64(file.length), "tail": Int64(file.tail),
                              "link": Int64(file.link - (1 << 64) if file.link >> 63 else file.link), "seq": Int64(file.seq - 1),
                              "items": Int64(file.seq - 1), "settled": Int64(settled)})


@pytest.mark.parametrize("header,words,readable", [
    ({"version": 2}, "format 2", False), ({"incompat": 4}, "incompatible features 00000004", False),
    ({"ro_compat": 2}, "features 00000002 that forbid appending", True), ({"last": "flags"}, "flags 01", False),
    ({"last": 77}, "kind 77", False),
], ids=["version", "incompat", "ro_compat", "flags", "kind"])
def test_file_of_a_newer_version(field, header, words, readable):
    """It is not appended to; read, where that is allowed; and not adopted where it cannot be read."""
    file_of(field, **header)
    field.fill(10)
    workers = [field.worker() for _ in range(2)]
    stands_by(field, workers, words)
    for worker in workers:
        assert worker.stop()[0] == 0, str(worker)
    assert field.queued() == 10
    before = snapshot(field)
    done = field.run("pawl-dump", "--dir", field.dir, "--type", "t1", "--count")
    assert (done.returncode, done.stdout == b"10\n") == ((0, True) if readable else (4, header.get("last") is not None)), done
    done = field.run("pawl-setup", "--adopt", "t1", "--dir", field.dir, "--yes")
    assert done.returncode == 74 and words in done.stderr.decode(), done
    assert snapshot(field) == before and field.run("pawl-status").returncode == 0


def test_settling_from_a_file_of_a_newer_version(field):
    """An older segment has messages that are still to be deleted from the queue, and cannot be read: no case for adopting."""
    first = made.Segment(field.dir / "t1.bin", incompat=4).numbered(*range(10))
    second = made.Segment(field.dir / "t1@2.bin", epoch=2, predecessor=first, first_seq=11, number=1).numbered(*range(10, 20))
    put_ledger(field, second, 5)
    field.fill(10)
    worker = field.worker(*CALM, env={"PAWL_TEST_DISTRUST_MS": "300"})
    worker.wait_log(r"(?s)( newer: a newer pawl is needed, releasing the lock: t1\.bin.*){2}")
    assert worker.alive() and " untrusted: " not in worker.log(), str(worker)
    assert worker.stop()[0] == 0 and field.queued() == 10 and field.segments() == ["t1.bin", "t1@2.bin"], str(worker)


@pytest.mark.parametrize("header", [{"compat": 8}, {"last": 200}], ids=["feature", "kind"])
def test_what_is_to_be_ignored_in_a_file(field, header):
    """It is read and continued."""
    file_of(field, **header)
    field.fill(10)
    field.drain()
    assert field.queued() == 0 and field.ledger()["seq"] == 20 and field.segments() == ["t1.bin"]
    dump = field.run("pawl-dump", "--dir", field.dir, "--type", "t1", "--verify")
    assert dump.returncode == 0 and b"t1: ok" in dump.stdout, dump


# --- a rolling restart ---


@pytest.fixture(scope="module")
def next_version(tmp_path_factory):
    """pawl-worker, to its last byte but for its version number."""
    path = tmp_path_factory.mktemp("next") / "pawl-worker"
    own = run("pawl-worker", "--version").stdout.split()[-1]
    other = own[:-1] + (b"9" if own[-1:] != b"9" else b"8")
    path.write_bytes(open(program("pawl-worker"), "rb").read().replace(own, other))
    path.chmod(0o755)
    return path, own.decode(), other.decode()


def test_rolling_restart(field, next_version, monkeypatch):
    """Four workers are replaced by another version and back, one by one, while messages come: none is lost, doubled or out of order."""
    path, own, version = next_version
    present, types = program("pawl-worker"), ("t1", "t2")

    def start(executable):
        monkeypatch.setattr("harness.program", lambda name: str(executable) if name == "pawl-worker" else program(name))
        worker = field.worker(*SMALL, *CALM, "--linger", "1h", types=types)
        monkeypatch.undo()
        wait_until(worker.log, "its start")
        return worker

    def held_by(name):
        lock = field.locks.find_one({"type": name, "slot": 0})
        return lock and lock["holder"]["program"].split()[-1]

    workers = [start(present) for _ in range(4)]
    for executable, expected in ((path, version), (present, own)):
        for i in range(4):
            for name in types:
                field.fill(200, name)
            old = workers[i]
            workers[i] = start(executable)
            assert old.stop()[0] == 0, str(old)
        field.wait_empty(*types)
        for name in types:
            field.fill(1, name)  # where nobody had to hold it any more
            wait_until(lambda: held_by(name) == expected, lambda: f"a holder of {expected}: {field.logs()}")
    field.wait_empty(*types)
    for worker in workers:
        assert worker.stop()[0] == 0, str(worker)
    for name, messages in field.compare(*types).items():
        assert len(messages) == 1602 and field.segments(name) == [f"{name}.bin"]
