"""A signal ends every program at once, wherever it waits; and a program that waits for longer than a second says so."""
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from harness import DEADLINE, environment, program, wait_until

NEEDED = {"pawl-worker": ["--type", "t1"], "pawl-enqueue": ["--type", "t1"], "pawl-lock": ["n", "--", "true"],
          "pawl-dump": ["--dir", ".", "-f"]}
PROGRAMS = ["pawl-worker", "pawl-enqueue", "pawl-status", "pawl-setup", "pawl-dump", "pawl-lock", "pawl-monitor"]


class Started:
    """A program, and what it says on stderr as it says it."""

    def __init__(self, name, *arguments):
        self.process = subprocess.Popen([program(name), *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, env=environment())
        self.said = b""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while part := self.process.stderr.read1(4096):
            self.said += part

    def wait_said(self, pattern):
        wait_until(lambda: re.search(pattern, self.said) or self.process.poll() is not None, lambda: f"{pattern} in {self.said}")
        wait_until(lambda: re.search(pattern, self.said), lambda: f"{pattern} in {self.said}", 5)

    def wait(self):
        code = self.process.wait(DEADLINE)
        return code


@pytest.fixture
def start():
    started = []

    def starter(name, *arguments):
        started.append(Started(name, *arguments))
        return started[-1]
    yield starter
    for one in started:
        one.process.kill()
        one.process.wait()


@pytest.fixture
def silent():
    """The address of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"mongodb://127.0.0.1:{listener.getsockname()[1]}/?directConnection=true"


@pytest.mark.parametrize("option, number", [("--config", signal.SIGTERM), ("--uri-file", signal.SIGINT)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_while_it_reads_its_options_from_a_fifo(start, tmp_path, name, option, number):
    os.mkfifo(tmp_path / "fifo")
    one = start(name, option, tmp_path / "fifo", *NEEDED.get(name, []))
    wait_until(lambda: waits_for_writer(one.process.pid), lambda: f"a wait for a writer: {one.said}")
    one.process.send_signal(number)
    assert one.wait() == (0 if name == "pawl-worker" else -number), one.said


def waits_for_writer(pid):
    with open(f"/proc/{pid}/wchan", encoding="ascii") as file:
        where = file.read()
    return "fifo" in where or "wait_for_partner" in where


@pytest.mark.parametrize("name", ["pawl-status", "pawl-setup", "pawl-enqueue", "pawl-lock"])
def test_while_the_server_says_nothing(start, silent, name):
    """pawl-enqueue and pawl-status say what they wait for."""
    one = start(name, "--uri", silent, *NEEDED.get(name, []))
    if name in ("pawl-status", "pawl-enqueue"):
        one.wait_said(rb"waiting for 127\.0\.0\.1:\d+ to answer")
    else:
        wait_until(lambda: len(os.listdir(f"/proc/{one.process.pid}/task")) > 1, "a connection")
    one.process.send_signal(signal.SIGTERM)
    assert one.wait() == (1 if name == "pawl-enqueue" else -signal.SIGTERM), one.said
    if name == "pawl-enqueue":
        wait_until(lambda: b"nothing was enqueued" in one.said, lambda: one.said)


def test_status_that_watches(start, silent):
    one = start("pawl-status", "--watch", "--uri", silent)
    one.wait_said(rb"waiting for")
    one.process.send_signal(signal.SIGINT)
    assert one.wait() == 0


def test_dump_that_asks_for_the_ledger(start, silent, tmp_path):
    one = start("pawl-dump", "-f", "--dir", tmp_path, "--type", "t1", "--uri", silent)
    one.wait_said(rb"pawl-dump: waiting for 127\.0\.0\.1:\d+ to answer")
    one.process.send_signal(signal.SIGTERM)
    assert one.wait() == 0, one.said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_enqueue_while_it_waits_for_input(field, start, tmp_path, number):
    """Of a FIFO that has no writer, too."""
    os.mkfifo(tmp_path / "fifo")
    one = start("pawl-enqueue", *field.mongo, "--type", "t1", "-", tmp_path / "fifo")
    one.process.stdin.write(b"one\ntwo\n")
    one.process.stdin.flush()
    wait_until(lambda: field.queued() == 2, "two messages")
    if number == signal.SIGTERM:
        one.process.stdin.close()
        wait_until(lambda: any(os.path.realpath(f"/proc/{one.process.pid}/fd/{fd}") == str(tmp_path / "fifo")
                               for fd in os.listdir(f"/proc/{one.process.pid}/fd")), "an open FIFO")
    one.process.send_signal(number)
    assert one.wait() == 1
    wait_until(lambda: b"enqueued 2 messages\n" in one.said and b"stopped by a signal" in one.said, lambda: one.said)


@pytest.mark.parametrize("second", [False, True])
def test_enqueue_in_an_insert(field, start, second):
    """The first signal waits for the answer. The second one does not, and says what is not known, and where in the input."""
    one = start("pawl-enqueue", *field.mongo, "--type", "t1")
    one.process.stdin.write(b"one\ntwo\n")
    one.process.stdin.flush()
    wait_until(lambda: field.queued() == 2, "two messages")
    with field.failing(["insert"], {"times": 1}, collection="messages", program="pawl-enqueue", blockConnection=True, blockTimeMS=4000) as fault:
        one.process.stdin.write(b"three\nfour\nfive\n")
        one.process.stdin.flush()
        fault.wait()
        one.process.send_signal(signal.SIGHUP)
        one.wait_said(rb"waiting for 127\.0\.0\.1:\d+ to acknowledge 3 messages")
        assert one.process.poll() is None
        if second:
            one.process.send_signal(signal.SIGQUIT)
        assert one.wait() == 1
    said = rb"not known whether 3 messages are in the queue: standard input:3 to standard input:5, .*second signal.*\n.*not tried: .*\n" \
           rb".*enqueued 2 messages, 3 unknown" if second else rb"enqueued 5 messages\n"
    wait_until(lambda: re.search(said, one.said), lambda: one.said)


def test_worker_ends_at_its_last_word(field):
    """Within milliseconds. The driver's own end takes half a second."""
    field.drain()
    assert min(timed_end(field) for _ in range(3)) < 0.4


def timed_end(field):
    """From its last word to its end."""
    one = Started("pawl-worker", *field.mongo, "--dir", field.dir, "--type", "t1", "--exit-when-empty")
    one.wait_said(rb"ends with exit code 0")
    begin = time.monotonic()
    assert one.wait() == 0
    return time.monotonic() - begin
