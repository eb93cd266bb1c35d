"""The health port: what it says, that it says so exactly, and that nobody can harm the worker by it."""
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from harness import CALM, ROOT, free_port, run, wait_until

DISTRUST = {"PAWL_TEST_DISTRUST_MS": "1500"}
PROMTOOL = shutil.which("promtool")


def has_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        return True
    except OSError:
        return False


LOOPBACK = ["127.0.0.1", *(["::1"] if has_ipv6() else [])]


class Port:
    """The health port of a worker, as any HTTP client sees it."""

    def __init__(self, number, host="127.0.0.1"):
        self.number, self.host = number, host

    def ask(self, path, method="GET", body=None, timeout=10):
        """Status, body and headers."""
        client = http.client.HTTPConnection(self.host, self.number, timeout=timeout)
        try:
            client.request(method, path, body)
            answer = client.getresponse()
            return answer.status, answer.read().decode(), answer.headers
        finally:
            client.close()

    def page(self, path):
        """Status and body; None and why if there is no answer."""
        try:
            return self.ask(path)[:2]
        except OSError as error:
            return None, str(error)

    def status(self, path):
        return self.page(path)[0]

    def wait(self, path, status, text=""):
        def is_there():
            got, body = self.page(path)
            return got == status and text in body
        wait_until(is_there, lambda: f"{status} {text!r} at {path}: {self.page(path)}")

    def metrics(self):
        """{(name, labels…): value}"""
        return {(sample.name, *sample.labels.values()): sample.value
                for family in text_string_to_metric_families(self.ask("/metrics")[1]) for sample in family.samples}

    def wait_metric(self, key, value):
        wait_until(lambda: self.metrics().get(key) == value, lambda: f"{key} to be {value}: {self.metrics()}")

    def connect(self, number=0):
        """From one of many addresses: those of one are counted."""
        return socket.create_connection((self.host, self.number), timeout=30, source_address=(f"127.0.0.{1 + number % 10}", 0))


@pytest.fixture
def listening(field):
    """Makes a worker with a health port, and waits until that answers."""
    def make(*arguments, on=field, **more):
        number = free_port()
        worker = on.worker("--listen", f"127.0.0.1:{number}", *CALM, *arguments, **more)
        port = Port(number)
        wait_until(lambda: port.status("/healthz") == 200 or not worker.alive(), lambda: f"a health port of {worker}")
        return worker, port
    return make


def test_pages(listening):
    worker, port = listening()
    port.wait("/readyz", 200)
    assert port.ask("/healthz")[:2] == (200, "ok\n")
    assert port.ask("/readyz")[:2] == (200, "ready\n")
    status, text, headers = port.ask("/metrics?name=x")
    assert status == 200 and "# TYPE pawl_documents_total counter\n" in text
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    for path in ("/", "/metrics/", "/healthz/x", "/%00", "//healthz", "/../healthz", "/" + "x" * 2000):
        assert port.ask(path)[0] in ((404, 400) if path == "/%00" else (404,)), path  # libmicrohttpd 1.0.10 refuses that one itself
    assert worker.stop()[0] == 0, str(worker)


def test_methods(listening):
    _, port = listening()
    port.wait("/readyz", 200)
    for path in ("/healthz", "/readyz", "/metrics"):
        status, text, headers = port.ask(path, "HEAD")
        assert status == 200 and text == "" and int(headers["Content-Length"]) > 0
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "BREW"):
            status, _, headers = port.ask(path, method, b"x" * 100 if method in ("POST", "PUT") else None)
            assert status == 405 and headers["Allow"] == "GET, HEAD", (path, method)


@pytest.mark.skipif("::1" not in LOOPBACK, reason="no IPv6 here")
def test_ipv6(field):
    number = free_port()
    worker = field.worker("--listen", f"[::1]:{number}")
    Port(number, "::1").wait("/readyz", 200)
    assert Port(number).status("/healthz") is None  # nowhere else
    assert worker.stop()[0] == 0, str(worker)


def test_all_addresses(field):
    number = free_port()
    field.worker("--listen", number)
    for host in LOOPBACK:
        Port(number, host).wait("/readyz", 200)


def test_nothing_listens_without_it(field):
    worker = field.worker()
    field.fill(10)
    field.wait_empty()
    sockets = set()
    for descriptor in Path(f"/proc/{worker.pid}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            sockets.add(os.readlink(descriptor))
    listening = {f"socket:[{line.split()[9]}]" for name in ("tcp", "tcp6")
                 for line in Path(f"/proc/{worker.pid}/net/{name}").read_text().splitlines()[1:] if line.split()[3] == "0A"}
    assert not sockets & listening


# --- metrics ---


def test_metrics_are_exact(field, listening):
    """Documents and messages, one by one and in bundles, committed and deleted; and what the ledger says."""
    _, port = listening("--linger", "1h")
    before = port.metrics()
    assert all(before[f"pawl_{name}_total", "t1"] == 0 for name in ("documents", "messages", "blocks", "written_bytes", "deleted_documents",
                                                                     "acquisitions", "segments"))
    assert ("pawl_last_commit_age_seconds", "t1") not in before
    field.fill(7)
    field.insert("bundles", [{"type": "t1", "batch": [{"n": n} for n in range(100)]} for _ in range(3)])
    port.wait_metric(("pawl_deleted_documents_total", "t1"), 10)
    field.fill(5)
    port.wait_metric(("pawl_deleted_documents_total", "t1"), 15)
    after, ledger = port.metrics(), field.ledger()
    assert after["pawl_documents_total", "t1"] == 15 == ledger["seq"]
    assert after["pawl_messages_total", "t1"] == 312 == ledger["items"]
    assert after["pawl_written_bytes_total", "t1"] == ledger["length"] - 4096
    assert after["pawl_blocks_total", "t1"] >= 2
    assert (after["pawl_acquisitions_total", "t1"], after["pawl_segments_total", "t1"]) == (1, 1)
    assert (after["pawl_committed_seq", "t1"], after["pawl_settled_seq", "t1"]) == (15, 15)
    assert (after["pawl_holder", "t1"], after["pawl_epoch", "t1"]) == (1, ledger["epoch"])
    assert 0 < after["pawl_lease_remaining_seconds", "t1"] <= 30
    assert 0 <= after["pawl_last_commit_age_seconds", "t1"] < 60
    assert after["pawl_state", "t1", "draining"] == 1
    assert sum(value for key, value in after.items() if key[:2] == ("pawl_state", "t1")) == 1
    assert sum(value for key, value in after.items() if key[0] == "pawl_problems_total") == 0
    port.wait_metric(("pawl_queue_empty", "t1"), 1)
    field.compare(live=True)


def test_metrics_of_the_process(listening):
    _, port = listening()
    port.wait_metric(("pawl_wakeups", "messages"), 1)
    port.wait_metric(("pawl_wakeups", "locks"), 1)
    port.wait_metric(("pawl_ready",), 1)
    metrics = port.metrics()
    version = run("pawl-worker", "--version").stdout.split()[-1].decode()
    assert metrics["pawl_build_info", version] == 1 and metrics["pawl_database_answers",] == 1
    assert time.time() - 60 < metrics["process_start_time_seconds",] < time.time()


def test_who_waits_holds_nothing(field, listening):
    holder, first = listening("--linger", "1h")
    field.fill(10)
    first.wait_metric(("pawl_deleted_documents_total", "t1"), 10)
    _, second = listening("--linger", "1h")
    second.wait("/readyz", 200)
    metrics = second.metrics()
    assert (metrics["pawl_holder", "t1"], metrics["pawl_documents_total", "t1"]) == (0, 0)
    assert ("pawl_lease_remaining_seconds", "t1") not in metrics
    assert holder.stop()[0] == 0, str(holder)
    field.fill(5)
    second.wait_metric(("pawl_deleted_documents_total", "t1"), 5)
    metrics = second.metrics()
    assert (metrics["pawl_holder", "t1"], metrics["pawl_committed_seq", "t1"]) == (1, 15)


def test_a_lost_lock_is_counted(field, listening):
    """Frozen past its lease, and replaced."""
    worker, port = listening("--lease", "1s", "--linger", "1h")
    field.fill(10)
    port.wait_metric(("pawl_deleted_documents_total", "t1"), 10)
    worker.freeze()
    field.fill(10)
    field.drain()
    worker.thaw()
    wait_until(lambda: sum(port.metrics()["pawl_problems_total", "t1", event] for event in ("lost", "fenced")) > 0, lambda: str(worker))
    field.compare()


def test_format(field, listening):
    """Conventions of Prometheus: as the library reads it, and as promtool does, where that is installed."""
    field.fill(10, "a.b-C_1")
    _, port = listening(types=["t1", "a.b-C_1"])
    port.wait_metric(("pawl_deleted_documents_total", "a.b-C_1"), 10)
    text = port.ask("/metrics")[1]
    families = list(text_string_to_metric_families(text))
    assert len(families) > 15 and len({family.name for family in families}) == len(families)
    for family in families:
        assert family.documentation and family.type in ("counter", "gauge"), family
        assert family.name == "process_start_time_seconds" or family.name.startswith("pawl_"), family
        if family.name not in ("pawl_build_info", "process_start_time_seconds", "pawl_ready", "pawl_database_answers", "pawl_wakeups"):
            assert all("type" in sample.labels for sample in family.samples), family
    if PROMTOOL:
        done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_metric_is_in_the_docs(listening):
    _, port = listening()
    documented = set(re.findall(r"`(pawl_\w+|process_start_time_seconds)", (ROOT / "docs/monitoring.md").read_text()))
    names = set(re.findall(r"^# TYPE (\S+)", port.ask("/metrics")[1], re.M))
    assert names == {name for name in documented if not name.startswith("pawl_test")}


@pytest.mark.skipif(not PROMTOOL, reason="promtool is not installed")
def test_alert_rules():
    """They are rules, and fire when they should, and only then."""
    folder = ROOT / "deploy/prometheus"
    for command in (["check", "rules", "pawl.rules.yml"], ["test", "rules", "pawl.rules.test.yml"]):
        done = subprocess.run([PROMTOOL, *command], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


# --- ready or not ---


def test_ready_only_while_the_database_answers(own_server, make_field, listening):
    server = own_server("--replica-set", "--port", str(free_port())).start()
    field = make_field(server)
    worker, port = listening(on=field)
    port.wait("/readyz", 200)
    server.kill()
    port.wait("/readyz", 503, "MongoDB gives no answer")
    assert port.status("/healthz") == 200
    metrics = port.metrics()
    assert metrics["pawl_database_answers",] == 0 and metrics["pawl_ready",] == 0
    port.wait_metric(("pawl_wakeups", "messages"), 0)
    server.start()
    field.fill(10)
    port.wait("/readyz", 200)
    port.wait_metric(("pawl_deleted_documents_total", "t1"), 10)
    assert worker.stop()[0] == 0, str(worker)
    field.compare()


def test_never_ready_without_a_database(listening):
    worker, port = listening(mongo=["--uri", f"mongodb://127.0.0.1:{free_port()}", "--db", "x"])
    assert port.status("/readyz") == 503
    port.wait("/readyz", 503, "MongoDB gives no answer")
    assert port.status("/healthz") == 200 and worker.stop()[0] == 0


def test_not_ready_while_it_stops(own_server, make_field, listening):
    """A holder that has a block to commit waits for its server, for some seconds."""
    server = own_server("--replica-set").start()
    field = make_field(server)
    field.fill(3000)
    worker, port = listening("--linger", "1h", "--batch-messages", 10, on=field)
    wait_until(lambda: (field.ledger() or {}).get("seq", 0) > 50, field.logs)
    os.kill(server.pid(), signal.SIGSTOP)
    try:
        worker.signal(signal.SIGTERM)
        port.wait("/readyz", 503, "asked to stop")
        assert port.status("/healthz") == 200
        worker.wait()
    finally:
        os.kill(server.pid(), signal.SIGCONT)


def test_a_stopped_type_beside_a_healthy_one(field, listening):
    field.fill(10, "t1")
    field.drain()
    (field.dir / "t1.bin").rename(field.folder / "away")
    field.fill(10, "t1")
    worker, port = listening(types=["t1", "t2"], env=DISTRUST)
    port.wait("/readyz", 503, "the type t1 has stopped")
    field.fill(10, "t2")
    port.wait_metric(("pawl_deleted_documents_total", "t2"), 10)
    metrics = port.metrics()
    assert metrics["pawl_state", "t1", "stopped"] == 1 and metrics["pawl_documents_total", "t1"] == 0
    assert metrics["pawl_problems_total", "t1", "untrusted"] == 2  # the warning, and the verdict
    assert metrics["pawl_state", "t2", "stopped"] == 0 and metrics["pawl_problems_total", "t2", "untrusted"] == 0
    assert port.status("/healthz") == 200
    assert worker.stop()[0] == 74, str(worker)


def test_ready_only_while_the_storage_agrees(field, listening):
    """Looked at before the first message, and again and again; an idle worker waits until it is over, however long that takes."""
    field.fill(10)
    field.drain()
    path, away = field.dir / "t1.bin", field.folder / "away"
    path.rename(away)
    worker, port = listening(env=DISTRUST)
    said = f"database {field.name}: .*t1\\.bin, of which the ledger has \\d+ bytes as committed, is not there"
    for _ in range(2):
        port.wait("/readyz", 503, "the storage of t1 does not agree with the ledger")
        assert re.search(said, port.page("/readyz")[1]), port.page("/readyz")
        assert port.metrics()["pawl_storage_agrees", "t1"] == 0 == port.metrics()["pawl_ready",]
        time.sleep(2)  # no synchronisation: longer than a failing check with messages is borne
        away.rename(path)
        port.wait("/readyz", 200)
        assert port.metrics()["pawl_storage_agrees", "t1"] == 1
        path.rename(away)
    port.wait("/readyz", 503, "t1.bin")
    assert port.status("/healthz") == 200 and worker.alive(), str(worker)
    away.rename(path)
    port.wait("/readyz", 200)
    field.fill(10)
    field.wait_settled()
    assert worker.stop()[0] == 0 and worker.log().count(" untrusted: ") == 3, str(worker)
    field.compare()


def test_a_waiting_worker_looks_at_the_storage(field, listening):
    """Beside a holder whose file stays open: who could not take over is not ready."""
    holder, _ = listening("--linger", "1h")
    field.fill(10)
    field.wait_empty()
    field.messages.insert_one({"type": "t1", "n": 1})
    os.kill(holder.pid, signal.SIGSTOP)
    try:
        waiting, port = listening(env=DISTRUST)
        field.messages.insert_one({"type": "t1", "n": 2})
        port.wait_metric(("pawl_state", "t1", "waiting"), 1)
        port.wait("/readyz", 200)
        (field.dir / "t1.bin").rename(field.folder / "away")
        port.wait("/readyz", 503, "t1.bin")
        (field.folder / "away").rename(field.dir / "t1.bin")
        port.wait("/readyz", 200)
        assert waiting.stop()[0] == 0, str(waiting)
    finally:
        os.kill(holder.pid, signal.SIGCONT)


# --- wrong usage ---


@pytest.mark.parametrize("value", ["x", "0", "65536", ":9464", "localhost:9464", "::1:9464", "[::1]", "1.2.3.4:", "[1.2.3.4]:9464"])
def test_wrong_address(value):
    done = run("pawl-worker", "--type", "t1", "--listen", value)
    assert done.returncode == 2 and b"--listen: got" in done.stderr and value.encode() in done.stderr, done


def test_port_in_use(field, listening):
    worker, port = listening()
    second = field.worker("--listen", f"127.0.0.1:{port.number}")
    assert second.wait(10) == 2, str(second)
    assert f"--listen: cannot listen on port {port.number} of 127.0.0.1: Address already in use" in second.log()
    assert worker.stop()[0] == 0
    third = field.worker("--listen", f"127.0.0.1:{port.number}")  # at once, whatever of the first is in TIME_WAIT
    port.wait("/readyz", 200)
    assert third.stop()[0] == 0, str(third)


def test_address_of_another_machine(field):
    worker = field.worker("--listen", "192.0.2.1:9464")
    assert worker.wait(10) == 2 and "192.0.2.1" in worker.log(), str(worker)


# --- hostile clients ---


GARBAGE = [b"\0" * 5000, b"GET", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 3000, b"GET /" + b"x" * 60000 + b" HTTP/1.1\r\n\r\n",
           b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 5000 + b"\r\n", b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
           b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
           b"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", bytes(range(256)) * 100]


def test_hostile_clients_hinder_nothing(field, listening):
    """A hundred connections, half a request on each or rubbish: messages flow meanwhile, and the port is there again afterwards."""
    worker, port = listening("--linger", "1h")
    begin = len(os.listdir(f"/proc/{worker.pid}/fd"))
    with ExitStack() as stack:
        for number in range(100):
            client = stack.enter_context(port.connect(number))
            try:
                client.sendall(GARBAGE[number % len(GARBAGE)] if number % 2 else b"GET /metrics HTTP/1.1\r\nX: ")
            except OSError:  # it was closed already
                pass
        field.fill(2000)
        field.wait_empty()
        assert len(os.listdir(f"/proc/{worker.pid}/fd")) < begin + 60
    port.wait("/healthz", 200)
    assert len(port.metrics()) > 20
    assert worker.alive() and worker.stop()[0] == 0, str(worker)
    field.compare()


def test_idle_connections_take_no_probes_place(listening):
    """Sixty of one address that say nothing, as of a scanner, or of a load balancer that opens them early."""
    _, port = listening()
    with ExitStack() as stack:
        idle = [stack.enter_context(port.connect()) for _ in range(60)]
        for _ in range(3):
            assert port.status("/healthz") == 200
            assert health("--listen", f"127.0.0.1:{port.number}")[:2] == (0, "")
        assert len(idle) == 60


def test_all_connections_end_at_once(listening):
    """As when the clients' machine dies, or this one was frozen: the port listens again."""
    worker, port = listening()
    with ExitStack() as stack:
        begin = len(os.listdir(f"/proc/{worker.pid}/fd"))

        def connected():
            clients.extend(stack.enter_context(port.connect(number)) for number in range(40))
            time.sleep(0.2)
            return len(os.listdir(f"/proc/{worker.pid}/fd")) >= begin + 30
        clients = []
        wait_until(connected, "as many connections as there may be")
        worker.freeze()
        for client in clients:
            client.close()
        worker.thaw()
    port.wait("/healthz", 200)


@pytest.mark.slow
def test_many_answers(field, listening):
    """They leave no memory and no descriptor behind. (A sanitizer keeps what was freed.)"""
    worker, port = listening("--linger", "1h")
    field.fill(10)
    port.wait_metric(("pawl_deleted_documents_total", "t1"), 10)
    for _ in range(500):
        assert port.status("/metrics") == 200
    worker.sample_memory()
    peak, descriptors = worker.peak_kib, len(os.listdir(f"/proc/{worker.pid}/fd"))
    for _ in range(1000):
        assert port.status("/metrics") == 200
    worker.sample_memory()
    assert worker.peak_kib - peak < 2000, (peak, worker.peak_kib)
    wait_until(lambda: len(os.listdir(f"/proc/{worker.pid}/fd")) <= descriptors + 2, "the descriptors")


@pytest.mark.slow
def test_no_connection_lives_for_long(listening):
    """Not even one that sends a byte now and then; and many before it change nothing about that."""
    _, port = listening()
    for _ in range(100):
        assert port.status("/healthz") == 200
    with port.connect() as client:
        begin = time.monotonic()
        client.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        client.settimeout(0.5)
        while time.monotonic() - begin < 30:
            try:
                client.sendall(b"x")
                if client.recv(1000) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert 9 < time.monotonic() - begin < 20

    def silent():
        with port.connect() as client:
            begin = time.monotonic()
            assert client.recv(1000) == b""
            return time.monotonic() - begin
    assert any(silent() < 9 for _ in range(3))  # who says nothing is sent away sooner; a machine that stood still may try again


# --- pawl-worker --health ---


def health(*arguments, **more):
    begin = time.monotonic()
    done = run("pawl-worker", "--health", *arguments, timeout=60, **more)
    return done.returncode, done.stderr.decode(), time.monotonic() - begin


def test_health_of_a_healthy_worker(field, tmp_path):
    number = free_port()
    field.worker("--listen", number)
    Port(number).wait("/healthz", 200)
    named = [f"[{host}]:{number}" if ":" in host else f"{host}:{number}" for host in LOOPBACK]
    for address in (number, *named, f"0.0.0.0:{number}", f"[::]:{number}"):
        assert health("--listen", address)[:2] == (0, ""), address
    assert health(env={"PAWL_LISTEN": number})[:2] == (0, "")
    (tmp_path / "conf").write_text(f"listen = {number}\ntype = t1\n")
    assert health("--config", tmp_path / "conf")[:2] == (0, "")


def test_health_of_none():
    number = free_port()
    status, text, _ = health("--listen", number)
    assert status == 1 and str(number) in text and "Connection refused" in text


def test_health_without_an_address():
    status, text, _ = health()
    assert status == 2 and "--listen" in text


def test_health_of_a_frozen_worker(listening):
    worker, port = listening()
    worker.freeze()
    status, text, seconds = health("--listen", f"127.0.0.1:{port.number}")
    assert status == 1 and "timed out" in text and 2.5 < seconds < 15, (text, seconds)
    worker.thaw()
    assert health("--listen", f"127.0.0.1:{port.number}")[0] == 0


@pytest.mark.parametrize("answer,words", [(b"SSH-2.0-x\r\n", "does not speak HTTP"), (b"", "no answer"),
                                          (b"HTTP/1.1 503 No\r\n\r\n", "status 503"), (b"x" * 100000, "does not speak HTTP"),
                                          (b"HTTP/1.1 200 OK\r\n\r\nok\n", "another program"),
                                          (b"HTTP/1.0 200 OK\r\nServer: SimpleHTTP/0.6\r\n\r\nServer: pawl-worker/1\r\n", "another program"),
                                          (b"HTTP/1.1 200 OK\r\nServer: pawl-worker/1\r\n\r\nhello\n", "another program")])
def test_health_of_something_else(answer, words):
    def serve(server):
        with server.accept()[0] as client:
            client.recv(1000)
            client.sendall(answer)
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=[server])
        thread.start()
        status, text, seconds = health("--listen", f"127.0.0.1:{server.getsockname()[1]}")
        thread.join()
    assert status == 1 and words in text and seconds < 15, (status, text)
