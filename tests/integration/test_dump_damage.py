"""pawl-dump on damaged files: what is gone is told, and nothing is printed that was not there."""
import json
import errno
import random
import shutil

import pytest

import segment as made
from disks import FaultyDisk
from dumping import ENVIRONMENT, VECTORS, documents, dump, expected, flip, payloads, run_dump, verdict


@pytest.fixture
def vectors(tmp_path):
    folder = tmp_path / "vectors"
    shutil.copytree(VECTORS, folder)
    return folder


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
                assert done.returncode in (3, 4), (name, at)  # 4 where the bit says that it is of a newer format
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
    verdict(dump("--dir", vectors, "--verify"), 3, "t1: damaged", "27 documents gone")


def test_offline_tail_is_no_damage(vectors):
    """The newest file, cut anywhere: what is before the cut, and exit 0."""
    raw = (vectors / "t1@6.bin").read_bytes()
    lines = [line.split() for line in dump(vectors / "t1@6.bin", "--format", "blocks").stdout.splitlines()]
    ends = {4096, *(int(line[1]) + 128 + int(line[9]) for line in lines)}
    for length in sorted(ends | set(range(4096, len(raw), 37))):
        (vectors / "t1@6.bin").write_bytes(raw[:length])
        done = dump("--dir", vectors)
        count = 27 + (length >= 4513) + 5 * (length >= 4748)
        assert (done.returncode, documents(done)) == (0, expected()[:count]), length
        assert (b"t1@6.bin: at offset " in done.stderr and b"begins an uncommitted tail, not read" in done.stderr) == (length not in ends), length
        if length % 5 == 0:
            assert (b", then an uncommitted tail" in dump("--dir", vectors, "--verify").stdout) == (length not in ends), length
            assert (b"begins an uncommitted tail" in dump("--dir", vectors, "--format", "blocks").stderr) == (length not in ends), length


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


def test_strict_believes_what_damage_proves(tmp_path):
    """What proves the damage proves, too, that all before it was committed."""
    path = made.Segment(tmp_path / "t1.bin").numbered(1).numbered(2).numbered(3).numbered(4).path
    flip(path, path.read_bytes().index(b"m3"))
    done = dump(path, "--strict")
    assert (done.returncode, payloads(done)) == (3, ["m1", "m2"]), done


def test_the_gravest_of_several(tmp_path):
    """3, then 1, then 4."""
    damaged = made.Segment(tmp_path / "t1.bin").numbered(1).numbered(2).numbered(3).path
    flip(damaged, damaged.read_bytes().index(b"m2"))
    (tmp_path / "t2.bin").mkdir()
    made.Segment(tmp_path / "a.bin", type="a", version=2)
    made.Segment(tmp_path / "z.bin", type="z", version=2)
    for code, gone in (3, damaged), (1, tmp_path / "t2.bin"), (4, None):
        assert dump("--dir", tmp_path, "--verify").returncode == code
        if gone:
            gone.rmdir() if gone.is_dir() else gone.unlink()


def test_damage_is_graver_than_what_stops_the_reading(tmp_path):
    """The verdict says both."""
    path = made.Segment(tmp_path / "t1.bin").numbered(1).numbered(2).data(made.message(3), flags=1).path
    flip(path, path.read_bytes().index(b"m1"))
    verdict(dump(path, "--verify"), 3, "t1.bin: damaged, ", "damaged in 1 place, 1 document gone, not read to its end: ", "a newer pawl")
    assert dump(path, "--keep-going").returncode == 3


@pytest.mark.parametrize("how", [[], ["--verify"], ["--format", "blocks"], ["--tail", "2"], ["--tail", "2", "--where", "type=t1"]],
                         ids=["messages", "verify", "blocks", "tail", "tail-where"])
def test_a_disk_that_fails_while_it_is_read(tmp_path, faulty_disk, how):
    """Whichever read it is: exit 1, and what is incomplete does not seem complete."""
    (tmp_path / "files").mkdir()
    segment = made.Segment(tmp_path / "files/t1.bin").numbered(1)
    for n in range(2, 6):
        segment.numbered(n)
    disk = FaultyDisk(faulty_disk, tmp_path, tmp_path / "files")
    whole, failures = dump(segment.path, *how), 0
    for reads in range(1, 40):  # more than it makes
        disk.rule(f"pread t1.bin {reads} {errno.EIO}")
        done = run_dump(segment.path, *how, env=ENVIRONMENT | {name: str(value) for name, value in disk.env.items()})
        if done.returncode == 0:  # a search may fail: then it reads from the beginning
            assert done.stdout == whole.stdout, (reads, done)
            continue
        failures += 1
        assert done.returncode == 1 and b"Input/output error" in done.stdout + done.stderr, (reads, done)
        assert b": unreadable, " in done.stdout if how == ["--verify"] else whole.stdout.startswith(done.stdout) and done.stdout != whole.stdout, done
    assert failures > 5
