"""How many of the types that are found a worker serves at the same time: what gets a place, what keeps it, and what gives it up."""
import datetime
import re
import signal
import time

import pytest

from disks import FaultyDisk
from harness import CALM, DISTRUST, wait_until
from test_patterns import wait_drained
from test_service import foreign_lock


def test_no_room_is_left_by_types_that_stopped(field):
    for name in ("t1", "t2"):
        field.fill(10, name)
    field.drain(types=["t1", "t2"])
    for name in ("t1", "t2"):
        (field.dir / f"{name}.bin").rename(field.folder / name)
        field.fill(10, name)
    worker = field.worker("--types-max", 2, types=["*"], env=DISTRUST)
    assert worker.wait() == 74, str(worker)


def test_a_type_that_another_holds_keeps_no_place(field):
    """Another was faster after the look: this one leaves the wait queue, and takes the next type."""
    worker = field.worker(*CALM, "-v", "--types-max", 1, types=["*"])
    worker.wait_log("MongoDB 6|MongoDB 5|MongoDB 7|MongoDB 8")
    with field.failing(["find"], collection="ledger", errorCode=11600):
        field.fill(1, "t1")

        def begun():
            field.db.wakeups.insert_one({"type": "t1", "about": "message"})
            return re.search(r" t1 .*checking", worker.log())
        wait_until(begun, field.logs)
        foreign_lock(field)
    field.fill(5, "t2")
    wait_drained(field, "t2")
    assert field.queued("t1") == 1
    assert not field.locks.find_one({"type": "t1", "slot": -1, "queue.0": {"$exists": True}})


@pytest.mark.parametrize("fault", ["pwrite t1.bin 0 5", "pwrite t1.bin 0 hang", "open t1.bin 0 hang"])
def test_a_disk_that_fails_keeps_no_place(field, faulty_disk, tmp_path, fault):
    disk = FaultyDisk(faulty_disk, tmp_path, field.dir)
    field.fill(5, "t1")
    field.drain()
    disk.rule(fault)
    field.fill(5, "t1")
    worker = field.worker("--types-max", 1, "--lease", "1s", "--stall", "3s", types=["*"], env=disk.env)
    worker.wait_log(" t1 .*checking")
    field.fill(5, "t2")
    wait_drained(field, "t2")
    assert field.queued("t1") == 5
    disk.rule()
    wait_drained(field, "t1")
    field.stop()
    field.compare("t1", "t2")


def test_types_take_turns_beside_one_that_hangs(field, faulty_disk, tmp_path):
    """Its turn is over first, and it does not leave: that is no place for another."""
    disk = FaultyDisk(faulty_disk, tmp_path, field.dir)
    disk.rule("pwrite a1.bin 0 hang")
    for name in ("a1", "k1", "k2"):
        field.fill(20000, name)
    field.worker("--types-max", 2, "--batch-messages", 2, types=["*"], env=disk.env)
    wait_until(lambda: field.seq("k1") > 0 and field.seq("k2") > 0, field.logs, 30)
    disk.rule()


def test_no_message_mends_a_disk(field, faulty_disk, tmp_path):
    """Wake-ups for a type whose disk fails come all the time: it gets a place again after 1 s, 2 s, 4 s, and not when they come."""
    disk = FaultyDisk(faulty_disk, tmp_path, field.dir)
    disk.rule("pwrite t1.bin 0 5")
    for name in ("t1", "t2"):
        field.fill(20000, name)
    worker = field.worker("--types-max", 1, "--batch-messages", 2, types=["*"], env=disk.env)

    def pauses():
        steps = re.findall(r"T(\S+)Z \S+ +t1 .*state: (idle -> checking|backing-off -> done)", worker.log())
        at = [datetime.datetime.strptime(time, "%H:%M:%S.%f") for time, step in steps]
        return [(after - before).total_seconds() % 86400 for before, after, (_, step) in zip(at, at[1:], steps) if step.startswith("backing")]
    wake = lambda: field.db.wakeups.insert_one({"type": "t1", "about": "message"})
    with field.repeating(wake, 0.1):
        wait_until(lambda: len(pauses()) >= 3, field.logs)
    assert pauses()[1] >= 2 and pauses()[2] >= 4, worker.log()
    assert field.seq("t2") > 0


def test_an_empty_type_gives_its_place_up(field):
    """At once, whatever its --linger and its lease."""
    field.worker("--types-max", 1, "--linger", "1h", "--lease", "1h", types=["*"])
    for name in ("t1", "t2", "t3"):
        field.fill(5, name)
        wait_drained(field, name)


def test_paused_types_keep_no_place(field):
    """With --exit-when-empty neither: all others are drained before the end, which a paused type makes an error."""
    paused = [f"a{n}" for n in range(3)]
    for name in (*paused, "t2", "t3"):
        field.fill(5, name)
    field.drain(types=["*"])
    for name in paused:
        assert field.run("pawl-status", "--pause", name, "--reason", "a test").returncode == 0
    for name in (*paused, "t2", "t3"):
        field.fill(5, name)
    worker = field.worker("--exit-when-empty", "--types-max", 1, types=["*"])
    assert worker.wait() == 2, str(worker)
    field.compare("t2", "t3")
    assert all(field.queued(name) == 5 for name in paused)


@pytest.mark.parametrize("types", [["*"], ["k1", "k2", "k3", "k4", "k5", "k6", "k7"]])
def test_types_take_turns(field, types):
    """Seven types that always have messages, two places: each gets its turn, and no more are held than that."""
    every = [f"k{n}" for n in range(1, 8)]
    most = 0
    for name in every:
        field.fill(200, name)
    worker = field.worker("--types-max", 2, "--batch-messages", 20, types=types)

    def all_have_some():
        nonlocal most
        most = max(most, field.locks.count_documents({"slot": 0}))
        for name in every:
            if field.queued(name) < 100:
                field.fill(100, name)
        return all(field.seq(name) > 400 for name in every)
    wait_until(all_have_some, field.logs)
    assert most <= 2
    assert worker.stop()[0] == 0
    field.drain(types=["*"])
    field.compare(*every)


def test_types_that_wait_for_a_place_are_counted(field, listening):
    """Two types with many messages and one place; then a second worker has a place for the other one."""
    for name in ("t1", "t2"):
        field.fill(20000, name)
    counts = lambda port: [port.metrics().get((f"pawl_types_{name}",)) for name in ("held", "max", "waiting")]
    worker, first = listening("--types-max", 1, "--batch-messages", 2, types=["*"])
    wait_until(lambda: counts(first) == [1, 1, 1], lambda: f"{counts(first)}; {worker}")
    assert first.metrics()["pawl_types_look_age_seconds",] >= 0
    worker.signal(signal.SIGUSR1)
    worker.wait_log(r"report: pawl-worker .* types_held=1 types_max=1 types_waiting=[01] types_put_aside=\d+ ")
    _, second = listening("--types-max", 1, "--batch-messages", 2, types=["*"])
    wait_until(lambda: counts(first) == counts(second) == [1, 1, 0], lambda: f"{counts(first)}, {counts(second)}; {field.logs()}")


def test_types_take_turns_though_wakeups_come(field):
    """Wake-ups for types that always have messages come all the time: the one that is let go does not get its place back."""
    every = ["k1", "k2", "k3"]
    for name in every:
        field.fill(20000, name)
    worker = field.worker("--types-max", 1, "--batch-messages", 2, types=["*"])
    wake = lambda: field.db.wakeups.insert_many([{"type": name, "about": "message"} for name in every])
    looks = lambda: field.server.client.admin.command("serverStatus")["metrics"]["commands"]["aggregate"]["total"]
    with field.repeating(wake, 0.002):
        wait_until(lambda: field.seq("k1") > 0, field.logs)
        begin, before = time.monotonic(), looks()
        wait_until(lambda: all(field.seq(name) > 0 for name in every), field.logs)
        assert looks() - before < 2 * (time.monotonic() - begin) + 5, "wake-ups hurry looks that can do nothing"
    assert all(field.queued(name) > 0 for name in every)
    assert worker.stop()[0] == 0


def test_a_type_that_begins_segment_after_segment_has_turns_too(field):
    """It enters the state draining anew with each; what counts is since when it drains under this lock."""
    for name in ("k1", "k2"):
        field.fill(4000, name, size=4000)
    worker = field.worker("--types-max", 1, "--segment-bytes", "64KiB", "--batch-messages", 10, types=["*"])

    def both():
        for name in ("k1", "k2"):
            if field.queued(name) < 2000:
                field.fill(2000, name, size=4000)
        return field.seq("k1") > 0 and field.seq("k2") > 0
    wait_until(both, field.logs, 30)
    assert worker.stop()[0] == 0


def test_a_type_that_cannot_be_settled_keeps_no_place(field):
    """Its deletes get no answer."""
    assert field.run("pawl-setup", "--type", "t1", "--own-collection").returncode == 0
    field.fill(30, own=True)
    field.crash("block-committed:3", "--batch-messages", 10, "--lease", "1s")
    with field.failing(["delete"], collection="messages.t1", errorCode=50):
        worker = field.worker("--types-max", 1, "--lease", "1s", types=["*"])
        worker.wait_log(" t1 .*-> settling")
        field.fill(5, "t2")
        wait_drained(field, "t2")
    wait_drained(field, "t1")
    assert worker.stop()[0] == 0
    field.compare("t1", "t2")


def test_a_sighup_while_it_looks_for_the_last_time(field):
    """A type that is paused is looked at again, and its messages are not forgotten: the exit code says that some are left."""
    field.fill(5, "t1")
    field.drain()
    assert field.run("pawl-status", "--pause", "t1", "--reason", "a test").returncode == 0
    field.fill(5, "t1")
    with field.failing(["aggregate"], blockConnection=True, blockTimeMS=1000) as looks:
        worker = field.worker(*CALM, "--exit-when-empty", types=["*"])
        looks.wait(3)  # the first finds it, the second nothing to wait for, the third is the last
        worker.signal(signal.SIGHUP)
    assert worker.wait() == 2, str(worker)


def test_a_type_that_has_no_answer_keeps_no_place(field):
    """Its own collection is gone, and wake-ups for it go on to come."""
    assert field.run("pawl-setup", "--type", "t1", "--own-collection").returncode == 0
    field.db.drop_collection("messages.t1")
    worker = field.worker("--types-max", 1, types=["*"])
    wake = lambda: field.db.wakeups.insert_one({"type": "t1", "about": "message"})
    with field.repeating(wake, 0.3):
        worker.wait_log(r"messages\.t1 (is )?missing")
        field.fill(20, "t2")
        wait_until(lambda: field.seq("t2") == 20, field.logs)
    assert worker.stop()[0] == 0
    field.compare("t2")


def test_types_take_turns_one_by_one(field):
    """The index cannot be skipped, so a look sees a part of the types; two that always have messages have the two places."""
    every = [f"k{n:03}" for n in range(150)]
    field.messages.insert_one({"type": ["a", "b"]})

    def keep_up():
        for name in every[:2]:
            if field.queued(name) < 2000:
                field.fill(2000, name)
    keep_up()
    worker = field.worker("--types-max", 2, "--batch-messages", 2, types=["*"])
    wait_until(lambda: all(field.seq(name) > 0 for name in every[:2]), field.logs)
    for name in every[2:]:
        field.fill(1, name)

    def all_have_some():
        keep_up()
        return field.ledgers.count_documents({"_id": {"$in": every}, "seq": {"$gt": 0}}) == len(every)
    wait_until(all_have_some, field.logs, 90)
    assert worker.stop()[0] == 0
    field.drain(types=["*"])
    field.compare(*every[:5])
