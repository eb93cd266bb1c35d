"""Storage that fails: full, failing, taken away, exchanged, or not the ledger's. Nothing is lost and nothing papered over."""
import errno
import os
import re
import shutil
import signal
import time

import pytest
from bson.int64 import Int64

import reader
from disks import FaultyDisk, obedient
from harness import CALM, wait_until

DISTRUST = {"PAWL_TEST_DISTRUST_MS": "1500"}
SMALL = ["--batch-messages", 20]
ROLLS = [*CALM, "--batch-messages", 300, "--segment-bytes", "65536"]


def stays(condition, seconds, what):
    """The condition holds all the time: there is nothing to wait for, only time in which to go wrong."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert condition(), what() if callable(what) else what
        time.sleep(0.05)


def events(worker, event, level=""):
    return re.findall(rf"^\S+ {level or '[a-z]+'} +(?:.* )?{event}: .*$", worker.log(), re.M)


def ended(field, worker):
    """Stopped in order; everything is where it belongs."""
    field.wait_settled()
    assert worker.alive(), str(worker)
    assert worker.stop()[0] == 0, str(worker)
    return field.compare()["t1"]


# --- no space ---


def test_disk_full_in_the_middle(field, disks):
    disks.tmpfs(field, "1m")
    field.fill(2000, size=1000)
    worker = field.worker(*SMALL, *CALM)
    worker.wait_log(" no-space: ")
    seq = field.ledger()["seq"]
    assert 0 < seq < 2000
    stays(lambda: field.ledger()["seq"] == seq and field.holder() == worker.pid and worker.alive(), 2.5, field.logs)
    assert len(events(worker, "no-space", "warn")) == 1 and not events(worker, "disk"), str(worker)
    field.compare(queue_empty=False)
    field.fill(100)
    assert field.queued() >= 2100 - seq
    disks.remount(field, "size=16m")
    assert len(ended(field, worker)) == 2100
    assert len(events(worker, "no-space", "warn")) == len(events(worker, "no-space", "info")) == 1, str(worker)
    assert field.segments() == ["t1.bin"] and field.ledger()["epoch"] == 1


def test_disk_full_before_the_first_file(field, disks):
    disks.tmpfs(field, "256k")
    ballast = field.dir / "ballast"
    ballast.write_bytes(bytes(200 << 10))
    field.fill(50)
    worker = field.worker()
    worker.wait_log(" no-space: ")
    assert field.segments() == [] and field.queued() == 50
    ballast.unlink()
    assert len(ended(field, worker)) == 50


def test_disk_full_again_and_again(field, disks):
    """Said once each time; each time it goes on by itself."""
    disks.tmpfs(field, "512k")
    worker = field.worker(*SMALL, *CALM, "--linger", "1h")
    for turn in (1, 2, 3):
        ballast = field.dir / "ballast"
        field.fill(20)
        field.wait_empty()
        free = os.statvfs(field.dir)
        ballast.write_bytes(bytes(free.f_bavail * free.f_frsize - (64 << 10)))
        field.fill(40)
        wait_until(lambda: len(events(worker, "no-space", "warn")) == turn, lambda: str(worker))
        ballast.unlink()
        wait_until(lambda: len(events(worker, "no-space", "info")) == turn, lambda: str(worker))
    field.wait_empty()
    assert worker.stop()[0] == 0 and len(events(worker, "no-space", "warn")) == 3, str(worker)
    assert len(field.compare()["t1"]) == 180 and field.ledger()["clean"] is True


def test_told_to_stop_while_the_disk_is_full(field, disks):
    disks.tmpfs(field, "1m")
    field.fill(2000, size=1000)
    worker = field.worker(*SMALL, *CALM)
    worker.wait_log(" no-space: ")
    assert worker.stop()[0] == 0, str(worker)
    assert field.holder() is None and field.queued() > 0
    field.compare(queue_empty=False)
    disks.remount(field, "size=16m")
    field.drain()
    field.compare()
    assert field.segments() == ["t1.bin"]


def test_holder_of_a_full_disk_dies(field, disks):
    disks.tmpfs(field, "1m")
    field.fill(2000, size=1000)
    worker = field.worker(*SMALL)
    worker.wait_log(" no-space: ")
    worker.kill()
    second = field.worker(*SMALL)
    second.wait_log(" no-space: ")
    disks.remount(field, "size=16m")
    assert len(ended(field, second)) == 2000
    assert field.segments() == ["t1.bin"]


# --- the disk fails ---


def test_write_back_fails_for_real(field, disks):
    """A block device whose backing store is full: the file system has room, the write succeeds, and the sync says that it was lost."""
    give_room = disks.thin(field)
    field.fill(4000, size=2000, chunk=200)
    worker = field.worker("--batch-messages", 200)
    worker.wait_log(r" disk: syncing")
    assert not events(worker, "no-space"), str(worker)
    wait_until(lambda: 0 < field.queued() < 4000, field.logs)
    assert worker.alive(), str(worker)
    field.compare(queue_empty=False, live=True)
    give_room()
    assert len(ended(field, worker)) == 4000
    assert field.segments() == ["t1.bin"]


FAULTS = [  # rule, pattern in the log
    (f"pwrite t1.bin 3 {errno.EIO}", "disk: writing t1.bin: Input/output error"),
    (f"pwrite t1.bin 3 {errno.EDQUOT}", "disk: writing t1.bin: Disk quota exceeded"),
    (f"pwrite t1.bin 3 {errno.ENOSPC}", "disk: writing t1.bin: No space left"),
    (f"pwrite t1.bin 1 {errno.EIO}", "disk: writing t1.bin: Input/output error"),
    ("pwrite t1.bin 3 short", r"disk: writing t1.bin: only \d+ of \d+ bytes"),
    (f"fdatasync t1.bin 2 {errno.EIO}", "disk: syncing t1.bin: Input/output error"),
    ("fdatasync t1.bin 2 late", "disk: syncing t1.bin: Input/output error"),
    (f"fsync t1.bin 1 {errno.EIO}", "disk: syncing t1.bin: Input/output error"),
    (f"fsync . 1 {errno.EIO}", "disk: syncing the directory .*: Input/output error"),
    (f"open t1.bin 1 {errno.EMFILE}", "disk: creating .*t1.bin: Too many open files"),
    (f"close t1.bin 1 {errno.EIO}", "close: the file has no clean end: closing t1.bin: Input/output error"),
]


@pytest.mark.parametrize("rule,words", FAULTS, ids=[re.sub(r"\W+", "-", rule) for rule, _ in FAULTS])
def test_call_fails(field, faulty_disk, rule, words):
    """The epoch is abandoned at once, nothing more is written to that file, the next epoch does it all again."""
    disk = FaultyDisk(faulty_disk, field.folder, field.dir)
    disk.rule(rule)
    field.fill(200)
    worker = field.worker(*SMALL, env=disk.env)
    worker.wait_log(words)
    field.compare(queue_empty=False, live=True)
    # A failed end is mended by the next holder, which comes with the next message.
    wait_until(lambda: field.holder() is None, field.logs)
    field.fill(20)
    assert len(ended(field, worker)) == 220
    assert_dead_after_a_failure(disk)


def assert_dead_after_a_failure(disk):
    """A file descriptor of which a write, sync or cut failed is closed, and nothing else."""
    failed = set()
    for call, name, *words in disk.calls():
        fd = next((word for word in words if word.startswith("fd=")), None)
        result = int(words[words.index("=") + 1])
        size = next((int(word[5:]) for word in words if word.startswith("size=")), None)
        if call == "close":
            failed.discard(fd)
        elif fd and name != ".":
            assert fd not in failed, f"{call} {name} after a failure: {disk.log_path.read_text()}"
            if result < 0 or size is not None and result != size:
                failed.add(fd)


def test_cut_fails(field, faulty_disk):
    """The tail of a dead holder cannot be cut off: nothing is written behind it."""
    field.fill(200)
    victim = field.worker(*SMALL, env={"PAWL_FAULT": "block-written:3"})
    assert victim.wait() == -signal.SIGKILL
    length, size = field.ledger()["length"], (field.dir / "t1.bin").stat().st_size
    assert size > length
    disk = FaultyDisk(faulty_disk, field.folder, field.dir)
    disk.rule(f"ftruncate t1.bin 0 {errno.EIO}")
    worker = field.worker(*SMALL, env=disk.env)
    worker.wait_log("disk: cutting t1.bin: Input/output error")
    assert field.ledger()["length"] == length and (field.dir / "t1.bin").stat().st_size == size
    disk.rule()
    assert len(ended(field, worker)) == 200
    assert_dead_after_a_failure(disk)


@pytest.mark.slow
def test_pauses_grow_while_the_disk_fails(field, faulty_disk):
    disk = FaultyDisk(faulty_disk, field.folder, field.dir)
    disk.rule(f"fdatasync t1.bin 0 {errno.EIO}")
    field.fill(50)
    worker = field.worker(*SMALL, env=disk.env)
    wait_until(lambda: len(events(worker, "disk", "error")) >= 4, lambda: str(worker))
    times = [sum(int(part) * unit for part, unit in zip(re.split("[:.]", line[11:23]), (3600000, 60000, 1000, 1)))
             for line in events(worker, "disk", "error")]
    pauses = [(b - a) % 86400000 / 1000 for a, b in zip(times, times[1:])]
    assert all(low <= pause for low, pause in zip((0.9, 1.8, 3.6), pauses)), pauses
    assert worker.alive() and field.queued() == 50
    disk.rule()
    assert len(ended(field, worker)) == 50


def test_reading_fails_for_a_while(field, faulty_disk):
    """A look that fails is believed only when it goes on failing."""
    field.fill(100)
    field.drain()
    field.fill(100)
    disk = FaultyDisk(faulty_disk, field.folder, field.dir)
    disk.rule(f"pread t1.bin 0 {errno.EIO}")
    worker = field.worker(env=disk.env)
    worker.wait_log("untrusted: .*reading t1.bin: Input/output error")
    stays(lambda: worker.alive() and field.queued() == 100, 1.5, field.logs)
    assert len(events(worker, "untrusted")) == 1, str(worker)
    disk.rule()
    assert len(ended(field, worker)) == 200


def test_disk_of_one_type_fails(field, faulty_disk):
    disk = FaultyDisk(faulty_disk, field.folder, field.dir)
    disk.rule(f"fdatasync t1.bin 0 {errno.EIO}")
    field.fill(50, "t1")
    field.fill(500, "t2")
    worker = field.worker(*SMALL, types=["t1", "t2"], env=disk.env)
    field.wait_settled("t2")
    worker.wait_log("t1 .*disk: syncing")
    assert field.queued("t1") == 50
    disk.rule()
    field.wait_settled("t1", "t2")
    assert worker.stop()[0] == 0, str(worker)
    field.compare("t1", "t2")


# --- the directory ---


def test_directory_becomes_read_only(field, disks):
    disks.tmpfs(field, "16m")
    worker = field.worker(*SMALL, "--linger", "1h")
    field.fill(100)
    field.wait_empty()
    wait_until(lambda: field.ledger()["settled"] == 100 or field.ledger()["seq"] == 100, field.logs)
    worker.freeze()  # its file is open for writing, which keeps the kernel from making the file system read-only
    worker.thaw()
    assert worker.stop()[0] == 0, str(worker)
    disks.remount(field, "ro")
    field.fill(100)
    status = field.worker(*SMALL).wait()
    assert status == 2 and "--dir" in field.workers[-1].log() and "Read-only file system" in field.workers[-1].log(), field.logs()
    disks.remount(field, "rw")
    field.drain()
    assert len(field.compare()["t1"]) == 200


def test_directory_is_read_only_for_a_while(field, disks):
    """Between two epochs of a running worker: it distrusts, says so once, and goes on when it may write again."""
    disks.tmpfs(field, "16m")
    worker = field.worker(*SMALL, *CALM)
    field.fill(100)
    field.wait_settled()
    disks.remount(field, "ro")
    field.fill(100)
    worker.wait_log("t1.bin: Read-only file system")
    stays(lambda: worker.alive() and field.queued() == 100, 2, field.logs)
    assert len(events(worker, "untrusted")) == 1, str(worker)
    disks.remount(field, "rw")
    assert len(ended(field, worker)) == 200
    assert field.segments() == ["t1.bin"]


def test_directory_may_not_be_written_to(field):
    field.dir.chmod(0o555)
    try:
        worker = field.worker(prefix=obedient())
        assert worker.wait() == 2, str(worker)
        assert "--dir" in worker.log() and str(field.dir) in worker.log() and "Permission denied" in worker.log(), str(worker)
    finally:
        field.dir.chmod(0o755)


def test_directory_stops_being_writable(field):
    """A new file cannot be made: the disk's fault, tried again; other types, whose files are there, go on."""
    field.fill(10, "t2")
    worker = field.worker(*SMALL, types=["t1", "t2"], prefix=obedient())
    field.wait_settled("t2")
    field.dir.chmod(0o555)
    try:
        field.fill(50, "t1")
        field.fill(50, "t2")
        worker.wait_log("t1 .*disk: creating .*t1.bin: Permission denied")
        field.wait_settled("t2")
        assert worker.alive() and field.queued("t1") == 50, str(worker)
    finally:
        field.dir.chmod(0o755)
    field.wait_settled("t1", "t2")
    assert worker.stop()[0] == 0, str(worker)
    field.compare("t1", "t2")


def test_file_may_not_be_opened(field):
    """Made by another user: 74 after the time of distrust, and the other type goes on."""
    for name in ("t1", "t2"):
        field.fill(10, name)
    field.drain(types=["t1", "t2"])
    (field.dir / "t1.bin").chmod(0o400)
    field.fill(10, "t1")
    worker = field.worker(types=["t1", "t2"], env=DISTRUST, prefix=obedient())
    worker.wait_log("t1 .*untrusted: the storage cannot be trusted: .*t1.bin: Permission denied\n")  # adopting would not help
    field.fill(10, "t2")
    field.wait_settled("t2")
    wait_until(lambda: field.holder("t1") is None, field.logs)
    assert field.queued("t1") == 10 and worker.alive(), str(worker)
    assert worker.stop()[0] == 74, str(worker)
    field.drain()
    field.compare("t1", "t2")


def test_file_is_immutable(field, disks):
    field.fill(10)
    field.drain()
    let_go = disks.immutable(field.dir / "t1.bin")
    field.fill(10)
    worker = field.worker(*CALM, env=DISTRUST)
    assert worker.wait() == 74 and "t1.bin: Operation not permitted" in worker.log(), str(worker)
    assert field.queued() == 10 and field.ledger()["clean"] is True
    let_go()
    field.drain()
    assert len(field.compare()["t1"]) == 20


# --- the file is taken away or exchanged while a worker has it open ---


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
    assert events(worker, "disk", "error") and worker.stop()[0] == 0, str(worker)
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
    assert events(worker, "disk", "error") and field.ledger()["seq"] == 40 and field.queued() >= 60, field.logs()
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
    assert events(worker, "disk", "error") and worker.stop()[0] == 0, str(worker)
    assert len(field.compare()["t1"]) == 100


def test_ledger_that_moves_during_a_look(field):
    """The file is missing by the ledger that was read first. When it is read again it is another one: that look counts for nothing."""
    field.fill(10)
    field.drain(*CALM)
    file = field.dir / "t1.bin"
    file.rename(field.dir / "aside")
    admin = field.server.client.admin

    def reads():
        return [op for op in admin.command("currentOp")["inprog"] if op.get("appName") == field.app_name() and op.get("command", {}).get("find") == "ledger"]
    try:
        admin.command({"configureFailPoint": "failCommand", "mode": {"skip": 2},  # whether it reads in snapshots, and the ledger before the files
                       "data": {"failCommands": ["find"], "namespace": f"{field.name}.ledger", "appName": field.app_name(),
                                "blockConnection": True, "blockTimeMS": 2000}})
        worker = field.worker(*CALM)
        wait_until(reads, lambda: f"a look at the ledger again; {worker}")
        field.ledgers.update_one({"_id": "t1"}, {"$inc": {"epoch": Int64(1)}})
        (field.dir / "aside").rename(file)
    finally:
        admin.command({"configureFailPoint": "failCommand", "mode": "off"})
    field.fill(10)
    assert len(ended(field, worker)) == 20 and not events(worker, "untrusted"), str(worker)


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


# --- the ledger and the files are not of one time ---


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


def advance(field, blocks, *arguments):
    """So many blocks more, of 10 messages each, in an epoch of their own."""
    field.fill(10 * blocks)
    field.drain("--batch-messages", 10, *arguments)


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
    field.fill(600, size=100)
    field.drain(*ROLLS)
    field.fill(600, size=100)
    field.drain(*ROLLS)
    old = field.ledger()
    field.fill(600, size=100)
    field.drain(*ROLLS)
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
    field.fill(600, size=100)
    field.drain(*ROLLS)
    field.fill(600, size=100)
    field.drain(*ROLLS)
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
    wait_until(lambda: (field.ledger() or {}).get("seq", 0) >= 100, field.logs)
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
        field.fill(600, size=100)
        field.drain(*ROLLS)
    field.fill(100)
    victim = field.worker(*SMALL, "--segment-bytes", "65536", env={"PAWL_FAULT": "block-committed"})
    assert victim.wait() == -signal.SIGKILL, str(victim)
    ledger, segments = field.ledger(), reader.read_chain(field.dir, "t1", field.ledger())
    assert len(segments) >= 4 and ledger["seq"] - ledger["settled"] == 20
    flip_header(field.dir / "t1.bin")
    worker = field.drain(env=DISTRUST)
    assert "20 deletes pending" in worker.log() and not events(worker, "untrusted"), str(worker)

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
    field.wait_settled()
    assert good.stop()[0] == 0
    assert len(field.compare()["t1"]) == 600
