"""The Compose files for real: replicas, a producer in a container of its own, faults by Docker, and the exact comparison."""
import re
import time
from collections import Counter

import bson
import pymongo
import pytest

from harness import wait_until
from producer import LENGTH
from stack import LEASE_S, docker, inspect, log

SERVICES = ("worker", "worker-t2", "producer")


def replaced(stack, name, *strike):
    """The holder of the type is struck by this docker command, and another takes over."""
    holder, epoch = stack.wait_holder(name), stack.ledger(name)["epoch"]
    docker(*[word if word != "HOLDER" else holder for word in strike])
    wait_until(lambda: stack.ledger(name)["epoch"] > epoch and stack.holder(name) not in (None, holder), f"a new holder of {name} after {strike}", 30)
    return holder


def unhealthy(container):
    return inspect(container, ".State.Health.Status") == "unhealthy"


def start(stack):
    stack.up(worker=3, worker_t2=2)
    stack.wait_healthy()
    stack.up("--no-deps", "producer")
    stack.wait_progress("t1", "t2")


def enqueue(stack):
    """pawl-enqueue in a container; what it sends is written down as the producer does."""
    raws = [bson.encode({"_id": bson.ObjectId(), "type": "t1", "producer": 9, "n": n}) for n in range(1000)]
    body = b"".join(raws)
    done = stack.compose("run", "--rm", "-T", "pawl", "pawl-enqueue", "--from", "bson", stdin=body)
    assert b"enqueued 1000 messages" in done.stdout + done.stderr
    record = stack.folder / "t1.9"
    record.write_bytes(b"I" + LENGTH.pack(len(body)) + body + b"A")
    docker("cp", record, f"{stack.containers('producer')[0]}:/sent/t1.9")


def down(stack):
    """With messages in the queue. Every worker ends by itself, with 0."""
    running = len(stack.workers("status=running"))
    died, killed, begin = len(stack.events("die")), len(stack.events("kill")), time.monotonic()
    stack.compose("down")
    seconds = time.monotonic() - begin
    wait_until(lambda: len(stack.events("die")) >= died + running + 2, lambda: f"the ends: {stack.events('die')[died:]}")
    ends = stack.events("die")[died:]
    assert all(code == "0" for service, code in ends if service in SERVICES), ends
    assert not [service for service, number in stack.events("kill")[killed:] if number == "9"], stack.events("kill")
    print(f"{stack.kind}: {running} workers ended with 0, {seconds:.1f} s for the whole `down`")


def finish(stack):
    """After `down`, `up` starts as many workers as .env says, and without --scale it leaves them."""
    down(stack)
    for _ in range(2):
        stack.up("worker", "worker-t2")
        assert (len(stack.containers("worker", "status=running")), len(stack.containers("worker-t2", "status=running"))) == (3, 1)
    for name in ("t1", "t2"):
        stack.compare(name)


def strike(stack):
    """Holders are killed, paused past their lease, frozen, cut off; workers come and go."""
    for name in ("t1", "t2"):
        docker("start", replaced(stack, name, "kill", "HOLDER"))

    paused = replaced(stack, "t1", "pause", "HOLDER")
    time.sleep(LEASE_S)
    docker("unpause", paused)

    frozen = replaced(stack, "t2", "kill", "--signal", "STOP", "HOLDER")
    wait_until(lambda: unhealthy(frozen), f"an unhealthy {frozen}", 20)
    docker("kill", "--signal", "CONT", frozen)

    network = f"{stack.name}_default"
    cut = replaced(stack, "t1", "network", "disconnect", network, "HOLDER")
    before = len(log(cut))
    docker("network", "connect", network, cut)
    # A request that hung in the name's resolution (5 s) may be answered, and then says only what has become of the lock.
    wait_until(lambda: re.search("MongoDB answers again|another holder has taken over", log(cut)[before:]), lambda: f"the return of {cut}: {log(cut)}", 30)

    for workers, workers_t2 in ((5, 3), (1, 1), (3, 2)):
        stack.up(worker=workers, worker_t2=workers_t2)
        assert len(stack.workers("status=running")) == workers + workers_t2
        stack.wait_progress("t1", "t2")
    stack.wait_healthy()
    ends = Counter(stack.events("die"))
    assert (ends["worker", "137"], ends["worker-t2", "137"]) == (1, 1), ends  # those that were killed
    assert all(code in ("0", "137") for service, code in ends if service in SERVICES), ends


@pytest.mark.timeout(600)
def test_one_node(make_stack):
    stack = make_stack(PAWL_BATCH_MESSAGES="100", PAWL_SEGMENT_BYTES="256KiB")
    start(stack)
    enqueue(stack)
    strike(stack)
    docker("restart", stack.containers("mongo")[0])
    stack.wait_progress("t1", "t2")
    stack.wait_healthy()
    finish(stack)


@pytest.mark.timeout(600)
def test_three_nodes(make_stack):
    """And the primary is killed; the next one is restarted."""
    stack = make_stack("three", PAWL_CODEC="zstd")
    start(stack)
    enqueue(stack)
    strike(stack)
    primary = wait_until(stack.primary, "a primary")[0]
    killed = stack.containers(primary)[0]
    docker("kill", killed)
    wait_until(lambda: (stack.primary() or (primary,))[0] != primary, "another primary", 40)
    stack.wait_progress("t1", "t2")
    docker("start", killed)
    wait_until(lambda: stack.has_three(primary), f"{primary} again", 30)
    docker("restart", stack.containers(wait_until(stack.primary, "a primary")[0])[0])
    stack.wait_progress("t1", "t2")
    finish(stack)


@pytest.mark.timeout(600)
def test_one_node_is_not_taken_for_three(make_stack):
    """The volumes of a set of one node, and the file for three: `setup` names who is lacking, and no worker starts. And MongoDB for programs outside."""
    stack = make_stack(PAWL_MONGO_PORT="127.0.0.1:")
    stack.compose("--profile", "ports", "up", "-d", "--no-build", "setup", "ports")
    wait_until(lambda: ("setup", "0") in stack.events("die"), "a database that is prepared")
    address = docker("port", stack.containers("ports")[0], "27017")
    with pymongo.MongoClient(f"mongodb://{address}/?directConnection=true") as client:
        assert client.admin.command("hello")["hosts"] == ["mongo:27017"]
    stack.compose("--profile", "ports", "down")
    stack.files.insert(1, "docker-compose.three.yml")
    done = stack.compose("up", "-d", "--no-build", "worker", check=False)
    setup = stack.containers("setup")[0]
    wait_until(lambda: inspect(setup, ".State.Status") == "exited", "the end of setup", 120)
    assert inspect(setup, ".State.ExitCode") == 2 and "was initiated already, and without mongo2:27017, mongo3:27017" in log(setup), log(setup)
    assert done.returncode != 0 and not stack.containers("worker", "status=running"), done
