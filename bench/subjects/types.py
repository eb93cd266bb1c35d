"""Several types in one worker: as fast together as one, and none starves."""
import drains
from figures import raw, rows, table
from harness import interleave

TYPES = (1, 4, 16)
SMALL = ("small1", "small2", "small3")


def run(bench):
    count, large, small = bench.size(16_000, 320_000), bench.size(20_000, 300_000), bench.size(300, 3_000)
    together = interleave(bench, {str(n): lambda n=n: once(bench, n, count) for n in TYPES})
    fairness = interleave(bench, {"alone": lambda: beside(bench, 0, small),
                                  f"beside one of {large:,}": lambda: beside(bench, large, small)})
    return {"tables": [table("Drain by types in one worker, messages of 256 bytes, clustered",
                             ["types", "messages/s, all together", "mongod CPU, µs a message", "memory, peak, MB"],
                             rows(together, "rate", "mongod_us", "peak_mb"), [f"{count:,} messages in all."]),
                       table("Small types beside a large one", [f"three types of {small // 3:,} messages", "in their files after, s",
                                                                "the large one after, s"],
                             [[*row[:2], "" if row[0] == "alone" else row[2]] for row in rows(fairness, "small_s", "large_s")],
                             ["Counted from the first block of any type to the last of these."])],
            "raw": {"together": raw(together), "fairness": raw(fairness)}}


def once(bench, types, count):
    names = [f"t{i}" for i in range(1, types + 1)]
    with bench.queue() as queue:
        queue.fill(count, types=",".join(names))
        return drains.pawl(queue, count, types=names)


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
