"""The main job: several workers, several types, foreign producers."""
import random
import threading
import time
import uuid
from datetime import datetime, timedelta, timezone

import bson
import pytest
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, Regex, Timestamp

import reader
from harness import CALM, run, wait_until


def test_one_worker(any_field):
    any_field.fill(2500)
    worker = any_field.drain("--batch-messages", 100)
    messages = any_field.compare()["t1"]
    assert len(messages) == 2500 and any_field.segments() == ["t1.bin"] and "previous shutdown none" in worker.log(), str(worker)


def test_nothing_to_do_makes_no_file(field):
    worker = field.drain()
    assert field.segments() == [] and field.ledger() is None and field.holder() is None, str(worker)


def test_an_open_names_its_writer(field):
    pids = []
    for lease in ("30s", "7s"):
        field.fill(5)
        pids.append(field.drain("--lease", lease).pid)
    [segment] = reader.read_chain(field.dir, "t1", field.ledger())
    [block] = [block for block in segment.blocks if block.kind == reader.OPEN]
    written = bson.decode(segment.path.read_bytes()[block.offset + 128:block.end])
    assert list(written) == ["host", "pid", "machine", "lease_ms"] and (written["pid"], written["lease_ms"]) == (pids[1], 7000), written


def test_three_workers_of_each_of_two_types(any_field):
    """Messages go on arriving while workers come and go; one of each type's holders is asked to stop on the way."""
    field = any_field
    for name in ("t1", "t2"):
        for _ in range(3):
            field.worker("--batch-messages", 50, *CALM, "--linger", "5s", types=[name])
    producers = [threading.Thread(target=field.fill, args=(1500, name), kwargs={"producer": f"{name}/{i}", "chunk": 37})
                 for name in ("t1", "t2") for i in range(2)]
    for producer in producers:
        producer.start()
    for holder in [field.holding_worker(name) for name in ("t1", "t2")]:
        assert holder.stop()[0] == 0, str(holder)
    for producer in producers:
        producer.join()
    field.wait_settled("t1", "t2")
    field.stop()
    found = field.compare("t1", "t2")
    assert [len(found[name]) for name in ("t1", "t2")] == [3000, 3000]
    assert field.segments("t1") == ["t1.bin"] and field.segments("t2") == ["t2.bin"]


@pytest.mark.slow
def test_nine_workers_60000_messages_bounded_memory(field):
    """A backlog of 60,000 messages of 256 bytes; memory depends on the batch, not on the backlog."""
    types = ["t1", "t2", "t3"]
    for name in types:
        field.fill(20000, name, size=160, chunk=5000)
    for name in types * 3:
        field.worker("--batch-messages", 500, "--batch-bytes", "256KiB", types=[name])

    def empty():
        for worker in field.workers:
            worker.sample_memory()
        return all(field.queued(name) == 0 for name in types)
    wait_until(empty, field.logs, 120)
    field.wait_settled(*types)
    for worker in field.workers:
        worker.sample_memory()
    peaks = [worker.peak_kib for worker in field.workers]
    for worker in field.workers:
        assert worker.stop()[0] == 0, str(worker)
    field.compare(*types)
    program = open(field.workers[0].process.args[0], "rb").read()
    if b"__asan_" not in program and b"__tsan_" not in program:
        assert max(peaks) < 64 * 1024, f"peak memory in KiB: {peaks}"


def test_several_types_in_one_worker(field):
    for name in ("t1", "t2", "t-3_x.y"):
        field.fill(300, name)
    field.drain("--batch-messages", 64, types=["t1", "t2", "t-3_x.y"])
    field.compare("t1", "t2", "t-3_x.y")


def test_odd_documents(any_field):
    """Whatever a foreign producer sends is stored as its very bytes, and deleted, whatever its _id is."""
    field = any_field
    ids = [1, Int64(2**53 + 1), -7.5, float("inf"), float("nan"), "text", "", "ünïcödé", "nul\0inside", b"\0\1", Binary(b"user", 128), uuid.uuid4(),
           True, False, None, MinKey(), MaxKey(), Timestamp(5, 6), Decimal128("1.50"), datetime(1969, 1, 1, tzinfo=timezone.utc),
           {"a": 1, "b": {"c": [1, 2]}}, {}, Code("function () {}"), bson.ObjectId()]
    options = bson.CodecOptions(uuid_representation=bson.binary.UuidRepresentation.STANDARD)
    for n, value in enumerate(ids):  # each a producer of its own: their order is that of _id, not that of the inserts
        field.insert(n, [bson.encode({"_id": value, "type": "t1", "n": n}, codec_options=options)])
    deep = {"leaf": 1}
    for _ in range(80):
        deep = {"d": [deep]}
    documents = [bson.encode({"_id": bson.ObjectId(), **fields}) for fields in (
        {"payload": {"nested": deep}, "type": "t1"},
        {"type": "t1", "payload": bytes(range(256))},
        {"type": "t1", "regex": Regex("^a", "i"), "code": Code("x", {"y": 1}), "array": [[], {}, [None]], "": "empty name"},
        {"type": "t1"},
        {"type": "t1", "_pawl": b"\x80\0\0\0\5_pawl\0\x6f\0\0\0\x80" * 9},
        {"type": "t1", "batch": [{"a": 1}, {"b": 2}, {}]},
        {"type": "t1", "batch": [{"a": 1}], "more": "so it is no bundle"},
        {"type": "t1", "batch": []})]
    invalid = bson.encode({"_id": bson.ObjectId(), "type": "t1", "payload": "ABCDEF"}).replace(b"ABCDEF", b"\xff\xfeok\xc0\x80")
    documents.append(invalid)
    field.insert("odd", documents)
    assert len(field.acknowledged["odd"]) == len(documents) and not field.unknown
    field.drain("--batch-messages", 7)
    assert len(field.compare()["t1"]) == len(ids) + len(documents)


def test_big_documents(field):
    """15 MiB each, far above --batch-bytes: a block holds at least one message."""
    rng = random.Random(1)
    field.insert("big", [{"type": "t1", "payload": rng.randbytes(15 << 20)}])
    field.insert("big", [{"type": "t1", "payload": "small"}])
    field.insert("big", [{"type": "t1", "payload": rng.randbytes(16 * 1024 * 1024 - 200)}])
    field.insert("big", [{"type": "t1", "payload": bytes(9 << 20)}, {"type": "t1", "payload": bytes(9 << 20)}])
    field.drain("--batch-bytes", "1MiB")
    assert len(field.compare()["t1"]) == 5


def test_what_is_no_message_of_the_type_stays(any_field):
    field = any_field
    strangers = [{"_id": n, **fields} for n, fields in enumerate((
        {"type": ["t1"]}, {"type": ["t1", "t2"]}, {"type": []}, {"type": 5}, {"type": None}, {}, {"type": {"type": "t1"}},
        {"type": "t2"}, {"type": "T1"}, {"type": "t1 "}, {"type": ""}, {"kind": "t1"}, {"type": "t11"}))]
    field.db.messages.insert_many(strangers)
    field.fill(50)
    field.drain()
    left = sorted(field.db.messages.find(), key=lambda document: document["_id"])
    assert left == strangers
    assert len(reader.read_type(field.dir, "t1", field.ledger())) == 50


def test_zstd(field):
    field.fill(3000, size=200)
    field.drain("--codec", "zstd", "--batch-messages", 700)
    field.compare()
    assert (field.dir / "t1.bin").stat().st_size < 3000 * 200 // 2


def test_roll(field):
    field.fill(3000, size=200)
    field.drain("--segment-bytes", "64KiB", "--batch-messages", 50)
    field.compare()
    names = field.segments()
    assert len(names) > 5 and "t1.bin" in names
    assert all((field.dir / name).stat().st_size < 128 * 1024 for name in names)
    chain = reader.read_chain(field.dir, "t1", field.ledger())
    assert sorted(segment.path.name for segment in chain) == names
    assert [reader.text(reader.element(s.header.info, b"reason")) for s in chain] == ["first"] + ["roll"] * (len(chain) - 1)
    assert all(segment.blocks[-1].kind == reader.CLOSE for segment in chain)
    field.fill(500, size=200)
    field.drain("--batch-messages", 50)
    field.compare()


def test_clean_hand_overs_keep_one_file(any_field):
    for n in range(4):
        any_field.fill(20)
        any_field.drain()
        assert any_field.ledger()["clean"] is True
    any_field.compare()
    assert any_field.segments() == ["t1.bin"]


def test_idle_worker_releases_and_takes_again(field):
    field.worker()
    for _ in range(3):
        field.fill(10)
        field.wait_settled()
    assert field.workers[0].stop()[0] == 0
    field.compare()


def test_smaller_ids_after_a_large_backlog(field):
    """The worker glances behind what it has read, for a look over 40,000 deleted messages is dear; what lies before is found nevertheless."""
    now = datetime.now(timezone.utc)
    old = [bson.ObjectId.from_datetime(now - timedelta(hours=hours)) for hours in (3, 2, 1)]
    field.fill(40000, chunk=10000)
    field.worker(*CALM, "--linger", "300ms")
    field.wait_settled("t1")
    for name in old:
        field.insert(str(name), [{"_id": name, "type": "t1"}])
        field.wait_settled("t1")
    assert [bson.decode(message.raw)["_id"] for message in field.compare()["t1"][-3:]] == old


def test_hand_over_while_messages_arrive(field):
    """Stopping the holder again and again neither loses nor repeats anything, and keeps one file."""
    field.worker("--batch-messages", 20, *CALM)
    with field.producing(50, chunk=25):
        for _ in range(4):
            holder = field.holding_worker()
            field.worker("--batch-messages", 20, *CALM)
            assert holder.stop()[0] == 0, str(holder)
    field.wait_settled()
    field.stop()
    field.compare()
    assert field.segments() == ["t1.bin"]


def test_offline_dump_agrees(field):
    field.fill(100)
    field.drain()
    raws = b"".join(m.raw for m in reader.read_type(field.dir, "t1"))
    assert run("pawl-dump", "--format", "bson", field.dir / "t1.bin").stdout == raws


def test_polls_of_many_types_take_turns(field):
    """Each poll hangs for a while: eight are under way, and a worker that is asked to stop does not begin those that wait for a turn.

    So few types are not polled together.
    """
    with field.failing(["find"], collection="messages", blockConnection=True, blockTimeMS=2000) as fault:
        worker = field.worker(*CALM, types=[",".join(f"t{n}" for n in range(1, 16))])
        fault.wait(8)
        status, _ = worker.stop()
        assert status == 0, str(worker)
    assert fault.count == 8, str(worker)


def test_deletes_of_many_types_take_turns(field):
    """Four are under way at once in a process."""
    types = [f"t{n}" for n in range(1, 13)]
    for name in types:
        field.fill(10, name)
    with field.failing(["delete"], collection="messages", blockConnection=True, blockTimeMS=1500) as fault:
        field.worker(*CALM, types=[",".join(types)])
        fault.wait(4)
        time.sleep(0.8)  # no synchronisation: time in which more would be sent
        most = field.server.client.admin.command({"currentOp": 1, "command.delete": "messages", "command.$db": field.name})["inprog"]
    assert len(most) == 4, most
    field.wait_settled(*types)
    field.stop()
    field.compare(*types)


def test_a_reply_holds_what_makes_a_block(field):
    """Where a block is full by its bytes: the first reply cannot know how large the documents are, and the others can."""
    field.fill(2500, size=4000, chunk=500)
    field.db.command("profile", 2)
    field.drain("--batch-messages", 1000, "--batch-bytes", "1MiB")
    field.db.command("profile", 0)
    replies = [found["responseLength"] for found in field.db["system.profile"].find({"op": "getmore", "ns": f"{field.name}.messages"})]
    assert len(field.compare()["t1"]) == 2500
    assert len(replies) >= 6 and max(replies) <= 2**20, replies


def test_roll_in_the_middle_of_a_reply(field):
    """What is left of it belongs to no later epoch."""
    field.fill(2500, size=4000, chunk=500)
    field.drain(*CALM, "--batch-messages", 1000, "--batch-bytes", "1MiB", "--segment-bytes", "64KiB", deadline=40)
    assert len(field.compare()["t1"]) == 2500 and len(field.segments()) > 3


def test_after_many_messages_the_end_is_looked_for_backwards(field):
    """What was deleted stays in the index for minutes: a search for more, from the beginning, goes over it twice."""
    field.fill(10_000)
    field.db.command("profile", 2)
    worker = field.worker("--exit-when-empty", *CALM, env={"PAWL_FAULT_STOP": "block-committed"})
    worker.wait_frozen()
    field.fill(5)  # the next pass has messages
    worker.thaw()
    assert worker.wait() == 0, str(worker)
    first = finds_of_passes(field)
    field.fill(10_000)
    field.drain(*CALM)
    field.db.command("profile", 0)
    assert first[:4] == [("forwards", 2500), ("backwards", 1), ("forwards", 5), ("forwards", 0)], first
    assert finds_of_passes(field)[len(first):][:2] == [("forwards", 2500), ("backwards", 0)], finds_of_passes(field)
    assert len(field.compare()["t1"]) == 20_005


def test_a_quick_look_tells_nothing_of_long_replies(field):
    """After a lost reply a quarter is asked for, also where such a look comes before."""
    field.fill(30_000)
    field.db.command("profile", 2)
    with field.failing(["getMore"], {"skip": 1}, collection="messages", closeConnection=True):
        worker = field.worker("--exit-when-empty", *CALM)
        wait_until(lambda: len(finds_of_passes(field)) >= 3, field.logs)
    field.db.command("profile", 0)
    assert worker.wait() == 0, str(worker)
    assert finds_of_passes(field, "batchSize")[:3] == [("forwards", 2500), ("backwards", None), ("forwards", 2500)], finds_of_passes(field, "batchSize")
    assert len(field.compare()["t1"]) == 30_000


def finds_of_passes(field, what="nreturned"):
    """Each with the number of its documents. A poll has both a limit and a batch."""
    return [("backwards" if found["command"]["sort"] == {"_id": -1} else "forwards", {**found["command"], **found}.get(what))
            for found in field.db["system.profile"].find({"op": "query", "ns": f"{field.name}.messages"})
            if ("limit" in found["command"]) != ("batchSize" in found["command"])]
