"""Types that several workers find: they are spread evenly among them, without a coordinator and without a storm."""
import itertools
import re
import time
from collections import Counter
from datetime import datetime, timedelta, timezone

import pytest
from bson.datetime_ms import DatetimeMS
from bson.int64 import Int64

import segment as made
from disks import FaultyDisk
from harness import DISTRUST, wait_until

TYPES = [f"k{n:02}" for n in range(24)]
LEASE_S = 6
SPREADING = ["--lease", f"{LEASE_S}s", "--linger", "1h"]


def flowing(field, types=TYPES):
    """Each type always has messages."""
    numbers = itertools.count()

    def produce():
        n = next(numbers)
        field.insert("producer", [{"type": name, "n": n} for name in types])
    return field.repeating(produce, 0.3)


def held(field):
    """How many types each process holds."""
    return Counter(lock["holder"]["pid"] for lock in field.locks.find({"slot": 0}))


def all_held(field, *workers):
    counts = held(field)
    return sum(counts[worker.pid] for worker in workers) == len(TYPES)


def even(field, *workers):
    counts = held(field)
    mine = [counts[worker.pid] for worker in workers]
    return sum(mine) == len(TYPES) and max(mine) - min(mine) <= 1


def settled(field, condition):
    """The condition holds at last, and nothing is moved any more. That it takes half a minute, unit/test_spread.c knows, by its own clock."""
    since, seen = time.monotonic(), None

    def look():
        nonlocal since, seen
        now = (takes(field), condition())
        if now != seen or not now[1]:
            since, seen = time.monotonic(), now
        return time.monotonic() - since >= 3
    wait_until(look, lambda: f"{held(field)}; {field.logs()}")


def spread(field, *workers):
    """Each has as many."""
    settled(field, lambda: even(field, *workers))


def takes(field):
    """How often a type was taken so far."""
    return sum(ledger["epoch"] for ledger in field.ledgers.find({"_id": {"$in": TYPES}}))


@pytest.mark.slow
def test_two_workers(field):
    """Half each; one dies, and the other has all within a lease and a second; one comes back, and they spread again."""
    with flowing(field):
        first = field.worker(*SPREADING, types=["k*"])
        settled(field, lambda: all_held(field, first))
        before = takes(field)
        second = field.worker(*SPREADING, types=["k*"])
        spread(field, first, second)
        assert takes(field) - before <= len(TYPES) // 2 + 6, "a storm"

        first.kill()
        begin = time.monotonic()
        wait_until(lambda: all_held(field, second), lambda: f"{held(field)}; {field.logs()}")
        assert time.monotonic() - begin < LEASE_S + 1 + 4, "on a busy machine the rest of what a take-over needs"

        settled(field, lambda: all_held(field, second))
        before = takes(field)
        third = field.worker(*SPREADING, types=["k*"])
        spread(field, second, third)
        assert takes(field) - before <= len(TYPES) // 2 + 6, "a storm"
    field.stop()
    assert field.db.workers.count_documents({}) == 1, "only the row of the one that was killed is left"
    field.drain(types=["*"])
    field.compare(*TYPES)


def test_workers_with_little_room(field):
    """Three workers with two places each, and twelve types: each has messages written, and none is held above that."""
    types, most = TYPES[:12], Counter()
    with flowing(field, types):
        workers = [field.worker("--lease", "3s", "--types-max", 2, types=["k*"]) for _ in range(3)]

        def each_has_some():
            for pid, count in held(field).items():
                most[pid] = max(most[pid], count)
            return len(most) == 3 and all(field.seq(name) >= 3 for name in types)
        wait_until(each_has_some, lambda: f"{most}; {field.logs()}")
        assert max(most.values()) <= 2, most
        assert all(worker.alive() for worker in workers)
    field.stop()
    field.drain(types=["*"])
    field.compare(*types)


def test_a_worker_without_the_files(field):
    """Its types stop. These are places that are taken: it does not go on pulling types away from who can serve them."""
    types, folder = TYPES[:8], field.folder / "other"
    folder.mkdir()
    with flowing(field, types):
        first = field.worker(*SPREADING, types=["k*"])
        wait_until(lambda: held(field)[first.pid] == len(types), field.logs)
        other = field.worker(*SPREADING, types=["k*"], directory=folder, env=DISTRUST)
        other.wait_log("-> stopped|untrusted: .*not competing")
        settled(field, lambda: held(field)[first.pid] == len(types))
        row = field.db.workers.find_one({"pid": other.pid})
        stopped = "-> stopped" in other.log()  # not, if the first one has taken the type back and emptied it while the other still looked
        assert other.stop()[0] == (74 if stopped else 0), str(other)
        assert 0 <= row["held"] - row["stopped"] <= 1 and (row["stopped"] > 0) == stopped, f"{row}: {other}"
    field.stop()
    field.drain(types=["*"])
    field.compare(*types)


def test_a_worker_whose_disk_fails(field, faulty_disk, tmp_path):
    """It asks for no more types after the first: one that it takes stands still."""
    types = TYPES[:12]
    disk = FaultyDisk(faulty_disk, tmp_path, field.dir)
    disk.rule("pwrite k*.bin 0 5")
    with flowing(field, types):
        first = field.worker(*SPREADING, types=["k*"])
        wait_until(lambda: held(field)[first.pid] == len(types), field.logs)
        other = field.worker(*SPREADING, types=["k*"], env=disk.env)
        other.wait_log("-> backing-off")
        time.sleep(12)
        failed = {line.split()[2] for line in other.log().splitlines() if "-> backing-off" in line}
        assert len(failed) < len(types) // 2, f"{failed}: {other}"
        disk.rule()
    field.stop()
    field.drain(types=["*"])
    field.compare(*types)


def test_a_worker_that_is_too_old(field):
    """It asks for no more types after the one that it could not serve: those come that were given up for what its row said before."""
    types, folder = TYPES[:12], field.folder / "other"
    folder.mkdir()
    for name in types:
        made.Segment(folder / f"{name}.bin", type=name, version=2)
    with flowing(field, types):
        first = field.worker(*SPREADING, types=["k*"])
        wait_until(lambda: held(field)[first.pid] == len(types), field.logs)
        other = field.worker(*SPREADING, types=["k*"], directory=folder)
        other.wait_log("newer")
        settled(field, lambda: held(field)[first.pid] == len(types))
        assert len(re.findall("standing by", other.log())) <= len(types) // 3, str(other)
    field.stop()
    field.drain(types=["*"])
    field.compare(*types)


def test_somebody_who_always_asks(field):
    """And takes nothing: a type does not wait for it for long."""
    with flowing(field, TYPES[:3]):
        worker = field.worker(*SPREADING, types=["k*"])
        wait_until(lambda: all(field.seq(name) > 0 for name in TYPES[:3]), field.logs)
    row = field.db.workers.find_one({"pid": worker.pid})
    asker = {**row, "_id": b"somebody", "held": Int64(0), "asks": b"nobody!!", "host": "h", "pid": 1}

    def ask():
        field.db.workers.update_one({"_id": b"somebody"}, [{"$set": {**asker, "at": "$$NOW"}}], upsert=True)
    with field.repeating(ask, 0.1):
        wait_until(lambda: field.db.workers.count_documents({}) == 2, field.logs)
        time.sleep(2)
        begin = time.monotonic()
        with flowing(field, TYPES[:6]):
            wait_until(lambda: all(field.seq(name) > 0 for name in TYPES[:6]), field.logs, 40)
        assert time.monotonic() - begin > 5, f"it waited for nobody: {field.logs()}"
    field.stop()
    field.drain(types=["*"])
    field.compare(*TYPES[:6])


def test_gifts_are_counted_by_the_second(field):
    """Wake-ups for types that nobody knows hurry the looks: types are given away no faster for that."""
    with flowing(field):
        worker = field.worker(*SPREADING, types=["*"])
        settled(field, lambda: all_held(field, worker))
        row = field.db.workers.find_one({"pid": worker.pid})
        asker = {**row, "_id": b"somebody", "held": Int64(0), "asks": row["_id"], "host": "h", "pid": 1}
        new = itertools.count()

        def ask():
            field.db.workers.update_one({"_id": b"somebody"}, [{"$set": {**asker, "at": "$$NOW"}}], upsert=True)
            field.db.wakeups.insert_one({"type": f"new{next(new)}", "about": "message"})
        begin = time.monotonic()
        with field.repeating(ask, 0.02):
            wait_until(lambda: "asked to stop" in worker.log(), field.logs)
            time.sleep(4)
        given = len(re.findall("draining -> .*: asked to stop", worker.log()))
        assert given <= time.monotonic() - begin + 1, f"{given} types: {field.logs()}"
    field.stop()
    field.drain(types=["*"])
    field.compare(*TYPES)


def test_what_has_stopped_is_not_asked_for(field):
    """A worker that holds most of all, and can give none of it, keeps nobody from asking the next one."""
    with flowing(field):
        first = field.worker(*SPREADING, types=["k*"])
        settled(field, lambda: all_held(field, first))
        row = field.db.workers.find_one({"pid": first.pid})
        stuck = {**row, "_id": b"somebody", "held": Int64(1000), "stopped": Int64(1000), "host": "h", "pid": 1}
        stuck.pop("asks", None)
        with field.repeating(lambda: field.db.workers.update_one({"_id": b"somebody"}, [{"$set": {**stuck, "at": "$$NOW"}}], upsert=True), 0.3):
            second = field.worker(*SPREADING, types=["k*"])
            spread(field, first, second)
    field.stop()
    field.drain(types=["*"])
    field.compare(*TYPES)


def test_rows_that_make_no_sense(field):
    """Anybody may write to `workers`: types are served all the same."""
    field.db.workers.insert_many([{"_id": 1}, {"at": "yesterday", "held": -5}, {"_id": b"12345678", "at": None, "group": "x"}])
    with flowing(field, TYPES[:3]):
        worker = field.worker(*SPREADING, types=["k*"])
        wait_until(lambda: all(field.seq(name) > 0 for name in TYPES[:3]), field.logs)
    row = field.db.workers.find_one({"pid": worker.pid})
    empty = {"group": row["group"], "held": Int64(0), "max": Int64(1000), "lease_ms": Int64(2**62), "asks": b"somebody"}
    now = datetime.now(timezone.utc)
    for n, at in enumerate([now, now + timedelta(hours=1), now + timedelta(days=10**4), DatetimeMS(-2**63), DatetimeMS(2**63 - 1)]):
        field.db.workers.insert_one({"_id": b"forged %d" % n, "at": at, **empty})
    with flowing(field, TYPES[:6]):
        wait_until(lambda: all(field.seq(name) > 0 for name in TYPES[:6]), field.logs, 20)
    assert "not spread" not in worker.log(), str(worker)
    field.stop()
    field.drain(types=["*"])
    field.compare(*TYPES[:6])
