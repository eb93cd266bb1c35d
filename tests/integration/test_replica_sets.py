"""docs/replica-sets.md: the recipe, followed with the page's own lines on two real sets; and its examples, as they are written."""
import os
import re
import subprocess
import sys

import pytest

from harness import CALM, DEADLINE, ROOT, environment, program, stays, wait_until
from two_sets import one_directory, second_set

PAGE = (ROOT / "docs/replica-sets.md").read_text()


def blocks(heading):
    found = re.search(rf"^(##+) {re.escape(heading)}\n(.*)", PAGE, re.M | re.S)
    text = re.split(rf"^#{{2,{len(found[1])}}} ", found[2], flags=re.M)[0]
    return re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S)


UNSET, PREPARE, DRAIN, CARRY, RESUME, *_ = blocks("Moving a type")
REFUSE, PAUSE_LATE, MOVE_LATE, RESUME_LATE, PRELUDE = blocks("What comes late")


@pytest.fixture(scope="module")
def other_set():
    with second_set() as server:
        yield server


class Operator:
    """Follows the page, with directory and connection strings of this test in place of the page's."""

    def __init__(self, old, new):
        self.old, self.new = old, new
        self.files = {"/srv/pawl": old.dir}
        for letter, field in (("a", old), ("b", new)):
            file = old.folder / f"uri-{letter}"
            file.write_text(field.server.uri.replace("/?", f"/{field.name}?") + "\n")
            self.files[f"/etc/pawl/uri-{letter}"] = file

    def do(self, *chosen, code=0):
        said = ""
        folders = {os.path.dirname(program(name)) for name in ("pawl-setup", "pawl-status", "pawl-worker")}
        env = environment(PATH=":".join([*folders, os.environ["PATH"]]))
        for language, text in chosen:
            for name, place in self.files.items():
                text = text.replace(name, str(place))
            command = [sys.executable, "-c", text] if language == "python" else ["bash", "-e", "-o", "pipefail", "-c", text]
            done = subprocess.run(command, input="y\n", env=env, cwd=self.old.folder, timeout=DEADLINE, capture_output=True, text=True, check=False)
            assert done.returncode == code, f"{text}{done.returncode}: {done.stdout}{done.stderr}"
            said += done.stdout + done.stderr
        return said

    def python(self, block):
        self.do(("python", PRELUDE[1] + block[1]))


@pytest.fixture
def operator(field, other_set, make_field):
    with one_directory(field, make_field(other_set)) as places:
        yield Operator(*places)


def compare(old, new):
    assert old.queued() == 0
    new.acknowledged.update(old.acknowledged)
    return new.compare()["t1"]


@pytest.mark.slow
def test_the_whole_recipe(operator):
    """Workers on both sets and a producer all the time, which switches once: its messages are in the file once, in order."""
    old, new = operator.old, operator.new
    workers = [place.worker("--linger", "200ms", "--batch-messages", 20) for place in (old, new)]
    old.fill(300)
    wait_until(lambda: old.seq() > 50, old.logs)
    operator.do(PREPARE)
    workers[1].wait_log("t1 is paused since")
    new.acknowledged["producer of t1"] = old.acknowledged["producer of t1"]  # it switches
    with new.producing(20):
        operator.do(DRAIN, CARRY)
        assert new.seq() == old.ledger()["seq"] == 300
        workers[0].wait_log("t1 was moved to")
        operator.do(RESUME)
        wait_until(lambda: new.seq() > 350, new.logs)
    new.wait_settled()
    for worker in workers:
        assert worker.stop()[0] == 0, str(worker)
    assert len(compare(old, new)) == len(new.acknowledged["producer of t1"])
    assert new.segments() == ["t1.bin"]


def test_a_worker_is_killed_while_it_drains(operator):
    """In the middle of the recipe. The step is repeated."""
    old, new = operator.old, operator.new
    operator.do(PREPARE)
    old.fill(300)
    old.crash("block-committed:3", "--batch-messages", 20, "--lease", "1s")
    operator.do(DRAIN, CARRY, RESUME)
    new.fill(20, producer="new")
    new.drain(*CALM)
    assert len(compare(old, new)) == 320


def test_a_producer_that_was_forgotten(operator):
    """A step says what is wrong, and its messages are moved on; cut off in the middle, too."""
    old, new = operator.old, operator.new
    operator.do(PREPARE)
    old.fill(50)
    operator.do(DRAIN)
    old.fill(5, producer="late")
    assert "t1 has documents in the queue" in operator.do(CARRY, code=1)
    old.run("pawl-status", "--resume", "t1")
    operator.do(DRAIN, CARRY, RESUME)
    old.fill(20, producer="late")
    assert old.queued() == 20
    operator.do(PAUSE_LATE)
    new.messages.insert_one(old.messages.find_one(sort=[("_id", 1)]))  # a run that was cut off
    operator.python(MOVE_LATE)
    operator.do(RESUME_LATE)
    new.drain(*CALM)
    assert len(compare(old, new)) == 75
    operator.python(REFUSE)
    old.acknowledged["too late"] = []
    old.fill(1, producer="too late")
    assert old.queued() == 0 and old.acknowledged["too late"] == []


def test_back_again(operator):
    """The same lines, with the two connection strings exchanged."""
    old, new = operator.old, operator.new
    old.fill(50)
    operator.do(PREPARE, DRAIN, CARRY, RESUME)
    new.fill(50, producer="new")
    swapped = Operator(new, old)
    swapped.files["/srv/pawl"] = old.dir
    with pytest.raises(AssertionError, match="t1 was moved to"):
        swapped.do(PREPARE)  # the mark keeps the workers off
    swapped.do(DRAIN, CARRY, RESUME)
    old.acknowledged.update(new.acknowledged)
    assert len(old.compare()["t1"]) == 100


# --- one type on two sets, over one directory ---


DISTRUST = {"PAWL_TEST_DISTRUST_MS": "1500"}


def stops(worker, text="and the ledger knows no file of this type"):
    assert worker.wait() == 74, str(worker)
    assert text in worker.log(), str(worker)


def test_the_second_set_finds_a_file(operator):
    """It has no ledger, or one without a file: it stops, and has written nothing. The first one goes on."""
    first, second = operator.old, operator.new
    worker = first.worker(*CALM, "--batch-messages", 20)
    first.fill(50)
    wait_until(lambda: first.seq() == 50, first.logs)
    second.fill(50, producer="astray")
    stops(second.worker(env=DISTRUST))
    assert second.run("pawl-lock", "t1", "--", "true").returncode == 0
    stops(second.worker(env=DISTRUST))
    first.fill(50)
    assert len(first.finish(worker)) == 100
    assert second.queued() == 50 and second.ledger().get("file") is None and first.segments() == ["t1.bin"]


def test_the_second_set_finds_what_was_rolled(operator):
    first, second = operator.old, operator.new
    first.fill(2000, size=200)
    first.drain(*CALM, "--segment-bytes", 65536, "--batch-messages", 100)
    assert len(first.segments()) > 2
    second.fill(5, producer="astray")
    stops(second.worker(env=DISTRUST), "it is not the ledger of these files")
    assert second.queued() == 5 and second.ledger() is None
    assert len(first.compare()["t1"]) == 2000


def test_both_have_files_of_their_own(operator, tmp_path):
    """The second one's ledger is of another directory."""
    first, second = operator.old, operator.new
    first.fill(50)
    first.drain(*CALM)
    second.fill(50, producer="elsewhere")
    second.drain(*CALM, directory=tmp_path)
    second.fill(5, producer="astray")
    stops(second.worker(env=DISTRUST), "another file lies under this name")
    assert len(first.compare()["t1"]) == 50 and second.queued() == 5


TWO = "one type is served from two databases"


def test_while_the_first_file_is_made(operator):
    """It has a header and no block, and its ledger does not know it."""
    first, second = operator.old, operator.new
    first.fill(50)
    worker = first.worker(*CALM, env={"PAWL_FAULT_STOP": "segment-created"})
    worker.wait_frozen()
    assert first.segments() == ["t1.bin"] and first.ledger().get("file") is None
    second.fill(50, producer="astray")
    stops(second.worker(*CALM, env=DISTRUST), TWO)
    assert second.ledger().get("file") is None and first.segments() == ["t1.bin"]
    worker.thaw()
    first.finish(worker)


def test_what_a_dead_holder_has_left(operator):
    """Of the same database: the next one goes on. Of another: it stops."""
    first, second = operator.old, operator.new
    first.fill(50)
    first.crash("segment-created", *CALM)
    first.locks.delete_many({})
    second.fill(50, producer="astray")
    stops(second.worker(*CALM, env=DISTRUST), TWO)
    first.drain(*CALM)
    assert first.segments() == ["t1.bin", "t1@2.bin"] and first.ledger()["file"] == "t1@2.bin"
    assert len(first.compare()["t1"]) == 50


def test_the_database_does_not_say_who_it_is(operator):
    """The first file is not made before: without the mark nobody could tell whose it is."""
    field = operator.old
    field.fill(10, "t2")
    field.drain(*CALM, types=["t2"])
    field.fill(10)
    worker = field.worker(*CALM, env={"PAWL_FAULT_STOP": "fenced"})
    worker.wait_frozen()
    with field.failing(["listCollections"], errorCode=50) as met:
        worker.thaw()
        met.wait()
    field.finish(worker)
    assert bytes(field.ledger()["uuid"])[8:] == bytes(field.ledger("t2")["uuid"])[8:]


def test_both_begin_at_the_same_moment(operator):
    """Of each type one set makes the file, and the other stops, having written nothing."""
    sets = [operator.old, operator.new]
    types = [f"t{n}" for n in range(12)]
    for place in sets:
        for name in types:
            place.fill(20, name, producer=f"{place.name} {name}")
    for place in sets:
        place.worker(*CALM, types=types, env=DISTRUST)

    def writes(place, name):
        return (place.ledger(name) or {}).get("file") is not None
    wait_until(lambda: all(any(writes(place, name) and place.queued(name) == 0 for place in sets) for name in types),
               lambda: "\n".join(place.logs() for place in sets))
    for name in types:
        there = [place for place in sets if writes(place, name)]
        assert len(there) == 1, (name, [place.ledger(name) for place in sets])
        other = sets[1 - sets.index(there[0])]
        assert other.queued(name) == 20
        there[0].wait_settled(name)
        assert len(there[0].compare(name)[name]) == 20


def test_an_idle_worker_of_the_wrong_set_writes_nothing(operator):
    first, second = operator.old, operator.new
    first.fill(50)
    first.drain(*CALM)
    worker = second.worker(env=DISTRUST)
    stays(lambda: worker.alive() and second.ledger() is None, 2, second.logs)
    assert worker.stop()[0] == 0 and first.segments() == ["t1.bin"]


# --- a family, and a move that is given up ---


[FAMILY] = blocks("A family of types")
EXCHANGE, RESUME_OLD, CARRY_BACK = blocks("Giving a move up")
ORDERS = ["orders.a", "orders.b", "orders.eu.c"]


def test_a_family_of_types(operator):
    """The workers of the new set get the pattern last. One type has a late message, and is moved by the next run; others stay."""
    old, new = operator.old, operator.new
    for name in [*ORDERS, "t1"]:
        old.fill(20, name)
    old.drain(*CALM, types=["orders.*", "t1"])
    assert old.run("pawl-lock", "orders.lock", "--", "true").returncode == 0
    old.fill(1, "orders.b")
    said = operator.do(FAMILY)
    assert re.findall("^not moved: (.*)$", said, re.M) == ["orders.b"] and "orders.b has documents in the queue" in said, said
    assert old.run("pawl-status", "--resume", "orders.b").returncode == 0
    old.drain(*CALM, types=["orders.b"])
    said = operator.do(FAMILY)
    assert "not moved" not in said, said
    assert [one["_id"] for one in new.db.ledger.find().sort("_id", 1)] == ORDERS
    assert "moved" not in old.ledger("t1")
    for name in ORDERS:
        new.fill(10, name, producer=f"new {name}")
    new.drain(*CALM, types=["orders.*"])
    new.acknowledged.update(old.acknowledged)
    for name in ORDERS:
        assert len(new.compare(name)[name]) == (31 if name == "orders.b" else 30)


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_a_move_is_given_up(operator, steps):
    """After each of the steps before the last. The producer has used the new set meanwhile, and goes on at the old one."""
    old, new = operator.old, operator.new
    worker = old.worker(*CALM)
    old.fill(50)
    wait_until(lambda: old.seq() == 50, old.logs)
    old.wait_settled()
    operator.do(PREPARE)
    new.acknowledged["producer of t1"] = old.acknowledged["producer of t1"]
    if steps >= 2:
        new.fill(30)
    if steps >= 3:
        operator.do(DRAIN)
    if steps >= 4:
        operator.do(CARRY)
    if steps < 3:
        operator.do((DRAIN[0], [line for line in DRAIN[1].splitlines() if "--pause" in line][0]))
    old.fill(20)
    operator.python((EXCHANGE[0], EXCHANGE[1] + MOVE_LATE[1]))
    assert new.queued() == 0 and old.queued() == (50 if steps >= 2 else 20)
    operator.do(CARRY_BACK if steps == 4 else RESUME_OLD)
    old.wait_settled()
    assert worker.stop()[0] == 0, str(worker)
    assert len(old.compare()["t1"]) == (100 if steps >= 2 else 70)
    assert "moved" not in old.ledger() and bool(new.ledger().get("moved")) == (steps == 4)
