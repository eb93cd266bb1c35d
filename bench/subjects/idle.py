"""What workers with nothing to do cost the server."""
import time
from contextlib import ExitStack

from figures import raw, rows, table
from harness import Worker, interleave, processor_s

CASES = {"1 worker, 1 type": (1, 1), "1 worker, 16 types": (1, 16), "10 workers, the same type": (10, 1)}
KEYS = ("operations", "requests", "kib", "mongod_ms", "worker_ms")


def run(bench):
    seconds = bench.size(1, 30)
    results = interleave(bench, {name: lambda case=case: cost(bench, seconds, *case) for name, case in CASES.items()})
    return {"tables": [table("Cost of idle workers, a minute",
                             ["", "server operations", "network requests", "network KiB", "mongod CPU, ms", "worker CPU, ms"],
                             rows(results, *KEYS),
                             [f"serverStatus (opcounters, network) over {seconds} s, minus the server's own operations in the same time. "
                              "Options at their defaults; the queue is empty and nobody holds a lock."])],
            "raw": raw(results)}


def cost(bench, seconds, workers, types):
    names = [f"t{i}" for i in range(1, types + 1)]
    with bench.queue() as queue, ExitStack() as stack:
        alone = over(bench, seconds, [])
        running = [stack.enter_context(Worker(queue, types=names)) for _ in range(workers)]
        for worker in running:
            worker.wait_log(" start: ")
        time.sleep(bench.size(1, 5))  # what they do at their start is over
        beside = over(bench, seconds, [worker.pid for worker in running])
    return {key: (beside[key] - alone[key]) * 60 / seconds for key in KEYS}


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
