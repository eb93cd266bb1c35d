"""pawl-dump, run and judged: on the golden files of tests/vectors, on files made here, and with a ledger."""
import json
import os
import signal
import struct
import subprocess
import time

import bson

from harness import ROOT, environment, program

VECTORS = ROOT / "tests/vectors"
# A line is a document here, as in the golden files; bundles that are opened are in test_bundles.py.
ENVIRONMENT = environment(PAWL_DOCUMENTS="true")


def run_dump(*arguments, **more):
    return subprocess.run([program("pawl-dump"), *map(str, arguments)], check=False,
                          **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": ENVIRONMENT, "timeout": 60, **more})


def start_dump(*arguments, **more):
    return subprocess.Popen([program("pawl-dump"), *map(str, arguments)],
                            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": ENVIRONMENT, **more})


def dump(*arguments, **more):
    """To its end; more: variables of its environment."""
    done = run_dump(*arguments, env=ENVIRONMENT | more)
    assert done.returncode in (0, 1, 2, 3, 4, 5), done.stderr.decode()  # no signal, no sanitizer: which of them is the caller's matter
    return done


def documents(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def expected(form="relaxed"):
    return [json.loads(line) for line in (VECTORS / f"t1.{form}.ndjson").read_text().splitlines()]


def payloads(done):
    return [d.get("payload") for d in documents(done)]


def numbers(first, last):
    return [f"m{n}" for n in range(first, last + 1)]


def flip(path, at):
    raw = bytearray(path.read_bytes())
    raw[at] ^= 0x10
    path.write_bytes(raw)


def verdict(done, code, *words):
    """One line, with all these words in it, and not `ok`."""
    text = done.stdout.decode()
    assert done.returncode == code and text.count("\n") == 1 and ": ok" not in text and all(word in text for word in words), (done, words)
    return text


def ledger_of(segment, items=None, type="t1", **other):
    link = struct.unpack("<q", struct.pack("<Q", segment.link))[0]
    return {"_id": type, "v": 1, "epoch": 9, "owner": b"o" * 16, "clean": False, "file": segment.path.name, "uuid": bytes(segment.uuid),
            "length": segment.length, "tail": segment.tail, "link": bson.Int64(link), "seq": segment.seq - 1,
            "items": items or segment.seq - 1, "settled": 0} | other


def without_file(type, **more):
    return {"_id": type, "v": 1, "epoch": 3, "owner": b"o" * 16, "clean": True, "seq": 0, "items": 0, "settled": 0} | more


class Follower:
    """A pawl-dump --follow that prints messages with a payload."""

    def __init__(self, *arguments, process=None):
        self.process = process or start_dump(*arguments, "--follow")
        os.set_blocking(self.process.stdout.fileno(), False)
        self.text = b""

    def lines(self, count, seconds=20):
        """The first `count` payloads, waited for."""
        deadline = time.monotonic() + seconds
        while self.text.count(b"\n") < count and time.monotonic() < deadline:
            self.text += self.process.stdout.read() or b""
            time.sleep(0.01)
        return self.so_far()

    def so_far(self):
        self.text += self.process.stdout.read() or b""
        return [json.loads(line)["payload"] for line in self.text.splitlines()]

    def end(self, by=signal.SIGTERM):
        self.process.send_signal(by)
        return self.process.wait(20)


def told(follower, words, seconds=60):
    """What it says on stderr, waited for until all the words are in it."""
    os.set_blocking(follower.process.stderr.fileno(), False)
    deadline, text = time.monotonic() + seconds, ""
    while not all(word in text for word in words):
        assert time.monotonic() < deadline, (words, text)
        text += (follower.process.stderr.read() or b"").decode()
        time.sleep(0.01)
    return text
