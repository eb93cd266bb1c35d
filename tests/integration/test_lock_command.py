"""pawl-lock and its command: signals, the processes that the command starts, its environment, a pawl-lock under another one."""
import os
import pty
import signal
import time

import pytest

from harness import process_state, program
from locking import LEASE, gone, lock_of, sh, until


# --- signals ---


# Prints what it is sent, and ends with the number of that when it is sent USR1.
COUNTS = ('n=0; for s in TERM INT HUP QUIT; do trap "echo $s; n=\\$((n+1))" $s; done; trap \'exit $n\' USR1; echo $$; '
          'while :; do sleep 0.02; done')


def test_signals_are_passed_on(locked):
    lock = locked("n", *sh(COUNTS))
    command = lock.command()
    for name in ("TERM", "INT", "HUP", "QUIT"):
        lock.process.send_signal(signal.Signals["SIG" + name])
        lock.wait_output(rf"\n{name}\n")
    os.kill(command, signal.SIGUSR1)
    assert lock.wait() == 4, lock


def test_terminal_sends_once(field, locked):
    """With Ctrl-C the terminal sends a signal to both: pawl-lock does not pass it on."""
    master, slave = pty.openpty()
    lock = locked("n", *sh(COUNTS), stdin=slave, start_new_session=True,
                  preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)))  # it becomes the controlling terminal
    command = lock.command()
    os.write(master, b"\x03")
    lock.wait_output(r"\nINT\n")
    time.sleep(0.2)  # for a second one
    os.kill(command, signal.SIGUSR1)
    assert lock.wait() == 1, lock
    os.close(master), os.close(slave)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_waiting_is_ended(field, locked, tmp_path, number):
    first = locked("n", *until(tmp_path / "go"), options=["--lease", "60s"])
    first.command()
    before = lock_of(field)
    second = locked("n", "echo", "no")
    second.wait_errors("waits for n")
    begin = time.monotonic()
    second.process.send_signal(number)
    assert second.wait() == -number and time.monotonic() - begin < 20 and second.output() == ""
    assert lock_of(field)["owner"] == before["owner"] and field.ledger("n")["epoch"] == 1
    (tmp_path / "go").touch()
    assert first.wait() == 0 and lock_of(field) is None


@pytest.mark.parametrize("name", ["USR1", "USR2", "ALRM", "CONT", "WINCH"])
def test_other_signals_are_passed_on(locked, name):
    lock = locked("n", *sh(f"trap 'echo got; exit 5' {name}; echo $$; while :; do sleep 0.02; done"))
    lock.command()
    lock.process.send_signal(signal.Signals["SIG" + name])
    assert lock.wait() == 5 and lock.output().endswith("got\n"), lock


@pytest.mark.parametrize("name, ends", [("USR1", True), ("CONT", False), ("WINCH", False)])
def test_other_signals_while_it_waits(field, locked, tmp_path, name, ends):
    first = locked("n", *until(tmp_path / "go"))
    first.command()
    second = locked("n", "true")
    second.wait_errors("waits for n")
    second.process.send_signal(signal.Signals["SIG" + name])
    if ends:
        assert second.wait() == -signal.Signals["SIG" + name], second
    (tmp_path / "go").touch()
    assert first.wait() == 0 and (ends or second.wait() == 0) and lock_of(field) is None


# --- what the command starts ---


# A command that starts another one, prints the pids of both, and ends by SIGTERM.
def starts(other):
    return sh(f"sh -c '{other}' & trap 'exit 3' TERM; echo $! $$; wait; wait; wait")


def both(lock):
    lock.wait_output(r"^\d+ \d+\n")
    return map(int, lock.output().split())


def test_signal_reaches_what_it_has_started(field, locked):
    lock = locked("n", *starts("sleep 600"))
    child, command = both(lock)
    lock.process.send_signal(signal.SIGTERM)
    assert lock.wait() == 3, lock
    gone(command), gone(child)


def test_loss_ends_what_it_has_started(field, locked):
    """One that ignores SIGTERM gets SIGKILL at the end of the lease; pawl-lock ends after it."""
    lock = locked("n", *starts('trap "" TERM; while :; do sleep 0.02; done'), options=["--lease", "4s"])
    child, command = both(lock)
    field.locks.delete_one({"type": "n"})
    gone(command)
    assert lock.wait() == 1 and process_state(child) in (None, "Z"), lock


def test_what_it_has_started_may_stay(field, locked):
    """A command that ends by itself leaves the others alone, as flock(1) does."""
    lock = locked("n", *sh("sleep 600 & echo $!"))
    assert lock.wait() == 0, lock
    child = int(lock.output())
    assert process_state(child) not in (None, "Z")
    os.kill(child, signal.SIGKILL)


def test_terminal_is_shared(locked):
    """In the foreground of a terminal the command may read from it."""
    master, slave = pty.openpty()
    lock = locked("n", *sh("echo $$; read line; echo got $line"), stdin=slave, start_new_session=True,
                  preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)))
    lock.command()
    os.write(master, b"word\n")
    assert lock.wait() == 0 and lock.output().endswith("got word\n"), lock
    os.close(master), os.close(slave)


# --- one under another ---


def nested(field, outer, *words):
    """A pawl-lock under those of `outer`, each of which takes the names in one of its strings."""
    command = [*LEASE, *words]
    for names in reversed(outer):
        command = [*LEASE, *names.split(), "--", program("pawl-lock"), *field.mongo, *command]
    return field.run("pawl-lock", *command)


@pytest.mark.parametrize("outer, words, says", [
    (["n"], ["--nonblock", "n"], "n: the pawl-lock that this one runs under holds it (PAWL_LOCK_HELD)"),
    (["n"], ["n"], "n: the pawl-lock that this one runs under holds it"),
    (["a", "b"], ["c", "a"], "a: the pawl-lock that this one runs under holds it"),
    (["b c"], ["a"], "a: taken under b, it may wait for ever"), (["--document events/1"], ["--document", "events/1"], "events/1: the pawl-lock that"),
    (["n", "--document events/1"], ["n"], "n: the pawl-lock that this one runs under holds it"),
])
def test_taken_under_itself(field, outer, words, says):
    field.db.events.insert_one({"_id": 1})
    done = nested(field, outer, *words, "--", "echo", "no")
    assert (done.returncode, done.stdout) == (2, b"") and says in done.stderr.decode(), done
    assert field.locks.count_documents({}) == 0


@pytest.mark.parametrize("outer, words", [(["a", "b"], ["c"]), (["b"], ["--nonblock", "a"]), (["b"], ["--timeout", "5s", "a"])])
def test_taken_under_another(field, outer, words):
    done = nested(field, outer, *words, "--", *sh("echo $PAWL_LOCK_NAME/$PAWL_LOCK_HELD/$PAWL_LOCK_EPOCH"))
    name = words[-1]
    assert (done.returncode, done.stdout.decode()) == (0, f"{name}/{' '.join([*outer, name])}/1\n"), done


@pytest.mark.parametrize("outer, words", [("--document events/1", ["events"]), ("--document events/1", ["audit"]), ("n", ["--document", "events/1"]),
                                          ("--document events/1", ["--document", "events/2"]), ("--document events/{}", ["--document", "events/{}"])])
def test_document_and_name(field, outer, words):
    """A collection is no name of a lock."""
    field.db.events.insert_many([{"_id": 1}, {"_id": 2}])
    done = nested(field, [outer], *words, "--", *sh("echo $PAWL_LOCK_NAME"))
    assert (done.returncode, done.stdout.decode()) == (0, f"{words[-1].split('/')[0]}\n"), done


def test_environment_is_its_own(field):
    given = {"ONE": "1", "PAWL_LOCK_EPOCH": "77", "PAWL_LOCK_DOCUMENT": "x"}
    done = field.run("pawl-lock", "--slots", "2", "b", "a", "--", "env", env=given)
    env = dict(line.split("=", 1) for line in done.stdout.decode().splitlines() if "=" in line)
    assert {name: env.get(name) for name in ("ONE", "PAWL_LOCK_NAME", "PAWL_LOCK_EPOCH", "PAWL_LOCK_SLOT", "PAWL_LOCK_HELD", "PAWL_LOCK_DOCUMENT")} == {
        "ONE": "1", "PAWL_LOCK_NAME": "b a", "PAWL_LOCK_EPOCH": "1 1", "PAWL_LOCK_SLOT": "0 0", "PAWL_LOCK_HELD": "b a", "PAWL_LOCK_DOCUMENT": None}, done
    assert done.stdout.count(b"PAWL_LOCK_EPOCH=") == 1 and done.stderr == b"", done
