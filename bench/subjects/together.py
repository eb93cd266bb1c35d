"""Insert and drain at the same time: what both sustain, and how late a message is then."""
import contextlib
import sys
from statistics import median

import drains
from figures import bars, column, number, raw, ratios, rows, spread, table
from harness import LIMIT_S, OWN, Background, NotMeasured, Worker, interleave, printed, program, wait_until
from subjects import latency

MESSAGE = 256
WAITING = 50_000  # messages; the producer holds while more wait
SHARES = (50, 80)  # percent of what is sustained
LOOP = "pymongo batch loop"
PAWL, INSERT, DRAIN = "pawl-worker", "insert alone", "drain alone"
LONG = "pawl-worker, for five minutes"
TWO, TWO_INSERT = "two producers, pawl-worker", "two producers, insert alone"
PLACES = {"clustered": "", OWN: f", {OWN}"}  # layout: how a contestant's name ends


def run(bench):
    seconds, long, backlog = bench.size(2, 15), bench.size(3, 300), bench.size(20_000, 400_000)
    results = interleave(bench, {
        PAWL: lambda: closed(bench, seconds, "clustered", pawl),
        LOOP: lambda: closed(bench, seconds, "plain", loop),
        INSERT: lambda: inserted(bench, seconds),
        DRAIN: lambda: drained(bench, backlog),
        **{TWO + end: lambda layout=layout: closed(bench, seconds, layout, pawl, 2) for layout, end in PLACES.items()},
        **{TWO_INSERT + end: lambda layout=layout: inserted(bench, seconds, layout, 2) for layout, end in PLACES.items()},
    })
    results.update(interleave(bench, {LONG: lambda: closed(bench, long, "clustered", pawl)}, repeat=1))
    mine = results[PAWL]
    if isinstance(mine, NotMeasured):
        raise NotMeasured(f"{PAWL}: {mine}")
    sustained = median(column(mine, "rate"))
    loaded = interleave(bench, {f"{share} %": lambda share=share: loads(bench, sustained * share / 100, seconds) for share in SHARES})
    beside = [(name, ratios(mine, results[name])) for name in (LOOP, INSERT, DRAIN)]
    two = {end: ratios(results[TWO + end], results[TWO_INSERT + end]) for end in PLACES.values()}
    return {"tables": [table(f"Insert and drain together, messages of {MESSAGE} bytes",
                             ["", "messages/s", "mongod CPU, µs a message", "producer held up, % of the time"],
                             rows(results, "rate", "mongod_us", "held"),
                             [f"Closed loop, {seconds} s, and once {long} s: one producer, or two, inserts (w: majority) as fast as it can, and "
                              f"holds while more than {WAITING:,} messages wait. What still waits at the end is not counted.",
                              "Held up for 0 %: the producer, not the worker, is what does not go faster.",
                              f"insert alone: the same producer without a worker. drain alone: a backlog of {backlog:,}, without a producer."]),
                       table("Beside the others", [PAWL, "times, of messages/s"], [[name, spread(r) if r else "not measured"] for name, r in beside]),
                       table("Two producers: with a worker, times without", ["", "times, of messages/s"],
                             [[layout, spread(two[end]) if two[end] else "not measured"] for layout, end in PLACES.items()]),
                       table("Insert to durable while both go", ["of what is sustained", "messages", "median, ms", "p99, ms", "p99.9, ms", "greatest, ms"],
                             [latency.row(name, values) for name, values in loaded.items()],
                             [f"Open loop: inserts are due at random times, 100 a second on average, at a share of {number(sustained)} messages/s, which "
                              f"is the median above, for {seconds} s; the first tenth does not count. From when an insert was due, so that a late "
                              "producer counts, to the fdatasync that covers the message."])],
            "targets": {"together" + end: found for end, found in two.items()},
            "bars": [bars("Insert and drain together", "messages/s", results, "rate")],
            "raw": {"sustained": raw(results), "latency": raw(loaded)}}


def loads(bench, load, seconds):
    return {**latency.under_load(bench, load, seconds, latency.SENT), "load": load}


def pawl(queue):
    drains.needs_own(queue)
    return Worker(queue)


def loop(queue):
    """Ends by its process; the file that would tell it to stop is never made."""
    return Background(queue.bench, sys.executable, drains.RIVALS / "pymongo_loop.py", queue.bench.server.uri, queue.name, queue.dir / "t1",
                      queue.dir / "stop", output=queue.dir / "loop.output")


def closed(bench, seconds, layout, consumer, producers=1):
    with bench.queue(layout) as queue:
        queue.fill(1)
        with consumer(queue):
            wait_until(lambda: queue.waiting() == 0, "an empty queue", 30, 0.02)  # the consumer is at work
            return produced(queue, seconds, f"waiting={WAITING}", producers=producers)


def inserted(bench, seconds, layout="clustered", producers=1):
    """As many wait as were inserted: all of it counts."""
    with bench.queue(layout) as queue:
        return produced(queue, seconds, drained=False, producers=producers)


def produced(queue, seconds, *options, drained=True, producers=1):
    """The messages of all producers; their time and how long they were held up are those of one."""
    words = [f"uri={queue.bench.server.uri}", f"db={queue.name}", f"bytes={MESSAGE}", f"own={int(queue.own)}", "count=1000000000",
             f"most_s={seconds}", *options]
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(Background(queue.bench, program("fill"), *words, f"times={queue.dir / f'inserts{i}'}",
                                                 output=queue.dir / f"producer{i}.output")) for i in range(1, producers)]
        run = queue.bench.run(program("fill"), *words, f"times={queue.dir / 'inserts0'}", limit_s=seconds + 60)
        inserts = run["documents"] + sum(other_documents(queue, i, other) for i, other in enumerate(others, 1))
        messages = inserts - (queue.waiting() if drained else 0)
    if messages <= 0:
        raise NotMeasured("nothing was drained while messages came in")
    return {"rate": messages / run["produced_s"], "mongod_us": run["mongod_cpu"] * 1e6 / messages,
            "held": 100 * run["held_s"] / run["produced_s"], "messages": messages}


def other_documents(queue, number, process):
    """It began before the one that is measured, and ends within an insert of it."""
    process.wait(LIMIT_S)
    return printed(queue.dir / f"producer{number}.output")["documents"]


def drained(bench, backlog):
    with bench.queue() as queue:
        queue.fill(backlog, bytes=MESSAGE)
        return {**drains.pawl(queue, backlog), "held": 0}
