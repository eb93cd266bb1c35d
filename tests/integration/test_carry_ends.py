"""A type is moved to another replica set, and whoever takes part ends at any moment: pawl-setup, a server, a worker."""
import signal
import subprocess
import time

import pytest

from harness import CALM, DEADLINE, side_by_side, stays, wait_until
from test_carry import carry, compare, drained, other_set, pause, places, refused, resume, start  # noqa: F401

KILLED = -signal.SIGKILL
# What --carry sends; all else that pawl-setup sends only looks, or makes what is missing.
SENT = ["update", "find", "insert", "aggregate", "listCollections"]

# --- ends at any moment ---


def served_once(old, new):
    """At the old place, or, after the mark, at the new one, or for the time being nowhere."""
    here, there = old.ledger(), new.ledger()
    made = there is not None and there.get("file") is not None
    assert "moved" in here or not made, (here, there)
    assert not made or there["epoch"] > here["epoch"], (here, there)


@pytest.mark.parametrize("where", ["old", "new"])
def test_cut_off_at_each_command(places, where):
    """From the first, the second, … command on the old, or the new, server hangs up, until one run meets no more."""
    old, new = places
    drained(old)
    for skip in range(60):
        place = old if where == "old" else new
        with place.failing(SENT, {"skip": skip}, program="pawl-setup", closeConnection=True) as met:
            done = start(old, new)
            try:
                done.communicate(timeout=1.5 + skip * 0.1)
            except subprocess.TimeoutExpired:  # it would ask for a minute
                done.kill()
                done.communicate()
        served_once(old, new)
        if done.returncode == 0 and met.count <= skip:
            break
    else:
        raise AssertionError("there is no end")
    assert skip > 3
    carry(old, new)
    resume(new)
    new.fill(10, producer="new")
    new.drain(*CALM)
    assert len(compare(old, new)) == 60


@pytest.mark.parametrize("where", ["old", "new"])
def test_killed_with_the_change_under_way(places, where):
    """The change is still made when its sender is dead. A run meanwhile and a run afterwards finish it."""
    old, new = places
    drained(old)
    place = old if where == "old" else new
    with place.failing(["update"], {"times": 1}, program="pawl-setup", collection="ledger", blockConnection=True, blockTimeMS=1500) as met:
        process = start(old, new)
        met.wait()
        process.kill()
        assert process.wait(DEADLINE) == KILLED
        served_once(old, new)
        carry(old, new)
    carry(old, new)
    served_once(old, new)
    resume(new)
    new.fill(10, producer="new")
    new.drain(*CALM)
    assert len(compare(old, new)) == 60


def test_no_answer_to_either_change(places):
    """The change is made, and its answer lost: the ledger says so."""
    old, new = places
    drained(old)
    error = {"writeConcernError": {"code": 64, "errmsg": "waiting for replication timed out"}}
    with old.failing(["update"], {"times": 1}, program="pawl-setup", collection="ledger", **error) as first:
        with new.failing(["update"], {"times": 1}, program="pawl-setup", collection="ledger", **error) as second:
            carry(old, new)
    assert first.count == second.count == 1
    assert new.ledger()["epoch"] == old.ledger()["epoch"] + 1


def test_several_at_once(places):
    old, new = places
    drained(old)
    said = side_by_side(*[lambda: carry(old, new)] * 4)
    assert all("moved to" in one for one in said)
    assert new.ledger()["carried"]["id"] == old.ledger()["moved"]["id"]


def test_done_by_another_between_two_looks(places):
    """One has read the old ledger, and reads the new one when the other run is through."""
    old, new = places
    drained(old)

    def late(ms):
        return new.failing(["find"], {"times": 1}, program="pawl-setup", collection="ledger", blockConnection=True, blockTimeMS=ms)
    with late(2000) as first:  # as it prepares the new place
        process = start(old, new)
        first.wait()
        with late(4000) as second:
            second.wait()
            carry(old, new)
            assert process.poll() is None, "it was not between the two"
    said = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0 and b"moved to" in said[0], said


# --- workers ---


def test_a_worker_killed_while_it_drains(places):
    """In the middle of the recipe: the next one settles what it left, and only then the type can go."""
    old, new = places
    pause(new)
    old.fill(200)
    old.crash("block-committed:3", "--batch-messages", 10, "--lease", "1s")
    refused(old, new, "is not paused here")
    old.drain("--lease", "1s")
    pause(old)
    carry(old, new)
    resume(new)
    new.fill(50, producer="new")
    new.drain(*CALM)
    assert len(compare(old, new)) == 250


def test_a_frozen_worker_of_the_old_place(places):
    """It wakes after the move: what it had in hand is committed nowhere, and the file is whole."""
    old, new = places
    worker = old.worker("--lease", "1s", "--linger", "1h", "--batch-messages", 20)
    old.fill(100)
    wait_until(lambda: old.seq() > 0, old.logs)
    worker.freeze()
    time.sleep(0.3)  # what it has sent is done by then
    refused(old, new, "is not paused here")
    old.drain("--lease", "1s")
    pause(old)
    carry(old, new)
    resume(new)
    new.fill(100, producer="new")
    there = new.worker(*CALM)
    wait_until(lambda: new.seq() == 200, new.logs)
    worker.thaw()
    worker.wait_log("t1 was moved to")
    new.fill(100, producer="new")
    wait_until(lambda: new.seq() == 300, new.logs)
    new.wait_settled()
    assert worker.stop()[0] == there.stop()[0] == 0
    assert len(compare(old, new)) == 300


def test_who_comes_late_waits(places):
    """A producer that does not know of the move: its messages stay at the old place, and are seen."""
    old, new = places
    drained(old)
    carry(old, new)
    old.fill(5, producer="late")
    worker = old.worker(*CALM)
    worker.wait_log("t1 was moved to")
    stays(lambda: old.queued() == 5 and old.seq() == 50, 1.5, old.logs)
