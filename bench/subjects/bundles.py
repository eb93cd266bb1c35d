"""Bundles: many messages in one document of the queue."""
import drains
from figures import bars, raw, rows, table, turns
from harness import NotMeasured, has_option, interleave, program

COUNTS = {1: (10_000, 200_000), 10: (40_000, 1_000_000), 100: (200_000, 4_000_000), 1000: (200_000, 4_000_000)}
ENQUEUE = {"one by one": [], **{f"--bundle {size}": ["--bundle", size] for size in ("100", "1000", "auto")}}


def run(bench):
    drained = interleave(bench, {f"{bundle}": lambda bundle=bundle: drain(bench, bundle) for bundle in COUNTS})
    lines = bench.size(20_000, 400_000)
    enqueued = interleave(bench, {name: lambda options=options: enqueue(bench, lines, options) for name, options in ENQUEUE.items()})
    return {"tables": [table("Drain by bundle, messages of 256 bytes, clustered",
                             ["messages in a document", "messages/s", "mongod CPU, µs a message", "client CPU, µs a message",
                              "memory, peak, MB"], rows(drained, "rate", "mongod_us", "client_us", "peak_mb")),
                       table("pawl-enqueue", ["", "lines/s", "mongod CPU, µs a line", "client CPU, µs a line"],
                             rows(enqueued, "rate", "mongod_us", "client_us"),
                             [f"{lines:,} lines of 200 bytes from a file, to the program's end."])],
            "targets": {"bundles of 100": turns(drained["100"], "rate")},
            "bars": [bars("Drain by bundle", "messages/s", {f"pawl, {name} in a document": v for name, v in drained.items()}, "rate")],
            "raw": {"drained": raw(drained), "enqueued": raw(enqueued)}}


def drain(bench, bundle):
    documents = bench.size(*COUNTS[bundle]) // bundle
    with bench.queue() as queue:
        queue.fill(documents, bundle=bundle)
        return drains.pawl(queue, documents * bundle, documents=documents)


def enqueue(bench, lines, options):
    if options and not has_option("pawl-enqueue", "--bundle"):
        raise NotMeasured("this pawl-enqueue has no --bundle")
    with bench.queue() as queue:
        path = queue.dir / "lines"
        path.write_text("".join(f"{i:0199d}\n" for i in range(lines)))
        run = bench.run(program("pawl-enqueue"), *queue.mongo, "--type", "t1", *options, path)
        return drains.result(lines, run["seconds"], run)
