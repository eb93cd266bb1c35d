"""Whatever empties a queue, each in the same terms.

`rate` is without the start and end of the program, from the first read to the last acknowledged delete: a rival with a clock of its own
starts it when it has spoken with the server. A worker's are between two lines of its log: `takeover`, and the last that leaves the state
`draining`. `whole` is from the start of the program to its end.
"""
import re
import sys
from pathlib import Path
from statistics import median

from figures import column, measured, rows, table
from harness import Absent, NotMeasured, has_option, interleave, needs_package, program, wall_s

RIVALS = Path(__file__).parent / "rivals"


def result(messages, seconds, run, cpu=None, peak_mb=None):
    return {"rate": messages / seconds, "whole": messages / run["seconds"], "seconds": seconds, "messages": messages,
            "mongod_us": run["mongod_cpu"] * 1e6 / messages, "client_us": (run["cpu"] if cpu is None else cpu) * 1e6 / messages,
            "peak_mb": peak_mb or run["peak_mb"]}


def drained_seconds(log):
    begin = re.search(r"^(\S+Z).* takeover: ", log, re.M)
    ends = re.findall(r"^(\S+Z).* state: draining -> ", log, re.M)
    if not begin or not ends:
        raise NotMeasured("the worker's log says neither takeover nor when it left draining")
    return max(0.001, max(map(wall_s, ends)) - wall_s(begin[1]))


def needs_own(queue):
    if queue.own and not has_option("pawl-setup", "--own-collection"):
        raise Absent("this pawl has no own collections")


def pawl(queue, messages, *options, types=("t1",), documents=None):
    """A worker with --exit-when-empty. documents: if fewer than messages, which come in bundles."""
    needs_own(queue)
    run = queue.bench.run(program("pawl-worker"), *queue.mongo, "--dir", queue.dir, "--type", ",".join(types), "--exit-when-empty",
                          *options)
    written = sum(queue.ledger(name).get("seq", 0) for name in types)
    if written != (documents or messages):
        raise NotMeasured(f"pawl-worker wrote {written} of {documents or messages} documents")
    return result(messages, drained_seconds(run["errors"]), run)


def own_clock(queue, messages, *command):
    """A rival that says how long it took, and perhaps what it used meanwhile."""
    run = queue.bench.run(*command)
    if run.get("messages") != messages:
        raise NotMeasured(f"{run.get('messages')} of {messages} messages were drained")
    return result(messages, run["own_seconds"], run, run.get("own_cpu"))


def limit(queue, messages, deleters=2, ids=5_000, by="range", types=("t1",), readers=1):
    """What a drain can reach; see rivals/limit.c."""
    found = own_clock(queue, messages, program("limit"), f"uri={queue.bench.server.uri}", f"db={queue.name}", f"dir={queue.dir}",
                      f"types={','.join(types)}", f"readers={readers}", f"deleters={deleters}", f"ids={ids}", f"by={by}",
                      f"own={int(queue.own)}")
    if left := queue.left():
        raise NotMeasured(f"the limit program left {left} messages")
    return found


def limit_name(deleters, ids, by="range", readers=1):
    return f"limit, {deleters} deleting {ids:,}{' by _id' if by == 'ids' else ''}{f', {readers} reading' if readers > 1 else ''}"


def best_of(results, key="rate"):
    """The name of the contestant with the best median, of those that could be measured."""
    return next(iter(ranked(results, key)), None)


def ranked(results, key="rate"):
    found = measured(results)
    return sorted(found, key=lambda name: median(column(found[name], key)), reverse=True)


def qualify(bench, settings, keep=2):
    """Each setting of the limit once: (what that found, the `keep` fastest, which then compete in turns)."""
    tried = interleave(bench, settings, repeat=1)
    return tried, {name: settings[name] for name in ranked(tried)[:keep]}


QUALIFIED = "Each setting is tried once, and the two fastest compete in turns with the others."


def tried_table(title, tried):
    return table(title, ["", "messages/s", "start to end", "mongod CPU, µs a message"], rows(tried, "rate", "whole", "mongod_us"), [QUALIFIED])


def find_and_modify(queue, messages):
    return own_clock(queue, messages, program("find_and_modify"), f"uri={queue.bench.server.uri}", f"db={queue.name}",
                     f"file={queue.dir / 't1'}")


def pymongo_loop(queue, messages):
    return own_clock(queue, messages, sys.executable, RIVALS / "pymongo_loop.py", queue.bench.server.uri, queue.name, queue.dir / "t1")


def kombu(queue, messages, size):
    """Fills its own queue first: its messages have an envelope."""
    needs_package("kombu")
    command = [sys.executable, RIVALS / "kombu_drain.py"]
    uri = f"{queue.bench.server.uri.replace('?', queue.name + '?')}&w=majority"
    queue.bench.run(*command, "fill", uri, messages, size)
    queue.bench.server.client.admin.command("fsync")
    return own_clock(queue, messages, *command, "drain", uri, messages, queue.dir / "t1")
