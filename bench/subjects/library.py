"""The lock library: cycles, hand-over, fairness, slots, documents, and what held names cost; beside mongolock, Redis and etcd."""
import shutil
import sys
import time
from contextlib import ExitStack, contextmanager
from statistics import mean

import locks
from figures import bars, column, number, quantile, ratios, raw, rows, spread, table
from harness import Absent, BUILD, Background, NotMeasured, answers, free_port, interleave, needs_package, processor_s, program, wait_until
from subjects.handover import CROWD, redis_server

CROWDS = (2, 10, 50, 200)
HOLD_MS, SLOTS = 50, 4
FAIR = {"waiting": 10, "hold_ms": 5}
LEASES = {"30 s": 30000, "5 min": 300000}
HOW_CYCLES = ["One process that takes a lock which no other process wants, and releases it, over and over. The library fences each take: a majority write of its "
              "own. mongolock has no fence; Redis (append-only, synced always) and etcd (its own lock, by the JSON gateway) are one node each."]
HOW_CROWD = [f"All ask at one time, and each holds for {HOLD_MS} ms. Hand-over: from the end of one's hold to the beginning of the next one's. Total: from the "
             "first hold's beginning to the last one's end, times the sum of all holds. The library: a process a waiter; the others: a thread a waiter."]
HOW_FAIR = [f"{FAIR['waiting'] + 1} take the lock for {FAIR['hold_ms']} ms again and again. The fair share of a wait: the others' turns, each of a mean hold and "
            "hand-over; 1 is what a strict order gives."]
HOW_SLOTS = [f"A lock with {SLOTS} slots, of which each waiter holds one for {HOLD_MS} ms; 20 and 50 want one. Total: times the sum of the holds by the number of slots. "
             f"Redis: a list with {SLOTS} tokens, without a lease."]
HOW_DOCUMENTS = ["One process that locks the first of 1,000 documents that match, and releases it, over and over. By hand: findAndModify and update, by majority, "
                 "without lease and token."]
HOW_HELD = ["A process that holds so many names, and does nothing else; over a lease, or a minute if that is longer. Processor time in percent of a core."]


def run(bench):
    seconds = bench.size(1, 5)
    cycles = interleave(bench, {
        "the library": lambda: library(bench, how="cycles", seconds=seconds),
        "mongolock": lambda: rival(bench, "mongolock", "cycles", seconds),
        "Redis, SET NX PX": lambda: rival(bench, "redis-set", "cycles", seconds),
        "Redis, list": lambda: rival(bench, "redis", "cycles", seconds),
        "etcd": lambda: rival(bench, "etcd", "cycles", seconds)})
    crowds = interleave(bench, {f"{who}, {n} waiting": lambda kind=kind, n=n: crowd(bench, kind, n, HOLD_MS)
                                for n in bench.size((2, 10), CROWDS) for who, kind in RIVALS.items()})
    fair = interleave(bench, {who: lambda kind=kind: fairness(bench, kind, bench.size(2, 10)) for who, kind in RIVALS.items()})
    slots = interleave(bench, {f"{who}, {n} want one": lambda kind=kind, n=n: crowd(bench, kind, n - SLOTS, HOLD_MS, SLOTS)
                               for n in bench.size((8,), (20, 50)) for who, kind in {"the library": None, "Redis, list": f"redis:{SLOTS}"}.items()})
    documents = interleave(bench, {"the library": lambda: document_cycles(bench, "crowd", seconds),
                                   "by hand": lambda: document_cycles(bench, "document_lock", seconds)})
    count = bench.size(200, 10_000)
    held = interleave(bench, {f"{count:,} names, lease {lease}": lambda ms=ms: held_names(bench, count, ms) for lease, ms in LEASES.items()},
                      repeat=min(bench.repeat, 2))
    few = f"the library, {CROWDS[0]} waiting"
    many = crowds.get(f"the library, {CROWDS[-1]} waiting")
    fair_ones = fair["the library"]
    return {"tables": [table("Take and release, alone", ["", "a second"], rows(cycles, "rate"), HOW_CYCLES + ratio_notes(cycles)),
                       table("A crowd", ["", "hand-over, median, ms", "p99, ms", "total", "server CPU, ms a turn"],
                             rows(crowds, "median_ms", "p99_ms", "total", "server_ms"), HOW_CROWD),
                       table("Fairness", ["", "turns a second", "wait, median, of the fair share", "longest"], rows(fair, "rate", "median_share", "most_share"), HOW_FAIR),
                       table("Slots", ["", "total"], rows(slots, "total"), HOW_SLOTS),
                       table("A document, locked and released", ["", "a second"], rows(documents, "rate"), HOW_DOCUMENTS + ratio_notes(documents)),
                       table("Names that are held", ["", "process, % of a core", "mongod, % of a core", "memory, MB", "memory, bytes a name"],
                             rows(held, "process", "mongod", "mb", "bytes"), HOW_HELD)],
            "targets": {"library handover": column(crowds[few], "median_ms"),
                        **({"library crowd": column(many, "total")} if isinstance(many, list) else {}),
                        **({"library fairness": column(fair_ones, "most_share")} if isinstance(fair_ones, list) else {})},
            "bars": [bars("Hand-over of a lock of the library, median", "ms", crowds, "median_ms", place)],
            "raw": {"cycles": raw(cycles), "crowds": raw(crowds), "fairness": raw(fair), "slots": raw(slots), "documents": raw(documents), "held": raw(held)}}


RIVALS = {"the library": None, "mongolock": "mongolock", "Redis, SET NX PX": "redis-set", "Redis, list": "redis", "etcd": "etcd"}


def place(name):
    label, _, waiting = name.rpartition(", ")
    return waiting, label


def ratio_notes(results):
    first, *others = results
    found = {other: ratios(results[first], results[other]) for other in others}
    return [f"Times {other}: {spread(values)}." for other, values in found.items() if values]


# --- the contestants ---


def library_command(queue, program_name="crowd", **arguments):
    return [program(program_name), f"uri={queue.bench.server.uri}", f"db={queue.name}", *(f"{name}={value}" for name, value in arguments.items())]


def rated(found):
    return {"rate": found["messages"] / found["own_seconds"]}


def library(bench, **arguments):
    with bench.queue() as queue:
        return rated(bench.run(*library_command(queue, **arguments)))


@contextmanager
def rival_server(bench, kind):
    """(address, the server's pid)"""
    if kind == "mongolock":
        with bench.queue() as queue:
            yield bench.server.uri.replace("?", queue.name + "?") + "&w=majority", bench.server.pid
    elif kind == "etcd":
        with etcd_server(bench) as (port, pid):
            yield f"http://127.0.0.1:{port}", pid
    else:
        needs_package("redis")
        with redis_server(bench) as (_, port, pid):
            yield f"redis://127.0.0.1:{port}/0", pid


@contextmanager
def etcd_server(bench):
    unpacked = BUILD / "etcd/usr/bin/etcd"
    found = shutil.which("etcd") or (unpacked.is_file() and str(unpacked))
    if not found:
        raise Absent("no etcd here (Debian: etcd-server)")
    folder, client, peer = bench.work / f"etcd{bench.next_number()}", free_port(), free_port()
    folder.mkdir()
    here = f"http://127.0.0.1:{client}"
    options = ["--data-dir", folder / "data", "--listen-client-urls", here, "--advertise-client-urls", here,
               "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
               "--initial-cluster", f"default=http://127.0.0.1:{peer}"]
    try:
        with Background(bench, found, *options, output=folder / "output") as process:
            wait_until(lambda: answers(client) and "ready to serve client requests" in (folder / "output").read_text(), "etcd", 20)
            yield client, process.pid
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def rival(bench, kind, *arguments):
    with rival_server(bench, kind) as (address, _):
        if kind == "mongolock":
            needs_package("mongolock")
        return rated(bench.run(sys.executable, CROWD, kind, address, *arguments))


# --- crowds ---


@contextmanager
def taking_turns(bench, kind, count, ms, seconds, slots=1):
    """So many that take turns, to their end: the file with their stamps, and the server's pid. kind None: the library."""
    with ExitStack() as stack:
        if kind:
            address, pid = stack.enter_context(rival_server(bench, kind.partition(":")[0]))
            if kind == "mongolock":
                needs_package("mongolock")
            folder = bench.work / f"turns{bench.next_number()}"
            folder.mkdir()
            stack.callback(shutil.rmtree, folder, True)
            commands = [[sys.executable, CROWD, kind, address, "turns", ms, seconds, count, folder / "stamps"]]
        else:
            queue, pid = stack.enter_context(bench.queue()), bench.server.pid
            folder = queue.dir
            commands = [library_command(queue, how="turns", name="lock", slots=slots, ms=ms, file=folder / "stamps", seconds=seconds)] * count
        processes = [stack.enter_context(Background(bench, *command, output=folder / f"output{i}")) for i, command in enumerate(commands)]
        yield folder / "stamps", processes, pid


def ends(processes, limit_s):
    wait_until(lambda: all(process.poll() is not None for process in processes), "the last turn", limit_s, 0.02)
    if any(process.returncode for process in processes):
        raise NotMeasured(f"one of them ended with {max(process.returncode for process in processes)}")


def crowd(bench, kind, waiting, ms, slots=1):
    """One turn each."""
    count = waiting + slots
    with taking_turns(bench, kind, count, ms, 0, slots) as (path, processes, pid):
        before = processor_s(pid)
        ends(processes, 120)
        server_ms = (processor_s(pid) - before) * 1000 / count
        turns = locks.read_turns(path)
    if len(turns) != count:
        raise NotMeasured(f"only {len(turns)} of {count} had their turn")
    gaps = [(after[1] - turn[2]) * 1000 for turn, after in zip(turns, turns[1:])]
    if slots == 1 and min(gaps) < 0:
        raise NotMeasured("two held the lock at once")
    holds = sum(end - begin for _, begin, end in turns) / slots
    return {"median_ms": quantile(gaps, 0.5), "p99_ms": quantile(gaps, 0.99), "total": (max(turn[2] for turn in turns) - turns[0][1]) / holds,
            "server_ms": server_ms}


def fairness(bench, kind, seconds):
    """They come back at once, again and again."""
    count = FAIR["waiting"] + 1
    with taking_turns(bench, kind, count, FAIR["hold_ms"], seconds) as (path, processes, _):
        ends(processes, seconds + 60)
        turns = locks.read_turns(path)
    begin = turns[0][1] + seconds * 0.2  # until then they were started
    until = turns[0][1] + seconds * 0.9
    steady = [turn for turn in turns if turn[0] > begin and turn[1] < until]
    if len(steady) < 2 * count:
        raise NotMeasured(f"only {len(steady)} turns")
    cycle = mean(after[1] - turn[1] for turn, after in zip(steady, steady[1:]))
    shares = [(turn[1] - turn[0]) / ((count - 1) * cycle) for turn in steady]
    return {"rate": 1 / cycle, "median_share": quantile(shares, 0.5), "most_share": max(shares)}


# --- documents, and names that are held ---


def document_cycles(bench, name, seconds):
    with bench.queue() as queue:
        queue.db.work.insert_many([{"state": "new", "n": n} for n in range(1000)])
        queue.db.work.create_index([("state", 1), ("_id", 1)])
        return rated(bench.run(*library_command(queue, name, how="documents", seconds=seconds)))


def memory_mb(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


def held_names(bench, count, lease_ms):
    with bench.queue() as queue:
        def memory(names):
            with Background(bench, *library_command(queue, how="holds", count=names, lease_ms=lease_ms), output=queue.dir / "held") as process:
                wait_until(lambda: "held\n" in (queue.dir / "held").read_text() or process.poll() is not None, f"{names} names", 300, 0.05)
                if process.poll() is not None:
                    raise NotMeasured(f"it ended with {process.returncode}")
                found = {"mb": memory_mb(process.pid)}
                if names > 1:
                    seconds = bench.size(2, max(60, lease_ms / 1000))
                    before = processor_s(process.pid), processor_s(bench.server.pid)
                    time.sleep(seconds)
                    found |= {"process": (processor_s(process.pid) - before[0]) * 100 / seconds,
                              "mongod": (processor_s(bench.server.pid) - before[1]) * 100 / seconds}
                return found
        few, many = memory(1), memory(count)
        return {**many, "bytes": (many["mb"] - few["mb"]) * 2**20 / (count - 1)}
