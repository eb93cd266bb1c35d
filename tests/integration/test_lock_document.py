"""pawl-lock --document: a document of a collection of the user's own is locked in place."""
import json

import bson
import bson.json_util
import pytest
from bson.raw_bson import RawBSONDocument

from locking import Holder, sh, until


@pytest.fixture
def events(field):
    return field.db.events


def on(*options):
    return ["--lease", "30s", *options]


@pytest.mark.parametrize("key, text", [
    (7, "events/7"), ("seven", "events/seven"), ("a/b", "events/a/b"), (bson.ObjectId("65f000000000000000000001"), "events/65f000000000000000000001"),
    ("7", 'events/{"_id": "7"}'), (-3, "events/-3"), ("12-5", "events/12-5"),
])
def test_which_document(field, events, key, text):
    events.insert_many([{"_id": key, "n": 1}, {"_id": "other"}])
    done = field.run("pawl-lock", "--document", text, "--", *sh('echo "$PAWL_LOCK_DOCUMENT"; echo "$PAWL_LOCK_NAME $PAWL_LOCK_EPOCH"'))
    assert done.returncode == 0, done
    document, names = done.stdout.decode().splitlines()
    after = events.find_one({"_id": key})
    assert bson.json_util.loads(document)["n"] == 1 and names == f"events {after['pawl']['token']}", done
    assert set(after["pawl"]) == {"token"} and events.find_one({"_id": "other"}) == {"_id": "other"}


def test_a_document_that_is_too_large_for_the_environment(field, events):
    """The command is run without it."""
    events.insert_one({"_id": 1, "text": "x" * 200_000})
    done = field.run("pawl-lock", "--document", "events/1", "--", *sh('echo "${PAWL_LOCK_DOCUMENT-none} $PAWL_LOCK_NAME"'))
    assert (done.returncode, done.stdout) == (0, b"none events\n"), done


def test_the_first_that_nobody_has(field, events, locked, tmp_path):
    """Each of several gets another one, by the order that it asks for; the fourth waits, and is told so once."""
    events.insert_many([{"_id": i, "state": "new", "at": -i} for i in range(3)] + [{"_id": 9, "state": "done", "at": -9}])
    options = on("--document", 'events/{"state": "new"}', "--sort", '{"at": 1}', "--field", "lease")
    workers = []
    for i in range(3):
        workers.append(locked(None, *until(tmp_path / str(i), 'echo "$PAWL_LOCK_DOCUMENT" >&2;'), options=options))
        workers[-1].command()
    assert [json.loads(worker.errors())["_id"] for worker in workers] == [{"$numberInt": str(i)} for i in (2, 1, 0)]
    assert events.count_documents({"lease.owner": {"$exists": True}}) == 3 and field.locks.count_documents({}) == 0
    busy = field.run("pawl-lock", *options, "--nonblock", "--conflict-exit", "9", "--", "echo", "no")
    assert (busy.returncode, busy.stdout) == (9, b"") and b"events: the time is over, and no document matches that is not locked" in busy.stderr
    fourth = locked(None, *sh("echo mine"), options=options)
    fourth.wait_errors("waits for events, no document matches that is not locked")
    (tmp_path / "1").touch()
    assert fourth.wait() == 0 and fourth.output() == "mine\n" and fourth.errors().count("waits for") == 1, fourth
    for i in range(3):
        (tmp_path / str(i)).touch()
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    assert events.count_documents({"lease.owner": {"$exists": True}}) == 0 and events.count_documents({"lease.token": {"$gt": 0}}) == 3


def test_document_is_lost(field, events, locked):
    events.insert_one({"_id": 1})
    lock = locked(None, *sh("echo $$; sleep 600"), options=["--lease", "3s", "--document", "events/1"])
    lock.command()
    events.delete_one({"_id": 1})
    assert lock.wait() == 1 and "events: the lock is lost: its document is gone; ending the command" in lock.errors(), lock


def test_held_document_that_json_cannot_show(field, events):
    """Whoever reads the lines is told all the same."""
    events.insert_one(RawBSONDocument(bson.encode({"_id": 1, "text": "ZZ"}).replace(b"ZZ", b"\xff\xfe")))
    held = Holder(field, "--document", "events/1")
    line = held.line()
    assert (line["event"], line["name"]) == ("held", "events") and "document" not in line, line
    assert held.end()[1] == 0


def test_document_is_held_for_another_program(field, events):
    events.insert_one({"_id": 1, "text": "x"})
    held = Holder(field, "--document", "events/1")
    line = held.line()
    assert line["document"].pop("pawl")["token"] == line["epoch"] == events.find_one()["pawl"]["token"], line
    assert (line["event"], line["name"], line["document"]) == ("held", "events", {"_id": 1, "text": "x"}), line
    second = Holder(field, "--document", "events/1")
    waiting = second.line()
    assert waiting == {"v": 1, "event": "waiting", "name": "events", "text": "no document matches that is not locked"}, waiting
    assert held.end() == ([{"v": 1, "event": "released", "name": "events", "sure": True}], 0)
    assert second.line()["epoch"] > line["epoch"] and second.end()[1] == 0


@pytest.mark.parametrize("words, says", [
    (["--document", "events"], "takes COLLECTION/ID"), (["--document", "/1"], "takes COLLECTION/ID"), (["--document", "events/"], "takes COLLECTION/ID"),
    (["--document", "events/{x"], "--document: {x is not Extended JSON"), (["--document", "events/1", "--sort", "["], "--sort: [ is not Extended JSON"),
    (["--document", "events/1", "n"], "--document: takes no NAME"), (["--document", "events/1", "--slots", "2"], "--document: takes no --slots"),
    (["--sort", "{}", "n"], "--sort: takes --document, too"), (["--field", "x", "n"], "--field: takes --document, too"),
    (["--document", "events/1", "--list"], "--list: takes no"), (["--hold", "--break", "n", "--reason", "x"], "--break: takes no"),
    (["--document", 'events/{"_id": 18446744073709551617}'], "an integer of 64 bits cannot hold"),
    (["--document", 'events/{"at": {"$date": "2024-02-30T00:00:00Z"}}'], "a time that exists"),
    (["--document", 'events/{"$nonsense": 1}'], "$nonsense"), (["--document", "events/1", "--field", "$x"], 'field "$x"'),
])
def test_wrong_documents(field, words, says):
    done = field.run("pawl-lock", *words, *([] if {"--list", "--break"} & set(words) else ["--", "echo", "no"]))
    assert (done.returncode, done.stdout) == (2, b"") and says in done.stderr.decode(), done


def test_a_take_without_an_answer_is_found_again(field):
    """It was done: the repetition finds the document locked by itself, long before that lease ends."""
    field.db.events.insert_one({"_id": 1})
    with field.failing(["findAndModify"], {"times": 1}, collection="events", program="pawl-lock", writeConcernError={"code": 64, "errmsg": "slow"}):
        done = field.run("pawl-lock", "--lease", "60s", "--timeout", "10s", "--document", "events/1", "--", "echo", "mine")
    assert (done.returncode, done.stdout) == (0, b"mine\n"), done
