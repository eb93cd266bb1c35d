"""Own collections: what no worker takes there is set aside and put back; adopting keeps them; and the rights per type of the page."""
import json
import re

import pytest

from harness import CALM, RAW, ROOT, run, wait_until
from secured import PASSWORDS
from test_aside import aside
from test_own_setup import enqueue, own, places, row, setup, shared


WRONG = [{"type": "t2", "n": 0}, {"type": ["t1"], "n": 1}, {"type": None, "n": 2}]


@pytest.fixture
def wrong(any_field):
    """Four documents of messages.t1 that no worker takes, one that a worker takes, and one of messages that none takes."""
    field = any_field
    setup(field)
    own(field)
    own(field, "t2")
    field.db["messages.t1"].insert_many([{"_id": n, **one} for n, one in enumerate(WRONG)])
    field.db["messages.t1"].insert_one({"_id": {"x": 1}, "n": 3})
    field.db["messages.t1"].insert_one({"n": 9})
    field.db.messages.insert_one({"type": "t1", "_id": {"y": 1}})
    return field


def raw(field, name="messages.t1"):
    return sorted(found.raw for found in field.db.get_collection(name, codec_options=RAW).find())


def test_listed(wrong):
    said = setup(wrong, "--list-refused")
    assert len(re.findall("^t1: _id .*its type is not that of the collection", said, re.M)) == 3, said
    assert len(re.findall("^t1: _id ", said, re.M)) >= 3 and "t2: " not in said, said


def test_listed_beside_a_ledger_that_cannot_be_used(wrong):
    """Then its own collection is not known; the others are listed."""
    wrong.db.ledger.update_one({"_id": "t2"}, {"$set": {"seq": "many"}})
    said = setup(wrong, "--list-refused", code=74)
    assert "the ledger of \"t2\" cannot be used" in said and "seq" in said and len(re.findall("^t1: _id ", said, re.M)) >= 3, said


def test_there_and_back(wrong):
    field = wrong
    before, before_shared = raw(field), raw(field, "messages")
    expected = len(re.findall("^t1: _id ", setup(field, "--list-refused"), re.M))
    assert f"{expected} documents moved to refused" in setup(field, "--set-aside", "t1", "--yes")
    left = raw(field)
    assert len(before) + len(before_shared) - expected == len(left) + len(raw(field, "messages")) and len(aside(field)) == expected
    assert {copy["from"] for copy in field.db.refused.find()} <= {"messages", "messages.t1"}
    assert row(field)["own"]["refused"] == 0
    said = setup(field, "--list-refused")
    assert "set aside at" in said
    if not field.server.replica_set:
        assert field.run("pawl-status", "--pause", "t1", "--reason", "putting back").returncode == 0
    setup(field, "--put-back", "t1", "--yes")
    assert raw(field) == before and raw(field, "messages") == before_shared and aside(field) == []


def test_not_back_into_a_collection_that_is_closed(field):
    setup(field)
    own(field)
    field.db["messages.t1"].insert_one({"_id": 1, "type": "t2"})
    setup(field, "--set-aside", "t1", "--yes")
    shared(field)
    assert "it is from messages.t1, and t1 has no own collection any more" in setup(field, "--put-back", "t1", "--yes", code=1)
    assert len(aside(field)) == 1
    own(field)
    setup(field, "--put-back", "t1", "--yes")
    assert raw(field) and aside(field) == []


def test_copies_of_elsewhere_are_not_put_back(field):
    """Whoever may write to `refused` names no collection that pawl then writes to."""
    setup(field)
    own(field)
    field.db["messages.t1"].insert_one({"_id": 1, "type": "t2"})
    setup(field, "--set-aside", "t1", "--yes")
    field.db.refused.update_many({}, {"$set": {"from": "ledger"}})
    assert "0 documents moved back" in setup(field, "--put-back", "t1", "--yes")
    assert field.db.ledger.count_documents({"_id": 1}) == 0


def test_adopt_keeps_it(field):
    setup(field)
    field.fill(10)
    field.drain(*CALM)
    own(field)
    field.adopt()
    ledger = field.ledger()
    assert ledger["needs"] == ["own"] and ledger["v"] == 2 and ledger["from"] == "both", ledger
    assert "has its own collection messages.t1 already" in own(field)


# ---- rights ----

@pytest.fixture
def typed(prepared, users, secured):
    """The roles of the page, as documented, for t1."""
    field = prepared
    text = (ROOT / "docs/own-collections.md").read_text()
    [producer] = [json.loads(found.replace('"DB"', f'"{field.name}"')) for found in re.findall(r"```json\n(.*?)```", text, re.S)]
    users.add("p1", producer, pwd=PASSWORDS["producer"])
    field.producer = ["--uri", secured.uri_of("p1", password=PASSWORDS["producer"]), "--db", field.name]
    rows = dict(re.findall(r"^\| `pawl-(\w+)` \| (.*?) \|$", text, re.M))
    for user, rights in rows.items():
        [role] = [role for _, name, role in users.names if name == user]
        secured.client.admin.command("grantPrivilegesToRole", role, privileges=[
            {"resource": {"db": field.name, "collection": "messages.t1"}, "actions": re.findall(r"`(\w+)`", rights)}])
    return field


def test_each_needs_no_more(typed):
    field = typed
    field.mongo = field.as_user("operator")
    own(field)
    assert "enqueued 2 messages" in enqueue(field, b"one\ntwo\n", mongo=field.producer)
    assert places(field) == (0, 2)
    done = run("pawl-enqueue", *field.producer, "--type", "t2", stdin=b"one\n")
    assert done.returncode == 2 and b"not authorized" in done.stderr, done
    field.mongo = field.as_user("viewer")
    assert row(field)["queued"] == 2
    field.drain(mongo=field.as_user("worker"))
    assert places(field) == (0, 0)
    field.mongo = field.as_user("operator")
    shared(field)
    done = run("pawl-enqueue", *field.producer, "--type", "t1", stdin=b"one\n")
    assert done.returncode == 2, done


@pytest.mark.parametrize("options", [["--type", "a*,z*"], ["--type", "*", "--except", "m1"]], ids=" ".join)
def test_patterns_need_rights_on_what_they_find_alone(prepared, options):
    """m1 has a collection that this worker may not read, and lies between the types that it serves."""
    field = prepared
    field.mongo = field.as_user("root")
    own(field, "m1")
    field.fill(10, "a1")
    field.fill(10, "z1")
    done = run("pawl-worker", *field.as_user("worker"), "--dir", field.dir, *options, "--exit-when-empty", *CALM, timeout=60)
    assert done.returncode == 0, done
    field.compare("a1", "z1")


def test_patterns_find_the_others_where_a_right_lacks(prepared):
    """On the collection of one type that it serves: that one is named, and the rest is found."""
    field = prepared
    field.mongo = field.as_user("root")
    own(field, "m1")
    own(field, "n1")
    field.fill(10, "a1")
    worker = field.worker(*CALM, types=["*"], mongo=field.as_user("worker"))
    worker.wait_log(r"own-collection: a type is not found by its own collection: messages\.[mn]1: ")
    wait_until(lambda: field.seq("a1") == 10, field.logs)
    field.fill(10, "z1")
    wait_until(lambda: field.seq("z1") == 10, field.logs)
    assert worker.stop()[0] == 0 and worker.log().count("a type is not found by its own collection") == 1, str(worker)


def test_a_producer_without_the_ledger_stays(prepared):
    field = prepared
    field.mongo = field.as_user("root")
    own(field)
    said = enqueue(field, b"one\n", mongo=field.as_user("producer"))
    assert said.count("may not read the ledgers") == 1 and "enqueued 1 message" in said, said
    assert places(field) == (1, 0)
