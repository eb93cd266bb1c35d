"""A type is moved to another replica set: pawl-setup --carry, there and back, and when it is not allowed."""
import re
import signal
import subprocess

import pytest

from harness import CALM, DEADLINE, environment, program, stays, wait_until
from locking import gone, lock_of, locker, until
from two_sets import one_directory, second_set


@pytest.fixture(scope="module")
def other_set():
    with second_set() as server:
        yield server


@pytest.fixture
def places(field, other_set, make_field):
    """The old place and the new one."""
    with one_directory(field, make_field(other_set)) as both:
        yield both


def carry(old, new, *more, code=0, answer=None):
    flags = [] if answer else ["--yes"]
    done = old.run("pawl-setup", "--carry", "t1", "--to-uri", new.server.uri, "--to-db", new.name, *flags, *more, stdin=answer)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode in (code if isinstance(code, tuple) else (code,)), f"{done.returncode}: {said}"
    return said


def status(field, *arguments, code=0):
    done = field.run("pawl-status", *arguments)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == code, said
    return said


def pause(field):
    status(field, "--pause", "t1", "--reason", "it moves")


def resume(field):
    return status(field, "--resume", "t1")


def drained(field, count=50):
    """Some messages are written, and the type is paused."""
    field.fill(count)
    field.drain(*CALM)
    pause(field)


def compare(old, new):
    """All that was sent to either is in the files once, by the ledger of the new place, each producer's in order."""
    assert old.queued() == 0, "the old place has messages"
    new.acknowledged.update(old.acknowledged)
    return new.compare()["t1"]


def end(ledger):
    return {name: ledger.get(name) for name in ("file", "uuid", "length", "tail", "link", "seq", "items", "settled", "clean", "machine")}


def test_there(places):
    """The workers of both places have the same directory; the file goes on."""
    old, new = places
    drained(old)
    before = old.ledger()
    said = carry(old, new)
    marked, made = old.ledger(), new.ledger()
    assert "moved to" in said and "pawl-status --resume" in said and new.name in said
    assert marked["needs"] == ["paused", "moved"] and marked["v"] == 2 and marked["epoch"] == before["epoch"] + 1, marked
    assert marked["moved"]["to"].endswith("/" + new.name) and "guarded" not in marked
    assert end(made) == end(before) and made["epoch"] == marked["epoch"] + 1 and made["needs"] == ["paused"] and "guarded" not in made, made
    assert made["carried"]["id"] == marked["moved"]["id"] == made["paused"]["id"]

    away, there = old.worker(*CALM), new.worker("--lease", "30s")
    away.wait_log(r"not competing for the lock: t1 was moved to .*, by .*: it is served there")
    there.wait_log("t1 is paused since")
    new.fill(50, producer="another")
    stays(lambda: new.seq() == 50, 1, new.logs)
    resume(new)
    wait_until(lambda: new.seq() == 100, new.logs)
    new.wait_settled()
    assert there.stop()[0] == 0
    assert away.alive() and old.ledger() == marked
    assert len(compare(old, new)) == 100 and new.segments() == ["t1.bin"]


def test_and_back(places):
    """Twice there, and twice back: each time the epoch is above all before."""
    old, new = places
    epoch = 0
    drained(old)
    for turn in range(4):
        here, there = (old, new) if turn % 2 == 0 else (new, old)
        said = carry(here, there)
        assert there.ledger()["epoch"] > here.ledger()["epoch"] > epoch, said
        epoch = there.ledger()["epoch"]
        assert here.ledger()["moved"] and "moved" not in there.ledger()
        assert there.ledger()["paused"]["reason"] == "it was moved here"
        resume(there)
        there.fill(20, producer=f"turn {turn}")
        there.drain(*CALM)
        pause(there)
    assert old.ledger()["seq"] == 130 and old.segments() == ["t1.bin"]
    old.acknowledged.update(new.acknowledged)
    assert len(old.compare()["t1"]) == 130


def test_asks_first(places):
    old, new = places
    drained(old)
    before = old.ledger()
    said = carry(old, new, answer=b"n\n", code=1)
    assert "will be paused" in said and "nothing was changed" in said and old.ledger() == before and new.ledger() is None
    carry(old, new, answer=b"y\n")
    assert old.ledger()["moved"]


def start(old, new, yes=("--yes",)):
    return subprocess.Popen([program("pawl-setup"), *old.mongo, "--carry", "t1", "--to-uri", new.server.uri, "--to-db", new.name, *yes],
                            stdin=subprocess.DEVNULL if yes else subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment())


# --- when it is not allowed ---


def refused(old, new, text, code=1):
    before, there = old.ledger(), new.ledger()
    said = carry(old, new, code=code)
    assert re.search(text, said), said
    assert (old.ledger(), new.ledger()) == (before, there), said


def test_not_before_it_is_paused(places):
    old, new = places
    old.fill(1)
    refused(old, new, "has documents in the queue")
    old.messages.delete_many({})
    refused(old, new, r"has neither file nor messages in \S+/" + old.name)
    old.fill(10)
    old.drain(*CALM)
    refused(old, new, "is not paused here")
    pause(old)
    old.fill(1)
    refused(old, new, "has documents in the queue")
    resume(old)
    old.drain(*CALM)
    pause(old)
    carry(old, new)


def test_not_before_its_own_collection_is_empty(places):
    old, new = places
    assert old.run("pawl-setup", "--type", "t1", "--own-collection").returncode == 0
    drained(old)
    old.fill(1, own=True)
    refused(old, new, "has documents in the queue")
    old.db["messages.t1"].rename("elsewhere")
    refused(old, new, "messages.t1 is missing")


def test_not_before_what_is_written_is_deleted(places):
    old, new = places
    old.fill(40)
    old.crash("block-committed:3", "--batch-messages", 10, *CALM)
    old.locks.delete_many({})
    pause(old)
    assert old.ledger()["settled"] < old.ledger()["seq"]
    refused(old, new, "has documents in the queue")


def test_settled_is_what_is_not_in_the_queue(places):
    """The holder died after its last delete: without a message nobody would settle."""
    old, new = places
    worker = old.worker("--linger", "1h", *CALM)
    old.fill(40)
    wait_until(lambda: old.seq() == 40 and old.queued() == 0, old.logs)
    worker.kill()
    old.locks.delete_many({})
    pause(old)
    assert old.ledger()["settled"] < old.ledger()["seq"] == 40
    carry(old, new)
    assert old.ledger()["settled"] == new.ledger()["settled"] == 40
    assert new.ledger()["clean"] is False
    resume(new)
    new.fill(10, producer="new")
    new.drain(*CALM)
    assert len(compare(old, new)) == 50 and len(new.segments()) == 2


def test_not_to_a_place_with_files_of_its_own(places, tmp_path):
    old, new = places
    drained(old)
    new.fill(5, producer="its own")
    new.drain(*CALM, directory=tmp_path)
    refused(old, new, r"has a ledger of its own, at the new place \(epoch \d+, seq 5, file t1.bin\)")


def test_not_while_its_lock_is_held(places):
    """The command under pawl-lock relies on it, and the type may be resumed at the new place. A lock whose lease is over holds nobody up."""
    old, new = places
    drained(old)
    with locker(old) as lock:
        held = lock("t1", *until(old.folder / "end"))
        held.command()
        refused(old, new, rf"t1 is locked here by \S+, pid {held.pid} \(pawl-lock \S+\), whose lease ends in \d+ s")
        (old.folder / "end").touch()
        assert held.wait() == 0
        (old.folder / "end").unlink()
        dead = lock("t1", *until(old.folder / "end"), options=["--lease", "1s"])
        gone_with = dead.command()
        dead.process.kill()
        dead.wait()
        gone(gone_with)
        wait_until(lambda: lock_of(old, "t1")["expires_at"] < now(old), "the end of the lease")
        carry(old, new)


def asked(old, new):
    """It has looked at both places, and waits for the answer."""
    process, said = start(old, new, yes=()), b""
    while b"[y/N]" not in said:
        said += process.stdout.read1()
    return process


def answered(process, text):
    said = process.communicate(b"y\n", timeout=DEADLINE)[0].decode()
    assert process.returncode == 1 and text in said, said


def test_not_when_it_was_taken_up_meanwhile(places):
    """By a pawl-lock, whose command relies on it; also where that is over: others may have read the ledger under that epoch."""
    old, new = places
    drained(old)
    first, second = asked(old, new), asked(old, new)
    with locker(old) as lock:
        held = lock("t1", *until(old.folder / "end"))
        held.command()
        before = old.ledger()
        answered(first, "t1 is locked here by")
        (old.folder / "end").touch()
        assert held.wait() == 0
    answered(second, "t1 was taken up meanwhile")
    assert old.ledger() == before and new.ledger() is None


def test_a_message_that_comes_before_the_answer(places):
    """A person thinks about it for long: the queue is looked at again, for what is there would be written after what comes later."""
    old, new = places
    drained(old)
    process = asked(old, new)
    old.fill(1, producer="late")
    answered(process, "has documents in the queue")
    assert "moved" not in old.ledger() and new.ledger() is None


def test_not_when_the_new_place_gets_a_file_meanwhile(places, tmp_path):
    """Of a worker with another directory, which had the lock when --carry looked: its file is not forgotten."""
    old, new = places
    drained(old)
    new.fill(5, producer="its own")
    worker = new.worker(*CALM, directory=tmp_path, env={"PAWL_FAULT_STOP": "segment-created"})
    worker.wait_frozen()
    with new.failing(["update"], {"times": 1}, collection="ledger", program="pawl-setup", blockConnection=True, blockTimeMS=2500) as met:
        process = start(old, new)
        met.wait()
        worker.thaw()
        wait_until(lambda: new.seq() == 5, new.logs)
        ledger = new.ledger()
        said = process.communicate(timeout=DEADLINE)[0].decode()
    assert process.returncode == 1 and "has a ledger of its own, at the new place" in said, said
    assert new.ledger()["file"] == ledger["file"] and new.ledger()["seq"] == 5, new.ledger()


def test_not_with_a_lock_of_somebody_else(places):
    old, new = places
    drained(old)
    old.locks.insert_one({"type": "t1", "slot": 0, "owner": "me"})
    refused(old, new, "is not pawl's: its owner is", code=74)


def now(field):
    return field.server.client.admin.command("hello")["localTime"]


def test_not_to_itself(field):
    drained(field)
    refused(field, field, "is this one, under another name", code=2)


def test_only_to_where_it_was_moved(places, make_field):
    """A run that was cut off is not ended at a third place: there would be two ledgers."""
    old, new = places
    third = make_field(new.server)
    assert third.run("pawl-setup").returncode == 0
    drained(old)
    carry(old, new)
    refused(old, third, r"t1 was moved to \S+, by \S+: that is another database than the one to carry to", code=2)
    assert third.ledger() is None


@pytest.mark.parametrize("count", [10, 0])
def test_a_late_run_of_an_earlier_move(places, count):
    """It was frozen before its last request; the type has gone there, back, and away again meanwhile, with messages or without."""
    old, new = places
    drained(old)
    with new.failing(["update"], {"times": 1}, collection="ledger", program="pawl-setup", blockConnection=True, blockTimeMS=2500) as met:
        late = start(old, new)
        met.wait()
        late.send_signal(signal.SIGSTOP)
        carry(old, new)
        resume(new)
        new.fill(count, producer="new")
        new.drain(*CALM)
        pause(new)
        carry(new, old)
        resume(old)
        ledgers = old.ledger(), new.ledger()
        late.send_signal(signal.SIGCONT)
        said = late.communicate(timeout=DEADLINE)[0].decode()
    assert (old.ledger(), new.ledger()) == ledgers, said
    old.drain(*CALM)
    old.acknowledged.update(new.acknowledged)
    assert len(old.compare()["t1"]) == 50 + count


def test_not_over_one_that_is_ahead(places):
    """The old place was restored from a backup after the type had gone and come back."""
    old, new = places
    drained(old)
    carry(old, new)
    carry(new, old)
    new.db.ledger.update_one({"_id": "t1"}, {"$inc": {"seq": 1, "items": 1}})
    refused(old, new, "is ahead of this one")


def test_a_place_where_the_name_was_used(places):
    """A lock of that name, or a pause before the move: the epochs go on above it."""
    old, new = places
    for _ in range(9):
        assert new.run("pawl-lock", "t1", "--", "true").returncode == 0
    pause(new)
    epoch, paused = new.ledger()["epoch"], new.ledger()["paused"]
    drained(old)
    assert epoch > old.ledger()["epoch"] + 2
    carry(old, new)
    assert new.ledger()["epoch"] == epoch + 1 and new.ledger()["paused"] == paused
    resume(new)
    new.fill(10, producer="new")
    new.drain(*CALM)
    assert len(compare(old, new)) == 60


def test_above_the_floor(places):
    old, new = places
    for _ in range(7):
        assert new.run("pawl-lock", "t1", "--", "true").returncode == 0
    assert new.run("pawl-lock", "--forget", "t1").returncode == 0
    drained(old)
    carry(old, new)
    assert new.ledger()["epoch"] > 7 and "birth" not in new.ledger()


def test_nobody_else_fences_what_was_moved(places):
    """A lock or an adoption of that name would not keep the workers of the new place out."""
    old, new = places
    drained(old)
    carry(old, new)
    ledger = old.ledger()
    lock = old.run("pawl-lock", "--timeout", "5s", "t1", "--", "true")
    assert lock.returncode == 74 and b"t1 was moved to" in lock.stderr, lock
    assert "t1 was moved to" in old.adopt(code=1)
    assert "t1 was moved to" in status(old, "--pause", "t1", "--reason", "x", code=2)
    assert "t1 was moved to" in status(old, "--resume", "t1", code=2)
    worker = old.worker("--exit-when-empty", *CALM)
    assert worker.wait() == 2 and "t1 was moved to" in worker.log(), str(worker)
    assert old.ledger() == ledger


def test_credentials_are_not_shown(places):
    old, new = places
    drained(old)
    uri = new.server.uri.replace("mongodb://", "mongodb://carol:s3cret@")
    done = old.run("pawl-setup", "--carry", "t1", "--to-uri", uri, "--to-db", "there", "--yes", "--timeout", "1s")
    assert done.returncode == 69 and b"s3cret" not in done.stdout + done.stderr, done
    done = old.run("pawl-setup", "--carry", "t1", "--to-uri", uri, "--to-db", "there", "--print-config")
    assert done.returncode == 0 and b"s3cret" not in done.stdout + done.stderr, done


def test_wrong_words(field, tmp_path):
    def said(*arguments):
        done = field.run("pawl-setup", *arguments)
        assert done.returncode == 2, done
        return done.stderr.decode()
    assert "--carry: takes --to-uri or --to-uri-file beside it" in said("--carry", "t1")
    assert "--to-uri: is only for --carry" in said("--to-uri", "mongodb://b")
    assert "--to-db: is only for --carry" in said("--to-db", "b")
    there = ["--carry", "t1", "--to-uri", "mongodb://b/there"]
    assert f'the database here is "{field.name}" (from ' in said(*there) and 'there it would be "there" (from the URI): takes --to-db, too' in said(*there)
    assert '--carry: got "-x"' in said("--carry=-x", "--to-uri", "mongodb://b")
    assert "takes one of them" in said("--carry", "t1", "--adopt", "t1", "--to-uri", "mongodb://b")
    (tmp_path / "uri").write_text("a\nb\n")
    assert "--to-uri-file: got more than one line" in said("--carry", "t1", "--to-uri-file", tmp_path / "uri")
