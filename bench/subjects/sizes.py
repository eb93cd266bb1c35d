"""The drain by message size."""
import drains
from figures import column, ratios, raw, spread, table
from harness import NotMeasured, interleave

COUNTS = {64: (20_000, 400_000), 256: (20_000, 400_000), 4096: (4_000, 80_000), 65536: (300, 6_000)}


def run(bench):
    results = interleave(bench, {name(who, size): lambda size=size, layout=layout, drain=drain: once(bench, size, layout, drain)
                                 for size in COUNTS for who, layout, drain in (("pawl-worker", "clustered", drains.pawl),
                                                                               ("limit", "clustered", drains.limit))})
    return {"tables": [table("Drain by message size, clustered",
                             ["bytes", "messages/s", "MB/s", "limit, messages/s", "times the limit", "mongod CPU, µs a message",
                              "memory, peak, MB"],
                             [row(size, results[name("pawl-worker", size)], results[name("limit", size)]) for size in COUNTS],
                             ["limit: as in the drain of one type, on the same layout, with two threads that delete 5,000 messages or 8 MiB at a time."])],
            "raw": raw(results)}


def name(who, size):
    return f"{who}, {size} bytes"


def once(bench, size, layout, drain):
    count = bench.size(*COUNTS[size])
    with bench.queue(layout) as queue:
        queue.fill(count, bytes=size)
        return drain(queue, count)


def row(size, mine, limit):
    if isinstance(mine, NotMeasured):
        return [f"{size:,}", f"not measured: {mine}", *[""] * 5]
    rates = column(mine, "rate")
    beside = ratios(mine, limit)
    return [f"{size:,}", spread(rates), spread([rate * size / 1e6 for rate in rates]),
            spread(column(limit, "rate")) if beside else "not measured", spread(beside) if beside else "",
            spread(column(mine, "mongod_us")), spread(column(mine, "peak_mb"))]
