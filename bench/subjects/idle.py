"""What workers with nothing to do cost the server, and what many types cost a worker."""
import re
import time
from contextlib import ExitStack
from pathlib import Path

from figures import raw, rows, table, turns
from harness import Worker, interleave, processor_s, wait_until

CASES = {"1 worker, 1 type": (1, 1), "1 worker, 16 types": (1, 16), "10 workers, the same type": (10, 1)}
BUSY = 100
MOST = "10,000"  # of the types
KEYS = ("operations", "requests", "kib", "mongod_ms", "worker_ms")


def run(bench):
    seconds = bench.size(1, 30)
    busy = bench.size(1_000, 100_000)
    results = interleave(bench, {name: lambda case=case: cost(bench, seconds, *case) for name, case in CASES.items()})
    many = interleave(bench, {f"{count:,}": lambda count=count: many_types(bench, seconds, count, busy) for count in bench.size((200,), (1_000, 10_000))},
                      repeat=1)
    return {"tables": [table("Cost of idle workers, a minute",
                             ["", "server operations", "network requests", "network KiB", "mongod CPU, ms", "worker CPU, ms"],
                             rows(results, *KEYS),
                             [f"serverStatus (opcounters, network) over {seconds} s, minus what the server does by itself, which is measured after the workers' end. "
                              "Options at their defaults; the queue is empty and no lock is held."]),
                       table("One worker with `--type '*'` and many types",
                             ["types", "server operations a second, idle", "worker CPU, idle, % of one", "memory, peak, MB", "descriptors, idle",
                              "the first message of each after, s"],
                             rows(many, "operations", "percent", "peak_mb", "descriptors", "first_s"),
                             [f"Each type gets a message; when all are in their files, {BUSY} of them get {busy:,} messages together. Idle: over {seconds} s, "
                              "after all locks are released; the server's own operations are taken off, as above."])],
            "targets": {name: turns(many[MOST], key) if MOST in many else None
                        for name, key in (("many memory", "peak_mb"), ("many percent", "percent"), ("many requests", "operations"))},
            "raw": {"workers": raw(results), "many": raw(many)}}


def cost(bench, seconds, workers, types):
    names = [f"t{i}" for i in range(1, types + 1)]
    with bench.queue() as queue:
        with ExitStack() as stack:
            running = [stack.enter_context(Worker(queue, types=names)) for _ in range(workers)]
            for worker in running:
                worker.wait_log(" start: ")
            time.sleep(bench.size(1, 5))  # what they do at their start is over
            beside = over(bench, seconds, [worker.pid for worker in running])
        alone = over(bench, seconds, [])
    return {key: (beside[key] - alone[key]) * 60 / seconds for key in KEYS}


def many_types(bench, seconds, count, busy):
    names = [f"t{i}" for i in range(1, count + 1)]
    with bench.queue() as queue:
        with Worker(queue, types=["*"]) as worker:
            begin = time.monotonic()
            fill(queue, names, count)
            first_s = time.monotonic() - begin
            fill(queue, names[:BUSY], busy)
            wait_until(lambda: queue.db.locks.find_one({"slot": 0}) is None, "locks that are released", 60, every_s=0.5)
            time.sleep(bench.size(2, 10))  # the types are forgotten
            beside = over(bench, seconds, [worker.pid])
            peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{worker.pid}/status").read_text())
            descriptors = len(list(Path(f"/proc/{worker.pid}/fd").iterdir()))
        alone = over(bench, seconds, [])
    return {"operations": (beside["operations"] - alone["operations"]) / seconds, "percent": beside["worker_ms"] / seconds / 10,
            "peak_mb": int(peak[1]) / 1024, "descriptors": descriptors, "first_s": first_s}


def fill(queue, names, count):
    """Inserts, and waits until all is in the files."""
    queue.fill(count, checkpoint=False, types=",".join(names))
    wait_until(lambda: not queue.waiting() and not queue.left(), f"{count} messages in their files", 600, every_s=0.1)


def over(bench, seconds, pids):
    before = counters(bench, pids)
    time.sleep(seconds)
    after = counters(bench, pids)
    return {key: after[key] - before[key] for key in KEYS}


def counters(bench, pids):
    status = bench.server.client.admin.command("serverStatus")
    network = status["network"]
    return {"operations": sum(count for count in status["opcounters"].values() if isinstance(count, int)),
            "requests": network["numRequests"], "kib": (network["bytesIn"] + network["bytesOut"]) / 1024,
            "mongod_ms": bench.server.processor_s() * 1000, "worker_ms": sum(map(processor_s, pids)) * 1000}
