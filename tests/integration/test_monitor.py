"""pawl-monitor: what it shows of real workers, its pages, and what it does where the database or a right is missing."""
import base64
import re
import shutil
import signal
import socket
import subprocess
import time
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone

import bson
import pytest
from bson.raw_bson import RawBSONDocument

from harness import CALM, free_port, program, wait_until
from health_port import LOOPBACK
from secured import PASSWORDS, documented_roles, secretless

STALE = {"PAWL_TEST_STALE_MS": "500"}


def events(port, name="t1"):
    return [event["text"] for event in port.json("/api/type", type=name)["events"]]


# --- what it shows ---


def test_a_type_from_insert_to_file(field, monitor):
    """Nobody serves it at first; then a worker does, and stays until its linger is over."""
    assert field.run("pawl-setup").returncode == 0
    port = monitor()
    field.fill(30)
    row = port.wait_row(lambda row: row["queued"] == 30 and row["oldest_ms"] is not None)
    assert (row["kind"], row["holder"], row["epoch"], row["file"], row["oldest_seen"]) == ("type", None, 0, None, False)
    wait_until(lambda: port.row()["oldest_ms"] > 1000, "the document to get older")
    text = port.metrics()
    assert text[("pawl_queue_documents", "t1")] == 30 and text[("pawl_queue_oldest_age_seconds", "t1")] >= 1
    assert text[("pawl_type_held", "t1")] == 0 and ("pawl_type_lease_left_seconds", "t1") not in text
    worker = field.worker("--linger", "1500ms", "--lease", "5s", "--name", "writer-1")
    row = port.wait_row(lambda row: row["holder"] and row["seq"] == 30 and row["queued"] == 0)
    assert row["holder"]["pid"] == worker.pid and row["holder"]["program"].startswith("pawl-worker ")
    assert row["holder"]["name"] == "writer-1" and row["epoch"] == 1
    assert (row["file"], row["messages"], row["oldest_ms"]) == ("t1.bin", 30, None) and row["length"] > 0
    assert 0 < row["lease_left_ms"] <= 5000 and abs(row["holder"]["since_ms"] / 1000 - time.time()) < 30
    held = port.metrics()
    assert held[("pawl_type_held", "t1")] == 1 and held[("pawl_type_committed_documents_total", "t1")] == 30
    assert 0 < held[("pawl_type_lease_left_seconds", "t1")] <= 5
    [info] = [key for key in held if key[0] == "pawl_type_holder_info"]
    assert info[1:] == ("t1", row["holder"]["host"], str(worker.pid), row["holder"]["program"], "writer-1")
    [hold] = port.wait_holds(lambda holds: holds and holds[-1]["end"])
    assert (hold["end"], hold["epoch"], hold["expired_ms"]) == ("released", 1, None)
    assert re.fullmatch(f"writer-1@.+:{worker.pid}", hold["holder"]) and 1400 < hold["to_ms"] - hold["from_ms"] < 20000
    assert port.wait_row(lambda row: row["settled"] == 30)["clean"] is True
    page = port.json("/api/type", type="t1")
    assert [segment["file"] for segment in page["segments"]] == ["t1.bin"] and page["segments"][0]["length"] == page["row"]["length"]
    assert page["first"] == [] and page["row"]["seq"] == 30
    assert any("released the lock" in text for text in events(port)), events(port)
    history = port.json("/api/history", type=["t1", "nothing"])
    assert history["step_ms"] == 10000 and list(history["types"]) == ["t1"] and history["types"]["t1"]["queued"][-1] == 0
    everything = port.json("/api/types")
    assert (everything["answers"], everything["error"], everything["database"], everything["unusable"]) == (True, None, field.name, None)
    assert everything["read_ms"] < 5000 and abs(everything["now_ms"] / 1000 - time.time()) < 30


def test_a_killed_holder_and_a_take_over(field, monitor):
    port = monitor()
    field.fill(10)
    dead = field.worker("--linger", "1h")
    port.wait_row(lambda row: row["holder"] and row["seq"] == 10)
    dead.kill()
    port.wait_row(lambda row: row["lease_left_ms"] is not None and row["lease_left_ms"] < 0)
    [hold] = port.holds()
    assert hold["end"] is None and hold["to_ms"] is None and hold["expired_ms"] > hold["from_ms"]
    wait_until(lambda: port.metrics()[("pawl_type_lease_left_seconds", "t1")] < 0, "a lease below 0")
    field.fill(1)
    heir = field.worker("--linger", "1h")
    first, second = port.wait_holds(lambda holds: len(holds) == 2 and holds[1]["epoch"] == 2)
    assert (first["end"], first["expired_ms"], first["epoch"]) == ("taken over", hold["expired_ms"], 1) and first["to_ms"] == second["from_ms"]
    assert second["holder"].endswith(f":{heir.pid}") and second["end"] is None
    assert any("it has taken over" in text for text in events(port)), events(port)


def test_a_frozen_holder(field, monitor):
    """With a standby, which is shown as one that waits."""
    port = monitor()
    field.fill(10)
    frozen = field.worker("--linger", "1h")
    port.wait_row(lambda row: row["holder"] and row["seq"] == 10)
    frozen.freeze()
    field.fill(5)
    standby = field.worker("--linger", "1h")
    first, second = port.wait_holds(lambda holds: len(holds) == 2 and holds[1]["epoch"] == 2)
    assert first["holder"].endswith(f":{frozen.pid}") and first["end"] == "taken over" and first["expired_ms"] <= first["to_ms"]
    assert second["holder"].endswith(f":{standby.pid}")
    frozen.thaw()
    row = port.wait_row(lambda row: row["seq"] == 15)
    assert row["holder"]["pid"] == standby.pid


def test_who_waits_and_locks_of_pawl_lock(field, monitor):
    port = monitor()
    assert field.run("pawl-setup").returncode == 0
    with ExitStack() as stack:
        def lock():
            process = subprocess.Popen([*lock_command(field), "--hold", "nightly"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            stack.callback(process.wait)
            stack.callback(process.stdin.close)
            return process
        holder = lock()
        assert b"held" in holder.stdout.readline()
        waiter = lock()
        row = port.wait_row(lambda row: row["holder"] and row["waiting"] == 1, "nightly")
        assert row["kind"] == "lock" and row["holder"]["pid"] == holder.pid
        assert [one["pid"] for one in row["waiters"]] == [waiter.pid]
        metrics = port.metrics()
        assert metrics[("pawl_locks_held",)] == 1 and metrics[("pawl_lock_holders", "nightly")] == 1
        assert metrics[("pawl_locks_waiting_processes",)] == 1 and ("pawl_type_held", "nightly") not in metrics
    port.wait_row(lambda row: row["holder"] is None, "nightly")


def test_holders_of_slots_and_a_lock_that_is_a_problem(field, monitor):
    port = monitor()
    assert field.run("pawl-setup").returncode == 0
    with ExitStack() as stack:
        for _ in range(2):
            process = subprocess.Popen([*lock_command(field), "--hold", "--slots", "3", "pool"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            stack.callback(process.wait)
            stack.callback(process.stdin.close)
            assert b"held" in process.stdout.readline()
        port.wait_metric(("pawl_lock_holders", "pool"), 2)
        assert port.metrics()[("pawl_locks_held",)] == 1
    field.db.locks.insert_one({"type": "t1", "slot": 0, "owner": "somebody"})
    port.wait_metric(("pawl_type_problem", "t1"), 1)
    field.db.locks.delete_one({"type": "t1"})
    wait_until(lambda: port.metrics().get(("pawl_type_problem", "t1"), 0) == 0, lambda: str(port.metrics()))


def test_a_ledger_that_cannot_be_used(field, monitor):
    """What it says is not known: a counter neither falls to 0 nor rises from there."""
    FROM_LEDGER = ["pawl_type_epoch", "pawl_type_committed_documents_total", "pawl_type_committed_messages_total", "pawl_type_settled_documents_total",
                   "pawl_type_file_bytes", "pawl_type_paused", "pawl_type_moved", "pawl_type_own_collection"]
    port = monitor()
    assert field.run("pawl-setup").returncode == 0
    field.fill(7)
    field.drain(*CALM)
    port.wait_metric(("pawl_type_committed_documents_total", "t1"), 7)
    assert all((name, "t1") in port.metrics() for name in FROM_LEDGER), port.metrics()
    for wrong in ({"epoch": "old"}, {"clean": 1}):
        field.db.ledger.update_one({"_id": "t1"}, {"$set": wrong})
        port.wait_metric(("pawl_type_problem", "t1"), 1)
        assert not any((name, "t1") in port.metrics() for name in FROM_LEDGER), port.metrics()


def lock_command(field):
    return [program("pawl-lock"), *field.mongo]


def test_only_these_types(field, monitor):
    for name in ("t1", "t2", "t3"):
        field.fill(1, name)
    port = monitor("--type", "t1,t3")
    port.wait_row(lambda row: row["queued"] == 1)
    assert sorted(port.types()) == ["t1", "t3"]


def test_more_names_than_there_may_be(field, monitor):
    """The type that a worker serves stays, though it is the last one; the others are counted, and so are documents that nobody takes."""
    assert field.run("pawl-setup").returncode == 0
    field.fill(1, "zz")
    field.worker("--linger", "1h", types=("zz",))
    field.insert("p", [{"type": f"t{n}"} for n in range(6)] + [{"type": "bad "}])
    port = monitor(env={"PAWL_TEST_TYPES_MAX": "3"})
    wait_until(lambda: port.json("/api/types")["types_left_out"] == 5, lambda: port.json("/api/types"))
    port.wait_row(lambda row: row["holder"], "zz")
    assert len(port.types()) == 3 and "zz" in port.types()
    wait_until(lambda: port.metrics().get(("pawl_queue_unusable_documents",)) == 1, lambda: port.metrics())
    metrics = port.metrics()
    assert metrics[("pawl_monitor_types",)] == 8 and metrics[("pawl_monitor_types_left_out",)] == 5
    assert len([key for key in metrics if key[0] == "pawl_type_held"]) <= 3


def test_first_documents(field, monitor):
    assert field.run("pawl-setup").returncode == 0
    field.insert("p", [{"_id": n, "type": "t1", "n": n} for n in range(11)] + [{"_id": 11, "type": ["t1"]}])
    field.insert("p", [{"_id": "big", "type": "t2", "x": "y" * 100000}, {"_id": "long", "type": "t2", "x": "ä" * 5000}, {"type": "t2"}])
    port = monitor()
    port.wait_row(lambda row: row["queued"] == 11)
    page = port.json("/api/type", type="t1")
    assert [document["_id"] for document in page["first"]] == [str(n) for n in range(10)]
    assert page["first"][3]["json"] == '{ "_id" : 3, "type" : "t1", "n" : 3 }' and page["first"][0]["bytes"] == 34
    documents = {document["_id"]: document for document in port.json("/api/type", type="t2")["first"]}
    assert documents['"big"']["json"] == "" and documents['"big"']["bytes"] > 100000
    assert len(documents['"long"']["json"].encode()) <= 2003 and documents['"long"']["json"].endswith("ä…")
    assert any(re.fullmatch("[0-9a-f]{24}", name) for name in documents)


def test_first_documents_without_the_index(field, monitor):
    """All documents would have to be read: so none is."""
    field.insert("p", [{"type": "t1"}] * 3)
    port = monitor()
    port.wait_row(lambda row: row["queued"] == 3)
    assert port.json("/api/type", type="t1")["first"] is None
    assert field.run("pawl-setup").returncode == 0
    wait_until(lambda: len(port.json("/api/type", type="t1")["first"] or ()) == 3, "documents, by the index")


# --- hostile documents ---

HOSTILE = ['</script><script>alert(1)</script>', '"\\\n} evil 1', "\u202e\u0000\ud7ff", "\U0001f600", "a b", "", "-x", "' onload='x", "%00"]


def test_hostile_names_and_payloads(field, monitor):
    """They come out as data: as JSON that can be read, as no label of a metric, and a holder's name with its quotes escaped."""
    assert field.run("pawl-setup").returncode == 0
    field.insert("p", [{"type": name, "payload": name} for name in HOSTILE] + [{"type": 5}, {}, {"type": ["t1"]}])
    field.insert("p", [{"type": "t1", "payload": {name or "e": name for name in HOSTILE if "\0" not in name}}])
    raw = bson.encode({"_id": 5, "type": "t1", "payload": "XXXX"}).replace(b"XXXX", b"\xff\xfe\xc3(")
    field.messages.insert_one(RawBSONDocument(raw))
    lock = bson.encode({"type": "t1", "slot": 0, "owner": bson.Binary(b"o" * 16), "ttl_ms": 3600000,
                        "acquired_at": datetime.now(timezone.utc), "expires_at": datetime.now(timezone.utc) + timedelta(hours=1),
                        "holder": {"host": 'ZZ"\\\u00e9</script>', "pid": 7, "program": 'p"} 1', "boot": "b"}}).replace(b"ZZ", b"\xff\xfe")
    field.db.locks.insert_one(RawBSONDocument(lock))
    port = monitor()
    row = port.wait_row(lambda row: row["queued"] == 2 and row["holder"])
    assert row["holder"]["host"] == '??"\\\u00e9</script>' and row["holder"]["program"] == 'p"} 1'
    rows = port.types()
    assert {row["kind"] for name, row in rows.items() if name.startswith('"')} == {"invalid"} and rows["(untyped)"]["queued"] == 3
    assert sum(row["queued"] for row in rows.values() if row["kind"] == "invalid") == len(HOSTILE) and all(map(str.isascii, rows))
    metrics = port.metrics()  # prometheus_client can read it
    assert metrics[("pawl_queue_unusable_documents",)] == len(HOSTILE) + 3
    assert {key[1] for key in metrics if key[0] == "pawl_queue_documents"} == {"t1"}
    assert ("pawl_type_holder_info", "t1", row["holder"]["host"], "7", 'p"} 1', "") in metrics
    for name in rows:  # those of other kinds have no documents to show, and no timeline is lost
        page = port.json("/api/type", type=name)
        assert page["row"]["type"] == name and (page["first"] is None) == (name != "t1")
    assert len(port.json("/api/type", type="t1")["first"]) == 2
    assert set(port.json("/api/history", type=list(rows))["types"]) == set(rows)


# --- HTTP ---


def test_pages_and_their_headers(field, monitor):
    port = monitor()
    status, text, headers = port.ask("/")
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8" and text.startswith("<!doctype html>")
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["connect-src"] == "'self'"
    for tag, source in (("script", policy["script-src"]), ("style", policy["style-src"])):
        [inside] = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.S)
        digest = subprocess.run(["openssl", "dgst", "-sha256", "-binary"], input=inside.encode(), capture_output=True, check=True).stdout
        assert source == f"'sha256-{base64.b64encode(digest).decode()}'"
    for path, kind in (("/", "text/html"), ("/metrics", "text/plain"), ("/healthz", "text/plain"), ("/api/types", "application/json"),
                       ("/api/history?type=t1", "application/json"), ("/api/timeline?type=t1", "application/json"), ("/nothing", "text/plain")):
        status, text, headers = port.ask(path)
        assert status == (404 if path == "/nothing" else 200) and headers["Content-Type"].startswith(kind), path
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Cache-Control"] == "no-store" and "default-src 'none'" in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"] and headers["Access-Control-Allow-Origin"] is None
        assert headers["Server"].startswith("pawl-monitor/")
        length = headers["Content-Length"]
        status, nothing, headers = port.ask(path, "HEAD")
        assert nothing == "" and (path in ("/metrics", "/api/types") or headers["Content-Length"] == length)
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"):
            status, text, headers = port.ask(path, method, b"x" * 100 if method in ("POST", "PUT") else None)
            assert status == 405 and headers["Allow"] == "GET, HEAD", (path, method)


def test_wrong_requests(field, monitor):
    port = monitor()
    port.wait_answers()
    names = [f"t{n}" for n in range(101)]
    for path, arguments in (("/api/history", {}), ("/api/history", {"type": names}), ("/api/timeline", {"type": "t1", "minutes": 0}),
                            ("/api/timeline", {"type": "t1", "minutes": "x"}), ("/api/timeline", {"type": "t1", "minutes": 121}),
                            ("/api/type", {}), ("/api/type", {"type": ["t1", "t2"]}), ("/api/history", {"type": "t\0"})):
        assert "takes" in port.json(path, 400, **arguments)
    assert "no such type" in port.json("/api/type", 404, type="nothing")
    assert port.json("/api/history", type=names[:100])["types"] == {}
    assert port.json("/api/history", type=["x" * 128 for _ in range(100)])["types"] == {}


def test_hosts(field, monitor):
    """A page of elsewhere that has pointed its own name at this address cannot read it."""
    def ask(port, host):
        with socket.create_connection((port.host, port.number), timeout=10) as client:
            client.sendall(b"GET /api/types HTTP/1.1\r\n" + (b"" if host is None else b"Host: %s\r\n" % host.encode()) + b"\r\n")
            return int(client.recv(1000).split()[1])
    plain, named, each = monitor(), monitor("--host-name", "pawl.example.com,monitor"), monitor("--host-name", "*")
    hosts = {"127.0.0.1": 200, "localhost:9465": 200, "[::1]:9465": 200, "evil.example": 421, "pawl.example.com": 421, "127.0.0.1.evil.example": 421}
    assert {host: ask(plain, host) for host in hosts} == hosts
    assert {host: ask(named, host) for host in hosts} == {**hosts, "pawl.example.com": 200} and ask(named, "monitor:9465") == 200
    assert {ask(each, host) for host in hosts} == {200}
    done = field.run("pawl-monitor", "--host-name", "a:80")
    assert done.returncode == 2 and b'--host-name: got "a:80": takes host names without a port' in done.stderr, done


def test_start_and_stop(field, monitor):
    port = monitor("--log-format", "json")
    port.wait_answers()
    assert b"cannot listen on port" in (done := field.run("pawl-monitor", "--listen", f"127.0.0.1:{port.number}")).stderr and done.returncode == 2
    for words, text in ((["--listen", "none"], b"pawl-monitor takes an address"), (["--listen", "x"], b"a port from 1 to 65535"), (["--uri", "http://x"], b"--uri"), (["x"], b"options only")):
        done = field.run("pawl-monitor", *words)
        assert done.returncode == 2 and text in done.stderr, done
    port.process.send_signal(signal.SIGTERM)
    assert port.process.wait(10) == 0
    lines = [line for line in port.log_path.read_text().splitlines()]
    assert [re.search('"event" : "([a-z]+)"', line)[1] for line in lines] == ["start", "database", "stop"], lines


@pytest.mark.skipif("::1" not in LOOPBACK, reason="no IPv6 here")
def test_ipv6(monitor):
    port = monitor(host="::1")
    port.wait_answers()
    assert f"http://[::1]:{port.number}/" in str(port)


# --- the database away, and rights ---


def test_database_away_and_back(own_server, make_field, monitor):
    server = own_server("--replica-set", "--port", str(free_port())).start()
    field = make_field(server)
    field.fill(5)
    port = monitor(on=field, env=STALE)
    port.wait_row(lambda row: row["queued"] == 5)
    assert port.metrics()[("pawl_monitor_database_answers",)] == 1
    server.kill()
    port.wait_answers(False)
    everything = port.json("/api/types")
    assert everything["error"] and [row["queued"] for row in everything["types"]] == [5]
    wait_until(lambda: port.json("/api/types")["read_ms"] > everything["read_ms"] + 1000, "an age that rises")
    wait_until(lambda: ("pawl_queue_documents", "t1") not in port.metrics(), "metrics that are left out")
    metrics = port.metrics()
    assert metrics[("pawl_monitor_database_answers",)] == 0 and metrics[("pawl_monitor_reading_age_seconds",)] > 0.5
    assert not any(key[0].startswith(("pawl_queue", "pawl_type", "pawl_lock")) for key in metrics)
    assert port.json("/api/type", type="t1")["first"] is None and port.status("/") == 200
    server.start()
    port.wait_answers()
    assert port.wait_row(lambda row: row["queued"] == 5) and port.metrics()[("pawl_queue_documents", "t1")] == 5
    said = lambda: re.findall(r"(warn|info) +database: ", port.log_path.read_text())
    wait_until(lambda: said() == ["info", "warn", "info"], lambda: str(said()))


def test_never_a_database(field, monitor):
    """Neither is a reason not to start, nor to end."""
    port = monitor(mongo=["--uri", f"mongodb://127.0.0.1:{free_port()}/"])
    everything = port.json("/api/types")
    assert (everything["answers"], everything["types"], everything["read_ms"]) == (False, [], None) and everything["error"]
    assert port.metrics()[("pawl_monitor_database_answers",)] == 0 and port.status("/") == 200
    assert port.json("/api/type", 404, type="t1")


def test_a_database_that_workers_refuse(field, monitor):
    field.fill(1)
    assert field.run("pawl-setup").returncode == 0
    field.db.messages.create_index("at", name="ttl", expireAfterSeconds=60)
    port = monitor()
    port.wait_answers()
    assert "expireAfterSeconds" in port.json("/api/types")["unusable"] and port.metrics()[("pawl_monitor_database_usable",)] == 0


def test_with_the_rights_of_a_viewer(prepared, monitor):
    """The documented role is enough for all of it; only whether workers take the database it may not see, and no program says so."""
    field = prepared
    field.fill(3)
    port = monitor(mongo=field.as_user("viewer"), on=field)
    port.wait_row(lambda row: row["queued"] == 3)
    assert len(port.json("/api/type", type="t1")["first"]) == 3
    everything = port.json("/api/types")
    assert (everything["answers"], everything["error"], everything["unusable"]) == (True, None, None)
    assert ("pawl_monitor_database_usable",) not in port.metrics()
    assert "not authorized" not in str(port)
    secretless(str(port), port.ask("/metrics")[1], port.ask("/api/types")[1])


def test_without_a_right(prepared, monitor, users):
    """It says what is missing, and shows the rest."""
    field = prepared
    field.fill(3)
    role = documented_roles(field.name)["viewer"]
    for collection in ("locks", "messages"):
        users.add(f"less-{collection}", {"privileges": [place for place in role["privileges"] if place["resource"]["collection"] != collection]},
                  pwd=PASSWORDS["worker"])
        port = monitor(mongo=["--uri", users.uri(f"less-{collection}"), "--db", field.name], on=field)
        wait_until(lambda: "not authorized" in (port.json("/api/types")["error"] or ""), lambda: port.json("/api/types"))
        assert port.json("/api/types")["answers"] == (collection == "messages")


def test_a_wrong_password(prepared, monitor):
    """It keeps trying, and says why, without the password."""
    port = monitor(mongo=["--uri", prepared.server.uri_of("viewer", password="wr0ng-S3cret"), "--db", prepared.name], on=prepared)
    wait_until(lambda: "MongoDB refuses these credentials" in (port.json("/api/types")["error"] or ""), lambda: port.json("/api/types"))
    assert port.metrics()[("pawl_monitor_database_answers",)] == 0 and port.process.poll() is None
    assert not any("wr0ng" in text for text in (str(port), port.ask("/metrics")[1], port.ask("/api/types")[1]))


# --- Prometheus ---


def test_promtool(field, monitor):
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed: Debian package prometheus")
    field.fill(3)
    port = monitor()
    field.drain()
    assert field.run("pawl-lock", "nightly", "--", "true").returncode == 0
    worker = field.worker("--linger", "1h")
    field.fill(3)
    port.wait_row(lambda row: row["seq"] == 6 and row["holder"])
    done = subprocess.run(["promtool", "check", "metrics"], input=port.ask("/metrics")[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout + done.stderr == "", done
    assert worker.alive()
