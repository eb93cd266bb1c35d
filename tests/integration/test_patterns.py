"""Types that are found by a pattern: --type 'orders.*', --except; how many at the same time: test_places.py."""
import itertools
import json
import os
import re
import signal
import time
from pathlib import Path

import bson
import pytest
from bson.raw_bson import RawBSONDocument

import reader
from harness import CALM, DISTRUST, run, stays, wait_until

MANY = int(os.environ.get("PAWL_TEST_TYPES", "1000"))
FOREIGN = ["", ".a", "-a", "a b", "a/b", "../a", "a\0b", "ü", "orders.*", "*", "$a", "x" * 129, "y" * 5000, "@untyped"]


def names(field):
    """The types that have files."""
    return {re.sub(r"(@\d+)?\.bin$", "", path.name) for path in field.dir.glob("*.bin")}


def insert_many(field, types, **more):
    """A foreign producer: a message of each type."""
    raws = [bson.encode({"_id": bson.ObjectId(), "type": name, "n": n, **more}) for n, name in enumerate(types)]
    for at in range(0, len(raws), 1000):
        field.messages.insert_many([RawBSONDocument(raw) for raw in raws[at:at + 1000]])
    return dict(zip(types, raws))


def wait_drained(field, *types):
    wait_until(lambda: not any(field.queued(name) for name in types), lambda: f"{types} to be drained; {field.logs()}")


def test_new_types_are_found_without_wakeups(field):
    worker = field.worker(*CALM, "--except", "orders.test*", types=["orders.*", "t1"])
    worker.wait_log("MongoDB 6|MongoDB 5|MongoDB 7|MongoDB 8")
    for name in ("orders.a", "orders.b", "t1"):
        field.fill(10, name)
    field.fill(10, "orders.test1")
    field.fill(10, "invoices")
    start = time.monotonic()
    wait_drained(field, "orders.a", "orders.b", "t1")
    assert time.monotonic() - start < 20
    field.fill(10, "orders.later")
    wait_drained(field, "orders.later")
    field.stop()
    assert names(field) == {"orders.a", "orders.b", "orders.later", "t1"}
    field.compare("orders.a", "orders.b", "orders.later", "t1")
    assert field.queued("orders.test1") == field.queued("invoices") == 10


def test_a_wakeup_is_enough(field):
    """Looks fail; the type of the wake-up is served at once."""
    worker = field.worker(*CALM, types=["orders.*"])
    worker.wait_log("MongoDB 6|MongoDB 5|MongoDB 7|MongoDB 8")
    wait_until(lambda: field.db.wakeups.count_documents({}) > 0, "the collection of wake-ups")
    with field.failing(["aggregate"], collection="messages", errorCode=11600) as failing:
        failing.wait(2)
        field.fill(10, "orders.a")

        def woken():
            field.db.wakeups.insert_one({"type": "orders.a", "about": "message"})
            return field.queued("orders.a") == 0
        wait_until(woken, field.logs)
    field.stop()
    field.compare("orders.a")


def test_what_is_idle_is_forgotten(listening, field):
    """No row of its own, no lock document, no descriptor; what was counted stays counted."""
    worker, port = listening(types=["*"])
    types = [f"k{n}" for n in range(60)]
    insert_many(field, types)
    wait_until(lambda: field.messages.count_documents({}) == 0, field.logs)
    wait_until(lambda: not any(key[1] in types for key in port.metrics() if len(key) > 1), lambda: str(port.metrics()))
    metrics = port.metrics()
    counted = {name: metrics[f"pawl_{name}", "*"] for name in (
        "messages_total", "documents_total", "blocks_total", "deleted_documents_total", "segments_total", "acquisitions_total")}
    assert set(counted.values()) == {60}, counted
    assert metrics["pawl_written_bytes_total", "*"] > 60 * 100 and metrics["pawl_sync_duration_seconds_count",] >= 60
    assert field.locks.count_documents({}) == 0
    assert len(os.listdir(f"/proc/{worker.pid}/fd")) < 120, "each process has a few connections, whatever the number of its types"
    worker.signal(signal.SIGUSR1)
    worker.wait_log(r"report: pawl-worker .* types=0 ")
    assert port.status("/readyz") == 200


def test_names_that_are_no_types(field):
    """They stay, they harm nothing, and an array of names does not hide the types behind it."""
    insert_many(field, FOREIGN)
    field.messages.insert_many([RawBSONDocument(bson.encode({"_id": bson.ObjectId(), "type": odd}))
                                for odd in (7, None, {"a": 1}, True, bson.ObjectId(), b"bin")])
    good = [f"orders.{n}" for n in range(40)] + ["x" * 128, "0", "_z"]
    field.drain(*CALM, types=["*"])
    sent = insert_many(field, good)
    field.drain(*CALM, types=["*"])
    field.messages.insert_one({"type": ["orders.1", "array.only"]})
    again = insert_many(field, good, second=True)
    field.drain(*CALM, types=["*"])
    assert names(field) == set(good)
    for name in good:
        field.acknowledged[name] = [sent[name], again[name]]
    field.compare(*good)
    assert field.messages.count_documents({}) == len(FOREIGN) + 7


def test_an_array_does_not_hide_later_types(field):
    """The index cannot be skipped in one request any more: the types are found all the same."""
    field.messages.insert_one({"type": ["a", "b"]})
    worker = field.worker(*CALM, types=["*"])
    for name in ("t1", "t2", "a"):
        field.fill(500, name)
    wait_drained(field, "t1", "t2", "a")
    field.fill(5, "t3")
    wait_drained(field, "t3")
    assert worker.stop()[0] == 0
    field.compare("t1", "t2", "t3", "a")


def symbol(n, name):
    """A message whose type is a symbol, as old drivers write: the server takes it for the string."""
    return bson.encode({"_id": n, "type": name}).replace(b"\x02type", b"\x0etype")


def status(field, *arguments):
    rows = [json.loads(line) for line in field.run("pawl-status", "--json", *arguments).stdout.splitlines()]
    return {row["type"]: (row["kind"], row["queued"]) for row in rows if "kind" in row}


@pytest.mark.parametrize("skipped", [True, False], ids=["skipped", "one by one"])
def test_a_symbol_is_a_type(any_field, skipped):
    """In looks, polls, deletes, counts, and for pawl-dump: as the server's filters have it. It hides no type behind it either."""
    field = any_field
    assert field.run("pawl-setup").returncode == 0
    if not skipped:
        field.messages.insert_one({"_id": 99, "type": ["a", "b"]})
    sent = {name: symbol(n, name) for n, name in enumerate(("a1", "t1", "z1"))}
    field.messages.insert_many([RawBSONDocument(raw) for raw in (*sent.values(), symbol(7, "no/type"))])
    later = bson.encode({"_id": 5, "type": "t1"})
    field.messages.insert_many([RawBSONDocument(later)])
    counts = status(field)
    assert counts == {"a1": ("type", 1), "t1": ("type", 2), "z1": ("type", 1), '"no/type"': ("invalid", 1),
                      **({} if skipped else {None: ("untyped", 1)})}, counts
    assert status(field, "--type", "t1")["t1"] == ("type", 2)
    said = field.run("pawl-setup", "--list-refused").stdout.decode()
    assert "t1: " not in said and "@untyped: _id 7, " in said and "its type is no valid name: " in said, said
    moved = field.run("pawl-setup", "--set-aside", "@untyped", "--yes")
    assert moved.returncode == 0 and {document["_id"] for document in field.messages.find()} == {0, 1, 2, 5}
    field.drain(*CALM, types=["*"])
    assert field.messages.count_documents({}) == 0
    for name, raw in sent.items():
        stored = reader.read_type(field.dir, name, field.ledger(name))
        assert sorted(found.raw for found in stored) == sorted([raw, later] if name == "t1" else [raw])
        verify = field.run("pawl-dump", "--dir", field.dir, "--type", name, "--verify", "--deep")
        assert verify.returncode == 0, verify


def test_a_symbol_in_an_own_collection(field):
    assert field.run("pawl-setup").returncode == 0
    assert field.run("pawl-setup", "--type", "t1", "--own-collection").returncode == 0
    field.own("t1").insert_many([RawBSONDocument(symbol(1, "t1")), RawBSONDocument(symbol(2, "t2"))])
    said = field.run("pawl-setup", "--list-refused").stdout.decode()
    assert "t1: _id 2, " in said and "t1: _id 1, " not in said, said
    field.drain(*CALM)
    assert [document["_id"] for document in field.own("t1").find()] == [2]
    assert field.ledger()["seq"] == 1


def without_its_file(listening, field):
    """A worker that finds t1, whose file is away: it has stopped t1."""
    field.fill(10, "t1")
    field.drain()
    (field.dir / "t1.bin").rename(field.folder / "away")
    field.fill(10, "t1")
    worker, port = listening(types=["*"], env=DISTRUST)
    wait_until(lambda: port.page("/readyz")[0] == 503 and "t1 has stopped" in port.page("/readyz")[1], lambda: str(worker))
    return worker, port


def test_a_type_that_stops_stops_no_other(listening, field):
    worker, _ = without_its_file(listening, field)
    field.fill(10, "t2")
    wait_drained(field, "t2")
    assert worker.alive()
    assert worker.stop()[0] == 74, str(worker)


def test_a_reload_tries_a_stopped_type_again(listening, field):
    worker, port = without_its_file(listening, field)
    (field.folder / "away").rename(field.dir / "t1.bin")
    worker.signal(signal.SIGHUP)
    wait_drained(field, "t1")
    wait_until(lambda: port.status("/readyz") == 200, lambda: str(worker))
    assert worker.stop()[0] == 0, str(worker)
    field.compare("t1")


def test_a_stopped_type_that_is_paused_leaves_the_worker_ready(listening, field):
    """A rollout need not wait for its repair. Resumed, it is taken up by itself."""
    worker, port = without_its_file(listening, field)
    assert field.run("pawl-status", "--pause", "t1", "--reason", "its file is away").returncode == 0
    worker.signal(signal.SIGHUP)
    port.wait("/readyz", 200)
    (field.folder / "away").rename(field.dir / "t1.bin")
    assert field.run("pawl-status", "--resume", "t1").returncode == 0
    wait_drained(field, "t1")
    assert worker.stop()[0] == 0, str(worker)
    field.compare("t1")


def test_readiness_proves_the_directory_where_a_type_is_named(listening, field, tmp_path):
    """Not with a pattern alone, nor where --types-max makes names be looked for."""
    field.fill(5, "t1")
    field.drain()
    for options, status in (([], 200), (["--type", "t1"], 503), (["--type", "t1", "--types-max", "9"], 200)):
        worker, port = listening(*options, types=["t*"], directory=tmp_path)
        port.wait("/readyz", status, "t1.bin" if status == 503 else "")
        stays(lambda port=port, status=status: port.status("/readyz") == status, 1.5, lambda worker=worker: str(worker))
        assert worker.stop()[0] == 0, str(worker)


def test_a_paused_type(field):
    """It keeps no place, and is taken up when it is resumed; --exit-when-empty cannot wait for it."""
    field.fill(5, "t1")
    field.drain()
    assert field.run("pawl-status", "--pause", "t1", "--reason", "a test").returncode == 0
    field.fill(5, "t1")
    assert field.worker("--exit-when-empty", types=["*"]).wait() == 2
    worker = field.worker(*CALM, "--types-max", 1, types=["*"])
    field.fill(5, "t2")
    wait_drained(field, "t2")
    stays(lambda: field.queued("t1") == 5 and worker.alive(), 1, field.logs)
    assert field.run("pawl-status", "--resume", "t1").returncode == 0
    wait_drained(field, "t1")
    field.stop()
    field.compare("t1", "t2")


def test_a_pause_is_told_once(field):
    """The type is looked at again and again, and its messages wait."""
    field.fill(5)
    field.drain()
    assert field.run("pawl-status", "--pause", "t1", "--reason", "a test").returncode == 0
    field.fill(5)
    worker = field.worker(*CALM, "-v", types=["*"])
    looks = lambda: worker.log().count(" t1 epoch=0 seq=0 state: idle -> checking")
    wait_until(lambda: field.db.wakeups.insert_one({"type": "t1", "about": "message"}) and looks() >= 3, field.logs)
    assert worker.log().count("not competing for the lock: t1 is paused") == 1, str(worker)
    assert field.run("pawl-status", "--resume", "t1").returncode == 0
    wait_drained(field, "t1")
    assert worker.log().count("the type is not paused any more") == 1, str(worker)
    field.stop()
    field.compare()


def test_a_type_is_taken_though_its_lock_is_looked_at_slowly(field):
    """Others give the worker something to do meanwhile."""
    numbers = itertools.count()
    with field.repeating(lambda: field.insert("steady", [{"type": "t2", "n": next(numbers)}]), 0.05):
        field.worker(*CALM, "--linger", "1h", types=["*"])
        wait_until(lambda: field.seq("t2") > 5, field.logs)
        with field.failing(["find"], collection="locks", blockConnection=True, blockTimeMS=1500):
            field.fill(5, "t1")
            wait_drained(field, "t1")
    field.stop()


def test_a_look_that_fails_asks_again_how_the_index_is_read(field):
    """A document whose type is an array makes the index unfit: from then on a look may take too long."""
    worker = field.worker(*CALM, types=["*"])
    field.fill(5, "t1")
    wait_drained(field, "t1")
    field.messages.insert_one({"type": ["a", "b"]})
    with field.failing(["aggregate"], collection="messages", errorCode=50):  # a time-out
        field.fill(5, "t2")
        wait_until(lambda: field.queued("t2") == 0, field.logs, 30)
    assert worker.stop()[0] == 0, str(worker)


def test_a_slow_look_does_not_keep_a_worker_that_is_to_end(field):
    """One type a request, and each of these takes 0.2 s: more than the 8 s after which a worker that cannot end exits."""
    field.messages.insert_one({"type": ["a b", "c d"]})  # no type: nothing is polled
    insert_many(field, [f"a/{n}" for n in range(150)])
    worker = field.worker(*CALM, types=["*"])
    worker.wait_log("MongoDB 6|MongoDB 5|MongoDB 7|MongoDB 8")
    with field.failing(["find"], collection="messages", blockConnection=True, blockTimeMS=200) as look:
        look.wait()
        code, seconds = worker.stop()
        assert code == 0 and seconds < 6, f"{seconds} s: {worker}"


def test_what_cannot_be_taken_slows_a_type_only_while_it_is_there(field):
    assert field.run("pawl-setup", "--type", "t1", "--own-collection").returncode == 0
    field.db["messages.t1"].insert_one({"type": "t2"})
    field.fill(5, own=True)
    worker = field.worker(*CALM, types=["*"])
    worker.wait_log("its type is not that of the collection")
    wait_until(lambda: field.seq("t1") == 5, field.logs)
    field.db["messages.t1"].delete_many({})
    time.sleep(1)  # it is idle, and was forgotten
    field.fill(5, "t1")
    wait_until(lambda: field.queued("t1") == 0, field.logs, 30)


def test_own_collections_that_cannot_be_looked_into_hide_no_other_type(field):
    assert field.run("pawl-setup", "--type", "t1", "--own-collection").returncode == 0
    with field.failing(["aggregate"], collection="messages.t1", errorCode=50):  # a time-out
        worker = field.worker("--types-max", 8, types=["*"])
        field.fill(20, "t2")
        wait_until(lambda: field.seq("t2") == 20, field.logs)
        worker.wait_log("own-collection: a type is not found by its own collection")
    field.fill(5, own=True)
    wait_until(lambda: field.seq() == 5, field.logs)
    assert worker.stop()[0] == 0
    field.compare("t1", "t2")


def test_one_own_collection_without_an_answer_hides_no_other(field):
    """They are asked in one request."""
    assert field.run("pawl-setup", "--type", "t1,t2", "--own-collection").returncode == 0
    with field.failing(["aggregate"], collection="messages.t1", errorCode=50):
        worker = field.worker(types=["*"])
        worker.wait_log(r"own-collection: a type is not found by its own collection: messages\.t1: ")
        field.fill(20, "t2", own=True)
        wait_until(lambda: field.seq("t2") == 20, field.logs)
    assert worker.stop()[0] == 0
    field.compare("t2")


def test_what_an_own_collection_has_of_another_type_is_named_once(listening, field):
    """Also where its type was forgotten in between."""
    assert field.run("pawl-setup", "--type", "t1", "--own-collection").returncode == 0
    field.db["messages.t1"].insert_one({"type": "t2", "n": 1})
    worker, port = listening(types=["*"])
    for turn in range(1, 3):
        field.fill(5, own=True)
        wait_until(lambda: field.db.wakeups.insert_one({"type": "t1", "about": "message"}) and field.seq() == 5 * turn, field.logs)
        worker.wait_log("document: .*its type is not that of the collection")
        wait_until(lambda: not any("t1" in key for key in port.metrics()), lambda: str(port.metrics()))
    assert worker.log().count("its type is not that of the collection") == 1, str(worker)


def test_patterns_that_go_together(field):
    for arguments, text in ((["--type", "a[bc]*"], 'got "a[bc]*"'), (["--type", "-*"], 'got "-*"'), (["--type", "a*", "--except", "b?"], 'got "b?"'),
                            (["--type", "a", "--except", "a*"], "--type lists"), (["--type", "a", "--except", "b"], "no --type with a *"),
                            (["--type", "x" * 128 + "*"], "takes types"),
                            (["--type", "b*", "--except", "*b*"], 'got "*b*", and nothing is left of --type "b*"')):
        done = field.run("pawl-worker", *arguments)
        assert done.returncode == 2 and text in done.stderr.decode(), done.stderr.decode()


def commands(field):
    """How many commands the server has run, and how many of them only came from this call."""
    status = field.server.client.admin.command("serverStatus")
    return sum(value["total"] for value in status["metrics"]["commands"].values() if isinstance(value, dict) and "total" in value)


@pytest.mark.slow
@pytest.mark.timeout(240 + MANY // 10)
def test_many_types(servers, own_server, make_field):
    """Each of very many types has a message: all are drained, exactly, within bounds; then they are idle and cost nothing."""
    field = make_field(own_server("--replica-set", "--test-commands").start())
    types = [f"many.{n:05}" for n in range(MANY)]
    assert field.run("pawl-setup").returncode == 0
    sent = insert_many(field, types)
    worker = field.worker(*CALM, "--linger", "5s", "--types-max", 100, "--log-level", "warn", types=["many.*"], quick=False)
    most = 0

    def drained():
        nonlocal most
        worker.sample_memory()
        most = max(most, len(os.listdir(f"/proc/{worker.pid}/fd")))
        assert worker.alive(), str(worker)
        time.sleep(0.2)
        return field.messages.estimated_document_count() == 0
    wait_until(drained, field.logs, 900)
    wait_until(lambda: field.locks.count_documents({}) == 0, field.logs)
    assert worker.peak_kib < 200 * 1024 and most < 400, (worker.peak_kib, most)
    assert names(field) == set(types)
    for name in types[::MANY // 50]:
        field.acknowledged[name] = [sent[name]]
        field.compare(name)
    done = run("pawl-dump", "--dir", field.dir, "--count", *field.mongo, timeout=300)
    assert done.returncode == 0 and sum(int(line.split()[-1]) for line in done.stdout.decode().splitlines()) == MANY, done.stderr.decode()[:2000]

    begin, before = time.monotonic(), commands(field)
    stays(lambda: field.locks.count_documents({}) == 0, 10, "no lock document")
    seconds = time.monotonic() - begin
    idle = commands(field) - before
    begin, before = time.monotonic(), commands(field)
    worker.stop()
    stays(lambda: field.locks.count_documents({}) == 0, 10, "no lock document")
    alone = (commands(field) - before) / (time.monotonic() - begin)
    assert idle / seconds - alone < 30, (idle / seconds, alone)


def test_the_last_look_is_of_all_types(field):
    """Also where it takes many requests, and where the looks before it have not come so far."""
    assert field.run("pawl-setup").returncode == 0
    field.messages.insert_one({"type": ["x", "xx"]})  # the index cannot be skipped in one request
    insert_many(field, [f"x{n:03}" for n in range(150)])
    field.fill(5, "z")
    field.drain(*CALM, "--except", "x*", types=["*"])
    field.compare("z")


def test_the_last_look_sees_listed_types(field):
    assert field.run("pawl-setup").returncode == 0
    with field.failing(["aggregate"], {"times": 1}, collection="messages", blockConnection=True, blockTimeMS=1000) as look:
        worker = field.worker("--exit-when-empty", "--poll", "20s", *CALM, types=["t1", "k*"])
        look.wait()
        time.sleep(2)  # t1 was polled, also because wake-ups come now; the last look is still to come
        field.fill(3)
        assert worker.wait() == 0, str(worker)
    assert field.queued() == 0, str(worker)
