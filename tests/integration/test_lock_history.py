"""Many processes of the lock library at once, and what their histories show. With PAWL_TEST_LOCKS_SECONDS=N the faults go on for so long, and
the counts are large."""
import os
import random
import signal
import subprocess
import time
from collections import defaultdict

import pytest

from harness import BIN, environment

pytestmark = pytest.mark.slow
SECONDS = int(os.environ.get("PAWL_TEST_LOCKS_SECONDS", "0"))
LEASE_MS = 1500


class Contenders:
    """Processes of tests/integration/lock_contender.c, each with a log of its own."""

    def __init__(self, field, folder, mode, lease_ms, names):
        self.field, self.folder, self.mode, self.lease_ms, self.names, self.running, self.seed = field, folder, mode, lease_ms, names, [], 0

    def start(self, times):
        self.seed += 1
        command = [BIN / "tests" / "lock_contender", self.mode, self.field.server.uri, self.field.name, self.folder, self.lease_ms, self.seed, times,
                   *self.names]
        self.running.append(subprocess.Popen([*map(str, command)], env=environment()))

    def end(self, deadline):
        """The exit codes of those that were not killed."""
        return [process.wait(deadline) for process in self.running]

    def kill(self):
        for process in self.running:
            process.kill()
            process.wait()

    def lines(self):
        for log in self.folder.glob("*.log"):
            for line in log.read_text().splitlines():
                yield (log.stem, *line.split())


@pytest.fixture
def contenders(field, tmp_path):
    made = []

    def make(mode, names, lease_ms=30000):
        made.append(Contenders(field, tmp_path, mode, lease_ms, names))
        return made[-1]
    yield make
    for one in made:
        one.kill()


def count(contenders, processes, times, names):
    """Each process adds `times` to the number of each name."""
    some = contenders("count", names)
    for _ in range(processes):
        some.start(times)
    assert some.end(3600) == [0] * processes
    assert {name: int((some.folder / name).read_text()) for name in names} == {name: processes * times for name in names}
    tokens = [line for line in some.lines() if line[1] == "took"]
    assert sorted(int(line[4]) for line in tokens if line[2] == names[0]) == list(range(1, processes * times + 1))


@pytest.mark.timeout(3600)
def test_numbers_are_exact(contenders):
    """One lock, many processes: none of the steps from read to write is done by two."""
    count(contenders, *((50, 1000) if SECONDS else (10, 20)), ["one"])


@pytest.mark.timeout(3600)
def test_many_names(contenders):
    count(contenders, *((20, 1, [f"name-{i}" for i in range(1000)]) if SECONDS else (6, 1, [f"name-{i}" for i in range(40)])))


@pytest.mark.timeout(3600)
def test_prune_disturbs_nobody(contenders, field):
    """Names are forgotten all the time while others take them: the numbers are exact, and each name's tokens rise."""
    processes, times, names = (20, 3, 1000) if SECONDS else (6, 6, 30)
    names = [f"name-{i}" for i in range(names)]
    some, pruned, tokens = contenders("count", names), 0, defaultdict(list)
    for _ in range(processes):
        some.start(times)
    while any(process.poll() is None for process in some.running):
        done = field.run("pawl-lock", "--prune")
        assert done.returncode == 0, done
        pruned += int(done.stderr.split(b"locks forgotten: ")[1])
    assert some.end(60) == [0] * processes
    assert {name: int((some.folder / name).read_text()) for name in names} == {name: processes * times for name in names}
    for line in some.lines():
        if line[1] == "took":
            tokens[line[2]].append((int(line[5]), int(line[4])))
    for name, taken in tokens.items():
        order = [token for _, token in sorted(taken)]
        assert len(order) == processes * times and order == sorted(set(order)), (name, order)
    assert pruned > len(names), pruned
    assert field.run("pawl-lock", "--prune").returncode == 0 and [ledger["_id"] for ledger in field.ledgers.find()] == ["@floor"]
    assert field.locks.count_documents({}) == 0


# --- a history with faults ---


def falls(path):
    """How often a lower token was written after a higher one."""
    tokens = [int(line) for line in path.read_text().splitlines()]
    return sum(later < earlier for earlier, later in zip(tokens, tokens[1:]))


def strike(some, field, chosen):
    """A process is frozen, mostly beyond its lease, or killed and replaced; or the database is frozen."""
    what = chosen.choice(["freeze", "freeze", "freeze", "kill", "database"])
    process = chosen.choice([one for one in some.running if one.poll() is None])
    if what == "freeze":
        process.send_signal(signal.SIGSTOP)
        time.sleep(chosen.uniform(LEASE_MS / 2000, LEASE_MS / 500))
        process.send_signal(signal.SIGCONT)
    elif what == "kill":
        process.kill()
        some.running.remove(process)
        process.wait()
        some.start(10 ** 6)
    else:
        with field.server.frozen():
            time.sleep(chosen.uniform(0, LEASE_MS / 750))
    return what


def overlaps(some):
    return sum(falls(path) for path in some.folder.glob("*.plain"))


def judge(some):
    """The history of each slot. Returns how many checks of a hold it has."""
    holds, took, fenced = defaultdict(list), defaultdict(set), 0
    for process, what, name, *rest in some.lines():
        if what == "took":
            took[name, int(rest[1])].add(process)
        elif what == "held" and int(rest[3]) > 0:
            holds[name, int(rest[0])].append((int(rest[2]), int(rest[1])))
        elif what == "wrote":
            assert rest[2] in ("PAWL_OK", "PAWL_FENCED"), rest  # by when it was frozen; both are counted
            fenced += rest[2] == "PAWL_FENCED"
        elif what == "failed":
            assert rest[0] in ("PAWL_TIMEOUT", "PAWL_UNKNOWN"), (name, rest)  # by whether the server answered last
    assert all(len(owners) == 1 for owners in took.values()), took  # no token was given twice
    for slot, seen in holds.items():
        tokens = [token for _, token in sorted(seen)]
        assert tokens == sorted(tokens), slot  # a hold that says it is valid is: no later one has been valid before
    assert len(holds) == 1 + 2
    assert sum(falls(path) for path in some.folder.glob("*.fenced")) == 0 and fenced >= overlaps(some)
    return sum(map(len, holds.values()))


@pytest.mark.timeout(7200)
def test_history_with_faults(own_server, make_field, tmp_path):
    """What a late holder writes without the fence is found in the file without the fence, and only there."""
    field = make_field(own_server("--replica-set").start())
    some, chosen, struck = Contenders(field, tmp_path, "write", LEASE_MS, ["one", "two:2"]), random.Random(int(time.strftime("%Y%m%d"))), defaultdict(int)
    try:
        history(field, some, chosen, struck)
    finally:
        some.kill()


def history(field, some, chosen, struck):
    for _ in range(8):
        some.start(10 ** 6)
    begin = time.monotonic()
    while time.monotonic() < begin + (SECONDS or 20) or (overlaps(some) == 0 and time.monotonic() < begin + SECONDS + 300):
        struck[strike(some, field, chosen)] += 1
        time.sleep(chosen.uniform(0.1, 0.5))
    for process in some.running:
        process.send_signal(signal.SIGTERM)
    assert set(some.end(60)) == {0}
    held = judge(some)
    print(f"{held} checks of a hold, faults {dict(struck)}, {overlaps(some)} overlaps without the fence")
    assert held > 100
    assert overlaps(some) > 0, "no fault has met a holder between its check and its write: this run shows nothing"
