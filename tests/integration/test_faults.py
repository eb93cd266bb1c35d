"""A disk that is full or fails, and a directory or a file that may not be written: nothing is lost and nothing papered over."""
import errno
import os
import re

import pytest

from disks import FaultyDisk, obedient
from harness import CALM, DISTRUST, stays, wait_until

SMALL = ["--batch-messages", 20]


# --- no space ---


def test_disk_full_in_the_middle(field, disks):
    disks.tmpfs(field, "1m")
    field.fill(2000, size=1000)
    worker = field.worker(*SMALL, *CALM)
    worker.wait_log(" no-space: ")
    seq = field.ledger()["seq"]
    assert 0 < seq < 2000
    stays(lambda: field.ledger()["seq"] == seq and field.holder() == worker.pid and worker.alive(), 2.5, field.logs)
    assert len(worker.events("no-space", "warn")) == 1 and not worker.events("disk"), str(worker)
    field.compare(queue_empty=False)
    field.fill(100)
    assert field.queued() >= 2100 - seq
    disks.remount(field, "size=16m")
    assert len(field.finish(worker)) == 2100
    assert len(worker.events("no-space", "warn")) == len(worker.events("no-space", "info")) == 1, str(worker)
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
    assert len(field.finish(worker)) == 50


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
        wait_until(lambda: len(worker.events("no-space", "warn")) == turn, lambda: str(worker))
        ballast.unlink()
        wait_until(lambda: len(worker.events("no-space", "info")) == turn, lambda: str(worker))
    field.wait_empty()
    assert worker.stop()[0] == 0 and len(worker.events("no-space", "warn")) == 3, str(worker)
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
    assert len(field.finish(second)) == 2000
    assert field.segments() == ["t1.bin"]


# --- the disk fails ---


def test_write_back_fails_for_real(field, disks):
    """A block device whose backing store is full: the file system has room, the write succeeds, and the sync says that it was lost."""
    give_room = disks.thin(field)
    field.fill(4000, size=2000, chunk=200)
    worker = field.worker("--batch-messages", 200)
    worker.wait_log(r" disk: syncing")
    assert not worker.events("no-space"), str(worker)
    wait_until(lambda: 0 < field.queued() < 4000, field.logs)
    assert worker.alive(), str(worker)
    field.compare(queue_empty=False, live=True)
    give_room()
    assert len(field.finish(worker)) == 4000
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
    assert len(field.finish(worker)) == 220
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
    field.crash("block-written:3", *SMALL)
    length, size = field.ledger()["length"], (field.dir / "t1.bin").stat().st_size
    assert size > length
    disk = FaultyDisk(faulty_disk, field.folder, field.dir)
    disk.rule(f"ftruncate t1.bin 0 {errno.EIO}")
    worker = field.worker(*SMALL, env=disk.env)
    worker.wait_log("disk: cutting t1.bin: Input/output error")
    assert field.ledger()["length"] == length and (field.dir / "t1.bin").stat().st_size == size
    disk.rule()
    assert len(field.finish(worker)) == 200
    assert_dead_after_a_failure(disk)


@pytest.mark.slow
def test_pauses_grow_while_the_disk_fails(field, faulty_disk):
    disk = FaultyDisk(faulty_disk, field.folder, field.dir)
    disk.rule(f"fdatasync t1.bin 0 {errno.EIO}")
    field.fill(50)
    worker = field.worker(*SMALL, env=disk.env)
    wait_until(lambda: len(worker.events("disk", "error")) >= 4, lambda: str(worker))
    times = [sum(int(part) * unit for part, unit in zip(re.split("[:.]", line[11:23]), (3600000, 60000, 1000, 1)))
             for line in worker.events("disk", "error")]
    pauses = [(b - a) % 86400000 / 1000 for a, b in zip(times, times[1:])]
    assert all(low <= pause for low, pause in zip((0.9, 1.8, 3.6), pauses)), pauses
    assert worker.alive() and field.queued() == 50
    disk.rule()
    assert len(field.finish(worker)) == 50


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
    assert len(worker.events("untrusted")) == 1, str(worker)
    disk.rule()
    assert len(field.finish(worker)) == 200


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


# --- what is not permitted ---


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
    assert len(worker.events("untrusted")) == 1, str(worker)
    disks.remount(field, "rw")
    assert len(field.finish(worker)) == 200
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
