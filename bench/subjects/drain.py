"""The drain of one type beside its rivals, single messages of 256 bytes."""
import drains
from figures import bars, ratios, raw, rows, spread, table
from harness import OWN, interleave

MESSAGE = 256
LAYOUTS = ("clustered", "plain", OWN)
BY_ID = "ids"
# Threads that delete, messages in one delete, and what a delete names. By _id a clustered collection without an index is gone over whole.
LIMITS = [*((deleters, ids) for deleters in (1, 2, 3) for ids in (2_000, 5_000, 10_000)), (2, 10_000, BY_ID)]
LOOP = "pymongo batch loop"


def run(bench):
    many, some, few = bench.size(20_000, 400_000), bench.size(10_000, 200_000), bench.size(300, 4_000)
    tried, limits = {}, {layout: {} for layout in LAYOUTS}
    for layout in LAYOUTS:
        found, limits[layout] = drains.qualify(bench, {
            f"{drains.limit_name(*how)}, {layout}": lambda layout=layout, how=how: fast(bench, layout, many, drains.limit, *how)
            for how in bench.size(LIMITS[-2:], LIMITS) if layout != OWN or BY_ID not in how})
        tried.update(found)
    results = interleave(bench, {
        **{f"pawl-worker, {layout}": lambda layout=layout: fast(bench, layout, many, drains.pawl) for layout in LAYOUTS},
        **{name: how for layout in LAYOUTS for name, how in limits[layout].items()},
        LOOP: lambda: fast(bench, "plain", some, drains.pymongo_loop),
        "findAndModify in C": lambda: fast(bench, "plain", few, drains.find_and_modify),
        "kombu": lambda: with_kombu(bench, few),
    })
    best = {layout: drains.best_of({name: results[name] for name in limits[layout]}) for layout in LAYOUTS}
    mine = {layout: results[f"pawl-worker, {layout}"] for layout in LAYOUTS}
    beside, whole = ({layout: ratios(mine[layout], results[best[layout]], key) if best[layout] else None for layout in LAYOUTS}
                     for key in ("rate", "whole"))
    shown = {shown_name(name, best): values for name, values in results.items() if name in best.values() or not name.startswith("limit")}
    return {
        "tables": [
            table("Drain of one type, messages of 256 bytes",
                  ["", "messages/s", "messages/s, start to end", "mongod CPU, µs a message", "client CPU, µs a message", "client memory, peak, MB"],
                  rows(results, "rate", "whole", "mongod_us", "client_us", "peak_mb"),
                  [f"A backlog of {many:,} messages, for the pymongo loop {some:,}, for the two that take one message at a time "
                   f"{few:,}; each turn begins with a fresh collection.",
                   "limit: what pawl does, in C, without lock, ledger, commit and format: it reads from one snapshot, writes a file by 1 MiB "
                   "and more, syncs it, and deletes what is synced, with so many threads that delete so many messages at a time. A delete "
                   "names the first and the last `_id`, in a transaction as of the snapshot, and its count is checked; by _id: each, by "
                   "`$in`. Of the two fastest settings on a layout the one with the better median is its limit, with which ratios are made.",
                   "pymongo batch loop: find 5000 behind the last `_id`, append, fsync, delete_many. findAndModify and kombu sync their file "
                   "once, at the end, which is their best case.",
                   "clustered, plain: how the collection `messages` is laid out; both have the index on type and `_id`. own collection: one of "
                   "the type's own, clustered and without that index. The rivals have the plain layout. Everything is `w: majority`.",
                   "start to end: of the whole program, from outside; that of a Python rival is mostly its imports where there are few messages."]),
            drains.tried_table("The settings of the limit", tried),
            table("Beside the others",
                  ["pawl-worker", "times the limit of this layout", "start to end", "the limit", "times the pymongo batch loop", "times findAndModify",
                   "times kombu"],
                  [ratio_row(layout, mine[layout], beside[layout], whole[layout], best[layout], results) for layout in LAYOUTS]),
        ],
        "targets": {
            **{f"drain {layout}, limit": whole[layout] for layout in LAYOUTS},
            "drain own collection, limit plain": ratios(mine[OWN], results[best["plain"]], "whole") if best["plain"] else None,
            "drain clustered, kombu": ratios(mine["clustered"], results["kombu"]),
            "drain clustered, loop": ratios(mine["clustered"], results[LOOP]),
        },
        "bars": [bars("Drain, messages of 256 bytes", "messages/s", shown, "rate", place),
                 bars("mongod CPU for one message", "µs", {name: values for name, values in shown.items() if place(name)[1].startswith(("pawl", "the"))},
                      "mongod_us", place)],
        "raw": {**raw(results), "settings of the limit": raw(tried)},
    }


def shown_name(name, best):
    return next((f"the limit, {layout}" for layout, one in best.items() if one == name), name)


def place(name):
    """The group in the picture, and the label there."""
    label, _, layout = name.rpartition(", ")
    return (f"collection {layout}", label) if layout in LAYOUTS else ("collection plain", name)


def ratio_row(layout, mine, limit, whole, best, results):
    found = [ratios(mine, results[name]) for name in (LOOP, "findAndModify in C", "kombu")]
    texts = [spread(values) if values else "not measured" for values in (limit, whole, *found)]
    return [layout, *texts[:2], (best or "").removesuffix(f", {layout}").removeprefix("limit, "), *texts[2:]]


def fast(bench, layout, count, drain, *arguments):
    with bench.queue(layout) as queue:
        queue.fill(count, bytes=MESSAGE)
        return drain(queue, count, *arguments)


def with_kombu(bench, count):
    with bench.queue("plain") as queue:
        queue.db.drop_collection("messages")
        return drains.kombu(queue, count, MESSAGE)
