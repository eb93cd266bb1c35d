"""A TCP proxy in front of a real mongod, through which the server looks like one of another version, or is behind a slow link.

Only what a server says of itself is changed (hello and buildInfo); the command `hello` may be hidden, and a field of all replies. Connect with
directConnection=true.
"""
import socket
import struct
import threading
import time
from contextlib import suppress

import bson

OP_REPLY, OP_QUERY, OP_MSG = 1, 2004, 2013
HEADER, SECTION = 16, 4 + 1  # of an OP_MSG: its flags, and the kind of its first section
REPLY_FIELDS = 20  # of an OP_REPLY
PIECE = 16384
WIRE = {"3.4": 5, "4.4": 9, "5.0": 13, "6.0": 17, "7.0": 21, "8.0": 25}


class Proxy:
    """`version` may be changed at any time; restart() cuts all connections, as the restart of a server does.

    rate: bytes a second from the server, of all connections together, a piece of each in turn. largest: of a longer reply so much
    arrives, and then nothing more on that connection. sealed: what passes is TLS, and is not looked into."""

    def __init__(self, server, version=None, hides_hello=False, mongos=False, lacks=None, rate=None, largest=None, sealed=False):
        self.target = server.client.address
        self.rate, self.largest, self.sealed, self.delivered = rate, largest, sealed, 0
        self.lane, self.lane_free = threading.Lock(), 0.0
        self.version, self.hides_hello, self.mongos = version, hides_hello, mongos
        self.lacks = lacks  # the name of a field
        self.unanswered = 0  # how many of the next questions for the version cut the connection
        self.connections, self.lock = [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    def uri(self):
        return f"mongodb://127.0.0.1:{self.listener.getsockname()[1]}/?directConnection=true"

    def restart(self, version):
        self.version = version
        with self.lock:
            connections, self.connections = self.connections, []
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.close()
        self.restart(None)

    def _accept(self):
        with suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                server = socket.create_connection(self.target)
                with self.lock:
                    self.connections += [client, server]
                for source, sink, change in ((client, server, self._request), (server, client, self._reply)):
                    threading.Thread(target=self._pass, args=(source, sink, change), daemon=True).start()

    def _pass(self, source, sink, change):
        with suppress(OSError, EOFError):
            while self.sealed:
                piece = source.recv(PIECE)
                if not piece:
                    raise EOFError
                if change == self._reply:
                    self._take_lane(len(piece))
                sink.sendall(piece)
            while True:
                head = read(source, HEADER)
                length, request, response, code = struct.unpack("<iiii", head)
                body = change(code, read(source, length - HEADER))
                data = struct.pack("<iiii", HEADER + len(body), request, response, code) + body
                if change == self._reply:
                    self._deliver(sink, data)
                else:
                    sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _deliver(self, sink, data):
        stops = self.largest is not None and len(data) > self.largest
        data = memoryview(data)[:self.largest] if stops else memoryview(data)
        for at in range(0, len(data), PIECE if self.rate else len(data)):
            piece = data[at:at + (PIECE if self.rate else len(data))]
            self._take_lane(len(piece))
            sink.sendall(piece)
            self.delivered += len(piece)
        while stops:  # until the client gives the connection up
            if not sink.recv(PIECE):
                raise EOFError

    def _take_lane(self, size):
        if not self.rate:
            return
        with self.lane:
            self.lane_free = max(self.lane_free, time.monotonic()) + size / self.rate
            until = self.lane_free
        time.sleep(max(0, until - time.monotonic()))

    def _request(self, code, body):
        if self.unanswered > 0 and code == OP_MSG and body[SECTION + 4:].startswith(b"\x10buildInfo\0"):
            self.unanswered -= 1
            raise EOFError
        hidden = self.hides_hello and code == OP_MSG and body[SECTION + 4:].startswith(b"\x10hello\0")
        return body.replace(b"hello\0", b"hullo\0", 1) if hidden else body

    def _reply(self, code, body):
        if self.lacks is not None:
            body = body.replace(self.lacks.encode() + b"\0", b"x" * len(self.lacks) + b"\0")
        skip = REPLY_FIELDS if code == OP_REPLY else SECTION if code == OP_MSG else None
        if self.version is None or skip is None or not (b"maxWireVersion\0" in body or b"versionArray\0" in body):
            return body
        said = bson.decode(body[skip:])
        if "maxWireVersion" in said:
            said["maxWireVersion"] = WIRE[self.version[:3]]
            said.update({"msg": "isdbgrid"} if self.mongos else {})
        if "versionArray" in said:
            said["version"] = self.version
        return body[:skip] + bson.encode(said)


def read(source, size):
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
