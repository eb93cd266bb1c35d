"""--name: how a worker is called where its host is shown."""
import json
import os

import bson
import pytest

from harness import CALM, wait_until

HOST = os.uname().nodename
NAME = "w\u00f6rker 1"


def status(field):
    (row,) = [json.loads(line) for line in field.run("pawl-status", "--json", "--type", "t1").stdout.splitlines()]
    return row, field.run("pawl-status", "--type", "t1").stdout.decode()


def lock_of(field):
    return field.locks.find_one({"type": "t1", "slot": 0})


def test_the_holder_and_the_waiters_have_it(field):
    field.fill(10)
    first = field.worker(*CALM, "--linger", "1h", "--name", NAME, quick=False)
    wait_until(lambda: field.holder() == first.pid, field.logs)
    field.wait_empty()
    row, table = status(field)
    assert (row["holder"]["name"], row["holder"]["host"]) == (NAME, HOST) and f" {NAME}@{HOST}:{first.pid} " in table, (row, table)

    first.freeze()  # so that messages wait
    field.fill(10)
    second = field.worker(*CALM, "-v", env={"PAWL_NAME": "second"})
    second.wait_log(f"busy: held by {NAME}@{HOST}, pid {first.pid}, for")
    (waiter,) = wait_until(lambda: (field.locks.find_one({"type": "t1", "slot": -1}) or {}).get("queue"), "a waiter")
    assert waiter["who"]["name"] == "second", waiter
    shown = field.run("pawl-lock", "--show", "t1").stdout.decode()
    assert f", by {NAME}@{HOST}, pid {first.pid} (" in shown and f", by second@{HOST}, pid {second.pid} (" in shown, shown
    lines = [json.loads(line) for line in field.run("pawl-lock", "--list", "--json").stdout.splitlines()]
    assert [(line["host"], line["process"]) for line in lines] == [(HOST, NAME), (HOST, "second")], lines
    busy = field.run("pawl-lock", "--nonblock", "t1", "--", "true")
    assert busy.returncode == 69 and f"held by {NAME}@{HOST}, pid {first.pid}".encode() in busy.stderr, busy
    adopted = field.run("pawl-setup", "--adopt", "t1", "--dir", field.dir, "--yes")
    assert adopted.returncode == 1 and f"held by {NAME}@{HOST}, pid {first.pid}".encode() in adopted.stderr, adopted


@pytest.mark.parametrize("name", [None, HOST])
def test_the_host_alone(field, name):
    """Without a name, or with the host's, as in a pod of Kubernetes."""
    field.fill(10)
    worker = field.worker("--linger", "1h", *(["--name", name] if name else []))
    wait_until(lambda: field.holder() == worker.pid, field.logs)
    row, table = status(field)
    assert lock_of(field)["holder"].get("name") == row["holder"].get("name") == name and f" {HOST}:{worker.pid} " in table, (row, table)


@pytest.mark.parametrize("name", [b"", b" a", b"a ", b"a\nb", b"a\x1b[2Jb", b"\x7f", b"x" * 65, b"\xff", b"a\xc2", b"\xc0\xaf", b"\xed\xa0\x80",
                                  "\u0085".encode(), "a\u202eb".encode(), "\u200b".encode(), "\u00e9".encode() * 33])
def test_what_is_no_name(field, name):
    done = field.run("pawl-worker", "--type", "t1", "--dir", field.dir, "--name=" + name.decode(errors="surrogateescape"))
    assert done.returncode == 2 and b"--name: got \"" in done.stderr and b"1 to 64 bytes of UTF-8" in done.stderr, done


@pytest.mark.parametrize("name", [b"x" * 64, "\u00e9".encode() * 32, "\U0001f600 2".encode(), b"$x", b"a@b"])
def test_what_is_one(field, name):
    field.fill(1)
    worker = field.worker("--linger", "1h", "--name", name.decode())
    wait_until(lambda: field.holder() == worker.pid, field.logs)
    assert lock_of(field)["holder"]["name"] == status(field)[0]["holder"]["name"] == name.decode()


@pytest.mark.parametrize("name", ["\x1b[31mred", "a\nb", "x" * 65, "x" * 100000, "a\u202eb", "", 5, {"a": 1}, None, ["a"]])
def test_names_of_others(field, name):
    """What --name would not take is not shown, and harms nobody."""
    assert field.run("pawl-setup").returncode == 0
    now = field.server.client.admin.command("hello")["localTime"]
    owner = bson.Binary(bytes(16))
    field.locks.insert_one({"type": "t1", "slot": 0, "owner": owner, "ttl_ms": 30000, "acquired_at": now, "expires_at": now.replace(year=now.year + 1),
                            "holder": {"host": "elsewhere", "pid": 1, "program": "p", "name": name}})
    field.locks.insert_one({"type": "t1", "slot": -1, "queue": [{"owner": owner, "kind": "lock", "at": now, "ttl_ms": 10000,
                                                                 "who": {"host": "elsewhere", "pid": 2, "program": "p", "name": name}}]})
    row, table = status(field)
    assert row["holder"] == {"host": "elsewhere", "pid": 1, "program": "p", "boot": "?"} and " elsewhere:1 " in table, (row, table)
    lines = [json.loads(line) for line in field.run("pawl-lock", "--list", "--json").stdout.splitlines()]
    assert [(line["host"], line.get("process")) for line in lines] == [("elsewhere", None)] * 2, lines
