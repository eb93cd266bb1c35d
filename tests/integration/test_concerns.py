"""What each request carries: every command that pawl's programs send, from the server's log, against the table of docs/protocol.md."""
import json
import signal
import subprocess
from datetime import datetime, timedelta, timezone

import bson
import pytest

from harness import BIN, CALM, ROOT, environment, program, wait_until
from test_ids import document, element, insert, insert_past_the_checks, nested, text

SMALL = ["--batch-messages", 100]
TITLE = "## What each request carries"
WAIT_QUEUE = -1  # its slot
FLOOR = "@floor"
WAITING = {"$push": "wait for the lock", "$unset": "wait on for the lock", "$pull": "leave the wait queue", "$currentDate": "call the next waiter"}
# What is sent for an own collection as for `messages`.
RANGES = {"delete by range"}
OF_OWN = RANGES | {"insert messages", "poll the queue", "look for deleted messages", "continue a pass", "delete by `_id`s",
                   "see whether the queue is empty", "make a collection", "look at the indexes"}
STANDALONE = " (standalone)"  # rows of what is sent to no other server
THINGS = "things"  # a collection of a program's own, whose documents are locked
# The driver's own.
DRIVER = {"isMaster", "ping", "saslStart", "saslContinue", "endSessions"}


def table():
    """{request: (command, write concern, read concern, whether it ends at the server)}, as docs/protocol.md has them."""
    text = (ROOT / "docs/protocol.md").read_text().partition(TITLE)[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]
    return {row[0]: (row[1].strip("`"), *row[2:]) for row in rows[1:]}


class Log:
    """The commands that a server says it runs, by program."""

    def __init__(self, server):
        self.path = server.folder / "node1/log"
        server.client.admin.command({"setParameter": 1, "logComponentVerbosity": {"command": {"verbosity": 2}}, "maxLogSizeKB": 4096})
        self.offset, self.programs = 0, {}

    def read(self):
        """What pawl has sent since the last call: (program, command), in order."""
        found = []
        with open(self.path, "rb") as log:
            log.seek(self.offset)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self.offset += len(line)
                if b'"client metadata"' not in line and b'"About to run the command"' not in line:
                    continue
                entry = json.loads(line)
                if entry["msg"] == "client metadata":
                    self.programs[entry["ctx"]] = entry["attr"]["doc"].get("application", {}).get("name", "")
                elif "@" in self.programs.get(entry["ctx"], ""):  # PROGRAM@DATABASE: pawl's, and those that use its library
                    found.append((self.programs[entry["ctx"]], entry["attr"]["commandArgs"]))
        return found


def statement(command, name):
    """The one statement of a write."""
    assert len(command[name]) == 1, command
    return command[name][0]


def request_of_own(who, verb, command):
    """What is asked of own collections alone; None: it is named as for `messages`."""
    if verb == "aggregate" and "pawl-worker" in who:
        return "poll the own collections of many types" if command["readConcern"]["level"] == "majority" else "look for types with own collections"
    if verb == "aggregate":
        return "look at the first documents, of own collections too" if command["aggregate"] == "messages" else "look for the oldest documents of own collections"
    if verb in ("count", "collMod"):
        return {"count": "count an own collection", "collMod": "close or open an own collection"}[verb]
    if verb != "find":
        return None
    if "$nor" in command["filter"]:
        return "look for documents of another type"
    if "limit" not in command:
        return "begin the pass of an own collection"
    # Behind a document that cannot be taken a poll asks for more than one: see everything().
    last = command["limit"] == 1 and command.get("sort") == {"_id": 1} and not command["filter"]
    return "last poll of an own collection" if last else None


def request_of_moves(verb, where, command):
    """What pawl-setup sends to list documents, to set them aside and to put them back; None: something else."""
    moves, begins = "txnNumber" in command, ", which begins the move" if "startTransaction" in command else ""
    if verb in ("commitTransaction", "abortTransaction"):
        return verb.removesuffix("Transaction") + " the move"
    if moves and where == "locks":
        return "renew the lock" + begins
    if where not in ("messages", "refused") or verb not in ("insert", "find", "delete"):
        return None
    what = "the copy" if where == "refused" else "the document"
    if verb == "find" and "singleBatch" not in command and "limit" not in command:
        return "list what is set aside" if where == "refused" else "look for documents that no worker can take"
    if verb == "find" and not moves:
        return f"look at {what}" if "limit" not in command else None
    return f"{ {'insert': 'write', 'find': 'compare', 'delete': 'remove'}[verb]} {what}" + (begins if moves else STANDALONE)


def request_of_things(verb, command):
    """What the locks of documents are made of."""
    if verb == "update":
        return "write a document with a token" if "$and" in statement(command, "updates")["q"] else "renew, write or release a document"
    return {"findAndModify": "lock a document", "find": "see why a document was not written"}[verb]


def request(who, command, fenced, released, cut):
    """What the protocol calls it; by anything but its concerns."""
    verb, of = next(iter(command.items()))
    where = command.get("collection", of) if verb == "getMore" else of
    own = isinstance(where, str) and where.startswith("messages.")
    if own:
        where = "messages"
    if where == THINGS:
        return request_of_things(verb, command)
    name = request_of_moves(verb, where, command) if "pawl-setup" in who and verb != "getMore" else None
    if name:
        return name
    wakeups = isinstance(where, str) and where.split(".")[0] == "wakeups"
    if verb == "explain":
        return "see how MongoDB would read"
    if where == "messages" and verb == "find" and "pawl-setup" in who:
        return "see whether the queue is empty"
    if own or "$unionWith" in str(command.get("pipeline", "")):
        name = request_of_own(who, verb, command)
        if name:
            return name
    if where == "messages" and "pawl-worker" in who and ("returnKey" in command or command.get("pipeline", [])[1:] == [{"$group": {"_id": "$type"}}]):
        if command.get("pipeline") and "$in" in command["pipeline"][0]["$match"]["type"]:
            return "poll many types"
        last = "last look" if command["readConcern"]["level"] == "linearizable" else "look"
        return f"{last} for types{', one by one' if verb == 'find' else ''}"
    if where == "workers":
        return {"update": "write the row of a worker", "find": "read the rows of the workers", "delete": "remove rows of workers"}[verb]
    if verb == "find" and where == "messages" and "pawl-status" in who and "min" not in command:
        return "look at the first documents"
    if verb == "find" and where == "messages":
        if "min" in command:
            return "count what has no type"
        if "limit" not in command:
            return "begin a pass"
        if "$in" in command["filter"].get("_id", {}):
            return "look for deleted messages"
        if "type" in command.get("sort", {}):
            return "last poll of `--exit-when-empty`"
        once_more = command["limit"] == 1 and "sort" not in command and "_id" not in command["filter"]
        return "last poll, where own collections come next" if once_more else "poll the queue"
    if verb == "find" and where == "ledger":
        if "filter" not in command:
            return "see whether it reads in snapshots"
        if "needs" in command["filter"]:
            return ("see" if "pawl-worker" in who else "ask") + " which types have their own collection"
        if command["filter"]["_id"] == FLOOR:
            return "see the floor"
        if "$ne" in command["filter"]["_id"]:
            return "list the ledgers"
        return "read the ledger before a cut, or before a verdict" if fenced and cut else "read the ledger"
    if verb == "find" and where == "locks":
        if "$in" in str(command["filter"].get("type", "")):
            return "look at the renewed locks"
        return "read the lock" if "type" in command["filter"] else "list the locks"
    if verb == "update" and where == "locks":
        if not command.get("ordered", True):
            return "renew the locks"
        several = not isinstance(command["updates"], list)  # the log has the number of them then: only the take has two
        if several or statement(command, "updates")["q"]["slot"] != WAIT_QUEUE:
            return "take the lock"
        change = statement(command, "updates")
        [name] = WAITING.keys() & change["u"].keys()
        return WAITING[name]
    if verb == "delete" and where == "locks":
        query = statement(command, "deletes")["q"]
        if query["type"] == "":
            return "have the journal written"
        if query["slot"] == WAIT_QUEUE:
            return "remove the empty wait queue"
        if "$expr" in query:
            return "steal the lock"
        return "release the lock" if str(query["owner"]) not in released else "confirm the release"
    if verb == "findAndModify" and where == "ledger":
        if command.get("new"):
            return "draw a token"
        if "paused" in command["update"][0]["$set"]:
            return "pause"
        return "fence" if len(command["update"]) == 1 else "switch to an own collection, or back"
    if verb == "update" and where == "ledger":
        change = statement(command, "updates")
        if change["q"]["_id"] == FLOOR:
            return "raise the floor"
        if "_id" in change["u"]:
            return "adopt"
        set_ = change["u"][0].get("$set", {}) if isinstance(change["u"], list) else {}
        if "moved" in set_:
            return "make the ledger at the new place" if "carried" in set_ else "mark the ledger as moved"
        if "paused.id" in change["q"]:
            return "resume"
        return "commit" if "link" in change["q"] else "record what is settled"
    if verb == "delete" and where == "ledger":
        return "forget a lock"
    if verb == "insert" and where == "ledger":
        return "make the ledger"
    if verb == "delete" and where == "messages":
        # However late it comes, it takes no other type's message. The log has the number of statements where they are long.
        assert own or "pawl-worker" not in who or not isinstance(command["deletes"], list) or "type" in command["deletes"][0]["q"], command
        return "delete by range" if "txnNumber" in command else "delete by `_id`s"
    if verb == "insert" and where == "messages":
        return "insert messages"
    if verb == "aggregate":
        if where == "ledger":
            return "read the ledger that is made, and the floor"
        if "$first" in str(command["pipeline"]):
            return "look for the oldest documents"
        return "count the queue" if where == "messages" else "look for left transactions"
    if wakeups and verb == "insert":
        return "tell that messages came" if "pawl-enqueue" in who else "send a wake-up"
    if wakeups and verb == "find" and "tailable" not in command:
        return "see whose wake-ups these are"
    if wakeups and verb in ("find", "getMore"):
        return f"{'begin' if verb == 'find' else 'go on'} to wait for wake-ups"
    return {"getMore": "continue a pass", "killCursors": "end a pass", "commitTransaction": "commit the range", "abortTransaction": "abort the range",
            "killSessions": "end left transactions", "convertToCapped": "make the wake-ups a capped collection",
            "create": "make a collection", "createIndexes": "make an index", "listCollections": "look at the collections",
            "listIndexes": "look at the indexes", "hello": "what the server is", "buildInfo": "which version it is"}.get(verb, verb)


def concerns(command):
    """As the table's last three columns."""
    write, read = command.get("writeConcern"), command.get("readConcern")
    if write == {"w": "majority", "j": True}:
        write = "majority and journal"
    elif write is not None:
        assert set(write) == {"w"}, command
        write = f"w: {write['w']}"
    if read is not None:
        level, rest = read["level"], set(read) - {"level"}
        read = level + {(): "", ("afterClusterTime",): ", `afterClusterTime`", ("atClusterTime",): ", `atClusterTime`"}[tuple(sorted(rest))]
    return write or "", read or "", "yes" if "maxTimeMS" in command else ""


def own_times(value):
    """The times in a command that its sender has made. Since when a holder has run is for people, and counts for nothing.
    Since when somebody waits is the server's time, as it was read with the lock."""
    if isinstance(value, list):
        return [time for item in value for time in own_times(item)]
    if not isinstance(value, dict):
        return []
    return [item for name, item in value.items() if name == "$date"] + [
        time for name, item in value.items() if name not in ("holder", "$push") and "$unset" not in value for time in own_times(item)]


def observed(places, log, cut=False):
    """Each request since the last call: (request, verb and collection, write concern, read concern, whether it ends at the server)."""
    fenced, released, seen = set(), set(), []
    for who, command in log.read():
        verb, of = next(iter(command.items()))
        if verb in DRIVER or command["$db"] not in ("admin", *(place.name for place in places)): # the server writes its own accounts of transactions
            continue
        name = request(who, command, who in fenced, released, cut)
        where = command.get("collection", of)
        assert where != "locks" or not own_times(command), f"{name}: a lease goes by the server's clock alone: {command}"
        if isinstance(where, str) and where.split(".")[0] == "wakeups":
            where = "wakeups"
        seen.append((name, f"{verb} {where}" if isinstance(where, str) else verb, *concerns(command)))
        if name in ("release the lock", "confirm the release"):
            owner = str(statement(command, "deletes")["q"]["owner"])
            (released.add if name == "release the lock" else released.discard)(owner)
        if name == "fence":
            fenced.add(who)
        elif name == "commit":
            fenced.discard(who)
    return seen


def everything(field, other, log):
    """All that pawl does, as a list of what observed() gives."""
    seen = []

    def note(**how):
        seen.extend(observed((field, other), log, **how))

    def stopped_at(point):
        worker = field.worker(*SMALL, *CALM, env={"PAWL_FAULT_STOP": point})
        worker.wait_frozen()
        return worker

    def crash(point):
        field.crash(point, *SMALL, *CALM)
        field.locks.update_one({"type": "t1"}, {"$set": {"expires_at": datetime.now(timezone.utc) - timedelta(hours=1)}})

    assert field.run("pawl-setup").returncode == 0
    assert field.run("pawl-enqueue", "--type", "t2", stdin=b"one\ntwo\n").returncode == 0
    field.fill(250, size=1000)  # blocks of 100 go by their range, the rest by their _ids; the segments are full after each
    field.drain(*SMALL, *CALM, "--segment-bytes", 65536)
    assert len(field.segments()) > 1
    field.fill(150)
    crash("block-written")
    note()
    field.drain(*SMALL, *CALM)
    note(cut=True)
    field.fill(150)
    crash("block-committed")
    field.drain(*SMALL, *CALM)

    # One that somebody removes meanwhile: the range does not fit. A pass that is left.
    field.fill(1000)
    worker = stopped_at("block-committed")
    field.messages.delete_one({"n": 560})
    worker.signal(signal.SIGTERM)
    worker.thaw()
    assert worker.wait() == 0
    field.drain(*SMALL, *CALM)

    # A file that is gone when it is to be opened: whether that counts rests on the ledger as it is now.
    field.fill(10)
    note()
    worker = stopped_at("fenced")
    file = field.dir / field.ledger()["file"]
    file.rename(field.dir / "aside")
    worker.thaw()
    worker.wait_log("not competing")
    note(cut=True)
    (field.dir / "aside").rename(file)
    field.wait_empty()
    assert worker.stop()[0] == 0, str(worker)

    # A holder that renews, and a command that waits for the lock and is told when it is free.
    worker = field.worker("--linger", "1h", "--lease", "6s")
    field.fill(10)
    field.wait_empty()

    until = field.locks.find_one({"slot": 0})["expires_at"]
    wait_until(lambda: field.locks.find_one({"slot": 0})["expires_at"] > until, "a renewal")
    worker.freeze()  # or it would let the command have its turn
    command = subprocess.Popen([program("pawl-lock"), *field.mongo, "--lease", "1s", "t1", "--", "true"], env=environment())
    wait_until(lambda: field.locks.find_one({"slot": -1}), "one that waits")
    field.locks.update_one({"slot": -1}, {"$set": {"queue.0.called": datetime(2020, 1, 1)}})
    wait_until(lambda: "called" not in field.locks.find_one({"slot": -1})["queue"][0], "one that goes on to wait")
    assert field.run("pawl-lock", "--lease", "1s", "--timeout", "300ms", "t1", "--", "true").returncode != 0  # it gives up waiting
    worker.thaw()
    assert worker.stop()[0] == 0 and command.wait(60) == 0

    assert field.run("pawl-status").returncode == field.run("pawl-status", "--peek", "t1").returncode == 0
    assert field.run("pawl-status", "--pause", "t1", "--reason", "a test").returncode == field.run("pawl-status", "--resume", "t1").returncode == 0
    assert field.run("pawl-lock", "n", "--", "true").returncode == field.run("pawl-lock", "--forget", "n").returncode == 0
    field.fill(10, "t3")
    field.drain(*CALM, types=["*"])
    many_types(field)
    field.messages.insert_one({"type": ["an array"]})  # now the index cannot be skipped in one request; a worker asks that when it starts
    field.fill(10, "t3")
    field.drain(*CALM, types=["*"])
    field.messages.delete_many({"type": "an array"})
    field.compare()
    field.ledgers.delete_one({"_id": "t1"})
    assert field.run("pawl-setup", "--adopt", "t1", "--dir", field.dir, "--yes").returncode == 0
    field.fill(10)
    field.drain(*SMALL, *CALM)
    field.compare()
    note()
    own_collection(field, crash, note)
    note()
    carried(field, other)
    note()
    set_aside(other)
    locked(other)
    left_open(other)
    note()
    return seen


def many_types(field):
    """Idle types of one process are polled together, those with own collections as well. Where each poll is slow, fewer than 16 of a few
    types may wait at any moment, and then none are; of two hundred 16 wait in any case."""
    many = [f"many{n}" for n in range(200)]
    assert field.run("pawl-setup", "--type", "many7", "--own-collection").returncode == 0
    stages = lambda: field.server.client.admin.command("serverStatus")["metrics"]["aggStageCounters"]
    before = stages()
    worker = field.worker("--poll", "50ms", types=[",".join(many)])
    wait_until(lambda: all(stages()[name] > before[name] for name in ("$group", "$limit")), "polls of all together, and of the own collection", 180)
    assert worker.stop()[0] == 0, str(worker)
    assert field.run("pawl-setup", "--type", "many7", "--shared-collection").returncode == 0


def own_collection(field, crash, note):
    """t1 gets its own collection, is drained, recovers with messages in both, and goes back."""
    def status(*arguments):
        assert field.run("pawl-status", *arguments).returncode == 0

    assert field.run("pawl-setup", "--type", "t1,t4", "--own-collection").returncode == 0
    assert field.run("pawl-enqueue", "--type", "t4", stdin=b"one\ntwo\n").returncode == 0
    field.fill(250, own=True, size=1000)  # by ranges, and the rest by their _ids
    field.fill(150, producer="an old one")
    status()
    status("--peek", "t1")
    field.drain(*SMALL, *CALM)

    # A crash before the commit, one behind it, and one with what is to be deleted in the own collection.
    for point in ("block-written", "block-committed", "block-committed:3"):
        field.fill(150, producer="an old one")
        field.fill(250, own=True)
        crash(point)
        note()
        field.drain(*SMALL, *CALM)
        note(cut=point == "block-written")

    # One that somebody removes meanwhile: the range does not fit.
    field.fill(200, own=True)
    worker = field.worker(*SMALL, *CALM, env={"PAWL_FAULT_STOP": "block-committed"})
    worker.wait_frozen()
    found = field.own("t1").find_one(sort=[("_id", 1)])
    field.db["messages.t1"].delete_one({"_id": bson.decode(found.raw)["_id"]})
    worker.thaw()
    field.wait_settled()
    # A document that is of another type: with a worker that makes no last poll, for what that asks behind such a document looks like a poll.
    field.db["messages.t1"].insert_one({"type": "t2"})
    worker.wait_log("is not that of the collection")
    assert worker.stop()[0] == 0, str(worker)
    field.db["messages.t1"].delete_many({"type": "t2"})

    # By a pattern.
    field.fill(10, own=True)
    field.drain(*CALM, types=["t*"])
    field.compare()

    assert field.run("pawl-setup", "--type", "t1", "--shared-collection").returncode == 0
    assert field.run("pawl-setup", "--type", "t1", "--own-collection").returncode == 0
    field.fill(10, own=True)
    field.drain(*CALM)


def carried(old, new):
    """t1, which has its own collection, goes to another database."""
    new.db.wakeups.insert_one({"about": "made"})  # and so made it, in the place of pawl
    assert new.run("pawl-setup").returncode == 0
    assert old.run("pawl-status", "--pause", "t1", "--reason", "it moves").returncode == 0
    done = old.run("pawl-setup", "--carry", "t1", "--to-uri", new.server.uri, "--to-db", new.name, "--yes")
    assert done.returncode == 0, done
    assert old.run("pawl-status").returncode == new.run("pawl-status", "--resume", "t1").returncode == 0


def set_aside(field):
    """Documents that no worker can take go and come back: one with a type, one without, and one that is too deep for a copy in one part."""
    def setup(*words, code=0):
        done = field.run("pawl-setup", *words)
        assert done.returncode == code, done

    deep = document(element(16, b"_id", b"\2\0\0\0"), element(3, b"deep", nested(177)))
    insert(field, [document(element(16, b"_id", b"\1\0\0\0")), deep])
    insert_past_the_checks(field, document(element(4, b"_id", document(element(10, b"0", b""))), element(2, b"type", text(b"t5"))))
    setup("--list-refused")
    field.db.create_collection("refused", validator={"$expr": False})
    setup("--set-aside", "@untyped", "--yes", code=1)
    field.db.command("collMod", "refused", validator={})
    setup("--set-aside", "t5,@untyped", "--yes")
    assert field.run("pawl-status", "--pause", "t5", "--reason", "a test").returncode == 0
    setup("--put-back", "t5", "--yes", code=1)  # MongoDB does not insert an array as `_id`
    setup("--put-back", "@untyped", "--yes")
    assert field.messages.count_documents({"type": {"$exists": False}}) == 2
    field.messages.delete_many({"type": {"$exists": False}})


def locked(field):
    """Locks with slots, and documents that are locked, by pawl-lock and by the library."""
    for _ in range(2):  # a ledger that is made, and one that is there
        assert field.run("pawl-lock", "--slots", 2, "slots", "--", "true").returncode == 0
    field.db[THINGS].insert_one({"n": 0})
    assert field.run("pawl-lock", "--document", THINGS + "/{}", "--", "true").returncode == 0
    guard = [BIN / "tests/lock_contender", "guard", field.server.uri, field.name, field.dir, 30000, 1, 1, THINGS]
    subprocess.run([*map(str, guard)], check=True, timeout=60, env=environment())


def left_open(field):
    """A transaction that cannot be ended: the next delete by `_id`s ends it first."""
    if field.server.replica_set:
        with field.failing(["commitTransaction", "abortTransaction"], {"times": 6}, closeConnection=True):
            field.fill(200, "t6")
            field.drain(*SMALL, "--lease", "6s", types=["t6"], deadline=60)


def as_found(row, replica_set):
    """The command of a row of the table, and what it may carry, the usual first. A standalone server has one view only;
    after a request without an answer, as a frozen worker may have one, it is asked for more until it has said again that it is one."""
    command, write, read, ends = row
    reads = [read] if replica_set or not read else ["local", read]
    return command, [[write, one, ends] for one in reads]


@pytest.mark.parametrize("kind", ["replica-set", "standalone"])
def test_each_request_carries_what_the_protocol_says(own_server, make_field, kind):
    server = own_server(f"--{kind}", "--test-commands").start()
    log, rows = Log(server), table()
    seen = everything(make_field(server), make_field(server), log)
    assert len(seen) > 100
    of_own = {name for name, command, *_ in seen if "messages." in command}
    assert of_own >= (OF_OWN if server.replica_set else OF_OWN - RANGES), "requests that were not sent for an own collection"
    for request_, command, *found in sorted(set(seen)):
        assert request_ in rows, f"docs/protocol.md has no row for {request_} ({command}), which carries {found}"
        wanted_command, wanted = as_found(rows[request_], server.replica_set)
        assert command.startswith(wanted_command) and found in wanted, f"{request_}: {command} carries {found}, not {wanted[0]}"
        assert (request_, command, *wanted[0]) in seen, f"{request_}: {command} is never sent as it usually is: {wanted[0]}"
    unsent = {row for row in set(rows) - {row[0] for row in seen} if row.endswith(STANDALONE) or server.replica_set}
    assert unsent == ({row for row in rows if row.endswith(STANDALONE)} if server.replica_set else set()), "requests of docs/protocol.md that were not sent"
