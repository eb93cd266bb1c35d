"""A type with its own collection: `messages` and then `messages.T` are drained, in order, and what is settled lies in one of them."""
import os
import threading

import bson
import pytest
from bson import Int64

import reader
from harness import CALM, stays, wait_until

SMALL = ["--batch-messages", 50]


def switch(field, name="t1", clustered=None):
    """As pawl-setup --own-collection: the collection, and then one step that fences."""
    if clustered and not field.server.clusters:
        pytest.skip("this MongoDB makes no clustered collections")
    clustered = field.server.clusters if clustered is None else clustered
    field.db.create_collection(f"messages.{name}", **({"clusteredIndex": {"key": {"_id": 1}, "unique": True}} if clustered else {}))
    changed = field.ledgers.update_one({"_id": name}, [{"$set": {
        "v": 2, "needs": ["own"], "epoch": {"$add": [{"$ifNull": ["$epoch", Int64(0)]}, Int64(1)]}, "owner": os.urandom(16),
        "clean": {"$ifNull": ["$clean", False]}, "seq": {"$ifNull": ["$seq", Int64(0)]}, "items": {"$ifNull": ["$items", Int64(0)]},
        "settled": {"$ifNull": ["$settled", Int64(0)]}}}], upsert=True)
    assert changed.acknowledged


def count(field, name="t1"):
    return len(field.compare(name)[name])


@pytest.mark.parametrize("clustered", [pytest.param(True, marks=pytest.mark.clustered), False], ids=["clustered", "plain"])
def test_both_are_drained_in_order(field, clustered):
    """One producer, which switches once: all of `messages` comes before all of its own collection."""
    field.fill(300)
    switch(field, clustered=clustered)
    field.fill(700, own=True)
    field.drain(*SMALL)
    messages = field.compare()["t1"]
    assert [bson.decode(m.raw)["n"] for m in messages] == list(range(1000))
    ledger = field.ledger()
    assert (ledger["from"], ledger["v"], ledger["needs"], ledger["clean"]) == ("own", 2, ["own"], True), ledger
    field.fill(10, producer="an old one")
    field.drain(*SMALL)
    assert "from" not in field.ledger() and count(field) == 1010
    assert field.segments() == ["t1.bin"]


def test_a_type_that_begins_with_its_own(any_field):
    switch(any_field)
    any_field.fill(120, own=True)
    any_field.drain(*SMALL)
    assert count(any_field) == 120


def test_another_type_with_that_name_is_not_drained(field):
    """GridFS's `messages.files`: nothing is concluded from a collection that is there."""
    field.db["messages.files"].insert_many([{"_id": bson.ObjectId(), "length": 5} for _ in range(5)])
    field.fill(10, "files")
    field.drain(types=["files"])
    assert field.ledger("files")["seq"] == 10 and field.db["messages.files"].count_documents({}) == 5


POINTS = ["segment-created", "block-written:4", "block-synced:4", "block-committed", "block-committed:4", "deleted", "deleted:4", "close-written"]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("shared", [0, 60, 500])
def test_holder_killed(field, point, shared):
    """With all of it in one, in the other, and with the crash at the way from one to the other."""
    field.fill(shared)
    switch(field)
    field.fill(500 - shared, own=True)
    field.crash(point, *SMALL)
    field.compare(queue_empty=False)
    field.fill(100, own=True)
    field.fill(30, producer="an old one")
    field.drain(*SMALL)
    assert count(field) == 630
    assert len(reader.read_chain(field.dir, "t1", field.ledger())) == 1


@pytest.mark.parametrize("point", ["block-committed:2", "deleted:2"])
def test_an_id_that_is_in_both_is_deleted_where_it_was_read(field, point):
    """A crash with messages of one to settle: those of the same `_id` in the other are other messages, and are not lost."""
    ids = [bson.ObjectId() for _ in range(150)]
    switch(field)
    field.insert("a", [bson.encode({"_id": one, "type": "t1", "where": "shared"}) for one in ids])
    field.insert("b", [bson.encode({"_id": one, "where": "own"}) for one in ids], own="t1")
    field.crash(point, *SMALL)
    assert "from" not in field.ledger() and field.ledger()["settled"] < field.ledger()["seq"]
    field.drain(*SMALL)
    assert count(field) == 300


def test_the_own_collection_is_read_as_it_was(field):
    """At the cluster time of the pass of `messages`: what has come there since may be earlier than what has come to the own collection."""
    switch(field)
    field.fill(10)
    worker = field.worker(*SMALL, *CALM, "--linger", "1h", env={"PAWL_FAULT_STOP": "deleted"})
    worker.wait_frozen()  # `messages` is drained, and the own collection comes next
    field.fill(1)
    field.fill(1, own=True)
    worker.thaw()
    field.wait_empty()
    assert worker.stop()[0] == 0, str(worker)
    assert [bson.decode(m.raw)["n"] for m in field.compare()["t1"]] == list(range(12))


def test_the_switch_while_it_drains(field):
    """The holder, which knows nothing of it, is fenced; the next one finds both."""
    worker = field.worker(*SMALL, "--linger", "1h", *CALM)
    field.fill(500)
    field.wait_empty()
    switch(field)
    field.fill(100)
    field.fill(300, own=True)
    field.wait_empty()
    assert worker.events("fenced"), str(worker)
    assert worker.stop()[0] == 0, str(worker)
    assert count(field) == 900


def test_an_idle_worker_learns_of_the_switch(field):
    """By the first wake-up after which it finds nothing."""
    field.fill(10)
    worker = field.worker(*SMALL, *CALM)
    field.wait_settled()
    switch(field)
    field.fill(3, own=True)
    field.db.wakeups.insert_one({"type": "t1", "about": "message"})
    field.wait_empty()
    assert worker.stop()[0] == 0, str(worker)
    assert len(field.compare("t1")["t1"]) == 13


def test_an_old_producer_starves_nobody(field):
    """It never lets `messages` run dry."""
    switch(field)
    field.fill(200)
    stop = threading.Event()

    def produce():
        while not stop.wait(0.01):
            field.fill(20, producer="an old one")
    producer = threading.Thread(target=produce)
    producer.start()
    try:
        worker = field.worker("--batch-messages", 20, *CALM, "--linger", "1h")
        wait_until(lambda: field.seq() > 400, lambda: f"some messages; {worker}")
        field.fill(100, producer="a new one", own=True)
        wait_until(lambda: field.own("t1").count_documents({}) == 0, lambda: f"the own collection; {worker}")
    finally:
        stop.set()
        producer.join()
    field.wait_empty()
    assert worker.stop()[0] == 0, str(worker)
    field.compare()


def test_what_is_of_another_type_is_named_and_stays(field):
    switch(field)
    field.insert("p", [{"type": "t1", "n": 1}, {"n": 2}, {"type": "t1", "n": 3}], own="t1")
    wrong = [{"_id": bson.ObjectId(), "type": kind} for kind in ("t2", ["t1"], None, 5, {"a": 1}, "t1 ")]
    field.db["messages.t1"].insert_many(wrong)
    field.fill(5, own=True)
    worker = field.drain(*SMALL)
    assert count(field) == 8
    assert list(field.db["messages.t1"].find()) == wrong
    named = "\n".join(worker.events("document", "warn"))
    assert all(str(one["_id"]) in named for one in wrong), str(worker)
    assert len(worker.events("document", "warn")) == len(wrong), str(worker)


def test_ids_of_all_kinds(any_field):
    field = any_field
    switch(field)
    ids = [5, Int64(7), 1.5, "a", bson.Binary(b"x"), {"a": 1}, True, None, bson.datetime.datetime(2026, 1, 1), bson.Timestamp(1, 1),
           bson.Decimal128("2.5"), bson.MinKey(), bson.MaxKey(), bson.ObjectId()]
    for n, one in enumerate(ids):
        field.insert(f"p{n}", [bson.encode({"_id": one, "n": n})], own="t1")
    field.insert("q", [bson.encode({"_id": n, "n": n}) for n in range(100, 1400)], own="t1")
    field.crash("block-committed", "--batch-messages", 700)
    field.drain("--batch-messages", 1000)
    messages = field.compare()["t1"] if field.server.replica_set else None
    assert field.queued() == 0 and field.seq() == len(ids) + 1300, messages


@pytest.mark.parametrize("ids", [[1, 2, "a", "b"], [-2, -1, 0, 1, 2, Int64(-3)]], ids=["numbers-and-strings", "negative"])
def test_ids_that_have_bounds_or_not(field, ids):
    """A delete names the least and the greatest `_id`: they are of one kind, and negative ones are the least."""
    switch(field)
    for n, one in enumerate(ids):
        field.insert(f"p{n}", [bson.encode({"_id": one, "n": n})], own="t1")
    field.crash("block-committed", *SMALL)
    assert field.own("t1").count_documents({}) == len(ids)
    field.drain(*SMALL)
    assert field.own("t1").count_documents({}) == 0 and count(field) == len(ids)


def test_a_missing_collection_is_no_empty_one(any_field):
    """It says so, goes on with `messages`, and with other types."""
    field = any_field
    switch(field)
    field.fill(20, own=True)
    field.own("t1").rename("elsewhere")
    field.fill(10, producer="an old one")
    field.fill(10, "t2")
    worker = field.worker("--exit-when-empty", *SMALL, types=["t1", "t2"])
    wait_until(lambda: field.messages.count_documents({}) == 0, lambda: f"`messages` drained; {worker}")
    worker.wait_log("messages.t1 is missing")
    assert worker.alive()
    field.db.elsewhere.rename("messages.t1")
    assert worker.wait() == 0, str(worker)
    assert count(field) == 30


def test_one_that_goes_missing_is_no_empty_one(any_field):
    """After it was checked, before the last poll."""
    field = any_field
    switch(field)
    field.fill(20, own=True)
    worker = field.worker("--exit-when-empty", *SMALL, env={"PAWL_FAULT_STOP": "block-committed"})
    worker.wait_frozen()
    field.own("t1").delete_many({})
    field.own("t1").rename("elsewhere")
    worker.thaw()
    stays(worker.alive, 5, lambda: str(worker))
    field.db.elsewhere.rename("messages.t1")
    assert worker.wait() == 0, str(worker)
    assert field.seq() == 20


@pytest.mark.parametrize("types", [1, 2, 20])
def test_an_idle_collection_is_checked_again(field, types):
    """It reads as empty when it is gone. However many types share the check of the database, and whichever of them makes it."""
    names = [f"t{n + 1}" for n in range(types)]
    switch(field)
    field.fill(10, own=True)
    worker = field.worker(*CALM, types=names, env={"PAWL_TEST_PREPARED_MS": "1000"})
    field.wait_settled()
    field.own("t1").rename("elsewhere")
    worker.wait_log("messages.t1 is missing")
    field.db.elsewhere.rename("messages.t1")
    field.fill(10, own=True)
    wait_until(lambda: field.seq() == 20, lambda: f"all of them; {worker}")
    field.wait_settled()
    assert worker.stop()[0] == 0 and count(field) == 20, str(worker)


def test_a_type_that_begins_has_its_own_collection_checked_alone(field):
    """Not all of the database, after which each type would check its own once more."""
    types = [f"t{n}" for n in range(30)]
    assert field.run("pawl-setup", "--type", ",".join(types), "--own-collection").returncode == 0
    field.db["messages.t0"].insert_one({"n": 0})
    field.drain(*CALM, types=["t*"])
    for name in types:
        field.insert("p", [{"n": n} for n in range(300)], own=name)
    checks = lambda: field.server.client.admin.command("serverStatus")["metrics"]["commands"]["listIndexes"]["total"]
    before = checks()
    field.drain(*SMALL, *CALM, "--types-max", 4, types=["t*"])  # one after the other
    assert checks() - before < len(types) + 10


@pytest.mark.parametrize("clustered", [pytest.param(True, marks=pytest.mark.clustered), False], ids=["clustered", "plain"])
def test_large_batches_are_deleted_by_ranges(field, clustered):
    """What came later into the range stays."""
    def committed():
        return field.server.client.admin.command("serverStatus")["transactions"]["totalCommitted"]
    switch(field, clustered=clustered)
    field.fill(4000, own=True)
    before = committed()
    worker = field.worker("--batch-messages", 2000, *CALM, env={"PAWL_FAULT_STOP": "block-committed"})
    worker.wait_frozen()
    first = bson.decode(field.acknowledged["producer of t1"][0])["_id"]
    late = bson.ObjectId(first.binary[:11] + bytes([(first.binary[11] + 1) % 256]))  # another's, perhaps of the same second
    if field.own("t1").find_one({"_id": late}) is None:
        field.insert("late", [bson.encode({"_id": late, "late": True})], own="t1")
    worker.thaw()
    field.wait_settled()
    assert committed() >= before + 2, str(worker)
    assert worker.stop()[0] == 0 and count(field) >= 4000


def test_a_snapshot_that_is_too_old_ends_the_pass(field):
    """It is not empty, and nothing is passed over."""
    switch(field)
    field.fill(100)
    field.fill(100, own=True)
    with field.failing(["find"], {"times": 2}, collection="messages.t1", errorCode=246):
        worker = field.worker("--exit-when-empty", *SMALL, *CALM, "-v")
        assert worker.wait() == 0, str(worker)
    assert count(field) == 200
    assert any("ended early" in line for line in worker.events("pass")), str(worker)


def test_exit_when_empty_asks_the_ledger(field):
    """A worker that has not heard of the switch does not end while the own collection has messages."""
    field.fill(10)
    worker = field.worker("--exit-when-empty", "--linger", "1s", *CALM, env={"PAWL_FAULT_STOP": "released"})
    wait_until(lambda: field.messages.count_documents({}) == 0, lambda: str(worker))
    with field.failing(["find"], collection="messages", blockConnection=True, blockTimeMS=3000):  # its last poll is not answered before the switch
        worker.wait_frozen()
        switch(field)
        field.fill(50, own=True)
        worker.thaw()
    assert worker.wait() == 0, str(worker)
    assert count(field) == 60


@pytest.mark.clustered
@pytest.mark.parametrize("make", [int, "s{:05}".format], ids=["integers", "strings"])
def test_settling_goes_over_what_it_settles(field, make):
    """And not over all of the clustered collection, for which `$in` alone has no bounds."""
    switch(field, clustered=True)
    field.insert("p", [{"_id": make(n), "n": n} for n in range(2000)], own="t1")
    field.crash("deleted", "--batch-messages", 100)
    field.locks.delete_many({})
    field.db.command("profile", 2)
    field.drain("--batch-messages", 100)
    field.db.command("profile", 0)
    found = field.db["system.profile"].find({"op": {"$in": ["query", "remove"]}, "ns": f"{field.name}.messages.t1"})
    asked = [op for op in found if "$in" in str(op["command"]) and "docsExamined" in op]  # one that was cut off has none
    assert asked and max(op["docsExamined"] for op in asked) <= 600, asked  # some blocks of 100 wait for their deletes
    assert count(field) == 2000


def test_a_message_between_many_of_another_type(field):
    """Neither the first thousand nor the last document says that it is there."""
    switch(field)
    field.own("t1").insert_many([{"_id": n, "type": "t2"} for n in [*range(1200), 1201]])
    field.insert("between", [{"_id": 1200, "n": 1}], own="t1")
    field.drain(*CALM)
    assert field.ledger()["seq"] == 1 and field.own("t1").count_documents({}) == 1201


def test_a_message_between_large_ones_of_another_type(field):
    """Of which an answer has room for fifteen."""
    switch(field)
    field.own("t1").insert_many([{"_id": n, "type": "x" * (1 << 20)} for n in range(20)])
    field.insert("between", [{"_id": 20, "n": 1}], own="t1")
    field.own("t1").insert_one({"_id": 21, "type": "t2"})
    field.drain(*CALM)
    assert field.ledger()["seq"] == 1 and field.own("t1").count_documents({}) == 21


def test_a_capped_or_expiring_one_is_refused(field):
    switch(field)
    field.own("t1").create_index("at", expireAfterSeconds=100)
    field.fill(10, own=True)
    worker = field.worker()
    assert worker.wait() == 2 and "expireAfterSeconds" in worker.log(), str(worker)
    assert field.own("t1").count_documents({}) == 10


def test_adopted(field):
    """The ledger is lost but for its need: where the last block came from is not known, so the next holder looks in both."""
    field.fill(100)
    switch(field)
    field.fill(100, own=True)
    field.crash("block-committed:3", *SMALL)
    field.ledgers.update_one({"_id": "t1"}, {"$set": {"seq": "x"}})
    field.locks.delete_many({})
    field.adopt()
    assert field.ledger()["needs"] == ["own"] and field.ledger()["from"] == "both", field.ledger()
    field.drain(*SMALL)
    assert count(field) == 200


def test_patterns_find_types_by_their_own_collections(field):
    """With nothing in `messages`."""
    for name in ("orders.a", "orders.b", "other"):
        switch(field, name)
        field.fill(30, name, own=True)
    field.drain(*SMALL, types=["orders.*"])
    assert count(field, "orders.a") == count(field, "orders.b") == 30 and field.queued("other") == 30
    worker = field.worker(*SMALL, types=["*"])
    wait_until(lambda: field.queued("other") == 0, lambda: f"the third; {worker}")
    switch(field, "late")
    field.fill(30, "late", own=True)
    wait_until(lambda: field.queued("late") == 0, lambda: f"the new one; {worker}")
    assert worker.stop()[0] == 0 and count(field, "late") == 30


def test_the_last_look_asks_all_own_collections(field):
    """A message comes when the ordinary looks have found nothing more."""
    switch(field, "orders.a")
    field.fill(10, "orders.a", own=True)
    admin = field.server.client.admin

    def last_looks():
        return [op for op in admin.command("currentOp")["inprog"] if op.get("appName") == field.app_name() and
                op.get("command", {}).get("aggregate") == "messages" and op["command"].get("readConcern", {}).get("level") == "linearizable"]
    with field.failing(["aggregate"], collection="messages", blockConnection=True, blockTimeMS=1500):
        worker = field.worker("--exit-when-empty", *CALM, types=["orders.*"])
        wait_until(last_looks, lambda: f"a last look; {worker}")
        field.fill(10, "orders.a", own=True)
    assert worker.wait() == 0 and count(field, "orders.a") == 20, str(worker)


def test_one_that_goes_missing_before_the_delete(field):
    """What is not found there was not deleted."""
    switch(field)
    field.fill(20, own=True)
    worker = field.worker(*SMALL, *CALM, "--linger", "1h", env={"PAWL_FAULT_STOP": "block-committed:2"})
    worker.wait_frozen()  # committed, not yet deleted; the first commit is the segment's
    field.own("t1").rename("elsewhere")
    worker.thaw()
    worker.wait_log(r"messages\.t1 (is )?missing")
    field.db.elsewhere.rename("messages.t1")
    field.wait_empty()
    assert worker.stop()[0] == 0 and count(field) == 20, str(worker)


def test_strings_with_a_nul(field):
    """One is the beginning of the other."""
    switch(field)
    field.insert("p", [{"_id": "a", "n": 0}, {"_id": "a\0", "n": 1}], own="t1")
    field.drain(*SMALL)
    assert count(field) == 2


def test_adopted_out_of_order(field):
    """What two passes have written is not in the order of the _ids."""
    switch(field)
    field.insert("p", [{"_id": n} for n in range(100, 150)], own="t1")
    field.drain(*SMALL)
    field.insert("q", [{"_id": n} for n in range(50)], own="t1")
    field.crash("block-committed", *SMALL)  # continued in place: its first commit is the block's
    field.ledgers.update_one({"_id": "t1"}, {"$set": {"seq": "x"}})
    field.locks.delete_many({})
    field.adopt()
    field.drain(*SMALL)
    assert count(field) == 100
