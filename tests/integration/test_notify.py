"""What a worker tells systemd: a datagram socket in its place, as sd_notify(3) describes it."""
import os
import re
import signal
import socket
import time

import pytest

from harness import CALM, free_port, wait_until


class Manager:
    """Hears what a service manager would."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.setblocking(False)
        self.path, self.heard = path, []

    def hear(self):
        """All messages so far, each a dict."""
        while True:
            try:
                text = self.socket.recv(65536).decode()
            except BlockingIOError:
                return self.heard
            self.heard.append(dict(line.split("=", 1) for line in text.splitlines()))

    def wait(self, key, pattern="1"):
        wait_until(lambda: any(re.search(pattern, message.get(key, "")) for message in self.hear()), lambda: f"{key}={pattern} in {self.heard}")

    def count(self, key):
        return sum(key in message for message in self.hear())


@pytest.fixture
def manager(tmp_path):
    made = Manager(tmp_path / "notify")
    yield made
    made.socket.close()


def worker_of(field, manager, *arguments, watchdog_ms=None, **more):
    env = {"NOTIFY_SOCKET": manager.path, **({"WATCHDOG_USEC": watchdog_ms * 1000} if watchdog_ms else {})}
    return field.worker(*arguments, env={**env, **more.pop("env", {})}, **more)


def test_the_life_of_a_service(field, manager):
    worker = worker_of(field, manager, *CALM, "--linger", "1h", types=["t1", "t2"])
    manager.wait("READY")
    manager.wait("STATUS", "^idle: t1, t2$")
    field.fill(10)
    manager.wait("STATUS", "^holds t1; idle: t2$")
    assert worker.stop()[0] == 0, str(worker)
    manager.wait("STOPPING")
    manager.wait("STATUS", "^asked to stop")
    assert (manager.count("READY"), manager.count("STOPPING"), manager.count("WATCHDOG")) == (1, 1, 0)
    order = [key for message in manager.heard for key in message if key in ("READY", "STOPPING")]
    assert order == ["READY", "STOPPING"]


def test_ready_without_a_database(field, manager):
    """Its absence is nothing to fail a start by; the status says what is waited for."""
    worker = worker_of(field, manager, mongo=["--uri", f"mongodb://127.0.0.1:{free_port()}", "--db", "x"])
    manager.wait("READY")
    manager.wait("STATUS", "MongoDB gives no answer")
    assert worker.alive() and worker.stop()[0] == 0


def test_not_ready_when_the_database_is_wrong(field, manager):
    field.db.create_collection("messages", capped=True, size=1 << 20)
    worker = worker_of(field, manager, *CALM)
    assert worker.wait() == 2, str(worker)
    assert manager.count("READY") == 0


def test_a_stopped_type_is_named(field, manager):
    field.fill(10)
    field.drain()
    (field.dir / "t1.bin").rename(field.folder / "away")
    field.fill(10)
    worker = worker_of(field, manager, types=["t1", "t2"], env={"PAWL_TEST_DISTRUST_MS": "3000"})
    manager.wait("STATUS", "distrusts t1")
    manager.wait("STATUS", "stopped: t1")
    assert worker.stop()[0] == 74, str(worker)


def test_an_idle_type_that_is_distrusted_is_named(field, manager):
    """And why, however long the path is; when it is over, the status says so."""
    field.fill(10)
    field.drain()
    long = field.folder / "ä" / ("x" * 200) / ("y" * 200) / ("z" * 200)
    long.mkdir(parents=True)
    worker = worker_of(field, manager, *CALM, directory=long, env={"PAWL_TEST_DISTRUST_MS": "1500"})
    manager.wait("READY")
    manager.wait("STATUS", f"storage of t1 does not agree .*database {field.name}: .*t1.bin, of which the ledger has .* is not there.*distrusts t1")
    assert all(len(message.get("STATUS", "").encode()) < 600 for message in manager.hear())
    (field.dir / "t1.bin").rename(long / "t1.bin")
    wait_until(lambda: manager.hear()[-1].get("STATUS") == "idle: t1", lambda: str(manager.heard))
    assert worker.stop()[0] == 0, str(worker)
    (long / "t1.bin").rename(field.dir / "t1.bin")


def test_the_status_of_many_types_is_short(field, manager):
    worker = worker_of(field, manager, types=[f"type-{n}-" + "x" * 60 for n in range(40)])
    manager.wait("STATUS", "^idle: type-0-x*, .*…$")
    assert all(len(message.get("STATUS", "").encode()) < 600 for message in manager.hear())
    assert worker.stop()[0] == 0, str(worker)


@pytest.mark.parametrize("watchdog_ms", [400, 3000])
def test_watchdog(field, manager, watchdog_ms):
    """A sign of life at least twice in the time; none from a worker that is frozen; again when it is thawed."""
    worker = worker_of(field, manager, watchdog_ms=watchdog_ms)
    manager.wait("READY")
    def four():
        before, begin = manager.count("WATCHDOG"), time.monotonic()
        wait_until(lambda: manager.count("WATCHDOG") >= before + 4, lambda: str(manager.heard))
        return time.monotonic() - begin
    # Neither much sooner nor later than half of the time each. A machine that stood still for a moment may try again.
    assert any(watchdog_ms / 2000 < four() < 3 * watchdog_ms / 1000 for _ in range(10))
    worker.freeze()
    frozen = manager.count("WATCHDOG")
    time.sleep(2 * watchdog_ms / 1000)  # no synchronisation: time to do something wrong
    assert manager.count("WATCHDOG") == frozen
    worker.thaw()
    wait_until(lambda: manager.count("WATCHDOG") > frozen, lambda: str(manager.heard))
    assert worker.stop()[0] == 0, str(worker)


def test_watchdog_of_another_process(field, manager):
    worker = worker_of(field, manager, watchdog_ms=200, env={"WATCHDOG_PID": os.getpid()})
    manager.wait("READY")
    field.fill(10)
    field.wait_settled()
    assert manager.count("WATCHDOG") == 0 and worker.stop()[0] == 0


def test_a_manager_that_went_away(field, manager, tmp_path):
    worker = worker_of(field, manager, watchdog_ms=100)
    manager.wait("READY")
    manager.socket.close()
    (tmp_path / "notify").unlink()
    field.fill(100)
    field.wait_settled()
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, str(worker)
    field.compare()
