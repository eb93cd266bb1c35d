"""The same cause has the same exit code in every program: the table of docs/configuration.md, row by row."""
import re
import subprocess

import pytest

from harness import ROOT, Worker, environment, free_port, program

OUTSIDE = "mongodb://127.0.0.1:{}/"


def commands(folder):
    """Each program as one runs it, so that it ends by itself."""
    return {
        "pawl-worker": ["--type", "t1", "--dir", folder, "--exit-when-empty", "--timeout", "6s", "--lease", "3s"],
        "pawl-enqueue": ["--type", "t1"],
        "pawl-status": [],
        "pawl-setup": ["--timeout", "3s"],
        "pawl-lock": ["--timeout", "3s", "--lease", "3s", "n1", "--", "true"],
        "pawl-dump": ["--verify", "--dir", folder, "--type", "t1"],
    }


def codes(folder, *words):
    """Of all programs, side by side; pawl-lock's come before its command."""
    started = {name: subprocess.Popen([program(name), *map(str, words), *map(str, rest)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, env=environment()) for name, rest in commands(folder).items()}
    said = {name: process.communicate(b"x\n", timeout=120)[0].decode(errors="replace") for name, process in started.items()}
    return {name: process.returncode for name, process in started.items()}, said


def table():
    """Cause -> code, of the page."""
    page = (ROOT / "docs/configuration.md").read_text().partition("\n## Exit codes\n")[2].partition("\n## ")[0]
    return {cause: int(code) for cause, code in re.findall(r"^\| ([^|`]+?) \| (\d+) \| ", page, re.M)}


def causes(field, server):
    """How each is brought about: words for every program."""
    there = ["--uri", server.uri, "--db", field.name]
    return {
        "a wrong option": ["--nonsense"],
        "a wrong value": [*there, "--config", "/nowhere/pawl.conf"],
        "a connection string that cannot be used": ["--uri", "http://127.0.0.1"],
        "a file of TLS that cannot be read": ["--uri", OUTSIDE.format(1) + "?tls=true&tlsCAFile=/nowhere/ca.pem"],
        "the replica set has another name": ["--uri", server.uri.replace("replicaSet=rs0", "replicaSet=rs9"), "--db", field.name],
        "MongoDB gives no answer": ["--uri", OUTSIDE.format(free_port())],
    }


@pytest.mark.parametrize("cause", ["a wrong option", "a wrong value", "a connection string that cannot be used",
                                   "a file of TLS that cannot be read", "the replica set has another name", "MongoDB gives no answer"])
def test_cause(field, tmp_path, cause):
    found, said = codes(tmp_path, *causes(field, field.server)[cause])
    assert found == dict.fromkeys(found, table()[cause]), said
    if cause == "the replica set has another name":
        host = "%s:%d" % field.server.client.address
        for name, text in said.items():
            assert f'{host} is a member of the replica set "rs0"; expected a member of "rs9"' in text, (name, text)
    if cause == "a file of TLS that cannot be read":
        for name, text in said.items():
            assert re.search(r"connecting to 127\.0\.0\.1:1: tlsCAFile of the URI is /nowhere/ca\.pem: No such file .*; expected a PEM file", text), (name, text)


def test_a_standalone_server_that_comes_late(own_server, tmp_path):
    """A program that waited for it says what it is: with one host in the URI no other one can be the set's."""
    port = free_port()
    worker = Worker(["--uri", f"mongodb://127.0.0.1:{port}/?replicaSet=rs0", "--db", "late", "--type", "t1", "--dir", tmp_path], tmp_path / "log")
    try:
        worker.wait_log("MongoDB gives no answer")
        own_server("--standalone", "--port", str(port)).start()
        assert worker.wait() == 2 and f'127.0.0.1:{port} is a standalone server; expected a member of "rs0"' in worker.log(), str(worker)
    finally:
        worker.kill()


def test_database_that_cannot_be_used(field, tmp_path):
    """pawl-enqueue and pawl-dump look at no index."""
    field.db.messages.create_index("at", expireAfterSeconds=60)
    found, said = codes(tmp_path, *field.mongo)
    del found["pawl-enqueue"], found["pawl-dump"]
    assert found == dict.fromkeys(found, table()["the database cannot be used as it is"]), said


def test_every_row_is_tried():
    """The users and rights in test_credentials.py."""
    assert set(table()) == {*causes_named(), "a right is missing", "the credentials are refused", "the database cannot be used as it is"}


def causes_named():
    class Nothing:
        uri = name = "x"
    return causes(Nothing, Nothing)
