"""A majority that acknowledges late: limits grow with the lease, and what is not known is read, and judged."""
import os
import subprocess
import tempfile
import time
from datetime import timedelta

import pymongo
import pytest
from pymongo.read_concern import ReadConcern

from harness import Mongod, environment, program, remove, wait_until


@pytest.fixture(scope="module")
def pair():
    """A set of two. Without the secondary there is no majority."""
    folder = tempfile.mkdtemp(prefix="pawl-test.", dir=os.environ.get("PAWL_TEST_TMP"))
    server = Mongod(folder, "--replica-set", "--members", "2", "--test-commands").start()
    yield server
    server.stop()
    remove(folder)


@pytest.fixture
def lagging(pair, make_field):
    """A field, and a switch that keeps the secondary from following."""
    field = make_field(pair)
    host, port = next(iter(wait_until(lambda: pair.client.secondaries, "a secondary")))
    secondary = pymongo.MongoClient(host, port, directConnection=True)

    def hold(held):
        secondary.admin.command("configureFailPoint", "stopReplProducer", mode="alwaysOn" if held else "off")
    assert field.run("pawl-setup").returncode == 0
    field.fill(20)
    yield field, hold
    hold(False)
    secondary.close()


def fenced(field, name):
    """As the primary alone has it."""
    ledgers = field.db.get_collection("ledger", read_concern=ReadConcern("local"))
    return (ledgers.find_one({"_id": name}) or {}).get("epoch", 0) > 0


def test_limits_grow_with_the_lease(lagging):
    """An acknowledgement after four seconds comes within a third of a lease of 30 s: no answer is missing."""
    field, hold = lagging
    hold(True)
    worker = field.worker("--lease", "30s", "--exit-when-empty")
    wait_until(lambda: fenced(field, "t1"), lambda: f"a fence of {worker}")
    time.sleep(4)  # this is what is tested, and nothing waits for it
    hold(False)
    assert worker.wait() == 0, str(worker)
    assert field.ledger()["epoch"] == 1 and "no answer" not in worker.log(), str(worker)
    field.compare()


@pytest.mark.parametrize("what, env", [("fencing", {}), ("committing", {"PAWL_FAULT_STOP": "block-synced"})])
def test_what_is_not_known_is_judged(lagging, what, env):
    """Once the majority has it the ledger says so: the epoch stays, and nothing is written twice."""
    field, hold = lagging
    if not env:
        hold(True)
    worker = field.worker("--lease", "15s", "--exit-when-empty", env=env)
    if env:
        worker.wait_frozen()
        hold(True)
        worker.thaw()
    worker.wait_log(f"no answer: {what}")
    hold(False)
    assert worker.wait() == 0, str(worker)
    assert field.ledger()["epoch"] == 1, str(worker)
    field.compare()


def test_pawl_lock_judges_too(lagging):
    field, hold = lagging
    hold(True)
    lock = subprocess.Popen([program("pawl-lock"), *field.mongo, "--lease", "12s", "job", "--", "sh", "-c", "echo $PAWL_LOCK_EPOCH"],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    try:
        wait_until(lambda: fenced(field, "job"), "a fence")
        time.sleep(4)  # a third of the lease: by then the fence has no answer
        hold(False)
        out, err = lock.communicate(timeout=60)
    finally:
        lock.kill()
    assert (lock.returncode, out) == (0, b"1\n"), err.decode()


def test_renewals_go_together(field):
    """Each by itself, ten that take 0.3 s each would take longer than the lease."""
    names = [f"t{n}" for n in range(10)]
    for name in names:
        field.fill(1, name)
    worker = field.worker("--lease", "3s", "--linger", "1h", types=names)
    wait_until(lambda: field.locks.count_documents({"slot": 0}) == len(names), lambda: f"locks of {worker}")
    for name in names:
        field.wait_empty(name)
    with field.failing(["update"], collection="locks", blockConnection=True, blockTimeMS=300):
        begin = field.server.client.admin.command("hello")["localTime"]
        wait_until(lambda: "lost" in worker.log() or
                   all(lock["expires_at"] - begin > timedelta(seconds=8) for lock in field.locks.find({"slot": 0})),
                   lambda: f"renewals until five seconds from now, of {worker}")
    assert "lost" not in worker.log() and field.locks.count_documents({"slot": 0}) == len(names), str(worker)
    assert worker.stop()[0] == 0
