"""Several types in one worker: as fast together as one, and none starves."""
import time
from contextlib import ExitStack

import drains
from figures import ratios, raw, rows, table
from harness import LIMIT_S, Background, NotMeasured, interleave, program

TYPES = (1, 4, 16)
SMALL = ("small1", "small2", "small3")
MIXED = "16, mixed"
FULL_BYTES = 4096  # of messages that fill a block before there are too many of them


def run(bench):
    count, large, small = bench.size(16_000, 800_000), bench.size(20_000, 300_000), bench.size(300, 60_000)
    full = bench.size(4_000, 160_000)
    turns = interleave(bench, {**{("pawl", str(n)): lambda n=n: once(bench, n, count) for n in TYPES},
                               **{("limit", str(n)): lambda n=n: limit(bench, n, names(n), count) for n in (TYPES[0], TYPES[-1])},
                               ("limit", MIXED): lambda: limit(bench, TYPES[-1], ["*"], count)})
    together, alone = ({name: values for (who, name), values in turns.items() if who == wanted} for wanted in ("pawl", "limit"))
    filled = interleave(bench, {str(n): lambda n=n: once(bench, n, full, bytes=FULL_BYTES) for n in TYPES})
    fairness = interleave(bench, {"alone": lambda: beside(bench, 0, small),
                                  f"beside one of {large:,}": lambda: beside(bench, large, small)})
    return {"tables": [table("Drain by types in one worker, messages of 256 bytes, clustered",
                             ["types", "messages/s, all together", "mongod CPU, µs a message", "memory, peak, MB",
                              "deleted entries gone over, a message"],
                             rows(together, "rate", "mongod_us", "peak_mb", "skipped"),
                             [f"{count:,} messages in all, of the types in turn.",
                              "Deleted entries gone over: of the indexes, by the server's cursors (serverStatus, entries skipped), on their way to one "
                              "that is there. What was deleted stays for five minutes, and a look for the last message of a type goes over that of "
                              "the types behind it in the index as well."]),
                       table(f"The same, messages of {FULL_BYTES:,} bytes", ["types", "messages/s, all together", "mongod CPU, µs a message",
                                                                             "memory, peak, MB"],
                             rows(filled, "rate", "mongod_us", "peak_mb"),
                             [f"{full:,} messages in all. Each type that drains has some blocks of --batch-bytes (8 MiB) in hand."]),
                       table("The limit program by types, clustered", ["types", "messages/s, all together", "mongod CPU, µs a message",
                              "deleted entries gone over, a message"],
                             rows(alone, "rate", "mongod_us", "skipped"),
                             ["The same messages; find and delete in C and nothing else: what the server itself loses. A process a type, with two "
                              "threads that delete where it is one, else with one; ranges of 2,000; from the first start to the last end.",
                              f"{MIXED}: one process for all, in the order in which the collection has them, without the index. It is no way for "
                              "pawl: the messages of a type would wait for all older ones of the others, a small type for a large one."]),
                       table("Small types beside a large one", [f"three types of {small // 3:,} messages", "in their files after, s",
                                                                "the large one after, s"],
                             [[*row[:2], "" if row[0] == "alone" else row[2]] for row in rows(fairness, "small_s", "large_s")],
                             ["Counted from the first block of any type to the last of these, by the times in the blocks, which is when each was written."])],
            "targets": {"types": ratios(together[str(TYPES[-1])], together[str(TYPES[0])])},
            "raw": {"together": raw(together), "filled": raw(filled), "limit": raw(alone), "fairness": raw(fairness)}}


def names(types):
    return [f"t{i}" for i in range(1, types + 1)]


def once(bench, types, count, **options):
    with bench.queue() as queue:
        queue.fill(count, **options, types=",".join(names(types)))
        before = bench.server.skipped()
        found = drains.pawl(queue, count, types=names(types))
        return {**found, "skipped": (bench.server.skipped() - before) / count}


def limit(bench, types, of, count):
    """What the server itself loses by many types. `of`: what each process drains."""
    with bench.queue() as queue:
        queue.fill(count, types=",".join(names(types)))
        before, skipped, begin = bench.server.processor_s(), bench.server.skipped(), time.monotonic()
        with ExitStack() as stack:
            running = [stack.enter_context(Background(bench, program("limit"), f"uri={bench.server.uri}", f"db={queue.name}", f"type={one}",
                                                      "by=range", f"deleters={2 if len(of) == 1 else 1}", output=queue.dir / f"limit{i}"))
                       for i, one in enumerate(of)]
            if any(process.wait(LIMIT_S) for process in running):
                raise NotMeasured("the limit program failed")
        seconds = time.monotonic() - begin
        return {"rate": count / seconds, "mongod_us": (bench.server.processor_s() - before) * 1e6 / count,
                "skipped": (bench.server.skipped() - skipped) / count}


def beside(bench, large, small):
    types = [*(["large"] if large else []), *SMALL]
    with bench.queue() as queue:
        if large:
            queue.fill(large, types="large")
        queue.fill(small, types=",".join(SMALL))
        drains.pawl(queue, large + small, types=types)
        times = {name: [block["time"] for block in queue.blocks(name) if block["kind"] == "data"] for name in types}
    begin = min(map(min, times.values()))
    return {"small_s": max(max(times[name]) for name in SMALL) - begin, "large_s": max(times["large"]) - begin if large else 0}
