"""A standalone server that answers only what pawl-dump asks: what it is, and the ledgers. What comes between two questions is chosen here,
which no real server allows."""
import socketserver
import struct
import threading

import bson

from proxy import HEADER, OP_MSG, OP_QUERY, OP_REPLY, SECTION, read

LOST = "the connection ends instead of an answer"
BROKEN = "the connection ends after the first half of a list"
HELLO = {"helloOk": True, "ismaster": True, "isWritablePrimary": True, "maxBsonObjectSize": 1 << 24, "maxMessageSizeBytes": 48000000,
         "maxWriteBatchSize": 100000, "logicalSessionTimeoutMinutes": 30, "minWireVersion": 0, "maxWireVersion": 17, "ok": 1.0}


def matches(wanted, found):
    """A value, or one with $eq or $ne."""
    if not isinstance(wanted, dict):
        return wanted == found
    [(operator, value)] = wanted.items()
    return (value == found) == {"$eq": True, "$ne": False}[operator]


class FakeMongod(socketserver.ThreadingTCPServer):
    """`answers`: one for each question, the last one for all that follow: ledgers (a list of documents), LOST, BROKEN, or a refusal
    {"code", "errmsg"}. `askers`: the connections that questions came from; `programs`: the names of all connections."""
    daemon_threads = allow_reuse_address = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Connection)
        self.mutex, self.hello = threading.Lock(), dict(HELLO)
        self.answer([])
        self.uri = f"mongodb://127.0.0.1:{self.server_address[1]}/"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, *answers):
        with self.mutex:
            self.answers, self.askers, self.programs = list(answers), set(), set()

    def next_answer(self, asker):
        with self.mutex:
            self.askers.add(asker)
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Connection(socketserver.BaseRequestHandler):
    def handle(self):
        try:
            while True:
                length, request, _, code = struct.unpack("<iiii", read(self.request, HEADER))
                body = read(self.request, length - HEADER)
                if code == OP_QUERY:  # the driver's first word
                    begin = body.index(b"\0", 4) + 1 + 8
                    head, kind = struct.pack("<iqii", 8, 0, 0, 1), OP_REPLY
                else:
                    begin, head, kind = SECTION, struct.pack("<iB", 0, 0), OP_MSG
                size = struct.unpack_from("<i", body, begin)[0]
                reply = head + bson.encode(self._reply(bson.decode(body[begin:begin + size])))
                self.request.sendall(struct.pack("<iiii", HEADER + len(reply), 0, request, kind) + reply)
        except (EOFError, OSError):
            pass

    def _reply(self, command):
        name = next(iter(command))
        if name in ("find", "getMore"):
            return self._found(name, command)
        if name == "buildInfo":
            return {"version": "6.0.5", "versionArray": [6, 0, 5, 0], "ok": 1.0}
        if "client" in command:
            with self.server.mutex:
                self.server.programs.add(command["client"].get("application", {}).get("name"))
        return self.server.hello if name.lower() in ("hello", "ismaster") else {"ok": 1.0}

    def _found(self, name, command):
        answer = self.server.next_answer(self.client_address) if name == "find" else LOST
        if answer == LOST:
            raise EOFError
        if isinstance(answer, dict):
            return {"ok": 0.0, **answer}
        assert command["find"] == "ledger", command
        found = [] if answer == BROKEN else [ledger for ledger in answer if matches(command["filter"]["_id"], ledger["_id"])]
        return {"cursor": {"id": bson.Int64(7 if answer == BROKEN else 0), "ns": command["$db"] + ".ledger", "firstBatch": found}, "ok": 1.0}
