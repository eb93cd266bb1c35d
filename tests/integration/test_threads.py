"""The threads that all types of a worker share: what hangs for some types delays no other, and idle types have none."""
import os
import time

from disks import FaultyDisk
import pytest

from harness import CALM, DEADLINE, wait_until

BASE, BESIDE = 64, 30  # for all types together; and those for polls, deletes, renewals, wake-ups and the driver


def threads(worker):
    return len(os.listdir(f"/proc/{worker.pid}/task"))


@pytest.mark.slow
def test_disks_that_hang_delay_no_other_type(field, faulty_disk, tmp_path):
    """More types hang than there are threads for: others are made, the other types go on, the locks are renewed, and all recovers."""
    disk = FaultyDisk(faulty_disk, tmp_path, field.dir)
    hanging = [f"h{n}" for n in range(BASE + 16)]
    disk.rule("pwrite h*.bin 0 hang")
    field.insert("hanging", [{"type": name, "n": n} for n, name in enumerate(hanging)])
    worker = field.worker(*CALM, types=[",".join(["t1", *hanging])], env=disk.env)
    wait_until(lambda: threads(worker) >= len(hanging), lambda: f"{threads(worker)} threads of {worker}")
    locks = field.db.locks
    owners = {lock["type"]: lock["owner"] for lock in locks.find({"slot": 0, "type": {"$in": hanging}})}
    for _ in range(3):
        field.fill(500)
        field.wait_empty("t1")
    assert field.db.messages.count_documents({}) == len(hanging)
    assert len(hanging) <= threads(worker) <= len(hanging) + BASE + BESIDE
    assert all(lock["owner"] == owners.get(lock["type"], lock["owner"]) for lock in locks.find({"slot": 0})), "a lock was lost"
    disk.rule()
    field.wait_empty(*hanging)
    wait_until(lambda: threads(worker) <= BASE + BESIDE, lambda: f"{threads(worker)} threads of {worker}")
    field.fill(500)
    field.finish(worker)
    for name in hanging:
        field.compare(name)


@pytest.mark.slow
def test_types_share_what_deletes_by_ranges(field):
    """Many types delete by ranges through a few connections, and no delete meets a session that served a later pass."""
    names = [f"t{n}" for n in range(1, 25)]
    for name in names:
        field.fill(2000, name)
    transactions = field.server.client.admin.command("serverStatus")["transactions"]
    field.drain(*CALM, "--batch-messages", 100, types=[",".join(names)])
    field.compare(*names)
    after = field.server.client.admin.command("serverStatus")["transactions"]
    assert after["totalCommitted"] - transactions["totalCommitted"] >= 0.9 * len(names) * 20
    assert after["totalAborted"] == transactions["totalAborted"], "a session was used after the pass whose delete it served"


@pytest.mark.slow
def test_idle_types_hold_nothing(field):
    """After its epoch a type has no descriptor, and its threads and connections serve the others."""
    names = [f"t{n}" for n in range(200)]
    worker = field.worker(*CALM, types=[",".join(names)])
    for _ in range(2):
        field.insert("all", [{"type": name, "n": n} for n, name in enumerate(names)])
        field.wait_settled(*names)
    few = 64 + 8 + 2 * 4 + 2 + 8  # connections of the threads, and those that are kept for the next passes
    descriptors = len(os.listdir(f"/proc/{worker.pid}/fd"))
    assert descriptors <= few + 40, os.popen(f"ls -l /proc/{worker.pid}/fd").read()
    assert threads(worker) <= BASE + BESIDE
    field.finish(worker)
    field.compare(*names)


@pytest.mark.slow
def test_memory_is_bounded_for_all_types(field, faulty_disk, tmp_path):
    """Types with large messages, whose disk hangs for a while, share --memory, and all is drained exactly."""
    disk = FaultyDisk(faulty_disk, tmp_path, field.dir)
    disk.rule("pwrite large*.bin 0 hang")
    large, small = [f"large{n}" for n in range(100)], [f"small{n}" for n in range(10)]
    for name in large:
        field.fill(2, name, size=1 << 20)
    for name in small:
        field.fill(500, name)
    worker = field.worker("--memory", "16MiB", "--exit-when-empty", *CALM, types=[",".join(large + small)], env=disk.env)
    time.sleep(4)  # long enough to read all of them, if nothing bounds it
    disk.rule()
    wait_until(lambda: worker.sample_memory() or not worker.alive(), lambda: str(worker), 2 * DEADLINE)
    assert worker.wait() == 0, str(worker)
    assert worker.peak_kib < (16 + 50) << 10, f"{worker.peak_kib} KiB"
    assert all(field.seq(name) == 2 for name in large)
    field.compare(*large[::20], *small[::5])


def test_types_on_a_disk_that_hangs_do_not_keep_memory_from_others(field, listening, faulty_disk, tmp_path):
    """They hold what they have read, and would read ahead. A type that comes later waits for a second, and not for the disk."""
    disk = FaultyDisk(faulty_disk, tmp_path, field.dir)
    disk.rule("pwrite large*.bin 0 hang")
    large, small = [f"large{n}" for n in range(8)], [f"small{n}" for n in range(4)]
    for name in large:
        field.fill(6, name, size=1 << 20)
    worker, port = listening("--memory", "8MiB", "--batch-messages", 1, types=[",".join(large + small)], env=disk.env)
    wait_until(lambda: len(field.segments("large0")) == 1, field.logs)
    time.sleep(3)  # they have read what they may
    metrics = port.metrics()
    assert metrics["pawl_actions_lasting",] >= 1 and metrics["pawl_memory_used_bytes",] >= 1 << 20, metrics
    for name in small:
        field.fill(20, name)
    wait_until(lambda: all(field.seq(name) > 0 for name in small), field.logs, 20)
    disk.rule()
    for name in large + small:
        field.wait_settled(name)
    wait_until(lambda: port.metrics()["pawl_actions_lasting",] == port.metrics()["pawl_memory_used_bytes",] == 0, lambda: str(port.metrics()))
    assert worker.stop()[0] == 0, str(worker)
    field.compare(*large, *small)


def test_one_message_is_larger_than_the_memory(field):
    field.fill(3, size=15 << 20, chunk=1)
    field.drain("--memory", "1MiB")
    field.compare()
