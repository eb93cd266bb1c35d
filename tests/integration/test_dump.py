"""pawl-dump against the golden files of tests/vectors, and against strange ones made here. Needs no mongod."""
import base64
import json
import os
import re
import struct
import subprocess
from pathlib import Path

import pytest

import segment as made
from dumping import (ENVIRONMENT, VECTORS, documents, dump, expected, flip, ledger_of, numbers, payloads, run_dump, start_dump, verdict)
from harness import program


# --- the golden files ---


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
        blocks = dump("--dir", VECTORS, "--format", "blocks").stdout.splitlines()
        since = dump("--dir", VECTORS, "--format", "blocks", "--since", moment).stdout.splitlines()
        assert since == [line for line in blocks if line.split()[12].decode() >= moment]
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
    assert lines[-2][9:11] == ["107", "5245"] and lines[-2][13] == "ac3a034b:4a49866e"  # the worked example of docs/format.md
    assert len(dump("--dir", VECTORS, "--format", "blocks", "-n", 3).stdout.splitlines()) == 3


@pytest.mark.parametrize("form", [["--format", "blocks"], ["--format", "summary"], ["--timeline"]], ids=["blocks", "summary", "timeline"])
def test_the_unconfirmed_block(tmp_path, form):
    """It is the last of the file, and not the last that is shown; --strict leaves it out."""
    said = b"t1.bin: the last block, at offset "

    def shows(*more):
        (tmp_path / "picture.svg").unlink(missing_ok=True)
        return dump(VECTORS / "t1.bin", *form, *([tmp_path / "picture.svg"] if "--timeline" in form else []), *more)

    whole, strict = shows(), shows("--strict")
    assert whole.returncode == 0 and re.search(said + rb"\d+, is unconfirmed\n", whole.stderr), whole
    assert strict.returncode == 5 and re.search(said + rb"\d+, is unconfirmed: left out\n", strict.stderr), strict
    if form[0] == "--format":
        shown, left = whole.stdout.splitlines(), strict.stdout.splitlines()
        assert shown[:-1] == left if form[1] == "blocks" else b" 28 documents" in shown[0] and b" 27 documents" in left[0], (whole, strict)
    for some in ["-n", 1], ["--to-seq", 3], ["--to-seq", 27]:
        if some[0] != "-n" or "blocks" in form:
            done = shows(*some, "--strict")
            assert (done.returncode, b"unconfirmed" in done.stderr) == (0, False), (some, done)


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


def test_strict_and_keep_going_read_each_type(tmp_path):
    made.Segment(tmp_path / "t1.bin").numbered(1).numbered(2)
    made.Segment(tmp_path / "t2.bin", type="t2").data(made.message(1, type="t2")).close()
    done = dump("--dir", tmp_path, "--strict")
    assert (done.returncode, [d["type"] for d in documents(done)]) == (5, ["t1", "t2"]), done
    flip(tmp_path / "t1.bin", (tmp_path / "t1.bin").read_bytes().index(b"m1"))
    done = dump("--dir", tmp_path, "--keep-going")
    assert (done.returncode, [d["type"] for d in documents(done)]) == (3, ["t1", "t2"]), done
    assert dump("--dir", tmp_path).stdout == b""


# --- what is inside a message ---


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


def test_deep_finds_each_alone(tmp_path):
    made.Segment(tmp_path / "t1.bin").numbered(1, 2).numbered(3, 2).close()
    made.Segment(tmp_path / "t2.bin", type="t2").data(made.message(1, type="t2")).data(made.message(9)).close()
    done = dump("--dir", tmp_path, "--verify", "--deep")
    assert done.returncode == 3 and [line.split(b",")[0] for line in done.stdout.splitlines()] == [b"t1: doubtful", b"t2: doubtful"], done


def test_deep_knows_own_collections(tmp_path):
    """Where a type has its own collection a message needs no `type`."""
    bare = made.document(made.element(16, "_id", struct.pack("<i", 7)), made.text("payload", "x"))
    made.Segment(tmp_path / "t1.bin").data(bare, made.message(1)).close()
    done = dump("--dir", tmp_path, "--verify", "--deep")
    assert done.returncode == 0 and done.stdout.startswith(b"t1: ok, "), done


def test_deep_counts_messages(tmp_path):
    made.Segment(tmp_path / "t1.bin").numbered(1, 2).data(made.message(3), items=2).close()
    done = dump("--dir", tmp_path, "--verify", "--deep")
    assert b"messages miscounted in 1 block" in done.stdout, done


def test_hostile_lengths(tmp_path):
    """A marker that promises much makes nobody allocate it."""
    made.Segment(tmp_path / "t1.bin").data(made.message(1), decoded=0xfffffff0, codec=1)
    assert dump(tmp_path / "t1.bin").returncode == 0
    made.Segment(tmp_path / "t1.bin").add(made.DATA, made.message(1), 0xffffffff).add(made.CLOSE, made.document(), seq=2**63 - 1)
    assert dump(tmp_path / "t1.bin", "--keep-going").returncode == 0


# --- options, output ---


@pytest.mark.parametrize("arguments", [
    [], ["--format", "xml", "."], ["--type", "t1", "t1.bin"], ["--with-meta", "--format", "hex", "t1.bin"], ["--deep", "t1.bin"],
    ["--verify", "--tail", "3", "t1.bin"], ["--strict", "--unconfirmed", "t1.bin"], ["--follow", "--count", "t1.bin"],
    ["--since", "yesterday", "t1.bin"], ["--format", "blocks", "--tail", "1", "t1.bin"], ["--dir", ".", "t1.bin"],
    ["--follow", "-"], ["--follow", "--format", "blocks", "t1.bin"], ["--format", "summary", "--limit", "1", "t1.bin"]])
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
    process = start_dump(tmp_path / "t1.bin")
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait(60) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_full_disk():
    with open("/dev/full", "wb") as full:
        done = run_dump(VECTORS / "t1.bin", stdout=full)
    assert done.returncode == 1 and b"No space" in done.stderr


def test_seeks_in_a_long_file(tmp_path):
    long_segment(tmp_path / "t1.bin")
    for first in (1, 2, 10, 11, 1499, 2990, 2991, 3000):
        assert payloads(dump(tmp_path / "t1.bin", "--from-seq", first, "-n", 12)) == [f"m{n}" for n in range(first - 1, 3000)][:12]
    assert payloads(dump("--dir", tmp_path, "--tail", 15)) == [f"m{n}" for n in range(2985, 3000)]


# --- what is read ---


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
    made.Segment(tmp_path / "t1.bin").numbered(1, 2).numbered(3).numbered(4).numbered(5)
    raw = (tmp_path / "t1.bin").read_bytes()

    def piped(data, *arguments, name="-"):
        return run_dump(name, *arguments, input=data)
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
        done = run_dump("-", stdin=file)
    assert payloads(done) == numbers(1, 5)
    done = subprocess.run(["bash", "-c", f'"{program("pawl-dump")}" <(cat "{tmp_path}/t1.bin")'], capture_output=True, env=ENVIRONMENT, timeout=60)
    assert (done.returncode, payloads(done)) == (0, numbers(1, 5))
    os.mkfifo(tmp_path / "pipe")
    writer = subprocess.Popen(["sh", "-c", 'cat "$1" > "$2"', "sh", tmp_path / "t1.bin", tmp_path / "pipe"])
    assert payloads(dump(tmp_path / "pipe")) == numbers(1, 5)
    assert writer.wait(60) == 0
    assert b"No such file" in dump(tmp_path / "t1.bin", "-", TMPDIR="/none").stderr
    (tmp_path / "copies").mkdir()
    assert payloads(run_dump("-", input=raw, env=ENVIRONMENT | {"TMPDIR": str(tmp_path / "copies")})) == numbers(1, 5)
    assert os.listdir(tmp_path / "copies") == []
    segment = made.Segment(tmp_path / "t1.bin").numbered(1)
    with open(tmp_path / "t1.bin", "rb") as file:
        done = with_ledger(ledger_of(segment), "-", "--strict", stdin=file)
    assert (done.returncode, payloads(done)) == (0, ["m1"])
