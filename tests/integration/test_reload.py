"""SIGHUP: the configuration is read again. SIGUSR1: the whole state of a worker in its log."""
import itertools
import json
import os
import pty
import re
import signal
import socket
import time

import pytest

from harness import DISTRUST, ROOT, environment, free_port, program, wait_until


@pytest.fixture
def configured(field, tmp_path):
    """A worker with a file of options, which write() replaces."""
    path = tmp_path / "worker.conf"

    class Configured:
        def write(self, **options):
            text = "".join(f"{name.replace('_', '-')} = {value}\n" for name, value in options.items())
            path.with_suffix(".new").write_text(text)
            path.with_suffix(".new").rename(path)

        def start(self, *arguments, types=("t1",), **options):
            self.write(**options)
            self.worker = field.worker("--config", path, *arguments, types=types, quick=False)
            self.worker.wait_log(" start: ")  # the configuration was read
            return self.worker

        def reload(self, count=1, **options):
            self.write(**options)
            self.hup(count)

        def hup(self, count=1):
            self.worker.signal(signal.SIGHUP)
            wait_until(lambda: len(re.findall("nothing changes|was read again", self.worker.log())) >= count, lambda: f"{count} reloads of {self.worker}")
            assert self.worker.alive()
    one = Configured()
    one.path = path
    return one


def lock(field):
    return field.locks.find_one({"type": "t1", "slot": 0}) or {}


def test_a_new_lease_is_in_the_lock_document(field, configured):
    """At once, and both ways; the work goes on under the same epoch."""
    worker = configured.start(lease="30s", linger="1h", poll="20ms")
    field.fill(10)
    wait_until(lambda: field.seq() == 10 and lock(field).get("ttl_ms") == 30000, lambda: str(worker))
    configured.reload(lease="8s", linger="1h", poll="20ms")
    wait_until(lambda: lock(field)["ttl_ms"] == 8000, lambda: f"{lock(field)} {worker}")
    left = lock(field)["expires_at"] - lock(field)["acquired_at"]
    assert left.total_seconds() < 30
    configured.reload(2, lease="1m", linger="1h", poll="20ms")
    wait_until(lambda: lock(field)["ttl_ms"] == 60000, lambda: f"{lock(field)} {worker}")
    field.fill(10)
    wait_until(lambda: field.seq() == 20, lambda: str(worker))
    assert field.ledger()["epoch"] == 1 and not worker.events("lost")
    assert "lease 30s -> 8s" in worker.log() and "lease 8s -> 1m" in worker.log()
    assert worker.events("reload", "warn") == [line for line in worker.events("reload", "warn") if "a request still waits" in line]
    assert worker.stop()[0] == 0


def test_batches_and_log_level(field, configured):
    worker = configured.start(lease="30s", linger="1h", poll="20ms")
    field.fill(10)
    wait_until(lambda: field.seq() == 10, lambda: str(worker))
    assert " debug " not in worker.log()
    configured.reload(lease="30s", linger="1h", poll="20ms", batch_messages=3, log_level="debug", trace="n")
    assert "batch-messages 10000 -> 3" in worker.log() and "log-level info -> debug" in worker.log()
    assert re.search(r" warn  reload: trace needs a restart, and stays as it is: none -> n\n", worker.log())
    field.fill(10)
    wait_until(lambda: field.seq() == 20, lambda: str(worker))
    field.stop()
    blocks = field.run("pawl-dump", "--dir", field.dir, "--format", "blocks").stdout.decode()
    sizes = [int(line.split()[7]) for line in blocks.splitlines() if line.split()[2] == "data"]
    assert sum(sizes) == 20 and max(sizes[-4:]) == 3, blocks


def test_all_that_changes_at_once(field, configured):
    """As docs/configuration.md names them."""
    page = (ROOT / "docs/configuration.md").read_text()
    named = re.findall(r"`([a-z-]+)`", re.search(r"These change at once: ([^.]*)", page)[1])
    before = dict(lease="30s", retry="1s", poll="20ms", linger="1h", stall="90s", batch_messages=10, batch_bytes="1MiB", segment_bytes="1GiB",
                  log_level="info", log_format="text")
    after = dict(lease="20s", retry="2s", poll="30ms", linger="2h", stall="80s", batch_messages=3, batch_bytes="2MiB", segment_bytes="2GiB",
                 log_level="warn", log_format="json")
    assert sorted(named) == sorted(name.replace("_", "-") for name in before)
    worker = configured.start(**before)
    configured.reload(**after)
    said = worker.log()
    assert all(f"{name.replace('_', '-')} {value} -> {after[name]}" in said for name, value in before.items()), said
    assert "needs a restart" not in said
    assert worker.stop()[0] == 0


def test_what_changed_counts_for_types_that_are_found_later(field, configured):
    worker = configured.start(types=["*"], lease="30s", linger="1h", poll="20ms")
    configured.reload(lease="20s", linger="1h", poll="20ms", batch_messages=3)
    field.fill(10, "new")
    wait_until(lambda: field.seq("new") == 10, lambda: str(worker))
    assert field.locks.find_one({"type": "new", "slot": 0})["ttl_ms"] == 20000
    blocks = field.run("pawl-dump", "--dir", field.dir, "--format", "blocks").stdout.decode()
    assert {int(line.split()[7]) for line in blocks.splitlines() if line.split()[2] == "data"} == {1, 3}, blocks
    process, _ = report(worker, 1)
    assert " lease_ms=20000" in process, process
    assert worker.stop()[0] == 0


@pytest.mark.parametrize("wrong, said", [
    ("lease = 10\n", '--lease: got "10" (from {path}:1): takes a duration'),
    ("no-such = 1\n", "{path}:1: no-such: no such option"),
    ("lease\n", "takes lines of the form"),
    (None, "--config: cannot open {path}: No such file or directory"),
])
def test_a_wrong_file_changes_nothing(field, configured, wrong, said):
    """The text is that of the start; what is right in the file does not count, either."""
    worker = configured.start(lease="30s", linger="1h", poll="20ms")
    field.fill(1)
    wait_until(lambda: lock(field).get("ttl_ms") == 30000, lambda: str(worker))
    if wrong is None:
        configured.path.unlink()
    else:
        configured.path.write_text(wrong + "log-level = debug\n")
    configured.hup()
    [line] = worker.events("reload")
    expected = said.format(path=configured.path)
    assert " error " in line and "the configuration is wrong, and nothing changes: " in line and expected in line
    started = field.run("pawl-worker", "--config", configured.path, "--type", "t1")
    assert started.returncode == 2 and line.split("nothing changes: ", 1)[1] in started.stderr.decode()
    field.fill(1)
    wait_until(lambda: field.seq() == 2, lambda: str(worker))
    assert lock(field)["ttl_ms"] == 30000 and " debug " not in worker.log()
    assert worker.stop()[0] == 0


def test_what_needs_a_restart_is_named(field, configured, tmp_path):
    """A password is not shown."""
    uri = tmp_path / "uri"
    uri.write_text(field.server.uri + "\n")
    port = free_port()
    configured.write(dir=field.dir, lease="30s", linger="5s", type="t1", uri_file=uri, db=field.name, listen=f"127.0.0.1:{port}", file_mode="0640")
    worker = field.worker("--config", configured.path, types=(), quick=False, mongo=["--db", field.name])
    configured.worker = worker
    worker.wait_log(" start: ")
    uri.write_text("mongodb://me:secret@127.0.0.1:1/\n")
    configured.reload(dir="/", lease="30000ms", linger="5s", type="t1,t2", codec="zstd", uri_file=uri, db=field.name, timeout="1h",
                      listen=f"127.0.0.2:{port}", file_mode="0600", exit_when_empty="true")
    said = worker.events("reload", "warn")
    assert sorted(re.search(r"reload: ([a-z-]+) needs a restart", line)[1] for line in said) == [
        "codec", "exit-when-empty", "file-mode", "listen", "timeout", "type", "uri"], worker
    assert any("type needs a restart, and stays as it is: t1 -> t1,t2" in line for line in said)
    assert "secret" not in worker.log() and "read again: nothing changes" in worker.log()
    field.fill(5)
    wait_until(lambda: field.seq() == 5, lambda: str(worker))
    assert worker.stop()[0] == 0


def test_many_signals(field, configured):
    """While it drains, and while the file changes under it. Nothing is lost, and none ends it."""
    worker = configured.start(lease="10s", linger="1h", poll="20ms")
    with field.producing(count=200, pause=0.01):
        for n in range(40):
            configured.write(lease=f"{5 + n % 7}s", linger="1h", poll="20ms", batch_messages=1 + n % 50)
            worker.signal(signal.SIGHUP)
            worker.signal(signal.SIGUSR1)
            time.sleep(0.01)  # no synchronisation: many of them while it works
    configured.reload(lease="10s", linger="100ms", poll="20ms")
    worker.wait_log("linger 1h -> 100ms")
    assert field.finish(worker)
    assert not worker.events("lost") and not worker.events("fenced")


def test_the_database_is_frozen(field, configured):
    """Both signals are answered, and the new lease counts when the database is back."""
    worker = configured.start(lease="30s", linger="1h", poll="20ms")
    field.fill(1)
    wait_until(lambda: field.seq() == 1 and field.queued() == 0, lambda: str(worker))
    with field.server.frozen():
        wait_until(lambda: worker.signal(signal.SIGUSR1) or re.search(r"report: draining for .* holder=yes lease_left_ms=\d+ .*doing=[a-z]+/\d+ms",
                                                                      worker.log()), lambda: str(worker))
        configured.reload(lease="20s", linger="1h", poll="20ms")
        assert "lease 30s -> 20s" in worker.log()
    wait_until(lambda: lock(field).get("ttl_ms") == 20000, lambda: str(worker))
    assert worker.stop()[0] == 0


# --- SIGUSR1 -----------------------------------------------------------------------------------------------------


def report(worker, count, types=1):
    """The lines of the report number `count`: the process, and each type."""
    worker.signal(signal.SIGUSR1)
    wait_until(lambda: len(worker.events("report")) == count * (types + 1) or not worker.alive(), lambda: str(worker))
    return worker.events("report")[-types - 1:]


def test_report_while_idle_and_draining(field):
    """Whatever --log-level says."""
    worker = field.worker("--log-level", "error", "--linger", "1h", quick=False)
    wait_until(worker.takes_signals, "its start")
    process, t1 = report(worker, 1)
    assert re.search(rf"info  report: pawl-worker [\d.]+: pid={worker.pid} types=1 holds=0 stopped=0 .*lease_ms=30000 poll_ms=100", process)
    assert re.search(r"info  t1 epoch=0 seq=0 report: (idle|checking) for [\d.]+ s: holder=no settled=0 .*pause_ms=\d+ doing=", t1), t1
    field.fill(10)
    wait_until(lambda: field.seq() == 10 and field.queued() == 0, lambda: str(worker))
    numbers = itertools.count(2)

    def told():
        process, t1 = report(worker, next(numbers))
        assert " holds=1 " in process and " answers=yes " in process
        return re.search(r"t1 epoch=1 seq=10 report: draining for [\d.]+ s: holder=yes lease_left_ms=\d+ settled=10 file=t1\.bin length=\d+ "
                         r"batches_read=0 batches_writing=0 batches_committed=0 queue_empty=yes storage=agrees pause_ms=", t1)
    wait_until(told, lambda: str(worker))  # the first may come before a pass has found nothing
    assert worker.stop()[0] == 0


def test_report_of_the_last_problem(field):
    """And of what it does now, since when."""
    worker = field.worker("--linger", "1h", "--lease", "30s", quick=False)
    field.fill(1)
    wait_until(lambda: field.seq() == 1, lambda: str(worker))
    with field.failing(["update"], collection="ledger", errorCode=11601, closeConnection=True):
        field.fill(1)
        wait_until(lambda: worker.events("database", "warn"), lambda: str(worker))
        process, _ = report(worker, 1)
    assert re.search(r"answers=no .*database_error_ms=\d+ database_error=\"", process), process
    assert worker.stop()[0] == 0


def test_report_of_a_storage_that_is_away(field):
    worker = field.worker("--linger", "100ms", "--lease", "30s", quick=False, env=DISTRUST | {"PAWL_TEST_DISTRUST_MS": "60000"})
    field.fill(1)
    wait_until(lambda: field.seq() == 1 and field.holder() is None, lambda: str(worker))
    (field.dir / "t1.bin").rename(field.folder / "away")
    field.fill(1)
    worker.wait_log(" untrusted: ")
    process, of_type = report(worker, 1)
    assert re.search(r"ready=no .*because=\"the storage of t1", process), process
    assert re.search(r"problem_ms=\d+ problem=\"untrusted: ", of_type), of_type
    (field.folder / "away").rename(field.dir / "t1.bin")
    field.finish(worker)


def test_report_in_json(field):
    worker = field.worker("--log-format", "json")
    wait_until(worker.takes_signals, "its start")
    worker.signal(signal.SIGUSR1)
    lines = wait_until(lambda: [line for line in map(json.loads, worker.log().splitlines()) if line["event"] == "report"][:2], lambda: str(worker))
    assert "type" not in lines[0] and lines[1]["type"] == "t1" and " doing=" in lines[1]["text"]
    assert worker.stop()[0] == 0


def test_report_of_a_paused_type(field):
    paused = field.run("pawl-status", "--pause", "t1", "--reason", "a test")
    assert paused.returncode == 0, paused
    worker = field.worker()
    worker.wait_log("paused: not competing")
    assert " storage=paused " in report(worker, 1)[1], str(worker)
    assert worker.stop()[0] == 0


@pytest.mark.slow
def test_report_of_a_thousand_types(field):
    types = [f"type{n}" for n in range(1000)]
    worker = field.worker("--poll", "1h", types=types, quick=False)
    worker.wait_log(" start: ")
    lines = report(worker, 1, 1000)
    assert " types=1000 " in lines[0] and {line.split()[2] for line in lines[1:]} == set(types)
    assert worker.stop()[0] == 0


# --- beginnings and ends ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1])
def test_before_it_has_begun(field, tmp_path, number):
    """It waits, and does not end the worker."""
    os.mkfifo(tmp_path / "fifo")
    worker = field.worker("--config", tmp_path / "fifo", "-v")
    wait_until(lambda: signal_blocked(worker.pid, number), "a start")
    worker.signal(number)
    with open(tmp_path / "fifo", "w", encoding="ascii") as file:
        file.write("linger = 1h\n")
    if number == signal.SIGUSR1:
        worker.wait_log("report: pawl-worker")
    else:
        worker.wait_log("fifo is no regular file: it cannot be read again")  # what was in it is gone: nothing would be left of the options
        (tmp_path / "file").write_text("linger = 2h\n")
        (tmp_path / "file").rename(tmp_path / "fifo")
        worker.signal(number)
        worker.wait_log("reload: the configuration was read again")
    field.fill(1)
    wait_until(lambda: field.seq() == 1, lambda: str(worker))
    assert worker.stop()[0] == 0


def signal_blocked(pid, number):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"SigBlk:\s+(\w+)", file.read())[1], 16) >> (number - 1) & 1


def test_nohup(field, tmp_path):
    """A SIGHUP that was ignored at the start stays ignored."""
    worker = field.worker(prefix=("nohup",))
    worker.wait_log(" start: ")
    worker.signal(signal.SIGHUP)
    worker.signal(signal.SIGUSR1)
    worker.wait_log("report: ")
    assert not worker.events("reload")
    assert worker.stop()[0] == 0


def test_a_closed_terminal_ends_it_in_order(field):
    """It shall not go on unseen: as SIGTERM."""
    log = field.folder / "terminal.log"
    pid, terminal = pty.fork()
    if pid == 0:
        fd = os.open(log, os.O_CREAT | os.O_WRONLY, 0o600)
        os.dup2(fd, 2)
        os.execve(program("pawl-worker"), ["pawl-worker", *field.mongo, "--type", "t1", "--dir", str(field.dir), "--linger", "1h"], environment())
    try:
        field.fill(1)
        wait_until(lambda: field.seq() == 1, log.read_text)
        os.kill(pid, signal.SIGHUP)  # the terminal is there: nothing but a reload
        wait_until(lambda: "was read again" in log.read_text(), log.read_text)
        os.close(terminal)
        assert wait_until(lambda: (ended := os.waitpid(pid, os.WNOHANG))[0] and ended, log.read_text) == (pid, 0)
        assert "stop: the terminal is closed: finishing the batch in hand" in log.read_text()
        assert field.ledger()["clean"] and not lock(field)
    finally:
        if "end: ends with exit code" not in log.read_text():
            os.kill(pid, signal.SIGKILL)


def test_systemd_is_told(field, configured, tmp_path):
    """RELOADING with the time, then READY."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        configured.write(lease="30s")
        configured.worker = field.worker("--config", configured.path, env={"NOTIFY_SOCKET": tmp_path / "notify"})
        said = b""
        while b"READY=1" not in said:
            said = manager.recv(4096)
        configured.reload(lease="20s")
        while b"RELOADING=1" not in said:
            said = manager.recv(4096)
        assert re.search(rb"MONOTONIC_USEC=\d+\n", said)
        while b"READY=1" not in said:
            said = manager.recv(4096)
    assert configured.worker.stop()[0] == 0
