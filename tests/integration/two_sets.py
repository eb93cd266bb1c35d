"""Two replica sets on one machine, and a place in each, over one directory."""
import tempfile
from contextlib import contextmanager

from harness import Mongod, remove


@contextmanager
def second_set():
    folder = tempfile.mkdtemp(prefix="pawl-test.")
    server = Mongod(f"{folder}/other", "--replica-set", "--test-commands").start()
    try:
        yield server
    finally:
        server.stop()
        remove(folder)


@contextmanager
def one_directory(field, other):
    """The second one's files are where the first one's are."""
    own = other.dir
    other.dir = field.dir
    for place in (field, other):
        assert place.run("pawl-setup").returncode == 0
    try:
        yield field, other
    finally:
        other.dir = own
