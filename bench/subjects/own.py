"""Types that have a collection of their own: together as fast as one, and as fast as the limit program."""
import os
import signal
import time

import drains
from figures import bars, measured, ratios, raw, rows, spread, table
from harness import OWN, Worker, interleave, processor_s, wait_until
from subjects import types

TYPES = types.TYPES
MANY = types.MANY
# Of the limit: threads that delete, messages in one delete, threads that read.
ONE, SEVERAL = (3, 5_000, 1), (3, 2_000, 4)
EACH = 1_000  # messages a type at least
BUSY = 6_000  # of each that is held already
ALONE = 2_000_000  # of one that is held already: not so few that it is over before the server writes out its pages


def run(bench):
    least, each, busy_each, several = bench.size(16_000, 400_000), bench.size(100, EACH), bench.size(100, BUSY), bench.size(TYPES[:3], TYPES)
    count, most = {n: max(least, each * n) for n in several}, max(several)
    results = interleave(bench, {**{("pawl-worker", n): lambda n=n: types.once(bench, n, count[n], OWN) for n in several},
                                 **{("limit", n): lambda n=n: limit(bench, n, count[n]) for n in several}})
    busy_count = {1: bench.size(least, ALONE), most: busy_each * most}
    busy = interleave(bench, {f"{n:,}": lambda n=n: held(bench, n, busy_count[n]) for n in busy_count})
    mine, theirs = ({n: values for (who, n), values in results.items() if who == wanted} for wanted in ("pawl-worker", "limit"))
    named = {f"{who}, {n:,}": values for (who, n), values in results.items()}
    return {"tables": [table("Drain by types, each with its own collection, messages of 256 bytes",
                             ["types", "messages/s, all together", "messages/s, start to end", "mongod CPU, µs a message", "memory, peak, MB",
                              "deleted entries gone over, a message"],
                             rows(named, "rate", "whole", "mongod_us", "peak_mb", "skipped"),
                             [f"{least:,} messages in all, or {each:,} of each type if that is more; of the types in turn, an insert each.",
                              f"limit: {how(ONE)} for one type, {how(SEVERAL)} for several."]),
                       table("Beside one type, and beside the limit program", ["types", "times one type", "times the limit of as many, start to end"],
                             [[f"{n:,}", *(spread(found) if found else "not measured" for found in (
                                 ratios(mine[n], mine[1]), ratios(mine[n], theirs[n], "whole")))] for n in several]),
                       table("Types that the worker holds already", ["types", "messages/s, all together", "mongod CPU, µs a message", "worker CPU, µs a message"],
                             rows(busy, "rate", "mongod_us", "client_us"),
                             [f"{busy_count[1]:,} messages of one type, {busy_each:,} of each of the others. With `--type '*'`. Each type has had a message, its lock is held and its file is open. Then the worker is stopped (SIGSTOP) until "
                              "all is inserted; from its going on until all is in the files."])],
            "targets": {"own types": ratios(mine[MANY], mine[1]),
                        "most own types": ratios(busy[f"{most:,}"], busy["1"]) if most == TYPES[-1] else None},
            "bars": [bars("Drain of types with collections of their own", "messages/s", measured(named), "rate")],
            "raw": {**raw(named), "held": raw(busy)}}


def how(setting):
    deleters, ids, readers = setting
    return drains.limit_name(deleters, ids, readers=readers).removeprefix("limit, ")


def limit(bench, number, count):
    return types.limit(bench, number, types.names(number), count, ONE if number == 1 else SEVERAL, OWN)


def held(bench, number, count):
    names = types.names(number)
    with bench.queue(OWN, names) as queue:
        drains.needs_own(queue)

        def written(messages):
            [found] = [*queue.db.ledger.aggregate([{"$group": {"_id": None, "seq": {"$sum": "$seq"}}}]), {"seq": 0}][:1]
            return found["seq"] == messages

        with Worker(queue, "--linger", "10m", "--lease", "10m", types=["*"]) as worker:
            queue.fill(number, types=",".join(names), chunk=1)
            wait_until(lambda: written(number), "a message of each type in its file", 300, 0.1)
            os.kill(worker.pid, signal.SIGSTOP)
            try:
                queue.fill(count, types=",".join(names))
            finally:
                os.kill(worker.pid, signal.SIGCONT)
            begin, before = time.monotonic(), (processor_s(worker.pid), bench.server.processor_s())
            wait_until(lambda: written(number + count), "all messages in the files", 300, 0.02)
            seconds, after = time.monotonic() - begin, (processor_s(worker.pid), bench.server.processor_s())
    return {"rate": count / seconds, "client_us": (after[0] - before[0]) * 1e6 / count, "mongod_us": (after[1] - before[1]) * 1e6 / count}
