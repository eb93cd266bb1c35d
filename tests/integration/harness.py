"""What the integration tests are made of: private servers, workers, a foreign producer, and the exact comparison.

Nothing here sleeps to synchronise: wait_until looks for a condition until a deadline.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import bson
import pymongo
from bson import json_util
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo.errors import BulkWriteError, PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import reader  # noqa: E402

BIN = Path(os.environ.get("PAWL_BIN") or ROOT / "build")
DEADLINE = float(os.environ.get("PAWL_TEST_DEADLINE_S", "60"))
STATE = tempfile.TemporaryDirectory(prefix="pawl-test-state.", dir=os.environ.get("PAWL_TEST_TMP"))  # pawl-enqueue's last _id
RAW = CodecOptions(document_class=RawBSONDocument)
# Short, so that tests are: a lease of 1 s, and no waiting on an empty queue.
QUICK = ["--lease", "1s", "--retry", "50ms", "--poll", "50ms", "--linger", "300ms"]
# Where nobody waits for its end: a request may take 3 s instead of a third of one, and a busy machine loses no lease.
CALM = ["--lease", "30s"]
bson.ObjectId._inc = 0  # it begins anywhere, and where it overflows the _ids of a second are out of order


def program(name):
    for folder in (BIN, BIN / "bin"):
        if (folder / name).is_file():
            return str(folder / name)
    raise FileNotFoundError(f"{name} is not built in {BIN} (PAWL_BIN)")


def environment(**more):
    """The caller's without PAWL_*, which would be options of the programs. The driver keeps no counters in /dev/shm, where a killed process
    would leave them to the next one with its pid."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PAWL_")}
    return {**clean, "MONGOC_DISABLE_SHM": "1", "XDG_STATE_HOME": STATE.name, **{name: str(value) for name, value in more.items()}}


def run(name, *arguments, stdin=None, env=None, timeout=DEADLINE, prefix=()):
    """A program to its end; returncode, stdout and stderr as bytes. prefix: a command that executes it."""
    return subprocess.run([*map(str, prefix), program(name), *map(str, arguments)], input=stdin, capture_output=True, check=False, timeout=timeout,
                          env=environment(**(env or {})), stdin=None if stdin is not None else subprocess.DEVNULL)


def answered(call):
    """What of pawl asks MongoDB but once, asked once more if there was no answer in time, as a person would."""
    done = call()
    return call() if done.returncode == 69 and b"does not permit" not in done.stderr else done


def wait_until(condition, what, deadline=DEADLINE):
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline:g} s: {what() if callable(what) else what}")
        time.sleep(0.02)


def process_state(pid):
    """The state letter of /proc, `T` when stopped; None when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


# --- servers ----------------------------------------------------------------------------------------------------


class Mongod:
    """A private server, by scripts/mongod."""

    def __init__(self, folder, *options):
        self.folder, self.options = Path(folder), options
        self.client = None

    def start(self):
        env = {**os.environ, "PAWL_PYTHON": sys.executable, "PAWL_BIN": str(BIN)}
        done = subprocess.run([ROOT / "scripts/mongod", "start", "--dir", self.folder, *self.options], env=env, check=False,
                              capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        if not self.client:
            self.client = pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=20000, w="majority", journal=True)
            self.client.admin.command("ping")
        return self

    @property
    def uri(self):
        return (self.folder / "uri").read_text().strip()

    @property
    def replica_set(self):
        return "replicaSet" in self.uri

    @property
    def clusters(self):
        """Whether it makes clustered collections, as MongoDB does since 5.3."""
        return self.client.server_info()["versionArray"][:2] >= [5, 3]

    def pid(self):
        return int((self.folder / "node1/pid").read_text())

    def kill(self):
        pid = self.pid()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: process_state(pid) in (None, "Z"), f"the end of mongod {pid}")

    def stop(self):
        if self.client:
            self.client.close()
        subprocess.run([ROOT / "scripts/mongod", "stop", "--dir", self.folder], check=False, capture_output=True, timeout=60)


# --- workers ----------------------------------------------------------------------------------------------------


class Worker:
    """A pawl-worker whose log goes to a file. prefix: a command that executes it in its own process (disks.machine)."""

    def __init__(self, arguments, log, env=None, quick=True, prefix=()):
        self.log_path, self.peak_kib = Path(log), 0
        command = [*map(str, prefix), program("pawl-worker"), *(QUICK if quick else []), *map(str, arguments)]
        with open(log, "wb") as file:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                            env=environment(**(env or {})))
        self.pid = self.process.pid

    def log(self):
        return self.log_path.read_text(errors="replace")

    def __str__(self):
        return f"worker {self.pid} ({self.process.poll()}), its log:\n{self.log()[-4000:]}"

    def alive(self):
        return self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def freeze(self):
        self.signal(signal.SIGSTOP)
        self.wait_frozen()

    def wait_frozen(self):
        wait_until(lambda: process_state(self.pid) == "T" or not self.alive(), lambda: f"a stop of {self}")
        assert self.alive(), f"it ended instead of stopping: {self}"

    def thaw(self):
        self.signal(signal.SIGCONT)

    def wait(self, deadline=DEADLINE):
        """Its exit status; by a signal: the negative number."""
        try:
            return self.process.wait(deadline)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not at its end within {deadline:g} s: {self}") from None

    def takes_signals(self):
        """Its main has begun: what SIGTERM does is its own doing, no longer the system's."""
        try:
            caught = re.search(r"SigCgt:\s+(\w+)", Path(f"/proc/{self.pid}/status").read_text())
        except OSError:
            return False
        return bool(caught and int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)

    def stop(self, deadline=30):
        """SIGTERM; exit status and seconds."""
        wait_until(lambda: self.takes_signals() or not self.alive(), lambda: f"the start of {self}")
        begin = time.monotonic()
        self.signal(signal.SIGTERM)
        return self.wait(deadline), time.monotonic() - begin

    def kill(self):
        if self.alive():
            self.process.kill()
            self.process.wait()

    def wait_log(self, pattern, deadline=DEADLINE):
        wait_until(lambda: re.search(pattern, self.log()) or not self.alive(), lambda: f"/{pattern}/ in the log of {self}", deadline)
        assert re.search(pattern, self.log()), f"it ended without /{pattern}/: {self}"

    def sample_memory(self):
        try:
            found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())
        except OSError:
            return
        self.peak_kib = max(self.peak_kib, int(found[1]) if found else 0)


class Field:
    """One test's ground: a fresh database, a fresh folder, and all processes that must be gone at its end."""

    def __init__(self, server, database, folder):
        self.server, self.name, self.folder = server, database, Path(folder)
        self.dir = self.folder / "storage"
        self.dir.mkdir()
        self.workers, self.acknowledged, self.unknown = [], {}, []
        majority = {"write_concern": WriteConcern("majority", j=True)}
        self.db = server.client.get_database(database, **majority)
        self.messages = self.db.get_collection("messages", codec_options=RAW, **majority)
        concern = {"read_concern": ReadConcern("majority")} if server.replica_set else {}
        self.ledgers, self.locks = self.db.get_collection("ledger", **concern), self.db.locks
        self.mongo = ["--uri", server.uri, "--db", database]

    # programs

    def app_name(self, program="pawl-worker"):
        """What the server knows its connections by: for fail points."""
        return f"{program}@{self.name}"

    def worker(self, *arguments, types=("t1",), env=None, directory=None, quick=True, mongo=None, prefix=()):
        types = [word for name in types for word in ("--type", name)]
        worker = Worker([*(mongo or self.mongo), "--dir", directory or self.dir, *types, *arguments],
                        self.folder / f"worker{len(self.workers)}.log", env, quick, prefix)
        self.workers.append(worker)
        return worker

    def drain(self, *arguments, types=("t1",), deadline=DEADLINE, **more):
        """A worker that empties the queue of its types, releases and ends."""
        worker = self.worker("--exit-when-empty", *arguments, types=types, **more)
        assert worker.wait(deadline) == 0, str(worker)
        return worker

    def run(self, name, *arguments, **more):
        return run(name, *self.mongo, *arguments, **more)

    def close(self):
        for worker in self.workers:
            worker.kill()

    # the foreign producer: pymongo and a plain insert

    def insert(self, producer, documents):
        """Inserts in order; what was acknowledged is kept, in order, as the bytes that were sent."""
        raws = [document if isinstance(document, bytes) else bson.encode({"_id": bson.ObjectId(), **document}) for document in documents]
        kept = self.acknowledged.setdefault(producer, [])
        try:
            self.messages.insert_many([RawBSONDocument(raw) for raw in raws], ordered=True)
            kept.extend(raws)
        except BulkWriteError as error:
            sure = error.details["nInserted"] if not error.details.get("writeConcernErrors") else 0
            kept.extend(raws[:sure])
            self.unknown.extend(raws[sure:])
        except PyMongoError:
            self.unknown.extend(raws)

    def fill(self, count, type_name="t1", producer=None, size=40, chunk=1000):
        producer = producer or f"producer of {type_name}"
        start = len(self.acknowledged.get(producer, []))
        for at in range(start, start + count, chunk):
            self.insert(producer, [{"type": type_name, "producer": producer, "n": n, "payload": "x" * size}
                                   for n in range(at, min(at + chunk, start + count))])

    # looking

    def queued(self, type_name="t1"):
        return self.messages.count_documents({"type": {"$eq": type_name, "$not": {"$type": "array"}}})

    def ledger(self, type_name="t1"):
        return self.ledgers.find_one({"_id": type_name})

    def holder(self, type_name="t1"):
        """The pid of the holder, or None."""
        lock = self.locks.find_one({"type": type_name, "slot": 0})
        return lock["holder"]["pid"] if lock else None

    def holding_worker(self, type_name="t1"):
        def look():
            pid = self.holder(type_name)
            return next((worker for worker in self.workers if worker.pid == pid and worker.alive()), None)
        return wait_until(look, lambda: f"a holder of {type_name}; {self.logs()}")

    def wait_empty(self, *types, deadline=DEADLINE):
        for name in types or ("t1",):
            wait_until(lambda: self.queued(name) == 0, lambda: f"an empty queue of {name}, {self.queued(name)} are in it; {self.logs()}",
                       deadline)

    def wait_settled(self, *types, deadline=DEADLINE):
        """Empty queue, nobody holds, clean: everyone has released."""
        self.wait_empty(*types, deadline=deadline)
        for name in types or ("t1",):
            wait_until(lambda: self.holder(name) is None and (self.ledger(name) or {}).get("clean"),
                       lambda: f"a release of {name}: {self.ledger(name)}; {self.logs()}", deadline)

    def logs(self):
        return "\n".join(map(str, self.workers))

    def segments(self, type_name="t1"):
        return sorted(path.name for path in self.dir.iterdir()
                      if re.fullmatch(re.escape(type_name) + r"(@\d+)?\.bin", path.name))

    # the comparison

    def compare(self, *types, queue_empty=True, live=False):
        """Each acknowledged message is exactly once in the file or in the queue, each producer's in order, as the independent
        reader and as pawl-dump see it; by default the queue is empty, and ledger and files agree. Returns {type: messages}.
        live: workers or producers are at work meanwhile, so nothing is lost, repeated or out of order; more cannot be said."""
        return {name: self._compare_type(name, queue_empty and not live, live) for name in types or ("t1",)}

    def _compare_type(self, name, queue_empty, live):
        def mine(raw):
            kind = reader.element(raw, b"type")
            return kind is not None and kind[0] == 2 and reader.text(kind) == name
        # In this order: what is acknowledged is in the queue, and what leaves the queue is in the file.
        sent = {producer: [raw for raw in list(raws) if mine(raw)] for producer, raws in list(self.acknowledged.items())}
        queued = Counter(d.raw for d in self.messages.find({"type": {"$eq": name, "$not": {"$type": "array"}}}))
        ledger = self.ledger(name)
        messages = reader.read_type(self.dir, name, ledger) if ledger else []
        stored = Counter(m.raw for m in messages)
        settled = int(ledger["settled"]) if ledger else 0
        pending = {m.raw for m in messages[settled:]}
        maybe = Counter(raw for raw in self.unknown if mine(raw))

        assert all(count == 1 for count in stored.values()), f"{name}: {sum(c > 1 for c in stored.values())} messages are in the file twice"
        both = set(stored) & set(queued) - pending
        assert live or not both, f"{name}: {len(both)} settled messages are in the queue too"
        everything = set(stored) | set(queued)
        lost = [raw for raws in sent.values() for raw in raws if raw not in everything]
        assert not lost, f"{name}: {len(lost)} acknowledged messages are nowhere, the first {lost[0][:200]!r}"
        known = {raw for raws in sent.values() for raw in raws} | set(maybe)
        strange = everything - known
        assert live or not strange, f"{name}: {len(strange)} messages that nobody sent, one is {next(iter(strange))[:200]!r}"
        if self.server.replica_set:
            place = {m.raw: m.seq for m in messages}
            for producer, raws in sent.items():
                places = [place[raw] for raw in raws if raw in place]
                assert places == sorted(places), f"{name}: the messages of {producer} are out of order"
        if queue_empty:
            assert not queued, f"{name}: {sum(queued.values())} messages are left in the queue"
            if ledger:
                assert (ledger["seq"], ledger["settled"]) == (len(messages), len(messages)), f"{name}: {ledger}"
        if ledger and ledger.get("file") and not live:
            try:
                self._compare_dump(name, messages)
            except AssertionError:
                if self.ledger(name) == ledger:
                    raise
                return self._compare_type(name, queue_empty, live)  # what a killed worker had sent was carried out only now
        return messages

    def _compare_dump(self, name, messages):
        where = ["--dir", self.dir, "--type", name, *self.mongo]
        dump = run("pawl-dump", "--format", "bson", *where)
        assert dump.returncode == 0, dump.stderr.decode()
        assert dump.stdout == b"".join(m.raw for m in messages), f"{name}: pawl-dump --format bson prints other messages"
        some = [(m, index, raw) for m in messages[:500] for index, raw in opened(m.raw)]
        dump = run("pawl-dump", "--format", "canonical", "--with-meta", "--limit", len(some), *where)
        lines = dump.stdout.decode().splitlines()
        assert dump.returncode == 0 and len(lines) == len(some), dump.stderr.decode()
        for line, (message, index, raw) in zip(lines, some):
            entry = json.loads(line)
            assert (number(entry["seq"]), number(entry["epoch"]), number(entry["offset"])) == message[:3], line[:300]
            assert entry.get("index") == index, line[:300]
            try:
                expected = json_util.dumps(bson.decode(raw), json_options=json_util.CANONICAL_JSON_OPTIONS)
            except (UnicodeDecodeError, bson.InvalidBSON):
                continue
            assert entry["message"] == json.loads(expected), line[:300]
        verify = run("pawl-dump", "--verify", *where)
        assert verify.returncode == 0, (verify.stdout + verify.stderr).decode()
        assert re.search(rf"^{re.escape(name)}: ok\b.*\b{len(messages)} documents?\b", verify.stdout.decode(), re.M), verify.stdout
        offline = run("pawl-dump", "--verify", "--dir", self.dir, "--type", name)
        assert offline.returncode == 0, (offline.stdout + offline.stderr).decode()


def opened(raw):
    """What pawl-dump shows of a document: (index, message), or (None, document)."""
    bundle = reader.bundle(raw)
    return list(enumerate(bundle)) if bundle else [(None, raw)]


def number(value):
    """An integer of relaxed or canonical Extended JSON."""
    return int(next(iter(value.values()))) if isinstance(value, dict) else value


def free_port():
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def remove(folder):
    shutil.rmtree(folder, ignore_errors=True)
