"""What an operator sees: absence of MongoDB, signals, exit codes, refusals."""
import re
import signal
import subprocess
import time
import uuid
from datetime import datetime, timedelta, timezone

import pytest

from harness import CALM, DEADLINE, DISTRUST, environment, free_port, program, run, wait_until

SOON = 8  # seconds: "well under 10 s"


def foreign_lock(field, seconds=600, type_name="t1"):
    """A lock that somebody else holds: a document like any worker's."""
    now = datetime.now(timezone.utc)
    lock = {"type": type_name, "slot": 0, "owner": uuid.uuid4().bytes, "acquired_at": now, "ttl_ms": seconds * 1000,
            "expires_at": now + timedelta(seconds=seconds),
            "holder": {"host": "elsewhere", "boot": "-", "pid": 1, "started": now, "program": "test"}}
    field.db.locks.insert_one(lock)
    return lock


def test_server_absent_at_the_start(own_server, make_field):
    """It says so once, waits, and goes on by itself."""
    port = free_port()
    server = own_server("--replica-set", "--port", str(port)).start()
    field = make_field(server)
    field.fill(100)
    server.kill()
    worker = field.worker()
    wait_until(lambda: "MongoDB" in worker.log() or not worker.alive(), "a word from the worker")
    time.sleep(3)  # no synchronisation: time to repeat itself
    assert worker.alive(), str(worker)
    lines = worker.log().splitlines()
    assert len(lines) <= 4, f"it repeats itself: {worker}"
    assert re.search("mongo", worker.log(), re.I), str(worker)
    server.start()
    field.finish(worker)


def test_sigterm_while_the_server_is_absent(field):
    worker = field.worker(mongo=["--uri", f"mongodb://127.0.0.1:{free_port()}", "--db", "x"])
    wait_until(lambda: worker.log() or not worker.alive(), "a word from the worker")
    status, seconds = worker.stop()
    assert status == 0 and seconds < SOON, f"{status} after {seconds:.1f} s: {worker}"


def test_sigterm_of_a_holder_whose_server_died(own_server, make_field):
    server = own_server("--replica-set").start()
    field = make_field(server)
    field.fill(3000)
    worker = field.worker("--batch-messages", 10)
    wait_until(lambda: field.seq() > 50, field.logs)
    server.kill()
    status, seconds = worker.stop()
    # Chance decides whether a block is written and not committed when the server freezes: only for that the worker waits, up to its limit.
    gave_up = bool(worker.events("stop", "error"))
    assert status == int(gave_up) and seconds < 20, f"{status} after {seconds:.1f} s: {worker}"
    assert gave_up or worker.events("lock", "warn"), str(worker)
    server.start()
    field.drain()
    field.compare()


def test_sigterm_of_a_holder_whose_server_is_frozen(own_server, make_field):
    server = own_server("--replica-set").start()
    field = make_field(server)
    field.fill(3000)
    worker = field.worker("--batch-messages", 10, "--lease", "15s", env={"PAWL_FAULT_STOP": "block-committed:6"})  # a lost lease would leave nothing to release
    worker.wait_frozen()
    with server.frozen():
        worker.thaw()
        status, _ = worker.stop()
    assert status == 1, str(worker)
    asked, ended = (datetime.fromisoformat(line.split()[0].replace("Z", "+00:00")) for line in worker.events("stop"))
    assert 7.9 <= (ended - asked).total_seconds() < 9.5 and "could not finish within 8 s" in worker.log(), str(worker)
    field.drain()
    field.compare()


def test_a_second_signal_ends_it_at_once(own_server, make_field):
    server = own_server("--replica-set").start()
    field = make_field(server)
    field.fill(100)
    worker = field.worker("--batch-messages", 10, "--lease", "15s", env={"PAWL_FAULT_STOP": "block-committed:6"})
    worker.wait_frozen()
    with server.frozen():
        worker.thaw()
        worker.signal(signal.SIGTERM)
        worker.wait_log(" stop: asked to stop: ")
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 1 and "asked to stop a second time" in worker.log(), str(worker)
        assert "could not finish" not in worker.log(), str(worker)
    field.drain()
    field.compare()


def test_nobody_reads_its_log_any_more(field):
    """The work goes on."""
    worker = subprocess.Popen([program("pawl-worker"), *field.mongo, "--dir", field.dir, "--type", "t1"], stdin=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, env=environment())
    try:
        assert b" start: " in worker.stderr.readline()
        worker.stderr.close()
        for count in (10, 20):
            field.fill(10)
            wait_until(lambda: field.seq() == count or worker.poll() is not None, "the messages")  # pylint: disable=cell-var-from-loop
        worker.terminate()
        assert worker.wait(DEADLINE) == 0
    finally:
        worker.kill()
        worker.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_while_waiting_for_a_lock(field, number):
    lock = foreign_lock(field)
    field.fill(10)
    worker = field.worker()
    worker.wait_log("t1")
    begin = time.monotonic()
    worker.signal(number)
    assert worker.wait() == 0 and time.monotonic() - begin < SOON, str(worker)
    assert field.db.locks.find_one()["owner"] == lock["owner"] and field.queued() == 10


def test_signal_while_idle(field):
    worker = field.worker(*CALM, "--linger", "1h")
    field.fill(10)
    field.wait_empty()
    status, seconds = worker.stop()
    assert status == 0 and seconds < SOON, str(worker)
    assert field.holder() is None and field.ledger()["clean"] is True
    field.compare()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_in_the_middle_of_a_backlog(field, number):
    field.fill(20000)
    worker = field.worker(*CALM, "--batch-messages", 20)
    wait_until(lambda: field.seq() > 100, field.logs)
    begin = time.monotonic()
    worker.signal(number)
    assert worker.wait() == 0 and time.monotonic() - begin < SOON, str(worker)
    ledger = field.ledger()
    assert field.holder() is None and ledger["clean"] is True and ledger["settled"] == ledger["seq"], ledger
    assert field.queued() > 0, "too few messages for this test"
    field.compare(queue_empty=False)
    field.drain()
    field.compare()


def test_expired_lock_is_stolen(field):
    foreign_lock(field, seconds=1)
    field.fill(10)
    field.drain()
    field.compare()


def test_timeout(field):
    foreign_lock(field)
    field.fill(10)
    worker = field.worker("--exit-when-empty", "--timeout", "1500ms")
    assert worker.wait(10) == 69, str(worker)
    assert field.queued() == 10


def test_timeout_without_a_server(field):
    worker = field.worker("--exit-when-empty", "--timeout", "1500ms", mongo=["--uri", f"mongodb://127.0.0.1:{free_port()}"])
    assert worker.wait(10) == 69, str(worker)


def test_exit_when_empty_waits_for_another_holder(field):
    """Messages that somebody else has in hand are not gone yet."""
    foreign_lock(field, seconds=2)
    field.fill(5)
    worker = field.worker("--exit-when-empty")
    assert worker.wait() == 0, str(worker)
    assert field.queued() == 0
    field.compare()


# --- the storage does not belong to the ledger: 74 ---

def distrusted(field, directory=None, names=("t1.bin",), adoptable=True):
    """A worker stops with 74, names the file, database and server, and the way out if there is one, and changed nothing."""
    before, queued = field.ledger(), field.queued()
    worker = field.worker(directory=directory, env=DISTRUST)
    assert worker.wait(30) == 74, str(worker)
    host = field.server.uri.split("/")[2]
    assert all(name in worker.log() for name in (*names, f"database {field.name}")), str(worker)
    hint = f"If these files belong to database {field.name} on {host}: pawl-setup --adopt t1 --db {field.name} --dir {directory or field.dir}\n"
    assert (hint in worker.log()) == adoptable == ("--adopt" in worker.log()), str(worker)
    after = field.ledger()
    if before:
        for key in ("file", "length", "link", "seq", "settled", "clean"):
            assert after.get(key) == before.get(key), (before, after)
    assert field.queued() == queued and field.holder() is None


def test_wrong_folder(field, tmp_path):
    field.fill(100)
    field.drain()
    field.fill(100)
    other = tmp_path / "other"
    other.mkdir()
    distrusted(field, other, adoptable=False)  # nothing is there that could be adopted
    assert list(other.iterdir()) == []
    field.drain()
    field.compare()


def test_files_without_a_ledger(field):
    field.fill(100)
    field.drain()
    field.db.ledger.delete_many({})
    field.fill(10)
    distrusted(field)


def test_committed_byte_changed(field):
    field.fill(100)
    field.drain()
    path = field.dir / "t1.bin"
    good = path.read_bytes()
    path.write_bytes(good[:-10] + bytes([good[-10] ^ 1]) + good[-9:])
    field.fill(10)
    distrusted(field)
    path.write_bytes(good)
    field.drain()
    field.compare()


def test_file_too_short(field):
    field.fill(100)
    field.drain()
    path = field.dir / "t1.bin"
    good = path.read_bytes()
    path.write_bytes(good[:-1])
    field.fill(10)
    distrusted(field)


def test_distrust_that_goes_away(field):
    """The file comes back in time (a mount that was late): the worker goes on."""
    field.fill(100)
    field.drain()
    path, away = field.dir / "t1.bin", field.folder / "away"
    path.rename(away)
    field.fill(10)
    worker = field.worker()
    worker.wait_log(r"t1\.bin")
    assert worker.alive()
    away.rename(path)
    field.finish(worker)


@pytest.mark.slow
def test_wrong_folder_for_the_full_minute(field, tmp_path):
    field.fill(10)
    field.drain()
    field.fill(10)
    begin = time.monotonic()
    worker = field.worker(*CALM, directory=tmp_path)
    assert worker.wait(200) == 74, str(worker)
    assert time.monotonic() - begin >= 55


def test_wrong_folder_while_others_empty_the_queue(field, tmp_path):
    """The time runs from the first failed look to the first good one, whether there is a message at the moment or not."""
    field.fill(10)
    field.drain()
    good = field.worker()
    wrong = field.worker(directory=tmp_path, env=DISTRUST)

    def over():
        field.fill(1)
        field.wait_empty()
        return not wrong.alive()
    wait_until(over, lambda: str(wrong))
    assert wrong.wait() == 74 and list(tmp_path.glob("*.bin")) == [], str(wrong)
    assert "pawl-setup" not in wrong.log(), str(wrong)  # there is nothing to adopt
    field.finish(good)


def test_one_distrusted_type_does_not_stop_the_other(field):
    field.fill(10, "t1")
    field.drain()
    (field.dir / "t1.bin").rename(field.folder / "away")
    field.fill(10, "t1")
    field.fill(10, "t2")
    worker = field.worker(types=["t1", "t2"], env=DISTRUST)
    field.wait_settled("t2")
    worker.wait_log("t1 .*the storage cannot be trusted")
    field.fill(10, "t2")
    field.wait_settled("t2")
    assert worker.alive(), str(worker)
    assert worker.stop()[0] == 74, str(worker)
    field.compare("t2")


# --- newer ledgers, wrong collections ---


def test_newer_ledger(field):
    """Stands by, says so, touches nothing."""
    newer = {"_id": "t1", "v": 3, "epoch": 7, "clean": True, "something": "else"}
    field.db.ledger.insert_one(newer)
    field.fill(10)
    worker = field.worker()
    worker.wait_log("newer")
    time.sleep(1)  # no synchronisation: time to do something wrong
    assert worker.alive() and worker.log().count(" newer: ") == 1, str(worker)
    assert field.db.ledger.find_one({"_id": "t1"}) == newer and field.queued() == 10 and field.segments() == []
    assert worker.stop()[0] == 0, str(worker)


def refused(field, *words):
    field.fill(5)
    worker = field.worker()
    assert worker.wait(20) == 2, str(worker)
    for word in words:
        assert re.search(word, worker.log(), re.I), f"/{word}/ in {worker}"
    assert field.queued() == 5 and field.segments() == []


@pytest.mark.parametrize("options", [{}, {"unique": True, "sparse": True},
                                     {"unique": True, "partialFilterExpression": {"slot": 0}}])
def test_locks_index_that_does_not_decide(field, options):
    assert field.run("pawl-setup").returncode == 0
    field.locks.drop_indexes()
    field.locks.create_index([("type", 1), ("slot", 1)], **options)
    refused(field, "index", "locks")


def test_locks_index_missing_is_made(field):
    field.db.create_collection("locks")
    field.fill(5)
    field.drain()
    assert any(index.get("unique") and list(index["key"]) == ["type", "slot"] for index in field.locks.list_indexes())
    field.compare()


def test_first_start_with_many_types(field):
    """They find a queue without an index all at once, and one makes it for all."""
    types = [f"t{n}" for n in range(16)]
    for name in types:
        field.fill(1000, name)
    worker = field.drain(*CALM, types=types)
    assert "has not made the index" not in worker.log(), str(worker)


def test_messages_index_dropped_under_a_worker(field):
    """As when another worker is still making it: said in words that fit, and made again."""
    assert field.run("pawl-setup").returncode == 0
    worker = field.worker(*CALM)
    worker.wait_log(r" database: MongoDB \d")
    field.db.messages.drop_index("type_1__id_1")
    worker.wait_log(r" warn  database: MongoDB has not made the index \{type: 1, _id: 1\} on messages yet; trying again")
    field.fill(10)
    field.finish(worker)


def test_duplicate_locks_so_no_index(field):
    field.locks.insert_many([{"type": "t1", "slot": 0}, {"type": "t1", "slot": 0}])
    refused(field, "locks")


def test_capped_messages(field):
    field.db.create_collection("messages", capped=True, size=1 << 20)
    refused(field, "messages", "capped")


def test_ttl_index_on_messages(field):
    field.messages.create_index("at", expireAfterSeconds=60)
    refused(field, "messages", "ttl|expire")


def test_collation(field):
    field.db.create_collection("messages", collation={"locale": "en", "strength": 2})
    refused(field, "messages", "collation")


# --- options ---


@pytest.mark.parametrize("arguments,words", [
    ([], ["--type"]),
    (["--type", "a/b"], ["--type", "a/b"]),
    (["--type", ".hidden"], ["--type"]),
    (["--type", "-x"], ["--type"]),
    (["--type", ""], ["--type"]),
    (["--type", "x" * 129], ["--type"]),
    (["--type", "t1", "--lease", "10"], ["--lease", "10"]),
    (["--type", "t1", "--lease", "100ms"], ["--lease", "100ms", "1s"]),
    (["--type", "t1", "--lease", "2h"], ["--lease", "2h"]),
    (["--type", "t1", "--batch-bytes", "65MiB"], ["--batch-bytes", "64MiB"]),
    (["--type", "t1", "--batch-messages", "0"], ["--batch-messages"]),
    (["--type", "t1", "--uri", "http://x"], ["--uri"]),
    (["--type", "t1", "--nonsense"], ["nonsense"]),
    (["--type", "t1", "--file-mode", "abc"], ["--file-mode"]),
])
def test_wrong_usage(arguments, words):
    done = run("pawl-worker", *arguments)
    assert done.returncode == 2, done
    assert all(word in done.stderr.decode() for word in words), done.stderr.decode()


def test_wrong_environment():
    done = run("pawl-worker", "--type", "t1", env={"PAWL_LEASE": "soon"})
    assert done.returncode == 2 and b"PAWL_LEASE" in done.stderr and b"soon" in done.stderr, done


def test_unknown_environment_is_ignored():
    done = run("pawl-worker", "--type", "t1", "--print-config", env={"PAWL_PORT": "tcp://1.2.3.4:5", "PAWL_SERVICE_HOST": "1.2.3.4"})
    assert done.returncode == 0, done


@pytest.mark.parametrize("name", ["pawl-worker", "pawl-enqueue", "pawl-status", "pawl-setup", "pawl-dump"])
def test_help_and_version(name):
    for flag in ("--help", "-h"):
        done = run(name, flag)
        assert done.returncode == 0 and name.encode() in done.stdout and b"--uri" in done.stdout, done
    for flag in ("--version", "-V"):
        done = run(name, flag)
        assert done.returncode == 0 and re.search(rb"\d+\.\d+\.\d+", done.stdout), done


@pytest.mark.parametrize("name,arguments", [("pawl-worker", ["--type", "t1"]), ("pawl-enqueue", ["--type", "t1"]), ("pawl-status", [])])
def test_password_is_never_shown(name, arguments):
    uri = f"mongodb://user:secr3t@127.0.0.1:{free_port()}/?serverSelectionTimeoutMS=200"
    done = run(name, "--uri", uri, "--print-config", *arguments)
    assert done.returncode == 0 and b"secr3t" not in done.stdout + done.stderr, done
    if name == "pawl-status":
        done = run(name, "--uri", uri, *arguments)
        assert done.returncode == 69 and b"secr3t" not in done.stdout + done.stderr, done


def test_folder_that_does_not_exist(field):
    field.fill(3)
    worker = field.worker(directory=field.folder / "nowhere", env=DISTRUST)
    assert worker.wait(30) == 2, str(worker)
    assert "--dir" in worker.log() and "nowhere" in worker.log() and field.queued() == 3


def test_file_mode(field):
    field.fill(3)
    field.drain("--file-mode", "0600")
    assert (field.dir / "t1.bin").stat().st_mode & 0o777 == 0o600
