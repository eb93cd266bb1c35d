"""Wake-ups (docs/protocol.md): who is told, that nothing depends on it, and that it works everywhere.

The polls are made so slow that what comes early came by a wake-up; the limits lie far below them and far above a wake-up.
"""
import os
import re
import signal
import threading
import time

import pymongo
import pytest
from harness import wait_until
from pymongo.errors import WTimeoutError
from pymongo.write_concern import WriteConcern

SLOW_POLL = ["--lease", "30s", "--poll", "10m"]
FAR_BELOW = 60  # seconds: the timers are shortened by half at most
WATCHES = r"woken for "


def watching(field, worker, name="t1"):
    """Returns when the worker hears wake-ups: one is sent until it says so."""
    def heard():
        field.db.wakeups.insert_one({"type": name, "about": "message"})
        time.sleep(0.05)
        return re.search(rf"\b{name}\b.*{WATCHES}", worker.log())
    wait_until(lambda: "capped" in field.db.command("listCollections", filter={"name": "wakeups"})["cursor"]["firstBatch"][0]["options"]
               if "wakeups" in field.db.list_collection_names() else False, "the collection wakeups")
    wait_until(heard, lambda: f"a watch of {worker}")
    return worker


def enqueue(field, text, *arguments):
    done = field.run("pawl-enqueue", "--type", "t1", *arguments, stdin=text)
    assert done.returncode == 0, done.stderr


def test_message_is_told(any_field):
    field = any_field
    watching(field, field.worker("-v", *SLOW_POLL))
    begin = time.monotonic()
    enqueue(field, b"one\ntwo\n")
    wait_until(lambda: field.seq() == 2, field.logs)
    # While the holder lingers, and when it has released.
    enqueue(field, b"three\n")
    wait_until(lambda: field.seq() == 3, field.logs)
    field.wait_settled()
    enqueue(field, b"four\n")
    wait_until(lambda: field.seq() == 4, field.logs)
    assert time.monotonic() - begin < FAR_BELOW


def test_a_producer_in_any_language_tells(any_field):
    field = any_field
    watching(field, field.worker("-v", *SLOW_POLL))
    begin = time.monotonic()
    field.fill(3)
    field.db.wakeups.insert_one({"type": "t1", "about": "message"})
    field.wait_settled()
    assert time.monotonic() - begin < FAR_BELOW
    field.compare()


def test_who_tells_nobody_is_seen_by_the_poll(any_field):
    field = any_field
    watching(field, field.worker("-v"))
    field.fill(3)
    field.wait_settled()
    field.compare()


def test_enqueue_does_not_wake_for_each_of_many(field):
    """Each wake-up is work for all that wait, and who was just woken looks by itself."""
    begin = time.monotonic()
    enqueue(field, b"line\n" * 500, "--batch-messages", "1")
    sent, pauses = field.db.wakeups.count_documents({"about": "message"}), (time.monotonic() - begin) * 100
    assert 1 <= sent <= pauses + 2 and sent < 500, (sent, pauses)


def test_enqueue_wakes_sixteen_types_at_most(field):
    lines = b"".join(b'{"type": "t%d"}\n' % n for n in range(20))
    done = field.run("pawl-enqueue", "--from", "ndjson", stdin=lines)
    assert done.returncode == 0 and field.messages.count_documents({}) == 20, done
    wait_until(lambda: len(field.db.wakeups.distinct("type", {"about": "message"})) == 16, "their wake-ups, which nobody acknowledges", 10)


def test_enqueue_needs_no_worker_to_have_been_there(any_field):
    """The queue it makes itself; its first wake-up makes a plain collection, which the first worker makes a capped one."""
    field = any_field
    enqueue(field, b"one\n")
    assert ("clusteredIndex" in field.db.messages.options()) == field.server.clusters
    worker = watching(field, field.worker("-v", *SLOW_POLL))
    wait_until(lambda: field.seq() == 1, field.logs)
    enqueue(field, b"two\n")
    wait_until(lambda: field.seq() == 2, field.logs, FAR_BELOW)
    assert worker.alive()


def owner_of(field):
    lock = field.locks.find_one({"type": "t1", "slot": 0})
    return lock and lock["owner"]


def test_one_collection_for_wakeups(field):
    def made():
        found = field.db.command("listCollections", filter={"name": {"$regex": "^wakeups"}})["cursor"]["firstBatch"]
        assert all(collection["options"]["capped"] for collection in found)
        return [collection["name"] for collection in found]
    worker = field.worker()
    wait_until(lambda: made() == ["wakeups"], field.logs)
    assert worker.stop()[0] == 0
    done = field.run("pawl-setup")
    assert done.returncode == 0 and b"and wakeups" in done.stdout, done
    assert sorted(field.db.list_collection_names()) == ["ledger", "locks", "messages", "wakeups"]


def test_a_foreign_collection_is_left_alone(field):
    """Of that name, with somebody else's documents: neither converted, nor cut, nor written to; said once. All works without."""
    foreign = [{"_id": n, "user": f"u{n}", "at": n} for n in range(1500)]
    field.db.wakeups.insert_many(foreign)
    done = field.run("pawl-setup")
    assert done.returncode == 0 and b"is left as it is: workers poll" in done.stdout, done
    worker = field.worker()
    enqueue(field, b"one\ntwo\n")
    field.wait_settled()
    worker.wait_log(rf"no wake-ups come: .*{field.name}\.wakeups holds other documents than wake-ups")
    assert worker.stop()[0] == 0 and worker.log().count("no wake-ups come") == 1, str(worker)
    assert list(field.db.wakeups.find()) == foreign and "capped" not in field.db.wakeups.options()


def test_waiters_are_woken_one_by_one(field):
    """Each release wakes the one that came first of those that wait, and nobody else; the wait queue survives the release."""
    slow = ["-v", "--lease", "10m", "--linger", "10m", "--retry", "10m", "--batch-messages", "10", "--batch-bytes", "1KiB"]
    holder = watching(field, field.worker(*slow))
    enqueue(field, b"first\n")
    wait_until(lambda: field.holder() == holder.pid and field.seq() == 1, field.logs)
    others = [watching(field, field.worker(*slow)) for _ in range(5)]
    holder.freeze()  # or there would be nothing to wait for
    field.fill(20000)
    field.db.wakeups.insert_one({"type": "t1", "about": "message"})

    def queue():
        return (field.locks.find_one({"type": "t1", "slot": -1}) or {}).get("queue", [])
    wait_until(lambda: len(queue()) == len(others), field.logs)
    row = [waiter["owner"] for waiter in queue()]
    assert len(set(row)) == len(others)
    for woken, first in enumerate(row[:3], 1):
        holder.signal(signal.SIGTERM)
        holder.thaw()
        assert holder.wait() == 0, str(holder)
        wait_until(lambda: owner_of(field) == first, field.logs, FAR_BELOW)
        assert sum("woken for the lock" in worker.log() for worker in others) == woken, field.logs()
        assert [waiter["owner"] for waiter in queue()] == row[woken:]
        holder = field.holding_worker()
        holder.freeze()
    holder.thaw()
    field.compare(queue_empty=False, live=True)


def test_a_command_has_its_turn_on_a_busy_type(field):
    """While a worker drains without end: within a third of the lease and a block. Workers that wait do not push in."""
    for _ in range(3):
        field.worker("--lease", "3s", "--batch-messages", "20")
    with field.producing(50, pause=0.02, chunk=25):
        wait_until(lambda: field.seq() > 100, field.logs)
        for _ in range(3):
            begin = time.monotonic()
            done = field.run("pawl-lock", "--lease", "3s", "--timeout", "20s", "t1", "--", "true")
            assert done.returncode == 0, done
            assert time.monotonic() - begin < 15, field.logs()  # far above a third of the lease, far below the timeout
            now = field.seq()
            wait_until(lambda: field.seq() > now + 50, field.logs)  # and then the workers again
    field.wait_settled()
    field.compare()


def test_a_waiter_that_dies_costs_little(field):
    """The one whose turn it is was killed: the next one comes after a moment, and it does not happen a second time."""
    slow = ["-v", "--lease", "10m", "--linger", "10m", "--retry", "10m"]
    holder = watching(field, field.worker(*slow))
    field.fill(1)
    field.db.wakeups.insert_one({"type": "t1", "about": "message"})
    wait_until(lambda: field.holder() == holder.pid and field.seq() == 1, field.logs)
    dead = watching(field, field.worker(*slow))
    holder.freeze()
    field.fill(2000)
    field.db.wakeups.insert_one({"type": "t1", "about": "message"})
    wait_until(lambda: field.locks.find_one({"type": "t1", "slot": -1}), field.logs)
    dead.kill()
    watching(field, field.worker("-v", "--lease", "10m"))
    wait_until(lambda: len((field.locks.find_one({"type": "t1", "slot": -1}) or {"queue": []})["queue"]) == 2, field.logs)
    holder.signal(signal.SIGTERM)
    holder.thaw()
    assert holder.wait() == 0, str(holder)
    field.wait_settled()
    wait_until(lambda: field.locks.find_one({"type": "t1", "slot": -1}) is None, "the end of a wait queue without waiters")
    field.compare()


def test_lost_watch_comes_back(field):
    worker = watching(field, field.worker("-v", "--linger", "50ms"))
    with field.failing(["find", "getMore"], collection="wakeups", closeConnection=True):
        # A wake-up ends the wait, whether it is for this cursor or not; the next request fails.
        field.db.wakeups.insert_one({"type": "t1", "about": "lost"})
        worker.wait_log("wake-ups are lost")
        field.fill(5)
        field.wait_settled()  # by its timers
    worker.wait_log("wake-ups come again")
    assert worker.log().count("wake-ups are lost") == worker.log().count("wake-ups come again"), str(worker)
    field.fill(5)
    field.finish(worker)


@pytest.mark.parametrize("about", ["message", "lock", "lost"])
def test_rubbish_and_floods(field, about):
    """Anybody may write there. It keeps nobody from working, and nobody is harmed."""
    worker = watching(field, field.worker("-v"))
    me = wait_until(lambda: field.fill(1) or owner_of(field), field.logs)
    mine = {"to": [me[:8]], "owners": [me]}
    documents = [{}, {"type": 5}, {"type": "t1"}, {"type": "t1", "about": 7}, {"type": "t1", "about": "x"}, {"to": 1, "type": "t1"},
                 {"type": "t1", "about": about, "slot": -1, "owners": "x"}, {"type": "t1", "about": about, "to": me[:8]},
                 {"type": "t1", "about": about, **mine, "epoch": -5}, {"type": "t1", "about": about, **mine, "epoch": "x"},
                 {"type": "t1", "about": about, "to": [me[:8]], "owners": [1, b"short", None, {}, bytes(16)]}]
    field.db.wakeups.insert_many([dict(document) for document in documents])
    stop = threading.Event()

    def flood():
        while not stop.is_set():
            field.db.wakeups.insert_many([{"type": "t1", "about": about} for _ in range(100)])
            field.db.wakeups.insert_many([{"type": "t1", "about": about, **mine} for _ in range(100)])
    thread = threading.Thread(target=flood)
    thread.start()
    try:
        field.fill(300)
        field.wait_settled()
    finally:
        stop.set()
        thread.join()
    assert worker.stop()[0] == 0
    field.compare()


def test_a_write_that_changes_nothing_waits_for_the_last_one(own_server):
    """The server's rule on which the second half of a release rests: its acknowledgement is one of the first half, too."""
    server = own_server("--replica-set", "--members", "3").start()
    locks = server.client.get_database("pawl_test").locks
    at_once, with_majority = (locks.with_options(write_concern=WriteConcern(**concern))
                              for concern in ({"w": 1}, {"w": "majority", "j": True, "wtimeout": 1000}))
    with_majority.with_options(write_concern=WriteConcern(w=3)).insert_one({"type": "t1"})
    primary = server.client.admin.command("hello")["me"]
    wait_until(lambda: len(server.client.nodes) == 3, "the driver to have met all three")
    others = [int(pid) for pid in (server.folder / "pids").read_text().split()]
    others.remove(pymongo.MongoClient(primary, directConnection=True).admin.command("serverStatus")["pid"])
    assert len(others) == 2
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    try:
        assert at_once.delete_one({"type": "t1"}).deleted_count == 1
        with pytest.raises(WTimeoutError):
            with_majority.delete_one({"type": "t1"})
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)
    wait_until(lambda: server.client.admin.command("hello")["isWritablePrimary"], "a primary")
    with_majority.with_options(write_concern=WriteConcern(w="majority", j=True, wtimeout=20000)).delete_one({"type": "t1"})


def test_stolen_lock_is_told(field):
    """The old holder leaves at once, not at its next renewal."""
    worker = watching(field, field.worker("-v", "--lease", "10m", "--linger", "10m"))
    enqueue(field, b"one\n")
    wait_until(lambda: field.holder() == worker.pid and field.seq() == 1, field.logs)
    lock = field.locks.find_one_and_delete({"type": "t1", "slot": 0})
    begin = time.monotonic()
    field.db.wakeups.insert_one({"type": "t1", "about": "lost", "to": [lock["owner"][:8]], "owners": [lock["owner"]]})
    worker.wait_log("the lease was lost")
    assert time.monotonic() - begin < FAR_BELOW


def test_an_idle_worker_costs_next_to_nothing(field):
    worker = watching(field, field.worker("-v", "--poll", "100ms"))
    def asked():
        counters = field.server.client.admin.command("serverStatus")["opcounters"]
        return counters["query"] + counters["getmore"]
    begin, before = time.monotonic(), asked()
    time.sleep(5)
    rate = (asked() - before) / (time.monotonic() - begin)
    assert rate < 5, f"{rate:.1f} requests a second; {worker}"  # by its poll alone it would be 13
