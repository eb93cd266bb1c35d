"""What each request carries: every command that pawl's programs send, from the server's log, against the table of docs/protocol.md."""
import signal
import subprocess
from datetime import datetime, timedelta, timezone

import bson
import pytest

from harness import BIN, CALM, environment, program, wait_until
from locking import theirs
from sent import STANDALONE, THINGS, Log, observed, table
from test_ids import document, element, insert, insert_past_the_checks, nested, text

SMALL = ["--batch-messages", 100]
# What is sent for an own collection as for `messages`.
RANGES = {"delete by range"}
OF_OWN = RANGES | {"insert messages", "poll the queue", "look for deleted messages", "continue a pass", "delete by `_id`s",
                   "see whether the queue is empty", "make a collection", "look at the indexes"}


def everything(field, other, log):
    """All that pawl does, as a list of what observed() gives."""
    seen = []

    def note(**how):
        seen.extend(observed((field, other), log, **how))

    def stopped_at(point):
        worker = field.worker(*SMALL, *CALM, env={"PAWL_FAULT_STOP": point})
        worker.wait_frozen()
        return worker

    def crash(point):
        field.crash(point, *SMALL, *CALM)
        field.locks.update_one({"type": "t1"}, {"$set": {"expires_at": datetime.now(timezone.utc) - timedelta(hours=1)}})

    assert field.run("pawl-setup").returncode == 0
    assert field.run("pawl-enqueue", "--type", "t2", stdin=b"one\ntwo\n").returncode == 0
    field.fill(250, size=1000)  # blocks of 100 go by their range, the rest by their _ids; the segments are full after each
    field.drain(*SMALL, *CALM, "--segment-bytes", 65536)
    assert len(field.segments()) > 1
    field.fill(10_000)
    field.drain(*CALM)
    field.fill(150)
    crash("block-written")
    note()
    field.drain(*SMALL, *CALM)
    note(cut=True)
    field.fill(150)
    crash("block-committed")
    field.drain(*SMALL, *CALM)

    # One that somebody removes meanwhile: the range does not fit. A pass that is left.
    field.fill(1000)
    worker = stopped_at("block-committed")
    field.messages.delete_one({"n": 560})
    worker.signal(signal.SIGTERM)
    worker.thaw()
    assert worker.wait() == 0
    field.drain(*SMALL, *CALM)

    # A file that is gone when it is to be opened: whether that counts rests on the ledger as it is now.
    field.fill(10)
    note()
    worker = stopped_at("fenced")
    file = field.dir / field.ledger()["file"]
    file.rename(field.dir / "aside")
    worker.thaw()
    worker.wait_log("not competing")
    note(cut=True)
    (field.dir / "aside").rename(file)
    field.wait_empty()
    assert worker.stop()[0] == 0, str(worker)

    # A holder that renews, and a command that waits for the lock and is told when it is free.
    worker = field.worker("--linger", "1h", "--lease", "6s")
    field.fill(10)
    field.wait_empty()

    until = field.locks.find_one({"slot": 0})["expires_at"]
    wait_until(lambda: field.locks.find_one({"slot": 0})["expires_at"] > until, "a renewal")
    worker.freeze()  # or it would let the command have its turn
    command = subprocess.Popen([program("pawl-lock"), *field.mongo, "--lease", "1s", "t1", "--", "true"], env=environment())
    wait_until(lambda: field.locks.find_one({"slot": -1}), "one that waits")
    field.locks.update_one({"slot": -1}, {"$set": {"queue.0.called": datetime(2020, 1, 1)}})
    wait_until(lambda: "called" not in field.locks.find_one({"slot": -1})["queue"][0], "one that goes on to wait")
    assert field.run("pawl-lock", "--lease", "1s", "--timeout", "300ms", "t1", "--", "true").returncode != 0  # it gives up waiting
    worker.thaw()
    assert worker.stop()[0] == 0 and command.wait(60) == 0

    assert field.run("pawl-status").returncode == field.run("pawl-status", "--peek", "t1").returncode == 0
    assert field.run("pawl-status", "--pause", "t1", "--reason", "a test").returncode == field.run("pawl-status", "--resume", "t1").returncode == 0
    assert field.run("pawl-lock", "n", "--", "true").returncode == field.run("pawl-lock", "--forget", "n").returncode == 0
    field.fill(10, "t3")
    field.drain(*CALM, types=["*"])
    many_types(field)
    field.messages.insert_one({"type": ["an array"]})  # now the index cannot be skipped in one request; a worker asks that when it starts
    field.fill(10, "t3")
    field.drain(*CALM, types=["*"])
    field.messages.delete_many({"type": "an array"})
    field.compare()
    field.ledgers.delete_one({"_id": "t1"})
    assert field.run("pawl-setup", "--adopt", "t1", "--dir", field.dir, "--yes").returncode == 0
    field.fill(10)
    field.drain(*SMALL, *CALM)
    field.compare()
    note()
    own_collection(field, crash, note)
    note()
    carried(field, other)
    note()
    set_aside(other)
    locked(other)
    left_open(other)
    note()
    return seen


def many_types(field):
    """Idle types of one process are polled together, those with own collections as well. Where each poll is slow, fewer than 16 of a few
    types may wait at any moment, and then none are; of two hundred 16 wait in any case."""
    many = [f"many{n}" for n in range(200)]
    assert field.run("pawl-setup", "--type", "many7", "--own-collection").returncode == 0
    stages = lambda: field.server.client.admin.command("serverStatus")["metrics"]["aggStageCounters"]
    before = stages()
    worker = field.worker("--poll", "50ms", types=[",".join(many)])
    wait_until(lambda: all(stages()[name] > before[name] for name in ("$group", "$limit")), "polls of all together, and of the own collection", 180)
    assert worker.stop()[0] == 0, str(worker)
    assert field.run("pawl-setup", "--type", "many7", "--shared-collection").returncode == 0


def own_collection(field, crash, note):
    """t1 gets its own collection, is drained, recovers with messages in both, and goes back."""
    def status(*arguments):
        assert field.run("pawl-status", *arguments).returncode == 0

    assert field.run("pawl-setup", "--type", "t1,t4", "--own-collection").returncode == 0
    assert field.run("pawl-enqueue", "--type", "t4", stdin=b"one\ntwo\n").returncode == 0
    field.fill(250, own=True, size=1000)  # by ranges, and the rest by their _ids
    field.fill(150, producer="an old one")
    status()
    status("--peek", "t1")
    field.drain(*SMALL, *CALM)

    # A crash before the commit, one behind it, and one with what is to be deleted in the own collection.
    for point in ("block-written", "block-committed", "block-committed:3"):
        field.fill(150, producer="an old one")
        field.fill(250, own=True)
        crash(point)
        note()
        field.drain(*SMALL, *CALM)
        note(cut=point == "block-written")

    # One that somebody removes meanwhile: the range does not fit.
    field.fill(200, own=True)
    worker = field.worker(*SMALL, *CALM, env={"PAWL_FAULT_STOP": "block-committed"})
    worker.wait_frozen()
    found = field.own("t1").find_one(sort=[("_id", 1)])
    field.db["messages.t1"].delete_one({"_id": bson.decode(found.raw)["_id"]})
    worker.thaw()
    field.wait_settled()
    # A document that is of another type: with a worker that makes no last poll, for what that asks behind such a document looks like a poll.
    field.db["messages.t1"].insert_one({"type": "t2"})
    worker.wait_log("is not that of the collection")
    assert worker.stop()[0] == 0, str(worker)
    field.db["messages.t1"].delete_many({"type": "t2"})

    # By a pattern.
    field.fill(10, own=True)
    field.drain(*CALM, types=["t*"])
    field.compare()

    assert field.run("pawl-setup", "--type", "t1", "--shared-collection").returncode == 0
    assert field.run("pawl-setup", "--type", "t1", "--own-collection").returncode == 0
    field.fill(10, own=True)
    field.drain(*CALM)


def carried(old, new):
    """t1, which has its own collection, goes to another database."""
    new.db.wakeups.insert_one({"about": "made"})  # and so made it, in the place of pawl
    assert new.run("pawl-setup").returncode == 0
    assert old.run("pawl-status", "--pause", "t1", "--reason", "it moves").returncode == 0
    done = old.run("pawl-setup", "--carry", "t1", "--to-uri", new.server.uri, "--to-db", new.name, "--yes")
    assert done.returncode == 0, done
    assert old.run("pawl-status").returncode == new.run("pawl-status", "--resume", "t1").returncode == 0


def set_aside(field):
    """Documents that no worker can take go and come back: one with a type, one without, and one that is too deep for a copy in one part."""
    def setup(*words, code=0):
        done = field.run("pawl-setup", *words)
        assert done.returncode == code, done

    deep = document(element(16, b"_id", b"\2\0\0\0"), element(3, b"deep", nested(177)))
    insert(field, [document(element(16, b"_id", b"\1\0\0\0")), deep])
    insert_past_the_checks(field, document(element(4, b"_id", document(element(10, b"0", b""))), element(2, b"type", text(b"t5"))))
    setup("--list-refused")
    field.db.create_collection("refused", validator={"$expr": False})
    setup("--set-aside", "@untyped", "--yes", code=1)
    field.db.command("collMod", "refused", validator={})
    setup("--set-aside", "t5,@untyped", "--yes")
    assert field.run("pawl-status", "--pause", "t5", "--reason", "a test").returncode == 0
    setup("--put-back", "t5", "--yes", code=1)  # MongoDB does not insert an array as `_id`
    setup("--put-back", "@untyped", "--yes")
    assert field.messages.count_documents({"type": {"$exists": False}}) == 2
    field.messages.delete_many({"type": {"$exists": False}})


def locked(field):
    """Locks with slots, and documents that are locked, by pawl-lock and by the library."""
    for first_slot_taken in (False, False, True):  # a ledger that is made, and one that is there; and the second slot
        if first_slot_taken:
            field.locks.insert_one(theirs("slots"))
        assert field.run("pawl-lock", "--slots", 2, "slots", "--", "true").returncode == 0
    field.locks.delete_many({"type": "slots"})
    field.db[THINGS].insert_one({"n": 0})
    assert field.run("pawl-lock", "--document", THINGS + "/{}", "--", "true").returncode == 0
    guard = [BIN / "tests/lock_contender", "guard", field.server.uri, field.name, field.dir, 30000, 1, 1, THINGS]
    subprocess.run([*map(str, guard)], check=True, timeout=60, env=environment())


def left_open(field):
    """A transaction that cannot be ended: the next delete by `_id`s ends it first."""
    if field.server.replica_set:
        with field.failing(["commitTransaction", "abortTransaction"], {"times": 6}, closeConnection=True):
            field.fill(200, "t6")
            field.drain(*SMALL, "--lease", "6s", types=["t6"], deadline=60)


def as_found(row, replica_set):
    """The command of a row of the table, and what it may carry, the usual first. A standalone server has one view only;
    after a request without an answer, as a frozen worker may have one, it is asked for more until it has said again that it is one."""
    command, write, read, ends = row
    reads = [read] if replica_set or not read else ["local", read]
    return command, [[write, one, ends] for one in reads]


@pytest.mark.parametrize("kind", ["replica-set", "standalone"])
def test_each_request_carries_what_the_protocol_says(own_server, make_field, kind):
    server = own_server(f"--{kind}", "--test-commands").start()
    log, rows = Log(server), table()
    seen = everything(make_field(server), make_field(server), log)
    assert len(seen) > 100
    of_own = {name for name, command, *_ in seen if "messages." in command}
    assert of_own >= (OF_OWN if server.replica_set else OF_OWN - RANGES), "requests that were not sent for an own collection"
    for request_, command, *found in sorted(set(seen)):
        assert request_ in rows, f"docs/protocol.md has no row for {request_} ({command}), which carries {found}"
        wanted_command, wanted = as_found(rows[request_], server.replica_set)
        assert command.startswith(wanted_command) and found in wanted, f"{request_}: {command} carries {found}, not {wanted[0]}"
        assert (request_, command, *wanted[0]) in seen, f"{request_}: {command} is never sent as it usually is: {wanted[0]}"
    unsent = {row for row in set(rows) - {row[0] for row in seen} if row.endswith(STANDALONE) or server.replica_set}
    assert unsent == ({row for row in rows if row.endswith(STANDALONE)} if server.replica_set else set()), "requests of docs/protocol.md that were not sent"
