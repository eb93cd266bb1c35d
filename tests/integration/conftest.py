import os
import re
import signal
import tempfile
import uuid
import zlib

import pytest

import disks as disks_module
from disks import Disks, need_program
from dumping import Follower, run_dump, start_dump
from fake_mongod import FakeMongod
from fields import Field
from harness import BIN, CALM, Mongod, free_port, remove, run, wait_until
from health_port import Port
from locking import locker
from monitoring import Monitor
from secured import PASSWORDS, Secured, Users, documented_roles


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes 10 s and more; left out under the sanitizers")
    config.addinivalue_line("markers", "sanitized: runs under the address sanitizer: what is not slow; with PAWL_TEST_DAY a third of it, another one each day")
    config.addinivalue_line("markers", "clustered: not for MongoDB 5.0, which makes no clustered collections")
    # A job in the background of a shell, or of nohup, ignores some of these, and so would all that it starts.
    for number, handler in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGQUIT, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
        signal.signal(number, handler)


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items):
    day = os.environ.get("PAWL_TEST_DAY")
    for item in items:
        if not item.get_closest_marker("slow") and (day is None or (zlib.crc32(item.nodeid.encode()) + int(day)) % 3 == 0):
            item.add_marker("sanitized")


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


@pytest.fixture
def listening(field):
    """Makes a worker with a health port, and waits until that answers."""
    def make(*arguments, on=field, **more):
        number = free_port()
        worker = on.worker("--listen", f"127.0.0.1:{number}", *CALM, *arguments, **more)
        port = Port(number)
        wait_until(lambda: port.status("/healthz") == 200 or not worker.alive(), lambda: f"a health port of {worker}")
        return worker, port
    return make


@pytest.fixture
def monitor(field):
    """Makes a monitor of the test's database."""
    made = []

    def make(*arguments, mongo=None, on=None, **more):
        ground = on or field
        made.append(Monitor(mongo or ground.mongo, ground.folder / f"monitor{len(made)}.log", *arguments, **more))
        return made[-1]
    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="session")
def secured(tmp_path_factory):
    need_program("openssl", "a server with TLS")
    server = Secured(tmp_path_factory.mktemp("secured") / "server").start()
    yield server
    server.stop()


@pytest.fixture
def users(secured):
    made = Users(secured)
    yield made
    made.close()


@pytest.fixture
def guarded(secured, users, make_field):
    """A field on it, its collections made by the operator's user, with the documented roles and a user for each."""
    field = make_field(secured)
    for user, role in documented_roles(field.name).items():
        users.add(user, role, pwd=PASSWORDS[user])
    field.as_user = lambda user, **more: ["--uri", secured.uri_of(user, **more), "--db", field.name]
    return field


@pytest.fixture
def prepared(guarded):
    done = run("pawl-setup", *guarded.as_user("operator"))
    assert done.returncode == 0, done
    return guarded


@pytest.fixture
def with_ledger():
    """Runs pawl-dump with a server that gives these answers, one after the other: a ledger, a list of them, or what fake_mongod.py names."""
    server = FakeMongod()

    def run(answers, *arguments, start=False, **more):
        answers = answers if isinstance(answers, tuple) else (answers,)
        server.answer(*([answer] if isinstance(answer, dict) and "_id" in answer else answer for answer in answers))
        return (start_dump if start else run_dump)("--uri", server.uri, *arguments, **more)
    run.server = server
    yield run
    server.shutdown()
    server.server_close()


@pytest.fixture
def follow():
    followers = []

    def start(*arguments, **more):
        followers.append(Follower(*arguments, **more))
        return followers[-1]
    yield start
    for follower in followers:
        follower.process.kill()
        follower.process.wait()


@pytest.fixture
def locked(field):
    """Starts a pawl-lock: locked("n", "sh", "-c", …, options=[…]). None outlives the test."""
    with locker(field) as start:
        yield start
