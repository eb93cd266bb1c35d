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
                             ["types", "messages/s, all together", "mongod CPU, µs a message", "memory, peak, MB"],
                             rows(together, "rate", "mongod_us", "peak_mb"),
                             [f"{count:,} messages in all, of the types in turn."]),
                       table("The limit program by types, plain", ["types", "messages/s, all together", "mongod CPU, µs a message"],
                             rows(alone, "rate", "mongod_us"),
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
        return drains.pawl(queue, count, types=names)


def limit(bench, types, count):
    """What the server itself loses by many types."""
    names = [f"t{i}" for i in range(1, types + 1)]
    with bench.queue("plain") as queue:
        queue.fill(count, types=",".join(names))
        before, begin = bench.server.processor_s(), time.monotonic()
        with ExitStack() as stack:
            running = [stack.enter_context(Background(bench, program("limit"), f"uri={bench.server.uri}", f"db={queue.name}", f"type={name}",
                                                      f"deleters={2 if types == 1 else 1}", output=queue.dir / name)) for name in names]
            if any(process.wait(LIMIT_S) for process in running):
                raise NotMeasured("the limit program failed")
        seconds = time.monotonic() - begin
        return {"rate": count / seconds, "mongod_us": (bench.server.processor_s() - before) * 1e6 / count}


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
