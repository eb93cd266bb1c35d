"""pawl-setup --adopt where it may not be done, or is not wanted: nothing is changed."""
import re
import shutil
from datetime import datetime, timezone

import pytest

import reader
from harness import CALM
from test_service import foreign_lock

SMALL = ["--batch-messages", 50]
ROLLS = ["--segment-bytes", "65536"]


def snapshot(field):
    """Everything that a refusal may not change (but for the time stamps of locks)."""
    return (field.ledger(), {path.name: path.read_bytes() for path in field.dir.iterdir()}, sorted(d.raw for d in field.messages.find()))


def refused(field, code, *words):
    before = snapshot(field)
    said = field.adopt(code)
    assert all(re.search(word, said) for word in words), said
    assert snapshot(field) == before
    return said


def test_live_holder(field):
    field.fill(100)
    worker = field.worker(*CALM, "--linger", "1h")
    field.wait_empty()
    said = field.adopt(1)
    assert f"pid {worker.pid}" in said and "stop the workers" in said, said
    field.fill(100)
    field.wait_empty()
    assert worker.stop()[0] == 0, str(worker)
    assert len(field.compare()["t1"]) == 200 and field.ledger()["epoch"] == 1


def test_dead_holder_within_its_lease(field):
    """Nobody can tell it from a live one; when its lease is over, its lock is taken."""
    field.fill(100)
    worker = field.worker("--linger", "1h", *CALM)
    field.wait_empty()
    worker.kill()
    refused(field, 1, "is held by")
    field.locks.update_one({"type": "t1"}, {"$set": {"expires_at": datetime.fromtimestamp(0, timezone.utc)}})
    field.adopt()
    field.fill(10)  # a worker takes the type, and settles, when there is a message
    field.drain()
    field.compare()


def test_foreign_lock_stays(field):
    field.fill(100)
    field.drain()
    lock = foreign_lock(field)
    refused(field, 1, "is held by elsewhere, pid 1")
    assert field.db.locks.find_one()["owner"] == lock["owner"]


def test_a_lock_with_slots(field):
    """Of that name: it would lose its number, and its holders would work beside the workers."""
    field.fill(10)
    field.drain()
    field.ledgers.delete_one({"_id": "t1"})
    assert field.run("pawl-lock", "--slots", 2, "t1", "--", "true").returncode == 0
    refused(field, 1, "t1 is a lock with 2 slots, and no type")
    assert field.run("pawl-lock", "--slots", 2, "t1", "--", "true").returncode == 0


@pytest.mark.parametrize("place", ["a message", "a marker", "the header", "the first segment", "the end of the first"])
def test_damaged(field, place):
    field.fill(1500, size=100)
    field.drain(*SMALL, *ROLLS)
    chain = reader.read_chain(field.dir, "t1", field.ledger())
    segment = chain[-1] if place in ("a message", "a marker", "the header") else chain[0]
    at = {"a message": segment.blocks[1].offset + 200, "a marker": segment.blocks[1].offset + 60, "the header": 100,
          "the first segment": segment.blocks[1].offset + 200, "the end of the first": segment.length - 1}[place]
    path = field.dir / segment.path.name
    good = path.read_bytes()
    path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1:])
    field.ledgers.delete_one({"_id": "t1"})
    refused(field, 74, re.escape(path.name))
    path.write_bytes(good)
    field.adopt()
    field.fill(10)  # a worker takes the type, and settles, when there is a message
    field.drain()
    field.compare()


def test_segment_missing_in_the_middle(field):
    field.fill(2000, size=100)
    field.drain(*SMALL, *ROLLS)
    chain = reader.read_chain(field.dir, "t1", field.ledger())
    (field.dir / chain[1].path.name).rename(field.folder / "away")
    field.ledgers.delete_one({"_id": "t1"})
    refused(field, 74, re.escape(chain[1].path.name))


def test_old_copy_of_an_older_segment(field):
    """Sound by itself, but shorter than its successor says."""
    field.fill(2000, size=100)
    field.drain(*SMALL, *ROLLS)
    chain = reader.read_chain(field.dir, "t1", field.ledger())
    path = field.dir / chain[0].path.name
    path.write_bytes(path.read_bytes()[:chain[0].blocks[1].end])
    field.ledgers.delete_one({"_id": "t1"})
    refused(field, 74, re.escape(path.name))


def test_no_files(field, tmp_path):
    field.fill(10)
    refused(field, 74, "no segment of type t1")
    field.drain()
    before = field.ledger()
    done = field.run("pawl-setup", "--adopt", "t1", "--dir", tmp_path, "--yes")
    assert done.returncode == 74 and field.ledger() == before and f"database {field.name} on ".encode() in done.stderr, done
    done = field.run("pawl-setup", "--adopt", "t2", "--dir", field.dir, "--yes")
    assert done.returncode == 74 and field.ledger("t2") is None, done
    done = field.run("pawl-setup", "--adopt", "../t1", "--dir", field.dir, "--yes")
    assert done.returncode == 2, done
    done = field.run("pawl-setup", "--adopt", "t1", "--dir", tmp_path / "nowhere", "--yes")
    assert done.returncode == 74 and b"nowhere" in done.stderr, done
    assert field.ledger() == before


def test_another_types_file_under_the_name(field):
    field.fill(10, "t2")
    field.drain(types=["t2"])
    shutil.copy(field.dir / "t2.bin", field.dir / "t1.bin")
    refused(field, 74, "t1.bin.*t2")


def test_newer_ledger_is_left_alone(field):
    field.fill(10)
    field.drain()
    field.ledgers.replace_one({"_id": "t1"}, {"_id": "t1", "v": 3, "epoch": 9})
    refused(field, 74, "newer")


@pytest.mark.parametrize("answer", [b"n\n", b"\n", b"", b"maybe\n"])
def test_declined(field, answer):
    field.fill(100)
    field.crash("block-committed:2", *SMALL)
    field.db.locks.delete_many({})
    before = snapshot(field)
    done = field.run("pawl-setup", "--adopt", "t1", "--dir", field.dir, stdin=answer)
    assert done.returncode == 1 and b"nothing was changed" in done.stdout and field.holder() is None, done
    assert snapshot(field) == before


def test_asks_and_tells_what_is_lost(field):
    field.fill(100)
    field.drain("--batch-messages", 10)
    blocks = reader.read_segment(field.dir / "t1.bin").blocks
    eighth = [block for block in blocks if block.messages][7]
    path = field.dir / "t1.bin"
    path.write_bytes(path.read_bytes()[:eighth.end])
    said = field.adopt(answer=b"y\n")
    assert "seq 1 to 80" in said and "The ledger of t1 says epoch 1, seq 100" in said, said
    assert f"Database {field.name} on {field.server.uri.split('/')[2]}:" in said.split("[y/N]")[0], said
    assert re.search("WARNING: .*seq 81 to 100", said), said
    field.drain()
    assert field.ledger()["seq"] == 80


def test_lock_rests_on_its_index(field):
    """A restored database may lack it; a worker that was there before would not notice. And what workers refuse, is not adopted."""
    field.fill(10)
    field.drain()
    index = next(name for name, spec in field.locks.index_information().items() if spec.get("unique"))
    field.locks.drop_index(index)
    field.adopt()
    assert field.locks.index_information()[index]["unique"]
    field.messages.create_index("at", expireAfterSeconds=3600)
    refused(field, 2, "expire")


def test_part_of_a_brick(field):
    """GlusterFS keeps its own folder at the top of a brick: beside its mount the files would be changed by two."""
    field.fill(10)
    field.drain()
    (field.dir.parent / ".glusterfs").mkdir()
    refused(field, 2, "part of a brick of GlusterFS")
    worker = field.worker()
    assert worker.wait() == 2 and "part of a brick of GlusterFS" in worker.log(), str(worker)
