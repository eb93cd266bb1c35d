"""How messages leave the queue: by ranges in transactions where the server has them, else, and whenever that was not sure, by `_id`s."""
import re

import bson
import pymongo
import pytest
from bson import Int64, ObjectId
from pymongo.errors import OperationFailure

from harness import CALM, wait_until

LARGE = ["--batch-messages", 200, *CALM]  # a transaction pays for that many
FROZEN = {"PAWL_FAULT_STOP": "block-committed:2"}  # the first commit is that of the segment


def transactions(field):
    found = field.server.client.admin.command("serverStatus")["transactions"]
    return found["totalCommitted"], found["totalAborted"]


@pytest.fixture
def frozen(field):
    """A worker, frozen when its first block of 200 is committed and not yet deleted."""
    field.fill(1000)
    worker = field.worker(*LARGE, env=FROZEN)
    worker.wait_frozen()
    return field, worker


def thawed(field, worker, count):
    worker.thaw()
    field.wait_settled()
    assert len(field.compare()["t1"]) == count


def test_by_range(field):
    before = transactions(field)
    field.fill(2000)
    field.drain(*LARGE)
    assert len(field.compare()["t1"]) == 2000
    assert transactions(field)[0] >= before[0] + 10 and transactions(field)[1] == before[1]


def test_a_few_by_their_ids(field):
    before = transactions(field)
    field.fill(10)
    field.drain()
    assert len(field.compare()["t1"]) == 10 and transactions(field) == before


def test_what_came_late_into_the_range_stays(field):
    """Its `_id` is smaller than some that were read, and the transaction does not see it."""
    field.insert("early", [{"_id": n * 2, "type": "t1", "n": n} for n in range(1000)])
    worker = field.worker(*LARGE, env=FROZEN)
    worker.wait_frozen()
    for n in (1, 101, 399, 401, 1999):
        field.insert(f"late {n}", [{"_id": n, "type": "t1", "late": n}])
    committed = transactions(field)[0]
    thawed(field, worker, 1005)
    assert transactions(field)[0] > committed


def test_one_is_gone_already(frozen):
    """Then the count is another: nothing is deleted by the range, and the rest by `_id`s."""
    field, worker = frozen
    aborted = transactions(field)[1]
    first = bson.decode(field.acknowledged["producer of t1"][100])["_id"]
    field.messages.delete_one({"_id": first})
    thawed(field, worker, 1000)
    assert transactions(field)[1] > aborted


def test_one_gone_and_one_late(field):
    """The count alone would be right, and the late one lost."""
    field.insert("early", [{"_id": n * 2, "type": "t1", "n": n} for n in range(1000)])
    worker = field.worker(*LARGE, env=FROZEN)
    worker.wait_frozen()
    field.messages.delete_one({"_id": 100})
    field.insert("late", [{"_id": 101, "type": "t1", "late": True}])
    thawed(field, worker, 1001)


def test_array_of_types_stays(field):
    """Other tools may use such documents: they are no messages of the type."""
    field.insert("early", [{"_id": n * 2, "type": "t1", "n": n} for n in range(1000)])
    field.db.messages.insert_one({"_id": 101, "type": ["t1", "x"]})
    field.drain(*LARGE)
    assert len(field.compare()["t1"]) == 1000
    assert field.db.messages.count_documents({}) == 1


@pytest.mark.parametrize("data", [{"closeConnection": True}, {"errorCode": 112, "errorLabels": ["TransientTransactionError"]}, {"errorCode": 239},
                                  {"errorCode": 251}, {"writeConcernError": {"code": 64, "errmsg": "waiting timed out"}}],
                         ids=["connection", "conflict", "too old", "no such", "write concern"])
@pytest.mark.parametrize("command", ["delete", "commitTransaction"])
def test_transaction_fails(field, command, data):
    with field.failing([command], {"times": 3}, **data):
        field.fill(2000)
        field.drain(*LARGE)
    assert len(field.compare()["t1"]) == 2000


def test_reply_of_the_commit_is_lost(field):
    """The messages are gone, and the worker does not know: it deletes them by their `_id`s again, and no others."""
    with field.failing(["commitTransaction"], {"times": 2}, writeConcernError={"code": 91, "errmsg": "shutting down"}):
        field.fill(1000)
        field.drain(*LARGE)
    assert len(field.compare()["t1"]) == 1000


def test_a_transaction_that_cannot_be_ended(field):
    """It stays open in the server, which closes its messages to all others for a minute: the worker ends it before it deletes again."""
    with field.failing(["commitTransaction", "abortTransaction"], {"times": 6}, closeConnection=True):
        field.fill(400)
        field.drain("--batch-messages", 200, "--lease", "6s", deadline=50)
    assert len(field.compare()["t1"]) == 400


def test_killed_while_transactions_are_open(field):
    """The successor meets their locks in the server, until that has noticed the end of the connection."""
    field.fill(4000)
    field.crash("deleted", "--batch-messages", 1000)
    field.compare(queue_empty=False)
    field.drain(*LARGE)
    assert len(field.compare()["t1"]) == 4000


def test_ids_of_different_types(field):
    """A range does not reach from one BSON type to another: such a batch goes by its `_id`s."""
    ids = [*range(100), *(f"s{n:03}" for n in range(100)), *(bson.Binary(bytes([n])) for n in range(100)), *(ObjectId() for _ in range(100))]
    field.insert("mixed", [{"_id": key, "type": "t1", "n": n} for n, key in enumerate(ids)])
    field.drain(*LARGE)
    assert len(field.compare()["t1"]) == 400


# --- the layout ---


def layout(field):
    return field.db.command("listCollections", filter={"name": "messages"})["cursor"]["firstBatch"][0]["options"]


def test_new_queue_is_clustered(any_field):
    field = any_field
    done = field.run("pawl-setup")
    assert done.returncode == 0 and ("clusteredIndex" in layout(field)) == field.server.clusters
    field.fill(500)
    worker = field.drain(*LARGE)
    kind, how = ("a replica set", "by ranges in transactions") if field.server.replica_set else ("a standalone server", "deleted by their _ids")
    layout_found = "messages is clustered" if field.server.clusters else "messages is not clustered"
    assert re.search(rf"database: MongoDB \d+\.\d+\.\d+, {kind}; {layout_found}.* {how}", worker.log()), str(worker)
    assert len(field.compare()["t1"]) == 500


def test_plain_queue_is_taken_as_it_is(any_field):
    field = any_field
    field.db.create_collection("messages")
    field.fill(500)
    field.drain(*LARGE)
    assert len(field.compare()["t1"]) == 500 and layout(field) == {}


@pytest.mark.clustered
def test_clustered_queue_that_expires_is_refused(field):
    if not field.server.clusters:
        pytest.skip("this MongoDB makes no clustered collections")
    field.db.create_collection("messages", clusteredIndex={"key": {"_id": 1}, "unique": True}, expireAfterSeconds=3600)
    worker = field.worker("--exit-when-empty")
    assert worker.wait() == 2 and "expireAfterSeconds" in worker.log(), str(worker)


def test_two_types_beside_one_another(field):
    """Passes of one at a time begin while those of the other go on: their sessions do not meet."""
    for _ in range(3):
        field.fill(1500, "t1")
        field.fill(1500, "t2")
        aborted = transactions(field)[1]
        field.drain(*LARGE, types=("t1", "t2"))
        assert transactions(field)[1] == aborted
    assert [len(found) for found in field.compare("t1", "t2").values()] == [4500, 4500]


@pytest.mark.parametrize("settles", [False, True], ids=["first holder", "after a crash"])
def test_transactions_of_others_stay(field, settles):
    """Only those of a pawl-worker of this database are ended, and none as long as there is nothing to delete. Others may share the URI's name."""
    named = [*field.mongo[:1], f"{field.server.uri}&appName=shop", *field.mongo[2:]]
    field.fill(50)  # deleted by their `_id`s
    if settles:
        field.crash("block-committed:2", *CALM, mongo=named)
        field.locks.delete_many({})
    names = ["shop", "pawl-worker", "pawl-worker@other shop", field.app_name() + "-2", field.app_name() + " shop"]
    clients = [pymongo.MongoClient(field.server.uri, appname=name) for name in names]
    sessions = [client.start_session() for client in clients]
    field.db.create_collection("orders")
    for client, session, name in zip(clients, sessions, names):
        session.start_transaction()
        client[field.name].orders.insert_one({"_id": name}, session=session)
    idle = [{"$currentOp": {"idleSessions": True}}, {"$match": {"type": "idleSession", "appName": {"$in": names},
                                                               "transaction.timeOpenMicros": {"$gt": 1100000}}}]
    wait_until(lambda: len(list(field.server.client.admin.aggregate(idle))) == len(names), "transactions that are open for a second")
    field.drain(*CALM, mongo=named)
    left = []
    for client, session, name in zip(clients, sessions, names):
        try:
            session.commit_transaction()
            left.append(name)
        except OperationFailure:
            pass
        session.end_session()
        client.close()
    assert left == names[:-1] if settles else left == names
    field.compare()


def test_settling_goes_on_where_it_was_killed(field):
    """What was settled is recorded after each command, which names a megabyte of `_id`s."""
    field.insert("p", [{"_id": f"{n:04}" + 1000 * "x", "type": "t1", "n": n} for n in range(3000)])
    field.drain()
    field.ledgers.update_one({"_id": "t1"}, {"$set": {"settled": Int64(0)}})
    field.insert("q", [{"type": "t1", "n": 1}])
    field.crash("deleted:4")
    assert 0 < field.ledger()["settled"] < 3000
    field.drain()
    assert len(field.compare()["t1"]) == 3001
