"""An `_id` is bytes: whatever MongoDB takes for one is stored, deleted and settled. What no delete can name is told, and stays."""
import re
import struct

import bson
import pytest
from bson.raw_bson import RawBSONDocument

import reader
from harness import CALM, run, wait_until

SMALL = ["--batch-messages", 5, *CALM]
LARGE = ["--batch-messages", 100, *CALM]  # deleted by their range, where there are transactions


def text(value):
    return struct.pack("<i", len(value) + 1) + value + b"\0"


def element(kind, name, value):
    return bytes([kind]) + name + b"\0" + value


def document(*elements):
    body = b"".join(elements)
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def scoped(code, scope):
    return struct.pack("<i", 4 + len(text(code)) + len(scope)) + text(code) + scope


def binary(subtype, value):
    return struct.pack("<i", len(value)) + bytes([subtype]) + value


def nested(levels):
    inner = document()
    for _ in range(levels):
        inner = document(element(3, b"d", inner))
    return inner


CUT = text(b"a\0b")  # a library that takes it for a C string sees "a"
ODD = {
    "code": (13, CUT), "code cut": (13, text(b"a")), "code not UTF-8": (13, text(b"\xff\xfe")),
    "scoped code": (15, scoped(b"x\0y", document(element(2, b"s", CUT)))), "scoped code empty": (15, scoped(b"", document())),
    "symbol": (14, text(b"s\0y")), "symbol not UTF-8": (14, text(b"\xff\xfc")), "string": (2, CUT), "string not UTF-8": (2, text(b"\xff\xfe")),
    "pointer": (12, text(b"a.b") + bytes(12)),
    "old binary": (5, binary(2, struct.pack("<i", 3) + b"abc")), "old binary, wrong length inside": (5, binary(2, struct.pack("<i", 99) + b"abc")),
    "old binary, negative length inside": (5, binary(2, struct.pack("<i", -1) + b"abc")), "old binary, too short": (5, binary(2, b"ab")),
    "old binary, empty": (5, binary(2, b"")), "binary": (5, binary(0, b"\0")), "user's binary": (5, binary(0x80, b"")),
    "document": (3, document(element(13, b"c", CUT), element(2, b"s", CUT), element(6, b"u", b""), element(11, b"r", b"a\0\0"))),
    "document, old binary": (3, document(element(5, b"b", binary(2, struct.pack("<i", 99) + b"abc")))),
    "document, names twice": (3, document(element(10, b"a", b""), element(10, b"a", b""))),
    "document, reference": (3, document(element(2, b"$ref", text(b"x")), element(10, b"$id", b""))), "deep document": (3, nested(177)),
    "-0.0": (1, struct.pack("<d", -0.0)), "NaN": (1, struct.pack("<Q", 0x7ff8000000000001)), "2.5": (1, struct.pack("<d", 2.5)),
    "decimal": (19, bson.Decimal128("1.50").bid), "decimal zeros": (19, bson.Decimal128("1E+6").bid), "infinite": (19, bson.Decimal128("-Infinity").bid),
    "null": (10, b""), "least": (255, b""), "most": (127, b""), "date": (9, struct.pack("<q", -2**63)), "time": (17, struct.pack("<Q", 2**64 - 1)),
    "large": (2, text(b"x" * (2 << 20))), "larger": (2, text(b"y" * (5 << 20)))}


def message(name, more=b""):
    kind, value = ODD[name]
    return document(element(kind, b"_id", value), element(2, b"type", text(b"t1")), more or element(2, b"name", text(name.encode())))


def insert(field, raws):
    """As they are: pymongo looks into what it inserts."""
    done = field.db.command({"insert": "messages", "documents": [RawBSONDocument(raw) for raw in raws], "ordered": False})
    assert not done.get("writeErrors"), done
    return raws


def insert_past_the_checks(field, *raws):
    """What an insert refuses, and old servers and other ways in do not."""
    for raw in raws:
        field.server.client.admin.command({"applyOps": [{"op": "i", "ns": f"{field.name}.messages", "o": RawBSONDocument(raw)}]})


def assert_stored(field, raws):
    """All of these, each once, byte for byte, and nothing is left of them in the queue. JSON cannot show each of them."""
    messages, ledger = reader.read_type(field.dir, "t1", field.ledger()), field.ledger()
    assert sorted(found.raw for found in messages) == sorted(raws)
    assert field.queued() == 0 and ledger["settled"] == ledger["seq"] == len(raws), ledger
    dump = run("pawl-dump", "--dir", field.dir, "--type", "t1", "--format", "bson", *field.mongo)
    assert dump.stdout == b"".join(found.raw for found in messages), dump.stderr
    verify = run("pawl-dump", "--dir", field.dir, "--type", "t1", "--verify", *field.mongo)
    assert verify.returncode == 0, verify


@pytest.fixture(params=["clustered", "plain"])
def layout(any_field, request):
    if request.param == "plain":
        any_field.db.create_collection("messages")
    assert any_field.run("pawl-setup").returncode == 0
    return any_field


@pytest.mark.parametrize("options", [SMALL, LARGE], ids=["small", "large"])
def test_whatever_the_server_takes(layout, options):
    field = layout
    field.fill(100)
    raws = insert(field, [message(name) for name in ODD])
    field.drain(*options)
    assert_stored(field, raws + field.acknowledged["producer of t1"])


def test_settled_by_the_next_holder(field):
    raws = insert(field, [message(name) for name in ODD])
    for _ in range(2):
        field.crash("block-committed:3", *SMALL)
        field.db.locks.delete_many({})
    assert field.ledger()["settled"] < field.ledger()["seq"]
    field.drain(*SMALL)
    assert_stored(field, raws)


def test_bundles(field):
    batch = element(4, b"batch", document(*[element(3, str(n).encode(), bson.encode({"n": n})) for n in range(3)]))
    raws = insert(field, [message(name, batch) for name in ODD])
    field.drain(*SMALL)
    assert_stored(field, raws)
    assert field.ledger()["items"] == 3 * len(ODD)


# --- what cannot be taken ---

REFUSED = {
    "regular expression": ((11, b"a\0i\0"), r"/a/|\$regularExpression.*\"a\"", "a regular expression"),
    "array": ((4, document(element(10, b"0", b""))), r"\[ null \]", "an array"),
    "pointer": ((12, text(b"a\0.b") + bytes(12)), "", "DBPointer with a NUL"),
    "operator": ((3, document(element(16, b"$gt", struct.pack("<i", 1)))), r"\"\$gt\" : 1", "an operator"),
    "deep": ((3, nested(190)), "BSON type 3, 1525 bytes", "more than 180 levels"),
}


def untaken(name):
    (kind, value), _, _ = REFUSED[name]
    return document(element(kind, b"_id", value), element(2, b"type", text(b"t1")))


def test_what_cannot_be_taken_is_named_and_keeps_nothing_back(field):
    """A worker drains what is around it, goes idle, and does not come back to it again and again."""
    assert field.run("pawl-setup").returncode == 0
    raws = {name: untaken(name) for name in REFUSED}
    insert_past_the_checks(field, *raws.values())
    field.insert("strings", [{"_id": key, "type": "t1"} for key in ("a", "A", "b")])  # that the expression matches
    field.fill(150)
    worker = field.worker(*LARGE)
    for _, shown, why in REFUSED.values():
        worker.wait_log(rf"warn +t1 .*document: .*_id.*({shown}).*{why}")
    field.fill(150)
    field.insert("objects", [{"_id": {"a": n}, "type": "t1"} for n in range(20)])
    left = [RawBSONDocument(raw) for raw in raws.values()]

    def drained():
        return field.queued() == len(raws) and field.holder() is None and (field.ledger() or {}).get("clean")
    wait_until(drained, lambda: f"a release: {field.ledger()} {worker}")
    epoch = field.ledger()["epoch"]
    assert sorted(found.raw for found in field.messages.find()) == sorted(found.raw for found in left)
    assert len(re.findall(" document: ", worker.log())) == len(raws), str(worker)
    assert worker.stop()[0] == 0
    second = field.drain(*LARGE)  # does not wait for them
    assert len(re.findall(" document: ", second.log())) >= 1, str(second)
    assert field.ledger()["epoch"] == epoch, str(second)
    assert len(reader.read_type(field.dir, "t1", field.ledger())) == 323


def expressions(field, count):
    for start in range(0, count, 500):
        documents = [{"_id": bson.Regex(f"^{n:05}$"), "type": "t1"} for n in range(start, min(start + 500, count))]
        field.server.client.admin.command({"applyOps": [{"op": "i", "ns": f"{field.name}.messages", "o": document} for document in documents]})


@pytest.mark.parametrize("count", [150, 2500])
def test_a_message_between_many_that_cannot_be_taken(any_field, count):
    """Neither the first nor the last of them says that it is there. It is taken, and the worker ends although they stay."""
    field = any_field
    assert field.run("pawl-setup").returncode == 0
    expressions(field, count)
    insert_past_the_checks(field, untaken("operator"), untaken("array"), untaken("pointer"))  # the last one by any look
    raws = insert(field, [document(element(12, b"_id", text(b"") + bytes(12)), element(2, b"type", text(b"t1")))])
    field.insert("others", [{"_id": n, "type": kind} for n, kind in enumerate(["t0", "t1.", "t10", "t2"])])
    worker = field.drain(*CALM)
    assert field.ledger() is not None, str(worker)
    assert [found.raw for found in reader.read_type(field.dir, "t1", field.ledger())] == raws, str(worker)
    assert field.messages.count_documents({}) == count + 3 + 4, str(worker)
    named = worker.events("document")
    assert len(named) == 64 and ["no more such documents will be named" in line for line in named] == [False] * 63 + [True], str(worker)


def test_a_document_is_named_again_when_its_text_was_lost(field):
    """The first look finds it, the second one has no answer."""
    assert field.run("pawl-setup").returncode == 0
    field.drain(*CALM)
    expressions(field, 1)
    with field.failing(["find"], {"skip": 1}, collection="messages", errorCode=50):
        worker = field.worker(*CALM)
        worker.wait_log("database: MongoDB gives no answer: looking at the queue")
    worker.wait_log("document: .*a regular expression")
    assert worker.stop()[0] == 0, str(worker)


def test_a_document_is_named_again_when_the_own_collection_has_no_answer(field):
    """The poll of `messages` finds it, and that of the own collection, which comes next, has no answer."""
    assert field.run("pawl-setup", "--type", "t1", "--own-collection").returncode == 0
    expressions(field, 1)
    with field.failing(["find"], "alwaysOn", collection="messages.t1", errorCode=50):
        worker = field.worker(*CALM)
        worker.wait_log("database: MongoDB gives no answer: looking at the queue")
    worker.wait_log("document: .*a regular expression")
    assert worker.stop()[0] == 0, str(worker)


# --- the index of the deletes ---


def test_index_vanishes_under_a_lone_holder(any_field):
    """Its deletes need it, and no pass begins before they are done: so they have it made again."""
    field = any_field
    field.fill(1000)
    worker = field.worker("--batch-messages", 300, *CALM, env={"PAWL_FAULT_STOP": "block-committed:2"})
    worker.wait_frozen()
    field.db.messages.drop_index("type_1__id_1")
    worker.thaw()
    field.wait_settled()
    assert len(field.compare()["t1"]) == 1000
    assert "type_1__id_1" in field.db.messages.index_information()
