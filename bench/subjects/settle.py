"""Settling after a crash: how long a new holder takes to delete what the dead one had committed."""
import re
import signal
import time
from contextlib import contextmanager

import drains
from figures import column, ratios, raw, rows, spread, table
from harness import NotMeasured, Worker, interleave, program, wall_s, wait_until

MESSAGE, TYPE = 256, "t1"
LEASE = ("--lease", "2s")
NEXT, KILLED = "the next holder", "killed as it drains"
IN_A_COMMAND = (10_000, 50_000)  # of the delete loop; the faster one counts
HOW = ["The next holder: between two lines of its log, takeover and the state draining. The lock is over when it starts, so no lease is waited "
       "for. It reads the _ids from the file, deletes up to 1 MiB of them in a command, and records each in the ledger.",
       "delete loop: in such a queue after such a crash, a pymongo program deletes the same _ids with the same filter, w: majority, one "
       "command after another, and records nothing. It has read the _ids before its clock runs. The ratio is to the faster of the loops, "
       "turn by turn."]


def run(bench):
    cases = bench.size([(1, 1_000), (4, 2_000)], [(1, 10_000), (4, 25_000)])  # blocks, and messages in each
    backlog, least = bench.size((60_000, 10_000), (400_000, 20_000))
    found = {case: interleave(bench, contestants(bench, *case)) for case in cases}
    killed = interleave(bench, {KILLED: lambda: killed_draining(bench, backlog, least)})
    return {"tables": [table("Settling what was committed and not deleted", ["", "ms", "µs a message", "times the loop"],
                             [row for results in found.values() for row in case_rows(results)], [how_died(cases), *HOW]),
                       table("The same, killed at any moment",
                             ["", "to be settled, messages", "of them still in the queue", "ms", "µs a message"],
                             rows(killed, "outstanding", "left", "ms", "us"), [how_killed(backlog, least)])],
            "raw": {"cases": {f"{blocks * each}": raw(results) for (blocks, each), results in found.items()}, "killed": raw(killed)}}


def contestants(bench, blocks, each):
    count = blocks * each
    loops = [some for some in IN_A_COMMAND if some <= count] or IN_A_COMMAND[:1]
    return {f"{NEXT}, {count:,} messages": lambda: settled(bench, blocks, each),
            **{f"delete loop, {count:,} messages, {some:,} in a command": lambda some=some: looped(bench, blocks, each, some)
               for some in loops}}


def how_died(cases):
    died = " or ".join(f"{blocks} block{'s' * (blocks > 1)} of {each:,} messages" for blocks, each in cases)
    return (f"The holder dies by SIGKILL as soon as {died} are committed, of which none is deleted yet; more than four blocks are never "
            "outstanding. A transaction on the first message of each block keeps its deletes off until then. It is undone, and what the server "
            "still did for the dead worker is ended, before the next one starts.")


def how_killed(backlog, least):
    return (f"SIGKILL while a worker at its defaults drains {backlog:,} messages, as soon as the ledger says that {least:,} or more are "
            "committed and not settled. Some may be deleted all the same, and a transaction of the dead worker may be open: the next holder "
            "ends it.")


def case_rows(results):
    """The next holder, and the faster loop below it."""
    mine, *loops = results.items()
    best = drains.best_of(dict(loops), "rate")
    for name, values in [mine, *((name, values) for name, values in loops if name == best or not best)]:
        if isinstance(values, NotMeasured):
            yield [name, f"not measured: {values}", "", ""]
            continue
        beside = ratios(values, results[best], "ms") if best and name != best else None
        yield [name, *(spread(column(values, key)) for key in ("ms", "us")), spread(beside) if beside else ""]


def result(messages, seconds):
    return {"messages": messages, "ms": seconds * 1000, "us": seconds * 1e6 / messages, "rate": messages / seconds}


# --- the crash --------------------------------------------------------------------------------------------------


@contextmanager
def crashed(bench, blocks, each):
    """A queue after it, and the _ids that are to be deleted."""
    count = blocks * each
    with bench.queue() as queue:
        queue.fill(count, bytes=MESSAGE)
        ids = [message["_id"] for message in queue.db.messages.find({"type": TYPE}, {"_id": 1}).sort([("type", 1), ("_id", 1)])]
        with bench.server.client.start_session() as session, session.start_transaction():
            for first in ids[::each]:
                queue.db.messages.update_one({"type": TYPE, "_id": first}, {"$set": {"held": True}}, session=session)
            die_committed(queue, blocks, each)
            session.abort_transaction()
        ready(queue)
        ledger = queue.ledger(TYPE)
        outstanding = ledger.get("seq", 0) - ledger.get("settled", 0)
        if outstanding != count or queue.db.messages.count_documents({"type": TYPE}) != count:
            raise NotMeasured(f"{outstanding:,} messages are to be settled, not {count:,}")
        yield queue, ids


def die_committed(queue, blocks, each):
    """The first commit is that of the new segment."""
    with Worker(queue, *LEASE, "--batch-messages", str(each), env={"PAWL_FAULT": f"block-committed:{blocks + 1}"}) as victim:
        wait_until(lambda: victim.process.poll() is not None, "the end of the holder", 60)
        if victim.process.returncode != -signal.SIGKILL:
            raise NotMeasured(f"the holder ended with {victim.process.returncode}: is pawl built without its fault points?")
        wait_until(lambda: no_delete_left(queue), "the end of what the dead holder had asked for", 30, 0.05)


def no_delete_left(queue):
    """What the dead holder has asked for goes on in the server, without end as long as the messages are held: it is ended there."""
    admin = queue.bench.server.client.admin
    left = list(admin.aggregate([{"$currentOp": {"allUsers": True}},
                                 {"$match": {"ns": f"{queue.name}.messages", "appName": {"$regex": f"^pawl-worker@{queue.name}"}}}]))
    for operation in left:
        admin.command("killOp", op=operation["opid"])
    return not left


def ready(queue):
    """The lock is over, and nothing is left to be written down."""
    lock = {"type": TYPE, "$expr": {"$gt": ["$expires_at", "$$NOW"]}}
    wait_until(lambda: queue.db.locks.find_one(lock) is None, "the end of the lease", 30, 0.05)
    queue.bench.server.client.admin.command("fsync")


# --- what comes after it ----------------------------------------------------------------------------------------


def settle(queue):
    """What the next holder says: (messages to be settled, seconds)."""
    log = queue.bench.run(program("pawl-worker"), *queue.mongo, "--dir", queue.dir, "--type", TYPE, "--exit-when-empty")["errors"]
    begin = re.search(r"^(\S+Z).* takeover: .*, (\d+) deletes pending", log, re.M)
    end = re.search(r"^(\S+Z).* state: settling -> draining", log, re.M)
    if not begin or not end:
        raise NotMeasured("the worker's log says neither takeover nor when it began to drain")
    ledger = queue.ledger(TYPE)
    if left := queue.db.messages.count_documents({}) or ledger["settled"] != ledger["seq"]:
        raise NotMeasured(f"{left} messages are left")
    return int(begin[2]), max(0.001, wall_s(end[1]) - wall_s(begin[1]))


def settled(bench, blocks, each):
    with crashed(bench, blocks, each) as (queue, _):
        return result(*settle(queue))


def looped(bench, blocks, each, some):
    with crashed(bench, blocks, each) as (queue, ids):
        begin, deleted = time.monotonic(), 0
        for at in range(0, len(ids), some):
            deleted += queue.db.messages.delete_many({"type": TYPE, "_id": {"$in": ids[at:at + some]}}).deleted_count
        seconds = time.monotonic() - begin
        if deleted != len(ids):
            raise NotMeasured(f"the loop deleted {deleted:,} of {len(ids):,} messages")
        return result(deleted, seconds)


def killed_draining(bench, backlog, least):
    with bench.queue() as queue:
        queue.fill(backlog, bytes=MESSAGE)
        with Worker(queue, *LEASE) as victim:
            wait_until(lambda: outstanding(queue) >= least or victim.process.poll() is not None,
                       f"{least:,} messages committed and not settled", 60, 0.001)
            victim.process.kill()
            victim.process.wait()
        ready(queue)
        left = queue.db.messages.count_documents({"type": TYPE}) - (backlog - queue.ledger(TYPE)["seq"])
        messages, seconds = settle(queue)
        if not messages:
            raise NotMeasured("all was settled when the holder was killed")
        return {**result(messages, seconds), "outstanding": messages, "left": left}


def outstanding(queue):
    ledger = queue.ledger(TYPE)
    return ledger.get("seq", 0) - ledger.get("settled", 0)
