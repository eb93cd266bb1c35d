"""The drain of one type beside its rivals, single messages of 256 bytes."""
from statistics import median

import drains
from figures import bars, column, measured, ratios, raw, rows, spread, table
from harness import interleave

MESSAGE = 256
LIMITS = [(1, 10_000), (2, 2_000), (2, 10_000), (3, 2_000), (3, 10_000)]  # threads that delete, messages in one delete
LOOP = "pymongo batch loop"
RANGES = "the limit, clustered, by ranges"


def run(bench):
    many, some, few = bench.size(20_000, 400_000), bench.size(10_000, 200_000), bench.size(300, 4_000)
    results = interleave(bench, {
        "pawl-worker, clustered": lambda: fast(bench, "clustered", many, drains.pawl),
        "pawl-worker, plain": lambda: fast(bench, "plain", many, drains.pawl),
        **{limit_name(*how): lambda how=how: fast(bench, "plain", many, drains.limit, *how) for how in bench.size(LIMITS[:2], LIMITS)},
        RANGES: lambda: fast(bench, "clustered", many, drains.limit, 2, 10_000, "range"),
        LOOP: lambda: fast(bench, "plain", some, drains.pymongo_loop),
        "findAndModify in C": lambda: fast(bench, "plain", few, drains.find_and_modify),
        "kombu": lambda: with_kombu(bench, few),
    })
    best = best_limit(results)
    clustered, plain = results["pawl-worker, clustered"], results["pawl-worker, plain"]
    shown = {"the limit" if name == best else name: values for name, values in results.items()
             if name == best or not name.startswith("limit")}
    return {
        "tables": [
            table("Drain of one type, messages of 256 bytes",
                  ["", "messages/s", "mongod CPU, µs a message", "client CPU, µs a message", "client memory, peak, MB"],
                  rows(results, "rate", "mongod_us", "client_us", "peak_mb"),
                  [f"A backlog of {many:,} messages, for the pymongo loop {some:,}, for the two that take one message at a time "
                   f"{few:,}; each turn begins with a fresh collection.",
                   "limit: find and delete in C and nothing else, with so many threads that delete so many messages at a time, side by "
                   "side. The one with the best median is what ratios are made with.",
                   "by ranges: the first and the last `_id` of 10,000, which is right only while nobody inserts; no transaction.",
                   "pymongo batch loop: find 5000, append, fsync, delete_many. findAndModify and kombu sync their file once, at the end, "
                   "which is their best case.",
                   "clustered, plain: how the collection `messages` is laid out. The rivals have the plain layout where nothing else is said. Everything is "
                   "`w: majority`."]),
            table("Beside the others",
                  ["pawl-worker", "times the limit", "times the limit, clustered, by ranges", "times the pymongo batch loop", "times findAndModify", "times kombu"],
                  [ratio_row(layout, mine, results, best) for layout, mine in (("clustered", clustered), ("plain", plain))]),
        ],
        "targets": {
            "drain clustered, limit": ratios(clustered, results[best]) if best else None,
            "drain clustered, kombu": ratios(clustered, results["kombu"]),
            "drain clustered, loop": ratios(clustered, results[LOOP]),
            "drain plain, limit": ratios(plain, results[best]) if best else None,
        },
        "bars": [bars("Drain, messages of 256 bytes", "messages/s", shown, "rate"),
                 bars("mongod CPU for one message", "µs", {name: shown[name] for name in list(shown)[:4]}, "mongod_us")],
        "raw": raw(results),
    }


def limit_name(deleters, ids):
    return f"limit, {deleters} deleting {ids:,}"


def best_limit(results):
    limits = {name: values for name, values in measured(results).items() if name.startswith("limit")}
    return max(limits, key=lambda name: median(column(limits[name], "rate")), default=None)


def ratio_row(layout, mine, results, best):
    found = [ratios(mine, results[name]) if name else None for name in (best, RANGES, LOOP, "findAndModify in C", "kombu")]
    return [layout, *(spread(values) if values else "not measured" for values in found)]


def fast(bench, layout, count, drain, *arguments):
    with bench.queue(layout) as queue:
        queue.fill(count, bytes=MESSAGE)
        return drain(queue, count, *arguments)


def with_kombu(bench, count):
    with bench.queue("plain") as queue:
        queue.db.drop_collection("messages")
        return drains.kombu(queue, count, MESSAGE)
