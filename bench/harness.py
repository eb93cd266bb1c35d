"""What every subject of the benchmark stands on: a private server, queues of either layout, and programs with what they cost.

Everything has a limit in count and in time, talks to 127.0.0.1 alone, and is ended by its process id.
"""
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pymongo
from pymongo.errors import OperationFailure

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("PAWL_BENCH_BUILD") or ROOT / "build-bench")
LIMIT_S = 300  # of any one program
MEMORY_MIB = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
OWN = "own collection"
CLUSTERED = {"clusteredIndex": {"key": {"_id": 1}, "unique": True}}
CACHE_MIB, OPLOG_MIB = min(4096, MEMORY_MIB // 4), 16384  # of the server: the backlog in memory, no oplog entry dropped while it is timed


class NotMeasured(Exception):
    """Why there is no figure; it goes into the results in place of one. scripts/bench then ends with 1."""


class Absent(NotMeasured):
    """A rival, or what one needs of the server, that cannot be had here: it is named, and that is no failure."""


def say(text):
    print(text, flush=True)


def program(name):
    """A program of pawl, or one of the benchmark's own."""
    for folder in ("pawl/bin", "."):
        if (BUILD / folder / name).is_file():
            return str(BUILD / folder / name)
    raise NotMeasured(f"there is no {name}")


def needs_package(name):
    """Of a rival in Python."""
    if not importlib.util.find_spec(name):
        raise Absent(f"there is no Python package {name} here")


def has_option(name, option):
    done = subprocess.run([program(name), "--help"], capture_output=True, text=True, check=False, timeout=20)
    return re.search(rf"(^|\s){re.escape(option)}\b", done.stdout) is not None


def wait_until(condition, what, limit_s=60, every_s=0.005):
    end = time.monotonic() + limit_s
    while not (value := condition()):
        if time.monotonic() > end:
            raise NotMeasured(f"{what}: not within {limit_s} s")
        time.sleep(every_s)
    return value


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def processor_s(pid):
    """User and system time of a process and its threads: the clock that clock_getcpuclockid(3) names, finer than /proc/PID/stat."""
    return time.clock_gettime(~pid << 3 | 2)


class Server:
    """A private replica set, by scripts/mongod, with its data on the disk that is measured. Its first node stays the primary."""

    def __init__(self, folder, members=1, delay_s=0):
        """delay_s: so long the other members wait before they apply what the primary has, so that a majority takes as long."""
        self.folder = folder
        env = {**os.environ, "PAWL_PYTHON": sys.executable, "PAWL_BIN": str(BUILD / "pawl")}
        done = subprocess.run([ROOT / "scripts/mongod", "start", "--replica-set", "--members", str(members), "--dir", folder], env=env, check=False,
                              capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise RuntimeError(f"no MongoDB server: {done.stderr.strip()}")
        self.uri = (folder / "uri").read_text().strip()
        self.pid = int((folder / "node1/pid").read_text())
        self.pids = [int(path.read_text()) for path in folder.glob("node*/pid")]
        self.client = pymongo.MongoClient(self.uri, w="majority", journal=True)
        self.version = self.client.server_info()["version"]
        for path in folder.glob("node*/port"):
            with pymongo.MongoClient("127.0.0.1", int(path.read_text()), directConnection=True) as node:
                node.admin.command("setParameter", 1, wiredTigerEngineRuntimeConfig=f"cache_size={CACHE_MIB // members}M")
                node.admin.command("replSetResizeOplog", 1, size=float(OPLOG_MIB))
        if members > 1:
            self._keep_primary(delay_s)

    def _keep_primary(self, delay_s):
        config = self.client.admin.command("replSetGetConfig")["config"]
        config["version"] += 1
        for member in config["members"][1:]:
            member.update(priority=0, secondaryDelaySecs=delay_s)
        self.client.admin.command("replSetReconfig", config)

    def processor_s(self):
        """Of all members."""
        return sum(map(processor_s, self.pids))

    def skipped(self):
        """Index entries, deleted and kept for older snapshots, that its cursors have gone over so far."""
        cursor = self.client.admin.command("serverStatus")["wiredTiger"]["cursor"]
        return sum(cursor[f"Total number of entries skipped by cursor {way} calls"] for way in ("next", "prev"))

    def stop(self):
        self.client.close()
        subprocess.run([ROOT / "scripts/mongod", "stop", "--dir", self.folder], check=False, capture_output=True, timeout=60)
        shutil.rmtree(self.folder, ignore_errors=True)


class Queue:
    """A database of its own and a directory for its files; both are gone at the end of a with.

    layout: how the collection `messages` is made; or OWN: each of `types` has a collection of its own, clustered and without that index.
    """

    def __init__(self, bench, layout, types):
        self.bench, self.name, self.own = bench, f"bench{bench.next_number()}", layout == OWN
        self.dir = bench.work / self.name
        self.db = bench.server.client[self.name]
        self.mongo = ["--uri", bench.server.uri, "--db", self.name]
        self.collections = [self.db[f"messages.{name}"] for name in types] if self.own else [self.db.messages]
        try:
            if self.own:
                self._give_own(types)
            else:
                self._lay_out(layout)
        except OperationFailure as error:
            raise Absent(f"MongoDB {bench.server.version} makes no {layout} collection ({error.code_name})") from None

    def _lay_out(self, layout):
        self.db.create_collection("messages", **(CLUSTERED if layout == "clustered" else {}))
        self.db.messages.create_index([("type", 1), ("_id", 1)])

    def _give_own(self, types):
        """By pawl-setup; without it the limit program alone can use them."""
        if has_option("pawl-setup", "--own-collection"):
            done = subprocess.run([program("pawl-setup"), *self.mongo, "--type", ",".join(types), "--own-collection"], capture_output=True,
                                  text=True, check=False, timeout=LIMIT_S, env=self.bench.environment())
            if done.returncode:
                raise NotMeasured(f"pawl-setup: {done.stderr.strip()}")
            return
        for collection in self.collections:
            self.db.create_collection(collection.name, **CLUSTERED)

    def waiting(self):
        """So many documents."""
        return sum(collection.estimated_document_count() for collection in self.collections)

    def left(self):
        """The same, exactly."""
        return sum(collection.count_documents({}) for collection in self.collections)

    def __enter__(self):
        self.dir.mkdir()
        return self

    def __exit__(self, *_):
        self.bench.server.client.drop_database(self.name)
        shutil.rmtree(self.dir, ignore_errors=True)

    def fill(self, count, checkpoint=True, **options):
        """Inserts, and lets the server write down what it has, so that it does not do so while something is timed."""
        words = [f"{name}={value}" for name, value in {"count": count, "most_s": LIMIT_S, "own": int(self.own), **options}.items()]
        done = self.bench.run(program("fill"), f"uri={self.bench.server.uri}", f"db={self.name}", *words)
        if done["documents"] != count:
            raise NotMeasured(f"only {done['documents']} of {count} messages could be inserted in {LIMIT_S} s")
        if checkpoint:
            self.bench.server.client.admin.command("fsync")

    def producer(self, **options):
        """One that goes on in the background."""
        words = [f"{name}={value}" for name, value in {"most_s": LIMIT_S, "own": int(self.own), **options}.items()]
        return Background(self.bench, program("fill"), f"uri={self.bench.server.uri}", f"db={self.name}", *words,
                          output=self.dir / "producer.output")

    def ledger(self, type_name="t1"):
        return self.db.ledger.find_one({"_id": type_name}) or {}

    def blocks(self, type_name="t1"):
        """One dictionary a block, of all segments in their order."""
        done = subprocess.run([program("pawl-dump"), "--format", "blocks", "--dir", self.dir, "--type", type_name], capture_output=True,
                              text=True, check=False, timeout=LIMIT_S)
        if done.returncode:
            raise NotMeasured(f"pawl-dump: {done.stderr.strip()}")
        return [block(line) for line in done.stdout.splitlines()]


def block(line):
    name, offset, kind, _, epoch, first, last, messages, _, stored, _, _, when, _ = line.split()
    return {"file": name, "kind": kind, "epoch": int(epoch), "messages": int(messages), "first": int(first),
            "last": int(last) if last != "-" else 0, "end": int(offset) + 128 + int(stored), "time": wall_s(when)}


def wall_s(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Worker:
    """A pawl-worker that runs beside the benchmark until it is stopped or killed."""

    def __init__(self, queue, *options, types=("t1",), env=None):
        self.log_path = queue.dir / f"worker{queue.bench.next_number()}.log"
        words = [program("pawl-worker"), *queue.mongo, "--dir", queue.dir, "--type", ",".join(types), *options]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=queue.bench.environment(**(env or {})))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end_process(self.process)

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait_log(self, pattern, limit_s=30):
        wait_until(lambda: re.search(pattern, self.log()) or self.process.poll() is not None, f"/{pattern}/ in a worker's log", limit_s)
        if self.process.poll() is not None:
            raise NotMeasured(f"a worker ended: {self.log().splitlines()[-1:]}")


def end_process(process, grace_s=10):
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Bench:
    """One call of the benchmark: its settings, its folder, its server."""

    def __init__(self, work, quick, repeat):
        self.work, self.quick, self.repeat = work, quick, repeat
        self.number, self.server = 0, None
        self.failed = []  # what could not be measured and should have been
        self.home = work / "home"
        self.home.mkdir(parents=True)

    def start_server(self):
        self.stop_server()
        self.server = Server(self.work / "mongod")

    def stop_server(self):
        if self.server:
            self.server.stop()
        self.server = None

    def next_number(self):
        self.number += 1
        return self.number

    def not_measured(self, what, reason):
        if not isinstance(reason, Absent):
            self.failed.append(f"{what}: {reason}")

    def size(self, quick, full):
        return quick if self.quick else full

    def environment(self, **more):
        """The caller's without PAWL_*, which would be options of the programs."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PAWL_")}
        return {**clean, "XDG_STATE_HOME": str(self.home), **{name: str(value) for name, value in more.items()}}

    def queue(self, layout="clustered", types=("t1",)):
        return Queue(self, layout, types)

    def run(self, *command, limit_s=LIMIT_S, env=None, stdin=None, stdout=None):
        """A program to its end: what it cost, and what it printed if that is JSON. `stdout`: its output goes there instead."""
        name = Path(command[1] if command[0] == sys.executable else command[0]).name
        out = [self.work / f"run.{what}" for what in ("cost", "output", "errors")]
        server_before = self.server.processor_s() if self.server else 0
        with open(stdout or out[1], "wb") as output, open(out[2], "wb") as errors:
            process = subprocess.Popen([program("measure"), out[0], *map(str, command)], stdin=stdin or subprocess.DEVNULL, stdout=output,
                                       stderr=errors, start_new_session=True, env=self.environment(**(env or {})))
            try:
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                raise NotMeasured(f"{name} did not end within {limit_s} s") from None
            finally:
                end_group(process)
        errors = out[2].read_text(errors="replace")
        if process.returncode:
            raise NotMeasured(f"{name} ended with {process.returncode}: {(errors.strip().splitlines() or ['?'])[-1]}")
        cost = json.loads(out[0].read_text())
        cost["mongod_cpu"] = (self.server.processor_s() if self.server else 0) - server_before
        cost["errors"] = errors
        return {**cost, **({} if stdout else printed(out[1]))}


class Background:
    """A program that runs beside the benchmark for the length of a with."""

    def __init__(self, bench, *command, output, **how):
        with open(output, "wb") as file:
            self.process = subprocess.Popen([str(word) for word in command], stdout=file, stderr=subprocess.STDOUT,
                                            **{"stdin": subprocess.DEVNULL, "env": bench.environment(), **how})

    def __enter__(self):
        return self.process

    def __exit__(self, *_):
        end_process(self.process)


def end_group(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def printed(path):
    try:
        found = json.loads(path.read_text())
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def interleave(bench, contestants, repeat=None):
    """Each contestant in turn, and all of that again, beginning with another one each time: {name: [result, …]}, or {name: NotMeasured}
    for one that cannot be measured."""
    results = {name: [] for name in contestants}
    repeat = repeat or bench.repeat
    for turn in range(repeat):
        first = turn * len(contestants) // repeat
        for name in [*list(contestants)[first:], *list(contestants)[:first]]:
            run = contestants[name]
            if isinstance(results[name], NotMeasured):
                continue
            try:
                results[name].append(run())
                say(f"  {turn + 1}/{repeat} {name}: {brief(results[name][-1])}")
            except (NotMeasured, subprocess.TimeoutExpired, BrokenPipeError) as reason:
                results[name] = NotMeasured(str(reason))
                bench.not_measured(name, reason)
                say(f"  {turn + 1}/{repeat} {name}: not measured: {reason}")
    return results


def brief(result):
    if isinstance(result, dict):
        return ", ".join(f"{name} {value:.4g}" for name, value in result.items() if isinstance(value, (int, float)))
    return f"{result:.4g}"
