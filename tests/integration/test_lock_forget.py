"""pawl-lock --forget and --prune: what nobody uses goes, and no token comes again."""
import datetime

import pytest
from bson import Int64

from harness import program, wait_until


def test_forget(field):
    """Only what is free and has no files; afterwards nothing is left of it, and its epochs do not go back."""
    def forget(name, *arguments):
        return field.run("pawl-lock", *arguments, "--forget", name)
    for _ in range(2):
        assert field.run("pawl-lock", "nightly", "--", "true").returncode == 0
    held = field.run("pawl-lock", "--lease", "30s", "nightly", "--", program("pawl-lock"), *field.mongo, "--forget", "nightly")
    assert held.returncode == 69 and b"the time is over, and it is held by" in held.stderr and field.ledger("nightly")["epoch"] == 3, held
    done = forget("nightly")
    assert done.returncode == 0 and b"nightly: forgotten" in done.stderr, done
    assert field.ledger("nightly") is None and field.locks.find_one({"type": "nightly"}) is None
    again = forget("nightly")
    assert again.returncode == 0 and b"there is no such lock" in again.stderr and field.ledger("nightly") is None, again
    assert field.run("pawl-lock", "nightly", "--", "sh", "-c", "exit $PAWL_LOCK_EPOCH").returncode == 4

    field.fill(3)
    field.drain()
    before = field.ledger()
    refused = forget("t1")
    assert refused.returncode == 1 and b"t1 is a type with files (t1.bin)" in refused.stderr and field.ledger() == before, refused
    for arguments in (["--forget", "a b"], ["--forget", "x", "y"], ["--forget", "x", "--", "true"]):
        wrong = field.run("pawl-lock", *arguments)
        assert wrong.returncode == 2 and b"--forget: " in wrong.stderr, wrong


def test_prune(field):
    """What nobody uses goes; a type with files, what is held, and the tokens stay."""
    field.fill(3)
    field.drain()
    ledger = field.ledger()
    for name in ["a", "b", "c"]:
        assert field.run("pawl-lock", name, "--", "true").returncode == 0
    assert field.run("pawl-lock", "--slots", "3", "pool", "--", "true").returncode == 0
    field.ledgers.insert_one({"_id": "left", "v": 1, "epoch": 0, "birth": 77})  # of a process that died
    field.locks.insert_one({"type": "b", "slot": 0, "owner": bytes(16), "ttl_ms": 1000, "expires_at": datetime.datetime(2020, 1, 1)})
    status = field.run("pawl-status")
    assert status.returncode == 0 and b"left" not in status.stdout, status
    held = field.run("pawl-lock", "--lease", "30s", "a", "--", program("pawl-lock"), *field.mongo, "--prune")
    assert held.returncode == 0 and b"pawl-lock: locks forgotten: 4" in held.stderr, held
    assert field.ledger() == ledger and field.ledger("a")["epoch"] == 2
    assert [one["_id"] for one in field.ledgers.find(sort=[("_id", 1)])] == ["@floor", "a", "t1"] and field.locks.count_documents({}) == 0
    assert field.run("pawl-lock", "--slots", "2", "pool", "--", "sh", "-c", "exit $PAWL_LOCK_EPOCH").returncode == 2
    assert b"@floor" not in field.run("pawl-status").stdout
    for arguments in (["--prune", "x"], ["--prune", "--list"], ["--prune", "--forget", "x"], ["--prune", "--", "true"], ["--prune=maybe"]):
        wrong = field.run("pawl-lock", *arguments)
        assert wrong.returncode == 2 and b"--prune" in wrong.stderr, wrong
    field.ledgers.update_one({"_id": "@floor"}, {"$set": {"epoch": "high"}})
    wrong = field.run("pawl-lock", "new", "--", "true")
    assert wrong.returncode == 74 and b"the floor of all ledgers" in wrong.stderr, wrong
    worker = field.worker("--lease", "1s", types=["t2"])
    field.fill(1, "t2")
    worker.wait_log("cannot fence, retrying: the floor of all ledgers")
    wrong = field.run("pawl-lock", "--prune")
    assert wrong.returncode == 2 and b"the floor of all ledgers" in wrong.stderr and field.ledger("a")["epoch"] == 2, wrong
    field.ledgers.delete_one({"_id": "@floor"})
    field.wait_empty("t2")
    assert worker.log().count("cannot fence") == 1 and worker.stop()[0] == 0, str(worker)
    assert field.run("pawl-lock", "--prune=yes").returncode == 0


def test_prune_beside_workers(field):
    """A type whose first worker died before it had a file is forgotten, and another under a worker that has just taken it."""
    field.fill(300)
    for point in ["fenced", "lock-inserted"]:
        worker = field.worker("--lease", "1s", env={"PAWL_FAULT_STOP": point})
        worker.wait_frozen()
        if point == "fenced":
            worker.kill()
            wait_until(lambda: field.run("pawl-lock", "--prune").stderr == b"pawl-lock: locks forgotten: 1\n", "the end of its lease")
            assert field.ledger() is None
        else:  # it saw no ledger; others have made one, and forgotten it, when it wakes up
            field.locks.delete_many({})
            assert field.run("pawl-lock", "t1", "--", "true").returncode == 0 == field.run("pawl-lock", "--prune").returncode
            worker.thaw()
            field.wait_empty()
            assert worker.stop()[0] == 0, str(worker)
    assert field.ledger()["epoch"] > 2
    field.compare()


def test_adopted_above_the_floor(field):
    """The epoch of an adopted ledger is above all that any forgotten name had."""
    field.fill(3)
    field.drain()
    field.ledgers.delete_one({"_id": "t1"})
    field.ledgers.insert_one({"_id": "@floor", "epoch": 50})
    field.adopt()
    assert field.ledger()["epoch"] == 51
    field.fill(3)
    field.drain()
    field.compare()


@pytest.mark.parametrize("fault, code, words", [({"writeConcernError": {"code": 64, "errmsg": "in doubt"}}, 0, b"nightly: forgotten"),
                                                ({"errorCode": 13}, 2, b"nightly: MongoDB does not permit it: ")], ids=["in doubt", "not permitted"])
def test_forget_judges_what_became_of_it(field, fault, code, words):
    """A delete that was made and not acknowledged; and one that is not permitted, and is sent once."""
    assert field.run("pawl-lock", "nightly", "--", "true").returncode == 0
    with field.failing(["delete"], {"times": 1} if code == 0 else "alwaysOn", collection="ledger", program="pawl-lock", **fault) as failing:
        done = field.run("pawl-lock", "--forget", "nightly")
    assert done.returncode == code and words in done.stderr, done
    assert failing.count == 1 and field.locks.find_one({"type": "nightly"}) is None
    assert (field.ledger("nightly") is None) == (code == 0)


def test_the_last_epoch_stays(field):
    """No floor could be above it: then no name could ever be used for the first time."""
    assert field.run("pawl-lock", "edge", "--", "true").returncode == 0
    field.ledgers.update_one({"_id": "edge"}, {"$set": {"epoch": Int64(1 << 59)}})
    refused = field.run("pawl-lock", "--forget", "edge")
    assert refused.returncode == 74 and b"its epoch is the last that a ledger takes" in refused.stderr, refused
    assert field.run("pawl-lock", "--prune").returncode == 0 and field.ledger("edge") is not None
    assert field.run("pawl-lock", "new", "--", "true").returncode == 0


def test_a_type_with_its_own_collection_stays(field):
    """Before its first message, too: nobody else is why."""
    assert field.run("pawl-setup", "--type", "t1", "--own-collection").returncode == 0
    refused = field.run("pawl-lock", "--forget", "t1")
    assert refused.returncode == 1 and b"t1 is a type with its own collection" in refused.stderr, refused
    assert field.run("pawl-lock", "--prune").returncode == 0 and field.ledger("t1")["needs"] == ["own"]
