"""The drain by backlog: neither rate nor memory may depend on how much waits."""
import drains
from figures import bars, ratios, raw, rows, table, turns
from harness import interleave


def run(bench):
    backlogs = bench.size([1_000, 5_000, 10_000, 40_000], [10_000, 100_000, 500_000, 2_000_000])
    results = interleave(bench, {f"{count:,}": lambda count=count: once(bench, count) for count in backlogs})
    base, most = (results[f"{backlogs[i]:,}"] for i in (1, 3))
    limits = interleave(bench, {f"{count:,}": lambda count=count: limit(bench, count) for count in (backlogs[1], backlogs[3])})
    return {"tables": [table("Drain by backlog, messages of 256 bytes, clustered",
                             ["messages waiting", "messages/s", "mongod CPU, µs a message", "memory, peak, MB"],
                             rows(results, "rate", "mongod_us", "peak_mb")),
                       table("The limit program by backlog, clustered", ["messages waiting", "messages/s", "mongod CPU, µs a message"],
                             rows(limits, "rate", "mongod_us"),
                             ["Two threads that delete 5,000 at a time: what the server itself loses."])],
            "targets": {"backlog": ratios(most, base), "memory": turns(most, "peak_mb")},
            "bars": [bars("Drain by messages waiting", "messages/s", {f"pawl, {name}": v for name, v in results.items()}, "rate")],
            "raw": {"pawl": raw(results), "limit": raw(limits)}}


def once(bench, count):
    with bench.queue() as queue:
        queue.fill(count)
        return drains.pawl(queue, count)


def limit(bench, count):
    with bench.queue() as queue:
        queue.fill(count)
        return drains.limit(queue, count)
