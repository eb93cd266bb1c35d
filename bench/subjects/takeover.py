"""Takeover after SIGKILL of the holder, in leases."""
import os
import random
import signal
import time
from contextlib import ExitStack
from statistics import median

from figures import raw, rows, table
from harness import Worker, interleave, wait_until


def run(bench):
    leases = bench.size({1: 1}, {2: 6, 10: 3})  # seconds: kills a turn
    results = interleave(bench, {f"{lease} s": lambda lease=lease, kills=kills: chain(bench, lease, kills)
                                 for lease, kills in leases.items()})
    return {"tables": [table("Takeover after SIGKILL", ["--lease", "leases, median", "seconds, median", "leases, least of a turn", "leases, greatest of a turn"],
                             rows(results, "leases", "seconds", "least", "greatest"),
                             ["From the kill to the time in the first block of the next holder, while messages come in. The holder dies at a "
                              "random moment; it renews every third of a lease, so two thirds to a whole lease are left then."])],
            "raw": raw(results)}


def chain(bench, lease, kills):
    taken = []
    with bench.queue() as queue, queue.producer(count=10_000_000, rate=100, chunk=2), ExitStack() as stack:
        start = lambda: stack.enter_context(Worker(queue, "-v", "--lease", f"{lease}s"))
        holder = start()
        holder.wait_log(" takeover: ")
        for _ in range(kills):
            waiter = start()
            waiter.wait_log(" database: ")
            time.sleep(random.uniform(0.5, 1.5) * lease / 3)
            taken.append(kill(queue, holder, waiter))
            holder = waiter
    return {"leases": median(taken) / lease, "seconds": median(taken), "least": min(taken) / lease, "greatest": max(taken) / lease}


def kill(queue, holder, waiter):
    """Seconds until the waiter's first block."""
    epoch = queue.ledger()["epoch"]
    killed = time.time()
    os.kill(holder.pid, signal.SIGKILL)
    waiter.wait_log(" takeover: ", 120)
    after = wait_until(lambda: [block["time"] for block in queue.blocks() if block["epoch"] > epoch],
                       "the next holder's first block", 30, 0.1)
    return min(after) - killed
