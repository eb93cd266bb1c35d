import importlib.util
import re
from pathlib import Path

import pytest

from volume import Daemon, Volume

# The fixtures of the integration tests: servers, fields, machines.
_spec = importlib.util.spec_from_file_location("integration_conftest", Path(__file__).resolve().parents[1] / "integration" / "conftest.py")
_integration = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_integration)
servers, make_field, field, disks = _integration.servers, _integration.make_field, _integration.field, _integration.disks
pytest_configure, pytest_runtest_makereport = _integration.pytest_configure, _integration.pytest_runtest_makereport


@pytest.fixture(scope="session")
def daemon(tmp_path_factory):
    one = Daemon(tmp_path_factory.mktemp("glusterd") / "log")
    yield one
    one.stop()


@pytest.fixture
def make_volume(daemon, tmp_path, request):
    made = []

    def make(prepare=lambda volume: None):
        volume = Volume(tmp_path, re.sub(r"\W+", "-", request.node.name))
        made.append(volume)
        prepare(volume)
        return volume.create()
    yield make
    for volume in made:
        volume.close()
