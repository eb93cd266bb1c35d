"""Documents that no worker can take: pawl-setup lists them, sets them aside, and puts them back, each exactly once."""
import re
import signal
import subprocess

import bson
import pytest

from harness import CALM, DEADLINE, RAW, environment, program, run, side_by_side, wait_until
from locking import theirs, waiting_for
from secured import PASSWORDS, documented_roles
from test_ids import ODD, REFUSED, document, element, insert, insert_past_the_checks, nested, text, untaken

KILLED = -signal.SIGKILL
# All that pawl-setup sends once it has found what is to be moved.
SENT = ["insert", "delete", "update", "find", "findAndModify", "commitTransaction", "abortTransaction"]


def setup(field, *arguments, code=0, **more):
    done = field.run("pawl-setup", *arguments, **more)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode in (code if isinstance(code, tuple) else (code,)), f"{done.returncode}: {said}"
    return said


def untyped(n, kind=None, more=b""):
    return document(element(16, b"_id", n.to_bytes(4, "little")), element(16, b"type", b"\5\0\0\0") if kind is None else kind, more)


def waiting(field):
    """The documents of the queue, as bytes, and sorted."""
    return sorted(found.raw for found in field.messages.find())


def aside(field):
    """Those that are set aside, likewise."""
    refused = field.db.get_collection("refused", codec_options=RAW)
    found = []
    for copy in refused.find({"type": {"$exists": True}}):
        if "parts" in copy:
            key = bson.Binary(copy["_id"])
            parts = [refused.find_one({"_id": bson.SON([("of", key), ("part", n)])})["data"] for n in range(copy["parts"])]
            found.append(b"".join(parts))
        else:
            found.append(copy["document"].raw)
    assert refused.count_documents({"type": {"$exists": False}}) == sum(copy["parts"] for copy in refused.find({"parts": {"$exists": True}}))
    return sorted(found)


@pytest.fixture
def refused(any_field):
    """Messages, and among them five of t1 and four without a type that no worker takes: field.raws by type."""
    field = any_field
    assert field.run("pawl-setup").returncode == 0
    field.fill(50)
    typed = [untaken(name) for name in REFUSED]
    insert_past_the_checks(field, *typed)
    kinds = [element(16, b"type", b"\5\0\0\0"), b"", element(4, b"type", document(element(2, b"0", text(b"t1")))), element(2, b"type", text(b"t1\n"))]
    field.raws = {"t1": sorted(typed), "@untyped": sorted(insert(field, [untyped(n, kind) for n, kind in enumerate(kinds)]))}
    field.plain = sorted(field.acknowledged["producer of t1"])
    return field


def test_list(refused):
    field = refused
    said = setup(field, "--list-refused")
    assert len(re.findall("^t1: _id ", said, re.M)) == len(REFUSED) and len(re.findall("^@untyped: _id ", said, re.M)) == 4, said
    for _, shown, why in REFUSED.values():
        assert re.search(rf"^t1: _id .*({shown}).* bytes: its _id .*{why}", said, re.M), (shown, said)
    for why in ("its type is not a string: 5", "it has no type", r'its type is not a string: \[ "t1" \]', r'its type is no valid name: "t1\\n"'):
        assert re.search(rf"^@untyped: .* bytes: {why}$", said, re.M), (why, said)
    assert aside(field) == [] and "refused" not in field.db.list_collection_names()
    setup(field, "--set-aside", "t1", "--yes")
    said = setup(field, "--list-refused")
    assert len(re.findall(r"^t1: .*; set aside at \d{4}-\S+Z by \S+, pid \d+$", said, re.M)) == len(REFUSED), said


def test_the_list_makes_nothing(any_field):
    field = any_field
    setup(field, "--list-refused")
    assert field.db.list_collection_names() == []
    insert(field, [untyped(1)])
    assert "@untyped: _id 1, " in setup(field, "--list-refused")
    assert field.db.list_collection_names() == ["messages"] and list(field.messages.index_information()) == ["_id_"]


def test_there_and_back(refused):
    """Byte for byte. What MongoDB does not insert stays aside."""
    field = refused
    said = setup(field, "--set-aside", "t1,@untyped", "--yes")
    assert "9 documents moved to refused" in said and waiting(field) == field.plain
    assert aside(field) == sorted(field.raws["t1"] + field.raws["@untyped"])
    assert "0 documents moved" in setup(field, "--set-aside", "t1,@untyped", "--yes")
    assert field.locks.count_documents({"slot": {"$gte": 0}}) == 0

    assert "4 documents moved back" in setup(field, "--put-back", "@untyped", "--yes")
    assert waiting(field) == sorted(field.plain + field.raws["@untyped"]) and aside(field) == field.raws["t1"]
    said = setup(field, "--put-back", "t1", "--yes", code=1)
    assert "it stays in refused: " in said and sorted(aside(field) + waiting(field)) == sorted(field.plain + field.raws["@untyped"] + field.raws["t1"])
    field.drain(*CALM)
    assert field.ledger()["seq"] == 50 and waiting(field) == sorted(set(field.raws["@untyped"] + field.raws["t1"]) - set(aside(field)))


def test_asks_first(refused):
    said = setup(refused, "--set-aside", "@untyped", stdin=b"n\n", code=1)
    assert "4 documents will be moved to the collection refused" in said and "nothing was changed" in said and aside(refused) == []
    setup(refused, "--set-aside", "@untyped", stdin=b"y\n")
    assert aside(refused) == refused.raws["@untyped"]
    said = setup(refused, "--put-back", "@untyped", stdin=b"", code=1)
    assert "4 documents will be moved back to the queue" in said and aside(refused) == refused.raws["@untyped"]


@pytest.mark.parametrize("layout", ["clustered", "plain"])
def test_whatever_the_server_takes(any_field, layout):
    """Odd `_id`s, deep and large documents, there and back, byte for byte."""
    field = any_field
    if layout == "plain":
        field.db.create_collection("messages")
    assert field.run("pawl-setup").returncode == 0
    raws = insert(field, [document(element(kind, b"_id", value), element(2, b"n", text(name.encode()))) for name, (kind, value) in ODD.items()])
    raws += insert(field, [document(element(16, b"_id", b"\1\0\0\0"), element(3, b"deep", nested(177))),
                           document(element(16, b"_id", b"\2\0\0\0"), element(17, b"first", bytes(8)), element(3, b"a", nested(1)))[:-1] + b"\0"])
    for n, size in enumerate((15 << 20, (15 << 20) + 1, (16 << 20) - 40)):
        raws += insert(field, [document(element(16, b"_id", (10 + n).to_bytes(4, "little")), element(2, b"large", text(b"x" * (size - 30))))])
    raws = waiting(field)  # the server replaces an empty timestamp, once
    assert f"{len(raws)} documents moved to refused" in setup(field, "--set-aside", "@untyped", "--yes")
    assert waiting(field) == [] and aside(field) == raws
    said = setup(field, "--put-back", "@untyped", "--yes")
    assert f"{len(raws)} documents moved back" in said and aside(field) == [] and waiting(field) == raws, said
    assert field.db.refused.count_documents({}) == 0


@pytest.mark.slow
def test_more_than_one_round(field):
    """At most 64 MiB are in hand; all are moved, and each once, also after one that stays."""
    assert field.run("pawl-setup").returncode == 0
    stays = insert(field, [untyped(0)])
    setup(field, "--set-aside", "@untyped", "--yes")
    field.db.refused.update_one({}, {"$set": {"document.type": 6}})
    insert(field, stays)
    for n in range(1, 6):
        insert(field, [document(element(16, b"_id", n.to_bytes(4, "little")), element(2, b"large", text(b"x" * (15 << 20))))])
    said = setup(field, "--set-aside", "@untyped", "--yes", code=1)
    assert "5 documents moved to refused" in said and said.count("it stays: ") == 1 and waiting(field) == stays and len(aside(field)) == 6, said
    setup(field, "--set-aside", "@untyped", "--yes", code=1)
    field.db.messages.delete_many({})
    field.db.messages.insert_one({"_id": 0, "type": 7})
    said = setup(field, "--put-back", "@untyped", "--yes", code=1)
    assert "5 documents moved back" in said and said.count("it stays in refused: ") == 1, said


# --- when it is not allowed ---


def test_not_before_it_is_settled(field):
    """What is committed and not deleted could be it."""
    field.fill(40)
    insert_past_the_checks(field, untaken("array"))
    field.crash("block-committed:3", "--batch-messages", 10, *CALM)
    field.db.locks.delete_many({})
    before = waiting(field)
    assert field.ledger()["settled"] < field.ledger()["seq"]
    said = setup(field, "--set-aside", "t1,@untyped", "--yes", code=1)  # the exit code is that of the worst
    assert re.search(r"t1 is not settled: seq \d+ to \d+ are in the file", said) and waiting(field) == before and aside(field) == [], said
    field.drain(*CALM)
    setup(field, "--set-aside", "t1", "--yes")
    assert aside(field) == [untaken("array")]
    field.compare()


def test_a_ledger_that_cannot_be_used(field):
    assert field.run("pawl-setup").returncode == 0
    insert_past_the_checks(field, untaken("array"))
    field.db.ledger.insert_one({"_id": "t1", "v": 1, "epoch": "x"})
    assert "cannot be used: epoch is" in setup(field, "--set-aside", "t1", "--yes", code=74) and aside(field) == []


def test_a_paused_type(field):
    """Workers stay away from it, and it stays paused."""
    assert field.run("pawl-setup").returncode == 0
    insert_past_the_checks(field, untaken("array"))
    assert field.run("pawl-status", "--pause", "t1", "--reason", "to look at it").returncode == 0
    setup(field, "--set-aside", "t1", "--yes")
    assert aside(field) == [untaken("array")] and field.ledger()["paused"]["reason"] == "to look at it"


def test_wrong_words(field):
    assert 'got "-x": takes types' in setup(field, "--set-aside=-x", code=2)
    assert 'got "": takes types' in setup(field, "--put-back", "t1,", code=2)
    assert "--set-aside and --put-back: takes one of them" in setup(field, "--set-aside", "t1", "--put-back", "t1", code=2)
    assert "--adopt and --list-refused: takes one of them" in setup(field, "--adopt", "t1", "--list-refused", code=2)


# --- others at work ---


def test_a_worker_at_work(field):
    """It gives the type up for its turn, and goes on afterwards."""
    assert field.run("pawl-setup").returncode == 0
    typed = sorted(untaken(name) for name in REFUSED)
    insert_past_the_checks(field, *typed)
    worker = field.worker("--lease", "3s", "--linger", "1h", "--batch-messages", 50)
    with field.producing(100):
        wait_until(lambda: field.seq() > 300, field.logs)
        setup(field, "--set-aside", "t1", "--yes")
        assert aside(field) == typed
        seq = field.seq()
        wait_until(lambda: field.seq() > seq + 300, field.logs)
    field.wait_empty()
    assert worker.stop()[0] == 0 and not worker.events("fenced"), str(worker)
    field.compare()
    assert field.segments() == ["t1.bin"]


def test_several_at_once(any_field):
    field = any_field
    assert field.run("pawl-setup").returncode == 0
    raws = sorted(insert(field, [untyped(n) for n in range(200)]))
    done = side_by_side(*[lambda: field.run("pawl-setup", "--set-aside", "@untyped", "--yes")] * 3)
    assert waiting(field) == [] and aside(field) == raws, done
    assert [one.returncode for one in done] == [0, 0, 0], done
    done = side_by_side(*[lambda: field.run("pawl-setup", "--put-back", "@untyped", "--yes")] * 3)
    assert waiting(field) == raws and aside(field) == [], done


@pytest.mark.parametrize("kind", [6, bson.Int64(5)], ids=["another value", "the same in more bytes"])
def test_a_document_that_is_replaced_meanwhile(any_field, kind):
    """What its producer has put there stays."""
    field = any_field
    assert field.run("pawl-setup").returncode == 0
    insert(field, [untyped(1)])
    point = "delete" if not field.server.replica_set else "insert"
    with field.failing([point], {"times": 1}, program="pawl-setup", blockConnection=True, blockTimeMS=2000) as met:
        process = start(field, "--set-aside", "@untyped", "--yes")
        met.wait()
        field.db.messages.replace_one({"_id": 1}, {"type": kind})
        process.wait(DEADLINE)
    assert waiting(field) == [bson.encode({"_id": 1, "type": kind})] and aside(field) == [], process.stdout.read()


def test_another_copy_under_the_same_id(any_field):
    """Nothing is deleted whose copy is not there, byte for byte."""
    field = any_field
    assert field.run("pawl-setup").returncode == 0
    raws = insert(field, [untyped(1)])
    setup(field, "--set-aside", "@untyped", "--yes")
    field.db.refused.update_one({}, {"$set": {"document.type": 6}})
    insert(field, raws)
    said = setup(field, "--set-aside", "@untyped", "--yes", code=1)
    assert "it stays: " in said and waiting(field) == raws and len(aside(field)) == 1, said


# --- ends at any moment ---


def start(field, *arguments, stdin=subprocess.DEVNULL):
    return subprocess.Popen([program("pawl-setup"), *field.mongo, *arguments], stdin=stdin, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, env=environment())


def in_one_place(field, raws):
    """Each is in the queue or aside; on a standalone server for a moment in both."""
    both = waiting(field) + aside(field)
    assert set(both) == set(raws) and (len(both) == len(raws) or not field.server.replica_set), both


def forget(field):
    """What a run that is cut off leaves for a minute: its transaction, and its lock."""
    field.server.client.admin.command("killAllSessions", [])
    field.db.locks.delete_many({})


def cut_off(field, raws, *arguments):
    """From the first, the second, … command on the server hangs up, until one run meets no more."""
    for skip in range(100):
        with field.failing(SENT, {"skip": skip}, program="pawl-setup", closeConnection=True) as met:
            done = field.run("pawl-setup", *arguments, "--timeout", "0s")
        forget(field)
        in_one_place(field, raws)
        if done.returncode == 0 and met.count <= skip:
            return skip
        assert done.returncode in (0, 1, 69), done  # by which command met the end: none, one in the middle, the first
    raise AssertionError("there is no end")


@pytest.mark.parametrize("kind", ["t1", "@untyped"])
def test_cut_off_at_each_command(refused, kind):
    field = refused
    raws = sorted(field.plain + field.raws["t1"] + field.raws["@untyped"])
    assert cut_off(field, raws, "--set-aside", kind, "--yes") > 5
    assert aside(field) == field.raws[kind] and len(waiting(field)) == len(raws) - len(field.raws[kind])
    if kind == "@untyped":
        assert cut_off(field, raws, "--put-back", kind, "--yes") > 5
        assert aside(field) == [] and waiting(field) == raws


@pytest.mark.parametrize(
    ("kind", "command"),
    [(kind, command) for kind in ("standalone", "replica-set") for command in ("insert", "delete", "find")] + [("replica-set", "commitTransaction")],
)
@pytest.mark.parametrize("what", ["--set-aside", "--put-back"])
def test_killed_with_a_command_under_way(servers, make_field, kind, what, command):
    """The command is still done when its sender is dead. A run meanwhile and a run afterwards finish it."""
    field = make_field(servers(kind))
    assert field.run("pawl-setup").returncode == 0
    raws = sorted(insert(field, [untyped(n) for n in range(3)]))
    if what == "--put-back":
        setup(field, "--set-aside", "@untyped", "--yes")
    collection = {("--set-aside", "delete"): "messages", ("--put-back", "insert"): "messages", (what, "commitTransaction"): None}.get((what, command), "refused")
    with field.failing([command], {"times": 1}, program="pawl-setup", collection=collection, blockConnection=True, blockTimeMS=1500) as met:
        process = start(field, what, "@untyped", "--yes")
        met.wait()
        process.kill()
        assert process.wait(DEADLINE) == KILLED
        in_one_place(field, raws)
    field.db.locks.delete_many({})  # of the dead one: a minute
    setup(field, what, "@untyped", "--yes")
    there, gone = (aside, waiting) if what == "--set-aside" else (waiting, aside)
    assert there(field) == raws and gone(field) == []
    if kind == "replica-set":
        field.server.client.admin.command("killAllSessions", [])  # a transaction that the dead one has left would keep the collections for a minute


def test_back_after_another_run(servers, make_field):
    """It waited for the lock while another one put the document back, and its consumer took it: it does not come a second time."""
    field = make_field(servers("standalone"))
    assert field.run("pawl-setup").returncode == 0
    insert(field, [untyped(1)])
    setup(field, "--set-aside", "@untyped", "--yes")
    field.locks.insert_one(theirs("@untyped"))
    process = start(field, "--put-back", "@untyped", "--yes")
    wait_until(lambda: waiting_for(field, "@untyped"), "a process that waits")
    field.db.refused.delete_many({})
    field.locks.delete_one({"type": "@untyped", "slot": 0})
    said = process.communicate(timeout=DEADLINE)[0]
    assert process.returncode == 0 and waiting(field) == [] and aside(field) == [], said


# --- what was set aside, and then mended ---


def mended(field):
    """One is set aside, and somebody gives it a type there."""
    assert field.run("pawl-setup").returncode == 0
    insert(field, [untyped(1)])
    setup(field, "--set-aside", "@untyped", "--yes")
    field.db.refused.update_one({}, {"$set": {"document.type": "t1"}})


def test_back_into_the_queue_of_a_type_once(field):
    """A run that is cut off has put nothing back, for a worker would have taken it before the next run."""
    mended(field)
    for command in ("delete", "insert", "commitTransaction"):
        with field.failing([command], program="pawl-setup", closeConnection=True):
            setup(field, "--put-back", "@untyped", "--yes", "--timeout", "0s", code=(1, 69))
        field.drain(*CALM)
        assert field.queued() == 0
    setup(field, "--put-back", "@untyped", "--yes")
    field.drain(*CALM)
    assert field.ledger()["seq"] == 1 and waiting(field) == aside(field) == []


def test_back_without_transactions(servers, make_field):
    field = make_field(servers("standalone"))
    mended(field)
    said = setup(field, "--put-back", "@untyped", "--yes", code=1)
    assert "this server has no transactions, and t1 is not paused" in said and waiting(field) == [] and len(aside(field)) == 1
    assert field.run("pawl-status", "--pause", "t1", "--reason", "a document comes back").returncode == 0
    raws = aside(field)
    assert cut_off(field, raws, "--put-back", "@untyped", "--yes") > 3
    assert waiting(field) == raws and aside(field) == []
    assert field.run("pawl-status", "--resume", "t1").returncode == 0
    field.drain(*CALM)
    assert field.ledger()["seq"] == 1 and waiting(field) == aside(field) == []


@pytest.mark.parametrize("command, collection", [("insert", "messages"), ("delete", "refused")])
def test_back_with_an_answer_that_may_be_undone(servers, make_field, command, collection):
    """Written, and whether it lasts is not known, as by a server that is being shut down: that is no refusal, and ends the run."""
    field = make_field(servers("standalone"))
    mended(field)
    raws = aside(field)
    assert field.run("pawl-status", "--pause", "t1", "--reason", "a document comes back").returncode == 0
    with field.failing([command], {"times": 1}, collection=collection, program="pawl-setup", writeConcernError={"code": 91, "errmsg": "shutting down"}):
        said = setup(field, "--put-back", "@untyped", "--yes", code=69)
    assert "it stays" not in said, said
    setup(field, "--put-back", "@untyped", "--yes")
    assert waiting(field) == raws and aside(field) == []


def test_back_and_taken_at_once(servers, make_field):
    """Somebody resumes the type too early: what a worker has taken does not come back a second time."""
    field = make_field(servers("standalone"))
    mended(field)
    assert field.run("pawl-status", "--pause", "t1", "--reason", "a document comes back").returncode == 0
    with field.failing(["find"], {"times": 1}, program="pawl-setup", collection="messages", blockConnection=True, blockTimeMS=1500) as met:
        process = start(field, "--put-back", "@untyped", "--yes")
        met.wait()
        assert field.messages.delete_many({}).deleted_count == 1  # as a worker does
        said = process.communicate(timeout=DEADLINE)[0]
    assert process.returncode == 0 and waiting(field) == aside(field) == [], said


# --- rights ---


def test_rights(prepared, users):
    """Those of the operator's role, and the ones that docs/security.md names beside it."""
    field = prepared
    field.db.messages.insert_many([{"_id": 1, "type": 5}, {"_id": {"a": 1}, "type": "t1"}])
    insert_past_the_checks(field, untaken("array"))
    denied = run("pawl-setup", *field.as_user("operator"), "--list-refused")
    assert denied.returncode == 2 and b"MongoDB does not permit it" in denied.stderr, denied
    more = {"privileges": [{"resource": {"db": field.name, "collection": name}, "actions": ["find", "insert", "remove"]} for name in ("messages", "refused")]}
    users.add("mover", documented_roles(field.name)["operator"], more, pwd=PASSWORDS["worker"])
    both = [{"resource": {"db": field.name, "collection": name}, "actions": ["find"]} for name in ("messages", "refused")]
    users.add("lister", {"privileges": both}, pwd=PASSWORDS["worker"])
    done = run("pawl-setup", "--uri", users.uri("lister"), "--db", field.name, "--list-refused")
    assert done.returncode == 0 and b"@untyped: _id 1" in done.stdout, done
    assert b"own collections are left out: MongoDB does not permit it: listing the ledgers: " in done.stderr, done
    mover = ["--uri", users.uri("mover"), "--db", field.name, "--yes"]
    for arguments, said in ((["--list-refused"], b"@untyped: _id 1"), (["--set-aside", "t1,@untyped"], b"2 documents moved to refused"),
                            (["--put-back", "@untyped"], b"1 document moved back")):
        done = run("pawl-setup", *mover, *arguments)
        assert done.returncode == 0 and said in done.stdout, done
