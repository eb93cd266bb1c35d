"""Hand-over of a lock from one to the next, with 2, 10 and 50 waiting."""
import random
import shutil
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import mean

import locks
import pymongo
from figures import bars, column, number, quantile, raw, spread, table, turns
from harness import Absent, BUILD, Background, NotMeasured, Worker, answers, end_process, free_port, interleave, needs_package, processor_s, wait_until

ROUNDS = {2: 5, 10: 2, 50: 1}  # waiters: how often in one turn
HOLD_MS = (25, 75)  # at random, so that it does not keep in step with a timer
CROWD = Path(__file__).parents[1] / "rivals/crowd.py"
HOW = ["From the end of one's work to the beginning of the next one's. All wait before the first lets go.",
       "pawl's mutex: a process a waiter, the work is a pause, nothing is fenced. Taken by majority: as a semaphore's slot is, which has no "
       "fence. Taken, not fenced: as workers and pawl-lock take it, acknowledged by the primary; what waits for the majority is the fence "
       "that follows, which is not counted here. pawl-lock, at its defaults: with the fence, and the work is a program that is started for "
       "it. The others are threads with a connection each, and the work is a pause.",
       "mongolock (Python): its timer at 10 ms instead of its usual 100; the three calls of pymongo that it makes and pymongo no longer has are translated.",
       "Redis: append-only, synced always; a list that holds one token, BLPOP and RPUSH."]
PARTS = 200  # requests of each kind
HOW_PARTS = ["What a hand-over cannot do without, each alone on a server that does nothing else, by pymongo; the median of "
             f"{PARTS} requests. The wake-up: from the insert into a capped collection to the answer of a cursor that waits on it.",
             "On top come the wait queue and the second half of the release, which nobody waits for, and that all this shares the cores with "
             "the processes that wait, begin and end."]
HOW_WORKERS = ["The holder is told to stop (SIGTERM) while messages come in. From the time in its last block (CLOSE, before it is synced) to "
               "that in the next holder's first (OPEN): sync, commit, release, lock, fence, check, read."]


def run(bench):
    crowds = bench.size((2, 10), tuple(ROUNDS))
    results = interleave(bench, {
        **{f"pawl-lock, {n} waiting": lambda n=n: rounds(bench, n, pawl_lock_crowd) for n in crowds},
        **{f"pawl's mutex, taken by majority, {n} waiting": lambda n=n: rounds(bench, n, mutex_crowd) for n in crowds},
        **{f"pawl's mutex, taken, not fenced, {n} waiting": lambda n=n: rounds(bench, n, unfenced_crowd) for n in crowds},
        **{f"mongolock, {n} waiting": lambda n=n: rounds(bench, n, mongolock_crowd) for n in crowds},
        **{f"Redis, {n} waiting": lambda n=n: rounds(bench, n, redis_crowd) for n in crowds},
    })
    workers = interleave(bench, {f"pawl-worker, {n} waiting": lambda n=n: worker_chain(bench, n) for n in crowds})
    parts = interleave(bench, {"": lambda: requests_alone(bench)})[""]
    lock = results[f"pawl-lock, {crowds[-1]} waiting"]
    few, many = (results[f"pawl's mutex, taken by majority, {n} waiting"] for n in (crowds[0], crowds[-1]))
    return {"tables": [table("Hand-over, each holds for {} to {} ms".format(*HOLD_MS),
                             ["", "median, ms", "p99, ms", "hand-overs", "total, times the sum of holds", "server CPU, ms a hand-over"],
                             [row(name, values) for name, values in results.items()], HOW),
                       table("The requests of a hand-over", ["", "median, ms", "server CPU, ms"], part_rows(parts), HOW_PARTS),
                       table("Hand-over of a type between workers", ["", "median, ms", "greatest, ms", "hand-overs"],
                             [worker_row(name, values) for name, values in workers.items()], HOW_WORKERS)],
            "targets": {"pawl-lock median": turns(lock, "median_ms"), "handover median": turns(few, "median_ms"), "crowd total": turns(many, "total"),
                        "crowd mongod": turns(many, "server_ms")},
            "bars": [bars("Hand-over of a lock, median", "ms", results, "median_ms", place)],
            "raw": {"locks": raw(results), "workers": raw(workers), "parts": raw({"parts": parts})}}


def place(name):
    """The group in the picture, and the label there: side by side is who had as many waiting."""
    label, _, waiting = name.rpartition(", ")
    return waiting, label


def row(name, values):
    if isinstance(values, NotMeasured):
        return [name, f"not measured: {values}", *[""] * 4]
    gaps = [gap for value in values for gap in value["gaps_ms"]]
    return [name, spread(column(values, "median_ms")), number(quantile(gaps, 0.99)) if len(gaps) >= 100 else "too few", str(len(gaps)), spread(column(values, "total")),
            spread(column(values, "server_ms"))]


def worker_row(name, values):
    if isinstance(values, NotMeasured):
        return [name, f"not measured: {values}", "", ""]
    gaps = [gap for value in values for gap in value["gaps_ms"]]
    return [name, spread(column(values, "median_ms")), number(max(gaps)), str(len(gaps))]


# --- locks ------------------------------------------------------------------------------------------------------


def first_hold_ms(waiters):
    """Long enough for all others to be started and to wait."""
    return 1500 + 40 * waiters


def watch(path, waiters, server_pid, ended):
    """From the moment the first has let go: what the server spends until all have had their turn."""
    wait_until(lambda: locks.read_stamps(path) or ended(), "the first holder's end", 60, 0.002)
    before = processor_s(server_pid)
    wait_until(lambda: len(locks.read_stamps(path)) > waiters or ended(), f"{waiters} hand-overs", 120, 0.01)
    stamps = locks.read_stamps(path)
    if len(stamps) <= waiters:
        raise NotMeasured(f"only {len(stamps)} of {waiters + 1} had their turn")
    gaps = [(after[0] - turn[1]) * 1000 for turn, after in zip(stamps, stamps[1:])]
    if min(gaps) < 0:
        raise NotMeasured("two held the lock at once")
    holds = sum(end - begin for begin, end in stamps[1:])
    return {"gaps_ms": gaps, "total": (stamps[-1][1] - stamps[0][1]) / holds,
            "server_ms": (processor_s(server_pid) - before) * 1000 / waiters}


def rounds(bench, waiters, crowd):
    found = [crowd(bench, waiters) for _ in range(bench.size(1, ROUNDS[waiters]))]
    gaps = [gap for one in found for gap in one["gaps_ms"]]
    return {"gaps_ms": gaps, "median_ms": quantile(gaps, 0.5), "total": mean(column(found, "total")),
            "server_ms": mean(column(found, "server_ms"))}


def mutex_crowd(bench, waiters):
    return pawl_crowd(bench, waiters, locks.mutex(1))


def unfenced_crowd(bench, waiters):
    return pawl_crowd(bench, waiters, locks.mutex(0))


def pawl_lock_crowd(bench, waiters):
    return pawl_crowd(bench, waiters, locks.pawl_lock)


def pawl_crowd(bench, waiters, locked):
    with bench.queue() as queue, locks.Jobs(queue, locked) as jobs:
        path = queue.dir / "stamps"
        jobs.start("lock", path, first_hold_ms(waiters))
        locks.wait_held(queue, "lock")
        for _ in range(waiters):
            jobs.start("lock", path, random.randint(*HOLD_MS))
        wait_until(lambda: len((queue.db.locks.find_one({"type": "lock", "slot": -1}) or {}).get("queue", ())) == waiters, f"{waiters} waiting",
                   first_hold_ms(waiters) / 1000, 0.05)
        found = watch(path, waiters, bench.server.pid, jobs.ended)
        jobs.wait()
        return found


def threads_crowd(bench, kind, address, waiters, folder, server_pid):
    needs_package(kind)
    path = folder / "stamps"
    with Background(bench, sys.executable, CROWD, kind, address, "handover", waiters, *HOLD_MS, first_hold_ms(waiters), path,
                    output=folder / "crowd.output") as process:
        try:
            return watch(path, waiters, server_pid, lambda: process.poll() is not None)
        except NotMeasured as reason:
            said = (folder / "crowd.output").read_text(errors="replace").splitlines()
            raise NotMeasured(f"{reason}; {said[-1] if said else 'it said nothing'}") from None


def mongolock_crowd(bench, waiters):
    with bench.queue() as queue:
        uri = queue.bench.server.uri.replace("?", queue.name + "?") + "&w=majority"
        return threads_crowd(bench, "mongolock", uri, waiters, queue.dir, bench.server.pid)


def redis_crowd(bench, waiters):
    with redis_server(bench) as (folder, port, pid):
        return threads_crowd(bench, "redis", f"redis://127.0.0.1:{port}/0", waiters, folder, pid)


def redis_program():
    """The package redis-tools has the server under the name redis-check-rdb, which it goes by."""
    found = shutil.which("redis-server")
    if found:
        return found
    checker, link = shutil.which("redis-check-rdb"), BUILD / "redis-server"
    if not checker:
        raise Absent("no Redis here (Debian: apt-get install redis-tools)")
    link.unlink(missing_ok=True)
    link.symlink_to(checker)
    return str(link)


@contextmanager
def redis_server(bench):
    folder = bench.work / f"redis{bench.next_number()}"
    folder.mkdir()
    port = free_port()
    options = ["--bind", "127.0.0.1", "--port", port, "--dir", folder, "--appendonly", "yes", "--appendfsync", "always", "--save", ""]
    try:
        with Background(bench, redis_program(), *options, output=folder / "redis.output") as process:
            wait_until(lambda: answers(port), "Redis", 20)
            yield folder, port, process.pid
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# --- the requests ------------------------------------------------------------------------------------------------


def part_rows(parts):
    if isinstance(parts, NotMeasured):
        return [["", f"not measured: {parts}", ""]]
    rows = [[name, *(spread([part[name][i] for part in parts]) for i in range(2))] for name in parts[0]]
    return [*rows, ["together", *(spread([sum(times[i] for times in part.values()) for part in parts]) for i in range(2))]]


def requests_alone(bench):
    """{what: (median ms, ms of the server's processor time)}"""
    with bench.queue() as queue:
        locked = queue.db.locks
        release = {"deletes": [{"q": {"_id": 1}, "limit": 1}], "writeConcern": {"w": 1}}
        take = {"updates": [{"q": {"_id": 1}, "u": {"$set": {"owner": b"x" * 16}}, "upsert": True}], "writeConcern": {"w": "majority", "j": True}}
        put = {**take, "writeConcern": {"w": 1}}
        queue.db.command("create", "bell", capped=True, size=65536)
        queue.db.bell.insert_one({})
        with Bell(queue.db.bell) as bell:
            return {"release: delete, w: 1": alone(bench, lambda: queue.db.command("delete", locked.name, **release),
                                                   lambda: queue.db.command("update", locked.name, **put)),
                    "who is next: find": alone(bench, lambda: queue.db.command("find", locked.name, filter={"_id": 1}, singleBatch=True)),
                    "wake-up: insert, w: 1, and a cursor's answer": alone(bench, bell.ring),
                    "take: upsert, w: majority": alone(bench, lambda: queue.db.command("update", locked.name, **take),
                                                       lambda: queue.db.command("delete", locked.name, **release))}


def alone(bench, request, before=lambda: None):
    times, spent = [], 0
    for _ in range(PARTS):
        before()
        time.sleep(0.002)  # what the one before has left to do
        cpu, begin = processor_s(bench.server.pid), time.monotonic()
        request()
        times.append((time.monotonic() - begin) * 1000)
        spent += processor_s(bench.server.pid) - cpu
    return quantile(times, 0.5), spent * 1000 / PARTS


class Bell:
    """A cursor that waits on a capped collection, in a thread."""

    def __init__(self, collection):
        self.collection, self.heard, self.over = collection, threading.Semaphore(0), False
        self.thread = threading.Thread(target=self.listen)

    def listen(self):
        cursor = self.collection.find(cursor_type=pymongo.CursorType.TAILABLE_AWAIT).max_await_time_ms(1000)
        while not self.over:
            for _ in cursor:
                self.heard.release()

    def ring(self):
        self.collection.with_options(write_concern=pymongo.WriteConcern(w=1)).insert_one({})
        self.hear()

    def hear(self):
        if not self.heard.acquire(timeout=10):
            raise NotMeasured("a cursor that waits was not told")

    def __enter__(self):
        self.thread.start()
        self.hear()  # of the document that was there
        return self

    def __exit__(self, *_):
        self.over = True
        self.ring()
        self.thread.join()


# --- workers ----------------------------------------------------------------------------------------------------


def worker_chain(bench, waiters):
    """All but the last are told to stop, one after another, each when it has held for a while."""
    with bench.queue() as queue, queue.producer(count=10_000_000, rate=400, chunk=4):
        with ExitStack() as stack:
            workers = [stack.enter_context(Worker(queue, "-v")) for _ in range(waiters + 1)]
            for worker in workers:
                worker.wait_log(r" takeover: | busy: ", 60)
            for _ in range(waiters):
                holder = holding(queue, workers)
                time.sleep(random.uniform(0.05, 0.15))
                end_process(holder.process)
            holding(queue, workers)
        return chain_gaps(queue)


def holding(queue, workers):
    """The one that has the lock, once it has written a block."""
    alive = [worker for worker in workers if worker.process.poll() is None]
    held = {worker.pid: worker for worker in alive}
    def look():
        lock, ledger = queue.db.locks.find_one({"type": "t1", "slot": 0}), queue.ledger()
        writing = lock and ledger.get("owner") == lock["owner"] and not ledger["clean"] and ledger.get("file")
        return writing and held.get(lock["holder"]["pid"])
    return wait_until(look, "the next holder", 30, 0.02)


def chain_gaps(queue):
    blocks = queue.blocks()
    gaps = [(after["time"] - block["time"]) * 1000 for block, after in zip(blocks, blocks[1:])
            if block["kind"] == "close" and after["kind"] == "open"]
    if not gaps:
        raise NotMeasured("no hand-over is to be seen in the file")
    return {"gaps_ms": gaps, "median_ms": quantile(gaps, 0.5)}
