"""A type that is paused: its workers finish their block and stay away, whoever they are, until it is resumed."""
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import CALM, DISTRUST, side_by_side, stays, wait_until

SMALL = ["--batch-messages", 20]
WHY = "$$NOW the \"disk\" is moved"


def pause(field, code=0, reason=WHY, type_name="t1"):
    done = field.run("pawl-status", "--pause", type_name, "--reason", reason)
    assert done.returncode == code, (done, field.logs())
    return (done.stdout + done.stderr).decode()


def resume(field, code=0, type_name="t1"):
    done = field.run("pawl-status", "--resume", type_name)
    assert done.returncode == code, (done, field.logs())
    return (done.stdout + done.stderr).decode()


def stands_still(field, seconds=1.5):
    seq, epoch = field.seq(), field.ledger()["epoch"]
    stays(lambda: (field.seq(), field.ledger()["epoch"]) == (seq, epoch) and field.holder() is None, seconds, field.logs)


def test_workers_stay_away(field):
    """The holder ends its block in order, the others leave the wait queue, and all of them go on afterwards."""
    workers = [field.worker(*SMALL, *CALM, "--lease", "3s", "--linger", "1h") for _ in range(3)]
    with field.producing():
        wait_until(lambda: field.seq() > 100, field.logs)
        assert "paused, at epoch" in pause(field)
        ledger = field.ledger()
        assert ledger["v"] == 2 and ledger["needs"] == ["paused"] and ledger["paused"]["reason"] == WHY and ledger["clean"], ledger
        for worker in workers:
            worker.wait_log(r"paused: not competing for the lock: t1 is paused since 20.*, by .*@.*: \$\$NOW the")
        stands_still(field)
        assert field.locks.count_documents({"type": "t1"}) == 0  # no wait queue either
        assert field.queued() > 0
        assert resume(field) == "t1: the workers go on\n"
        seq = ledger["seq"]
        wait_until(lambda: field.seq() > seq + 100, field.logs)
    ledger = field.ledger()
    assert ledger["v"] == 1 and "needs" not in ledger and "paused" not in ledger, ledger
    field.wait_empty()
    for worker in workers:
        assert worker.stop()[0] == 0, str(worker)
        assert not worker.events("fenced"), str(worker)
    field.compare()


def test_frozen_holder_does_not_hinder(field):
    worker = field.worker(*SMALL, "--lease", "2s", "--linger", "1h")
    field.fill(500)
    wait_until(lambda: field.seq() > 0, field.logs)
    worker.freeze()
    pause(field)
    field.fill(500)
    worker.thaw()
    worker.wait_log("not competing for the lock")
    wait_until(lambda: field.holder() is None, field.logs)
    stands_still(field)
    resume(field)
    assert len(finished(field, worker)) == 1000


def test_who_does_not_give_way_does_not_hinder(field, tmp_path):
    """It holds the lock, and renews it; after its lease the type is paused all the same."""
    done = tmp_path / "done"
    command = f"while [ ! -e {done} ]; do sleep 0.1; done"
    with ThreadPoolExecutor(1) as pool:
        tool = pool.submit(field.run, "pawl-lock", "--lease", "4s", "t1", "--", "sh", "-c", command)
        wait_until(lambda: field.holder(), "pawl-lock to have the lock")
        assert "did not release the lock within its lease: pausing without the lock" in pause(field)
        assert field.ledger()["paused"]
        done.touch()
        tool.result()


def finished(field, worker):
    field.wait_empty()
    assert worker.stop()[0] == 0, str(worker)
    return field.compare()["t1"]


def test_before_the_first_message(field):
    """There is no ledger yet."""
    pause(field)
    worker = field.worker(*CALM)
    worker.wait_log("not competing for the lock")
    field.fill(10)
    stays(lambda: field.seq() == 0, 1.5, field.logs)
    resume(field)
    assert len(field.finish(worker)) == 10


@pytest.mark.parametrize("messages", [0, 10])
def test_exit_when_empty_would_wait_for_ever(field, messages):
    pause(field)
    field.fill(messages)
    worker = field.worker("--exit-when-empty")
    assert worker.wait() == 2, str(worker)
    assert worker.events("refused", "error"), str(worker)
    assert "pawl-status --resume t1 ends it" in worker.log()


def test_a_paused_worker_is_ready(field, listening):
    worker, port = listening()
    pause(field)
    field.fill(1)
    worker.wait_log("not competing for the lock")
    port.wait("/readyz", 200)
    port.wait_metric(("pawl_type_paused", "t1"), 1)
    resume(field)
    port.wait_metric(("pawl_type_paused", "t1"), 0)


def test_tools_work_meanwhile(field):
    field.fill(20)
    field.drain()
    pause(field)
    assert field.run("pawl-lock", "t1", "--", "true").returncode == 0
    assert field.ledger()["paused"]["reason"] == WHY
    field.adopt()
    assert field.ledger()["paused"]["reason"] == WHY and field.ledger()["v"] == 2
    assert field.run("pawl-dump", "--dir", field.dir, "--verify").returncode == 0
    field.fill(20)
    resume(field)
    field.drain()
    assert len(field.compare()["t1"]) == 40


def test_everybody_sees_it(field):
    field.fill(5)
    pause(field)
    [row] = [json.loads(line) for line in field.run("pawl-status", "--json").stdout.splitlines()]
    assert row["paused"]["reason"] == WHY and "@" in row["paused"]["by"] and row["paused"]["at"], row
    assert f": {WHY}" in field.run("pawl-status").stdout.decode()
    checked = field.run("pawl-status", "--check", "--max-documents", "1")
    assert checked.returncode == 1 and checked.stdout.decode().startswith("PAWL WARNING: t1: paused by "), checked
    resume(field)
    assert "paused" not in field.run("pawl-status", "--json").stdout.decode()
    assert field.run("pawl-status", "--check", "--max-documents", "1").returncode == 2


def test_only_who_paused_it_is_told_so(field):
    """Of several at one moment one pauses; nobody ends another's pause unseen."""
    said = side_by_side(*(lambda n=n: field.run("pawl-status", "--pause", "t1", "--reason", f"number {n}") for n in range(5)))
    assert sorted(done.returncode for done in said) == [0, 1, 1, 1, 1], said
    [winner] = [n for n, done in enumerate(said) if done.returncode == 0]
    assert field.ledger()["paused"]["reason"] == f"number {winner}"
    assert "t1 is paused already, by " in pause(field, 1) and field.ledger()["paused"]["reason"] == f"number {winner}"
    resume(field)
    assert "t1 is not paused" in resume(field, 1)
    assert "nothing is not paused" in resume(field, 1, "nothing")


def test_answers_that_do_not_come(field):
    """The ledger says what became of the request."""
    field.fill(10)
    field.drain()
    late = {"writeConcernError": {"code": 64, "errmsg": "no majority in time"}}
    for fault in (late, {"closeConnection": True}):
        with field.failing(["findAndModify"], {"times": 1}, program="pawl-status", **fault):
            pause(field)
        epoch = field.ledger()["epoch"]
        with field.failing(["update"], {"times": 1}, program="pawl-status", **fault):
            resume(field)
        assert field.ledger()["v"] == 1 and field.ledger()["epoch"] == epoch


@pytest.mark.parametrize("arguments, words", [
    (["--pause", "t1"], "--pause: takes --reason TEXT, too"),
    (["--reason", "x"], "--reason: takes --pause TYPE, too"),
    (["--pause", "t1", "--resume", "t1", "--reason", "x"], "--pause and --resume: takes one of them"),
    (["--pause", "../t1", "--reason", "x"], '--pause: got "../t1": takes a type'),
    (["--resume", ""], "--resume"),
    (["--pause", "t1", "--reason", "x" * 256], "--reason: got 256 bytes: takes 1 to 255 bytes of UTF-8"),
    (["--pause", "t1", "--reason", "d\udce9m"], "--reason: got 3 bytes: takes 1 to 255 bytes of UTF-8"),
    (["--pause", "t1", "--reason", "a\u202eb"], "no control or invisible characters"),
    (["--pause", "t1", "--reason", "  "], "no blank at either end"),
    (["--pause", "t1", "--reason", "x", "--json"], "--pause and --json: takes one of them"),
    (["--resume", "t1", "--watch"], "--watch and --resume: takes one of them")])
def test_wrong_usage(field, arguments, words):
    done = field.run("pawl-status", *arguments)
    assert done.returncode == 2 and words in done.stderr.decode(), done


@pytest.mark.parametrize("name", ["PAWL_PAUSE", "PAWL_RESUME"])
def test_it_is_a_flag_only(field, name):
    """A variable that is left set pauses nothing."""
    done = field.run("pawl-status", env={name: "t1", "PAWL_REASON": "left"})
    assert done.returncode == 2 and b"takes a flag only" in done.stderr, done
    assert field.ledger() is None


def test_a_paused_name_is_not_forgotten(field):
    pause(field, type_name="lonely")
    done = field.run("pawl-lock", "--forget", "lonely")
    assert done.returncode == 1 and b"lonely is paused by " in done.stderr, done
    assert field.run("pawl-lock", "--prune").returncode == 0
    assert field.ledger("lonely")["paused"]


def test_a_lock_is_no_type(field):
    assert field.run("pawl-lock", "pool", "--slots", "3", "--", "true").returncode == 0
    assert "pool is a lock with 3 slots" in pause(field, 1, type_name="pool")
    before = field.ledger("pool")
    field.fill(3, "pool")
    worker = field.worker(types=["pool"], env=DISTRUST)
    assert worker.wait() == 74 and "pool is a lock with 3 slots, not a type" in worker.log(), str(worker)
    assert field.ledger("pool") == before and field.queued("pool") == 3 and field.segments("pool") == []
