"""The health port: its pages, when a worker is ready, that nobody can harm the worker by it; and pawl-worker --health."""
import os
import re
import signal
import socket
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from harness import DISTRUST, free_port, run, wait_until
from health_port import LOOPBACK, Port


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
    wait_until(lambda: field.seq() > 50, field.logs)
    with server.frozen():
        worker.signal(signal.SIGTERM)
        port.wait("/readyz", 503, "asked to stop")
        assert port.status("/healthz") == 200
        worker.wait()


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
    holder.freeze()
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
        holder.thaw()


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
