"""pawl-lock: flock(1) across machines, on the mutexes of the workers."""
import datetime
import json
import os
import re
import signal
import subprocess
import time

import bson
import pytest

from harness import environment, program, run, wait_until
from locking import LEASE, Holder, lock_of, sh, until, waiting_for


# --- the command ---


@pytest.mark.parametrize("command, code, says", [
    (sh("exit 0"), 0, ""), (sh("exit 7"), 7, ""), (sh("kill -9 $$"), 137, ""), (sh("kill -TERM $$"), 143, ""),
    (["no-such-command"], 127, "cannot run no-such-command: No such file or directory"),
    (["/etc/passwd"], 126, "cannot run /etc/passwd: Permission denied"),
])
def test_exit_code_is_the_commands(field, command, code, says):
    done = field.run("pawl-lock", "n", "--", *command)
    assert (done.returncode, done.stdout, says in done.stderr.decode(), says or done.stderr) == (code, b"", True, says or b""), done
    assert lock_of(field) is None


def test_streams_and_words_are_its_own(any_field):
    done = any_field.run("pawl-lock", "n", "--", *sh('cat; echo "$# $1 $2" >&2'), "x", "-v", "--", stdin=b"in")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"in", b"2 -v --\n"), done


def test_epoch_rises(any_field):
    for epoch in (1, 2, 3):
        done = any_field.run("pawl-lock", "n", "--", *sh("echo $PAWL_LOCK_NAME $PAWL_LOCK_EPOCH"))
        assert done.stdout.decode() == f"n {epoch}\n", done
        ledger = any_field.ledger("n")
        assert (ledger["epoch"], ledger["v"], ledger["seq"], ledger["clean"], "file" in ledger) == (epoch, 1, 0, False, False), ledger
        assert lock_of(any_field, "n") is None


def test_holder_is_told(field, locked, tmp_path):
    lock = locked("n", *until(tmp_path / "go"))
    lock.command()
    holder = lock_of(field)["holder"]
    assert (holder["pid"], holder["host"], holder["program"][:10]) == (lock.pid, os.uname().nodename, "pawl-lock "), holder
    (tmp_path / "go").touch()
    assert lock.wait() == 0


def signals_of(status):
    return {name: int(mask, 16) for name, mask in re.findall(r"^Sig(Blk|Ign|Cgt):\s+(\w+)$", status, re.M)}


def test_signals_are_as_they_were(field, locked):
    plain = signals_of(subprocess.run(["grep", "Sig", "/proc/self/status"], capture_output=True, text=True, check=True).stdout)
    for ignored in ([], [signal.SIGHUP, signal.SIGINT]):
        def ignore(numbers=tuple(ignored)):
            for number in numbers:
                signal.signal(number, signal.SIG_IGN)
        lock = locked("n", "grep", "Sig", "/proc/self/status", preexec_fn=ignore)
        assert lock.wait() == 0
        assert signals_of(lock.output()) == {**plain, "Ign": plain["Ign"] | sum(1 << number - 1 for number in ignored)}, lock


def test_descriptors(field, locked):
    """What pawl-lock was given goes on to the command, what it has opened does not."""
    reading, writing = os.pipe()
    lock = locked("n", *sh(f"ls -l /proc/$$/fd; echo given >/dev/fd/{writing}"), pass_fds=[writing])
    assert lock.wait() == 0 and os.read(reading, 10) == b"given\n", lock
    os.close(reading), os.close(writing)
    descriptors = set(map(int, re.findall(r"(\d+) ->", lock.output())))
    assert "socket:" not in lock.output() and descriptors - {0, 1, 2, writing} <= {fd for fd in descriptors if fd == 10 or fd > 200}, lock


# --- exclusion ---


def test_one_at_a_time(field, locked, tmp_path):
    stamps = tmp_path / "stamps"
    locks = [locked("n", *sh(f"echo begin $PAWL_LOCK_EPOCH >> {stamps}; sleep 0.03; echo end $PAWL_LOCK_EPOCH >> {stamps}")) for _ in range(16)]
    assert [lock.wait() for lock in locks] == [0] * 16, "\n".join(map(str, locks))
    lines = stamps.read_text().splitlines()
    assert len(lines) == 32
    for begin, end in zip(lines[::2], lines[1::2]):
        assert begin.split()[0] == "begin" and end == begin.replace("begin", "end"), lines
    epochs = [int(line.split()[1]) for line in lines[::2]]
    assert epochs == sorted(set(epochs)) and epochs[-1] == field.ledger("n")["epoch"], lines


def test_in_the_order_they_came(field, locked, tmp_path):
    order = tmp_path / "order"
    slow = ["--lease", "10m", "--retry", "10m"]  # what comes early comes by a wake-up
    first = locked("n", *until(tmp_path / "go"), options=slow)
    first.command()
    others = []
    for n in range(10):
        others.append(locked("n", *sh(f"echo {n} >> {order}"), options=slow))
        wait_until(lambda: len(waiting_for(field)) == n + 1, lambda: f"{n + 1} in the wait queue; {others[-1]}")
    (tmp_path / "go").touch()
    assert [lock.wait(120) for lock in others] == [0] * 10, "\n".join(map(str, others))
    assert order.read_text().split() == [str(n) for n in range(10)]
    for lock in others:
        assert re.fullmatch(rf"pawl-lock: waits for n, held by \S+, pid {first.pid} \(pawl-lock [\d.]+\)\n", lock.errors()), lock


def test_names_are_locks_of_their_own(field, locked, tmp_path):
    lock = locked("n", *until(tmp_path / "go"))
    lock.command()
    assert field.run("pawl-lock", "--timeout", "0s", "m", "--", "true").returncode == 0
    (tmp_path / "go").touch()
    assert lock.wait() == 0


@pytest.mark.parametrize("timeout", ["0s", "300ms", "1500ms"])
def test_timeout(field, locked, tmp_path, timeout):
    def answered(*command):
        """A busy machine may take longer than so short a time to reach the server."""
        while b"never reached" in (done := field.run("pawl-lock", "--timeout", timeout, "n", "--", *command)).stderr and timeout != "0s":
            pass
        return done

    assert answered("true").returncode == 0
    lock = locked("n", *until(tmp_path / "go"))
    lock.command()
    begin = time.monotonic()
    done = answered("echo", "no")
    assert (done.returncode, done.stdout) == (69, b"") and f"held by {os.uname().nodename}, pid {lock.pid} (pawl-lock" in done.stderr.decode()
    assert time.monotonic() - begin < 20
    quiet = field.run("pawl-lock", "-q", "--timeout", "0s", "n", "--", "echo", "no")
    assert quiet.returncode == 69 and b"waits for" not in quiet.stderr, quiet
    (tmp_path / "go").touch()
    assert lock.wait() == 0


def test_without_wakeups(field, locked, tmp_path):
    field.db.wakeups.insert_one({"user": "somebody else's"})
    first = locked("n", *until(tmp_path / "go"))
    first.command()
    second = locked("n", *until(tmp_path / "go"))
    second.wait_errors("waits for n")
    (tmp_path / "go").touch()
    assert (first.wait(), second.wait()) == (0, 0)


def test_a_wakeup_of_before(field, locked, tmp_path):
    """A wake-up for an acquisition that is over lets nobody push in before the one who was called."""
    first = locked("n", *until(tmp_path / "go"))
    first.command()
    dead = {"owner": bson.Binary(bytes(16)), "kind": "worker", "at": datetime.datetime.now(datetime.timezone.utc), "ttl_ms": bson.Int64(30000)}
    field.locks.insert_one({"type": "n", "slot": -1, "queue": [dead], "last": {"owner": lock_of(field)["owner"], "kind": "lock"}})
    second = locked("n", *sh("date +%s%3N"))
    queue = lambda: field.locks.find_one({"type": "n", "slot": -1})["queue"]
    wait_until(lambda: len(queue()) == 2, lambda: f"the entry of {second}")
    me = queue()[1]["owner"]
    (tmp_path / "go").touch()
    assert first.wait() == 0
    called = queue()[0]["called"].timestamp() * 1000
    for _ in range(10):
        field.db.wakeups.insert_one({"type": "n", "about": "lock", "to": [bson.Binary(me[:8])], "owners": [bson.Binary(me[:8] + bytes(8))]})
        time.sleep(0.1)
    assert second.wait() == 0 and int(second.output()) >= called + 3000, second


# --- several, and slots ---


def test_several_names(field, locked, tmp_path):
    """All or none; whatever the order in which they are given."""
    first = locked("b", *until(tmp_path / "go"))
    first.command()
    none = field.run("pawl-lock", "--nonblock", "--conflict-exit", "42", "c", "b", "a", "--", "echo", "no")
    assert (none.returncode, none.stdout) == (42, b"") and b"b: the time is over, and it is held by" in none.stderr, none
    assert field.locks.count_documents({"slot": 0}) == 1
    with field.failing(["delete"], {"times": 1}, collection="locks", program="pawl-lock", blockConnection=True, blockTimeMS=1000):
        field.run("pawl-lock", "--nonblock", "c", "b", "a", "--", "echo", "no")
        assert field.locks.count_documents({"slot": 0}) == 1  # it ends when a is given back
    waiting = locked("a", *sh("echo $PAWL_LOCK_NAME/$PAWL_LOCK_EPOCH"), options=[*LEASE, "c", "b"])
    waiting.wait_errors("waits for b")
    (tmp_path / "go").touch()
    assert first.wait() == 0 and waiting.wait() == 0, waiting
    assert waiting.output() == f"c b a/1 2 {field.ledger('a')['epoch']}\n" and lock_of(field) is None, waiting


def test_slots(field, locked, tmp_path):
    """So many at once, and the next when one leaves; another number is refused."""
    three = ["--slots", "3", "--lease", "30s"]
    pool = [locked("n", *until(tmp_path / str(i)), options=three) for i in range(3)]
    for lock in pool:
        lock.command()
    fourth = locked("n", *sh("echo $PAWL_LOCK_EPOCH"), options=three)
    fourth.wait_errors("waits for n")
    wrong = field.run("pawl-lock", "--slots", "2", "n", "--", "true")
    assert wrong.returncode == 2 and b"it has 3 slots, and this program says 2" in wrong.stderr, wrong
    assert {lock["slot"] for lock in field.locks.find({"slot": {"$gte": 0}})} == {0, 1, 2}
    text, shown = field.run("pawl-status").stdout.decode(), json.loads(field.run("pawl-status", "--json").stdout)
    first = field.locks.find_one({"slot": 0})["holder"]["pid"]
    assert (shown["kind"], shown["slots"], shown["holder"]["pid"]) == ("lock", {"held": 3, "of": 3}, first), shown
    assert re.search(rf"^n +0 +- +\S+:{first} \+2 ", text, re.M), text
    (tmp_path / "1").touch()
    assert fourth.wait() == 0 and fourth.output() == "4\n", fourth
    for i in range(3):
        (tmp_path / str(i)).touch()
    assert [lock.wait() for lock in pool] == [0, 0, 0] and field.locks.count_documents({}) == 0
    assert field.ledger("n")["slots"] == 3


def test_lost_exit(field, locked):
    lock = locked("n", *sh("echo $$; sleep 60"), options=["--lease", "3s", "--lost-exit", "77"])
    lock.command()
    field.locks.delete_one({"type": "n"})
    assert lock.wait() == 77 and "the lock is lost: its document is gone" in lock.errors(), lock


# --- who holds, and breaking ---


def test_list_and_show(field, locked, tmp_path):
    lock = locked("n", *until(tmp_path / "go"))
    lock.command()
    waiting = locked("n", "true")
    waiting.wait_errors("waits for n")
    done = field.run("pawl-lock", "--show", "n")
    assert done.returncode == 0, done
    assert re.fullmatch(rf"n: held for [\d.]+s, lease [\d.]+s, by \S+, pid {lock.pid} \(pawl-lock [\d.]+\)\n"
                        rf"n: waits, 0 before it, by \S+, pid {waiting.pid} \(pawl-lock [\d.]+\)\n", done.stdout.decode()), done
    listed = [json.loads(line) for line in field.run("pawl-lock", "--list", "--json").stdout.splitlines()]
    assert [(one["name"], one["state"], one["pid"]) for one in listed] == [("n", "held", lock.pid), ("n", "waiting", waiting.pid)], listed
    none = field.run("pawl-lock", "--show", "m")
    assert (none.returncode, none.stdout) == (1, b""), none
    (tmp_path / "go").touch()
    assert (lock.wait(), waiting.wait()) == (0, 0)
    assert field.run("pawl-lock", "--list").stdout == b""


def test_break(field, locked):
    """The holder ends its command at once, and says why; the next one has the lock."""
    lock = locked("n", *sh("trap 'echo ended; exit 0' TERM; echo $$; while :; do sleep 0.02; done"), options=["--lease", "60s"])
    lock.command()
    waiting = locked("n", *sh("echo $PAWL_LOCK_EPOCH"), options=["--lease", "60s"])
    waiting.wait_errors("waits for n")
    done = field.run("pawl-lock", "--break", "n", "--reason", "db7 is being replaced")
    assert done.returncode == 0 and b"n: broken" in done.stderr, done
    assert lock.wait(15) == 1 and "ended" in lock.output(), lock
    assert re.search(r"n: the lock is lost: it was broken: db7 is being replaced \(by \S+, pid \d+\); ending the command", lock.errors()), lock
    assert waiting.wait(15) == 0 and waiting.output() == "2\n", waiting
    again = field.run("pawl-lock", "--break", "n", "--reason", "x")
    assert again.returncode == 1 and b"it is not held" in again.stderr, again
    for words in (["--break", "n"], ["--break", "n", "--reason", "x", "y"], ["--list", "--show", "n"], ["--show", "a/b"]):
        assert field.run("pawl-lock", *words).returncode == 2


# --- held for another program ---


def test_hold(field):
    first = Holder(field, "n")
    held = first.line()
    assert (held["v"], held["event"], held["name"], held["epoch"], held["slot"], held["lease_ms"]) == (1, "held", "n", 1, 0, 30000), held
    deadline = datetime.datetime.fromisoformat(held["deadline"].replace("Z", "+00:00")) - datetime.datetime.now(datetime.timezone.utc)
    boot = held["deadline_boot_ms"] / 1000 - time.clock_gettime(time.CLOCK_BOOTTIME)
    assert 1 < boot <= 20 and abs(deadline.total_seconds() - boot) < 2
    second = Holder(field, "n")
    waiting = second.line()
    assert waiting["event"] == "waiting" and f"pid {first.process.pid}" in waiting["text"] and waiting["position"] == 1, waiting
    holder = waiting["holder"]
    assert (holder["pid"], holder["host"], holder["program"][:9]) == (first.process.pid, os.uname().nodename, "pawl-lock"), holder
    assert holder["held_ms"] >= 0 and 0 < holder["left_ms"] <= 30000
    third = Holder(field, "n")
    assert third.line()["position"] == 2 and third.end() == ([], 69)
    assert first.end() == ([{"v": 1, "event": "released", "name": "n", "sure": True}], 0)
    assert second.line()["epoch"] == 2
    second.process.send_signal(signal.SIGTERM)
    assert second.end()[1] == 0 and lock_of(field) is None


def test_hold_that_cannot_be_released(field):
    """It ends with its lease."""
    holder = Holder(field, "n")
    holder.line()
    with field.failing(["delete"], collection="locks", program="pawl-lock", closeConnection=True):
        assert holder.end() == ([{"v": 1, "event": "released", "name": "n", "sure": False}], 0)
    assert lock_of(field) is not None


def test_hold_is_lost(field):
    holder = Holder(field, "--lease", "3s", "--lost-exit", "9", "n")
    holder.line()
    field.locks.delete_one({"type": "n"})
    lost = holder.line()
    assert (lost["event"], lost["reason"], lost["text"]) == ("lost", "removed", "its document is gone")
    assert holder.process.wait(30) == 9
    holder.process.communicate()


def test_hold_ends_while_it_waits(field, locked, tmp_path):
    lock = locked("n", *until(tmp_path / "go"))
    lock.command()
    holder = Holder(field, "n")
    assert holder.line()["event"] == "waiting"
    assert holder.end() == ([], 69)
    assert waiting_for(field) == []
    (tmp_path / "go").touch()
    assert lock.wait() == 0


def test_hold_from_a_shell(field):
    """As the page has it."""
    text = open(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "pawl-lock.md")).read()
    script = re.search(r"```sh\n(coproc .*?)```", text, re.S)[1].replace("pawl-lock", " ".join([program("pawl-lock"), *field.mongo]))
    done = subprocess.run(["bash", "-c", script.replace("./backup", "echo held") + "wait\n"], capture_output=True, text=True, timeout=60,
                          check=False, env=environment())
    assert '"held"' in done.stdout and done.stdout.endswith("held\n"), done
    wait_until(lambda: lock_of(field, "nightly") is None, "the release")


# --- beside workers ---


def test_file_of_a_type_goes_on(field, locked, tmp_path):
    """A worker waits while its type is locked; of the end the ledger says what it said, and the file is continued."""
    field.fill(50)
    field.drain()
    assert field.ledger()["clean"] is True
    before = field.ledger()
    lock = locked("t1", *until(tmp_path / "go"), options=["--lease", "10s"])
    lock.command()
    now = field.ledger()
    assert now == {**before, "epoch": before["epoch"] + 1, "guarded": before["epoch"] + 1, "owner": now["owner"]} and now["clean"] is True
    field.fill(50)
    worker = field.worker("-v", "--exit-when-empty")
    worker.wait_log(rf"held by \S+, pid {lock.pid}")
    assert field.queued() == 50
    (tmp_path / "go").touch()
    assert lock.wait() == 0 and worker.wait() == 0
    assert re.search("takeover: .*previous shutdown clean", worker.log()), worker
    assert field.segments() == ["t1.bin"]
    field.compare()
    settled = field.ledger()
    assert field.run("pawl-lock", "t1", "--", "true").returncode == 0
    after = field.ledger()
    assert after == {**settled, "epoch": settled["epoch"] + 1, "guarded": settled["epoch"] + 1, "owner": after["owner"]}


@pytest.mark.parametrize("vouched", [True, False])
def test_end_stays_as_it_is(field, vouched):
    """Unclean stays unclean; vouched for stays vouched for, and what is not does not become it."""
    field.fill(5)
    field.drain()
    field.ledgers.update_one({"_id": "t1"}, {"$set": {"clean": False}} if vouched else {"$set": {"clean": False}, "$unset": {"guarded": 1}})
    for _ in range(2):
        assert field.run("pawl-lock", "t1", "--", "true").returncode == 0
    ledger = field.ledger()
    assert (ledger["clean"], ledger.get("guarded")) == (False, ledger["epoch"] if vouched else None)


def test_waits_for_a_worker(field, locked):
    worker = field.worker("--lease", "20s", "--linger", "1h", quick=False)
    field.fill(5)
    field.wait_empty()
    lock = locked("t1", "true")
    lock.wait_errors(rf"waits for t1, held by \S+, pid {worker.pid} \(pawl-worker")
    assert worker.stop()[0] == 0 and lock.wait() == 0, lock
    assert field.ledger()["clean"] is True
    field.compare()


@pytest.mark.parametrize("change, says", [
    ({"v": 3}, "a newer pawl is needed"), ({"seq": "x"}, "the ledger of \"n\" cannot be used: seq is"),
])
def test_ledger_that_cannot_be_used(field, change, says):
    assert field.run("pawl-lock", "n", "--", "true").returncode == 0
    field.ledgers.update_one({"_id": "n"}, {"$set": change})
    done = field.run("pawl-lock", "n", "--", "echo", "no")
    assert (done.returncode, done.stdout, says in done.stderr.decode()) == (74, b"", True), done
    assert lock_of(field) is None


def test_foreign_lock(field):
    """A lock document that pawl did not write: it says how to remove it."""
    assert field.run("pawl-setup").returncode == 0
    field.locks.insert_one({"type": "n", "slot": 0, "owner": "somebody"})
    done = field.run("pawl-lock", "n", "--", "echo", "no")
    assert (done.returncode, done.stdout) == (1, b"") and b"deleteOne" in done.stderr, done
    field.locks.insert_one({"type": "m", "slot": 1, "owner": "somebody"})
    done = field.run("pawl-lock", "--slots", "2", "m", "--", "echo", "no")
    assert (done.returncode, done.stdout) == (1, b"") and b"deleteOne" in done.stderr, done


def test_foreign_lock_of_one_slot(field, locked):
    """--show, --list and --break tell of it, and do for the other slots what is asked."""
    taken = locked("n", *sh("echo $$; sleep 60"), options=["--slots", "2"])
    taken.command()
    field.locks.insert_one({"type": "n", "slot": 1, "owner": "somebody"})
    for words in (["--show", "n"], ["--list"], ["--list", "--json"]):
        done = field.run("pawl-lock", *words)
        assert done.returncode == 1 and f"{taken.pid}".encode() in done.stdout and b"deleteOne({type: \"n\", slot: 1})" in done.stderr, done
    done = field.run("pawl-lock", "--break", "n", "--reason", "x")
    assert done.returncode == 1 and b"deleteOne({type: \"n\", slot: 1})" in done.stderr, done
    assert taken.wait(15) == 1 and "it was broken: x" in taken.errors(), taken
    done = field.run("pawl-lock", "--break", "n", "--reason", "x")
    assert done.returncode == 1 and b"deleteOne" in done.stderr and b"not held" not in done.stderr, done
    field.locks.delete_one({"slot": 1})
    done = field.run("pawl-lock", "--break", "n", "--reason", "x")
    assert done.returncode == 1 and b"not held" in done.stderr, done


def test_expired_lock_is_stolen(field):
    assert field.run("pawl-setup").returncode == 0
    field.locks.insert_one({"type": "n", "slot": 0, "owner": bson.Binary(bytes(16)), "ttl_ms": 1000})
    done = field.run("pawl-lock", "--timeout", "30s", "n", "--", "echo", "yes")
    assert (done.returncode, done.stdout) == (0, b"yes\n"), done


def test_database_not_as_it_should_be(field):
    field.db.locks.create_index([("type", 1), ("slot", 1)])
    done = field.run("pawl-lock", "n", "--", "echo", "no")
    assert (done.returncode, done.stdout) == (2, b"") and b"is not unique" in done.stderr, done


# --- usage ---


@pytest.mark.parametrize("words, says", [
    ([], "the NAME of a lock is missing"), (["--", "true"], "the NAME of a lock is missing"), (["n"], "a command is missing"),
    (["n", "--"], "a command is missing"), (["n", "true"], "a command is missing"), (["n", "m", "n", "--", "true"], 'got the NAME "n" twice'),
    (["--slots", "0", "n", "--", "true"], "--slots: got"), (["--lost-exit", "256", "n", "--", "true"], "--lost-exit: got"), (["", "--", "true"], "takes 1 to 128 bytes"),
    (["a/b", "--", "true"], 'got the NAME "a/b": takes 1 to 128 bytes'), ([".a", "--", "true"], "takes 1 to 128 bytes"),
    (["x" * 129, "--", "true"], "takes 1 to 128 bytes"), (["--lease", "1", "n", "--", "true"], "--lease: got"),
    (["--dir", "x", "n", "--", "true"], "--dir: no such option"), (["--uri", "http://x", "n", "--", "true"], "--uri: got"),
])
def test_usage(words, says):
    done = run("pawl-lock", *words)
    assert (done.returncode, done.stdout, says in done.stderr.decode()) == (2, b"", True), done


def test_help_and_version():
    done = run("pawl-lock", "--help")
    assert done.returncode == 0 and b"NAME... -- COMMAND" in done.stdout and b"--timeout" in done.stdout
    assert re.fullmatch(rb"pawl-lock \(pawl\) [\d.]+\n", run("pawl-lock", "-V").stdout)
