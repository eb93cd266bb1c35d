"""From the insert acknowledged to the file durable, message by message."""
import random
import subprocess
import time
from bisect import bisect_left
from itertools import accumulate

import drains
from figures import bars, column, number, quantile, raw, spread, table, turns
from harness import BUILD, OWN, Background, NotMeasured, Worker, interleave, program, wait_until

WARM = 3  # first messages that do not count: the holder comes, the file is made
SENT, ACKNOWLEDGED = 2, 3  # columns of what tools/fill.c notes
HOW = ["Acknowledged: the reply to the insert is in the producer. Durable: the fdatasync that covers the message has returned in the worker. "
       "Both are noted inside the programs, in pawl's by a preloaded library (bench/tools/times.c), on one clock; nothing is polled. "
       "All samples of all turns together; in brackets the least and the greatest of the turns. (\"Wanted and measured\" and the picture have the median of the turns, as everywhere.)",
       "Idle: one message at a time, at random moments, 100 ms apart on average; options at their defaults. insert: by a driver. "
       "pawl-enqueue: line by line on its standard input.",
       "No holder: the worker lets go of the lock after each message (--linger 0s), so that each one needs lock, fence and file anew; what "
       "comes by a driver, without a wake-up, is seen by its poll, every half to whole second."]


def run(bench):
    results = interleave(bench, {
        "idle, insert": lambda: idle(bench, by_driver),
        "idle, pawl-enqueue": lambda: idle(bench, by_enqueue),
        "idle, pawl-enqueue, own collection": lambda: idle(bench, by_enqueue, layout=OWN),
        "idle, pawl-enqueue, no holder": lambda: idle(bench, by_enqueue, "--linger", "0s"),
        "idle, insert, no holder": lambda: idle(bench, by_driver, "--linger", "0s", most=100),
        "half load, insert": lambda: half_load(bench),
    })
    mine = results["idle, pawl-enqueue"]
    return {"tables": [table("Latency: acknowledged to durable", ["", "messages", "median, ms", "p99, ms", "p99.9, ms", "greatest, ms"],
                             [row(name, values) for name, values in results.items()], [*HOW, half_note(results["half load, insert"])])],
            "targets": {"latency median": turns(mine, "median_ms"), "latency p99": turns(mine, "p99_ms")},
            "bars": [bars("Acknowledged to durable, median", "ms", {f"pawl, {name}": v for name, v in results.items()}, "median_ms")],
            "raw": raw(results)}


def half_note(values):
    if isinstance(values, NotMeasured):
        return "Half load: not measured."
    return (f"Half load: {spread(column(values, 'load'))} messages/s, which is half of what producer and worker sustain together on this "
            "machine when both go as fast as they can; found out before each turn.")


def row(name, values):
    if isinstance(values, NotMeasured):
        return [name, f"not measured: {values}", *[""] * 4]
    samples = pool(values)
    ranges = [f" ({number(min(column(values, key)))} to {number(max(column(values, key)))})" if len(values) > 1 else ""
              for key in ("median_ms", "p99_ms")]
    return [name, f"{len(samples):,}", number(quantile(samples, 0.5)) + ranges[0], number(quantile(samples, 0.99)) + ranges[1],
            number(quantile(samples, 0.999)) if len(samples) >= 1000 else "too few", number(max(samples))]


def pool(values):
    return [sample for value in values for sample in value["samples_ms"]]


# --- what is measured -------------------------------------------------------------------------------------------


def noted_worker(queue, *options):
    return Worker(queue, *options, env=preload(queue.dir / "worker.times"))


def preload(path):
    return {"LD_PRELOAD": BUILD / "libtimes.so", "BENCH_TIMES": path}


def idle(bench, produce, *options, most=505, layout="clustered"):
    count = WARM + bench.size(15, most)
    with bench.queue(layout) as queue:
        drains.needs_own(queue)
        with noted_worker(queue, *options) as worker:
            worker.wait_log(r" start: ")
            inserts = produce(bench, queue, count)
            wait_until(lambda: queue.ledger().get("seq") == count, f"{count} messages in the file", every_s=0.05)
        return summary(queue, [insert for insert in inserts if insert[0] > WARM])


def by_driver(bench, queue, count):
    queue.fill(count, checkpoint=False, rate=10, chunk=1, times=queue.dir / "inserts")
    return read_inserts(queue)


def by_enqueue(bench, queue, count):
    """Lines that come while an insert is under way go together in the next one."""
    command = [program("pawl-enqueue"), *queue.mongo, "--type", "t1", "-q"]
    with Background(bench, *command, output=queue.dir / "enqueue.output", stdin=subprocess.PIPE,
                    env=bench.environment(**preload(queue.dir / "enqueue.times"))) as process:
        for i in range(count):
            process.stdin.write(b"%0200d\n" % i)
            process.stdin.flush()
            time.sleep(random.uniform(0.05, 0.15))
        process.stdin.close()
        process.wait(30)
    inserts = noted(queue.dir / "enqueue.times", "insert")
    sent = sum(some for _, some in inserts)
    if sent != count:
        raise NotMeasured(f"pawl-enqueue was seen to insert {sent} of {count} lines")
    firsts = accumulate((some for _, some in inserts), initial=1)
    return [(first, some, when) for first, (when, some) in zip(firsts, inserts)]


def half_load(bench):
    return under_load(bench, sustained(bench) / 2, bench.size(2, 10))


def under_load(bench, load, seconds, since=ACKNOWLEDGED):
    """Open loop: the producer keeps to its times, whatever it waits for."""
    count = int(load * seconds)
    with bench.queue() as queue:
        with noted_worker(queue) as worker:
            worker.wait_log(r" start: ")
            queue.fill(count, checkpoint=False, rate=int(load), chunk=max(1, int(load / 100)), times=queue.dir / "inserts")
            wait_until(lambda: queue.ledger().get("seq") == count, f"{count} messages in the file", every_s=0.05)
        inserts = read_inserts(queue, since)
        warm = count // 10
        return {**summary(queue, [insert for insert in inserts if insert[0] > warm]), "load": load}


def sustained(bench):
    """Messages a second when one producer inserts as fast as it can while a worker drains."""
    count = bench.size(10_000, 200_000)
    with bench.queue() as queue, Worker(queue) as worker:
        worker.wait_log(r" start: ")
        begin = time.monotonic()
        queue.fill(count, checkpoint=False, times=queue.dir / "inserts", chunk=500)
        wait_until(lambda: queue.db.messages.find_one({"type": "t1"}, {"_id": 1}) is None, "an empty queue", 120, 0.02)
        return count / (time.monotonic() - begin)


# --- what it comes to -------------------------------------------------------------------------------------------


def noted(path, what):
    """(ns, number) of each line of that kind."""
    lines = (line.split() for line in path.read_text().splitlines()) if path.exists() else ()
    return [(int(when), int(number)) for kind, when, number in lines if kind == what]


def read_inserts(queue, since=ACKNOWLEDGED):
    """(number of the first message, how many, sent or acknowledged ns) of each insert; see tools/fill.c."""
    lines = (line.split() for line in (queue.dir / "inserts").read_text().splitlines())
    return [(int(line[0]), int(line[1]), int(line[since])) for line in lines]


def summary(queue, inserts):
    """One producer, rising _ids: the n-th message has seq n."""
    blocks = [block for block in queue.blocks() if block["kind"] == "data"]
    if len({block["file"] for block in blocks}) != 1:
        raise NotMeasured("the type has more than one segment")
    durable = durable_times(blocks, noted(queue.dir / "worker.times", "sync"))
    lasts = [block["last"] for block in blocks]
    samples = [(durable[bisect_left(lasts, seq)] - acknowledged) / 1e6
               for first, count, acknowledged in inserts for seq in range(first, first + count)]
    samples = samples[::max(1, len(samples) // 20_000)]
    return {"median_ms": quantile(samples, 0.5), "p99_ms": quantile(samples, 0.99), "samples_ms": [round(sample, 4) for sample in samples]}


def durable_times(blocks, syncs):
    """When the first sync returned that began after all of the block was in the file."""
    if not syncs:
        raise NotMeasured("the worker was not seen to sync: can nothing be preloaded here?")
    found, i = [], 0
    for block in blocks:
        while syncs[i][1] < block["end"]:
            i += 1
        found.append(syncs[i][0])
    return found
