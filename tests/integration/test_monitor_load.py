"""pawl-monitor: many and slow clients and ten thousand types do no harm, and what it costs the server."""
import os
import re
import select
import socket
import time
from contextlib import ExitStack

from harness import side_by_side, wait_until


# --- many clients ---


def test_slow_and_many_clients(field, monitor):
    """Three hundred connections that say little or read nothing, from ten addresses: everybody else is answered at once, and memory and
    descriptors stay bounded."""
    assert field.run("pawl-setup").returncode == 0
    field.db.messages.insert_many([{"type": f"t{n}"} for n in range(2000)])
    port = monitor()
    wait_until(lambda: len(port.types()) == 2000, "all types")
    begin = len(os.listdir(f"/proc/{port.process.pid}/fd"))
    with ExitStack() as stack:
        for number in range(300):
            client = stack.enter_context(port.connect(number))
            try:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                client.sendall((b"GET /api/types HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET / HTTP/1.1\r\nX: ", b"\x00\xff" * 50)[number % 3])
            except OSError:  # it was closed already
                pass
            if number % 50 == 49:
                before = time.monotonic()
                assert port.status("/healthz") == 200 and len(port.types()) == 2000 and time.monotonic() - before < 5
        assert len(os.listdir(f"/proc/{port.process.pid}/fd")) < begin + 150
        assert port.memory_kib() < 200000
    assert port.status("/healthz") == 200


def test_one_address_takes_no_place_from_another(monitor):
    """A slow reader of its own address is not closed by two hundred connections of another one."""
    port = monitor()
    with ExitStack() as stack:
        patient = stack.enter_context(socket.create_connection((port.host, port.number), timeout=10, source_address=("127.0.0.77", 0)))
        patient.sendall(b"GET /healthz HTTP/1.1\r\nHost: local")
        for _ in range(200):
            stack.enter_context(port.connect(0))
        assert port.status("/healthz") == 200
        patient.sendall(b"host\r\n\r\n")
        assert b" 200 OK" in patient.recv(1000)


def test_who_waits_for_a_server_leaves_room_for_others(own_server, make_field, monitor):
    """A hundred clients and more want the first documents of eight types, and MongoDB is frozen: few of them wait for it."""
    field = make_field(own_server("--replica-set").start())
    assert field.run("pawl-setup").returncode == 0
    field.db.messages.insert_many([{"type": f"t{n}"} for n in range(8)])
    port = monitor(on=field)
    wait_until(lambda: len(port.types()) == 8, "all types")
    with field.server.frozen(), ExitStack() as stack:
        clients = [stack.enter_context(port.connect(number)) for number in range(120)]
        for number, client in enumerate(clients):
            client.sendall(b"GET /api/type?type=t%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % (number % 8))
        begin = time.monotonic()
        wait_until(lambda: len(select.select(clients, [], [], 0)[0]) >= 120 - 32, "answers to most of them")
        assert time.monotonic() - begin < 3 and port.json("/api/types")["answers"]  # nothing has timed out yet
        for number in range(120, 200):
            stack.enter_context(port.connect(number))
        assert port.status("/healthz") == 200


# --- what it costs ---


def operations(field):
    """What the server did for a monitor, from the profile."""
    return list(field.db["system.profile"].find({"appName": field.app_name("pawl-monitor"), "ns": f"{field.name}.messages"}))


def test_scraping_costs_the_server_nothing(field, monitor):
    """However many ask, the server does the same: a reading visits an index entry a type, a count those of the queue, and no document is
    ever read."""
    assert field.run("pawl-setup").returncode == 0
    for name in ("t1", "t2", "t3"):
        field.fill(2000, name)
    port = monitor(interval="500ms")
    port.wait_row(lambda row: row["queued"] == 2000)

    def done():
        """Readings, and counts."""
        metrics = port.metrics()
        return metrics[("pawl_monitor_readings_total",)], metrics[("pawl_monitor_counts_total",)]

    def served(asks):
        """Over five readings, which are half a second apart, and a count: what the server did, how many there were, and how many requests."""
        field.db["system.profile"].drop()
        field.db.command("profile", 2)
        (before, counts), begin, count = done(), time.monotonic(), 0
        while (after := done())[0] < before + 5 or after[1] == counts:
            for _ in range(100 if asks else 0):
                port.ask("/metrics"), port.ask("/api/types"), port.ask("/api/history?type=t1"), port.ask("/api/timeline?type=t1")
                count += 4
            time.sleep(0.1)
        field.db.command("profile", 0)
        assert after[0] - before <= 1 + (time.monotonic() - begin) / 0.5
        return operations(field), after[0] - before + 1, count
    start = time.monotonic()
    (quiet, quiet_readings, _), (busy, busy_readings, count) = served(False), served(True)
    assert count >= 400 and quiet and len(busy) / busy_readings <= 8 >= len(quiet) / quiet_readings, (count, len(quiet), len(busy))
    for operation in quiet + busy:
        assert operation.get("docsExamined", 0) == 0 and "COLLSCAN" not in operation.get("planSummary", ""), operation
    counts = [operation for operation in quiet + busy if operation.get("keysExamined", 0) > 100]
    assert 1 <= len(counts) <= 2 + (time.monotonic() - start) / 2.5 and all(operation["keysExamined"] < 7000 for operation in counts), counts


def test_first_documents_cost_one_request_for_all(field, monitor):
    """Once in two seconds for a type, by the index, however many look at it."""
    assert field.run("pawl-setup").returncode == 0
    field.fill(1000)
    port = monitor()
    port.wait_row(lambda row: row["queued"] == 1000)
    field.db.command("profile", 2)
    begin = time.monotonic()
    for _ in range(5):
        pages = side_by_side(*[lambda: port.json("/api/type", type="t1")] * 20)
        assert all(len(page["first"]) == 10 for page in pages)
    field.db.command("profile", 0)
    reads = [operation for operation in operations(field) if "$limit" in str(operation["command"])]
    assert 1 <= len(reads) <= 1 + (time.monotonic() - begin) / 2, reads
    assert all(operation["docsExamined"] <= 11 for operation in reads), reads
    assert all(operation["command"]["hint"] == {"type": 1, "_id": 1} for operation in reads), reads
    assert all(operation["command"]["readConcern"]["level"] == "majority" for operation in reads), reads


def test_who_asks_for_type_after_type(field, monitor):
    """Has the server read at most eight of them in a tenth of a second, and stops no reading."""
    assert field.run("pawl-setup").returncode == 0
    names = [f"t{n}" for n in range(300)]
    field.db.messages.insert_many([{"type": name} for name in names])
    port = monitor()
    wait_until(lambda: len(port.types()) == 300, "all types")
    before, begin = port.metrics()[("pawl_monitor_readings_total",)], time.monotonic()
    pages = side_by_side(*[lambda name=name: port.json("/api/type", type=name) for name in names])
    took = time.monotonic() - begin
    read = [page for page in pages if page["first"]]
    assert 0 < len(read) <= 8 * (took / 0.1 + 2), (len(read), took)  # the others were told that too many want too many
    assert port.metrics()[("pawl_monitor_readings_total",)] - before >= int(took / 4), (took, "one a second, on a busy machine fewer")


def test_ten_thousand_types(field, monitor):
    assert field.run("pawl-setup").returncode == 0
    field.fill(1)
    field.drain()
    ledger = field.ledger()
    names = [f"type-{n:05}" for n in range(10000)]
    for at in range(0, 10000, 5000):
        field.db.ledger.insert_many([{**ledger, "_id": name, "file": f"{name}.bin"} for name in names[at:at + 5000]])
        field.db.messages.insert_many([{"type": name, "n": n} for name in names[at:at + 5000] for n in range(2)])
    port = monitor(interval="1s")
    wait_until(lambda: len(port.types()) == 10001, "all types")
    row = port.wait_row(lambda row: row["queued"] == 2, names[5000])
    assert row["file"] == f"{names[5000]}.bin"
    times = []
    for _ in range(20):
        begin = time.monotonic()
        port.json("/api/types")
        times.append(time.monotonic() - begin)
    begin = time.monotonic()
    text = port.ask("/metrics", timeout=30)[1]
    assert len(re.findall(r'^pawl_queue_documents{type="[^"]+"} 2$', text, re.M)) == 10000
    print(f"/api/types {sorted(times)[10] * 1000:.0f} ms, /metrics {(time.monotonic() - begin) * 1000:.0f} ms, {port.memory_kib()} KiB",
          re.findall(r"^(pawl_monitor_\w+_duration_seconds) (.*)", text, re.M))
    assert sorted(times)[10] < 2 and port.memory_kib() < 400000
    assert len(port.json("/api/history", type=names[:100])["types"]) == 100
