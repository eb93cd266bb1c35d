"""pawl-dump against the golden files of tests/vectors, and against strange ones made here. Needs no mongod."""
import base64
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import bson
import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "dump"))
import segment as made  # noqa: E402
from fake_mongod import BROKEN, LOST, FakeMongod  # noqa: E402
from harness import free_port, program  # noqa: E402

VECTORS = TESTS / "vectors"
PROGRAM = Path(program("pawl-dump"))
# A line is a document here, as in the golden files; bundles that are opened are in test_bundles.py.
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("PAWL_")} | {"PAWL_DOCUMENTS": "true", "MONGOC_DISABLE_SHM": "1"}


def dump(*arguments, **more):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, env=ENVIRONMENT | more, timeout=60)
    assert done.returncode in (0, 1, 2, 3, 4, 5), done.stderr.decode()
    return done


def documents(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def expected(form="relaxed"):
    return [json.loads(line) for line in (VECTORS / f"t1.{form}.ndjson").read_text().splitlines()]


def payloads(done):
    return [d.get("payload") for d in documents(done)]


@pytest.fixture
def vectors(tmp_path):
    folder = tmp_path / "vectors"
    shutil.copytree(VECTORS, folder)
    return folder


# --- the golden files -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("form", ["relaxed", "canonical"])
def test_vectors(form):
    done = dump("--dir", VECTORS, "--type", "t1", "--format", form)
    assert (done.returncode, documents(done)) == (0, expected(form))
    assert b"t1@5.bin: an orphan" in done.stderr


def test_all_types():
    assert documents(dump("--dir", VECTORS)) == expected()


@pytest.mark.parametrize("first,last,limit", [(1, 33, 33), (5, 5, 1), (24, 30, 100), (33, 99, 5), (34, 99, 5), (1, 3, 2), (28, 28, 0), (2, 2, 9)])
def test_selection(first, last, limit):
    done = dump("--dir", VECTORS, "--from-seq", first, "--to-seq", last, "--limit", limit)
    assert documents(done) == expected()[first - 1:last][:limit]
    assert (done.returncode, dump("--dir", VECTORS, "--from-seq", first, "--to-seq", last, "-n", limit, "--count").stdout) == (
        0, b"%d\n" % len(expected()[first - 1:last][:limit]))


@pytest.mark.parametrize("tail", [0, 1, 5, 6, 7, 32, 33, 34])
def test_tail(tail):
    assert documents(dump("--dir", VECTORS, "--tail", tail)) == expected()[max(33 - tail, 0):]
    assert documents(dump("--dir", VECTORS, "--tail", tail, "--to-seq", 30)) == expected()[:30][max(30 - tail, 0):]
    assert len(documents(dump(VECTORS / "t1.bin", "--tail", tail))) == min(tail, 28)
    assert documents(dump(VECTORS / "t1.bin", "--tail", tail, "--strict")) == expected()[:27][max(27 - tail, 0):]


def test_since_and_until():
    meta = documents(dump("--dir", VECTORS, "--with-meta"))
    times = sorted({m["time"] for m in meta})
    for moment in times:
        assert documents(dump("--dir", VECTORS, "--with-meta", "--since", moment)) == [m for m in meta if m["time"] >= moment]
        assert documents(dump("--dir", VECTORS, "--with-meta", "--until", moment)) == [m for m in meta if m["time"] < moment]
    middle = [m for m in meta if times[4] <= m["time"] < times[9]]
    assert documents(dump("--dir", VECTORS, "--with-meta", "--since", times[4], "--until", times[9])) == middle
    assert documents(dump("--dir", VECTORS, "--with-meta", "--tail", 3, "--until", times[9])) == [m for m in meta if m["time"] < times[9]][-3:]


def test_with_meta():
    meta = documents(dump("--dir", VECTORS, "--with-meta"))
    assert [m["seq"] for m in meta] == list(range(1, 34))
    assert [m["message"] for m in meta] == expected()
    assert meta[0] == {"seq": 1, "epoch": 1, "offset": 4096, "time": "2023-11-14T22:13:20.001000Z", "message": expected()[0]}
    assert meta[-1]["epoch"] == 6 and meta[-1]["offset"] == 4513


def split(raw):
    while raw:
        size = struct.unpack_from("<i", raw)[0]
        yield raw[:size]
        raw = raw[size:]


def test_bson_and_hex():
    raw = list(split(dump("--dir", VECTORS, "--format", "bson").stdout))
    assert len(raw) == 33 and all(r[-1] == 0 for r in raw)
    assert dump("--dir", VECTORS, "--format", "hex").stdout.decode().split() == [r.hex() for r in raw]
    meta = list(split(dump("--dir", VECTORS, "--format", "bson", "--with-meta").stdout))
    assert [m[-len(r) - 1:-1] for m, r in zip(meta, raw)] == raw
    head = (made.int64("seq", 1) + made.int64("epoch", 1) + made.int64("offset", 4096) + made.text("time", "2023-11-14T22:13:20.001000Z"))
    assert meta[0] == made.document(head, made.element(3, "message", raw[0]))


def test_payload():
    done = dump("--dir", VECTORS, "--format", "payload", "--to-seq", 4)
    assert done.stdout == b"one\ntwo\n\x00\xff\x80three\nsmall 0\n"
    assert dump("--dir", VECTORS, "--format", "payload", "--to-seq", 2, "--separator", "").stdout == b"onetwo"
    assert dump("--dir", VECTORS, "--format", "payload", "--to-seq", 2, "--separator", ", ").stdout == b"one, two, "
    nested = dump("--dir", VECTORS, "--format", "payload", "--from-seq", 25, "--to-seq", 27)
    first, second, end = nested.stdout.split(b"\n")
    assert json.loads(first) == {"nested": [1, 2.5, None]} and second.decode() == "unicode é中" and end == b""
    assert b"1 of 3 messages has no field payload: nothing was printed for it\n" in nested.stderr


def test_none_and_summary_and_blocks():
    assert dump("--dir", VECTORS, "--format", "none").stdout == b""
    summary = dump("--dir", VECTORS, "--format", "summary").stdout.decode()
    assert summary.startswith("t1: 3 segments, 32 blocks, 33 documents, 35 messages") and "written by a.example b.example" in summary
    lines = [line.split() for line in dump("--dir", VECTORS, "--format", "blocks").stdout.decode().splitlines()]
    assert len(lines) == 32 and sum(int(line[7]) for line in lines) == 33 and sum(int(line[8]) for line in lines) == 35
    assert lines[0][:8] == ["t1.bin", "4096", "data", "0", "1", "1", "3", "3"]
    assert {line[2] for line in lines} == {"data", "open", "close", "pad"} and lines[-2][11] == "zstd"
    assert len(dump("--dir", VECTORS, "--format", "blocks", "-n", 3).stdout.splitlines()) == 3


def test_verify():
    done = dump("--dir", VECTORS, "--verify", "--deep")
    assert done.stdout == b"t1: ok, 3 segments, 32 blocks, 33 documents, 35 messages, 21.9 KiB, link 5dfec940ac304e08\n"
    assert done.returncode == 0


def test_one_is_singular(tmp_path):
    made.Segment(tmp_path / "t1.bin").data(made.message(1))
    assert dump("--dir", tmp_path, "--verify").stdout.startswith(b"t1: ok, 1 segment, 1 block, 1 document, 1 message, 4.2 KiB, link ")
    total, one = dump("--dir", tmp_path, "--format", "summary").stdout.decode().splitlines()
    assert total.startswith("t1: 1 segment, 1 block, 1 document, 1 message, 4.2 KiB, seq 1..1, ")
    assert one.startswith("  t1.bin: segment 0 (first), 1 block, 1 document, 1 message, 4.2 KiB, seq 1..1, ")


def test_sizes_are_those_of_the_files(tmp_path):
    """The same in both, and what ls shows: headers included."""
    sizes = [10 << 10, 300 << 10]
    first = made.Segment(tmp_path / "t1.bin").data(made.message(1, "x" * (sizes[0] - 4096 - 200))).close()
    second = made.Segment(tmp_path / "t1@2.bin", epoch=2, predecessor=first, first_seq=first.seq, number=1, time=first.time)
    second.data(made.message(2, "x" * sizes[1])).close()
    lengths = [segment.path.stat().st_size for segment in (first, second)]
    total, *each = dump("--dir", tmp_path, "--format", "summary").stdout.decode().splitlines()
    assert f", {sum(lengths) / 1024:.1f} KiB, " in total
    assert all(f", {length / 1024:.1f} KiB, " in line for length, line in zip(lengths, each)), each
    assert f", {sum(lengths) / 1024:.1f} KiB, " in dump("--dir", tmp_path, "--verify").stdout.decode()


def test_a_file_is_exactly_that_file():
    done = dump(VECTORS / "t1.bin")
    assert documents(done)[:27] == expected()[:27] and len(documents(done)) == 28
    assert b"seq 28 is unconfirmed" in done.stderr and done.returncode == 0
    strict = dump(VECTORS / "t1.bin", "--strict")
    assert (strict.returncode, documents(strict)) == (5, expected()[:27])
    assert dump(VECTORS / "t1.bin", "--strict", "--to-seq", 27).returncode == 0
    assert dump(VECTORS / "t1.bin", "--strict", "--verify").returncode == 5
    assert dump("--dir", VECTORS, "--strict").returncode == 0
    assert documents(dump(VECTORS / "t1@6.bin", VECTORS / "t1@4.bin", VECTORS / "t1.bin", "-n", 8)) == expected()[27:] + expected()[:2]


# --- damage -----------------------------------------------------------------------------------------------------

def flip(path, at):
    raw = bytearray(path.read_bytes())
    raw[at] ^= 0x10
    path.write_bytes(raw)


def test_flipped_body_byte(vectors):
    flip(vectors / "t1.bin", 4569 + 128 + 20)
    done = dump("--dir", vectors)
    assert (done.returncode, documents(done)) == (3, expected()[:4])
    assert b"the document with seq 5 is gone" in done.stderr
    on = dump("--dir", vectors, "--keep-going")
    assert (on.returncode, documents(on)) == (3, expected()[:4] + expected()[5:])
    verdict = dump("--dir", vectors, "--verify")
    assert verdict.returncode == 3 and verdict.stdout.startswith(b"t1: damaged, 3 segments, 31 blocks, 32 documents, 34 messages")
    assert verdict.stdout.endswith(b", damaged in 1 place, 1 document gone\n")


def test_flipped_marker_byte(vectors):
    flip(vectors / "t1.bin", 4569 + 40)
    on = dump("--dir", vectors, "--keep-going")
    assert (on.returncode, documents(on)) == (3, expected()[:4] + expected()[5:])
    assert b"the document with seq 5 is gone" in on.stderr
    assert dump("--dir", vectors, "--from-seq", 28).returncode == 0


@pytest.mark.parametrize("at", [0, 16, 33, 50, 100, 252, 300, 4095])
def test_flipped_header_byte(vectors, at):
    """What the blocks prove of themselves is read on, the whole is damaged all the same."""
    flip(vectors / "t1.bin", at)
    assert dump("--dir", vectors).returncode == dump(vectors / "t1.bin").returncode == 3
    assert dump("--dir", vectors).stdout == dump(vectors / "t1.bin").stdout == b""
    on = dump("--dir", vectors, "--keep-going")
    assert (on.returncode, documents(on)) == (3, expected())
    assert b"damaged: t1.bin: " in on.stderr and b"header" in on.stderr and b" gone" not in on.stderr
    alone = dump(vectors / "t1.bin", "--keep-going")
    assert (alone.returncode, documents(alone)[:27]) == (3, expected()[:27]) and b"seq 28 is unconfirmed" in alone.stderr
    verdict = dump("--dir", vectors, "--verify")
    assert verdict.returncode == 3
    assert verdict.stdout == (b"t1: damaged, 3 segments, 32 blocks, 33 documents, 35 messages, 21.9 KiB, link 5dfec940ac304e08, "
                              b"damaged in 1 place, 0 documents gone\n")
    summary = dump("--dir", vectors, "--keep-going", "--format", "summary").stdout.decode()
    assert "\n  t1.bin: header damaged, " in summary and "t1@4.bin: segment 1 (" in summary


def test_flipped_header_of_the_newest(vectors):
    """What was before it only its header told."""
    flip(vectors / "t1@6.bin", 200)
    on = dump("--dir", vectors, "--keep-going")
    assert (on.returncode, documents(on)) == (3, expected()[27:]) and b"before seq 28 are gone or cannot be reached" in on.stderr
    verdict = dump("--dir", vectors, "--verify")
    assert verdict.returncode == 3 and b"damaged in 1 place, 27 documents gone" in verdict.stdout
    assert dump(vectors / "t1@6.bin", "--verify").stdout.endswith(b"damaged in 1 place, 0 documents gone\n")


def test_flipped_header_and_first_block(vectors):
    flip(vectors / "t1.bin", 33)
    flip(vectors / "t1.bin", 4096 + 128 + 20)
    on = dump("--dir", vectors, "--keep-going")
    assert (on.returncode, documents(on)) == (3, expected()[3:]) and b"the documents with seq 1..3 are gone" in on.stderr
    flip(vectors / "t1.bin", 4096 + 40)
    on = dump("--dir", vectors, "--keep-going")
    assert (on.returncode, documents(on)) == (3, expected()[27:]) and b"before seq 28 are gone" in on.stderr
    assert dump(vectors / "t1.bin", "--keep-going").stdout == b""


def test_flipped_header_under_another_name(vectors):
    flip(vectors / "t1.bin", 33)
    (vectors / "t1.bin").rename(vectors / "broken")
    on = dump(vectors / "broken", "--keep-going", "--from-seq", 5, "--to-seq", 9)
    assert (on.returncode, documents(on)) == (3, expected()[4:9])
    verdict = dump(vectors / "broken", "--verify", "--deep")
    assert verdict.returncode == 3 and b"of another type" not in verdict.stdout


@pytest.mark.parametrize("length", [0, 1, 100, 4095])
def test_incomplete_header_is_no_orphan(vectors, length):
    """The newest segment, whose maker died while it wrote the header."""
    (vectors / "t1@9.bin").write_bytes((vectors / "t1@6.bin").read_bytes()[:length])
    done = dump("--dir", vectors)
    assert (done.returncode, documents(done)) == (0, expected())
    assert b"t1@9.bin: an incomplete header, not read" in done.stderr and b"t1@9.bin: an orphan" not in done.stderr
    assert b"t1@5.bin: an orphan" in done.stderr


def test_every_flipped_byte(vectors):
    """Below the committed end: exit 3 (4 where the flip looks like a newer version), and never a message that is not there."""
    good = {json.dumps(d) for d in (*expected(), *documents(dump(VECTORS / "t1.bin", "--from-seq", 28)))}
    chance = random.Random(1)
    for name, length in [("t1.bin", 13407), ("t1@4.bin", 4096), ("t1@6.bin", 4914)]:
        raw = (vectors / name).read_bytes()
        for at in chance.sample(range(length), 60):
            flip(vectors / name, at)
            done = dump("--dir", vectors, "--keep-going")
            assert {json.dumps(d) for d in documents(done)} <= good, (name, at)
            if name == "t1.bin":
                assert done.returncode in (3, 4), (name, at)
            (vectors / name).write_bytes(raw)


def test_cut_file(vectors):
    raw = (vectors / "t1.bin").read_bytes()
    for length in (0, 15, 4095, 4096, 4097, 13406):
        (vectors / "t1.bin").write_bytes(raw[:length])
        done = dump("--dir", vectors)
        assert done.returncode == 3 and done.stderr, length
    (vectors / "t1.bin").unlink()
    done = dump("--dir", vectors)
    assert done.returncode == 0 and documents(done) == expected()[27:] and b"begins with seq 28" in done.stderr


def test_missing_segment_in_the_middle(vectors):
    (vectors / "t1@4.bin").unlink()
    done = dump("--dir", vectors)
    assert (done.returncode, done.stdout) == (3, b"") and b"before seq 28" in done.stderr
    on = dump("--dir", vectors, "--keep-going")
    assert (on.returncode, documents(on)) == (3, expected()[27:])
    verdict = dump("--dir", vectors, "--verify")
    assert verdict.returncode == 3 and verdict.stdout.startswith(b"t1: damaged") and b"27 documents gone" in verdict.stdout


def test_offline_tail_is_no_damage(vectors):
    """The newest file, cut anywhere: what is before the cut, and exit 0."""
    raw = (vectors / "t1@6.bin").read_bytes()
    for length in range(4096, len(raw), 37):
        (vectors / "t1@6.bin").write_bytes(raw[:length])
        done = dump("--dir", vectors)
        count = 27 + (length >= 4513) + 5 * (length >= 4748)
        assert (done.returncode, documents(done)) == (0, expected()[:count]), length


def test_newer(tmp_path):
    made.Segment(tmp_path / "a.bin", type="a", version=2)
    assert dump(tmp_path / "a.bin").returncode == 4
    made.Segment(tmp_path / "b.bin", type="b", incompat=4)
    assert dump(tmp_path / "b.bin").returncode == 4
    made.Segment(tmp_path / "c.bin", type="c").data(made.message(1, type="c")).data(made.message(2, type="c"), flags=1)
    done = dump(tmp_path / "c.bin")
    assert done.returncode == 4 and len(documents(done)) == 1
    made.Segment(tmp_path / "d.bin", type="d").data(made.message(1, type="d")).add(200, b"future", 0)
    assert dump(tmp_path / "d.bin").returncode == 0
    made.Segment(tmp_path / "e.bin", type="e").add(77, b"future", 0)
    verdict = dump("--dir", tmp_path, "--verify")
    assert verdict.returncode == 4
    assert [line.split(b",")[0] for line in verdict.stdout.splitlines()] == [b"a: newer", b"b: newer", b"c: newer", b"d: ok", b"e: newer"]


def test_garbage(tmp_path):
    chance = random.Random(2)
    for size in (0, 1, 127, 4096, 5000, 70000):
        path = tmp_path / "g.bin"
        path.write_bytes(chance.randbytes(size))
        assert dump(path).returncode == 3
        assert dump(path, "--verify").returncode == 3
        assert dump("--dir", tmp_path).returncode == (3 if size > 4096 else 0)  # no message fits into less: what lies there is passed over
    good = (VECTORS / "t1.bin").read_bytes()
    for _ in range(50):
        raw = bytearray(good)
        for _ in range(chance.randrange(1, 20)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        path.write_bytes(raw)
        dump(path, "--keep-going")
        dump(path, "--verify", "--deep")
        dump(path, "--from-seq", 9, "--tail", 3)


# --- what is inside a message -----------------------------------------------------------------------------------

def deep_document(levels):
    inner = made.document()
    for _ in range(levels):
        inner = made.document(made.element(3, "d", inner))
    return made.document(made.element(7, "_id", struct.pack(">IQ", 1, levels)), made.text("type", "t1"), made.element(3, "d", inner))


BAD = b"a\xffb\xc3(\xe2\x82 \xf0\x9f\x98\x80\xed\xa0\x80\xc0\x80z"


def test_invalid_utf8(tmp_path):
    """Strings stay readable; the rest is not mended, but given as its bytes."""
    def sized(text):
        return struct.pack("<i", len(text) + 1) + text + b"\0"
    scope = made.document(made.text("q", b"\xff"))
    scoped = struct.pack("<i", 4 + 4 + 2 + len(scope)) + sized(b"j") + scope
    strings = made.document(made.text("type", "t1"), made.text("payload", BAD), made.element(11, "r", b"re\0i\0"), made.element(13, "c", sized(b"c")),
                            made.element(14, "s", sized(b"s")), made.element(15, "w", scoped), made.element(12, "p", sized(b"p") + bytes(12)),
                            made.element(4, "list", made.document(made.text("0", b"\x80"), made.element(3, "1", scope))))
    others = [made.document(made.text("type", "t1"), made.text("payload", BAD), one) for one in (
        made.text(b"k\xfe", "value"), made.element(11, "r", b"\xffre\0i\0"), made.element(11, "r", b"re\0\xff\0"), made.element(13, "c", sized(b"c\xff")),
        made.element(14, "s", sized(b"s\xff")), made.element(15, "w", struct.pack("<i", 16) + sized(b"j\xff") + made.document()),
        made.element(12, "p", sized(b"p\xff") + bytes(12)), made.element(3, "d", made.document(made.text(b"\xff", ""))))]
    made.Segment(tmp_path / "t1.bin").data(strings, *others, made.message(2, "fine")).close()
    for form in ("relaxed", "canonical"):
        done = dump(tmp_path / "t1.bin", "--format", form)
        first, *raw, last = documents(done)
        assert first["payload"] == BAD.decode("utf-8", "replace") and first["list"] == ["\ufffd", {"q": "\ufffd"}]
        assert first["r"] == {"$regularExpression": {"pattern": "re", "options": "i"}} and first["c"] == {"$code": "c"}
        assert first["w"] == {"$code": "j", "$scope": {"q": "\ufffd"}} and first["s"] in ("s", {"$symbol": "s"}) and "p" in first
        assert [base64.b64decode(d["$pawlRaw"]["$binary"]["base64"]) for d in raw] == others and last["payload"] == "fine"
        assert done.returncode == 0 and done.stderr.count(b"U+FFFD") == 1 and done.stderr.count(b"$pawlRaw") == 1
    assert dump(tmp_path / "t1.bin", "--format", "payload", "-n", 1).stdout == BAD + b"\n"
    assert b"malformed" not in dump(tmp_path / "t1.bin", "--verify", "--deep").stdout


def test_not_printable_as_json(tmp_path):
    malformed = made.document(made.text("type", "t1"), b"\x02payload\0\xff\xff\xff\x7fabc")
    unknown = made.document(made.element(0x55, "x", b"12345678"))
    cut = struct.pack("<i", 8) + b"\x10ab\0"
    strange = [malformed, unknown, cut, deep_document(100000), deep_document(190), made.document(b"\0x\0")]
    made.Segment(tmp_path / "t1.bin").data(*strange, deep_document(150)).close()
    done = dump(tmp_path / "t1.bin")
    found = documents(done)
    assert [base64.b64decode(d["$pawlRaw"]["$binary"]["base64"]) for d in found[:-1]] == strange
    assert list(found[-1]) == ["_id", "type", "d"] and done.stdout.count(b'"d"') == 151
    assert done.returncode == 0 and done.stderr.count(b"$pawlRaw") == 1
    meta = documents(dump(tmp_path / "t1.bin", "--with-meta"))
    assert [m["seq"] for m in meta] == list(range(1, 8)) and meta[0]["message"] == found[0]
    assert b"".join(strange) + deep_document(150) == dump(tmp_path / "t1.bin", "--format", "bson").stdout
    assert dump(tmp_path / "t1.bin", "--format", "payload").stdout == b""
    verdict = dump(tmp_path / "t1.bin", "--verify", "--deep")
    assert b"6 malformed inside" in verdict.stdout and verdict.returncode == 0


def test_payload_of_other_types(tmp_path):
    def one(element):
        return made.document(made.text("type", "t1"), element)
    made.Segment(tmp_path / "t1.bin").data(
        one(made.element(16, "payload", struct.pack("<i", 7))), one(made.element(10, "payload", b"")), one(made.text("payload", "")),
        one(made.text("other", "x")), one(made.element(4, "payload", made.document(made.text("0", "a"))))).close()
    done = dump(tmp_path / "t1.bin", "--format", "payload")
    lines = done.stdout.split(b"\n")
    assert lines[:3] == [b"7", b"null", b""] and json.loads(lines[3]) == ["a"] and lines[4:] == [b""]


def test_deep_finds_doubtful_messages(tmp_path):
    made.Segment(tmp_path / "t1.bin").numbered(1, 2).numbered(3, 2).data(made.message(9, type="t2")).close()
    assert dump("--dir", tmp_path, "--verify").returncode == 0
    done = dump("--dir", tmp_path, "--verify", "--deep")
    assert done.returncode == 3 and done.stdout.startswith(b"t1: doubtful, 1 segment, 4 blocks, 5 documents, 5 messages")
    assert b"1 of another type, 1 repeated _id\n" in done.stdout and b"seq 4 has the _id of seq 2" in done.stderr


def test_hostile_lengths(tmp_path):
    """A marker that promises much makes nobody allocate it."""
    made.Segment(tmp_path / "t1.bin").data(made.message(1), decoded=0xfffffff0, codec=1)
    assert dump(tmp_path / "t1.bin").returncode == 0
    made.Segment(tmp_path / "t1.bin").add(made.DATA, made.message(1), 0xffffffff).add(made.CLOSE, made.document(), seq=2**63 - 1)
    assert dump(tmp_path / "t1.bin", "--keep-going").returncode == 0


# --- options, output --------------------------------------------------------------------------------------------

@pytest.mark.parametrize("arguments", [
    [], ["--format", "xml", "."], ["--type", "t1", "t1.bin"], ["--with-meta", "--format", "hex", "t1.bin"], ["--deep", "t1.bin"],
    ["--verify", "--tail", "3", "t1.bin"], ["--strict", "--unconfirmed", "t1.bin"], ["--follow", "--count", "t1.bin"],
    ["--since", "yesterday", "t1.bin"], ["--format", "blocks", "--tail", "1", "t1.bin"], ["--dir", ".", "t1.bin"],
    ["--follow", "-"]])
def test_usage(arguments):
    done = dump(*arguments)
    assert done.returncode == 2 and done.stdout == b"" and done.stderr


def test_missing(tmp_path):
    none = dump(tmp_path / "none.bin")
    assert none.returncode == 1 and bytes(tmp_path / "none.bin") in none.stderr
    assert dump("--dir", tmp_path / "none").returncode == 1
    assert dump(tmp_path).returncode == 1
    empty = dump("--dir", tmp_path)
    assert (empty.returncode, empty.stdout) == (0, b"")
    assert dump("--dir", tmp_path, "--type", "t1").returncode == 0


def long_segment(path, blocks=300):
    segment = made.Segment(path)
    for n in range(blocks):
        segment.numbered(*range(10 * n, 10 * n + 10))
    return segment.close()


def test_closed_pipe(tmp_path):
    long_segment(tmp_path / "t1.bin", 2000)
    process = subprocess.Popen([PROGRAM, tmp_path / "t1.bin"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait(60) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_full_disk():
    with open("/dev/full", "wb") as full:
        done = subprocess.run([PROGRAM, VECTORS / "t1.bin"], stdout=full, stderr=subprocess.PIPE, env=ENVIRONMENT)
    assert done.returncode == 1 and b"No space" in done.stderr


def test_seeks_in_a_long_file(tmp_path):
    long_segment(tmp_path / "t1.bin")
    for first in (1, 2, 10, 11, 1499, 2990, 2991, 3000):
        assert payloads(dump(tmp_path / "t1.bin", "--from-seq", first, "-n", 12)) == [f"m{n}" for n in range(first - 1, 3000)][:12]
    assert payloads(dump("--dir", tmp_path, "--tail", 15)) == [f"m{n}" for n in range(2985, 3000)]


# --- the ledger -------------------------------------------------------------------------------------------------

def ledger_of(segment, items=None, type="t1", **other):
    link = struct.unpack("<q", struct.pack("<Q", segment.link))[0]
    return {"_id": type, "v": 1, "epoch": 9, "owner": b"o" * 16, "clean": False, "file": segment.path.name, "uuid": bytes(segment.uuid),
            "length": segment.length, "tail": segment.tail, "link": bson.Int64(link), "seq": segment.seq - 1,
            "items": items or segment.seq - 1, "settled": 0} | other


def without_file(type, **more):
    return {"_id": type, "v": 1, "epoch": 3, "owner": b"o" * 16, "clean": True, "seq": 0, "items": 0, "settled": 0} | more


@pytest.fixture
def with_ledger():
    """Runs pawl-dump with a server that gives these answers, one after the other: a ledger, a list of them, or what fake_mongod.py names."""
    server = FakeMongod()

    def run(answers, *arguments, start=False, **more):
        answers = answers if isinstance(answers, tuple) else (answers,)
        server.answer(*([answer] if isinstance(answer, dict) and "_id" in answer else answer for answer in answers))
        command = [PROGRAM, "--uri", server.uri, *map(str, arguments)]
        if start:
            return subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT)
        return subprocess.run(command, capture_output=True, env=ENVIRONMENT, timeout=60, **more)
    run.server = server
    yield run
    server.shutdown()
    server.server_close()


def test_ledger_names_the_end(tmp_path, with_ledger):
    segment = made.Segment(tmp_path / "t1.bin").numbered(1, 2).numbered(3)
    line = ledger_of(segment)
    segment.numbered(4)
    for what in (["--dir", tmp_path], [tmp_path / "t1.bin"]):
        done = with_ledger(line, *what)
        assert (done.returncode, payloads(done)) == (0, ["m1", "m2", "m3"])
        assert with_ledger(line, *what, "--strict").returncode == 0
        more = with_ledger(line, *what, "--unconfirmed")
        assert (more.returncode, payloads(more)) == (0, ["m1", "m2", "m3", "m4"]) and b"seq 4 is unconfirmed" in more.stderr
        assert payloads(with_ledger(line, *what, "--tail", 2)) == ["m2", "m3"]
    assert with_ledger(line, "--dir", tmp_path, "--verify").returncode == 0
    flip(tmp_path / "t1.bin", segment.blocks[1] + 130)
    assert with_ledger(line, "--dir", tmp_path).returncode == 3
    raw = (tmp_path / "t1.bin").read_bytes()
    (tmp_path / "t1.bin").write_bytes(raw[:segment.blocks[1]])
    assert with_ledger(line, "--dir", tmp_path).returncode == 3
    assert dump("--dir", tmp_path).returncode == 0


def test_ledger_and_a_flipped_header(tmp_path, with_ledger):
    segment = made.Segment(tmp_path / "t1.bin").numbered(1, 2).numbered(3)
    line = ledger_of(segment)
    segment.numbered(4)
    flip(tmp_path / "t1.bin", 40)
    for what in (["--dir", tmp_path], [tmp_path / "t1.bin"]):
        assert with_ledger(line, *what).stdout == b""
        on = with_ledger(line, *what, "--keep-going", "--strict")
        assert (on.returncode, payloads(on)) == (3, ["m1", "m2", "m3"])
        verdict = with_ledger(line, *what, "--verify")
        assert verdict.returncode == 3 and b"3 documents, 3 messages, " in verdict.stdout and b"1 place, 0 documents gone" in verdict.stdout
    assert with_ledger(ledger_of(segment, uuid=bytes(16)), "--dir", tmp_path, "--keep-going").stdout == b""


def test_what_the_ledger_names_meanwhile_is_no_orphan(tmp_path, with_ledger):
    """The segment was made, and committed, between the look at the ledger and the one at the directory."""
    first = made.Segment(tmp_path / "t1.bin").numbered(1, 2).close()
    before = ledger_of(first, epoch=1)
    second = made.Segment(tmp_path / "t1@2.bin", epoch=2, predecessor=first, first_seq=first.seq, number=1, time=first.time)
    third = made.Segment(tmp_path / "t1@3.bin", epoch=3, predecessor=second, first_seq=second.seq, number=2, time=second.time)

    def said(after):
        done = with_ledger((before, after), "--dir", tmp_path)
        assert (done.returncode, payloads(done)) == (0, ["m1", "m2"])
        return done.stderr.decode()
    assert said(ledger_of(third, epoch=3)) == ""
    assert said(ledger_of(second, epoch=3)) == "pawl-dump: t1@3.bin: made in the current epoch 3, and not named by the ledger yet: not read (database pawl)\n"
    assert "t1@3.bin: an orphan" in said(ledger_of(second, epoch=4))
    assert "t1@3.bin: made in epoch 3, and the ledger is at 2, older than these files" in said(ledger_of(second, epoch=2))
    assert said(LOST) == said(ledger_of(second, v=2)) == ""


@pytest.mark.parametrize("wrong", [{"link": 0}, {"seq": 4}, {"tail": 4096}, {"length": 5000}, {"uuid": bytes(16)}, {"file": "t1@7.bin"}])
def test_ledger_disagrees(tmp_path, with_ledger, wrong):
    segment = made.Segment(tmp_path / "t1.bin").numbered(1, 2).numbered(3)
    assert with_ledger(ledger_of(segment, **wrong), "--dir", tmp_path).returncode == 3


def test_ledger_cannot_be_read(tmp_path, with_ledger):
    good = ledger_of(made.Segment(tmp_path / "t1.bin").numbered(1))
    for wrong, words in ({"file": "t2.bin"}, b"file is"), ({"uuid": b"u"}, b"uuid is"), ({"epoch": "9"}, b"epoch is"), ({"v": 2}, b"a newer pawl is needed"):
        done = with_ledger(good | wrong, tmp_path / "t1.bin")
        assert (done.returncode, done.stdout) == (1, b"") and words in done.stderr and b"the ledger of " in done.stderr, done
        verdict(with_ledger(good | wrong, "--dir", tmp_path, "--verify"), 1, "t1: unreadable, the ledger of ", words.decode(), "(database pawl)")
    for nothing in ([], without_file("t1")):
        assert with_ledger(nothing, "--dir", tmp_path, "--type", "t1").returncode == 0


@pytest.mark.parametrize("answer, code, words", [
    (LOST, 69, "reading the ledger: "), ({"code": 13, "errmsg": "not authorized"}, 2, "MongoDB does not permit it: "),
    ({"code": 18, "errmsg": "Authentication failed"}, 69, "MongoDB refuses these credentials: ")])
def test_ledger_cannot_be_asked(tmp_path, with_ledger, answer, code, words):
    made.Segment(tmp_path / "t1.bin").numbered(1)
    done = with_ledger(answer, tmp_path / "t1.bin")
    assert (done.returncode, done.stdout) == (code, b"") and words.encode() in done.stderr, done
    verdict(with_ledger(answer, tmp_path / "t1.bin", "--verify"), code, ": unreadable, ", words)


def test_server_that_cannot_be_used(tmp_path, with_ledger):
    made.Segment(tmp_path / "t1.bin").numbered(1)
    with_ledger.server.hello["msg"] = "isdbgrid"
    done = with_ledger([], "--dir", tmp_path)
    assert (done.returncode, done.stdout) == (2, b"") and b"the MongoDB URI leads to mongos" in done.stderr, done
    for uri, code in (f"mongodb://secret:word@127.0.0.1:{free_port()}/", 69), ("mongodb://secret:word@127.0.0.1:x/", 2):
        done = subprocess.run([PROGRAM, "--dir", tmp_path, "--uri", uri], capture_output=True, env=ENVIRONMENT, timeout=60)
        assert (done.returncode, done.stdout) == (code, b"") and b"secret" not in done.stderr and b"word" not in done.stderr.replace(b"password", b""), done


def test_one_connection_for_all_types(tmp_path, with_ledger):
    """And no other program asks."""
    names = ["t1", "t2", "t3"]
    ledgers = [ledger_of(made.Segment(tmp_path / f"{name}.bin", type=name).numbered(1, 2), type=name) for name in names]
    done = with_ledger(ledgers, "--dir", tmp_path, "--verify")
    assert done.returncode == 0 and re.findall(r"^(t\d): ok, 1 segment", done.stdout.decode(), re.M) == names, done
    assert len(with_ledger.server.askers) == 1 and with_ledger.server.programs == {"pawl-dump@pawl"}


def test_a_lost_answer_is_asked_for_again(tmp_path, with_ledger):
    """The connection may have ended since the last answer. Where the second question has no answer either, none is made up."""
    ledger = ledger_of(made.Segment(tmp_path / "t1.bin").numbered(1, 2))
    done = with_ledger((ledger, LOST, ledger), "--dir", tmp_path, "--verify")
    assert done.returncode == 0 and done.stdout.startswith(b"t1: ok, 1 segment") and len(with_ledger.server.askers) == 2, done
    verdict(with_ledger((ledger, LOST, LOST), "--dir", tmp_path, "--verify"), 69, "t1: unreadable, reading the ledger: ")


def test_without_uri_nothing_is_left_of_the_driver(tmp_path, follow):
    """Which keeps a file of counters for each process."""
    made.Segment(tmp_path / "t1.bin").numbered(1).close()
    more = {name: value for name, value in ENVIRONMENT.items() if name != "MONGOC_DISABLE_SHM"}
    follower = follow(process=subprocess.Popen([PROGRAM, "--dir", tmp_path, "-f"], stdout=subprocess.PIPE, env=more))
    assert follower.lines(1) == ["m1"]
    assert len(os.listdir(f"/proc/{follower.process.pid}/task")) == 1 and not os.path.exists(f"/dev/shm/mongoc-{follower.process.pid}")


# --- green means looked at ---------------------------------------------------------------------------------------

def verdict(done, code, *words):
    """One line, with all these words in it, and not `ok`."""
    text = done.stdout.decode()
    assert done.returncode == code and text.count("\n") == 1 and ": ok" not in text and all(word in text for word in words), (done, words)
    return text


def test_nothing_to_verify_is_not_ok(tmp_path):
    verdict(dump("--dir", tmp_path, "--verify"), 1, f"{tmp_path}: absent, nothing to verify")
    verdict(dump("--dir", tmp_path / "none", "--verify"), 1, f"{tmp_path}/none: unreadable", "No such file")
    made.Segment(tmp_path / "t1.bin").numbered(1).close()
    for name in ("t2", "T1"):
        verdict(dump("--dir", tmp_path, "--type", name, "--verify"), 1, f"{name}: absent, nothing to verify: {tmp_path} holds no segment of")
    both = dump("--dir", tmp_path, "--type", "t1,t2", "--verify")
    assert both.returncode == 1 and both.stdout.startswith(b"t1: ok, 1 segment") and b"\nt2: absent" in both.stdout
    (tmp_path / "t3@5.bin").write_bytes((tmp_path / "t1.bin").read_bytes()[:4095])
    verdict(dump("--dir", tmp_path, "--type", "t3", "--verify"), 1, "t3: absent, ", "no whole segment of type t3, only t3@5.bin")
    bare = made.Segment(tmp_path / "t4.bin", type="t4")
    assert dump(bare.path, "--verify").stdout.startswith(b"%s: ok, 1 segment, 0 blocks, 0 documents, 0 messages" % bytes(bare.path))


def test_what_is_not_a_pawl_file(tmp_path):
    text = b"a text, and as long as it takes to be longer than a header\n"
    for count in (1, 1000):
        (tmp_path / "x.bin").write_bytes(text * count)
        for what in ([tmp_path / "x.bin"], ["--dir", tmp_path], ["--dir", tmp_path, "--type", "x"]):
            verdict(dump(*what, "--verify"), 3, "x", ": not a pawl file, ")
        for what in ([tmp_path / "x.bin"], ["--dir", tmp_path]):
            assert b"not a pawl file" in dump(*what).stderr
    (tmp_path / "x.bin").write_bytes(b"")
    verdict(dump(tmp_path / "x.bin", "--verify"), 3, "it is empty")
    verdict(dump("--dir", tmp_path, "--verify"), 1, "x: absent, ")
    (tmp_path / "x.bin").unlink()
    (tmp_path / "x.bin").mkdir()
    for what in ([tmp_path / "x.bin"], [f"{tmp_path}/x.bin/"], [tmp_path], ["--dir", tmp_path]):
        verdict(dump(*what, "--verify"), 1, "unreadable", "not a pawl file")
    (tmp_path / "x.bin").rmdir()
    os.mkfifo(tmp_path / "x.bin")
    for what in ([tmp_path / "x.bin"], ["--dir", tmp_path]):
        verdict(dump(*what, "--verify"), 1, "unreadable", "not a pawl file")
    os.remove(tmp_path / "x.bin")
    (tmp_path / "x.bin").symlink_to("x.bin")
    for what in ([tmp_path / "x.bin"], ["--dir", tmp_path]):
        verdict(dump(*what, "--verify"), 1, "unreadable", "symbolic links")


def test_every_type_of_the_ledger_is_verified(tmp_path, with_ledger):
    """Whatever lies in the directory: an empty one, or one that is not mounted, holds none of its files."""
    empty = tmp_path / "empty"
    empty.mkdir()
    ledger = ledger_of(made.Segment(tmp_path / "t1.bin").numbered(1, 2))
    found = verdict(with_ledger(ledger, "--dir", empty, "--verify"), 3, "t1: missing, ", "database pawl names t1.bin")
    assert "with 2 documents" in found
    lock = without_file("nightly")
    assert with_ledger([lock, ledger], "--dir", tmp_path, "--verify").stdout.startswith(b"t1: ok, 1 segment")
    for nothing in (lock, []):
        verdict(with_ledger(nothing, "--dir", empty, "--verify"), 1, "absent, ", "no ledger names one in database pawl")
    verdict(with_ledger(without_file("t1"), "--dir", empty, "--type", "t1", "--verify"), 1, "t1: absent, ", "names no file")
    verdict(with_ledger(ledger | {"seq": -1}, "--dir", empty, "--verify"), 1, "t1: unreadable, the ledger of ", "seq is -1")
    (tmp_path / "t1.bin").rename(tmp_path / "t1@7.bin")
    verdict(with_ledger(ledger, "--dir", tmp_path, "--verify"), 3, "t1: missing, ")


@pytest.mark.parametrize("answer, code, words", [
    (LOST, 69, "listing the ledgers: "), (BROKEN, 69, "listing the ledgers: "), ({"code": 13, "errmsg": "not authorized"}, 2, "MongoDB does not permit it: ")])
def test_only_a_whole_list_counts(tmp_path, with_ledger, answer, code, words):
    line = ledger_of(made.Segment(tmp_path / "t1.bin").numbered(1))
    verdict(with_ledger((answer, line), "--dir", tmp_path, "--verify"), code, f"{tmp_path}: unreadable, ", words)


def test_a_device_is_no_pipe(tmp_path):
    for arguments in (["/dev/zero"], ["/dev/zero", "--verify"]):
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, env=ENVIRONMENT, timeout=60,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 24, 1 << 24)))
        assert done.returncode == 1 and b"/dev/zero: not a pawl file: " in done.stdout + done.stderr, done
    with open("/dev/zero", "rb") as zero:
        done = subprocess.run([PROGRAM, "-"], stdin=zero, capture_output=True, env=ENVIRONMENT, timeout=60,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 24, 1 << 24)))
    assert done.returncode == 1 and b"standard input: not a pawl file: " in done.stderr, done


def test_a_ledger_that_does_not_know_the_file(tmp_path, with_ledger):
    segment = made.Segment(tmp_path / "t1.bin").numbered(1, 2).close()
    for what in (["--dir", tmp_path], ["--dir", tmp_path, "--type", "t1"], [tmp_path / "t1.bin"]):
        verdict(with_ledger(without_file("t1"), *what, "--db", "wrong", "--verify"), 3, ": unknown, ", "in database wrong")
    copy = tmp_path / "t1@9.bin"
    shutil.copy(segment.path, copy)
    verdict(with_ledger(ledger_of(segment), copy, "--verify"), 3, ": unknown, ")
    os.remove(copy)
    made.Segment(tmp_path / "t2.bin", type="t2")  # a bare header: made, and not committed yet
    os.remove(tmp_path / "t1.bin")
    made.Segment(tmp_path / "t1.bin")
    verdict(with_ledger(without_file("t1"), "--dir", tmp_path, "--type", "t1", "--verify"), 1, "t1: absent, nothing to verify")


def test_a_type_whose_first_file_is_named_meanwhile(tmp_path, with_ledger):
    segment = made.Segment(tmp_path / "t1.bin").numbered(1)
    done = with_ledger((without_file("t1"), ledger_of(segment)), "--dir", tmp_path, "--type", "t1", "--verify")
    assert done.stdout.startswith(b"t1: ok, 1 segment")


def test_a_ledger_older_than_the_file(tmp_path, with_ledger):
    """Restored from a backup. What one write may have left behind the end proves nothing."""
    segment = made.Segment(tmp_path / "t1.bin").numbered(1, 2)
    old = ledger_of(segment, epoch=2)
    sources = (["--dir", tmp_path], [tmp_path / "t1.bin"])

    def ok(line=old):
        return all(with_ledger(line, *what, "--verify").stdout.split(b": ")[1].startswith(b"ok,") for what in sources)
    segment.numbered(3)
    assert ok()
    segment.close()
    for what in sources:
        verdict(with_ledger(old, *what, "--verify"), 3, ": stale ledger, ", "in database pawl ends at")
        before = [old] * len(what)  # of a directory it asks for the list, too
        assert b": ok," in with_ledger((*before, ledger_of(segment, epoch=2)), *what, "--verify").stdout  # a live one: it went on meanwhile
    line = ledger_of(segment, epoch=2)
    segment.open(2).numbered(4)
    assert ok(line)
    for what in sources:
        verdict(with_ledger(line | {"epoch": 1}, *what, "--verify"), 3, "was written in epoch 2", "at epoch 1")


def test_a_ledger_older_than_the_newest_segment(tmp_path, with_ledger):
    first = made.Segment(tmp_path / "t1.bin").numbered(1, 2).close()
    before = ledger_of(first, epoch=1)
    second = made.Segment(tmp_path / "t1@2.bin", epoch=2, predecessor=first, first_seq=first.seq, number=1, time=first.time)
    verdict(with_ledger(before, "--dir", tmp_path, "--verify"), 3, "t1: stale ledger, t1@2.bin was written in epoch 2")
    assert b": ok," in with_ledger(ledger_of(first, epoch=2), "--dir", tmp_path, "--verify").stdout  # an orphan, or about to be named
    second.numbered(3).numbered(4)
    verdict(with_ledger(ledger_of(first, epoch=2), "--dir", tmp_path, "--verify"), 3, "t1: stale ledger, t1@2.bin proves", "does not lead to it")
    assert b": ok," in with_ledger((before, before, ledger_of(second, epoch=2)), "--dir", tmp_path, "--verify").stdout


# --- what is read -----------------------------------------------------------------------------------------------

def test_type_and_dir_of_the_environment_are_not_for_files(tmp_path):
    made.Segment(tmp_path / "t1.bin").numbered(1).close()
    (tmp_path / "shared.conf").write_text(f"type = t2\ndir = {tmp_path}/none\n")
    for more in ({"PAWL_TYPE": "t2"}, {"PAWL_DIR": "/none"}, {"PAWL_TYPE": "t 2", "PAWL_DIR": "/none"}, {"PAWL_CONFIG": str(tmp_path / "shared.conf")}):
        done = dump(tmp_path / "t1.bin", **more)
        assert (done.returncode, payloads(done)) == (0, ["m1"]), more
    assert payloads(dump(PAWL_TYPE="t1", PAWL_DIR=str(tmp_path))) == ["m1"]


def test_a_symbolic_link_is_followed(tmp_path):
    (tmp_path / "data").mkdir()
    made.Segment(tmp_path / "data/t1.bin").numbered(1).close()
    (tmp_path / "newest").symlink_to("data/t1.bin")
    (tmp_path / "again").symlink_to("newest")
    assert payloads(dump(tmp_path / "again")) == ["m1"]
    assert dump(tmp_path / "again", "--verify").stdout.startswith(bytes(tmp_path / "again") + b": ok, 1 segment")


def test_standard_input_and_pipes(tmp_path, with_ledger):
    segment = made.Segment(tmp_path / "t1.bin").numbered(1, 2).numbered(3)
    line = ledger_of(segment)
    segment.numbered(4).numbered(5)
    raw = (tmp_path / "t1.bin").read_bytes()

    def piped(data, *arguments, name="-"):
        return subprocess.run([PROGRAM, name, *arguments], input=data, capture_output=True, env=ENVIRONMENT, timeout=60)
    for name in ("-", "/dev/stdin", "/dev/fd/0"):
        done = piped(raw, name=name)
        assert (done.returncode, payloads(done)) == (0, numbers(1, 5))
    assert payloads(piped(raw, "--tail", "2", "--strict")) == numbers(3, 4)
    assert piped(raw, "--verify").stdout.startswith(b"-: ok, 1 segment, 4 blocks, 5 documents")
    assert piped(raw, "--format", "blocks").stdout.startswith(b"standard input 4096 data 0 ")
    assert b"damaged: " in piped(raw[:4500] + b"x" + raw[4501:]).stderr
    for data in (b"", b"text\n" * 2000):
        verdict(piped(data, "--verify"), 3, "-: ")
    assert b"not a pawl file" in piped(b"text\n" * 2000).stderr
    with open(tmp_path / "t1.bin", "rb") as file:
        done = subprocess.run([PROGRAM, "-"], stdin=file, capture_output=True, env=ENVIRONMENT, timeout=60)
    assert payloads(done) == numbers(1, 5)
    done = subprocess.run(["bash", "-c", f'"{PROGRAM}" <(cat "{tmp_path}/t1.bin")'], capture_output=True, env=ENVIRONMENT, timeout=60)
    assert (done.returncode, payloads(done)) == (0, numbers(1, 5))
    os.mkfifo(tmp_path / "pipe")
    writer = subprocess.Popen(["sh", "-c", 'cat "$1" > "$2"', "sh", tmp_path / "t1.bin", tmp_path / "pipe"])
    assert payloads(dump(tmp_path / "pipe")) == numbers(1, 5)
    assert writer.wait(60) == 0
    assert b"No such file" in dump(tmp_path / "t1.bin", "-", TMPDIR="/none").stderr
    segment = made.Segment(tmp_path / "t1.bin").numbered(1)
    with open(tmp_path / "t1.bin", "rb") as file:
        done = with_ledger(ledger_of(segment), "-", "--strict", stdin=file)
    assert (done.returncode, payloads(done)) == (0, ["m1"])


# --- follow -----------------------------------------------------------------------------------------------------

class Follower:
    def __init__(self, *arguments, process=None):
        self.process = process or subprocess.Popen([PROGRAM, *map(str, arguments), "--follow"], stdout=subprocess.PIPE,
                                                   stderr=subprocess.PIPE, env=ENVIRONMENT)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.text = b""

    def lines(self, count, seconds=20):
        """The first `count` payloads, waited for."""
        deadline = time.monotonic() + seconds
        while self.text.count(b"\n") < count and time.monotonic() < deadline:
            self.text += self.process.stdout.read() or b""
            time.sleep(0.01)
        return self.so_far()

    def so_far(self):
        self.text += self.process.stdout.read() or b""
        return [json.loads(line)["payload"] for line in self.text.splitlines()]

    def end(self, by=signal.SIGTERM):
        self.process.send_signal(by)
        return self.process.wait(20)


@pytest.fixture
def follow():
    followers = []

    def start(*arguments, **more):
        followers.append(Follower(*arguments, **more))
        return followers[-1]
    yield start
    for follower in followers:
        follower.process.kill()
        follower.process.wait()


def numbers(first, last):
    return [f"m{n}" for n in range(first, last + 1)]


def test_follow_prints_what_is_confirmed(tmp_path, follow):
    segment = made.Segment(tmp_path / "t1.bin").numbered(1).numbered(2, 3)
    follower = follow("--dir", tmp_path, "--type", "t1")
    assert follower.lines(1) == numbers(1, 1)
    segment.numbered(4)
    assert follower.lines(3) == numbers(1, 3)
    segment.close()
    assert follower.lines(4) == numbers(1, 4)
    segment.open(2).numbered(5).numbered(6)
    assert follower.lines(5) == numbers(1, 5)
    assert follower.end() == 0


def test_follow_over_a_cut(tmp_path, follow):
    """An unconfirmed block is cut off by the next holder, who writes others: nothing of it is ever printed."""
    segment = made.Segment(tmp_path / "t1.bin").numbered(1).numbered(2)
    state = (segment.length, segment.seq, segment.tail, segment.link, list(segment.blocks), list(segment.skips), segment.time)
    segment.numbered(66, 67)
    follower = follow("--dir", tmp_path)
    assert follower.lines(2) == numbers(1, 2)
    segment.length, segment.seq, segment.tail, segment.link, segment.blocks, segment.skips, segment.time = state
    os.truncate(tmp_path / "t1.bin", segment.length)
    segment.open(2).numbered(3).numbered(4).numbered(5)
    assert follower.lines(4) == numbers(1, 4)
    assert follower.end(signal.SIGINT) == 0


def test_follow_unconfirmed(tmp_path, follow):
    segment = made.Segment(tmp_path / "t1.bin").numbered(1)
    follower = follow(tmp_path / "t1.bin", "--unconfirmed")
    assert follower.lines(1) == numbers(1, 1)
    segment.numbered(2)
    assert follower.lines(2) == numbers(1, 2)
    segment.numbered(3).close()
    assert follower.lines(3) == numbers(1, 3)
    assert follower.end() == 0


def test_follow_over_a_roll_and_new_types(tmp_path, follow):
    first = made.Segment(tmp_path / "t1.bin").numbered(1).numbered(2)
    both, one = follow("--dir", tmp_path), follow(tmp_path / "t1.bin")
    assert both.lines(1) == one.lines(1) == numbers(1, 1)
    first.close()
    second = made.Segment(tmp_path / "t1@2.bin", epoch=2, predecessor=first, first_seq=first.seq, number=1, time=first.time)
    second.numbered(3).numbered(4)
    assert both.lines(3) == numbers(1, 3)
    assert one.lines(2) == numbers(1, 2) and one.process.wait(20) == 0
    made.Segment(tmp_path / "t2.bin", type="t2").numbered(7).close()
    assert both.lines(4) == numbers(1, 3) + ["m7"]
    second.close()
    assert both.lines(5) == numbers(1, 3) + ["m7", "m4"]
    assert both.end() == 0


def told(follower, words, seconds=60):
    """What it says on stderr, waited for until all the words are in it."""
    os.set_blocking(follower.process.stderr.fileno(), False)
    deadline, text = time.monotonic() + seconds, ""
    while not all(word in text for word in words):
        assert time.monotonic() < deadline, (words, text)
        text += (follower.process.stderr.read() or b"").decode()
        time.sleep(0.01)
    return text


def test_follow_says_what_it_holds_back(tmp_path, follow):
    segment = made.Segment(tmp_path / "t1.bin").numbered(1)
    follower = follow("--dir", tmp_path, "--type", "t1")
    said = told(follower, ["t1: the document with seq 1 is unconfirmed: held back until a block follows"])
    segment.numbered(2, 3)
    assert follower.lines(1) == numbers(1, 1)
    said += told(follower, ["the documents with seq 2..3 are unconfirmed: held back"])
    assert said.count("\n") == 2
    quiet = follow(tmp_path / "t1.bin", "-q")
    segment.close()
    assert follower.lines(3) == quiet.lines(3) == numbers(1, 3)
    assert follower.end() == quiet.end() == 0 and not quiet.process.stderr.read()


@pytest.mark.parametrize("what,code,words", [("remove", 1, "it was removed"), ("rename", 1, "it was removed or renamed"),
                                             ("replace", 1, "another file was put in its place"), ("copy", 1, "another file was put in its place"),
                                             ("cut", 3, "it was cut, and committed documents are gone"), ("empty", 3, "it was cut")])
@pytest.mark.parametrize("single", [True, False])
def test_follow_says_what_happened_to_the_file(tmp_path, follow, what, code, words, single):
    path, other = tmp_path / "t1.bin", tmp_path / "other"
    segment = made.Segment(path).numbered(1).numbered(2).numbered(3)
    follower = follow(*([path] if single else ["--dir", tmp_path, "--type", "t1"]))
    assert follower.lines(2) == numbers(1, 2)
    if what == "replace":
        made.Segment(other).numbered(7).close()
    if what == "copy":
        shutil.copy(path, other)
    if other.exists():
        other.rename(path)
    elif what == "remove":
        path.unlink()
    elif what == "rename":
        path.rename(other)
    else:
        os.truncate(path, segment.blocks[1] + 10 if what == "cut" else 0)
    told(follower, ["t1.bin: " + words, "it is not followed any more"])
    assert follower.process.wait(60) == code and follower.so_far() == numbers(1, 2)


def test_follow_into_a_segment_with_blocks_at_the_same_offsets(tmp_path, follow):
    """The place behind the last confirmed block is one of its own segment, and says nothing of the next."""
    first = made.Segment(tmp_path / "t1.bin").numbered(1, 2).close()
    second = made.Segment(tmp_path / "t1@2.bin", epoch=2, predecessor=first, first_seq=first.seq, number=1, time=first.time)
    follower = follow("--dir", tmp_path)
    assert follower.lines(2) == numbers(1, 2)
    second.numbered(3, 4)
    second.close()
    assert follower.lines(4) == numbers(1, 4)
    assert follower.end() == 0


def test_follow_an_empty_folder_with_limit_and_tail(tmp_path, follow):
    follower = follow("--dir", tmp_path, "--type", "t1", "-n", 2)
    segment = made.Segment(tmp_path / "t1.bin").numbered(1, 2, 3).numbered(4)
    assert follower.lines(2) == numbers(1, 2) and follower.process.wait(20) == 0
    tail = follow("--dir", tmp_path, "--tail", 1)
    assert tail.lines(1) == ["m3"]
    segment.close()
    assert tail.lines(2) == ["m3", "m4"]
    assert tail.end() == 0


def test_follow_ends_with_its_reader(tmp_path, follow):
    made.Segment(tmp_path / "t1.bin").numbered(1).close()
    follower = follow("--dir", tmp_path)
    assert follower.lines(1) == numbers(1, 1)
    follower.process.stdout.close()
    assert follower.process.wait(20) == 0


def test_follow_with_ledger(tmp_path, with_ledger, follow):
    segment = made.Segment(tmp_path / "t1.bin").numbered(1)
    follower = follow(process=with_ledger(ledger_of(segment), "--dir", tmp_path, "--type", "t1", "--follow", start=True))
    assert follower.lines(1) == numbers(1, 1)
    segment.numbered(2)
    with_ledger.server.answers = [LOST, [ledger_of(segment)]]
    assert follower.lines(2) == numbers(1, 2)
    before = set(with_ledger.server.askers)
    segment.numbered(3)
    with_ledger.server.answers = [[ledger_of(segment)]]
    assert follower.lines(3) == numbers(1, 3)
    assert len(before) == 2 and with_ledger.server.askers == before
    assert follower.end() == 0
