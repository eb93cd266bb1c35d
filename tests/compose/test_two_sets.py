"""Two replica sets over one volume: each type is on its own, and is drained from there."""
import copy
import re
import shlex

import pytest

from harness import ROOT


@pytest.mark.timeout(600)
def test_two_sets(make_stack):
    first = make_stack("two", PAWL_WORKERS="1")
    second = copy.copy(first)
    second.nodes, second.uri, second.clients = ["mongo-b"], "mongodb://mongo-b/?replicaSet=rs1", {}
    first.up("worker", "worker-t2")
    first.wait_healthy()
    sent = {"t1": b"".join(b"a %d\n" % n for n in range(1000)), "t2": b"".join(b"b %d\n" % n for n in range(1500))}
    for stack, service, name in ((first, "pawl", "t1"), (second, "pawl-b", "t2")):
        lines = sent[name]
        done = stack.compose("run", "--rm", "-T", service, "pawl-enqueue", "--type", name, stdin=lines)
        assert b"enqueued %d messages" % lines.count(b"\n") in done.stdout + done.stderr, done
        stack.wait_settled(name)
    for stack, service, name in ((first, "pawl", "t1"), (second, "pawl-b", "t2")):
        database = stack.database()
        assert [one["_id"] for one in database.ledger.find()] == [name] and database.messages.count_documents({}) == 0
        assert stack.run("pawl-dump", "--uri", stack.uri, "--type", name, "--verify").returncode == 0
        assert stack.run("pawl-dump", "--uri", stack.uri, "--type", name, "--format", "payload").stdout == sent[name]
        said = stack.compose("run", "--rm", "-T", service, "pawl-status").stdout.decode()
        assert [word in said for word in ("t1", "t2")] == [name == "t1", name == "t2"], said
    first.compose("down")
    assert {("worker", "0"), ("worker-t2", "0")} <= set(first.events("die"))


@pytest.mark.timeout(900)
def test_a_type_is_moved(make_stack):
    """By the page's own lines, from a stack of one set."""
    page = (ROOT / "docs/containers.md").read_text().partition("## Two replica sets")[2].partition("\n## ")[0]
    _, steps = re.findall(r"```sh\n(.*?)```", page, re.S)
    one = make_stack("one", PAWL_WORKERS="1")
    one.up("worker", "worker-t2")
    one.wait_healthy()
    first = b"".join(b"a %d\n" % n for n in range(500))
    one.compose("run", "--rm", "-T", "pawl", "pawl-enqueue", "--type", "t2", stdin=first)
    one.wait_settled("t2")
    both = make_stack("two", PAWL_WORKERS="1")
    both.name, both.env = one.name, {**both.env, "COMPOSE_PROJECT_NAME": one.name}
    for line in steps.splitlines():
        _, *words = shlex.split(line, comments=True)
        more = {"up": ["worker", "worker-t2"]}.get(words[0], [])
        both.compose(words[0], *(["-T"] if words[0] == "run" else []), *words[1:], *more)
    more = b"".join(b"b %d\n" % n for n in range(500))
    both.compose("run", "--rm", "-T", "pawl-b", "pawl-enqueue", "--type", "t2", stdin=more)
    moved = copy.copy(both)
    moved.nodes, moved.uri, moved.clients = ["mongo-b"], "mongodb://mongo-b/?replicaSet=rs1", {}
    moved.wait_settled("t2")
    assert moved.run("pawl-dump", "--uri", moved.uri, "--type", "t2", "--verify").returncode == 0
    assert moved.run("pawl-dump", "--uri", moved.uri, "--type", "t2", "--format", "payload").stdout == first + more
