"""pawl-dump --follow: it prints what is confirmed, and says what it holds back and what became of the file."""
import os
import shutil
import signal

import pytest

import segment as made
from dumping import (ledger_of, numbers, told)
from fake_mongod import LOST


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


def test_follow_unconfirmed_over_a_cut(tmp_path, follow):
    """What was shown and cut off is said to be void, and what is written in its place is printed."""
    segment = made.Segment(tmp_path / "t1.bin").numbered(1).numbered(2)
    state = (segment.length, segment.seq, segment.tail, segment.link, list(segment.blocks), list(segment.skips), segment.time)
    segment.numbered(66, 67)
    follower = follow("--dir", tmp_path, "--unconfirmed")
    assert follower.lines(4) == ["m1", "m2", "m66", "m67"]
    segment.length, segment.seq, segment.tail, segment.link, segment.blocks, segment.skips, segment.time = state
    os.truncate(tmp_path / "t1.bin", segment.length)
    segment.open(2).numbered(3).numbered(4).numbered(5)
    assert follower.lines(7) == ["m1", "m2", "m66", "m67", "m3", "m4", "m5"]
    told(follower, ["seq 3..4 were not committed, and are void"])
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


def test_follow_with_a_limit_holds_the_last_one_back(tmp_path, follow):
    """The limit is reached when it is shown, not when it is read."""
    segment = made.Segment(tmp_path / "t1.bin").numbered(1)
    follower = follow("--dir", tmp_path, "--type", "t1", "-n", 1)
    told(follower, ["t1: the document with seq 1 is unconfirmed: held back"])
    segment.close()
    assert follower.lines(1) == ["m1"] and follower.process.wait(20) == 0


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
