"""Death and freeze of the holder at every point where it matters, and of the server. PAWL_FAULT=NAME[:N] kills a worker the
Nth time it passes the fault point NAME (worker/fault.h); PAWL_FAULT_STOP freezes it there."""
import random
import time

import pytest

import reader
from harness import CALM, wait_until

# Point, and which passing of it.
POINTS = ["lock-inserted", "fenced", "segment-created", "block-written", "block-written:4", "block-synced", "block-synced:4",
          "block-committed", "block-committed:4", "deleted", "deleted:4", "close-written", "released"]
SMALL = ["--batch-messages", 50]


def one_file(field):
    """On one machine a crash makes no second file; but a death between the making of a segment and its commit leaves a header
    that nobody names."""
    assert len(reader.read_chain(field.dir, "t1", field.ledger())) == 1
    assert all((field.dir / name).stat().st_size == 4096 for name in field.segments() if name != field.ledger()["file"]), field.segments()


@pytest.mark.parametrize("point", POINTS)
def test_holder_killed(any_field, point):
    field = any_field
    field.fill(500)
    field.crash(point, *SMALL)
    field.compare(queue_empty=False)
    field.fill(100)
    ended = {"lock-inserted": "none", "released": "clean"}.get(point, "unclean")
    assert f"previous shutdown {ended}" in field.drain(*SMALL).log()
    assert len(field.compare()["t1"]) == 600
    one_file(field)


@pytest.mark.parametrize("point", ["segment-created", "block-written:3", "block-synced:3", "block-committed:3", "close-written"])
def test_holder_killed_again_and_again(field, point):
    """Four in a row die at the same point, each taking over from the one before."""
    field.fill(1000)
    for _ in range(4):
        field.crash(point, *SMALL)
        field.compare(queue_empty=False)
        field.fill(20)
    field.drain(*SMALL)
    assert len(field.compare()["t1"]) == 1080
    one_file(field)


def test_torn_tail_is_cut_off(field):
    """A large block that was written and never committed is gone before the successor's first, smaller one is there."""
    field.fill(500)
    field.crash("block-written", "--batch-messages", 500)
    path = field.dir / "t1.bin"
    assert path.stat().st_size > field.ledger()["length"] + 500 * 40
    field.crash("block-committed:2", "--batch-messages", 20)
    assert path.stat().st_size == field.ledger()["length"]
    field.drain(*SMALL)
    field.compare()


def test_what_is_cut_rests_on_the_ledger_of_now(field):
    """A primary that was replaced may answer other reads with what was true before. A clean end has nothing to cut, and is not held up."""
    def newest_reads():
        found = field.db.command("count", "system.profile", query={"command.find": "ledger", "command.readConcern.level": "linearizable"})["n"]
        field.db.command("profile", 0)
        field.db.drop_collection("system.profile")
        return found
    field.fill(50)
    field.crash("block-written", *SMALL)
    for at_least, at_most in ((1, 5), (0, 0)):
        field.db.command("profile", 2)
        field.fill(10)
        field.drain(*SMALL, *CALM)
        assert at_least <= newest_reads() <= at_most
    field.compare()
    one_file(field)


def test_holder_killed_while_others_wait(field):
    """The holder of three is killed three times; another one takes over within about a lease."""
    field.worker("--batch-messages", 10)
    field.worker("--batch-messages", 10)
    for _ in range(3):
        field.worker("--batch-messages", 10)
        field.fill(2000)
        holder = field.holding_worker()
        before = field.seq()
        wait_until(lambda: field.seq() > before or field.queued() == 0, field.logs)
        holder.kill()
        field.compare(live=True)
    field.wait_settled()
    field.stop()
    field.compare()


def test_killed_at_random(field):
    """Kills at moments nobody chose, with messages arriving all the time."""
    rng = random.Random(4)
    with field.producing(40, pause=0.01):
        for _ in range(8):
            worker = field.worker(*SMALL)
            holder = field.holding_worker()
            target = field.seq() + rng.randrange(1, 400)
            wait_until(lambda: field.seq() >= target, field.logs)
            holder.kill()
            assert worker is holder
            field.compare(live=True)
    field.drain(*SMALL)
    field.compare()
    one_file(field)


@pytest.mark.parametrize("point", ["lock-inserted", "fenced", "segment-created", "block-written:3", "block-synced:3", "block-committed:3",
                                   "deleted:2", "close-written", "released"])
def test_holder_frozen_while_replaced(field, point):
    """A frozen holder wakes up after another has taken over, emptied the queue and released: it does no harm, does not die, and
    works on. Where it had the file open, its successor went into a new segment."""
    field.fill(600)
    frozen = field.worker(*SMALL, env={"PAWL_FAULT_STOP": point})
    frozen.wait_frozen()
    field.compare(queue_empty=False)
    field.fill(60)
    field.drain(*SMALL, *CALM)
    names = field.segments()
    if point.startswith("block-"):
        epoch = field.ledger()["epoch"]
        assert names == sorted(["t1.bin", field.ledger()["file"]]) and field.ledger()["file"] == f"t1@{epoch}.bin", names
    field.compare()
    frozen.thaw()
    field.fill(60)
    field.wait_settled()
    status, seconds = frozen.stop()
    assert status == 0, str(frozen)
    assert len(field.compare()["t1"]) == 720


def test_two_frozen_in_a_row_beside_a_live_one(field):
    """Both wake up in the middle of the third one's work."""
    field.fill(800)
    first = field.worker(*SMALL, env={"PAWL_FAULT_STOP": "block-written:3"})
    first.wait_frozen()
    second = field.worker(*SMALL, env={"PAWL_FAULT_STOP": "block-synced:3"})
    second.wait_frozen()
    third = field.worker("--batch-messages", 5)
    seq = field.ledger()["seq"]
    wait_until(lambda: field.ledger()["seq"] > seq + 50, field.logs)
    first.thaw()
    second.thaw()
    field.wait_settled()
    for worker in (first, second, third):
        assert worker.stop()[0] == 0, str(worker)
    field.compare()
    assert len(field.segments()) >= 3


def test_fenced_in_the_middle(field):
    """Somebody moves the epoch while the holder, its lease still long, is at work: from then on it commits and deletes nothing."""
    field.fill(2000)
    worker = field.worker("--batch-messages", 10, "--lease", "60s")
    for target in (100, 1000):
        wait_until(lambda: field.seq() >= target, field.logs)
        field.db.ledger.update_one({"_id": "t1"}, {"$inc": {"epoch": 1}, "$set": {"owner": bytes(16), "clean": False}})
        field.locks.delete_many({})
    field.wait_settled()
    assert worker.stop()[0] == 0 and worker.log().count(" fenced") >= 2, str(worker)
    field.compare()


def test_frozen_from_outside(field):
    field.worker("--batch-messages", 20)
    for _ in range(3):
        field.fill(1500)
        holder = field.holding_worker()
        holder.freeze()
        field.worker("--batch-messages", 20)
        field.wait_empty()
        holder.thaw()
    field.wait_settled()
    for worker in field.workers:
        assert worker.alive(), str(worker)
        assert worker.stop()[0] == 0, str(worker)
    field.compare()


@pytest.mark.parametrize("kind,lease", [("--replica-set", "1s"), ("--replica-set", "30s"), ("--standalone", "30s")])
def test_server_killed_in_the_middle(own_server, make_field, kind, lease):
    """An outage shorter than the lease changes nothing; a longer one lets another worker race the holder, which may cost a segment."""
    server = own_server(kind).start()
    field = make_field(server)
    field.fill(4000)
    workers = [field.worker("--batch-messages", 20, "--lease", lease) for _ in range(2)]
    for target in (200, 1000):
        wait_until(lambda: field.seq() >= target, field.logs)
        server.kill()
        server.start()
    field.fill(500)
    field.wait_settled()
    for worker in workers:
        assert worker.alive(), str(worker)
        assert worker.stop()[0] == 0, str(worker)
    field.compare()
    assert field.segments() == ["t1.bin"] or lease == "1s", field.logs()


def test_server_frozen_in_the_middle(own_server, make_field):
    """A server that answers nothing for longer than the lease."""
    server = own_server("--replica-set").start()
    field = make_field(server)
    field.fill(4000)
    worker = field.worker("--batch-messages", 20)
    wait_until(lambda: field.seq() >= 200, field.logs)
    with server.frozen():
        time.sleep(2.5)  # no synchronisation: the length of the outage
    field.finish(worker)
