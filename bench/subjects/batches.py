"""The drain by the size of a batch: --batch-messages."""
import drains
from figures import raw, rows, table
from harness import interleave

BATCHES = (100, 1_000, 10_000, 100_000)


def run(bench):
    count = bench.size(10_000, 200_000)
    results = interleave(bench, {f"{batch:,}": lambda batch=batch: once(bench, count, batch) for batch in BATCHES})
    return {"tables": [table("Drain by batch size, messages of 256 bytes, clustered",
                             ["--batch-messages", "messages/s", "mongod CPU, µs a message", "client CPU, µs a message",
                              "memory, peak, MB"],
                             rows(results, "rate", "mongod_us", "client_us", "peak_mb"),
                             [f"A backlog of {count:,} messages. 10,000 is the default; --batch-bytes (8 MiB) caps a batch too."])],
            "raw": raw(results)}


def once(bench, count, batch):
    with bench.queue() as queue:
        queue.fill(count)
        return drains.pawl(queue, count, "--batch-messages", str(batch))
