"""Writes storage files byte by byte from docs/format.md, the strange ones too that pawl's own writer would refuse to make."""
import os
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from reader import HEADER_START, MARKER_START, crc32c  # noqa: E402

DATA, OPEN, CLOSE, PAD = 1, 2, 3, 4


def element(kind, name, value):
    return bytes([kind]) + (name if isinstance(name, bytes) else name.encode()) + b"\0" + value


def document(*elements):
    body = b"".join(elements)
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def text(name, value):
    value = value if isinstance(value, bytes) else value.encode()
    return element(2, name, struct.pack("<i", len(value) + 1) + value + b"\0")


def int64(name, value):
    return element(18, name, struct.pack("<q", value))


def binary(name, value):
    return element(5, name, struct.pack("<iB", len(value), 0) + value)


def message(number, payload="x", type="t1", *more):
    return document(element(7, "_id", struct.pack(">IQ", 0x65000000, number)), text("type", type), text("payload", payload), *more)


class Segment:
    """One file in the making; `path` grows with every block unless write=False."""

    def __init__(self, path, epoch=1, type="t1", predecessor=None, first_seq=1, time=1700000000000000, number=0, version=1, incompat=0,
                 ro_compat=0, compat=0):
        self.path, self.epoch, self.seq, self.time, self.blocks = Path(path), epoch, first_seq, time, []
        self.uuid, self.created_epoch = os.urandom(16), epoch
        before = bytes(56)
        if predecessor:
            before = predecessor.uuid + struct.pack("<qqqQq", predecessor.created_epoch, predecessor.length, predecessor.seq - 1,
                                                    predecessor.link, predecessor.tail)
        info = document(text("type", type), text("predecessor", predecessor.path.name if predecessor else ""), text("host", "here"),
                        int64("pid", 1), text("machine", "m"), text("version", "0"), text("reason", "roll" if predecessor else "first"))
        head = bytearray(4096)
        struct.pack_into("<BBBBIII16sqqqq", head, 16, version, 0, 12, 0, incompat, ro_compat, compat, self.uuid, epoch, first_seq, time, number)
        head[:16], head[80:136] = HEADER_START, before
        info = element(3, "info", info)
        head[256:256 + len(info)] = info
        fill = 4096 - 256 - len(info) - len(element(5, "_fill", bytes(5))) - 1
        start = element(5, "_fill", struct.pack("<iB", fill, 0))
        head[256 + len(info):256 + len(info) + len(start)] = start
        crc = crc32c(bytes(head[:252]) + bytes(head[256:]))
        struct.pack_into("<I", head, 252, crc)
        self.link, self.length, self.tail, self.skips = crc << 32, 4096, 0, []
        self.path.write_bytes(head)

    def skip(self):
        n, numbers = len(self.blocks), self.skips
        if n == 0:
            return 0, 0
        p = n - 1
        skip_p = numbers[p]
        skip = numbers[skip_p] if p - skip_p == skip_p - numbers[skip_p] else p
        return skip, self.blocks[skip]

    def add(self, kind, body, count=0, items=None, codec=0, decoded=None, flags=0, version=1, **wrong):
        number, skip = self.skip()
        self.time += 1000000
        items = count if items is None else items
        offset = wrong.get("offset", self.length)
        marker = bytearray(128)
        marker[:16] = MARKER_START
        struct.pack_into("<BBBBIII8sqqqqqqQIII", marker, 16, version, kind, codec, flags, len(body), len(body) if decoded is None else decoded,
                         count, self.uuid[:8], offset, self.epoch, wrong.get("seq", self.seq), self.time, self.tail, skip, self.link,
                         len(self.blocks), crc32c(body), items)
        crc = crc32c(bytes(marker[:120]))
        struct.pack_into("<I", marker, 120, crc)
        with open(self.path, "r+b") as file:
            file.seek(self.length)
            file.write(bytes(marker) + body)
        self.skips.append(number)
        self.blocks.append(self.length)
        self.tail, self.link = self.length, crc << 32 | crc32c(body)
        self.length += 128 + len(body)
        self.seq += count
        return self

    def data(self, *messages, **more):
        return self.add(DATA, b"".join(messages), len(messages), **more)

    def numbered(self, *numbers):
        return self.data(*(message(n, f"m{n}") for n in numbers))

    def open(self, epoch):
        self.epoch = epoch
        return self.add(OPEN, document(text("host", "there"), int64("pid", 2), text("machine", "m"), int64("lease_ms", 1)))

    def close(self):
        return self.add(CLOSE, document(int64("messages", 0), int64("items", 0)))

