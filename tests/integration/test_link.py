"""A slow link between worker and MongoDB: whatever comes may take as long as it comes, and what does not come is asked for in pieces."""
import os
import re
import signal
import time

import bson
import pytest
from pymongo import MongoClient

from harness import CALM, wait_until
from proxy import Proxy

MBIT = 1000 * 1000 // 8
SHORT = ["--lease", "3s"]  # a reply may be silent for 1 s


@pytest.fixture
def link(field):
    """Makes a link to the field's server; a worker that uses it gets its `mongo`."""
    made = []

    def make(**how):
        proxy = Proxy(field.server, **how)
        made.append(proxy)
        proxy.mongo = ["--uri", proxy.uri(), "--db", field.name]
        return proxy
    yield make
    for proxy in made:
        proxy.close()


def test_large_message_with_the_defaults(field, link):
    """10 MB at 20 Mbit/s take 4 s, and most requests have 3 s."""
    field.fill(1, size=10 * 1000 * 1000)
    worker = field.worker("--exit-when-empty", quick=False, mongo=link(rate=20 * MBIT).mongo)
    assert worker.wait() == 0, str(worker)
    assert len(field.compare()["t1"]) == 1 and field.ledger()["epoch"] == 1, str(worker)


def test_reply_takes_as_long_as_its_bytes_come(field, link):
    """Here 2 s, and any other request has one."""
    field.fill(1, size=4 * 1000 * 1000)
    worker = field.worker("--exit-when-empty", *SHORT, quick=False, mongo=link(rate=16 * MBIT).mongo)
    assert worker.wait() == 0, str(worker)
    assert len(field.compare()["t1"]) == 1


def test_replies_that_do_not_come_are_asked_for_in_pieces(field, link):
    """Down to what the link lets through; what a lost reply had is not passed over."""
    field.fill(24, size=20000)
    proxy = link(largest=150000)
    worker = field.worker("--batch-messages", 24, "--linger", "0s", *SHORT, quick=False, mongo=proxy.mongo)
    field.wait_empty()
    assert worker.stop()[0] == 0, str(worker)
    messages = field.compare()["t1"]
    assert len(messages) == 24 and field.segments() == ["t1.bin"]


def test_a_single_document_at_last(field, link):
    field.fill(6, size=100000)
    proxy = link(largest=150000)
    worker = field.worker("--batch-messages", 4, *SHORT, quick=False, mongo=proxy.mongo)
    field.wait_empty()
    assert worker.stop()[0] == 0, str(worker)
    assert len(field.compare()["t1"]) == 6


def test_who_cannot_read_lets_another(field, link):
    """Everything passes but the messages themselves."""
    field.fill(3, size=50000)
    worker = field.worker(*SHORT, quick=False, mongo=link(largest=40000).mongo)
    worker.wait_log("pass: five passes in a row read no message")
    worker.wait_log("draining -> releasing: the queue cannot be read")
    field.drain(*CALM)
    assert len(field.compare()["t1"]) == 3
    assert worker.stop()[0] == 0, str(worker)


def test_told_to_stop_in_a_long_reply(field, link):
    """The rest of it is not waited for: at this rate that would be more than a minute."""
    field.fill(1, size=10 * 1000 * 1000)
    proxy = link(rate=MBIT)
    worker = field.worker(*CALM, quick=False, mongo=proxy.mongo)
    wait_until(lambda: proxy.delivered > 150 * 1000, lambda: f"the beginning of a long reply; {worker}")
    assert worker.stop()[0] == 0, str(worker)
    assert field.holder() is None and field.queued() == 1
    field.drain()
    assert len(field.compare()["t1"]) == 1


def test_a_missing_collection_is_no_empty_queue(field):
    """Renamed under a holder, `messages` reads as empty: it is looked for at once, not at the next look at the database after a minute; and
    nothing that comes back is missed."""
    field.fill(10)
    worker = field.worker(*CALM, "--linger", "1h")
    field.wait_empty()
    field.messages.rename("elsewhere")
    wait_until(lambda: "type_1__id_1" in field.db.messages.index_information(), lambda: f"a new collection; {worker}", 25)
    field.acknowledged["late"] = [bson.encode({"_id": bson.ObjectId(), "type": "t1", "n": n}) for n in range(5)]
    field.db.elsewhere.insert_many([bson.decode(raw) for raw in field.acknowledged["late"]])
    field.db.elsewhere.rename("messages", dropTarget=True)
    field.wait_empty()
    assert worker.stop()[0] == 0, str(worker)
    assert len(field.compare()["t1"]) == 15
    assert field.ledger()["epoch"] == 1 and not re.search("cannot be read", worker.log()), str(worker)


def test_told_to_stop_before_the_long_reply(field, link):
    """While the database is looked at, before the pass asks: what is not wanted then is not wanted afterwards either."""
    proxy = link(rate=MBIT)
    worker = field.worker("--linger", "1h", quick=False, mongo=proxy.mongo, env={"PAWL_TEST_PREPARED_MS": "1"})
    field.fill(1)
    field.wait_empty()
    admin = field.server.client.admin

    def looks():
        return [op for op in admin.command("currentOp")["inprog"] if op.get("appName") == field.app_name() and "listCollections" in op.get("command", {})]
    with field.failing(["listCollections"], {"times": 1}, blockConnection=True, blockTimeMS=2000):
        field.fill(1, size=10 * 1000 * 1000)
        wait_until(looks, lambda: f"a look at the database; {worker}")
        assert worker.stop()[0] == 0, str(worker)
    assert field.holder() is None and field.queued() == 1, str(worker)


@pytest.mark.slow
def test_primary_dies_after_a_long_silence(own_server, make_field):
    """
    More than 30 s: by then the driver would look at its server by itself. If that is dead, and a connection to it fails at once, drivers
    before 1.25 wait for themselves for good (CDRIVER-4666): the lock would be renewed, and nothing drained.
    """
    server, types = own_server("--replica-set", "--members", "3").start(), [f"t{i}" for i in range(6)]
    field = make_field(server)
    worker = field.worker("--lease", "3s", "--linger", "10m", "--poll", "40s", types=types, quick=False)
    for name in types:
        field.fill(10, name)
    field.wait_empty(*types)
    time.sleep(35)
    primary = MongoClient(server.client.admin.command("hello")["me"], directConnection=True)
    os.kill(primary.admin.command("serverStatus")["pid"], signal.SIGKILL)
    for name in types:
        field.fill(10, name)
    field.wait_empty(*types, deadline=60)
    assert worker.stop()[0] == 0, str(worker)
    assert {name: len(found) for name, found in field.compare(*types).items()} == dict.fromkeys(types, 20)
