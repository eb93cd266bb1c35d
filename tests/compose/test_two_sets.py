"""Two replica sets over one volume: each type is on its own, and is drained from there."""
import copy

import pytest


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
