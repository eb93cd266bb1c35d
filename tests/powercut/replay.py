"""What a power cut leaves of the files of disk.c: whatever was synced, and of the later changes none, all, or any of them.

A write is kept or lost in pieces of 512 bytes, each by itself, as a disk's sectors are. Names are files of their own: they stay only
when the directory was synced. (An image has one name, which was there from the start.)
"""
import mmap
import os
import random
import shutil
import struct
import subprocess
from collections import namedtuple
from pathlib import Path

WRITE, CUT, SYNC, CREATE, REMOVE, SYNC_NAMES = range(1, 7)
HEAD = struct.Struct("=4Q")
PIECE = 512

Entry = namedtuple("Entry", "kind file offset data")


def read_log(path, count):
    """The first entries of a log."""
    with open(path, "rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    entries, at = [], 0
    while len(entries) < count:
        kind, number, offset, length = HEAD.unpack_from(view, at)
        at += HEAD.size
        has_bytes = kind in (WRITE, CREATE, REMOVE)
        entries.append(Entry(kind, number, offset, view[at:at + length] if has_bytes else b""))
        at += length if has_bytes else 0
    return entries


def pieces(entry):
    """A write as the parts of it that are kept or lost, each by itself."""
    if entry.kind != WRITE:
        return [entry]
    found, at, end = [], entry.offset, entry.offset + len(entry.data)
    while at < end:
        stop = min(end, (at // PIECE + 1) * PIECE)
        found.append(Entry(WRITE, entry.file, at, entry.data[at - entry.offset:stop - entry.offset]))
        at = stop
    return found


def apply(fd, entry):
    if entry.kind == WRITE:
        os.pwrite(fd, entry.data, entry.offset)
    else:
        os.truncate(fd, entry.offset)


class Keep:
    """Which of the changes that were not synced survive: "none", "all", or a seed's choice."""

    def __init__(self, what):
        self.what = what
        if what not in ("none", "all"):
            self.draw = random.Random(what)
            self.share = self.draw.choice([0.1, 0.5, 0.9])

    def __call__(self):
        return self.what == "all" or (self.what != "none" and self.draw.random() < self.share)


class Replay:
    """The disk at rising positions of its log. `base`: the files as they were at its start; `folder`: where what is synced is built up."""

    def __init__(self, entries, base, folder):
        self.entries, self.folder, self.at = entries, Path(folder), 0
        self.folder.mkdir()
        self.pending, self.names, self.pending_names, self.base = {}, {}, [], Path(base)

    def _file(self, number):
        return self.folder / str(number)

    def advance(self, position):
        for entry in self.entries[self.at:position]:
            if entry.kind == CREATE:
                self._begin(entry)
                self.pending_names.append(entry)
            elif entry.kind == REMOVE:
                self.pending_names.append(entry)
            elif entry.kind == SYNC_NAMES:
                self._rename(self.names, self.pending_names)
                self.pending_names = []
            elif entry.kind == SYNC:
                self._sync(entry.file)
            else:
                self.pending.setdefault(entry.file, []).append(entry)
        self.at = position

    def _begin(self, entry):
        original = self.base / bytes(entry.data).decode()
        if original.exists():
            copy(original, self._file(entry.file))
        else:
            self._file(entry.file).touch()

    def _sync(self, number):
        fd = os.open(self._file(number), os.O_WRONLY)
        for entry in self.pending.pop(number, []):
            apply(fd, entry)
        os.close(fd)

    @staticmethod
    def _rename(names, entries):
        for entry in entries:
            name = bytes(entry.data).decode()
            if entry.kind == CREATE:
                names[name] = entry.file
            else:
                names.pop(name, None)

    def build(self, target, keep):
        """The files after a power cut here."""
        names = dict(self.names)
        self._rename(names, [entry for entry in self.pending_names if keep()])
        for name, number in names.items():
            copy(self._file(number), target / name)
            fd = os.open(target / name, os.O_WRONLY)
            for entry in self.pending.get(number, []):
                for piece in pieces(entry):
                    if keep():
                        apply(fd, piece)
            os.close(fd)

    def close(self):
        shutil.rmtree(self.folder)


def copy(source, target):
    subprocess.run(["cp", "--sparse=auto", source, target], check=True)


Cut = namedtuple("Cut", "position keep")


def choose_cuts(entries, begin, seed, count):
    """So many power cuts, if there are. Each flush from entry `begin` on gives five: right after it, which is always taken; right
    before it, with none and with some of what was not synced; and at two moments between it and the flush before, with all and with
    some. And some where no flush is near."""
    draw, after, cuts, last = random.Random(seed), set(), set(), begin
    for i in range(begin, len(entries)):
        if entries[i].kind in (SYNC, SYNC_NAMES):
            after.add(Cut(i + 1, "none"))
            cuts |= {Cut(i, "none"), Cut(i, draw.getrandbits(32)),
                     Cut(draw.randint(last, i), "all"), Cut(draw.randint(last, i), draw.getrandbits(32))}
            last = i + 1
    for _ in range(20):
        cuts.add(Cut(draw.randint(begin, len(entries)), draw.choice(["none", "all", draw.getrandbits(32)])))
    rest = sorted(cuts - after, key=str)
    draw.shuffle(rest)
    return sorted(after.union(rest[:max(0, count - len(after))]), key=lambda cut: (cut.position, str(cut.keep)))
