"""pawl-setup --set-aside and --put-back, and the lock of the type: waited for, fenced, and lost on the way."""
import os
import re
import signal
import subprocess
import time

import bson
import pytest

from harness import CALM, DEADLINE, wait_until
from locking import theirs
from test_aside import aside, setup, start, untyped, waiting
from test_ids import document, element, insert, insert_past_the_checks, text, untaken


def test_others_hold_the_lock(field, locked):
    assert field.run("pawl-setup").returncode == 0
    insert_past_the_checks(field, untaken("array"))
    lock = locked("t1", "sleep", "100")
    wait_until(lambda: field.holder() is not None, "a holder")
    said = setup(field, "--set-aside", "t1", "--yes", "--timeout", "1s", code=1)
    assert re.search(rf"t1 is held by \S+, pid {lock.pid}", said) and aside(field) == [], said


def test_the_time_to_wait_for_the_lock(field, locked):
    """It counts for each type, and from the confirmation."""
    assert field.run("pawl-setup").returncode == 0
    for kind in ("t1", "t2"):
        insert_past_the_checks(field, document(element(4, b"_id", document(element(2, b"0", text(kind.encode())))), element(2, b"type", text(kind.encode()))))
        locked(kind, "sleep", "100")
        wait_until(lambda: field.locks.count_documents({"type": kind, "slot": 0}) == 1, "a holder")
    began = time.monotonic()
    setup(field, "--set-aside", "t1,t2", "--yes", "--timeout", "2s", code=1)
    assert time.monotonic() - began >= 4

    process = start(field, "--set-aside", "t1", "--timeout", "2s", stdin=subprocess.PIPE)
    said = b""
    while b"Go on?" not in said:
        said += os.read(process.stdout.fileno(), 1000) or pytest.fail(said.decode())
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 2.5, "a slow answer")
    began = time.monotonic()
    said += process.communicate(b"y\n", timeout=DEADLINE)[0]
    assert time.monotonic() - began >= 2 and b"t1 is held by" in said, said


def test_a_fence_without_an_answer(field):
    """Its lock does not keep the workers off until its lease is over."""
    assert field.run("pawl-setup").returncode == 0
    insert_past_the_checks(field, untaken("array"))
    with field.failing(["findAndModify"], program="pawl-setup", collection="ledger", closeConnection=True):
        setup(field, "--set-aside", "t1", "--yes", "--timeout", "0s", code=69)
    assert field.locks.count_documents({"slot": 0}) == 0 and aside(field) == []


def fencing(field, times):
    """A type with a ledger and a document that no worker takes; the fence of pawl-setup is held up so often."""
    assert field.run("pawl-setup").returncode == 0
    field.fill(1)
    field.drain(*CALM)
    insert_past_the_checks(field, untaken("array"))
    return field.failing(["findAndModify"], {"times": times}, program="pawl-setup", collection="ledger", blockConnection=True, blockTimeMS=1500)


def test_stolen_before_the_move(field):
    """The transaction goes on only with the lock that it renews, and does not renew the thief's."""
    with fencing(field, 1) as fence:
        process = start(field, "--set-aside", "t1", "--yes")
        fence.wait()
        assert field.locks.update_one({"type": "t1", "slot": 0}, {"$set": theirs("t1")}).modified_count == 1
        said = process.communicate(timeout=DEADLINE)[0]
    assert process.returncode == 1 and b"it stays: renewing the lock: 0 documents" in said and aside(field) == [] and len(waiting(field)) == 1, said


def test_another_lock_after_a_fence_in_vain(field):
    """Or a late delete of the first lock would delete the second."""
    with fencing(field, 2) as fence:
        process = start(field, "--set-aside", "t1", "--yes")
        fence.wait(1)
        first = field.locks.find_one({"type": "t1", "slot": 0})["owner"]
        field.db.ledger.update_one({"_id": "t1"}, {"$inc": {"epoch": bson.Int64(1)}})
        fence.wait(2)
        assert field.locks.find_one({"type": "t1", "slot": 0})["owner"] != first
        said = process.communicate(timeout=DEADLINE)[0]
    assert process.returncode == 0 and len(aside(field)) == 1, said


def test_frozen_on_the_way_back(servers, make_field):
    """Beyond its lease, between the look at the second document and the delete of its copy. Another run sets both aside meanwhile."""
    field = make_field(servers("standalone"))
    assert field.run("pawl-setup").returncode == 0
    raws = sorted(insert(field, [untyped(n) for n in range(2)]))
    setup(field, "--set-aside", "@untyped", "--yes")
    with field.failing(["find"], {"times": 2}, program="pawl-setup", collection="messages", blockConnection=True, blockTimeMS=2000) as looks:
        frozen = start(field, "--put-back", "@untyped", "--yes")
        looks.wait(1)
        assert field.locks.update_many({"slot": 0}, [{"$set": {"expires_at": "$$NOW"}}]).modified_count == 1
        looks.wait(2)
        frozen.send_signal(signal.SIGSTOP)
    assert waiting(field) == raws and len(aside(field)) == 1
    try:
        setup(field, "--set-aside", "@untyped", "--yes")
        assert waiting(field) == [] and aside(field) == raws
    finally:
        frozen.send_signal(signal.SIGCONT)
    said = frozen.communicate(timeout=DEADLINE)[0]
    assert aside(field) == raws and waiting(field) == [] and b"the lock was lost" in said and frozen.returncode == 1, said


def test_stolen_on_the_way_back(servers, make_field):
    """The end of the thief's lease is not mine."""
    field = make_field(servers("standalone"))
    assert field.run("pawl-setup").returncode == 0
    insert(field, [untyped(n) for n in range(2)])
    setup(field, "--set-aside", "@untyped", "--yes")
    with field.failing(["find"], {"times": 1}, program="pawl-setup", collection="messages", blockConnection=True, blockTimeMS=1500) as looks:
        process = start(field, "--put-back", "@untyped", "--yes")
        looks.wait()
        assert field.locks.update_one({"type": "@untyped", "slot": 0}, {"$set": theirs("@untyped")}).modified_count == 1
        said = process.communicate(timeout=DEADLINE)[0]
    assert process.returncode == 1 and b"the lock of @untyped was lost" in said and len(aside(field)) == len(waiting(field)) == 1, said
