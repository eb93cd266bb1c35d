"""One directory, several machines: what is written (PAD, OPEN, no O_APPEND), what sync and close say, and when a file is left alone.

A machine is a mount namespace with a boot id of its own. FUSE stands for the network file systems: pawl does not know what lies
below it; and the same folder mounted twice has two page caches and two sets of locks, as two machines have."""
import errno
import os
import re
import signal

import pytest

import reader
from disks import FaultyDisk, boot_id
from harness import CALM, wait_until

SMALL = ["--batch-messages", 20]


def blocks(field):
    return [block for segment in reader.read_chain(field.dir, "t1", field.ledger()) for block in segment.blocks]


def machines_of(field):
    """The boot ids that the OPEN blocks name, in order."""
    found = []
    for segment in reader.read_chain(field.dir, "t1", field.ledger()):
        data = segment.path.read_bytes()
        found.append(reader.text(reader.element(reader.element(segment.header.info, b"writer")[1], b"machine"))
                     if reader.element(segment.header.info, b"writer") else reader.text(reader.element(segment.header.info, b"machine")))
        found += [reader.text(reader.element(data[block.offset + 128:block.end], b"machine")) for block in segment.blocks
                  if block.kind == reader.OPEN]
    return found


def pads(field):
    """Each PAD, and what the page rules say of it: it ends at a page's border, and an OPEN of its epoch follows."""
    found = []
    for segment in reader.read_chain(field.dir, "t1", field.ledger()):
        for pad, after in zip(segment.blocks, [*segment.blocks[1:], None]):
            if pad.kind == reader.PAD:
                assert pad.end % 4096 == 0 and after and after.kind == reader.OPEN and after.offset == pad.end, pad
                assert (after.epoch, pad.epoch) == (pad.epoch, after.epoch)
                found.append(pad)
    return found


def turn(field, prefix, count=30, *arguments, **more):
    field.fill(count)
    return field.drain(*SMALL, *CALM, *arguments, prefix=prefix, **more)


# --- two machines on a file system that is local ---


def test_ledger_and_lock_name_the_machine(field, disks):
    one = disks.machine(1)
    field.fill(10)
    worker = field.worker(*CALM, "--linger", "1h", prefix=one)
    field.wait_empty()
    assert field.locks.find_one()["holder"]["boot"] == boot_id(1) and field.locks.find_one()["holder"]["pid"] == worker.pid
    assert worker.stop()[0] == 0
    assert field.ledger()["machine"] == boot_id(1)
    turn(field, disks.machine(2))
    assert field.ledger()["machine"] == boot_id(2)
    field.compare()


def test_who_writes_nothing_is_not_the_writer(field, disks):
    """The page at the end is still the other machine's, whoever held the lock since."""
    turn(field, disks.machine(1))
    field.fill(1)
    worker = field.worker(*CALM, "--exit-when-empty", prefix=disks.machine(2), env={"PAWL_FAULT_STOP": "fenced"})
    worker.wait_frozen()
    field.messages.delete_many({})
    worker.thaw()
    assert worker.wait() == 0, str(worker)
    ledger = field.ledger()
    assert (ledger["machine"], ledger["epoch"], ledger["clean"], ledger["seq"]) == (boot_id(1), 2, True, 30), str(worker)
    turn(field, disks.machine(2))
    assert len(pads(field)) == 1 and field.ledger()["machine"] == boot_id(2)


@pytest.mark.slow
def test_pad_where_the_machine_changes_and_only_there(field, disks):
    one, two = disks.machine(1), disks.machine(2)
    for prefix in (one, one, two, two, two, one, [], two):
        turn(field, prefix)
    assert len(pads(field)) == 4
    assert field.segments() == ["t1.bin"] and len(field.compare()["t1"]) == 240
    assert [m for m in machines_of(field)[1:]] == [boot_id(1), boot_id(2), boot_id(2), boot_id(2), boot_id(1),
                                                  open("/proc/sys/kernel/random/boot_id").read().strip(), boot_id(2)]


@pytest.mark.slow
def test_no_page_has_bytes_of_two_machines(field, disks):
    """Walks the file: every byte of a page was written by machines' epochs of one boot id."""
    prefixes = [disks.machine(n) for n in (1, 2, 3)]
    for n in range(9):
        turn(field, prefixes[n % 3], 1 + n * 7)
    data = (field.dir / "t1.bin").read_bytes()
    machine, last_page = None, -1
    for block in blocks(field):
        if block.kind == reader.OPEN:
            now = reader.text(reader.element(data[block.offset + 128:block.end], b"machine"))
            if machine and now != machine:
                assert block.offset // 4096 > last_page, f"{machine} and {now} share page {last_page}"
            machine = now
        # A PAD is the new machine's: it may lie in the old one's page, and is the last that does.
        last_page = (block.end - 1) // 4096 if block.kind != reader.PAD else last_page
    field.compare()


@pytest.mark.parametrize("point", ["block-written:3", "block-synced:3", "block-committed:3", "close-written"])
def test_machine_dies(field, disks, point):
    """On a local file system the next machine (it cannot be a real one there; a container with its own boot id can) mends in place."""
    field.fill(200)
    field.crash(point, *SMALL, prefix=disks.machine(1))
    turn(field, disks.machine(2), 20)
    assert len(pads(field)) == 1 and field.segments() == ["t1.bin"]
    assert len(field.compare()["t1"]) == 220


# --- how it is written ---


def test_never_append_mode(field, faulty_disk):
    """By the kernel's word on the open file, and by the flags of each open."""
    disk = FaultyDisk(faulty_disk, field.folder, field.dir)
    field.fill(200)
    worker = field.worker(*SMALL, *CALM, "--linger", "1h", env=disk.env)
    field.wait_empty()
    found = []
    for name in os.listdir(f"/proc/{worker.pid}/fd"):
        try:
            if os.readlink(f"/proc/{worker.pid}/fd/{name}") == str(field.dir / "t1.bin"):
                found.append(int(re.search(r"flags:\s+(\d+)", open(f"/proc/{worker.pid}/fdinfo/{name}").read())[1], 8))
        except OSError:
            continue
    assert found and all(not flags & os.O_APPEND and flags & os.O_ACCMODE == os.O_RDWR for flags in found), found
    assert worker.stop()[0] == 0
    opens = [words for words in disk.calls("t1.bin") if words[0] == "open"]
    assert opens and all("append=0" in words for words in opens), opens
    field.compare()


def test_one_write_a_block_then_its_sync(field, faulty_disk, disks):
    """PAD, OPEN and the first messages are one write at the committed end; each write is followed by its sync before the next; the
    last calls are CLOSE, sync, close."""
    turn(field, disks.machine(1))
    before = field.ledger()["length"]
    disk = FaultyDisk(faulty_disk, field.folder, field.dir)
    turn(field, [*disks.machine(2)], 60, env=disk.env)
    calls = [words for words in disk.calls("t1.bin") if words[0] in ("pwrite", "fdatasync", "ftruncate", "close")]
    names = [words[0] for words in calls]
    assert names == ["pwrite", "fdatasync"] * 4 + ["close"], names
    writes = [dict(word.split("=") for word in words[2:-2]) | {"got": words[-1]} for words in calls if words[0] == "pwrite"]
    assert int(writes[0]["offset"]) == before and all(write["size"] == write["got"] for write in writes)
    ends = [int(write["offset"]) + int(write["size"]) for write in writes]
    assert [int(write["offset"]) for write in writes] == [before, *ends[:-1]]
    kinds = [block.kind for block in blocks(field) if before <= block.offset < ends[0]]
    assert kinds == [reader.PAD, reader.OPEN, reader.DATA], kinds
    field.compare()


def test_new_segment_is_synced_with_its_directory(field, faulty_disk):
    disk = FaultyDisk(faulty_disk, field.folder, field.dir)
    field.fill(10)
    field.drain(env=disk.env)
    names = [(words[0], words[1]) for words in disk.calls() if words[0] != "open" or words[1] == "t1.bin"]
    assert names[:4] == [("open", "t1.bin"), ("pwrite", "t1.bin"), ("fsync", "t1.bin"), ("fsync", ".")], names


# --- a file system that is no local one ---


@pytest.fixture
def network(field, disks):
    disks.fuse(field)
    return field


def test_file_system_that_does_not_tell_its_size(field, disks):
    disks.ramfs(field)
    field.fill(10)
    field.drain()
    field.compare()


def test_clean_end_is_continued(network, disks):
    one, two = disks.machine(1), disks.machine(2)
    for prefix in (one, one, two, one, two):
        turn(network, prefix)
    assert network.segments() == ["t1.bin"] and len(pads(network)) == 3
    assert len(network.compare()["t1"]) == 150


def test_election_on_an_empty_queue_makes_no_segment(network):
    """A take-over that writes nothing gives `clean` back."""
    turn(network, [])
    network.fill(1)
    network.crash("fenced")
    assert network.ledger()["clean"] is False
    network.drain()
    assert len(network.segments()) == 2, "an unclean end, as the ledger had it, begins a new file"
    turn(network, [])
    assert len(network.segments()) == 2
    network.compare()


def test_killed_lock_costs_no_segment(network):
    """pawl-lock writes nothing to the file: however it ends, the end of the file is as clean as it was."""
    turn(network, [])
    killed = network.run("pawl-lock", "--lease", "1s", "t1", "--", "sh", "-c", "kill -9 $PPID")
    assert killed.returncode == -signal.SIGKILL and network.ledger()["clean"] is True, killed
    turn(network, [])
    assert network.segments() == ["t1.bin"] and len(network.compare()["t1"]) == 60


@pytest.mark.parametrize("point", ["block-written:3", "block-synced:3", "block-committed:3", "deleted:3", "close-written", "released"])
def test_unclean_end_is_left_alone(network, disks, point):
    """Not a byte of the old file changes, whatever lies beyond its end; the next segment names it."""
    network.fill(200)
    network.crash(point, *SMALL, prefix=disks.machine(1))
    clean, old = network.ledger()["clean"], (network.dir / "t1.bin").read_bytes()
    turn(network, disks.machine(2), 20)
    ledger = network.ledger()
    if clean:
        assert point == "released" and network.segments() == ["t1.bin"]
    else:
        assert network.segments() == sorted(["t1.bin", f"t1@{ledger['epoch']}.bin"]) and ledger["file"] != "t1.bin"
        assert (network.dir / "t1.bin").read_bytes() == old
        assert not pads(network)
    assert len(network.compare()["t1"]) == 220


def test_room_for_a_header_and_not_for_a_block(field, disks):
    """Each try would leave a segment that nothing is ever written to."""
    disks.tmpfs_below(field, "2m")
    turn(field, [])
    field.fill(20, size=20000)
    field.crash("fenced", *SMALL)
    assert field.ledger()["clean"] is False
    free = os.statvfs(field.dir)
    ballast = field.dir / "ballast"
    ballast.write_bytes(bytes(free.f_bavail * free.f_frsize - 200000))
    for _ in range(3):
        worker = field.worker(*SMALL)
        worker.wait_log(" no-space: ")
        assert worker.stop()[0] == 0, str(worker)
        assert field.segments() == ["t1.bin"], str(worker)
    ballast.unlink()
    field.drain(*SMALL)
    assert len(field.segments()) == 2 and len(field.compare()["t1"]) == 50


def test_clean_but_longer_is_left_alone(network):
    """Bytes that arrived late, behind a clean end: never cut, never written over."""
    turn(network, [])
    path = network.dir / "t1.bin"
    path.write_bytes(path.read_bytes() + bytes(100))
    old = path.read_bytes()
    turn(network, [])
    assert len(network.segments()) == 2 and path.read_bytes() == old
    assert len(network.compare()["t1"]) == 60


def test_killed_again_and_again(network, disks):
    prefixes = [disks.machine(n) for n in (1, 2)]
    network.fill(600)
    for n in range(5):
        network.crash("block-synced:3", *SMALL, prefix=prefixes[n % 2])
        network.compare(queue_empty=False)
    network.drain(*SMALL)
    assert len(network.compare()["t1"]) == 600 and len(network.segments()) == 6


def test_frozen_holder_wakes_up(network, disks):
    """Its late write lands in the file that was left alone."""
    network.fill(400)
    frozen = network.worker(*SMALL, prefix=disks.machine(1), env={"PAWL_FAULT_STOP": "block-written:3"})
    frozen.wait_frozen()
    turn(network, disks.machine(2), 20)
    frozen.thaw()
    network.fill(50)
    assert len(network.finish(frozen)) == 470


@pytest.mark.parametrize("rule", [f"close t1.bin 1 {errno.EIO}", f"fdatasync t1.bin 3 {errno.EIO}", f"fdatasync t1.bin 2 {errno.EIO}"],
                         ids=["close", "sync of CLOSE", "sync of a block"])
def test_what_sync_and_close_say_counts(network, faulty_disk, rule):
    """NFS tells of a lost write at the latest in close: without its yes the end is not clean, and the next epoch begins a new file."""
    disk = FaultyDisk(faulty_disk, network.folder, network.dir)
    disk.rule(rule)
    network.fill(40)
    worker = network.worker(*SMALL, *CALM, env=disk.env)
    worker.wait_log(" close: | disk: ")
    wait_until(lambda: network.holder() is None, network.logs)
    assert network.ledger()["clean"] is False or len(network.segments()) > 1, str(worker)
    network.fill(20)
    network.wait_settled()
    assert worker.stop()[0] == 0, str(worker)
    assert len(network.segments()) == 2 and len(network.compare()["t1"]) == 60


def test_many_workers_on_two_machines(network, disks):
    prefixes = [disks.machine(n) for n in (1, 2)]
    changing_hands(network, [(prefixes[n % 2], network.dir) for n in range(4)])


def changing_hands(field, places):
    """A worker in each of the places; three times the holder, in the middle of its work, is killed or asked to stop."""
    for prefix, place in places:
        field.worker("--batch-messages", 5, prefix=prefix, directory=place)
    for n in range(3):
        field.fill(500)
        holder = field.holding_worker()
        seq = field.seq()
        wait_until(lambda: field.seq() > seq + 100 or field.queued() == 0, field.logs)
        holder.kill() if n % 2 else holder.signal(signal.SIGTERM)
        wait_until(lambda: not holder.alive(), lambda: str(holder))
        field.compare(live=True)
    field.wait_settled()
    for worker in field.workers:
        assert not worker.alive() or worker.stop()[0] == 0, str(worker)
    assert len(field.compare()["t1"]) == 1500


# --- the same folder through two mounts ---


@pytest.fixture
def twice(field, disks):
    """The field, and two (prefix, folder) of machines that see it through mounts of their own."""
    places = disks.twice(field)
    return field, [(disks.machine(n + 1), place) for n, place in enumerate(places)]


def test_two_mounts_take_turns(twice):
    field, machines = twice
    for n in range(6):
        prefix, place = machines[n % 2]
        turn(field, prefix, directory=place)
    assert field.segments() == ["t1.bin"] and len(pads(field)) == 5
    assert len(field.compare()["t1"]) == 180


@pytest.mark.parametrize("point", ["block-written:3", "block-committed:3"])
def test_two_mounts_one_dies(twice, point):
    field, machines = twice
    field.fill(300)
    for n in range(4):
        prefix, place = machines[n % 2]
        field.crash(point, *SMALL, prefix=prefix, directory=place)
    prefix, place = machines[0]
    field.drain(*SMALL, prefix=prefix, directory=place)
    assert len(field.segments()) == 5 and len(field.compare()["t1"]) == 300


def test_two_mounts_one_freezes(twice):
    """The guards of the two mounts do not see one another: the epoch alone keeps them apart."""
    field, machines = twice
    field.fill(400)
    frozen = field.worker(*SMALL, prefix=machines[0][0], directory=machines[0][1], env={"PAWL_FAULT_STOP": "block-written:3"})
    frozen.wait_frozen()
    field.fill(20)
    field.drain(*SMALL, prefix=machines[1][0], directory=machines[1][1])
    frozen.thaw()
    field.fill(50)
    field.wait_settled()
    assert frozen.stop()[0] == 0, str(frozen)
    assert len(field.segments()) >= 2 and len(field.compare()["t1"]) == 470


def test_two_mounts_at_work_together(twice):
    field, machines = twice
    changing_hands(field, machines * 2)


# --- one folder, seen by one worker as a local file system and by another as a network's ---


@pytest.mark.parametrize("crash", [None, "fenced", "segment-created"])
def test_late_write_over_the_network(field, disks, faulty_disk, crash):
    """A worker that reaches the folder over the network takes no guard and freezes in its write. The local one, which finds the guard free,
    leaves that file alone, even if it crashes before its first commit and another local one comes: the late write meets nothing."""
    turn(field, [])
    assert field.ledger()["clean"] is True
    late_write(field, faulty_disk, disks.again(field, "far"), crash)


def test_late_write_through_an_overlay(field, disks, faulty_disk):
    """The guard through an overlay and the guard on the same file below it are both granted."""
    turn(field, [])
    late_write(field, faulty_disk, disks.overlay(field, "container"), None)


def late_write(field, faulty_disk, place, crash):
    disk = FaultyDisk(faulty_disk, field.folder, place)
    disk.rule("pwrite t1.bin 1 stop")
    field.fill(60)
    frozen = field.worker(*SMALL, directory=place, env=disk.env)
    frozen.wait_frozen()
    if crash:
        field.crash(crash, *SMALL)
    field.drain(*SMALL)
    assert len(field.segments()) == (3 if crash == "segment-created" else 2), "the file of the late write is continued"
    frozen.thaw()
    frozen.wait_log("fenced: ")
    assert frozen.stop()[0] == 0, str(frozen)
    assert len(field.compare()["t1"]) == 90


def test_far_and_near_take_turns(field, disks):
    """Clean ends are continued; where the view changes a PAD keeps the two apart, though the kernel is the same."""
    place = disks.again(field, "far")
    for n in range(5):
        turn(field, [], directory=place if n % 2 else field.dir)
    assert field.segments() == ["t1.bin"] and len(pads(field)) == 4
    assert len(field.compare()["t1"]) == 150
