"""The image: what is in it, as whom it runs, and how it ends."""
import time

import pytest

from harness import wait_until
from stack import IMAGE, TIGHT, command, docker, inspect, log, unique_name

PROGRAMS = ("pawl-worker", "pawl-enqueue", "pawl-dump", "pawl-status", "pawl-setup", "pawl-lock")
NOWHERE = ("--network", "none", "-e", "PAWL_URI=mongodb://127.0.0.1/?replicaSet=rs0")


def test_what_is_in_it():
    assert inspect(IMAGE, ".Size") < 120_000_000
    assert inspect(IMAGE, ".Config.User") == "10001:10001"
    for program in PROGRAMS:
        assert docker("run", "--rm", *TIGHT, *NOWHERE, IMAGE, program, "--version") == f"{program} (pawl) 0.1.0"
    assert docker("run", "--rm", *TIGHT, IMAGE, "--version") == "pawl-worker (pawl) 0.1.0"
    bare = command("docker", "run", "--rm", *TIGHT, IMAGE, check=False)
    assert bare.returncode == 2 and b"--type: got none" in bare.stderr


def test_nothing_gains_rights():
    found = docker("run", "--rm", *TIGHT, "--user", "0", "--workdir", "/", IMAGE, "find", "/", "-xdev", "-type", "f", "-perm", "/6000")
    assert found == "", found


def ended(container, *how):
    """By this docker command; exit code and seconds."""
    begin = time.monotonic()
    docker(*how, container)
    code = int(docker("wait", container))
    return code, time.monotonic() - begin


def test_process_1_takes_signals():
    for words, code in ((["--type", "t1"], 0), (["pawl-setup"], 143)):
        container = docker("run", "-d", "--name", unique_name(), *TIGHT, *NOWHERE, IMAGE, *words)
        try:
            wait_until(lambda: "MongoDB" in log(container), "a start")
            found, seconds = ended(container, "stop")
            assert found == code and seconds < 10, (words, found, seconds, log(container))
        finally:
            docker("rm", "-f", "-v", container)


def test_health_of_other_programs():
    container = docker("run", "-d", "--name", unique_name(), *TIGHT, *NOWHERE, IMAGE, "pawl-dump", "-f")
    try:
        assert command("docker", "exec", container, "healthy", check=False).returncode == 0
        docker("stop", container)
    finally:
        docker("rm", "-f", "-v", container)


@pytest.mark.timeout(600)
def test_74_is_not_repeated_for_ever(make_stack):
    """The ledger names a file that is gone: a minute each time, and one new start."""
    stack = make_stack(PAWL_RESTARTS="1")
    stack.up("worker")

    def enqueue():
        assert b"enqueued 1 message" in stack.run("pawl-enqueue", "--uri", stack.uri, "--type", "t1", stdin=b"one\n").stderr
    enqueue()
    wait_until(lambda: stack.ledger("t1")["seq"] == 1, "the message in the file")
    worker = stack.containers("worker")[0]
    assert ended(worker, "stop")[0] == 0
    assert stack.run("rm", "/var/lib/pawl/t1.bin").returncode == 0
    enqueue()
    docker("start", worker)
    wait_until(lambda: stack.events("die").count(("worker", "74")) == 2, lambda: log(worker), 400)
    time.sleep(2)  # a third start would come within 0.2 s
    assert (inspect(worker, ".State.Status"), inspect(worker, ".State.ExitCode"), inspect(worker, ".RestartCount")) == ("exited", 74, 1)
