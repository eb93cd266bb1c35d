"""pawl-lock when its lock is in doubt: between lock and command, when its lease is lost, and when MongoDB does not answer."""
import datetime
import os
import re
import signal
import time

import bson
import pytest

from harness import environment, free_port, process_state, run
from locking import gone, lock_of, locker, sh, until


# --- before the command ---


def test_ended_between_lock_and_command(field, locked):
    """A signal that comes while the lock is being taken: the command does not start, and no lock is left."""
    field.run("pawl-setup")
    with field.failing(["update"], {"times": 1}, collection="locks", program="pawl-lock", blockConnection=True, blockTimeMS=2400) as fault:
        lock = locked("n", "echo", "no")
        fault.wait()
        lock.process.terminate()
        assert lock.wait() == -signal.SIGTERM and lock.output() == "", lock
    assert lock_of(field) is None and field.ledger("n") is None


@pytest.mark.parametrize("change", [{"owner": bson.Binary(bytes(16))}, {"expires_at": datetime.datetime(2000, 1, 1)}, None],
                         ids=["another's", "over", "gone"])
def test_lost_between_take_and_fence(field, locked, change):
    """As by a fail-over that took the insert back: the command does not start on a fence alone."""
    field.fill(5)
    field.drain()
    before = field.ledger()
    with field.failing(["findAndModify"], {"times": 1}, collection="ledger", program="pawl-lock", blockConnection=True, blockTimeMS=2400) as fault:
        lock = locked("t1", *sh("echo $PAWL_LOCK_EPOCH"))
        fault.wait()
        if change:
            assert field.locks.update_one({"type": "t1"}, {"$set": change}).modified_count == 1
        else:
            assert field.locks.delete_one({"type": "t1"}).deleted_count == 1
    if change and "owner" in change:
        lock.wait_errors("waits for t1")
        assert lock.output() == "" and field.ledger()["clean"] is True
        field.locks.delete_one({"type": "t1"})
    assert lock.wait() == 0 and lock.output() == f"{before['epoch'] + 2}\n", lock
    after = field.ledger()
    assert after == {**before, "epoch": before["epoch"] + 2, "guarded": before["epoch"] + 2, "owner": after["owner"]} and after["clean"] is True


def test_no_answer_behind_the_fence(field, locked):
    """Whether the lock is still there cannot be seen: the command does not start, and the lock is given back; `clean` is as it was."""
    field.fill(5)
    field.drain()
    before = field.ledger()
    with field.failing(["find"], {"skip": 1}, collection="locks", program="pawl-lock", closeConnection=True):  # but the look
        lock = locked("t1", *sh("echo $PAWL_LOCK_EPOCH"), options=["--lease", "30s"])
        lock.wait_errors("MongoDB gives no answer: reading the lock: .*; trying again until it does")
        assert lock.output() == "" and lock_of(field, "t1") is None
        given_back = field.ledger()
        assert (given_back["epoch"], given_back["clean"]) == (before["epoch"] + 1, True)
    assert lock.wait() == 0 and lock.output() == f"{before['epoch'] + 2}\n", lock
    assert field.ledger()["owner"] != given_back["owner"]  # or a late delete of the first lock would delete the second one


# --- the lease ---


SHORT = ["--lease", "1s", "--retry", "50ms"]  # that is over soon


def test_killed(field, locked, tmp_path):
    """Its command is told to end with it, and the next one waits for the end of the lease."""
    with_counters = {name: value for name, value in environment().items() if name != "MONGOC_DISABLE_SHM"}
    first = locked("n", *until(tmp_path / "go"), options=["--lease", "6s", "--retry", "50ms"], env=with_counters)
    command, before = first.command(), field.ledger("n")["epoch"]
    second = locked("n", *sh("date +%s%3N; echo $PAWL_LOCK_EPOCH"), options=["--lease", "60s"])
    second.wait_errors("waits for n")
    first.process.kill()
    expires = lock_of(field)["expires_at"].timestamp() * 1000
    gone(command)
    assert not os.path.exists(f"/dev/shm/mongoc-{first.pid}")  # the driver's
    assert second.wait() == 0, second
    began, epoch = map(int, second.output().split())
    assert second.errors().count("waits for n") == 1, second
    assert expires <= began < expires + 20000 and epoch > before, (expires, began)


def test_frozen(field, locked, tmp_path):
    """Another takes over; when it wakes it ends its command."""
    first = locked("n", *until(tmp_path / "go"), options=SHORT)
    command = first.command()
    first.process.send_signal(signal.SIGSTOP)
    second = locked("n", *until(tmp_path / "go"))
    second.command()
    assert process_state(command) not in (None, "Z")  # that is what the epoch is for
    first.process.send_signal(signal.SIGCONT)
    assert first.wait() == 1 and "the lock is lost" in first.errors(), first
    assert process_state(command) is None
    assert lock_of(field)["holder"]["pid"] == second.pid
    (tmp_path / "go").touch()
    assert second.wait() == 0


def test_lock_is_removed(field, locked):
    """Its command ends when that is found out, after a third of the lease, not after two."""
    lock = locked("n", *sh("trap 'echo ended; exit 0' TERM; echo $$; while :; do sleep 0.02; done"), options=["--lease", "30s"])
    lock.command()
    begin = time.monotonic()
    field.locks.delete_one({"type": "n"})
    assert lock.wait() == 1 and "the lock is lost" in lock.errors() and "ended" in lock.output(), lock
    assert time.monotonic() - begin < 18


def test_it_is_renewed(field, locked):
    lock = locked("n", "sleep", "12", options=["--lease", "10s"])
    assert lock.wait() == 0 and "lost" not in lock.errors(), lock
    assert field.ledger("n")["epoch"] == 1


@pytest.mark.parametrize("trap", ["trap 'echo ended; exit 0' TERM;", "trap '' TERM;"], ids=["listens", "does not listen"])
def test_database_is_frozen(own_server, make_field, tmp_path, trap):
    """The command gets SIGTERM after two thirds of the lease, and SIGKILL at its end, although requests hang longer than that."""
    field = make_field(own_server("--replica-set").start())
    with locker(field) as locked:
        lock = locked("n", *until(tmp_path / "go", trap), options=["--lease", "9s"])
        command = lock.command()
        with field.server.frozen():
            begin = time.monotonic()
            gone(command)
            took = time.monotonic() - begin
            assert lock.wait() == 1, lock
        assert re.search("the lock is lost: it (could|was) not (be )?renewed in time", lock.errors()), lock
        listens = "ended" in lock.output()
        assert listens == ("exit" in trap) and 0.3 < took < 19, (took, lock)


def test_database_is_frozen_at_the_end(own_server, make_field, tmp_path):
    """With the default lease the request that gives the lock back would wait for three times as long."""
    field = make_field(own_server("--replica-set").start())
    with locker(field) as locked:
        lock = locked("n", *until(tmp_path / "go"), options=[])
        lock.command()
        with field.server.frozen():
            begin = time.monotonic()
            lock.process.send_signal(signal.SIGTERM)
            assert lock.wait() == 128 + signal.SIGTERM, lock
            took = time.monotonic() - begin
        assert "the lock ends with its lease" in lock.errors() and took < 10, (took, lock)


@pytest.mark.slow
def test_database_is_restarted(own_server, make_field, tmp_path):
    """Nothing is lost while the lease lasts, and who waits goes on waiting."""
    server = own_server("--replica-set", "--port", str(free_port())).start()
    field = make_field(server)
    with locker(field) as locked:
        # Renewed first after 20 s, lost after 40: between the two the server has time to start, on a busy machine too.
        first = locked("n", *until(tmp_path / "go"), options=["--lease", "60s"])
        first.command()
        second = locked("n", "true", options=["--lease", "3s"])
        second.wait_errors("waits for n")
        server.kill()
        second.wait_errors("MongoDB gives no answer: .*; trying again until it does")
        third = locked("n", "true", options=["--lease", "3s"])
        third.wait_errors("MongoDB gives no answer")
        first.wait_errors("renewing the lock: .*; tries again")
        server.start()
        first.wait_errors("the lock is renewed again")
        second.wait_errors("MongoDB answers again")
        assert lock_of(field)["holder"]["pid"] == first.pid and second.process.poll() is None
        (tmp_path / "go").touch()
        assert (first.wait(), second.wait(), third.wait()) == (0, 0, 0), f"{first}{second}{third}"
        for lock in (second, third):
            assert lock.errors().count("gives no answer") == lock.errors().count("answers again") > 0, lock


def test_without_a_server():
    begin = time.monotonic()
    done = run("pawl-lock", "--uri", f"mongodb://127.0.0.1:{free_port()}/", "--timeout", "1s", "n", "--", "echo", "no")
    assert (done.returncode, done.stdout) == (69, b"") and b"whether it is free is not known" in done.stderr, done
    assert time.monotonic() - begin < 15
