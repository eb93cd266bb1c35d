"""The drain by settings of the worker and of the replica set, beside the default in the same turn."""
from contextlib import ExitStack, contextmanager

import drains
from figures import column, ratios, raw, spread, table
from harness import NotMeasured, Server, interleave

MESSAGE = 256
OPTIONS = {"--segment-bytes 64KiB": ("--segment-bytes", "64KiB"), "--segment-bytes 16MiB": ("--segment-bytes", "16MiB"),
           "--codec zstd": ("--codec", "zstd")}
COMPRESSORS = ("zstd", "snappy", "zlib")  # of the connections
DEFAULT, THREE, LATE = "default", "three members", "three members, a late majority"
HEAD = ["", "messages/s", "times the default", "mongod CPU, µs a message", "client CPU, µs a message", "memory, peak, MB", "bytes in the file, a message",
        "bytes on the wire, a message"]


def run(bench):
    count, few, lag_s = bench.size(20_000, 400_000), bench.size(5_000, 40_000), bench.size(1, 4)
    with ExitStack() as stack:
        contestants = {DEFAULT: lambda: once(bench, count),
                       **{name: lambda words=words: once(bench, count, *words) for name, words in OPTIONS.items()},
                       **{f"compressors={name}": lambda name=name: once(bench, count, compressor=name) for name in COMPRESSORS}}
        for name, delay_s, some in ((THREE, 0, count), (LATE, lag_s, few)):
            server = Server(bench.work / f"mongod{bench.next_number()}", 3, delay_s)
            stack.callback(server.stop)
            contestants[name] = lambda server=server, some=some: elsewhere(bench, server, some)
        results = interleave(bench, contestants)
    return {"tables": [table(f"Drain by settings, messages of {MESSAGE} bytes, clustered", HEAD, [row(name, values, results[DEFAULT]) for name, values in results.items()],
                             [f"{count:,} messages, {few:,} for the late majority, which all members have before the clock runs. default: one member, one segment, --codec plain.",
                              "A segment is begun before a block that it has no room for: with 64KiB each block has its own, with 16MiB some share one. The text of the "
                              "messages is random letters, of 6 bits each; how well your own compress decides.",
                              "compressors: of the URI. What the server saves in bytes it pays in processor time, and this machine's own network costs nothing.",
                              "three members: all on this machine, with a third of the cache each, so the three servers share its cores and its disk; CPU of mongod "
                              f"is that of all members. A late majority: both secondaries apply what the primary has {lag_s} s later (secondaryDelaySecs), so that "
                              "each write that waits for the majority takes as long, and the server's flow control is at its default."])],
            "raw": raw(results)}


def row(name, mine, default):
    if isinstance(mine, NotMeasured):
        return [name, f"not measured: {mine}", *[""] * (len(HEAD) - 2)]
    beside = ratios(mine, default)
    return [name, spread(column(mine, "rate")), spread(beside) if beside else "not measured",
            *(spread(column(mine, key)) for key in ("mongod_us", "client_us", "peak_mb", "bytes", "wire"))]


def once(bench, count, *options, compressor=None):
    with bench.queue() as queue:
        if compressor:
            queue.mongo[1] += f"&compressors={compressor}"
        queue.fill(count, bytes=MESSAGE)
        queue.db.marker.insert_one({})  # w: majority, and what was before it has a majority then, too
        before = on_the_wire(bench)
        found = drains.pawl(queue, count, *options)
        return {**found, "bytes": sum(path.stat().st_size for path in queue.dir.glob("t1*.bin")) / count,
                "wire": (on_the_wire(bench) - before) / count}


def on_the_wire(bench):
    """In and out, of the primary and all its clients."""
    network = bench.server.client.admin.command("serverStatus")["network"]
    return network["physicalBytesIn"] + network["physicalBytesOut"]


@contextmanager
def on(bench, server):
    usual, bench.server = bench.server, server
    try:
        yield
    finally:
        bench.server = usual


def elsewhere(bench, server, count):
    with on(bench, server):
        return once(bench, count)
