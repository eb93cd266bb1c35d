"""What docs/running.md says of NFS. Each case ends with the same comparison: each acknowledged message is in the files exactly once, in
order, read by an independent reader and by pawl-dump, as both clients see the files and as the server has them."""
import json
import re
import signal

import pytest

import reader
from fields import SharedField
from harness import program, wait_until
from machine import EXPORT, MOUNT, Worker

STALL = ["--stall", "3s"]


class Shared(SharedField):
    """A field in a folder of the server, which two machines mount."""

    def __init__(self, field, machines, options):
        self.field, self.server, self.one, self.two = field, machines.server, machines.one, machines.two
        self.clients, self.options, self.sent = (machines.one, machines.two), options, 0
        self.dir = f"{MOUNT}/{field.name}"
        self.server.run("sh", "-c", f"mkdir {EXPORT}/{field.name} && sync")
        for client in self.clients:
            self.mount(client)

    def mount(self, client):
        client.mount(self.server, self.options)
        wait_until(lambda: client.run("test", "-d", self.dir, check=False)["exit"] == 0, f"the folder on {client.name}")

    def close(self):
        self.field.close()
        if self.server.alive():
            self.server.run("rm", "-rf", f"{EXPORT}/{self.field.name}", "/run/disk/rest")

    def worker(self, machine, *arguments, directory=None, env=None):
        field = self.field
        worker = Worker(machine, [*field.mongo, "--dir", directory or self.dir, "--type", "t1", "--batch-messages", "10", *STALL, *arguments],
                        field.folder / f"worker{len(field.workers)}.log", env)
        field.workers.append(worker)
        return worker

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

    def verify(self, machine):
        return machine.run(program("pawl-dump"), "--verify", *self.field.mongo, "--dir", self.dir, "--type", "t1", check=False)

    def judge(self):
        """The queue is empty; ends the workers, and compares."""
        field = self.field
        field.wait_empty()
        for worker in field.workers:
            assert not worker.alive() or worker.stop() == 0, str(worker)
        for machine, folder in ((self.one, self.dir), (self.two, self.dir), (self.server, f"{EXPORT}/{field.name}")):
            assert len(self.compare_on(machine, folder)) == self.sent
        for machine in self.clients:
            verdict = self.verify(machine)
            assert verdict["exit"] == 0 and re.search(rf"^t1: ok\b.*\b{self.sent} documents\b", verdict["out"]), verdict

    def size_on(self, machine):
        """Of the first segment, as that machine has it."""
        folder = self.dir if machine in self.clients else f"{EXPORT}/{self.field.name}"
        return int(machine.out("stat", "-c", "%s", f"{folder}/t1.bin"))

    def segments(self):
        return self.one.out("ls", self.dir).split()


@pytest.fixture
def make_shared(field, machines):
    made = []

    def make(options):
        try:
            made.append(Shared(field, machines, options))
        except AssertionError:
            machines.stop()
            raise
        return made[-1]
    yield make
    for one in made:
        one.close()


@pytest.fixture
def shared(make_shared):
    return make_shared("vers=4.2")


@pytest.fixture(params=["4.2", "3"])
def either(request, make_shared):
    """By both versions of the protocol. pawl takes no locks on a network file system, so version 3 needs no lock manager."""
    return make_shared(f"vers={request.param}" + ",nolock" * (request.param == "3"))


def test_machine_changes_at_a_clean_end(shared):
    """One file, continued by turns on both machines."""
    for n in range(6):
        shared.fill(50)
        worker = shared.worker(shared.clients[n % 2], "--exit-when-empty")
        assert worker.wait() == 0, str(worker)
    assert shared.segments() == ["t1.bin"]
    shared.judge()


def test_workers_killed_and_frozen(either):
    for n in range(4):
        either.worker(either.clients[n % 2])
    frozen = []
    for n in range(6):
        either.fill(300)
        holder = wait_until(either.holder, either.field.logs)
        either.progress(100)
        if n % 3 == 2:
            holder.signal(signal.SIGTERM)
        elif n % 3 == 1:
            holder.freeze()
            epoch = either.epoch()
            wait_until(lambda: either.epoch() > epoch or either.field.queued() == 0, either.field.logs)
            frozen.append(holder)
        else:
            holder.kill()
            either.worker(holder.machine)
    for one in frozen:
        one.thaw()
    either.judge()


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


def test_block_arrives_after_the_successors(either):
    first, written = stopped_before_its_sync(either)
    either.one.freeze()
    seq = either.seq()
    second = either.worker(either.two, "--linger", "1h")
    either.wait_holder(second)
    either.field.wait_empty()
    assert either.seq() > seq
    assert either.size_on(either.server) < written
    either.one.thaw()
    first.thaw()
    either.fill(200)
    wait_until(lambda: either.size_on(either.server) >= written, "the late block on the server")
    either.judge()


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


def test_server_turned_off(either):
    """Its power goes while a worker writes: what a sync has brought there is there when it is back."""
    workers = [either.holder_on(either.one), either.worker(either.two)]
    either.server.power_off()
    either.fill(300)
    either.server.boot()
    either.server.wait_up().serve()
    either.progress(200)
    for client in either.clients:  # each connects again by its own timer, and until then a worker that stops cannot end
        client.run("sync", "-f", either.dir, deadline=180)
    assert all(worker.alive() for worker in workers)
    either.judge()


def test_all_turned_off(shared):
    """No client is left that could send again what the server has lost: all that is committed was on its disk."""
    shared.holder_on(shared.one)
    shared.worker(shared.two)
    machines = [shared.server, *shared.clients]
    for machine in machines:
        machine.power_off()
    assert shared.field.queued() > 0
    for machine in machines:
        machine.boot()
    shared.server.wait_up().serve()
    for client in shared.clients:
        client.wait_up()
        shared.mount(client)
    shared.worker(shared.two)
    shared.judge()


def test_export_full(shared):
    shared.server.run("sh", "-c", "dd if=/dev/zero of=/run/disk/rest bs=1M status=none; sync; truncate -s -3M /run/disk/rest; sync", check=False)
    workers = [shared.holder_on(shared.one), shared.worker(shared.two)]
    shared.fill(500, size=20000)
    wait_until(lambda: any(" no-space: " in worker.log() for worker in workers), shared.field.logs)
    shared.server.run("rm", "/run/disk/rest")
    shared.judge()


def test_follower_on_the_other_machine(either):
    """pawl-dump -f, which began when the file was short, prints each message once, in order, within seconds."""
    either.holder_on(either.one)
    follower = either.two.spawn("sh", "-c", 'exec "$0" "$@" 2>/run/told', program("pawl-dump"), "--dir", either.dir, "--type", "t1", "-f")

    def printed():
        return "".join(either.two.told(follower, "log")).split("\n")[:-1]
    for _ in range(3):
        either.fill(100)
        either.field.wait_empty()
        wait_until(lambda: len(printed()) >= either.sent - 10, lambda: f"{len(printed())} of {either.sent} lines")
    either.holder().stop()
    wait_until(lambda: len(printed()) >= either.sent, lambda: f"{len(printed())} of {either.sent} lines")
    either.two.signal(follower, signal.SIGTERM)
    assert [json.loads(line)["n"] for line in printed()] == list(range(either.sent))
    either.judge()


def test_worker_on_the_server(shared):
    """The directory is local to one worker and over the network to another. They take turns, with kills."""
    local = f"{EXPORT}/{shared.field.name}"
    for n in range(4):
        shared.fill(200)
        worker = shared.worker(shared.one) if n % 2 == 0 else shared.worker(shared.server, directory=local)
        shared.wait_holder(worker)
        shared.progress()
        worker.kill()
    shared.fill(200)
    shared.worker(shared.two)
    shared.judge()


def test_async_export_loses(shared):
    """What the page says of `async`: the server acknowledges what its power takes away, and pawl-dump says so. It is also how it is known that
    the power of the server of these tests takes something away."""
    shared.server.power_off()
    shared.server.boot()
    shared.server.wait_up().serve(durable="async")
    worker = shared.worker(shared.one, "--exit-when-empty")
    shared.fill(500)
    assert worker.wait() == 0, str(worker)
    assert shared.verify(shared.two)["exit"] == 0
    shared.server.power_off()
    shared.server.boot()
    shared.server.wait_up().serve()
    verdict = shared.verify(shared.two)
    assert verdict["exit"] == 3 and "t1: " in verdict["out"], verdict
