"""The way back: pawl-setup --shared-collection; and what happens where two runs, or a producer, are at work at the same time."""
import re
import signal
import subprocess
import time
from datetime import datetime, timedelta, timezone

import pytest

from harness import CALM, environment, program, wait_until
from test_own_setup import CLOSED, CLOSING, enqueue, options, own, places, setup, shared


def test_back_and_there(any_field):
    field = any_field
    own(field)
    enqueue(field, b"one\n")
    assert "still holds documents" in shared(field, code=1)
    field.db["messages.t1"].delete_many({})
    assert "uses the shared collection messages again" in shared(field)
    ledger = field.ledger()
    assert ledger["v"] == 1 and "needs" not in ledger, ledger
    assert CLOSED in str(options(field))
    assert "uses the shared collection messages already" in shared(field)
    enqueue(field, b"two\n")
    assert places(field) == (1, 0)
    own(field)
    assert CLOSED not in str(options(field))
    enqueue(field, b"three\n")
    assert places(field) == (1, 1)


def test_unsettled_stays(field):
    setup(field)
    field.fill(40)
    field.crash("block-committed:3", "--batch-messages", 10, *CALM)
    field.db.locks.delete_many({})
    assert field.ledger()["settled"] < field.ledger()["seq"]
    own(field)
    assert re.search(r"t1 is not settled: seq \d+ to \d+ are in the file", shared(field, code=1))
    assert field.ledger().get("needs") == ["own"] and CLOSED not in str(options(field))


def test_a_producer_that_was_not_told_gets_an_error(field):
    """Long-running: it does not go back, and nothing is left where no worker looks."""
    own(field)
    process = subprocess.Popen([program("pawl-enqueue"), *field.mongo, "--type", "t1"], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=environment())
    process.stdin.write(b"one\n")
    process.stdin.flush()
    wait_until(lambda: places(field) == (0, 1), "the first message")
    field.db["messages.t1"].delete_many({})
    shared(field)
    said = process.communicate(b"two\nthree\n", timeout=60)[1].decode()
    assert process.returncode == 1 and "has no own collection any more" in said and "not tried: standard input:2 and all after it" in said, said
    assert places(field) == (0, 0)


def test_a_message_that_comes_while_it_closes(field):
    """After the first look: the second one sees it, the collection is opened again, and producers go on."""
    own(field)
    with field.failing(["collMod"], {"times": 1}, program="pawl-setup", blockConnection=True, blockTimeMS=1500) as point:
        process = in_background(field, "--shared-collection", "--timeout", "10s")
        point.wait()
        field.db["messages.t1"].insert_one({"n": 1})
        said = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 1 and "still holds documents" in said, said
    assert field.ledger().get("needs") == ["own"] and CLOSED not in str(options(field))
    enqueue(field, b"two\n")
    assert places(field) == (0, 2)


@pytest.mark.parametrize("command", ["collMod", "findAndModify"])
def test_back_killed_in_between(field, command):
    own(field)
    skip = {"skip": 1} if command == "findAndModify" else "alwaysOn"  # the first is its fence
    with field.failing([command], mode=skip, program="pawl-setup", blockConnection=True, blockTimeMS=15000) as point:
        process = subprocess.Popen([program("pawl-setup"), *field.mongo, "--type", "t1", "--shared-collection"], env=environment())
        point.wait(2 if command == "findAndModify" else 1)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    field.locks.update_many({"slot": 0}, {"$set": {"expires_at": datetime.now(timezone.utc) - timedelta(hours=1)}})
    shared(field)
    assert "needs" not in field.ledger() and CLOSED in str(options(field))
    enqueue(field, b"one\n")
    assert places(field) == (1, 0)


def expire_locks(field):
    field.locks.update_many({"slot": 0}, {"$set": {"expires_at": datetime.now(timezone.utc) - timedelta(hours=1)}})


def in_background(field, *arguments):
    return subprocess.Popen([program("pawl-setup"), *field.mongo, "--type", "t1", *arguments], env=environment(), stderr=subprocess.PIPE)


def test_one_that_was_left_closed_with_a_message_is_opened_again(field):
    """By a run that was killed before it had looked: producers do not wait for the workers."""
    own(field)
    field.db["messages.t1"].insert_one({"n": 1})
    field.db.command("collMod", "messages.t1", validator=CLOSING)
    assert "still holds documents" in shared(field, code=1)
    assert field.ledger()["needs"] == ["own"] and CLOSED not in str(options(field))


def test_a_message_that_a_killed_run_has_left(field):
    """In the collection of a type that is shared by then, because the collection was open for a moment."""
    own(field)
    shared(field)
    field.db.command("collMod", "messages.t1", validator={})
    field.db["messages.t1"].insert_one({"n": 1})
    field.db.command("collMod", "messages.t1", validator=CLOSING)
    assert "t1 has its own collection again" in shared(field, code=1)
    field.drain()
    assert field.seq() == 1
    shared(field)
    assert "uses the shared collection messages already" in shared(field)


def test_a_transaction_that_stands_in_the_way(field):
    """Of a producer: what has to wait for it is not done when pawl-setup has given up."""
    own(field)
    with field.server.client.start_session() as session:
        session.start_transaction()
        field.db["messages.t1"].insert_one({"n": 1}, session=session)
        shared(field, code=69)
        session.commit_transaction()
    field.drain()
    assert field.seq() == 1 and CLOSED not in str(options(field))


def test_one_that_is_late_opens_nothing(field):
    """It closes the collection and freezes; another one goes on without it. The type is shared then: nobody reads what would be inserted."""
    own(field)
    with field.failing(["collMod"], program="pawl-setup", blockConnection=True, blockTimeMS=1000) as point:
        late = in_background(field, "--shared-collection")
        point.wait()
        late.send_signal(signal.SIGSTOP)
    wait_until(lambda: CLOSED in str(options(field)), "a closed collection")
    expire_locks(field)
    shared(field)
    late.send_signal(signal.SIGCONT)
    late.communicate(timeout=60)
    assert late.returncode in (0, 69)  # it is as asked; 69, if it slept through the time-out of its request
    assert "needs" not in field.ledger() and CLOSED in str(options(field))


def test_one_that_opens_it_too_late_closes_it_again(field):
    own(field)
    field.db.command("collMod", "messages.t1", validator=CLOSING)
    with field.failing(["collMod"], program="pawl-setup", blockConnection=True, blockTimeMS=1000) as point:
        late = in_background(field, "--own-collection")
        point.wait()
        late.send_signal(signal.SIGSTOP)
    wait_until(lambda: CLOSED not in str(options(field)), "an open collection")
    expire_locks(field)
    shared(field)
    field.db.command("collMod", "messages.t1", validator={})  # as if its request had come now
    late.send_signal(signal.SIGCONT)
    said = late.communicate(timeout=60)[1].decode()
    assert late.returncode == 1 and "given t1 back to the shared collection meanwhile" in said, said
    assert "needs" not in field.ledger() and CLOSED in str(options(field))


def test_one_that_wakes_up_takes_no_collection_away_that_was_opened(field):
    """It has closed the collection, seen it empty, and freezes; another one opens it again, and a message comes."""
    own(field)
    with field.failing(["find"], mode={"skip": 1}, program="pawl-setup", collection="messages.t1", blockConnection=True, blockTimeMS=1000) as point:
        late = in_background(field, "--shared-collection")
        point.wait()
        late.send_signal(signal.SIGSTOP)
        time.sleep(1.5)  # it is answered while it is frozen
    expire_locks(field)
    own(field)
    enqueue(field, b"one\n")
    late.send_signal(signal.SIGCONT)
    said = late.communicate(timeout=60)[1]
    assert late.returncode != 0, said  # 1; or 69, as above
    assert field.ledger().get("needs") == ["own"] and CLOSED not in str(options(field))
    assert places(field) == (0, 1)


@pytest.mark.parametrize("way", ["--own-collection", "--shared-collection"])
def test_a_message_that_comes_as_it_is_opened_too_late(field, way):
    """The type is shared by then: it has its own collection again, so a worker reads the message."""
    own(field)
    if way == "--own-collection":
        field.db.command("collMod", "messages.t1", validator=CLOSING)
    command, mode = ("collMod", "alwaysOn") if way == "--own-collection" else ("findAndModify", {"skip": 1})
    with field.failing([command], mode=mode, program="pawl-setup", blockConnection=True, blockTimeMS=1000) as point:
        process = in_background(field, way)
        point.wait()
        process.send_signal(signal.SIGSTOP)
    if way == "--own-collection":
        wait_until(lambda: CLOSED not in str(options(field)), "an open collection")
        expire_locks(field)
        shared(field)
    wait_until(lambda: "needs" not in field.ledger(), "a shared type")
    field.db.command("collMod", "messages.t1", validator={})
    field.db["messages.t1"].insert_one({"n": 1})
    process.send_signal(signal.SIGCONT)
    said = process.communicate(timeout=60)[1].decode()
    assert process.returncode == (0 if way == "--own-collection" else 1), said
    assert field.ledger().get("needs") == ["own"] and CLOSED not in str(options(field))
    field.drain()
    field.acknowledged = {}
    assert field.seq() == 1 and places(field) == (0, 0)


def test_there_again_killed_in_between(field):
    """It stays closed until the ledger says that the type has it: before, nobody would read what is inserted."""
    own(field)
    shared(field)
    with field.failing(["findAndModify"], program="pawl-setup", blockConnection=True, blockTimeMS=15000) as point:
        process = in_background(field, "--own-collection")
        point.wait()
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    assert CLOSED in str(options(field))
    expire_locks(field)
    own(field)
    assert CLOSED not in str(options(field))
    enqueue(field, b"one\n")
    assert places(field) == (0, 1)


def test_a_validator_of_the_operator_is_kept(field):
    own(field)
    field.db.command("collMod", "messages.t1", validator={"n": {"$type": "int"}})
    assert "has a validator" in shared(field, code=2)
    assert options(field)["validator"] == {"n": {"$type": "int"}}
