"""What docs/running.md says of GlusterFS. Each case ends with the same comparison: each acknowledged message is in the files exactly once,
in order, read by an independent reader and by pawl-dump, through both mounts, and all three bricks have the same bytes."""
import re
import signal
import sys

import pytest

import reader
from fields import SharedField
from harness import run, wait_until
from volume import command, pause

STALL = ["--stall", "3s"]


class Shared(SharedField):
    """A field on a volume with two mounts, each of them a machine."""

    def __init__(self, field, volume, disks):
        self.field, self.volume, self.disks, self.sent = field, volume, disks, 0
        self.one, self.two = volume.mount("one", group=10001), volume.mount("two", group=10002)
        self.one.dir.mkdir()
        field.dir = self.one.dir
        wait_until(self.two.dir.is_dir, "the folder on the other mount")

    def close(self):
        if self.two.process.poll() is None:
            command("iptables", "-w", "-F", "OUTPUT")
        for mount in self.volume.mounts:
            if mount.process.poll() is None:
                mount.thaw()
        self.field.close()

    def worker(self, mount, *arguments, own_machine=True, env=None):
        """own_machine=False: in this mount namespace, so that it sees what is mounted later."""
        prefix = self.disks.machine(1 if mount is self.one else 2) if own_machine else []
        return self.field.worker("--batch-messages", 10, *STALL, *arguments, prefix=prefix, directory=mount.dir, env=env)

    def holder_on(self, mount, *arguments, **more):
        """A worker on that mount, which holds the type and is in the middle of its work."""
        worker = self.worker(mount, "--linger", "1h", *arguments, **more)
        self.fill(2000)
        wait_until(lambda: self.field.holder() == worker.pid, self.field.logs)
        self.progress()
        return worker

    def compare(self, **more):
        """A mount may show for about a second what a file was before, shorter or empty: docs/format.md tells readers to look again. After a cut
        it may not have found its bricks yet. What is wrong in the file stays so."""
        def look():
            try:
                return self.field.compare(**more)["t1"]
            except (reader.Violation, OSError) as error:
                self.stale = str(error)
                return None
        return wait_until(look, lambda: self.stale, 10)

    def judge(self, healed=True):
        """The queue is empty; ends the workers, and compares."""
        field = self.field
        field.wait_empty()
        for worker in field.workers:
            assert not worker.alive() or worker.stop()[0] == 0, str(worker)
        assert len(self.compare()) == self.sent
        field.dir = self.two.dir
        assert len(self.compare()) == self.sent
        field.dir = self.one.dir
        if healed:
            self.volume.wait_healed()
            self.volume.same_on_all_bricks()


@pytest.fixture
def make_shared(field, disks, make_volume):
    made = []

    def make(**options):
        made.append(Shared(field, make_volume(**options), disks))
        return made[-1]
    yield make
    for one in made:
        one.close()


@pytest.fixture
def shared(make_shared):
    return make_shared()


def stopped_by_the_mount(worker):
    """It gave the type up for its file system's sake, and is alive."""
    return worker.alive() and re.search(r" (stall|disk): ", worker.log())


def test_workers_killed_and_frozen(shared):
    for n in range(4):
        shared.worker((shared.one, shared.two)[n % 2])
    frozen = []
    for n in range(6):
        shared.fill(500)
        holder = shared.field.holding_worker()
        shared.progress(100)
        if n % 3 == 2:
            holder.signal(signal.SIGTERM)
        elif n % 3 == 1:
            holder.freeze()
            epoch = shared.epoch()
            wait_until(lambda: shared.epoch() > epoch or shared.field.queued() == 0, shared.field.logs)
            frozen.append(holder)
        else:
            holder.kill()
            shared.worker(shared.two if f"{shared.one.dir}" in holder.log() else shared.one)
        if len(frozen) > 1 or n == 5:
            for one in frozen:
                one.thaw()
            frozen = []
        shared.compare(live=True)
    shared.judge()


def test_machine_changes_at_a_clean_end(shared):
    """One file, continued by turns through both mounts."""
    for n in range(6):
        shared.fill(50)
        worker = shared.worker((shared.one, shared.two)[n % 2], "--exit-when-empty")
        assert worker.wait() == 0, str(worker)
    assert shared.field.segments() == ["t1.bin"]
    shared.judge()


def test_brick_killed_and_healed(shared):
    worker = shared.holder_on(shared.one)
    shared.worker(shared.two)
    shared.volume.kill_brick(1)
    shared.fill(1000)
    shared.field.wait_empty()
    assert not shared.volume.healed()
    worker.kill()
    shared.fill(500)
    shared.progress()
    shared.volume.restart_bricks()
    shared.volume.wait_healed()
    shared.fill(500)
    # The brick that was away has it all: it alone answers for what the other two lost.
    shared.judge()


def test_client_frozen(shared):
    """A machine that stands still with a block on its way; another takes over, and the block arrives afterwards."""
    first = shared.holder_on(shared.one)
    second = shared.worker(shared.two)
    shared.one.freeze()
    shared.fill(500)
    wait_until(lambda: shared.field.holder() == second.pid, shared.field.logs)
    assert stopped_by_the_mount(first)
    shared.one.thaw()
    shared.fill(500)
    shared.judge()
    assert first.process.returncode == 0


def test_client_cut_off(shared):
    """No packet leaves one machine any more; what it has not sent yet comes late or never."""
    first = shared.holder_on(shared.two)
    second = shared.worker(shared.one)
    shared.two.cut()
    shared.fill(500)
    wait_until(lambda: shared.field.holder() == second.pid, shared.field.logs)
    shared.progress()
    assert stopped_by_the_mount(first)
    shared.two.join()
    shared.fill(500)
    second.kill()
    shared.fill(500)
    shared.judge()
    assert first.process.returncode == 0


def test_split_and_healed(shared):
    """One machine reaches one brick of three, the other machine the other two: the first one can write nothing, and the second goes on. What its
    two bricks have then comes to the third."""
    first = shared.holder_on(shared.two)
    second = shared.worker(shared.one)
    ports = shared.volume.ports()
    shared.volume.set("cluster.self-heal-daemon", "off")  # it would reach all three
    shared.two.cut(ports[:2])
    shared.one.cut(ports[2:])
    shared.fill(500)
    wait_until(lambda: shared.field.holder() == second.pid, shared.field.logs)
    shared.progress()
    assert stopped_by_the_mount(first)
    shared.two.join(ports[:2])
    shared.one.join(ports[2:])
    shared.volume.set("cluster.self-heal-daemon", "on")
    shared.volume.wait_healed()
    second.kill()
    shared.fill(500)
    shared.judge()
    assert first.process.returncode == 0


def test_quorum_lost(shared):
    """Two of three bricks gone: nothing can be read or written. Back within the minute after which a worker stops, the workers go on."""
    workers = [shared.holder_on(shared.one), shared.worker(shared.two)]
    shared.volume.kill_brick(0)
    shared.volume.kill_brick(1)
    shared.fill(500)
    for worker in workers:
        worker.wait_log("Transport endpoint is not connected")
    seq = shared.seq()
    pause(2)
    assert shared.seq() == seq and all(worker.alive() for worker in workers)
    shared.volume.restart_bricks()
    shared.judge()


def test_volume_full(make_shared):
    def small(volume):
        for brick in volume.bricks:
            command("mount", "-t", "tmpfs", "-o", "size=12m", "none", brick)
            (brick / "files").mkdir()
        volume.bricks = [brick / "files" for brick in volume.bricks]
    shared = make_shared(prepare=small)
    shared.volume.set("storage.reserve", "0")
    workers = [shared.holder_on(shared.one), shared.worker(shared.two)]
    shared.fill(1000, size=20000)
    wait_until(lambda: any(" no-space: " in worker.log() for worker in workers), shared.field.logs)
    for brick in shared.volume.bricks:
        command("mount", "-o", "remount,size=64m", brick.parent)
    shared.judge()
    for brick in shared.volume.bricks:
        shared.disks.undo.append(("umount", "-l", brick.parent))


@pytest.mark.parametrize("seen, said", [("on", "no-space"), ("off", "disk")])
def test_quota_reached(shared, seen, said):
    """The volume has room for more. By default what is free says so beforehand; without that, a write or a sync fails. A quota is not exact to
    the byte, and less so with its timeouts, which are 0 here."""
    quota = shared.volume.quota
    quota("enable")
    shared.volume.set("features.quota-deem-statfs", seen)
    for which in ("soft-timeout", "hard-timeout"):
        quota(which, "0")
    quota("limit-usage", "/", "3MB")
    workers = [shared.holder_on(shared.one), shared.worker(shared.two)]
    shared.fill(500, size=20000)
    wait_until(lambda: any(f" {said}: " in worker.log() for worker in workers), shared.field.logs)
    seq = shared.seq()
    pause(2)
    assert shared.seq() == seq < shared.sent and all(worker.alive() for worker in workers)
    quota("limit-usage", "/", "100MB")
    shared.judge()


def test_client_killed(shared):
    """ENOTCONN under the holder. The other takes over; and after a new mount, the first can be the holder again."""
    first = shared.holder_on(shared.one, own_machine=False)
    second = shared.worker(shared.two)
    shared.one.kill()
    shared.fill(500)
    wait_until(lambda: shared.field.holder() == second.pid, shared.field.logs)
    shared.progress()
    assert first.alive(), str(first)
    shared.one.again()
    second.kill()
    shared.fill(500)
    wait_until(lambda: shared.field.holder() == first.pid, shared.field.logs)
    shared.judge()


def hold_writes(volume):
    """A client keeps what is written until it is told to sync, or has a megabyte of it."""
    volume.set("performance.write-behind-trickling-writes", "off")


def replaced_with_a_block_unsent(shared, take_away):
    """The worker on mount two has written a block that its client has not sent, when take_away() is called; another machine has written since."""
    hold_writes(shared.volume)
    first = shared.worker(shared.two, "--linger", "1h", env={"PAWL_FAULT_STOP": "block-written:3"})
    shared.fill(200)
    first.wait_frozen()
    take_away()
    seq = shared.seq()
    second = shared.worker(shared.one, "--linger", "1h")
    wait_until(lambda: shared.field.holder() == second.pid and shared.field.queued() == 0, shared.field.logs)
    assert shared.seq() > seq
    return first


def test_block_arrives_after_the_successors(shared):
    """A machine stood still, and sends the block when it goes on."""
    first = replaced_with_a_block_unsent(shared, shared.two.freeze)
    shared.two.thaw()
    first.thaw()
    shared.fill(200)
    shared.judge()


def test_cut_off_with_a_block_that_was_not_sent(shared):
    """Its network was gone. The block may come when that is back."""
    first = replaced_with_a_block_unsent(shared, shared.two.cut)
    first.thaw()  # it syncs
    wait_until(lambda: stopped_by_the_mount(first), first.log)
    shared.two.join()
    shared.fill(200)
    shared.judge()


@pytest.mark.parametrize("sees", ["marks", "folder"])
def test_brick_is_refused(shared, sees):
    """It looks like any directory, and what is written there reaches neither the other bricks nor the mounts. A user who is not root sees the
    folder .glusterfs and no marks."""
    brick = shared.volume.bricks[0]
    prefix = [] if sees == "marks" else ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]
    ask = [*prefix, sys.executable, "-c", "import os, sys; os.getxattr(sys.argv[1], 'trusted.gfid')", brick / "storage"]
    assert (command(*ask, check=False).returncode == 0) == (sees == "marks")
    shared.fill(10)
    worker = shared.field.worker(prefix=prefix, directory=brick / "storage")
    assert worker.wait() == 2 and f"part of a brick of GlusterFS ({brick}" in worker.log(), str(worker)
    adopt = run("pawl-setup", *shared.field.mongo, "--adopt", "t1", "--yes", "--dir", brick / "storage")
    assert adopt.returncode == 2 and b"part of a brick of GlusterFS" in adopt.stderr, adopt
    assert list((brick / "storage").iterdir()) == []
    shared.worker(shared.one)
    shared.judge()
