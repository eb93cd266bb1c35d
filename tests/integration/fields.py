"""One test's ground: a database and a folder of its own, its workers, and a foreign producer."""
import re
import signal
import threading
from contextlib import contextmanager
from pathlib import Path

import bson
from bson.raw_bson import RawBSONDocument
from pymongo.errors import BulkWriteError, PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

import comparison
from harness import DEADLINE, RAW, FailPoint, Worker, answered, run, wait_until


class Field:
    """One test's ground: a fresh database, a fresh folder, and all processes that must be gone at its end."""

    def __init__(self, server, database, folder):
        self.server, self.name, self.folder = server, database, Path(folder)
        self.dir = self.folder / "storage"
        self.dir.mkdir()
        self.workers, self.acknowledged, self.unknown = [], {}, []
        self.typeless = {}  # of a document without a type: whose own collection it was sent to
        majority = {"write_concern": WriteConcern("majority", j=True)}
        self.db = server.client.get_database(database, **majority)
        self.messages = self.db.get_collection("messages", codec_options=RAW, **majority)
        self.own = lambda name: self.db.get_collection(f"messages.{name}", codec_options=RAW, **majority)
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

    def crash(self, point, *arguments, **more):
        """A worker that kills itself at that point."""
        worker = self.worker(*arguments, env={"PAWL_FAULT": point}, **more)
        assert worker.wait() == -signal.SIGKILL, f"it never passed {point}: {worker}"
        return worker

    def run(self, name, *arguments, **more):
        return run(name, *self.mongo, *arguments, **more)

    def failing(self, commands, mode="alwaysOn", collection=None, program="pawl-worker", **fault):
        """A FailPoint: what the server does to these commands of a program. mode: "alwaysOn", {"times": N} or {"skip": N}."""
        data = {"failCommands": commands, "appName": self.app_name(program), **fault}
        if collection:
            data["namespace"] = f"{self.name}.{collection}"
        return FailPoint(self.server.client.admin, mode, data)

    def finish(self, worker):
        """Everything is where it belongs, and the worker stops in order. Returns the messages."""
        self.wait_settled()
        assert worker.alive(), str(worker)
        assert worker.stop()[0] == 0, str(worker)
        return self.compare()["t1"]

    def stop(self):
        """Every worker that is still alive, in order."""
        for worker in self.workers:
            if worker.alive():
                assert worker.stop()[0] == 0, str(worker)

    def close(self):
        for worker in self.workers:
            worker.kill()

    # the foreign producer: pymongo and a plain insert

    def insert(self, producer, documents, own=None):
        """Inserts in order; what was acknowledged is kept, in order, as the bytes that were sent. own: into that type's own collection."""
        raws = [document if isinstance(document, bytes) else bson.encode({"_id": bson.ObjectId(), **document}) for document in documents]
        kept = self.acknowledged.setdefault(producer, [])
        self.typeless.update({raw: own for raw in raws if own})
        try:
            (self.own(own) if own else self.messages).insert_many([RawBSONDocument(raw) for raw in raws], ordered=True)
            kept.extend(raws)
        except BulkWriteError as error:
            sure = error.details["nInserted"] if not error.details.get("writeConcernErrors") else 0
            kept.extend(raws[:sure])
            self.unknown.extend(raws[sure:])
        except PyMongoError:
            self.unknown.extend(raws)

    def fill(self, count, type_name="t1", producer=None, size=40, chunk=1000, own=False):
        """own: into the type's own collection, without a type."""
        producer = producer or f"producer of {type_name}"
        start = len(self.acknowledged.get(producer, []))
        for at in range(start, start + count, chunk):
            of = {} if own else {"type": type_name}
            self.insert(producer, [of | {"producer": producer, "n": n, "payload": "x" * size}
                                   for n in range(at, min(at + chunk, start + count))], own=type_name if own else None)

    def producing(self, count=50, pause=0.05, **how):
        """A producer is at work as long as the block lasts."""
        return self.repeating(lambda: self.fill(count, **how), pause)

    @contextmanager
    def repeating(self, action, pause):
        """It is done again and again as long as the block lasts."""
        enough = threading.Event()

        def repeat():
            while not enough.wait(pause):
                action()
        producer = threading.Thread(target=repeat, daemon=True)
        producer.start()
        try:
            yield
        finally:
            enough.set()
            producer.join()

    def adopt(self, code=0, answer=None, type_name="t1"):
        """pawl-setup --adopt, with an answer to its question or --yes. Returns what it printed."""
        flags = [] if answer else ["--yes"]

        def call():
            return self.run("pawl-setup", "--adopt", type_name, "--dir", self.dir, *flags, stdin=answer)
        done = call() if code == 69 else answered(call)
        said = (done.stdout + done.stderr).decode()
        assert done.returncode == code, f"{done.returncode}: {said} {self.logs()}"
        assert self.holder(type_name) is None or code == 1, said
        return said

    # looking

    def queued(self, type_name="t1"):
        of = {"type": {"$eq": type_name, "$not": {"$type": "array"}}}
        return self.messages.count_documents(of) + self.own(type_name).count_documents({"$or": [of, {"type": {"$exists": False}}]})

    def ledger(self, type_name="t1"):
        return self.ledgers.find_one({"_id": type_name})

    def seq(self, type_name="t1"):
        """What is committed; 0 while there is no ledger."""
        return (self.ledger(type_name) or {}).get("seq", 0)

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
        reader and as pawl-dump see it (pawl-dump: of the first eight types); by default the queue is empty, and ledger and files
        agree. Returns {type: messages}.
        live: workers or producers are at work meanwhile, so nothing is lost, repeated or out of order; more cannot be said."""
        return {name: comparison.compare(self, name, queue_empty and not live, live, dumped=place < 8)
                for place, name in enumerate(types or ("t1",))}


class SharedField:
    """What a field has beside it whose folder several machines see: `field`, and in `sent` how many messages it was filled with."""

    def fill(self, count, size=200):
        self.field.fill(count, size=size)
        self.sent += count

    def seq(self):
        return self.field.seq()

    def epoch(self):
        return (self.field.ledger() or {}).get("epoch", 0)

    def progress(self, count=50):
        before = self.seq()
        wait_until(lambda: self.seq() >= min(before + count, self.sent), self.field.logs)
