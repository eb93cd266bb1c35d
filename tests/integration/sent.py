"""The requests that pawl's programs send, as the server's log has them, by the names of docs/protocol.md and with what they carry."""
import json

from harness import ROOT

TITLE = "## What each request carries"
WAIT_QUEUE = -1  # its slot
FLOOR = "@floor"
WAITING = {"$push": "wait for the lock", "$unset": "wait on for the lock", "$pull": "leave the wait queue", "$currentDate": "call the next waiter"}
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
        if command.get("sort") == {"_id": -1} and "batchSize" not in command:
            return "look for the end after a long pass"
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
