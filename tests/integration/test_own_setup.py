"""The own collection of a type: pawl-setup makes it and takes it away, and the tools show both."""
import json
import signal
import subprocess
from datetime import datetime, timedelta, timezone

import bson
import pytest

from harness import CALM, environment, program, run, side_by_side, wait_until

CLOSED = "this type has no own collection any more"
CLOSING = {"$expr": {"$eq": [f"{CLOSED}: insert into messages", False]}}


def setup(field, *arguments, code=0, **more):
    done = field.run("pawl-setup", *arguments, **more)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == code, f"{done.returncode}: {said}"
    return said


def own(field, name="t1", code=0, **more):
    return setup(field, "--type", name, "--own-collection", code=code, **more)


def shared(field, name="t1", code=0, **more):
    return setup(field, "--type", name, "--shared-collection", "--timeout", "10s", code=code, **more)


def enqueue(field, lines, *arguments, code=0, mongo=None):
    words = arguments or ("--type", "t1")
    done = run("pawl-enqueue", *(mongo or field.mongo), *words, stdin=lines)
    assert done.returncode == code, done
    return done.stderr.decode()


def row(field, name="t1"):
    done = field.run("pawl-status", "--json", "--type", name)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def places(field, name="t1"):
    """How many documents of the type are in `messages`, and in its own collection."""
    return field.db.messages.count_documents({"type": name}), field.db[f"messages.{name}"].count_documents({})


def options(field, name="t1"):
    found = list(field.db.list_collections(filter={"name": f"messages.{name}"}))
    return found[0]["options"] if found else None


# ---- there ----

def test_switch(any_field):
    field = any_field
    before = field.db.command("buildInfo")["versionArray"] < [5, 3]
    said = own(field)
    assert "t1: has its own collection messages.t1 now, at epoch 1" in said
    ledger = field.ledger()
    assert ledger["v"] == 2 and ledger["needs"] == ["own"] and ledger["epoch"] == 1, ledger
    assert ("clusteredIndex" in options(field)) != before
    assert "t1: has its own collection messages.t1 already" in own(field)
    assert field.ledger() == ledger


def test_several_at_once(field):
    said = setup(field, "--type", "t1,t2", "--type", "t3", "--own-collection")
    assert all(f"{name}: has its own collection messages.{name} now" in said for name in ("t1", "t2", "t3")), said
    assert sorted(found["_id"] for found in field.db.ledger.find({"needs": "own"})) == ["t1", "t2", "t3"]


def test_holder_ends_in_order(field):
    """It is let finish its block; afterwards its epoch is over."""
    worker = field.worker("--linger", "1h", "--lease", "10s", *CALM)
    field.fill(100)
    field.wait_empty()
    holder = field.holding_worker()
    assert holder is worker
    epoch = field.ledger()["epoch"]
    said = own(field)
    assert "without the lock" not in said, said
    ledger = field.ledger()
    assert ledger["epoch"] > epoch and ledger["needs"] == ["own"] and ledger["seq"] == 100, ledger
    assert not worker.events("fenced"), str(worker)
    assert worker.stop()[0] == 0


def test_frozen_holder_does_not_hinder(field):
    worker = field.worker("--linger", "1h", "--lease", "2s", *CALM)
    field.fill(100)
    field.wait_empty()
    field.holding_worker()
    worker.freeze()
    own(field)
    assert field.ledger()["needs"] == ["own"]
    worker.kill()


def test_a_paused_type_stays_paused(field):
    assert field.run("pawl-status", "--pause", "t1", "--reason", "a test").returncode == 0
    own(field)
    assert sorted(field.ledger()["needs"]) == ["own", "paused"]
    assert field.run("pawl-status", "--resume", "t1").returncode == 0
    assert field.ledger()["needs"] == ["own"] and field.ledger()["v"] == 2
    shared(field)
    assert "needs" not in field.ledger() and field.ledger()["v"] == 1


def test_collection_of_a_type_whose_ledger_was_removed(field):
    """As docs/recovery.md has it: nothing but the operator knows whose documents these are."""
    own(field)
    field.fill(5, own=True)
    field.ledgers.delete_one({"_id": "t1"})
    said = own(field, code=2)
    assert "If they are messages of t1, whose ledger was removed, give --yes, too" in said, said
    assert field.ledger() is None
    assert "give --yes, too" in own(field, code=2, env=environment(PAWL_YES="true"))
    assert "t1: has its own collection messages.t1 now" in setup(field, "--type", "t1", "--own-collection", "--yes")
    field.drain(*CALM)
    assert len(field.compare()["t1"]) == 5


def test_collection_of_somebody_else(field):
    """Neither with documents nor with an index is it taken."""
    setup(field)
    field.db["messages.orders"].insert_one({"filename": "a"})
    assert "holds documents, so it may be somebody else's" in own(field, "orders", code=2)
    field.db["messages.orders"].delete_many({})
    field.db["messages.orders"].create_index([("filename", 1), ("uploadDate", 1)])
    assert "has the index" in own(field, "orders", code=2)
    field.db.create_collection("messages.t1", capped=True, size=4096)
    assert "is capped" in own(field, code=2)
    field.db.drop_collection("messages.t1")
    field.db.create_collection("messages.t1", collation={"locale": "de"})
    assert "collation" in own(field, code=2)
    field.db.drop_collection("messages.t1")
    field.db.command("create", "messages.t1", viewOn="messages", pipeline=[])
    assert "is a view" in own(field, code=2)
    assert field.ledger() is None and field.ledger("orders") is None
    assert field.db["messages.orders"].count_documents({}) == 0


@pytest.mark.parametrize("name", ["a..b", "a.", "files", "chunks"])
def test_names_that_drivers_refuse_or_gridfs_has(field, name):
    assert "can have no own collection" in own(field, name, code=2)
    done = field.run("pawl-setup", "--type", "t1", "--type", name, "--own-collection")
    assert done.returncode == 2 and field.db.list_collection_names() == [], done  # the other type is not switched either
    done = run("pawl-setup", "--uri", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100", "--db", "x", "--type", name, "--own-collection")
    assert done.returncode == 2 and b"can have no own collection" in done.stderr, done


def test_the_longest_name(field):
    name = "a" * 128
    own(field, name)
    enqueue(field, b"one\n", "--type", name)
    assert places(field, name) == (0, 1)


def test_a_lock_is_no_type(field):
    setup(field)
    assert field.run("pawl-lock", "--slots", "3", "t1", "--", "true").returncode == 0
    assert "is a lock with 3 slots" in own(field, code=2)
    setup(field, "--type", "t1,t2", "--own-collection", code=2)  # the others are switched, and the exit code is that of the worst
    assert field.ledger("t2")["needs"] == ["own"]


def test_wrong_options(field):
    assert "--own-collection: takes --type TYPE, too" in setup(field, "--own-collection", code=2)
    assert "--type: takes --own-collection or --shared-collection, too" in setup(field, "--type", "t1", code=2)
    assert "takes one of them" in setup(field, "--type", "t1", "--own-collection", "--shared-collection", code=2)


@pytest.mark.parametrize("command", ["create", "findAndModify"])
def test_killed_in_between(field, command):
    """Whatever was done, a second run finishes it."""
    setup(field)
    with field.failing([command], program="pawl-setup", blockConnection=True, blockTimeMS=15000) as point:
        process = subprocess.Popen([program("pawl-setup"), *field.mongo, "--type", "t1", "--own-collection"], env=environment())
        point.wait()
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    field.locks.update_many({"slot": 0}, {"$set": {"expires_at": datetime.now(timezone.utc) - timedelta(hours=1)}})
    own(field)
    enqueue(field, b"one\n")
    assert places(field) == (0, 1)


def test_a_collection_that_cannot_be_used_is_its_own_types_alone(field):
    own(field)
    field.db["messages.t1"].create_index("more")
    assert "has the index" in setup(field, code=2)
    own(field, "t2")
    enqueue(field, b"one\n", "--type", "t2")
    assert places(field, "t2") == (0, 1)


def test_side_by_side(field):
    setup(field)
    done = side_by_side(*[lambda: field.run("pawl-setup", "--type", "t1", "--own-collection")] * 3)
    assert [one.returncode for one in done] == [0, 0, 0], done
    assert field.ledger()["needs"] == ["own"]


def test_missing_collection_is_made_again(field):
    own(field)
    field.db.drop_collection("messages.t1")
    assert "messages.t1 is missing" in enqueue(field, b"one\n", code=2)
    assert options(field) is None
    done = field.run("pawl-status", "--check")
    assert done.returncode == 2 and b"t1 has its own collection, as its ledger says, but" in done.stdout, done
    assert "t1: its own collection messages.t1 was missing, and is made" in setup(field)
    assert b"its own collection" not in field.run("pawl-status", "--check").stdout
    enqueue(field, b"one\n")
    assert places(field) == (0, 1)


def test_missing_collection_is_not_empty(field):
    """It may have been renamed, with messages in it."""
    own(field)
    field.fill(5, own=True)
    field.db["messages.t1"].rename("elsewhere")
    said = shared(field, code=2)
    assert "messages.t1 is missing" in said and "its name again" in said, said
    assert field.ledger()["needs"] == ["own"]
    field.db.elsewhere.rename("messages.t1")
    field.drain()
    shared(field)
    assert len(field.compare()["t1"]) == 5


def test_collection_that_is_no_more_of_use(field):
    own(field)
    field.db.drop_collection("messages.t1")
    field.db.create_collection("messages.t1", capped=True, size=4096)
    assert b"is capped" in field.run("pawl-status", "--check").stdout
    assert "is capped" in setup(field, code=2)
    field.db.drop_collection("messages.t1")
    setup(field)
    field.db["messages.t1"].create_index("n")
    assert "has the index" in setup(field, code=2)


# ---- what is shown ----

def test_status(any_field):
    field = any_field
    setup(field)
    field.fill(3)
    own(field)
    enqueue(field, b"one\ntwo\n")
    field.db["messages.t1"].insert_one({"n": 1})
    found = row(field)
    assert found["queued"] == 6 and found["own"] == {"collection": "messages.t1", "queued": 3, "refused": 0} and found["kind"] == "type", found
    assert 0 <= found["oldest_age_ms"] < 60000
    said = field.run("pawl-status").stdout.decode()
    assert "t1: own collection messages.t1: 3 there, 3 in messages" in said, said
    peeked = [json.loads(line) for line in field.run("pawl-status", "--peek", "t1").stdout.splitlines()]
    there = [str(one["_id"]) for one in field.db["messages.t1"].find().sort("_id", 1)]
    assert [one.get("n") for one in peeked[:3]] == [0, 1, 2] and [one["_id"]["$oid"] for one in peeked[3:]] == there
    assert len(field.run("pawl-status", "--peek", "t1", "-n", "4").stdout.splitlines()) == 4
    field.db.messages.delete_many({})
    found = row(field)
    assert found["queued"] == 3 and found["oldest_age_ms"] is not None, found


def test_status_shows_what_no_worker_takes(field):
    own(field)
    field.db["messages.t1"].insert_many([{"type": "other"}, {"type": ["t1"]}, {"type": None}])
    found = row(field)
    assert found["queued"] == 0 and found["own"]["refused"] == 3 and found["oldest_age_ms"] is None, found
    field.db["messages.t1"].insert_many([{"type": 5} for _ in range(100)])
    enqueue(field, b"one\n")
    found = row(field)
    assert found["own"]["refused"] >= 9 and found["oldest_age_ms"] is not None, found
    done = field.run("pawl-status", "--check")
    assert done.returncode == 1 and b"no worker can take some documents in its own collection" in done.stdout, done


def test_oldest_is_over_both(field):
    setup(field)
    then = datetime.now(timezone.utc) - timedelta(hours=2)
    field.db.messages.insert_one({"type": "t1"})
    own(field)
    field.db["messages.t1"].insert_one({"_id": bson.ObjectId.from_datetime(then)})
    assert row(field)["oldest_age_ms"] > 7000000
    field.db.messages.insert_one({"_id": bson.ObjectId.from_datetime(then - timedelta(hours=2)), "type": "t1"})
    assert row(field)["oldest_age_ms"] > 14000000


def test_many_own_types(field):
    """More than go into one request."""
    setup(field)
    names = [f"n{n}" for n in range(120)]
    setup(field, "--own-collection", *[word for name in names for word in ("--type", name)], timeout=120)
    for name in (names[0], names[99], names[100], names[119]):
        field.db[f"messages.{name}"].insert_one({})
    rows = [json.loads(line) for line in field.run("pawl-status", "--json").stdout.splitlines()]
    assert len(rows) == 120
    assert sorted(one["type"] for one in rows if one["queued"] == 1) == sorted([names[0], names[99], names[100], names[119]])


# ---- a ledger that is lost ----

def lose_ledger(field, count):
    """That of t1, with so many messages in its file and five in its own collection."""
    field.fill(count)
    field.drain()
    own(field)
    field.db["messages.t1"].insert_many([{"n": n} for n in range(5)])
    field.db.ledger.delete_one({"_id": "t1"})


def test_adopted_with_the_own_collection(field):
    """Only the ledger said that the type has it, so the operator does; where the last messages came from is not known."""
    lose_ledger(field, 60)
    assert "WARNING: messages.t1 has documents" in field.adopt(code=1, answer=b"n\n")
    assert field.ledger() is None and "messages.t1" in field.db.list_collection_names()
    setup(field, "--adopt", "t1", "--dir", field.dir, "--own-collection", "--yes")
    ledger = field.ledger()
    assert (ledger["v"], ledger["needs"], ledger["from"], ledger["seq"]) == (2, ["own"], "both", 60), ledger


def test_nothing_is_adopted_without_a_yes(field):
    """The collection neither: it stays closed, or missing. And what is in it is said."""
    field.fill(10)
    field.drain()
    words = ["--adopt", "t1", "--dir", field.dir, "--own-collection"]
    setup(field, *words, code=1, stdin=b"n\n")
    assert options(field) is None
    own(field)
    shared(field)
    setup(field, *words, code=1, stdin=b"n\n")
    assert CLOSED in str(options(field)) and "needs" not in field.ledger()
    own(field)
    field.db["messages.t1"].insert_one({"n": 1})
    said = setup(field, *words, code=1, stdin=b"n\n")
    assert "messages.t1 has documents. The workers of t1 will write them to these files, and delete them." in said, said
    field.db["messages.t1"].delete_many({})
    shared(field)
    setup(field, *words, "--yes")
    assert field.ledger()["needs"] == ["own"] and CLOSED not in str(options(field))


def test_adopted_as_shared_by_mistake(field):
    """Adopted once more it has its own collection again, and nothing of it was lost."""
    lose_ledger(field, 10)
    assert "WARNING: messages.t1 has documents" in field.adopt()
    assert "needs" not in field.ledger()
    setup(field, "--adopt", "t1", "--dir", field.dir, "--own-collection", "--yes")
    assert field.ledger()["needs"] == ["own"] and field.db["messages.t1"].count_documents({}) == 5


def test_no_warning_where_there_is_none(field):
    field.fill(10)
    field.drain()
    field.db.ledger.delete_one({"_id": "t1"})
    assert "WARNING" not in field.adopt()
