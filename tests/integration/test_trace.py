"""Where did my message go: pawl-worker --trace logs the value of a field of each message that is written, pawl-dump --where finds it."""
import json
import re

import bson
import pytest

from dumping import documents, dump
from harness import CALM

OPEN = {"PAWL_DOCUMENTS": "false"}  # bundles are opened into their messages


def lines(worker):
    return [line for line in worker.log().splitlines() if re.search(r"\btrace: |\"event\" : \"trace\"", line)]


def values(worker):
    return " ".join(line.split("trace: ", 1)[1] for line in lines(worker))


def where(field, text, *arguments, **more):
    return dump("--dir", field.dir, "--where", text, *arguments, **(OPEN | more))


def test_a_message_is_followed(field):
    """From its id in the log to its place in the file: file, epoch and seq agree."""
    ids = [bson.ObjectId() for _ in range(3)]
    field.insert("p", [{"_id": ids[n], "type": "t1", "order": {"id": f"A-{n}"}} for n in range(3)])
    worker = field.drain("--trace", "order.id", "-v")
    assert re.search(r'^\S+ debug t1 epoch=1 seq=1 trace: "order\.id" committed in file=t1\.bin offset=\d+: 1="A-0", 2="A-1", 3="A-2"$',
                     worker.log(), re.M), worker
    done = where(field, "order.id=A-1", "--with-meta")
    [found] = documents(done)
    assert (done.returncode, found["seq"], found["epoch"]) == (0, 2, 1)
    assert f"offset={found['offset']}:" in values(worker)
    assert [d["order"]["id"] for d in documents(where(field, f"_id={ids[2]}"))] == ["A-2"]


def test_a_commit_without_an_answer(field):
    """It is sent again, and is committed in the end; what the log says is what was known."""
    field.fill(1)
    field.drain(*CALM)
    with field.failing(["update"], {"times": 1}, collection="ledger", closeConnection=True):
        field.fill(3)
        worker = field.drain("--trace", "n", "-v", *CALM)
    assert '"n" not yet committed in file=t1.bin' in values(worker) and field.seq() == 4, worker


def test_a_block_that_is_void(field):
    """Another holder was faster."""
    field.fill(3)
    worker = field.worker("--trace", "n", "-v", *CALM, env={"PAWL_FAULT_STOP": "block-synced"})
    worker.wait_frozen()
    field.db.ledger.update_one({"_id": "t1"}, {"$inc": {"epoch": bson.Int64(1)}})
    worker.thaw()
    worker.wait_log(r'trace: "n" void in file=t1\.bin')
    field.stop()


def test_not_at_debug_nothing_is_read(field):
    field.fill(3)
    assert not lines(field.drain("--trace", "n", "--log-level", "info"))
    field.fill(3)
    assert not lines(field.drain("-v"))


def test_bundles(field):
    bundle = bson.ObjectId()
    field.insert("p", [{"_id": bundle, "type": "t1", "batch": [{"n": 2}, {"m": 3}, {"n": 1}]}, {"type": "t1", "n": 1}])
    worker = field.drain("--trace", "n", "-v")
    assert values(worker).endswith(": 1[0]=2, 1[2]=1, 2=1; 1 message without it")
    assert [(d["seq"], d.get("index")) for d in documents(where(field, "n=1", "--with-meta"))] == [(1, 2), (2, None)]
    assert documents(where(field, f"_id={bundle}")) == [{"n": 2}, {"m": 3}, {"n": 1}]
    assert len(documents(where(field, "n=2", PAWL_DOCUMENTS="true"))) == 1
    another = bson.ObjectId()
    field.insert("p", [{"_id": another, "type": "t1", "batch": [{"n": 2}]}])
    assert f"3[0]={another}" in values(field.drain("--trace", "_id", "-v"))


@pytest.mark.parametrize("form", ["text", "json"])
def test_hostile_values(field, form):
    """Each is one line, and nothing in it reaches the terminal as it is."""
    hostile = ["\x1b[31mred\x07", "two\nlines: error", "\u202eevil", "\x9b2J", 'say "hi" \\', "x" * 500, "ü" * 100]
    field.insert("p", [{"type": "t1", "v": value} for value in [*hostile, 1.5, None, True, b"\x00\x01", [1, 2], {"a": 1}]])
    field.insert("p", [bson.encode({"_id": bson.ObjectId(), "type": "t1", "v": "ab"}).replace(b"ab", b"\xff\xfe")])
    worker = field.drain("--trace", "v", "-v", "--log-format", form, *CALM)
    found = lines(worker)
    assert found and not re.search(r"[\x00-\x09\x0b-\x1f\x7f\x9b\u202e]", worker.log()), worker
    text = " ".join(json.loads(line)["text"] for line in found) if form == "json" else values(worker)
    assert r'1="\x1b[31mred\x07"' in text and r'2="two\x0alines: error"' in text and r'5="say \"hi\" \\"' in text
    assert '6="' + "x" * 64 + '…"' in text and '7="' + "ü" * 32 + '…"' in text
    assert r'8=1.5, 9=null, 10=true, 11=0001, 12=[' in text and r'14="\xff\xfe"' in text
    assert all(len(line) < 4096 for line in found)


def test_many_values(field):
    """A line has twenty at most, and each message is on one."""
    field.fill(450)
    worker = field.drain("--trace", "n", "-v", *CALM)
    found = re.findall(r"(\d+)=(\d+)", " ".join(line.split(": ", 3)[-1] for line in lines(worker)))
    assert [int(seq) for seq, _ in found if int(seq) <= 450] == list(range(1, 451))
    assert max(line.count("=") for line in lines(worker)) <= 20 + 4  # epoch, seq, file, offset


def test_values_by_their_type(field):
    field.insert("p", [{"type": "t1", "v": value} for value in [42, bson.Int64(42), 42.0, "42", True, None, "true"]])
    field.drain()
    seqs = {text: [d["seq"] for d in documents(where(field, f"v={text}", "--with-meta"))] for text in ("42", "42.0", "true", "null", "0")}
    assert seqs == {"42": [1, 2, 3, 4], "42.0": [1, 2, 3], "true": [5, 7], "null": [6], "0": []}


def test_with_other_selections(field):
    field.insert("p", [{"type": "t1", "n": n, "odd": n % 2} for n in range(1, 21)])
    field.insert("p", [{"type": "t2", "n": n, "odd": 1} for n in range(1, 4)])
    field.drain(types=("t1", "t2"))

    def numbers(*arguments):
        return [d["n"] for d in documents(where(field, "odd=1", *arguments))]
    assert numbers("--type", "t1", "--from-seq", "5", "--to-seq", "10") == [5, 7, 9]
    assert numbers("--type", "t1", "--tail", "3") == [15, 17, 19]
    assert numbers("-n", "2") == [1, 3]
    assert numbers("--type", "t2") == [1, 2, 3]
    assert numbers("--until", "2001-01-01T00:00:00Z") == []
    done = where(field, "odd=1", "--count")
    assert (done.returncode, done.stdout) == (0, b"13\n")
    assert b"in 13 documents" not in done.stderr
    assert where(field, "odd=1", "--format", "bson", "--type", "t2").stdout.count(b"odd") == 3
    assert dump(field.dir / "t1.bin", "--where", "n=7", **OPEN).stdout.count(b"\n") == 1


def test_nothing_found(field):
    """As always: an empty result is no failure; stderr says so, as FIELD may be mistyped."""
    field.fill(3)
    field.drain()
    done = where(field, "nn=1")
    assert (done.returncode, done.stdout) == (0, b"") and b"no message has nn=1" in done.stderr


@pytest.mark.parametrize("text, said", [("n", "takes FIELD=VALUE"), ("=1", "takes FIELD=VALUE"), ("a..b=1", "takes FIELD=VALUE")])
def test_where_that_cannot_be(tmp_path, text, said):
    done = dump("--dir", tmp_path, "--where", text)
    assert done.returncode == 2 and f'--where: got "{text}" (from command line): {said}' in done.stderr.decode()


@pytest.mark.parametrize("more", [["--verify"], ["--format", "blocks"], ["--format", "summary"]])
def test_where_goes_with_messages(tmp_path, more):
    assert dump("--dir", tmp_path, "--where", "n=1", *more).returncode == 2


def test_trace_that_cannot_be(field):
    done = field.run("pawl-worker", "--type", "t1", "--trace", "a.", "--dir", field.dir)
    assert done.returncode == 2 and b'--trace: got "a." (from command line): takes FIELD' in done.stderr


def test_a_type_with_its_own_collection(field):
    """Its documents are in the file as they were sent, so one without a `type` has none there; a bundle needs its own."""
    assert field.run("pawl-setup", "--type", "t1", "--own-collection").returncode == 0
    field.insert("p", [{"n": 1}, {"type": "t1", "n": 2}, {"type": "t1", "batch": [{"n": 3}, {"n": 4}]}, {"batch": [{"n": 5}]}], own="t1")
    field.drain()
    assert [d["n"] for d in documents(where(field, "n=1"))] == [1]
    assert [d["n"] for d in documents(where(field, "type=t1"))] == [2, 3, 4]
    assert [d.get("n") for d in documents(dump("--dir", field.dir, "--type", "t1", **OPEN))] == [1, 2, 3, 4, None]
    assert [d["batch"] for d in documents(where(field, "batch.n=5"))] == [[{"n": 5}]]
