import importlib.util
from pathlib import Path

import pytest

from machine import MONGOD, Client, Network, Server

# The fixtures of the integration tests: fields, and how a failure is told.
_spec = importlib.util.spec_from_file_location("integration_conftest", Path(__file__).resolve().parents[1] / "integration" / "conftest.py")
_integration = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_integration)
make_field, pytest_configure, pytest_runtest_makereport = _integration.make_field, _integration.pytest_configure, _integration.pytest_runtest_makereport


@pytest.fixture(scope="session")
def network():
    return Network()


@pytest.fixture(scope="session")
def mongod(network, tmp_path_factory):
    server = _integration.Mongod(tmp_path_factory.mktemp("mongod"), "--replica-set", "--address", MONGOD).start()
    yield server
    server.stop()


@pytest.fixture
def field(mongod, make_field):
    return make_field(mongod)


class Machines:
    """Started once, and again after a test that failed or turned one off."""

    def __init__(self, network, folder):
        self.server = Server(network, 2, folder / "server")
        self.one, self.two = (Client(network, n, name, folder / name) for n, name in ((3, "one"), (4, "two")))
        self.all = [self.server, self.one, self.two]

    def start(self):
        off = [machine for machine in self.all if not machine.alive()]
        for machine in off:
            machine.boot()
        for machine in off:
            machine.wait_up()
        if self.server in off:
            self.server.serve()

    def stop(self):
        for machine in self.all:
            machine.power_off()
            machine.join()


@pytest.fixture(scope="session")
def all_machines(network, tmp_path_factory):
    made = Machines(network, tmp_path_factory.mktemp("machines"))
    yield made
    made.stop()


@pytest.fixture
def machines(all_machines, request):
    all_machines.start()
    yield all_machines
    if getattr(request.node, "failed", False):
        for machine in all_machines.all:
            print(machine)
        all_machines.stop()
