"""Several types in one worker: as fast together as one, and none starves."""
import time
from contextlib import ExitStack

import drains
from figures import raw, rows, table
from harness import LIMIT_S, Background, NotMeasured, interleave, program

TYPES = (1, 4, 16)
SMALL = ("small1", "small2", "small3")


def run(bench):
    count, large, small = bench.size(16_000, 320_000), bench.size(20_000, 300_000), bench.size(300, 3_000)
    together = interleave(bench, {str(n): lambda n=n: once(bench, n, count) for n in TYPES})
    alone = interleave(bench, {str(n): lambda n=n: limit(bench, n, count) for n in (TYPES[0], TYPES[-1])})
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
                       table("The limit program by types, plain", ["types", "messages/s, all together", "mongod CPU, µs a message",
                              "deleted entries gone over, a message"],
                             rows(alone, "rate", "mongod_us", "skipped"),
                             ["The same messages; find and delete in C and nothing else, a process a type: what the server itself loses. One "
                              "type with two threads that delete 2,000 at a time, many with one each; from the first start to the last end."]),
                       table("Small types beside a large one", [f"three types of {small // 3:,} messages", "in their files after, s",
                                                                "the large one after, s"],
                             [[*row[:2], "" if row[0] == "alone" else row[2]] for row in rows(fairness, "small_s", "large_s")],
                             ["Counted from the first block of any type to the last of these."])],
            "raw": {"together": raw(together), "limit": raw(alone), "fairness": raw(fairness)}}


def once(bench, types, count):
    names = [f"t{i}" for i in range(1, types + 1)]
    with bench.queue() as queue:
        queue.fill(count, types=",".join(names))
        before = bench.server.skipped()
        found = drains.pawl(queue, count, types=names)
        return {**found, "skipped": (bench.server.skipped() - before) / count}


def limit(bench, types, count):
    """What the server itself loses by many types."""
    names = [f"t{i}" for i in range(1, types + 1)]
    with bench.queue("plain") as queue:
        queue.fill(count, types=",".join(names))
        before, skipped, begin = bench.server.processor_s(), bench.server.skipped(), time.monotonic()
        with ExitStack() as stack:
            running = [stack.enter_context(Background(bench, program("limit"), f"uri={bench.server.uri}", f"db={queue.name}", f"type={name}",
                                                      f"deleters={2 if types == 1 else 1}", output=queue.dir / name)) for name in names]
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
