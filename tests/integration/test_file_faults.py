"""The file is taken away, cut or exchanged while a worker has it open, and between two epochs."""
import os
import re
import shutil

import pytest
from bson.int64 import Int64

from harness import CALM, DISTRUST, wait_until

SMALL = ["--batch-messages", 20]


@pytest.fixture
def lingering(field):
    """A holder with its file open and 100 messages in it, idle."""
    field.fill(100)
    worker = field.worker(*SMALL, *CALM, "--linger", "1h", env=DISTRUST)
    field.wait_empty()
    wait_until(lambda: field.ledger()["seq"] == 100, field.logs)
    wait_until(lambda: f"{field.dir}/t1.bin" in links(worker), lambda: str(worker))
    return field, worker


def links(worker):
    folder = f"/proc/{worker.pid}/fd"
    found = []
    for name in os.listdir(folder):
        try:
            found.append(os.readlink(f"{folder}/{name}"))
        except OSError:
            pass
    return found


def untouched_queue(field, worker):
    """What was enqueued after the file was gone stays in the queue; the worker stops the type with 74 and says which file."""
    assert worker.wait() == 74, str(worker)
    assert re.search("the storage cannot be trusted: .*t1.bin", worker.log()), str(worker)
    assert field.queued() == 50 and field.ledger()["seq"] == 100, f"{field.ledger()} {field.logs()}"


def test_file_removed_under_the_worker(lingering):
    field, worker = lingering
    (field.dir / "t1.bin").unlink()
    field.fill(50)
    untouched_queue(field, worker)


def test_file_renamed_under_the_worker(lingering):
    field, worker = lingering
    (field.dir / "t1.bin").rename(field.dir / "t1.bin.1")
    field.fill(50)
    untouched_queue(field, worker)
    (field.dir / "t1.bin.1").rename(field.dir / "t1.bin")
    field.drain()
    assert len(field.compare()["t1"]) == 150


def test_file_replaced_by_its_copy_under_the_worker(lingering):
    """As an editor or a restore does. What went into the file that is no more was not committed: it comes again, into the copy."""
    field, worker = lingering
    shutil.copy(field.dir / "t1.bin", field.dir / "copy")
    (field.dir / "copy").rename(field.dir / "t1.bin")
    field.fill(50)
    field.wait_empty()
    assert worker.events("disk", "error") and worker.stop()[0] == 0, str(worker)
    assert len(field.compare()["t1"]) == 150


def test_file_replaced_by_an_old_copy_under_the_worker(lingering):
    field, worker = lingering
    (field.dir / "copy").write_bytes((field.dir / "t1.bin").read_bytes()[:5000])
    (field.dir / "copy").rename(field.dir / "t1.bin")
    field.fill(50)
    untouched_queue(field, worker)


def test_file_cut_under_the_worker(lingering):
    field, worker = lingering
    os.truncate(field.dir / "t1.bin", 5000)
    field.fill(50)
    untouched_queue(field, worker)


def test_directory_removed_under_the_worker(lingering):
    field, worker = lingering
    field.dir.rename(field.folder / "elsewhere")
    field.dir.mkdir()
    field.fill(50)
    untouched_queue(field, worker)


@pytest.fixture
def written(field):
    """A holder that stands still between the write of its third block and the sync; 40 messages of 100 are committed."""
    field.fill(100)
    worker = field.worker(*SMALL, *CALM, "--linger", "1h", env={**DISTRUST, "PAWL_FAULT_STOP": "block-written:3"})
    worker.wait_frozen()
    ledger = field.ledger()
    assert ledger["seq"] == 40 and field.queued() >= 60, str(ledger)
    return field, worker, ledger


def test_file_removed_before_the_sync(written):
    """The sync of a file without a name says yes. What was written is in the queue still, for it was not committed."""
    field, worker, _ = written
    (field.dir / "t1.bin").rename(field.folder / "kept")
    worker.thaw()
    assert worker.wait() == 74, str(worker)
    assert worker.events("disk", "error") and field.ledger()["seq"] == 40 and field.queued() >= 60, field.logs()
    (field.folder / "kept").rename(field.dir / "t1.bin")
    field.drain()
    assert len(field.compare()["t1"]) == 100


@pytest.mark.parametrize("change", ["replaced", "cut"])
def test_file_changed_before_the_sync(written, change):
    """To its committed end, or by a copy that ends there: the block comes again, once."""
    field, worker, ledger = written
    path = field.dir / "t1.bin"
    if change == "cut":
        os.truncate(path, ledger["length"])
    else:
        (field.dir / "copy").write_bytes(path.read_bytes()[:ledger["length"]])
        (field.dir / "copy").rename(path)
    worker.thaw()
    field.wait_empty()
    assert worker.events("disk", "error") and worker.stop()[0] == 0, str(worker)
    assert len(field.compare()["t1"]) == 100


@pytest.mark.parametrize("what", ["epoch", "link"])
def test_ledger_that_moves_during_a_look(field, what):
    """The file is missing, or another one, by the ledger that was read first. When it is read again it is another one, in another epoch or in
    the same: that look counts for nothing."""
    field.fill(10)
    field.drain(*CALM)
    file = field.dir / "t1.bin"

    def turn(there):
        if what == "link":
            field.ledgers.update_one({"_id": "t1"}, {"$bit": {"link": {"xor": Int64(1)}}})
        elif there:
            field.ledgers.update_one({"_id": "t1"}, {"$inc": {"epoch": Int64(1)}})
            (field.dir / "aside").rename(file)
        else:
            file.rename(field.dir / "aside")
    turn(there=False)
    admin = field.server.client.admin

    def reads():
        return [op for op in admin.command("currentOp")["inprog"] if op.get("appName") == field.app_name() and op.get("command", {}).get("find") == "ledger"]
    # Skipped: whether it reads in snapshots, where the messages of the type are, and the ledger before the files.
    with field.failing(["find"], {"skip": 3}, collection="ledger", blockConnection=True, blockTimeMS=2000):
        worker = field.worker(*CALM)
        wait_until(reads, lambda: f"a look at the ledger again; {worker}")
        turn(there=True)
    field.fill(10)
    assert len(field.finish(worker)) == 20 and not worker.events("untrusted"), str(worker)


def test_file_removed_between_epochs(field):
    """The worker has let go of the file: it notices at once."""
    field.fill(100)
    worker = field.worker(env=DISTRUST)
    field.wait_settled()
    path, away = field.dir / "t1.bin", field.folder / "away"
    path.rename(away)
    field.fill(50)
    untouched_queue(field, worker)
    away.rename(path)
    field.drain()
    assert len(field.compare()["t1"]) == 150


def test_file_replaced_between_epochs(field):
    """By another type's, and by one of the same type from another database: told apart by what is inside."""
    field.fill(100)
    field.fill(100, "t2")
    field.drain(types=["t1", "t2"])
    path = field.dir / "t1.bin"
    good = path.read_bytes()
    shutil.copy(field.dir / "t2.bin", path)
    field.fill(50)
    untouched_queue(field, field.worker(env=DISTRUST))
    path.write_bytes(good)
    field.drain()
    assert len(field.compare()["t1"]) == 150


def test_symbolic_link_in_place_of_the_file(field):
    field.fill(100)
    field.drain()
    path, away = field.dir / "t1.bin", field.folder / "away"
    path.rename(away)
    path.symlink_to(away)
    field.fill(50)
    untouched_queue(field, field.worker(env=DISTRUST))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_no_regular_file_in_its_place(field, make):
    field.fill(100)
    field.drain()
    path, away = field.dir / "t1.bin", field.folder / "away"
    path.rename(away)
    make(path)
    field.fill(50)
    untouched_queue(field, field.worker(env=DISTRUST))
    path.unlink() if path.is_fifo() else path.rmdir()
    away.rename(path)
    field.drain()
    field.compare()
