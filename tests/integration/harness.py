"""What the integration tests are made of: the programs, private servers, and workers. A test's own ground is in fields.py.

Nothing here sleeps to synchronise: wait_until looks for a condition until a deadline.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import bson
import pymongo
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))  # for reader.py

BIN = Path(os.environ.get("PAWL_BIN") or ROOT / "build")
DEADLINE = float(os.environ.get("PAWL_TEST_DEADLINE_S", "60"))
STATE = tempfile.TemporaryDirectory(prefix="pawl-test-state.", dir=os.environ.get("PAWL_TEST_TMP"))  # pawl-enqueue's last _id
RAW = CodecOptions(document_class=RawBSONDocument)
# Short, so that tests are: a lease of 1 s, and no waiting on an empty queue.
QUICK = ["--lease", "1s", "--retry", "50ms", "--poll", "50ms", "--linger", "300ms"]
# Where nobody waits for its end: a request may take 3 s instead of a third of one, and a busy machine loses no lease.
CALM = ["--lease", "30s"]
# How long a worker distrusts its storage before it gives the type up; by default it is far longer.
DISTRUST = {"PAWL_TEST_DISTRUST_MS": "1500"}
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


def side_by_side(*calls):
    """What each call returns, in order; they wait together."""
    with ThreadPoolExecutor(48) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


def wait_until(condition, what, deadline=DEADLINE):
    """Asks often at first, and then each twentieth of the time that it has waited: several tests run beside each other, and their asking
    would take the processor from what they wait for."""
    begin = time.monotonic()
    end = begin + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline:g} s: {what() if callable(what) else what}")
        time.sleep(min(0.25, 0.01 + (time.monotonic() - begin) / 20))


def stays(condition, seconds, what):
    """The condition holds all the time: there is nothing to wait for, only time in which to go wrong."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert condition(), what() if callable(what) else what
        time.sleep(0.05)


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

    @contextmanager
    def frozen(self):
        """It answers nothing as long as the block lasts."""
        pid = self.pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def stop(self):
        if self.client:
            self.client.close()
        subprocess.run([ROOT / "scripts/mongod", "stop", "--dir", self.folder], check=False, capture_output=True, timeout=60)


class FailPoint:
    """The server does `fault` to these commands of a program, as long as the block lasts; made by Field.failing."""

    def __init__(self, admin, mode, data):
        self.admin, self.mode, self.data = admin, mode, data

    def __enter__(self):
        self.before = self.admin.command("configureFailPoint", "failCommand", mode=self.mode, data=self.data)["count"]
        return self

    def wait(self, count=1):
        """Until it has met so many commands."""
        self.admin.command("waitForFailPoint", "failCommand", timesEntered=self.before + count, maxTimeMS=30000)

    def __exit__(self, *_):
        """count: how many it has met."""
        self.count = self.admin.command("configureFailPoint", "failCommand", mode="off")["count"] - self.before


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

    def events(self, event, level="[a-z]+"):
        """Its lines about one event."""
        return re.findall(rf"^\S+ {level} +(?:.* )?{event}: .*$", self.log(), re.M)

    def sample_memory(self):
        try:
            found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())
        except OSError:
            return
        self.peak_kib = max(self.peak_kib, int(found[1]) if found else 0)


def free_port():
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def remove(folder):
    shutil.rmtree(folder, ignore_errors=True)
