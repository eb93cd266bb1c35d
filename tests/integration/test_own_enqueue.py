"""pawl-enqueue and the own collection of a type: it goes where the ledger says, and follows a switch."""
import subprocess

from harness import environment, program, wait_until
from test_own_setup import CLOSING, enqueue, own, places, setup


def test_enqueue_keeps_the_document(field):
    own(field)
    enqueue(field, b'{"type": "t1", "n": 1}\n{"n": 2}\n', "--from", "ndjson", "--type", "t1")
    enqueue(field, b"one\ntwo\n", "--type", "t1", "--bundle", "10")
    found = list(field.db["messages.t1"].find())
    assert [one.get("n") for one in found] == [1, 2, None] and {one["type"] for one in found} == {"t1"}
    assert [one["payload"] for one in found[2]["batch"]] == ["one", "two"]


def test_enqueue_several_types(field):
    """Some are own, some are not, side by side; each is where its workers look."""
    own(field)
    own(field, "t2")
    lines = b"".join(b'{"type": "t%d", "n": %d}\n' % (n // 3 % 3 + 1, n) for n in range(100))
    assert "enqueued 100 messages" in enqueue(field, lines, "--from", "ndjson")
    for at, (collection, name) in enumerate([("messages.t1", "t1"), ("messages.t2", "t2"), ("messages", "t3")]):
        assert [(one["type"], one["n"]) for one in field.db[collection].find()] == [(name, n) for n in range(100) if n // 3 % 3 == at]


def test_enqueue_switches_in_a_long_run(field):
    setup(field)
    process = subprocess.Popen([program("pawl-enqueue"), *field.mongo, "--type", "t1"], stdin=subprocess.PIPE, env=environment())
    count = 0

    def more(done):
        nonlocal count
        process.stdin.write(b"%d\n" % count)
        process.stdin.flush()
        count += 1
        wait_until(lambda: sum(places(field)) == count, "the message")
        return done()
    more(lambda: True)
    own(field)
    wait_until(lambda: more(lambda: places(field)[1] > 0), "the switch", 60)
    process.stdin.close()
    assert process.wait(30) == 0
    first = [int(one["payload"]) for one in field.db.messages.find()]
    then = [int(one["payload"]) for one in field.db["messages.t1"].find()]
    assert first + then == list(range(count)) and first and then


def test_enqueue_switches_at_once_where_a_validator_refuses(field):
    """The operator closes `messages` for the type when it has its own."""
    setup(field)
    process = subprocess.Popen([program("pawl-enqueue"), *field.mongo, "--type", "t1"], stdin=subprocess.PIPE, env=environment())
    process.stdin.write(b"0\n")
    process.stdin.flush()
    wait_until(lambda: places(field) == (1, 0), "the first message")
    own(field)
    field.db.command("collMod", "messages", validator={"type": {"$ne": "t1"}})
    process.communicate(b"1\n2\n", timeout=60)
    assert process.returncode == 0 and places(field) == (1, 2)


def test_enqueue_waits_while_it_is_closed(field):
    """While pawl-setup looks whether it is empty, or after one that died there: the lines are good."""
    own(field)
    field.db.command("collMod", "messages.t1", validator=CLOSING)
    process = subprocess.Popen([program("pawl-enqueue"), *field.mongo, "--type", "t1"], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=environment())
    process.stdin.write(b"one\ntwo\n")
    process.stdin.flush()
    assert b"MongoDB cannot take it at the moment" in process.stderr.readline()
    own(field)
    said = process.communicate(b"three\n", timeout=60)[1].decode()
    assert process.returncode == 0 and "enqueued 3 messages" in said, said
    assert places(field) == (0, 3)


def test_validator_text(field):
    setup(field)
    field.db.command("collMod", "messages", validator={"type": {"$ne": "t1"}})
    said = enqueue(field, b"0\n", code=1)
    assert "standard input:1: MongoDB says: Document failed validation (a validator of messages refuses it)" in said, said


def test_enqueue_asks_until_it_knows(field):
    """Without an answer of the ledger nothing is inserted: not into `messages`, either."""
    own(field)
    with field.failing(["find"], {"times": 2}, collection="ledger", program="pawl-enqueue", errorCode=50):
        enqueue(field, b"one\n")
    assert places(field) == (0, 1)
