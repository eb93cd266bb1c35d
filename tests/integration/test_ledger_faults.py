"""Files and ledger that do not belong together, in time or at all: the worker stops with 74 and touches nothing."""
import re
import signal
import time

import pytest
from bson.int64 import Int64

import reader
from harness import CALM, DISTRUST, wait_until

SMALL = ["--batch-messages", 20]
ROLLS = [*CALM, "--batch-messages", 300, "--segment-bytes", "65536"]


def distrusted(field, *words, env=None, adoptable=True):
    """74, with these words; neither ledger nor files nor queue have changed."""
    def state():
        ledger = {key: value for key, value in (field.ledger() or {}).items() if key not in ("epoch", "owner", "guarded")}
        return ledger, {name: (field.dir / name).read_bytes() for name in field.segments()}, field.queued()
    before = state()
    worker = field.worker(*CALM, env={**DISTRUST, **(env or {})})
    assert worker.wait() == 74, str(worker)
    for word in words:
        assert re.search(word, worker.log()), f"/{word}/ in {worker}"
    hint = f"belong to database {field.name} on .*: pawl-setup --adopt t1 --db {field.name} --dir {re.escape(str(field.dir))}\n"
    assert bool(re.search(hint, worker.log())) == adoptable == ("--adopt" in worker.log()), str(worker)
    assert state() == before and field.holder() is None, str(worker)


def roll(field):
    """Messages for more than a segment."""
    field.fill(600, size=100)
    field.drain(*ROLLS)


def advance(field, blocks, *arguments):
    """So many blocks more, of 10 messages each, in an epoch of their own."""
    field.fill(10 * blocks)
    field.drain("--batch-messages", 10, *arguments)


# --- the ledger and the files are not of one time ---


@pytest.mark.parametrize("blocks", [2, 3, 10, 100])
def test_ledger_many_blocks_behind(field, blocks):
    """The database was restored from an old backup, the files were not."""
    advance(field, 3)
    old = field.ledger()
    advance(field, blocks)
    new = field.ledger()
    field.ledgers.replace_one({"_id": "t1"}, old)
    field.fill(10)
    distrusted(field, r"t1\.bin: .*beyond the committed end|t1\.bin.*epoch")
    field.ledgers.replace_one({"_id": "t1"}, new)
    field.drain()
    assert len(field.compare()["t1"]) == 40 + 10 * blocks


@pytest.mark.slow
@pytest.mark.parametrize("rolls", [1, 3])
def test_ledger_of_before_a_roll(field, rolls):
    advance(field, 3)
    old = field.ledger()
    for _ in range(rolls):
        field.fill(1500, size=100)
        field.drain(*ROLLS)
    assert len(field.segments()) > rolls
    new = field.ledger()
    field.ledgers.replace_one({"_id": "t1"}, old)
    field.fill(10)
    distrusted(field, r"t1(@\d+)?\.bin")
    field.ledgers.replace_one({"_id": "t1"}, new)
    field.drain()
    field.compare()


def test_ledger_of_between_two_rolls(field):
    """It names a segment that has a successor."""
    roll(field)
    roll(field)
    old = field.ledger()
    roll(field)
    assert old["file"] != "t1.bin" and field.ledger()["file"] != old["file"]
    field.ledgers.replace_one({"_id": "t1"}, old)
    field.fill(10)
    distrusted(field, r"t1@\d+\.bin was made in epoch \d+, and the ledger is at \d+")


def test_ledger_and_queue_one_block_behind(field):
    """A backup of ledger and queue from one moment, one block old: that block is taken for an uncommitted one, its messages come
    again from the queue, and each is there once."""
    field.fill(100)
    victim = field.worker("--batch-messages", 10, "--lease", "30s", env={"PAWL_FAULT_STOP": "block-synced:4", "PAWL_FAULT": "block-committed:5"})
    victim.wait_frozen()
    old, queue = field.ledger(), list(field.messages.find())
    victim.thaw()
    assert victim.wait() == -signal.SIGKILL
    assert field.ledger()["seq"] == old["seq"] + 10
    field.ledgers.replace_one({"_id": "t1"}, old)
    field.messages.delete_many({})
    field.messages.insert_many(queue)
    field.db.locks.delete_many({})
    field.drain("--batch-messages", 10)
    assert len(field.compare()["t1"]) == 100


def test_ledger_one_epoch_of_one_block_behind(field):
    """What lies beyond the end was committed, and proves it: it bears a higher epoch than the ledger, and a CLOSE."""
    advance(field, 3)
    old = field.ledger()
    advance(field, 1)
    field.ledgers.replace_one({"_id": "t1"}, old)
    field.fill(10)
    distrusted(field, r"t1\.bin")


def test_ledger_one_closed_block_behind(field):
    """In the same epoch: a CLOSE is written only behind what is committed."""
    field.fill(40)
    field.drain("--batch-messages", 10)
    last = reader.read_segment(field.dir / "t1.bin").blocks
    data = [block for block in last if block.kind == 1 and block.messages] or [block for block in last if block.messages]
    before = data[-2]
    field.ledgers.update_one({"_id": "t1"}, {"$set": {"length": before.end, "tail": before.offset, "seq": 30, "items": 30, "settled": 30,
                                                      "link": signed(before.link_after), "clean": False}})
    field.fill(10)
    distrusted(field, r"t1\.bin")


def signed(link):
    return Int64(link - (1 << 64) if link >= 1 << 63 else link)


@pytest.mark.parametrize("blocks", [1, 2, 20])
def test_ledger_ahead_of_the_file(field, blocks):
    """The file was restored from an old copy, the database was not."""
    advance(field, 5)
    path = field.dir / "t1.bin"
    old = path.read_bytes()
    advance(field, blocks)
    new = path.read_bytes()
    field.fill(10)
    path.write_bytes(old)
    distrusted(field, r"t1\.bin: it is cut: \d+ bytes are committed, the file has \d+")
    path.write_bytes(new)
    field.drain()
    field.compare()


def test_ledger_ahead_by_a_segment(field):
    roll(field)
    roll(field)
    newest = field.dir / field.ledger()["file"]
    assert newest.name != "t1.bin"
    newest.rename(field.folder / "away")
    field.fill(10)
    distrusted(field, r"t1@\d+\.bin, of which the ledger has \d+ bytes as committed, is not there")
    (field.folder / "away").rename(newest)
    field.drain()
    field.compare()


def test_ledger_lost_with_rolls_and_other_types(field):
    field.fill(1500, size=100)
    field.fill(10, "t2")
    field.drain(*ROLLS, types=["t1", "t2"])
    assert len(field.segments()) >= 2
    field.ledgers.delete_one({"_id": "t1"})
    field.fill(10)
    distrusted(field, r"t1(@\d+)?\.bin .*(the ledger knows no file of this type|the ledger is at 0)")
    field.fill(10, "t2")
    field.drain(types=["t2"])
    field.compare("t2")


def test_ledger_lost_under_a_live_holder(field):
    """Three workers; nobody makes a new ledger beside old files, and nobody deletes anything any more."""
    field.fill(3000)
    workers = [field.worker("--batch-messages", 10, *CALM, env=DISTRUST) for _ in range(3)]
    wait_until(lambda: field.seq() >= 100, field.logs)
    field.ledgers.delete_one({"_id": "t1"})
    for worker in workers:
        assert worker.wait(30) == 74, str(worker)
    assert field.ledger() is None and field.holder() is None
    assert sum(worker.log().count(" fenced: ") for worker in workers) == 1, field.logs()
    stored = {m.raw for m in reader.read_type(field.dir, "t1")}
    queued = {d.raw for d in field.messages.find()}
    assert all(raw in stored or raw in queued for raw in field.acknowledged["producer of t1"])


# --- an older segment is damaged ---


def flip_header(path):
    with open(path, "r+b") as file:
        file.seek(300)
        byte = file.read(1)[0]
        file.seek(300)
        file.write(bytes([byte ^ 1]))


def test_header_of_an_old_segment_damaged(field):
    """A take-over after a crash needs the messages that are to be settled, and no segment before them."""
    for _ in range(4):
        roll(field)
    field.fill(100)
    field.crash("block-committed", *SMALL, "--segment-bytes", "65536")
    ledger, segments = field.ledger(), reader.read_chain(field.dir, "t1", field.ledger())
    assert len(segments) >= 4 and ledger["seq"] - ledger["settled"] == 20
    flip_header(field.dir / "t1.bin")
    worker = field.drain(env=DISTRUST)
    assert "20 deletes pending" in worker.log() and not worker.events("untrusted"), str(worker)

    settled = field.ledger()["settled"]
    field.ledgers.update_one({"_id": "t1"}, {"$set": {"settled": Int64(0)}})
    field.fill(10)
    distrusted(field, r"cannot settle, retrying: t1\.bin: the header's CRC", adoptable=False)
    field.ledgers.update_one({"_id": "t1"}, {"$set": {"settled": settled}})
    field.drain(env=DISTRUST)
    flip_header(field.dir / "t1.bin")
    assert len(field.compare()["t1"]) == 2510


# --- directories and databases that do not belong together ---


def test_two_databases_on_one_directory(field, make_field):
    """The second comes to files that its ledger knows nothing of."""
    field.fill(100)
    field.drain()
    other = make_field(field.server)
    other.fill(100)
    other.dir = field.dir
    distrusted(other, r"t1\.bin holds \d+ bytes, and the ledger knows no file of this type")
    field.fill(100)
    field.drain()
    assert len(field.compare()["t1"]) == 200


def test_two_databases_at_once_on_one_directory(field, make_field):
    """Both begin beside one another: whoever comes second stands back or is told, and no committed byte of the first is touched."""
    other = make_field(field.server)
    own, other.dir = other.dir, field.dir
    for each in (field, other):
        each.fill(2000)
    workers = [each.worker("--batch-messages", 10, "--exit-when-empty", "--timeout", "50s", env=DISTRUST) for each in (field, other)]
    codes = [worker.wait() for worker in workers]
    assert set(codes) <= {0, 74} and 0 in codes, field.logs() + other.logs()
    for each in (field, other):
        ledger = each.ledger()
        stored = {m.raw for m in reader.read_type(each.dir, "t1", ledger)} if ledger and ledger.get("file") else set()
        queued = {d.raw for d in each.messages.find()}
        sent = set(each.acknowledged["producer of t1"])
        assert stored | queued == sent and not stored & queued, f"{len(sent - stored - queued)} are gone: {each.logs()}"
    other.dir = own


@pytest.mark.slow
def test_wrong_directory_with_files_of_the_same_type(field, make_field):
    """The files there are sound, and another deployment's."""
    other = make_field(field.server)
    for each in (field, other):
        each.fill(100)
        each.drain()
    own, foreign = field.dir, other.dir
    field.fill(10)
    field.fill(10, "t2")
    field.dir = foreign
    distrusted(field, r"another file lies under this name|it is cut")
    field.dir = own
    worker = field.worker(directory=foreign, types=["t1", "t2"], env=DISTRUST)
    field.wait_settled("t2")
    worker.wait_log("t1 .*pawl-setup --adopt t1")
    assert worker.alive() and field.queued() == 10, str(worker)
    assert worker.stop()[0] == 74
    field.drain()
    field.compare()
    other.compare()


def test_wrong_directory_beside_good_workers(field, tmp_path):
    """It never takes the lock, so the good ones don't notice it."""
    field.fill(100)
    field.drain()
    wrong = field.worker(directory=tmp_path, env=DISTRUST)
    good = field.worker(*SMALL)
    for _ in range(5):
        field.fill(100)
        field.wait_empty()
    assert "taking" not in wrong.log() and list(tmp_path.glob("*.bin")) == [], str(wrong)
    assert len(field.finish(good)) == 600


def names_new_segments(field, worker, seconds, before_each=lambda name: None):
    """The ledger does, again and again, as beside a holder that rolls."""
    end, epoch = time.monotonic() + seconds, 1
    while time.monotonic() < end and worker.alive():
        epoch += 1
        before_each(field.ledger()["file"])
        field.db.ledger.update_one({"_id": "t1"}, {"$set": {"file": f"t1@{epoch}.bin", "epoch": Int64(epoch)}})
        time.sleep(0.3)  # no synchronisation: the worker looks once a second


def test_wrong_directory_beside_one_that_rolls(field, tmp_path):
    """A segment that is named anew gives it no more time."""
    field.fill(10)
    field.drain()
    field.fill(10)
    wrong = field.worker(directory=tmp_path, env=DISTRUST)
    names_new_segments(field, wrong, 20)
    assert not wrong.alive() and wrong.wait() == 74 and "is not there (is this the right directory?)" in wrong.log(), str(wrong)


def test_segments_that_come_late(field, tmp_path):
    """Each is there a moment after it was missed, and by then another one is missing: that is no wrong directory."""
    field.fill(10)
    field.drain()
    field.fill(10)
    worker = field.worker(directory=tmp_path, env=DISTRUST)
    names_new_segments(field, worker, 6, lambda name: (tmp_path / name).touch())
    assert worker.alive() and len(re.findall("is not there", worker.log())) > 0, str(worker)
    assert worker.wait() == 74, str(worker)
