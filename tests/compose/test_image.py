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
    labels = inspect(IMAGE, ".Config.Labels")
    assert labels["org.opencontainers.image.title"] == "pawl" and labels["org.opencontainers.image.version"] == "0.1.0", labels
    assert labels["org.opencontainers.image.base.name"] == "docker.io/library/debian:bookworm-slim", labels
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
def test_a_worker_comes_back_and_74_is_not_repeated_for_ever(make_stack):
    """Whatever its end was, as after a restart of the machine. But where the ledger names a file that is gone (74 after a minute each time), its
    container waits after some starts; a person restarts it."""
    stack = make_stack(PAWL_RESTARTS="2", PAWL_WORKERS="1")
    stack.up("worker")

    def enqueue():
        assert stack.run("pawl-enqueue", "--uri", stack.uri, "--type", "t1", stdin=b"one\n").stderr == b"pawl-enqueue: enqueued 1 message\n"

    def starts():
        return log(worker).count("start: pawl-worker")
    enqueue()
    wait_until(lambda: stack.ledger("t1")["seq"] == 1, "the message in the file")
    worker = stack.containers("worker")[0]
    docker("exec", worker, "sh", "-c", "kill -TERM 1")  # not by Docker, which would take it for the wish of a person
    wait_until(lambda: ("worker", "0") in stack.events("die") and starts() == 2, lambda: log(worker))
    assert ended(worker, "stop")[0] == 0
    assert stack.run("find", "/var/lib/pawl", "/var/lib/pawl-state", "-type", "f").stdout.split() == [
        b"/var/lib/pawl/t1.bin", b"/var/lib/pawl-state/pawl/last-id"]
    assert stack.run("rm", "/var/lib/pawl/t1.bin").returncode == 0
    enqueue()
    docker("start", worker)
    wait_until(lambda: "is not started again" in log(worker), lambda: log(worker), 400)
    assert (starts(), stack.events("die").count(("worker", "74"))) == (3, 1), log(worker)
    wait_until(lambda: inspect(worker, ".State.Health.Status") == "unhealthy", "an unhealthy container")
    assert (inspect(worker, ".State.Status"), stack.events("die").count(("worker", "74"))) == ("running", 1)
    docker("restart", worker)
    wait_until(lambda: starts() == 4, lambda: log(worker))
