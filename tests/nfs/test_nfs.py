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
        for client in self.clients:
            if client.alive():
                client.run("umount", "-l", MOUNT)

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
