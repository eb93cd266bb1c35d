"""Bundles, {_id, type, batch: [documents]}: one document in the queue and in the file, many messages for whoever reads it."""
import json
import os
import re
import signal
import subprocess
import time

import bson
import pytest

import reader
from harness import ROOT, environment, program, run, wait_until

VECTORS = ROOT / "tests/vectors"


def bundle(first, count, **more):
    return {"type": "t1", "batch": [{"n": n, "payload": f"m{n}"} for n in range(first, first + count)], **more}


def near():
    """What only looks like a bundle is one message."""
    return [{"type": "t1", **fields} for fields in (
        {"batch": []}, {"batch": {"0": {"a": 1}}}, {"batch": [{"a": 1}, 5]}, {"batch": [[], {}]}, {"batch": [{"a": 1}], "more": None}, {"batch": None},
        {"Batch": [{}]}, {"payload": {"batch": [{"a": 1}]}})]


def numbers(lines):
    return [json.loads(line).get("n") for line in lines]


def dump(field, *arguments):
    done = run("pawl-dump", "--dir", field.dir, "--type", "t1", *arguments)
    assert done.returncode == 0, done.stderr.decode()
    return done


def check_items(field):
    """Blocks and ledger count what the independent reader finds in the bundles."""
    items = 0
    for segment in reader.read_chain(field.dir, "t1", field.ledger()):
        held = {m.seq: len(reader.bundle(m.raw) or [0]) for m in segment.messages}
        for block in segment.blocks:
            assert block.items == sum(held[seq] for seq in range(block.seq, block.seq + block.count)), block
            items += block.items
    assert field.ledger()["items"] == items
    return items


# --- the way of a bundle -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["block-written:3", "block-synced:3", "block-committed:3", "deleted:2", "close-written"])
@pytest.mark.parametrize("codec", ["plain", "zstd"])
def test_from_pymongo_through_crashes(field, point, codec):
    """Bundles of all sizes, plain messages and near-bundles mixed; two holders die."""
    documents, n = [], 0
    for i in range(120):
        documents.append(bundle(n, 1 + i % 7) if i % 3 else {"type": "t1", "n": n, "payload": f"m{n}"})
        n += 1 + i % 7 if i % 3 else 1
    for part in (documents[:50], near() + documents[50:100]):
        field.insert("p", part)
        field.crash(point, "--batch-messages", 10, "--codec", codec)
        field.compare(queue_empty=False)
    field.insert("p", documents[100:])
    field.drain("--batch-messages", 10, "--codec", codec)
    assert len(field.compare()["t1"]) == 128
    assert check_items(field) == n + len(near())
    shown = numbers(dump(field).stdout.splitlines())
    assert [number for number in shown if number is not None] == list(range(n)) and len(shown) == n + len(near())
    verdict = dump(field, "--verify", "--deep").stdout.decode()
    assert re.search(rf"^t1: ok, .*\b128 documents, {n + len(near())} messages, ", verdict) and "miscounted" not in verdict, verdict


def test_as_sent_and_one_delete(field):
    field.insert("p", [bundle(0, 1000)])
    raw = field.acknowledged["p"][0]
    field.drain()
    assert [m.raw for m in field.compare()["t1"]] == [raw] == [dump(field, "--format", "bson").stdout]
    assert (field.ledger()["seq"], field.ledger()["settled"], field.ledger()["items"]) == (1, 1, 1000)
    assert dump(field, "--format", "hex").stdout.decode() == raw.hex() + "\n"


def test_status_counts_both(field):
    field.insert("p", [bundle(0, 30), bundle(30, 30), {"type": "t1"}])
    field.drain()
    field.insert("p", [bundle(0, 5)])
    entry = json.loads(field.run("pawl-status", "--json").stdout)
    assert (entry["queued"], entry["seq"], entry["messages"], entry["settled"]) == (1, 3, 61, 3)
    heading, row = field.run("pawl-status").stdout.decode().splitlines()
    assert dict(zip(heading.split(), row.split()))["MESSAGES"] == "61"
    blocks = dump(field, "--format", "blocks").stdout.decode().split()
    assert blocks[7:9] == ["3", "61"]
    assert b"3 documents, 61 messages" in dump(field, "--format", "summary").stdout


# --- pawl-dump ------------------------------------------------------------------------------------------------------


@pytest.fixture
def mixed(field):
    """seq 1: n 0..3, seq 2: n 4, seq 3: n 5..9, seq 4: 10, seq 5: n 11..13, and so on, in blocks of three."""
    documents, n, place = [], 0, []
    for seq, count in enumerate((4, 0, 5, 0, 3, 1, 7, 0, 2, 2), 1):
        documents.append(bundle(n, count) if count else {"type": "t1", "n": n, "payload": f"m{n}"})
        place += [(seq, index if count else None) for index in range(count or 1)]
        n += count or 1
    field.insert("p", documents)
    field.drain("--batch-messages", 3)
    field.places, field.n = place, n
    return field


def test_messages_one_a_line(mixed):
    lines = [json.loads(line) for line in dump(mixed, "--with-meta").stdout.splitlines()]
    assert [(line["seq"], line.get("index")) for line in lines] == mixed.places
    assert list(lines[0]) == ["seq", "index", "epoch", "offset", "time", "message"] and "index" not in lines[4]
    assert [line["message"]["n"] for line in lines] == list(range(mixed.n)) and lines[0]["message"] == {"n": 0, "payload": "m0"}
    canonical = [json.loads(line) for line in dump(mixed, "--format", "canonical").stdout.splitlines()]
    assert canonical[1] == {"n": {"$numberInt": "1"}, "payload": "m1"}
    assert dump(mixed, "--format", "payload").stdout.decode().split("\n") == [*(f"m{n}" for n in range(mixed.n)), ""]


def test_selections(mixed):
    everything = list(range(mixed.n))

    def shown(*arguments):
        found = numbers(dump(mixed, *arguments).stdout.splitlines())
        assert int(dump(mixed, *arguments, "--count").stdout) == len(found), arguments
        return found
    for count in range(mixed.n + 2):
        assert shown("--limit", count) == everything[:count]
        assert shown("--tail", count) == everything[max(mixed.n - count, 0):]
        assert shown("--tail", count, "--limit", 4) == everything[max(mixed.n - count, 0):][:4]
        assert shown("--tail", count, "--to-seq", 7) == everything[:22][max(22 - count, 0):]
        assert shown("--tail", count, "--from-seq", 7) == everything[15:][max(len(everything[15:]) - count, 0):]
    for seq in range(1, 12):
        assert shown("--from-seq", seq, "--limit", 6) == [n for n in everything if mixed.places[n][0] >= seq][:6]
        assert shown("--to-seq", seq) == [n for n in everything if mixed.places[n][0] <= seq]
    assert shown("--since", "1h", "--tail", 3) == everything[-3:] and shown("--until", "1h", "--tail", 3) == []
    assert b"%d messages in 10 documents" % mixed.n in dump(mixed, "--count").stderr


def test_documents(mixed):
    documents = [json.loads(line) for line in dump(mixed, "--documents").stdout.splitlines()]
    assert len(documents) == 10 and documents[0]["batch"][3] == {"n": 3, "payload": "m3"} and "_id" in documents[0]
    assert [json.loads(line) for line in dump(mixed, "--documents", "--tail", 3).stdout.splitlines()] == documents[-3:]
    assert [json.loads(line) for line in dump(mixed, "--documents", "-n", 3).stdout.splitlines()] == documents[:3]
    assert dump(mixed, "--documents", "--count").stdout == dump(mixed, "--format", "bson", "--count").stdout == b"10\n"
    meta = json.loads(dump(mixed, "--documents", "--with-meta", "-n", 1).stdout)
    assert meta["message"] == documents[0] and "index" not in meta
    assert dump(mixed, "--format", "bson", "--tail", 2).stdout == b"".join(mixed.acknowledged["p"][-2:])


@pytest.mark.parametrize("asks", [False, True])
def test_follow_within_bundles(mixed, asks):
    """--tail begins and --limit ends within a bundle, also where a block is held back until another one proves it."""
    out = mixed.folder / "followed"
    with open(out, "wb") as file:
        process = subprocess.Popen([program("pawl-dump"), "--dir", mixed.dir, "--type", "t1", "-f", "--tail", "3", "--limit", "8",
                                    *(mixed.mongo if asks else [])], stdout=file, stderr=subprocess.DEVNULL, env=environment())
    try:
        wait_until(lambda: out.read_bytes().count(b"\n") == 3, lambda: out.read_bytes(), 20)
        mixed.insert("p", [bundle(1000, 4), bundle(1004, 4)])
        mixed.drain("--batch-messages", 1)
        assert process.wait(20) == 0
    finally:
        process.kill()
    assert numbers(out.read_bytes().splitlines()) == [*range(mixed.n - 3, mixed.n), *range(1000, 1005)]


# --- pawl-enqueue ---------------------------------------------------------------------------------------------------


def queue(field):
    return [bson.decode(document.raw) for document in field.messages.find().sort("_id", 1)]


def test_enqueue_lines(field, tmp_path):
    for name, count in (("a", 250), ("b", 7)):
        (tmp_path / name).write_text("".join(f"{name}{n}\n" for n in range(count)))
    done = field.run("pawl-enqueue", "--type", "t1", "--bundle", 100, tmp_path / "a", tmp_path / "b")
    assert done.returncode == 0 and b"enqueued 257 messages in 3 documents" in done.stderr, done
    assert [len(document["batch"]) for document in queue(field)] == [100, 100, 57]
    assert all(list(document) == ["_id", "type", "batch"] for document in queue(field))
    field.drain()
    expected = [f"a{n}" for n in range(250)] + [f"b{n}" for n in range(7)]
    assert dump(field, "--format", "payload").stdout.decode().split("\n") == [*expected, ""]
    assert json.loads(dump(field, "-n", 1).stdout) == {"payload": "a0"} and check_items(field) == 257


@pytest.mark.parametrize("form", ["ndjson", "bson"])
def test_enqueue_documents_stay_as_they_are(field, form):
    documents = [{"a": 1}, {"_id": 5, "b": [1, {"c": "x"}]}, {"type": "t1", "n": 3}, {}, {"_id": 5}]
    data = b"".join(map(bson.encode, documents)) if form == "bson" else "\n".join(map(json.dumps, documents)).encode()
    done = field.run("pawl-enqueue", "--type", "t1", "--from", form, "--bundle", 10, stdin=data)
    assert done.returncode == 0 and b"enqueued 5 messages in 1 document\n" in done.stderr, done
    field.drain()
    assert [json.loads(line) for line in dump(field).stdout.splitlines()] == documents


def test_enqueue_several_types(field):
    """A bundle is of one type; where the type changes the next one begins, so that the order stays."""
    lines = [{"type": f"t{1 + n // 3 % 2}", "n": n} for n in range(20)]
    done = field.run("pawl-enqueue", "--from", "ndjson", "--bundle", "auto", stdin="\n".join(map(json.dumps, lines)).encode())
    assert done.returncode == 0 and b"enqueued 20 messages in 7 documents" in done.stderr, done
    found = queue(field)
    assert [message for document in found for message in document["batch"]] == lines
    assert all(message["type"] == document["type"] for document in found for message in document["batch"])


def test_enqueue_bad_lines_are_told_one_by_one(field, tmp_path):
    (tmp_path / "in").write_text('{"n": 1}\n{broken\n{"n": 3}\n{"type": 5}\n{"n": 5}\n')
    done = field.run("pawl-enqueue", "--from", "ndjson", "--type", "t1", "--bundle", 10, tmp_path / "in")
    assert done.returncode == 1 and re.search(rb"in:2: .*\n.*in:4: .*\n.*enqueued 3 messages in 1 document, 2 bad lines", done.stderr), done
    assert [message["n"] for message in queue(field)[0]["batch"]] == [1, 3, 5]
    done = field.run("pawl-enqueue", "--from", "ndjson", "--type", "t1", "--bundle", 10, "--strict", tmp_path / "in")
    assert done.returncode == 1 and b"enqueued 1 message in 1 document, 1 bad line" in done.stderr, done


def test_enqueue_tells_what_the_server_refuses(field):
    field.db.create_collection("messages", validator={"batch.payload": {"$ne": "m13"}})
    done = field.run("pawl-enqueue", "--type", "t1", "--bundle", 5, stdin="".join(f"m{n}\n" for n in range(22)).encode())
    assert done.returncode == 1, done
    assert b"standard input:11 to standard input:15: MongoDB says: " in done.stderr, done
    assert b"enqueued 17 messages in 4 documents, 5 bad lines" in done.stderr, done
    assert [len(document["batch"]) for document in queue(field)] == [5, 5, 5, 2]


def test_enqueue_tells_what_is_unknown(field):
    """The answer to the only insert says that it may be undone; retried or not, nothing is counted as in."""
    field.db.create_collection("messages")
    with field.failing(["insert"], {"times": 1}, program="pawl-enqueue", writeConcernError={"code": 64, "errmsg": "in doubt"}):
        done = field.run("pawl-enqueue", "--type", "t1", "--bundle", 5, stdin="".join(f"m{n}\n" for n in range(12)).encode())
    assert done.returncode == 1, done
    assert b"it is not known whether 12 messages in 3 documents are in the queue: standard input:1 to standard input:12, " in done.stderr, done
    assert b"enqueued 0 messages in 0 documents, 12 unknown" in done.stderr, done


def test_enqueue_bounds(field, tmp_path):
    """At most 1 MiB a bundle, however many are asked for; a larger message has one of its own; 16 MiB is too much."""
    lines = [b"x" * 400_000] * 5 + [b"y" * 3_000_000] + [b"z" * (16 << 20)] + [b"last"]
    (tmp_path / "in").write_bytes(b"\n".join(lines))  # a file never pauses
    done = field.run("pawl-enqueue", "--type", "t1", "--bundle", 100000, tmp_path / "in")
    assert done.returncode == 1 and b"/in:7: " in done.stderr and b"enqueued 7 messages in 5 documents, 1 bad line" in done.stderr, done
    assert [len(document["batch"]) for document in queue(field)] == [2, 2, 1, 1, 1]
    field.drain()
    field.acknowledged["e"] = [m.raw for m in reader.read_type(field.dir, "t1", field.ledger())]
    field.compare()


def test_enqueue_auto(field):
    """What trickles comes at once, one by one; what is there goes together, in its order."""
    with subprocess.Popen([program("pawl-enqueue"), *field.mongo, "--type", "t1", "--bundle", "auto"], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment()) as process:
        for n in range(3):
            process.stdin.write(b"t%d\n" % n)
            process.stdin.flush()
            wait_until(lambda: field.queued() == n + 1, lambda: f"{field.queued()} documents")
        os.kill(process.pid, signal.SIGSTOP)
        process.stdin.write(b"".join(b"%d\n" % n for n in range(2500)))  # less than a pipe holds
        process.stdin.flush()
        os.kill(process.pid, signal.SIGCONT)
        wait_until(lambda: sum(len(document["batch"]) for document in queue(field)) == 2503, lambda: queue(field))
        _, said = process.communicate()
    assert process.returncode == 0 and b"enqueued 2503 messages in " in said, said
    found = queue(field)
    assert [len(document["batch"]) for document in found] == [1, 1, 1, 1000, 1000, 500]
    assert [message["payload"] for document in found for message in document["batch"]] == [f"t{n}" for n in range(3)] + [str(n) for n in range(2500)]


@pytest.mark.parametrize("options", [[], ["--bundle", "auto"], ["--bundle", "1000"]], ids=["plain", "auto", "fixed"])
def test_enqueue_is_not_held_up_by_a_steady_trickle(field, options):
    """A line each millisecond never is idle for long; still each is soon in the queue."""
    with subprocess.Popen([program("pawl-enqueue"), *field.mongo, "--type", "t1", *options, "-q"], stdin=subprocess.PIPE,
                          env=environment()) as process:
        for n in range(3000):
            process.stdin.write(b"%d\n" % n)
            process.stdin.flush()
            if n == 0:
                wait_until(lambda: field.queued() == 1, "the first line")
            time.sleep(0.001)  # the pace of the producer, not a synchronisation
        assert field.queued() > 1, "nothing came before the input ended"
        process.stdin.close()
        assert process.wait(60) == 0
    found = queue(field)
    bundles = [document.get("batch", [document]) for document in found]
    assert [message["payload"] for bundle in bundles for message in bundle] == [str(n) for n in range(3000)]
    assert any(len(bundle) < 1000 for bundle in bundles[1:-1]), [len(bundle) for bundle in bundles]  # if it stood still for a moment, others are full
