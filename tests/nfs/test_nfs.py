"""What docs/operations.md says of NFS. Each case ends with the same comparison: each acknowledged message is in the files exactly once, in
order, read by an independent reader and by pawl-dump, as both clients see the files and as the server has them."""
import re
import signal

import pytest

import reader
from harness import program, wait_until
from machine import EXPORT, MOUNT, Worker

STALL = ["--stall", "3s"]


class Shared:
    """A field in a folder of the server, which two machines mount."""

    def __init__(self, field, machines, options):
        self.field, self.server, self.one, self.two = field, machines.server, machines.one, machines.two
        self.clients, self.options, self.sent = (machines.one, machines.two), options, 0
        self.dir = f"{MOUNT}/{field.name}"
        self.server.run("mkdir", f"{EXPORT}/{field.name}")
        for client in self.clients:
            self.mount(client)

    def mount(self, client):
        client.mount(self.server, self.options)
        wait_until(lambda: client.run("test", "-d", self.dir, check=False)["exit"] == 0, f"the folder on {client.name}")

    def close(self):
        self.field.close()
        if self.server.alive():
            self.server.run("rm", "-rf", f"{EXPORT}/{self.field.name}", "/run/disk/rest")

    def worker(self, machine, *arguments, env=None):
        field = self.field
        worker = Worker(machine, [*field.mongo, "--dir", self.dir, "--type", "t1", "--batch-messages", "10", *STALL, *arguments],
                        field.folder / f"worker{len(field.workers)}.log", env)
        field.workers.append(worker)
        return worker

    def fill(self, count, size=200):
        self.field.fill(count, size=size)
        self.sent += count

    def seq(self):
        return (self.field.ledger() or {}).get("seq", 0)

    def epoch(self):
        return (self.field.ledger() or {}).get("epoch", 0)

    def progress(self, count=50):
        before = self.seq()
        wait_until(lambda: self.seq() >= min(before + count, self.sent), self.field.logs)

    def holder(self):
        """The worker that holds the type, or None. Two machines may give out the same pid."""
        lock = self.field.locks.find_one({"type": "t1", "slot": 0})
        return lock and next((worker for worker in self.field.workers if worker.alive() and
                              (worker.machine.name, worker.pid) == (lock["holder"]["host"], lock["holder"]["pid"])), None)

    def wait_holder(self, worker):
        wait_until(lambda: self.holder() is worker, self.field.logs)

    def holder_on(self, machine, *arguments, **more):
        """A worker on that machine, which holds the type and is in the middle of its work."""
        worker = self.worker(machine, "--linger", "1h", *arguments, **more)
        self.fill(1000)
        self.wait_holder(worker)
        self.progress()
        return worker

    # the comparison

    def copy(self, machine, folder, name):
        """The files as that machine reads them."""
        machine.run("sh", "-c", f"rm -rf /run/host/{name} && cp -r {folder} /run/host/{name} && sync /run/host/{name}/* /run/host/{name}")
        return machine.shared / name

    def compare_on(self, machine, folder, **more):
        """A machine may see for some seconds what a file was before, shorter: docs/format.md tells readers to look again. What is wrong in
        the file stays so."""
        def look():
            self.field.dir = self.copy(machine, folder, self.field.name)
            try:
                return self.field.compare(**more)["t1"]
            except reader.Violation as error:
                self.stale = str(error)
                return None
        return wait_until(look, lambda: f"on {machine.name}: {self.stale}", 10)

    def judge(self):
        """The queue is empty; ends the workers, and compares."""
        field = self.field
        field.wait_empty()
        for worker in field.workers:
            assert not worker.alive() or worker.stop() == 0, str(worker)
        for machine, folder in ((self.one, self.dir), (self.two, self.dir), (self.server, f"{EXPORT}/{field.name}")):
            assert len(self.compare_on(machine, folder)) == self.sent
        for machine in self.clients:
            told = machine.out(program("pawl-dump"), "--verify", *field.mongo, "--dir", self.dir, "--type", "t1")
            assert re.search(rf"^t1: ok\b.*\b{self.sent} documents\b", told), told

    def size_on(self, machine):
        """Of the first segment, as that machine has it."""
        folder = self.dir if machine in self.clients else f"{EXPORT}/{self.field.name}"
        return int(machine.out("stat", "-c", "%s", f"{folder}/t1.bin"))

    def segments(self):
        return self.one.out("ls", self.dir).split()


@pytest.fixture(params=["4.2"])
def shared(request, field, machines):
    one = Shared(field, machines, f"vers={request.param}")
    yield one
    one.close()


def test_machine_changes_at_a_clean_end(shared):
    """One file, continued by turns on both machines."""
    for n in range(6):
        shared.fill(50)
        worker = shared.worker(shared.clients[n % 2], "--exit-when-empty")
        assert worker.wait() == 0, str(worker)
    assert shared.segments() == ["t1.bin"]
    shared.judge()


def test_workers_killed_and_frozen(shared):
    for n in range(4):
        shared.worker(shared.clients[n % 2])
    frozen = []
    for n in range(6):
        shared.fill(300)
        holder = wait_until(shared.holder, shared.field.logs)
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
            shared.worker(holder.machine)
    for one in frozen:
        one.thaw()
    shared.judge()


def test_machine_frozen(shared):
    """Longer than its lease, in the middle of its work; the other one writes meanwhile, and loses it again."""
    first = shared.holder_on(shared.one)
    second = shared.worker(shared.two, "--linger", "1h")
    shared.one.freeze()
    shared.fill(300)
    shared.wait_holder(second)
    shared.progress()
    shared.one.thaw()
    shared.fill(300)
    shared.field.wait_empty()
    first.wait_log("fenced|lost")
    second.kill()
    shared.fill(300)
    shared.wait_holder(first)
    shared.judge()


def stopped_before_its_sync(shared):
    """A worker that has written a block and not synced it, on a machine that has not sent it: the pages are dirty there, and the server has a
    shorter file."""
    first = shared.worker(shared.one, "--linger", "1h", env={"PAWL_FAULT_STOP": "block-written:3"})
    shared.fill(100)
    first.wait_frozen()
    written, arrived = shared.size_on(shared.one), shared.size_on(shared.server)
    assert arrived < written, (arrived, written)
    return first, written


def test_block_arrives_after_the_successors(shared):
    first, written = stopped_before_its_sync(shared)
    shared.one.freeze()
    seq = shared.seq()
    second = shared.worker(shared.two, "--linger", "1h")
    shared.wait_holder(second)
    shared.field.wait_empty()
    assert shared.seq() > seq
    assert shared.size_on(shared.server) < written
    shared.one.thaw()
    first.thaw()
    shared.fill(200)
    wait_until(lambda: shared.size_on(shared.server) >= written, "the late block on the server")
    shared.judge()


def test_machine_turned_off(shared):
    """With dirty pages. It starts again, and its worker can hold the type again."""
    first, written = stopped_before_its_sync(shared)
    shared.one.power_off()
    second = shared.worker(shared.two, "--linger", "1h")
    shared.wait_holder(second)
    shared.field.wait_empty()
    assert shared.size_on(shared.server) < written and not first.alive()
    shared.one.boot()
    shared.one.wait_up()
    shared.mount(shared.one)
    third = shared.worker(shared.one, "--linger", "1h")
    second.kill()
    shared.fill(300)
    shared.wait_holder(third)
    shared.judge()


def test_machine_cut_off(shared):
    """From server and MongoDB, for longer than the server waits for it."""
    first = shared.holder_on(shared.two)
    second = shared.worker(shared.one, "--linger", "1h")
    shared.two.cut()
    shared.fill(300)
    shared.wait_holder(second)
    shared.progress()
    first.wait_log(" (stall|disk|lost|mongodb): ")
    shared.two.join()
    shared.fill(300)
    shared.field.wait_empty()
    second.kill()
    shared.fill(300)
    shared.wait_holder(first)
    shared.judge()


def test_server_turned_off(shared):
    """Its power goes while a worker writes: what a sync has brought there is there when it is back."""
    workers = [shared.holder_on(shared.one), shared.worker(shared.two)]
    shared.server.power_off()
    shared.fill(300)
    shared.server.boot()
    shared.server.wait_up().serve()
    shared.progress(200)
    assert all(worker.alive() for worker in workers)
    shared.judge()


def test_export_full(shared):
    shared.server.run("sh", "-c", "dd if=/dev/zero of=/run/disk/rest bs=1M status=none; sync; truncate -s -3M /run/disk/rest; sync", check=False)
    workers = [shared.holder_on(shared.one), shared.worker(shared.two)]
    shared.fill(500, size=20000)
    wait_until(lambda: any(" no-space: " in worker.log() for worker in workers), shared.field.logs)
    shared.server.run("rm", "/run/disk/rest")
    shared.judge()


def test_follower_on_the_other_machine(shared):
    """pawl-dump -f, which began when the file was short, prints each message once, in order, within seconds."""
    shared.holder_on(shared.one)
    follower = shared.two.spawn(program("pawl-dump"), "--dir", shared.dir, "--type", "t1", "-f")

    def printed():
        return [line for line in "".join(shared.two.told(follower, "log")).split("\n")[:-1] if line.startswith("{")]
    for _ in range(3):
        shared.fill(100)
        shared.field.wait_empty()
        wait_until(lambda: len(printed()) >= shared.sent - 10, lambda: f"{len(printed())} of {shared.sent} lines")
    shared.holder().stop()
    wait_until(lambda: len(printed()) >= shared.sent, lambda: f"{len(printed())} of {shared.sent} lines")
    shared.two.signal(follower, signal.SIGTERM)
    assert [int(re.search(r'"n": ?(\d+)', line)[1]) for line in printed()] == list(range(shared.sent))
    shared.judge()
