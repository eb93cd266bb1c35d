"""pawl-dump with the ledger: what is committed, what does not agree, and that green means looked at."""
import errno
import os
import re
import resource
import shutil

import pytest

import segment as made
from disks import FaultyDisk
from dumping import (ENVIRONMENT, dump, flip, ledger_of, payloads, run_dump, start_dump, verdict, without_file)
from fake_mongod import BROKEN, LOST
from harness import free_port


# --- the ledger ---


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
    segment.numbered(5).numbered(6)
    flip(tmp_path / "t1.bin", segment.blocks[2] + 5)
    torn = with_ledger(line, "--dir", tmp_path, "--unconfirmed")  # beyond the end nothing is damage
    assert (torn.returncode, payloads(torn)) == (0, ["m1", "m2", "m3"]) and b"gone" not in torn.stderr, torn
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
    for wrong, words in ({"file": "t2.bin"}, b"file is"), ({"uuid": b"u"}, b"uuid is"), ({"epoch": "9"}, b"epoch is"), ({"v": 3}, b"a newer pawl is needed"):
        done = with_ledger(good | wrong, tmp_path / "t1.bin")
        assert (done.returncode, done.stdout) == (1, b"") and words in done.stderr and b"the ledger of " in done.stderr, done
        verdict(with_ledger(good | wrong, "--dir", tmp_path, "--verify"), 1, "t1: unreadable, the ledger of ", words.decode(), "(database pawl)")
    for nothing in ([], without_file("t1")):
        assert with_ledger(nothing, "--dir", tmp_path, "--type", "t1").returncode == 0


@pytest.mark.parametrize("answer, code, words", [
    (LOST, 69, "reading the ledger: "), ({"ok": 1.0}, 69, "reading the ledger: the server's answer has no list"), ({"code": 13, "errmsg": "not authorized"}, 2, "MongoDB does not permit it: "),
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
        done = run_dump("--dir", tmp_path, "--uri", uri)
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
    follower = follow(process=start_dump("--dir", tmp_path, "-f", env=more))
    assert follower.lines(1) == ["m1"]
    assert len(os.listdir(f"/proc/{follower.process.pid}/task")) == 1 and not os.path.exists(f"/dev/shm/mongoc-{follower.process.pid}")


# --- green means looked at ---


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


def test_a_device_is_no_pipe():
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 24, 1 << 24))
    for arguments in (["/dev/zero"], ["/dev/zero", "--verify"]):
        done = run_dump(*arguments, preexec_fn=limited)
        assert done.returncode == 1 and b"/dev/zero: not a pawl file: " in done.stdout + done.stderr, done
    with open("/dev/zero", "rb") as zero:
        done = run_dump("-", stdin=zero, preexec_fn=limited)
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


def test_blocks_that_no_ledger_names(tmp_path, with_ledger, faulty_disk):
    """Neither a damaged header nor a disk that fails makes a file one without blocks."""
    (tmp_path / "files").mkdir()
    segment = made.Segment(tmp_path / "files/t1.bin").numbered(1).close()
    disk = FaultyDisk(faulty_disk, tmp_path, tmp_path / "files")
    more = {"env": ENVIRONMENT | {name: str(value) for name, value in disk.env.items()}}
    def look(): return with_ledger(without_file("t1"), "--dir", tmp_path / "files", "--type", "t1", "--verify", **more)
    verdict(look(), 3, "t1: unknown, ", "names no file")
    flip(segment.path, 60)
    verdict(look(), 3, "t1: unknown, ", "names no file")
    failures = 0
    for reads in range(1, 20):  # more than it makes
        disk.rule(f"pread t1.bin {reads} {errno.EIO}")
        done = look()
        failures += done.returncode == 1
        verdict(done, *((1, "t1: unreadable, ", "Input/output error") if done.returncode == 1 else (3, "t1: unknown, ", "names no file")))
    assert failures > 0


def test_a_type_whose_first_file_is_named_meanwhile(tmp_path, with_ledger):
    segment = made.Segment(tmp_path / "t1.bin").numbered(1)
    done = with_ledger((without_file("t1"), ledger_of(segment)), "--dir", tmp_path, "--type", "t1", "--verify")
    assert done.stdout.startswith(b"t1: ok, 1 segment")


def test_a_ledger_older_than_a_close(tmp_path, with_ledger):
    """What follows a CLOSE proves it; so does a whole block behind a broken one."""
    segment = made.Segment(tmp_path / "t1.bin").numbered(1, 2)
    old = ledger_of(segment, epoch=2)
    segment.close().open(2)
    verdict(with_ledger(old, "--dir", tmp_path, "--verify"), 3, "t1: stale ledger, ", "in database pawl ends at")
    segment = made.Segment(tmp_path / "t1.bin").numbered(1, 2)
    old = ledger_of(segment, epoch=2)
    segment.numbered(3).numbered(4)
    flip(tmp_path / "t1.bin", segment.blocks[1])
    verdict(with_ledger(old, "--dir", tmp_path, "--verify"), 3, "t1: stale ledger, ", "in database pawl ends at")


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
        no_answer = with_ledger((*before, LOST, LOST), *what, "--verify")
        verdict(no_answer, 69 if what[0] == "--dir" else no_answer.returncode, "unreadable", "reading the ledger")
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


def test_the_later_ledger_ends_where_the_proof_does(tmp_path, with_ledger):
    """It was asked between two commits."""
    segment = made.Segment(tmp_path / "t1.bin").numbered(1, 2)
    old = ledger_of(segment, epoch=2)
    segment.numbered(3)
    later = ledger_of(segment, epoch=2)
    segment.numbered(4)
    verdict(with_ledger(old, "--dir", tmp_path, "--verify"), 3, "t1: stale ledger, ")
    assert b": ok," in with_ledger((old, old, later), "--dir", tmp_path, "--verify").stdout


def test_the_file_that_the_ledger_names_is_another_one(tmp_path, with_ledger):
    """It is not missing."""
    segment = made.Segment(tmp_path / "t1.bin").numbered(1)
    verdict(with_ledger(ledger_of(segment, uuid=bytes(16)), "--dir", tmp_path, "--verify"), 3, "t1: damaged", "none of its documents can be reached")


def test_a_file_beside_the_chain_that_cannot_be_read(tmp_path, with_ledger, faulty_disk):
    """What it proves is not known."""
    (tmp_path / "files").mkdir()
    segment = made.Segment(tmp_path / "files/t1.bin").numbered(1).close()
    line = ledger_of(segment, epoch=2)
    other = made.Segment(tmp_path / "files/t1@2.bin", epoch=2, predecessor=segment, first_seq=segment.seq, number=1, time=segment.time)
    disk = FaultyDisk(faulty_disk, tmp_path, tmp_path / "files")
    more = {"env": ENVIRONMENT | {name: str(value) for name, value in disk.env.items()}}
    assert with_ledger(line, "--dir", tmp_path / "files", "--verify", **more).returncode == 0
    for call in "open", "pread":
        disk.rule(f"{call} t1@2.bin 0 {errno.EIO}")
        verdict(with_ledger(line, "--dir", tmp_path / "files", "--verify", **more), 1, "t1: unreadable, ", "Input/output error")
        read = with_ledger(line, "--dir", tmp_path / "files", **more)
        assert b"t1@2.bin: not read, and what it holds is not known: " in read.stderr and b"an orphan" not in read.stderr, read
    disk.rule()
    other.numbered(2)
    flip(other.path, 60)
    read = with_ledger(line, "--dir", tmp_path / "files", **more)
    assert b"t1@2.bin: not read, and what it holds is not known: " in read.stderr and b"an orphan" not in read.stderr, read


def test_a_type_that_rolls_meanwhile(tmp_path, with_ledger):
    """The later ledger explains what the earlier one did not know: it names the next segment, whose predecessor has all of it."""
    first = made.Segment(tmp_path / "t1.bin").numbered(1, 2)
    before = ledger_of(first, epoch=2)
    first.numbered(3).numbered(4).close()
    second = made.Segment(tmp_path / "t1@2.bin", epoch=2, predecessor=first, first_seq=first.seq, number=1, time=first.time)
    done = with_ledger((before, before, ledger_of(second, epoch=2)), "--dir", tmp_path, "--verify")
    assert done.returncode == 0 and b": ok," in done.stdout, done
