import os
import re
import signal
import tempfile
import uuid

import pytest

import disks as disks_module
from disks import Disks
from harness import BIN, Field, Mongod, remove


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes 10 s and more; left out under the sanitizers")
    # A job in the background of a shell, or of nohup, ignores some of these, and so would all that it starts.
    for number, handler in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGQUIT, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
        signal.signal(number, handler)


def pytest_report_header():
    return f"programs under test: {BIN}"


def pytest_runtest_logreport(report):
    """Writes the tests that failed to the file PAWL_TEST_FAILED, one a line, for scripts/test to run them again."""
    if report.failed and "PAWL_TEST_FAILED" in os.environ and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(os.environ["PAWL_TEST_FAILED"], "a") as failed:
            print(f"tests/{report.nodeid}", file=failed)


@pytest.fixture(scope="session")
def servers():
    """Servers by name, started when first asked for, one of a kind for each test process."""
    folder = tempfile.mkdtemp(prefix="pawl-test.", dir=os.environ.get("PAWL_TEST_TMP"))
    started = {}

    def server(kind):
        if kind not in started:
            started[kind] = Mongod(f"{folder}/{kind}", f"--{kind}", "--test-commands").start()
        return started[kind]
    yield server
    for one in started.values():
        one.stop()
    remove(folder)


@pytest.fixture
def own_server():
    """Makes a server that a test may kill. Call it: own_server("--port", "27999")."""
    folder = tempfile.mkdtemp(prefix="pawl-test.", dir=os.environ.get("PAWL_TEST_TMP"))
    started = []

    def server(*options):
        started.append(Mongod(f"{folder}/{len(started)}", *options))
        return started[-1]
    yield server
    for one in started:
        one.stop()
    remove(folder)


@pytest.fixture
def make_field(tmp_path, request):
    """Makes a Field on a server; its processes and its database are gone at the test's end."""
    fields = []

    def make(server):
        name = re.sub(r"\W+", "_", request.node.name)[:28]
        folder = tmp_path / f"field{len(fields)}"
        folder.mkdir()
        fields.append(Field(server, f"{name}_{uuid.uuid4().hex[:6]}", folder))
        return fields[-1]
    yield make
    for field in fields:
        field.close()
    failed = getattr(request.node, "failed", False)
    for field in fields:
        if failed:
            print(field.logs())
        try:
            field.server.client.drop_database(field.name)
        except Exception:  # its server may be dead, which was the test
            pass
        if not failed:
            remove(field.dir)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    if report.when == "call" and report.failed:
        item.failed = True


@pytest.fixture
def field(servers, make_field):
    """On a replica set of one node."""
    return make_field(servers("replica-set"))


@pytest.fixture(params=["replica-set", "standalone"])
def any_field(request, servers, make_field):
    """On both kinds of server."""
    return make_field(servers(request.param))


@pytest.fixture
def disks(make_field, tmp_path):
    """File systems and faults of a test's own; gone at its end, before its folders are."""
    made = Disks(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def faulty_disk(tmp_path_factory):
    """The library that makes a worker's calls fail (faulty_disk.c), compiled."""
    return disks_module.compile_faulty_disk(tmp_path_factory.mktemp("faulty-disk"))
