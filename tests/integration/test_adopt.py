"""pawl-setup --adopt: ledgers lost on purpose, at every moment of a drain, and the end compared exactly."""
import errno
import random
import subprocess

import bson
import pytest
from bson.int64 import Int64

import reader
from disks import FaultyDisk
from harness import DISTRUST, environment, program, run, wait_until

SMALL = ["--batch-messages", 50]
ROLLS = ["--segment-bytes", "65536"]


def lose(field, how, old=None):
    """The ledger is gone, old, or rubbish."""
    if how == "gone":
        field.ledgers.delete_one({"_id": "t1"})
    elif how == "old" and old:
        field.ledgers.replace_one({"_id": "t1"}, old)
    else:
        field.ledgers.replace_one({"_id": "t1"}, {"_id": "t1", "v": 1, "epoch": "seven", "file": ["t1.bin"]})


def lose_with_lock(field):
    """After a crash: without the lock of the dead holder, too."""
    lose(field, "gone")
    field.db.locks.delete_many({})


def lease_over(field):
    wait_until(lambda: field.db.locks.count_documents({"$expr": {"$gt": ["$expires_at", "$$NOW"]}}) == 0, field.logs)


# --- in the middle of a drain ---


@pytest.mark.slow
@pytest.mark.parametrize("rolls", [[], ROLLS], ids=["one file", "rolls"])
@pytest.mark.parametrize("how", ["gone", "old", "rubbish"])
def test_lost_in_the_middle_of_a_drain(any_field, how, rolls):
    """Three workers and a producer at work; the ledger is lost under the live holder, or all die first; again and again."""
    field = any_field
    rng = random.Random(f"{how}{rolls}")
    with field.producing(60, size=200):
        for turn in range(4):
            workers = [field.worker("--batch-messages", 20, *rolls, env=DISTRUST) for _ in range(3)]
            seq = field.seq()
            wait_until(lambda: field.seq() >= seq + 100, field.logs)
            old, more = field.ledger(), rng.randrange(200, 400)
            wait_until(lambda: field.seq() >= old["seq"] + more, field.logs)
            if turn % 2:
                for worker in workers:
                    worker.kill()
                lose(field, how, old)
            else:
                lose(field, how, old)
                for worker in workers:
                    assert worker.wait(30) == 74, str(worker)
            lease_over(field)
            field.adopt()
            field.compare(queue_empty=False, live=True)
    field.drain("--batch-messages", 1000, *rolls)
    field.compare()


POINTS = ["fenced", "segment-created", "block-written", "block-written:3", "block-synced:3", "block-committed:3", "deleted:3", "close-written",
          "released"]


@pytest.mark.parametrize("point", POINTS)
def test_lost_when_the_holder_died(field, point):
    """Whatever was in hand: messages that are in the file are deleted from the queue, the others are written."""
    field.fill(500)
    field.crash(point, *SMALL)
    lose_with_lock(field)
    if point == "fenced":
        field.adopt(74)
    else:
        field.adopt()
        ledger = field.ledger()
        assert (ledger["v"], ledger["clean"], ledger["settled"]) == (1, False, 0) and ledger["epoch"] >= 2, ledger
    field.fill(100)
    field.drain(*SMALL)
    assert len(field.compare()["t1"]) == 600


@pytest.mark.parametrize("cut", [1, 64, 127, 128, 129, 1000])
def test_torn_tail(field, cut):
    """The last block is cut in the middle, as by a crash: what is before it is adopted, and its messages come from the queue."""
    field.fill(500)
    field.crash("block-written:4", *SMALL)
    length = field.ledger()["length"]
    path = field.dir / "t1.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[:length + cut])
    lose_with_lock(field)
    said = field.adopt()
    assert "seq 1 to 150" in said and "what follows is no block" in said, said
    assert field.ledger()["length"] == length and "guarded" not in field.ledger()
    left = path.read_bytes()
    field.drain(*SMALL)
    assert len(field.compare()["t1"]) == 500
    assert len(field.segments()) == 2 and path.read_bytes() == left, "its last writer may not have held its guard"


def test_torn_tail_behind_rolls(field):
    field.fill(2000, size=100)
    field.crash("block-written:25", *SMALL, *ROLLS)
    newest = field.ledger()["file"]
    assert newest != "t1.bin"
    with open(field.dir / newest, "r+b") as file:
        file.truncate((field.dir / newest).stat().st_size - 7)
    lose_with_lock(field)
    field.adopt()
    field.drain(*SMALL, *ROLLS)
    assert len(field.compare()["t1"]) == 2000


def test_with_the_segment_of_a_frozen_holder(field):
    """A frozen holder's segment has blocks that were never committed: their messages come once, from whoever committed them."""
    field.fill(500)
    frozen = field.worker(*SMALL, env={"PAWL_FAULT_STOP": "block-written:3"})
    frozen.wait_frozen()
    field.drain(*SMALL)
    assert len(field.segments()) == 2
    frozen.kill()
    field.ledgers.delete_one({"_id": "t1"})
    field.adopt()
    field.fill(100)
    field.drain(*SMALL)
    assert len(field.compare()["t1"]) == 600


def test_twice_in_a_row(field):
    field.fill(300)
    field.crash("block-committed:4", *SMALL)
    lose_with_lock(field)
    field.adopt()
    first = field.ledger()
    field.adopt()
    second = field.ledger()
    assert second["epoch"] == first["epoch"] + 1 and second["owner"] != first["owner"]
    for each in (first, second):
        each.pop("epoch"), each.pop("owner")
    assert first == second
    field.drain(*SMALL)
    assert len(field.compare()["t1"]) == 300


def test_of_a_healthy_type_changes_nothing_but_the_epoch(field):
    field.fill(300)
    field.drain(*SMALL)
    before = field.ledger()
    field.adopt()
    after = field.ledger()
    changed = {key for key in set(before) | set(after) if before.get(key) != after.get(key)}
    assert changed <= {"epoch", "owner", "clean", "settled", "machine", "guarded"} and "guarded" not in after, (before, after)
    field.fill(10)
    field.drain(*SMALL)
    assert len(field.compare()["t1"]) == 310 and field.segments() == ["t1.bin", f"t1@{after['epoch'] + 1}.bin"]


def test_several_types_one_lost(field):
    for name in ("t1", "t2"):
        field.fill(300, name)
    field.drain(*SMALL, types=["t1", "t2"])
    field.ledgers.delete_one({"_id": "t1"})
    worker = field.worker(*SMALL, types=["t2"])
    field.adopt()
    for name in ("t1", "t2"):
        field.fill(50, name)
    field.drain(types=["t1"])
    field.wait_settled("t2")
    assert worker.stop()[0] == 0
    field.compare("t1", "t2")


def test_pruned_segments(field):
    """Older segments were moved away: `settled` begins before the oldest that is there, and nothing of the pruned is asked for."""
    field.fill(3000, size=100)
    field.drain(*SMALL, *ROLLS)
    chain = reader.read_chain(field.dir, "t1", field.ledger())
    assert len(chain) >= 4
    for segment in chain[:2]:
        (field.dir / segment.path.name).rename(field.folder / segment.path.name)
    first = chain[2].header.seq
    field.ledgers.delete_one({"_id": "t1"})
    field.fill(100, size=100)
    said = field.adopt()
    assert f"seq {first} to 3000" in said, said
    assert (field.ledger()["settled"], field.ledger()["items"]) == (first - 1, 3000)
    field.drain(*SMALL, *ROLLS)
    ledger = field.ledger()
    assert (ledger["seq"], ledger["settled"]) == (3100, 3100) and field.queued() == 0
    for segment in chain[:2]:
        (field.folder / segment.path.name).rename(field.dir / segment.path.name)
    assert [m.raw for m in reader.read_type(field.dir, "t1")] == field.acknowledged["producer of t1"]


def test_restored_queue_too(field):
    """The database is a backup: its queue has messages again that the files hold. They are deleted, not written twice."""
    field.fill(1000)
    field.crash("block-committed:5", *SMALL)
    ledger, queue = field.ledger(), list(field.messages.find())
    field.db.locks.delete_many({})
    field.drain(*SMALL)
    field.ledgers.replace_one({"_id": "t1"}, ledger)
    field.messages.insert_many(queue)
    assert field.worker(env=DISTRUST).wait(30) == 74
    field.adopt()
    field.fill(10)
    field.drain(*SMALL)
    assert len(field.compare()["t1"]) == 1010


@pytest.mark.parametrize("kind", ["ids", "types"])
def test_settling_ids_of_every_kind(field, kind):
    """The deletes that follow an adoption take `_id`s of any BSON type from the files."""
    values = [1, 2.5, "text", b"bytes", {"a": 1}, {"a": [1, 2]}, True, None, bson.ObjectId(), bson.Decimal128("1.5"), Int64(1 << 40),
              bson.MinKey(), bson.MaxKey(), bson.Timestamp(1, 2), "x" * 100000, bson.Code("f"), {"$in": [1]}]
    if kind == "ids":
        documents = [bson.encode({"_id": value, "type": "t1", "n": n}) for n, value in enumerate(values) if not isinstance(value, dict) or "$in" not in value]
    else:
        documents = [bson.encode({"_id": bson.ObjectId(), "type": "t1", "n": value}) for value in values]
    field.insert("producer of t1", documents)
    field.crash("deleted:2", "--batch-messages", 3)
    lose_with_lock(field)
    field.adopt()
    field.drain()
    stored = [m.raw for m in reader.read_type(field.dir, "t1", field.ledger())]
    assert sorted(stored) == sorted(documents) and field.queued() == 0


# --- epochs: none that was ever used may come again ---


def test_epoch_is_above_all_others(field):
    """Above the files', their names', and the old ledger's, readable as a whole or not."""
    field.fill(10)
    field.drain()
    field.ledgers.update_one({"_id": "t1"}, {"$set": {"epoch": Int64(500)}})
    field.adopt()
    assert field.ledger()["epoch"] == 501
    bare = (field.dir / "t1.bin").read_bytes()[:4096]
    (field.dir / "t1@700.bin").write_bytes(bare)
    (field.dir / "t1@700.bin").write_bytes(bare[:100])  # a torn one, of a crash
    field.adopt()
    assert field.ledger()["epoch"] == 701


def test_epoch_is_above_the_blocks(field):
    """A file that was continued in place bears in its name and header only the epoch that began it."""
    for _ in range(3):
        field.fill(10)
        field.drain()
    field.ledgers.delete_one({"_id": "t1"})
    field.adopt()
    assert field.ledger()["epoch"] == 4
    field.fill(10)
    field.drain()
    assert len(field.compare()["t1"]) == 40


def test_epoch_is_above_a_malformed_ledgers(field):
    field.fill(10)
    field.drain()
    field.ledgers.update_one({"_id": "t1"}, {"$set": {"epoch": Int64(900), "uuid": "no uuid"}})
    field.adopt()
    assert field.ledger()["epoch"] == 901


# --- a frozen holder wakes up while its files are adopted ---


def test_frozen_holder_wakes_up_while_the_operator_thinks(field, faulty_disk):
    """Its lease is long over, its epoch is still the ledger's: it may commit the block in hand. An adoption that read the files before
    that has seen another end, and may not write it."""
    disk = FaultyDisk(faulty_disk, field.folder, field.dir)
    disk.rule("pwrite t1.bin 5 stop", "pwrite t1.bin 6 stop")  # before a block, and before the CLOSE that follows it
    field.fill(500)
    frozen = field.worker(*SMALL, env=disk.env)
    frozen.wait_frozen()
    lease_over(field)
    seq = field.ledger()["seq"]
    words = [program("pawl-setup"), *field.mongo, "--adopt", "t1", "--dir", str(field.dir)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment()) as operator:
        said = operator.stdout.read1()
        while b"[y/N]" not in said and operator.poll() is None:
            said += operator.stdout.read1()
        frozen.thaw()
        wait_until(lambda: field.ledger()["seq"] > seq or " fenced: " in frozen.log(), frozen.log)
        committed = field.ledger()["seq"]
        said += operator.communicate(b"y\n", timeout=30)[0]
    assert field.ledger()["seq"] >= committed, f"{committed} was committed, {field.ledger()['seq']} is adopted: {said.decode()}"
    frozen.kill()
    field.db.locks.delete_many({})
    field.drain(*SMALL)
    field.compare()


def test_frozen_holder_cuts_what_was_adopted(field, faulty_disk):
    """It froze between its last look at the ledger and the cut; the adoption took the tail for committed; it wakes up and cuts."""
    field.fill(500)
    field.crash("block-written:4", *SMALL)
    field.db.locks.delete_many({})
    disk = FaultyDisk(faulty_disk, field.folder, field.dir)
    disk.rule("ftruncate t1.bin 1 stop")
    frozen = field.worker(*SMALL, env=disk.env)
    frozen.wait_frozen()
    lease_over(field)
    done = field.run("pawl-setup", "--adopt", "t1", "--dir", field.dir, "--yes")
    ledger = field.ledger()
    frozen.thaw()
    wait_until(lambda: " fenced: " in frozen.log() or (field.dir / "t1.bin").stat().st_size < ledger["length"] or
               field.ledger()["seq"] > ledger["seq"], frozen.log)
    assert (field.dir / "t1.bin").stat().st_size >= ledger["length"], f"adopted bytes are gone: {done.stdout.decode()} {frozen}"


# --- the disk and the database while adopting ---


def test_sync_fails(field, faulty_disk):
    """What was read may be in this machine's memory alone."""
    field.fill(10)
    field.drain()
    field.ledgers.delete_one({"_id": "t1"})
    disk = FaultyDisk(faulty_disk, field.folder, field.dir)
    disk.rule(f"fsync t1.bin 1 {errno.EIO}")
    done = field.run("pawl-setup", "--adopt", "t1", "--dir", field.dir, "--yes", env=disk.env)
    assert done.returncode == 74 and b"syncing t1.bin" in done.stdout + done.stderr and field.ledger() is None, done
    field.adopt()
    assert field.ledger()["seq"] == 10


def test_without_a_server(field):
    done = run("pawl-setup", "--uri", "mongodb://127.0.0.1:1/", "--adopt", "t1", "--dir", field.dir, "--yes", "--timeout", "1s")
    assert done.returncode == 69, done


def test_reply_of_the_write_is_lost(field):
    """The ledger was written and the answer did not come: 69, and running it again mends it."""
    field.fill(100)
    field.crash("block-committed:2", *SMALL)
    lose_with_lock(field)
    with field.failing(["update"], {"times": 1}, collection="ledger", program="pawl-setup",
                       writeConcernError={"code": 91, "errmsg": "a planned fault"}):
        field.adopt(69)
    field.adopt()
    field.drain(*SMALL)
    assert len(field.compare()["t1"]) == 100
