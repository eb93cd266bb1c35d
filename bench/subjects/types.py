"""Several types in one worker: as fast together as one, and none starves."""
import drains
from figures import ratios, raw, rows, spread, table
from harness import interleave

TYPES = (1, 4, 16, 100, 1000)
MANY = 16  # types of the limit that pawl is set beside in "Wanted and measured"
SMALL = ("small1", "small2", "small3")
MIXED = "16, mixed"
# Of the limit: threads that delete, messages in one delete, threads that read.
LIMITS = [(2, 2_000, 1), (2, 5_000, 1), (3, 5_000, 1), (2, 2_000, 4), (3, 2_000, 4), (3, 5_000, 4)]
MANY_LIMIT = (3, 2_000, 4)  # for more types than that
FULL_BYTES = 4096  # of messages that fill a block before there are too many of them


def run(bench):
    count, large, small = bench.size(16_000, 400_000), bench.size(20_000, 300_000), bench.size(300, 60_000)
    several = bench.size(TYPES[:4], TYPES)  # a thousand need a machine that does nothing else
    full = bench.size(4_000, 160_000)
    tried, limits = {}, {}
    for n in (1, MANY):
        found, fastest = drains.qualify(bench, {("limit", limit_name(n, how)): lambda n=n, how=how: limit(bench, n, names(n), count, how)
                                                for how in bench.size(LIMITS[:1] + LIMITS[-1:], LIMITS) if n > 1 or how[2] == 1})
        tried.update({name: values for (_, name), values in found.items()})
        limits.update(fastest)
    turns = interleave(bench, {**{("pawl", str(n)): lambda n=n: once(bench, n, count) for n in several},
                               **limits,
                               **{("limit", limit_name(n, MANY_LIMIT)): lambda n=n: limit(bench, n, names(n), count, MANY_LIMIT) for n in several[3:]},
                               ("limit", MIXED): lambda: limit(bench, MANY, ["*"], count, LIMITS[1])})
    together, alone = ({name: values for (who, name), values in turns.items() if who == wanted} for wanted in ("pawl", "limit"))
    best = drains.best_of({name: values for name, values in alone.items() if name.startswith("16, limit")})
    filled = interleave(bench, {str(n): lambda n=n: once(bench, n, full, bytes=FULL_BYTES) for n in TYPES[:3]})
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
                       table("Beside one type, and beside the limit program", ["types", "times one type", "times the limit of as many"],
                             [[n, *(spread(found) if found else "not measured" for found in beside_one(n, together, alone, best))] for n in several[2:]]),
                       table(f"The same, messages of {FULL_BYTES:,} bytes", ["types", "messages/s, all together", "mongod CPU, µs a message",
                                                                             "memory, peak, MB"],
                             rows(filled, "rate", "mongod_us", "peak_mb"),
                             [f"{full:,} messages in all. Each type that drains has some blocks of --batch-bytes (8 MiB) in hand."]),
                       table("The limit program by types, clustered", ["types", "messages/s, all together", "mongod CPU, µs a message",
                              "deleted entries gone over, a message"],
                             rows(alone, "rate", "mongod_us", "skipped"),
                             ["The same messages, by the limit program of the drain of one type, in one process: what the server itself loses. Its "
                              "readers take one type after another; a file a type.",
                              f"{MIXED}: in the order in which the collection has them, without the index, into one file. pawl cannot do "
                              "this: each message would wait for all older messages of the other types."]),
                       drains.tried_table("The settings of the limit by types", tried),
                       table("Small types beside a large one", [f"three types of {small // 3:,} messages", "in their files after, s",
                                                                "the large one after, s"],
                             [[*row[:2], "" if row[0] == "alone" else row[2]] for row in rows(fairness, "small_s", "large_s")],
                             ["Counted from the first block of any type to the last of these, by the times in the blocks, which is when each was written."])],
            "targets": {"types": ratios(together[str(MANY)], together["1"]),
                        "types, limit": ratios(together[str(MANY)], alone[best]) if best else None},
            "raw": {"together": raw(together), "filled": raw(filled), "limit": raw(alone), "settings of the limit": raw(tried), "fairness": raw(fairness)}}


def beside_one(types, together, alone, best):
    """The ratios of that number of types to one type, and to the limit."""
    name = best if types == MANY else limit_name(types, MANY_LIMIT)
    return ratios(together[str(types)], together["1"]), ratios(together[str(types)], alone.get(name))


def names(types):
    return [f"t{i}" for i in range(1, types + 1)]


def once(bench, types, count, layout="clustered", **options):
    with bench.queue(layout, names(types)) as queue:
        queue.fill(count, **options, types=",".join(names(types)))
        before = bench.server.skipped()
        found = drains.pawl(queue, count, types=names(types))
        return {**found, "skipped": (bench.server.skipped() - before) / count}


def limit_name(types, how):
    return f"{types}, {drains.limit_name(*how[:2], readers=how[2])}"


def limit(bench, types, of, count, how, layout="clustered"):
    """`of`: what the limit program is given, the types or `*`."""
    deleters, ids, readers = how
    with bench.queue(layout, names(types)) as queue:
        queue.fill(count, types=",".join(names(types)))
        before = bench.server.skipped()
        found = drains.limit(queue, count, deleters, ids, types=of, readers=readers)
        return {**found, "skipped": (bench.server.skipped() - before) / count}


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
