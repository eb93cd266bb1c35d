"""The recipes of docs/recovery.md and docs/troubleshooting.md, followed with the pages' own lines: on a real server, real files, real file
systems. And the tables of the pages, compared with the programs."""
import os
import re
import shutil
import signal
import subprocess
import sys
import threading

import bson
import pytest
from bson.raw_bson import RawBSONDocument

import reader
from disks import need_program
from harness import CALM, DEADLINE, DISTRUST, ROOT, environment, program, run, stays, wait_until

RECOVERY, TROUBLESHOOTING, RUNNING, LOG, CONFIGURATION, LOCK = (
    (ROOT / f"docs/{name}.md").read_text() for name in ("recovery", "troubleshooting", "running", "log", "configuration", "pawl-lock"))
SMALL = ["--batch-messages", 20]
ROLLS = ["--segment-bytes", "65536"]


def section(heading, page=RECOVERY):
    """Its text with that of its subsections."""
    found = re.search(rf"^(##+) {re.escape(heading)}\n(.*)", page, re.M | re.S)
    assert found, f"the page has no section {heading}"
    return re.split(rf"^#{{2,{len(found[1])}}} ", found[2], flags=re.M)[0]


def blocks(heading, page=RECOVERY):
    """(language, lines) of each."""
    return re.findall(r"^```(\w+)\n(.*?)^```", section(heading, page), re.M | re.S)


[(_, PRELUDE)] = blocks("How to read the commands")


class Operator:
    """Follows a page, with directories and a database of this test's own in place of the page's."""

    def __init__(self, field):
        self.field = field
        self.places = {name: field.folder / name.strip("/").replace("/", "-") for name in ("/backup", "/archive", "/mnt/new")}
        for place in self.places.values():
            place.mkdir()

    def here(self, text):
        for name, place in {"/srv/pawl": self.field.dir, **self.places, "pawl_check": f"{self.field.name}_check"}.items():
            text = text.replace(name, str(place))
        return text

    def lines(self, language, text):
        """As a command."""
        text = self.here(text)
        return [sys.executable, "-c", PRELUDE + text] if language == "python" else ["bash", "-e", "-o", "pipefail", "-c", text]

    def environment(self):
        folders = {os.path.dirname(program(name)) for name in ("pawl-setup", "pawl-dump", "pawl-lock")}
        return environment(PAWL_URI=self.field.server.uri, PAWL_DB=self.field.name, PATH=":".join([*folders, os.environ["PATH"]]))

    def follow(self, heading, *which, codes=(0,), page=RECOVERY):
        """All blocks of a section, or those of these numbers. Returns what they print."""
        chosen = [block for number, block in enumerate(blocks(heading, page)) if not which or number in which]
        assert chosen and len(chosen) >= len(which), heading
        return self.do(*chosen, codes=codes)

    def do(self, *chosen, codes=(0,)):
        """One block after the other; asked, it says yes."""
        said = ""
        for language, text in chosen:
            done = subprocess.run(self.lines(language, text), input="y\n", env=self.environment(), cwd=self.field.folder, timeout=DEADLINE,
                                  capture_output=True, text=True, check=False)
            assert done.returncode in codes, f"{text}{done.returncode}: {done.stdout}{done.stderr}"
            said += done.stdout + done.stderr
        return said

    def close(self):
        self.field.server.client.drop_database(f"{self.field.name}_check")


@pytest.fixture
def operator(field):
    made = Operator(field)
    yield made
    made.close()


def only_these_are_sure(field, known):
    """What was acknowledged after the backup may be there or not."""
    everything = [raw for raws in field.acknowledged.values() for raw in raws]
    sure = {raw for raws in known.values() for raw in raws}
    field.acknowledged, field.unknown = known, [raw for raw in everything if raw not in sure]


def acknowledged(field):
    return {producer: list(raws) for producer, raws in field.acknowledged.items()}


# --- backup and restore ---

@pytest.mark.parametrize("case", ["both", "files newer", "database newer"])
def test_backup_while_everything_runs(field, operator, case):
    producer = threading.Thread(target=field.fill, args=(2000,), kwargs={"chunk": 20, "size": 200})
    producer.start()
    worker = field.worker(*SMALL, *ROLLS)
    wait_until(lambda: field.seq() > 300, field.logs)
    known = acknowledged(field)
    said = operator.follow("While everything runs")
    assert re.search(r"^t1: (ok|stale ledger), ", said, re.M) and "orphan" not in said, said
    producer.join()
    field.fill(500)
    wait_until(lambda: field.ledger()["seq"] > 2100, field.logs)
    worker.kill()
    at_the_end = [m.raw for m in reader.read_type(field.dir, "t1", field.ledger())]

    if case != "database newer":
        field.server.client.drop_database(field.name)
    if case != "files newer":
        shutil.rmtree(field.dir)
        field.dir.mkdir()
    steps = {"both": (0, 2, 3, 5), "files newer": (0, 3, 5), "database newer": (2, 3, 5)}[case]
    field.db.locks.delete_many({})
    said = "".join(operator.follow("Restore", step, codes=(0, 1) if step == 3 and case == "database newer" else (0,)) for step in steps)
    assert ("WARNING: the ledger counts seq" in said) == (case == "database newer"), said
    only_these_are_sure(field, known)
    field.fill(10)  # a worker takes the type, and settles, when there is a message
    field.drain(*SMALL)
    stored = {m.raw for m in field.compare()["t1"]}
    assert case != "files newer" or stored.issuperset(at_the_end)


def test_backup_of_an_own_collection(field, operator):
    """What waits there, perhaps without a type, is in no other collection; nor is what was set aside."""
    operator.places["--type t2 --own-collection"] = "--type t1 --own-collection"  # the page's example is another type
    assert field.run("pawl-setup", "--type", "t1", "--own-collection").returncode == 0
    field.fill(20, own=True)
    field.drain(*SMALL)
    field.fill(5, producer="shared")
    field.fill(30, own=True)
    field.insert("odd", [bson.encode({"_id": bson.ObjectId(), "batch": [1, 2]})], own="t1")
    field.own("t1").insert_one({"type": "t2"})
    assert field.run("pawl-setup", "--set-aside", "t1", "--yes").returncode == 0
    aside = list(field.db.refused.find())
    operator.follow("While everything runs")
    field.server.client.drop_database(field.name)
    shutil.rmtree(field.dir)
    field.dir.mkdir()
    operator.follow("Restore")
    field.drain(*SMALL)
    assert len(field.compare()["t1"]) == 56
    assert list(field.db.refused.find()) == aside != []


def test_backup_with_the_type_held_still(field, operator):
    """Workers and producers are there all the time; files and ledger fit, and nothing is adopted."""
    producer = threading.Thread(target=field.fill, args=(2000,), kwargs={"chunk": 20, "size": 200})
    producer.start()
    workers = [field.worker(*SMALL) for _ in range(2)]
    wait_until(lambda: field.seq() > 300, field.logs)
    script = field.folder / "copy-t1"
    commands = [operator.lines(*block) for block in blocks("While everything runs")]
    script.write_text(f"#!{sys.executable}\nimport subprocess\nfor words in {commands!r}:\n    subprocess.run(words, check=True)\n")
    script.chmod(0o755)
    known = acknowledged(field)
    assert "t1: ok" in operator.follow("With the type held still")
    producer.join()
    field.wait_empty()
    assert [worker.stop()[0] for worker in workers] == [0, 0], field.logs()

    field.server.client.drop_database(field.name)
    shutil.rmtree(field.dir)
    field.dir.mkdir()
    operator.follow("Restore", 0, 2, 3)
    operator.do(*[(language, text.replace("check = client.pawl_check", "check = db")) for language, text in blocks("While everything runs")[2:3]])
    only_these_are_sure(field, known)
    field.drain()
    field.compare()
    assert field.segments() == ["t1.bin"]


@pytest.mark.parametrize("adopts", [True, False])
def test_database_one_block_behind(field, operator, adopts):
    """Why no worker may run before the files are adopted: the block looks like the rest of a crash."""
    field.fill(60)
    worker = field.worker("--linger", "1h")
    wait_until(lambda: (field.ledger() or {}).get("seq") == 60, field.logs)
    field.wait_empty()
    operator.follow("While everything runs", 0)
    field.fill(5)
    wait_until(lambda: field.ledger()["seq"] == 65, field.logs)
    worker.kill()
    old = operator.places["/backup"] / "ledger.bson"
    field.server.client.drop_database(field.name)
    operator.follow("Restore", 0)
    field.db.ledger.insert_one(RawBSONDocument(old.read_bytes()))
    if adopts:
        operator.follow("Restore", 5)
    field.fill(1, producer="another")
    field.drain()
    stored = [m.raw for m in reader.read_type(field.dir, "t1", field.ledger())]
    assert len(stored) == (66 if adopts else 61)


def test_rsync_append_breaks_a_copy(field, operator):
    """What the page warns of: the end of a file that is cut, and written anew with other blocks."""
    need_program("rsync", "a copy by rsync")
    field.fill(300, size=200)
    field.crash("block-written:5", *SMALL)
    plain, appended = operator.places["/backup"], operator.places["/archive"]

    def rsync(folder, *flags):
        subprocess.run(["rsync", "-a", *flags, f"{field.dir}/", f"{folder}/"], check=True)
        return run("pawl-dump", "--dir", folder, "--verify").returncode
    assert rsync(plain) == rsync(appended) == 0
    field.drain("--batch-messages", 7)
    assert (rsync(plain), rsync(appended, "--append"), rsync(appended, "--append-verify")) == (0, 3, 3)
    assert rsync(appended, "--checksum") == 0


# --- beside workers with other types ---


def tried_again(field, operator, worker):
    """The type is resumed; the worker goes on with it, and has never stopped."""
    operator.do(("sh", "pawl-status --resume t1\n"))
    worker.signal(signal.SIGHUP)
    field.wait_settled()
    assert worker.stop()[0] == 0, str(worker)


def stopped_by_a_pattern(field, *options):
    """A worker that has stopped t1, and goes on with t2."""
    worker = field.worker(*CALM, *options, types=["t*"], env=DISTRUST)
    worker.wait_log("untrusted: .*t1")
    field.fill(20, "t2")
    wait_until(lambda: field.queued("t2") == 0, field.logs)
    return worker


def test_a_file_is_put_back_beside_other_types(field, operator):
    field.fill(50)
    field.drain(*SMALL)
    (field.dir / "t1.bin").rename(field.folder / "away")
    field.fill(50)
    worker = stopped_by_a_pattern(field)
    assert '"clean" : true' in operator.follow("Keeping workers off a type")
    (field.folder / "away").rename(field.dir / "t1.bin")
    tried_again(field, operator, worker)
    assert len(field.compare("t1", "t2")["t1"]) == 100


def test_files_are_adopted_beside_other_types(field, operator):
    """The ledger is lost. The pause makes one, and the adoption leaves it paused."""
    field.fill(50)
    field.drain(*SMALL)
    field.db.ledger.delete_one({"_id": "t1"})
    field.fill(50)
    worker = stopped_by_a_pattern(field)
    said = operator.follow("Keeping workers off a type") + operator.follow("Restore", 5)
    assert '"clean" : false' in said and "adopted" in said and field.ledger()["needs"] == ["paused"], said
    stays(lambda: field.ledger()["seq"] == 50 and worker.alive(), 1, field.logs)
    tried_again(field, operator, worker)
    assert len(field.compare("t1", "t2")["t1"]) == 100


def test_all_types_are_adopted(field, operator):
    """One after the other; those that cannot be are named."""
    types = ["t1", "a.bin", "orders.eu-1"]
    for name in [*types, "t2"]:
        field.fill(100, name)
    field.drain(*SMALL, *ROLLS, types=[*types, "t2"])
    with open(field.dir / "t2.bin", "r+b") as file:
        file.write(bytes(8192))
    field.db.ledger.delete_many({})
    assert re.findall("^not adopted: (.*)$", operator.follow("Restore", 6), re.M) == ["t2"]
    assert {one["_id"]: one["seq"] for one in field.db.ledger.find({"file": {"$exists": True}})} == {name: 100 for name in types}


# --- directories ---


def test_moving(field, operator, disks):
    """To another disk, and on to what counts as a network file system. A worker that was forgotten does no harm."""
    field.fill(300)
    field.drain(*SMALL)
    old = field.dir
    disks.ext4(field, operator.places["/mnt/new"], "16M")
    assert re.search(r"^t1 +0 +- ", said := operator.follow("Moving a type to another directory"), re.M) and "t1: ok" in said
    field.dir = operator.places["/mnt/new"]
    field.fill(100)
    field.drain(*SMALL)
    field.fill(10)
    assert field.worker(directory=old, env=DISTRUST).wait() == 74, field.logs()
    assert run("pawl-dump", *field.mongo, "--dir", old, "--type", "t1", "--verify").returncode == 3

    operator.places["/mnt/new"] = field.folder / "network"
    operator.places["/mnt/new"].mkdir()
    disks.fuse_at(field, operator.places["/mnt/new"])
    operator.follow("Moving a type to another directory")
    field.dir = operator.places["/mnt/new"]
    field.fill(100)
    field.drain(*SMALL)
    assert len(field.compare()["t1"]) == 510 and field.segments() == ["t1.bin"]


def test_several_directories_by_mistake(field, tmp_path):
    """The one that is wrong never writes, and pawl-dump tells them apart."""
    good = field.worker("--linger", "1h")
    field.fill(10)
    field.wait_empty()
    bad = field.worker(directory=tmp_path, env=DISTRUST)
    good.kill()
    field.fill(10)
    bad.wait_log(r"untrusted: .*is not there \(is this the right directory\?\)")
    assert bad.wait(20) == 74, str(bad)
    codes = [run("pawl-dump", *field.mongo, "--dir", place, "--type", "t1", "--verify").returncode for place in (field.dir, tmp_path)]
    assert codes == [0, 3]
    field.drain()
    assert len(field.compare()["t1"]) == 20


def test_full_disk_and_pruning(field, operator, disks):
    """An ext4 that runs full; settled segments are moved away, and the worker goes on by itself."""
    disks.ext4(field, field.dir, "8M")
    field.fill(900, size=10000)
    worker = field.worker(*SMALL, "--segment-bytes", "1MiB", "--lease", "10s")
    worker.wait_log(" no-space: ")
    seq = field.ledger()["seq"]
    stays(lambda: field.ledger()["seq"] == seq and worker.alive(), 1.5, field.logs)
    said = operator.follow("Pruning old segments", 0)
    settled = int(re.search(r"^t1 .* (\d+)  t1@\d+\.bin$", said, re.M)[1])
    last = {name: int(seq) for name, seq in re.findall(r"^  (t1\S*\.bin): .* seq \d+\.\.(\d+)", said, re.M)}
    chain = sorted(last, key=last.get)
    assert len(chain) >= 4 and last[chain[2]] <= settled, said

    middle = field.dir / chain[1]
    aside = middle.rename(field.dir / "aside")
    assert run("pawl-dump", "--dir", field.dir, "--verify").returncode == 3
    aside.rename(middle)
    assert chain[0] == "t1.bin"
    operator.follow("Pruning old segments", 1)
    for name in chain[1:3]:
        shutil.move(field.dir / name, operator.places["/archive"])
    field.wait_settled()
    assert worker.stop()[0] == 0, str(worker)
    dump = run("pawl-dump", "--dir", field.dir, "--verify")
    assert dump.returncode == 0 and f"it begins with seq {last[chain[2]] + 1}".encode() in dump.stderr, dump
    assert run("pawl-dump", operator.places["/archive"] / "t1.bin", "--verify").returncode == 0
    field.dir = shutil.copytree(field.dir, field.folder / "whole", ignore=shutil.ignore_patterns("lost+found"))
    shutil.copytree(operator.places["/archive"], field.dir, dirs_exist_ok=True)
    assert len(field.compare()["t1"]) == 900


def test_files_that_are_gone(field, operator):
    """Nothing can be adopted; a new file is begun, and what was in the queue is in it."""
    field.fill(200)
    field.drain(*SMALL)
    field.acknowledged.clear()
    field.fill(30)
    shutil.rmtree(field.dir)
    field.dir.mkdir()
    assert field.worker(env=DISTRUST).wait() == 74
    done = field.run("pawl-setup", "--adopt", "t1", "--dir", field.dir, "--yes")
    assert done.returncode == 74 and b"has no segment of type t1" in done.stderr, done
    operator.follow("Removing a type")
    field.drain(*CALM)
    assert len(field.compare()["t1"]) == 30 and field.ledger()["epoch"] == 1


def test_removing_a_type(field, operator):
    for name in ("t1", "t2"):
        field.fill(100, name)
    field.drain(*SMALL, *ROLLS, types=["t1", "t2"])
    operator.follow("Removing a type")
    assert field.segments() == [] and field.segments("t2") and os.listdir(operator.places["/archive"])
    assert field.ledger() is None and field.db.ledger_archive.find_one()["was"]["seq"] == 100
    field.acknowledged.pop("producer of t1")
    field.fill(10)
    field.drain(types=["t1", "t2"])
    assert field.ledger()["seq"] == 10
    field.compare("t1", "t2")


# --- locks ---


def test_stuck_lock(field, operator):
    """The holder of an hour's lease dies."""
    field.fill(20)
    dead = field.worker("--lease", "1h", "--linger", "1h", quick=False)
    field.wait_empty()
    dead.kill()
    field.fill(5)
    worker = field.worker("-v")
    worker.wait_log("busy: held by")
    assert f"'pid': {dead.pid}" in operator.follow("A stuck lock", page=TROUBLESHOOTING)
    field.finish(worker)


def test_lock_deleted_under_a_live_holder(field):
    """Of no use, and harmless."""
    workers, total = [field.worker("--linger", "1h", *SMALL) for _ in range(2)], 0

    def noticed():
        return any(worker.events(event) for worker in workers for event in ("lost", "fenced"))
    while total < 1000 or not noticed():
        assert total < 100000, field.logs()
        field.fill(200, chunk=20)
        total += 200
        wait_until(lambda: field.seq() > 0, field.logs)
        field.db.locks.delete_one({"type": "t1", "slot": 0})
    field.wait_empty()
    assert [worker.stop()[0] for worker in workers] == [0, 0], field.logs()
    assert len(field.compare()["t1"]) == total


# --- the pages against the programs ---


def sources():
    return {path: path.read_text() for folder in ("worker", "lock", "lockstore", "storage", "config", "tools") for path in (ROOT / folder).rglob("*.c")}


def test_every_event_is_on_the_page():
    """With its level, and none that is not there."""
    calls = re.compile(r'(?:turn_log\(turn, LEVEL|\b(?:loop_)?say\(CONFIG_LOG|log_line\(CONFIG_LOG)_([A-Z]+), (?:&[^"]*, )?"([a-z-]+)"')
    made = {(event, level.lower()) for text in sources().values() for level, event in calls.findall(text)}
    made |= {(event, "info") for text in sources().values() for event in re.findall(r'log_report\([^"]*"([a-z-]+)"', text)}
    # Of these the level depends on something.
    made |= {("pass", "warn"), ("pass", "debug"), ("wakeups", "warn"), ("wakeups", "info")}
    told, event = set(), None
    for name, level in re.findall(r"^\| (?:`([a-z-]+)`)? ?\| (error|warn|info|debug) \|", section("Events", LOG), re.M):
        event = name or event
        told.add((event, level))
    assert len(made) > 25 and made == told, (made - told, told - made)


# The system's, the server's, and those that are put together from parts.
FROM_ELSEWHERE = {"Permission denied", "Too many levels of symbolic links", "Address already in use", "not authorized",
                  "--uri: got a text that is not shown", "could be --a, --b: write it out", "documents are in the queue", "is a secondary",
                  "making the unique index", "MongoDB gives no answer: fencing",
                  "is a member of a shard of a sharded cluster, reached directly"}


TABLES = [("Error messages", TROUBLESHOOTING), ("Exit code 74, and the way out", RECOVERY), ("pawl-enqueue", RUNNING), ("Messages", LOCK)]


def test_messages_of_the_pages_are_those_of_the_programs():
    """Between the places for names and numbers each is found word by word in some text of the sources."""
    adjacent = re.compile(r'"\s*(?:PRI\w+\s*)?(?:"|(?=[,)]))')
    texts = " ".join(adjacent.sub("", text) for text in sources().values()).replace('\\"', '"')
    tables = [re.findall(r"^\| (`.*?) \|", section(*table), re.M) for table in TABLES]
    assert all(len(table) > 5 for table in tables)
    rows = [row for table in tables for row in table]
    places = re.compile(r'…|"|\b[A-Z]+(?:\.\.?[A-Z])?\b|\(?\d+\)?')
    pieces = {piece.strip(" :,;.") for row in rows for span in re.findall(r"`([^`]+)`", row) for piece in places.split(span)}
    # An option stands for --to-uri as well as for --uri.
    missing = sorted(piece for piece in pieces - FROM_ELSEWHERE
                     if len(piece) >= 8 and piece not in texts and re.sub("--[a-z-]+", "--%s", piece) not in texts)
    assert len(pieces) > 50 and not missing, missing


PROGRAMS = ["pawl-worker", "pawl-enqueue", "pawl-status", "pawl-setup", "pawl-dump", "pawl-lock", "pawl-monitor"]
NEEDED = {"pawl-worker": ["--type", "t1"], "pawl-lock": ["n", "--", "true"]}


def option_rows(heading):
    """{--flag: cells} of the tables of a section."""
    rows = [re.split(r"(?<!\\)\|", row)[1:-1] for row in re.findall(r"^\| `-.*$", section(heading, CONFIGURATION), re.M)]
    return {re.search("--[a-z-]+", row[0])[0]: [cell.strip().replace("\\|", "|") for cell in row] for row in rows}


def options_of(name):
    """(letter, flag, placeholder, [range; default]) of each, from --help."""
    text = run(name, "--help").stdout.decode().partition("\n\nTimes carry")[0]
    for letter, flag, placeholder, what in re.findall(r"^  (?:(-.), |    )(--\S+)( \S+)?(?:  +|\n +)((?:.*)(?:\n {20,}.*)*)", text, re.M):
        limits = re.search(r" \[([^\[\]]*)\]$", " ".join(what.split()))
        yield letter, flag, placeholder, limits[1].split("; ") if limits else []


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_option_is_on_the_page(name):
    """With its letter, variable, default and range; and none that the program has not."""
    shared, own = option_rows("Options of all programs"), option_rows(name)
    settings = set(re.findall(r"^(?:; )?([a-z-]+) ", run(name, "--print-config", *NEEDED.get(name, [])).stdout.decode(), re.M))
    taken = {}
    for letter, flag, placeholder, limits in options_of(name):
        option, variable, default, values, *_ = taken[flag] = own.get(flag) or shared[flag]
        assert f"`{letter}" in option and f"{flag}{placeholder}`" in option, option
        assert variable == (f"`PAWL_{flag[2:].replace('-', '_').upper()}`" if flag[2:] in settings else ""), option
        for limit in limits:
            assert default.strip("`") == limit.removeprefix("default ") if limit.startswith("default ") else limit in values, (option, limit)
    assert len(taken) > 5 and own.keys() <= taken.keys()
    for flag, cells in shared.items():
        programs = cells[4] if len(cells) == 6 else "all"  # the second table has a column that says which
        assert (flag in taken) == ((name not in programs) if programs.startswith("all") else (f"`{name}`" in programs)), flag
