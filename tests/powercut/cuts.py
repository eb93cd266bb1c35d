"""Power cuts: the drains under a disk that logs, what the ledger counted meanwhile, and the judge of what each cut leaves (see `run`)."""
import argparse
import datetime
import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter, namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "integration")]
import reader  # noqa: E402
from disks import boot_id, command  # noqa: E402
from fields import Field  # noqa: E402
from harness import RAW, Mongod, run, wait_until  # noqa: E402
from replay import SYNC, SYNC_NAMES, WRITE, Keep, Replay, choose_cuts, read_log  # noqa: E402

from bson.raw_bson import RawBSONDocument  # noqa: E402

SYNC_MS = 4
JUDGES = 2
RESTART_EACH = 16  # one cut in so many is followed by a worker's start
TYPES = {"t1": [], "t2": ["--codec", "zstd", "--segment-bytes", "256KiB"]}
WORKER = ["--lease", "1s", "--retry", "20ms", "--poll", "20ms", "--linger", "0s", "--batch-messages", "12"]
# Where the workers of the two types die, one after the other; the last one drains the rest.
DEATHS = {"t1": ["block-written:9", "block-synced:6", "block-committed:8"], "t2": ["segment-created:2", "block-written:7", "close-written:2"]}


class Wrong(Exception):
    """What a power cut must not leave."""


class Missing(Wrong):
    """Bytes that the ledger counts are not there."""


# --- the disk ---------------------------------------------------------------------------------------------------


class Ground:
    """A directory on the logging disk: on ext4 or XFS in an image, or the disk's own files."""

    def __init__(self, folder, program, kind, options=""):
        self.folder, self.kind, self.options = folder, kind, options
        self.store, self.base, self.disk, self.log = (folder / name for name in ("store", "base", "disk", "log"))
        self.dir = folder / "mnt" if kind != "files" else self.disk
        self.undo = []
        for path in {self.store, self.base, self.disk, self.dir}:
            path.mkdir()
        if kind != "files":
            make_image(kind, self.store / "image")
            command("cp", "--sparse=auto", self.store / "image", self.base / "image")
        self.process = subprocess.Popen([program, self.store, self.log, self.disk, str(SYNC_MS)], stdin=subprocess.DEVNULL)
        wait_until(lambda: os.path.ismount(self.disk) or self.process.poll() is not None, "the logging disk")
        self.undo.append(self.disk)
        with open(f"{self.log}.position", "rb") as file:
            self.mapped = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
        if kind != "files":
            mount(self.disk / "image", self.dir, options)
            self.undo.append(self.dir)
            self.check_flush()

    def position(self):
        return struct.unpack_from("=Q", self.mapped)[0]

    def check_flush(self):
        """A sync of a file must come to the disk as writes and a flush, or none of this shows anything."""
        before = self.position()
        with open(self.dir / ".probe", "wb") as file:
            file.write(b"x" * 5000)
            file.flush()
            os.fsync(file.fileno())
        seen = {entry.kind for entry in read_log(self.log, self.position())[before:]}
        if WRITE not in seen or (SYNC in seen) == ("barrier=0" in self.options):
            raise Wrong(f"a sync on {self.kind} came to the disk as {seen}")
        (self.dir / ".probe").unlink()

    def close(self):
        for place in reversed(self.undo):
            unmount(place)
        self.undo = []
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()


def make_image(kind, path):
    with open(path, "wb") as file:
        file.truncate((64 if kind == "ext4" else 320) << 20)
    quick = {"ext4": ["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"], "xfs": ["-q", "-K"]}
    command(f"mkfs.{kind}", *quick[kind], path)


def mount(image, place, options=""):
    """A loop device that goes when this is unmounted."""
    done = command("mount", "-o", ",".join(filter(None, ["loop", options])), image, place, check=False)
    if done.returncode:
        raise Wrong(f"the file system cannot be mounted: {done.stderr.strip()}")


def unmount(place):
    for _ in range(100):
        if command("umount", place, check=False).returncode == 0:
            return
        time.sleep(0.02)
    command("umount", "-l", place, check=False)


# --- the drain --------------------------------------------------------------------------------------------------


class Witness(threading.Thread):
    """Reads the ledgers at majority all the time. A ledger counts from `since` on, the position of the disk after it was read; it is
    known to have been the very one up to `until`, the position before it was read the last time."""

    def __init__(self, ledgers, position):
        super().__init__()
        self.ledgers, self.position, self.seen, self.done, self.reads = ledgers, position, {}, threading.Event(), 0

    def run(self):
        while not self.done.is_set():
            before = self.position()
            documents = list(self.ledgers.find())
            after = self.position()
            self.reads += 1
            for document in documents:
                seen = self.seen.setdefault(document["_id"], [])
                if seen and seen[-1].document == document:
                    seen[-1] = seen[-1]._replace(until=before)
                else:
                    seen.append(Seen(after, before, document))

    def counted(self, name, position):
        """The last ledger that was there by then, or None; and whether it still was the ledger."""
        past = [seen for seen in self.seen.get(name, []) if seen.since <= position]
        return (past[-1].document, position <= past[-1].until) if past else (None, False)


Seen = namedtuple("Seen", "since until document")


def fill(field, name, count, seed):
    """Messages of very different sizes that do not compress."""
    draw = random.Random(f"{seed} {name}")
    field.insert(name, [{"type": name, "n": n, "payload": draw.randbytes(draw.choice([20, 400, 400, 3000, 20000]))} for n in range(count)])


def drain(field, name, preload, deaths):
    for death in deaths:
        worker = field.worker(*WORKER, *TYPES[name], types=[name], quick=False, env={**preload, "PAWL_FAULT": death})
        if worker.wait() != -signal.SIGKILL:
            raise Wrong(f"no death at {death}: {worker}")
    worker = field.worker(*WORKER, *TYPES[name], "--exit-when-empty", types=[name], quick=False, env=preload)
    if worker.wait() != 0:
        raise Wrong(str(worker))


Drained = namedtuple("Drained", "entries begin witness chains sent base")


def drain_all(ground, field, messages, deaths, preload, seed):
    """The types are drained side by side. Returns what the judge needs: all of it as it was before anything is unmounted."""
    for name in TYPES:
        fill(field, name, messages, seed)
    begin = ground.position()
    witness = Witness(field.ledgers, ground.position)
    witness.start()
    try:
        with ThreadPoolExecutor(len(TYPES)) as pool:
            for done in [pool.submit(drain, field, name, preload, deaths.get(name, [])) for name in TYPES]:
                done.result()
        wait_until(lambda: all(witness.counted(name, ground.position())[0] == field.ledger(name) for name in TYPES) or not witness.is_alive(),
                   "the witness")
    finally:
        field.close()
        witness.done.set()
        witness.join()
    for name in TYPES:
        if witness.counted(name, ground.position())[0] != field.ledger(name):
            raise Wrong(f"the witness did not see the last ledger of {name}")
    entries = read_log(ground.log, ground.position())
    field.compare(*TYPES)  # the live files are right, whatever was synced
    chains = {name: [(segment.path.name, segment.path.read_bytes()[:segment.length])
                     for segment in reader.read_chain(ground.dir, name, field.ledger(name))] for name in TYPES}
    return Drained(entries, begin, witness, chains, field.acknowledged, ground.base)


# --- the judge --------------------------------------------------------------------------------------------------


class Judge:
    """A database, and a folder in which a cut's files are mounted. One thread uses it."""

    def __init__(self, server, folder, number, kind, drained):
        self.kind, self.drained, self.number = kind, drained, number
        self.field = Field(server, f"judge{number}", make(folder / f"judge{number}"))
        self.image_folder, self.facts = self.field.folder / "cut", Counter()
        self.queue = self.field.db.get_collection("messages", codec_options=RAW)
        boot = self.field.folder / "boot_id"
        boot.write_text(boot_id(number + 1) + "\n")  # the machine that lost its power has started again
        self.other_boot = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"', boot]

    def build(self, replay, cut):
        shutil.rmtree(self.image_folder, ignore_errors=True)
        self.image_folder.mkdir()
        replay.advance(cut.position)
        replay.build(self.image_folder, Keep(cut.keep))

    def look(self, cut, restart):
        """Raises Wrong if something is missing that was counted."""
        if self.kind == "files":
            self.field.dir = self.image_folder
            self.look_at_files(cut, restart)
            return
        self.field.dir = self.field.folder / "storage"
        mount(self.image_folder / "image", self.field.dir, "nouuid" if self.kind == "xfs" else "")
        try:
            self.look_at_files(cut, restart)
        finally:
            unmount(self.field.dir)

    def look_at_files(self, cut, restart):
        counted = {name: self.drained.witness.counted(name, cut.position) for name in TYPES}
        for name, (ledger, _) in counted.items():
            if ledger and ledger.get("file"):
                self.compare_bytes(name, ledger)
        self.verify_alone([name for name, (ledger, _) in counted.items() if ledger and ledger.get("file")])
        exact = {name: ledger for name, (ledger, exact) in counted.items() if exact and ledger.get("file")}
        self.facts["types with their ledger"] += len(exact)
        if restart and exact:
            self.field.ledgers.delete_many({})
            self.field.db.ledger.insert_many(exact.values())
            for name in exact:
                self.verify_with_ledger(name)
            for name, ledger in exact.items():
                self.restart(name, ledger)

    def compare_bytes(self, name, ledger):
        """All that the ledger counts, bit for bit: older segments to their end, its own to its length."""
        for file, final in self.drained.chains[name]:
            wanted = final[:int(ledger["length"])] if file == ledger["file"] else final
            try:
                with open(self.field.dir / file, "rb") as stream:
                    found = stream.read(len(wanted))
            except FileNotFoundError:
                raise Missing(f"{file} is not there, of which the ledger counts {len(wanted)} bytes") from None
            if found != wanted:
                same = len(os.path.commonprefix([found, wanted]))
                raise Missing(f"{file}: the ledger counts {len(wanted)} bytes, of which {same} are there unchanged")
            if file == ledger["file"]:
                return
        raise Wrong(f"{ledger['file']} is in no chain")

    def verify_alone(self, names):
        """Behind it there may be a tail, but nothing that is damage."""
        types = [word for name in names for word in ("--type", name)]
        done = run("pawl-dump", "--verify", "--dir", self.field.dir, *types) if names else None
        if done and (done.returncode != 0 or done.stdout.count(b": ok, ") != len(names)):
            raise Wrong(f"pawl-dump --verify: {text_of(done)}")

    def verify_with_ledger(self, name):
        done = self.field.run("pawl-dump", "--verify", "--dir", self.field.dir, "--type", name)
        if done.returncode != 0 or not done.stdout.startswith(f"{name}: ok, ".encode()):
            raise Wrong(f"pawl-dump --verify --uri: {text_of(done)}")

    def restart(self, name, ledger):
        """A worker takes over from the one that lost its power: with this ledger, and the queue as it was. The deletes that the
        ledger does not know of may have been done or not."""
        sent, settled, seq = self.drained.sent[name], int(ledger["settled"]), int(ledger["seq"])
        queued = sent[seq if self.facts["restarts"] % 2 else settled:seq + 30]
        self.queue.delete_many({})
        self.field.locks.delete_many({})
        if queued:
            self.queue.insert_many([RawBSONDocument(raw) for raw in queued])
        self.field.drain(*WORKER, *TYPES[name], types=[name], quick=False, prefix=self.other_boot)
        ledger_after = self.field.ledger(name)
        messages = reader.read_type(self.field.dir, name, ledger_after)
        if [message.raw for message in messages] != sent[:seq + 30]:
            raise Wrong(f"{name}: after a restart at seq {seq} the file holds {len(messages)} messages, not the {len(sent[:seq + 30])} sent")
        self.facts["restarts"] += 1
        self.facts["of these in the same file"] += ledger_after["file"] == ledger["file"]

    def close(self):
        self.field.close()
        self.field.server.client.drop_database(self.field.name)


def text_of(done):
    return (done.stdout + done.stderr).decode(errors="replace").strip()


def make(path):
    path.mkdir()
    return path


def judge(server, folder, kind, drained, seed, count, evidence):
    """So many cuts, in the order of the log. Returns what is wrong, and what was looked at. The first that is wrong is kept in the folder
    `evidence`. Without that folder something is planted: then only missing bytes count, and the first that are found end it."""
    cuts = choose_cuts(drained.entries, drained.begin, seed, count)
    replay = Replay(drained.entries, drained.base, folder / "synced")
    judges = [Judge(server, folder, number, kind, drained) for number in range(JUDGES)]
    free, wrong, lock, looks = list(judges), [], threading.Condition(), 0

    def look(one, cut, restart):
        try:
            one.look(cut, restart)
        except (Wrong, AssertionError, reader.Violation) as error:
            with lock:
                if not evidence and not isinstance(error, Missing):
                    return
                if evidence and not wrong:
                    command("cp", "-r", "--sparse=auto", one.image_folder, evidence)
                wrong.append(f"cut at {cut.position} of {len(drained.entries)}, keep {cut.keep}: {error}")
        finally:
            with lock:
                free.append(one)
                lock.notify()

    with ThreadPoolExecutor(JUDGES) as pool:
        running = []
        for cut in cuts:
            with lock:
                lock.wait_for(lambda: free)
                one = free.pop()
            if wrong and (not evidence or len(wrong) >= 5):
                break
            looks += 1
            one.build(replay, cut)
            running.append(pool.submit(look, one, cut, looks % RESTART_EACH == 0))
        for done in running:
            done.result()
    facts = sum((one.facts for one in judges), Counter())
    facts["cuts"] = looks
    for one in judges:
        one.close()
    replay.close()
    return wrong, facts


# --- the runs ---------------------------------------------------------------------------------------------------

Run = namedtuple("Run", "name kind rules options planted", defaults=[[], "", False])
RUNS = [
    Run("ext4", "ext4"),
    Run("xfs", "xfs"),
    Run("names", "files"),
    Run("no fdatasync, ext4", "ext4", ["fdatasync * 0 skip"], planted=True),
    Run("no fdatasync, xfs", "xfs", ["fdatasync * 0 skip"], planted=True),
    Run("no fdatasync, names", "files", ["fdatasync * 0 skip"], planted=True),
    Run("late fdatasync, ext4", "ext4", ["fdatasync * 0 later"], planted=True),
    Run("no fsync of a new file, ext4", "ext4", ["fsync * 0 skip"], planted=True),
    Run("no fsync of a new file, xfs", "xfs", ["fsync * 0 skip"], planted=True),
    Run("no sync of the directory, names", "files", ["fsync . 0 skip"], planted=True),
    Run("no flush by the file system, ext4", "ext4", options="barrier=0", planted=True),
]


def preload(work, ground, rules):
    """The environment of a worker whose syncs are left out, as faulty_disk.c says."""
    if not rules:
        return {}
    library, path = work / "faulty_disk.so", ground.folder / "rules"
    if not library.exists():
        command("cc", "-shared", "-fPIC", "-O1", "-pthread", "-o", library, HERE.parent / "integration/faulty_disk.c", "-ldl")
    path.write_text("".join(f"{rule}\n" for rule in rules))
    return {"LD_PRELOAD": library, "PAWL_TEST_DISK_DIR": ground.dir, "PAWL_TEST_DISK_RULES": path}


def run_one(one, server, work, folder, options):
    mode = ["ordered", "writeback", "journal"][options.seed % 3]  # of ext4, another one each day
    ground = Ground(folder, work / "disk", one.kind, one.options or ("data=" + mode if one.kind == "ext4" else ""))
    field = Field(server, f"drain_{folder.name}", make(folder / "field"))
    try:
        field.dir = ground.dir
        messages, deaths = (options.messages // 3, {}) if one.planted else (options.messages, DEATHS)
        drained = drain_all(ground, field, messages, deaths, preload(work, ground, one.rules), options.seed)
    finally:
        field.close()
        ground.close()
    wrong, facts = judge(server, folder, one.kind, drained, options.seed, options.cuts, None if one.planted else work / f"wrong-{one.name}")
    flushes = sum(entry.kind in (SYNC, SYNC_NAMES) for entry in drained.entries[drained.begin:])
    return wrong, facts, f"{f'{ground.options}, ' if ground.options else ''}{len(drained.entries) - drained.begin} changes, {flushes} flushes"


def tell(one, wrong, facts, log, seconds):
    """One line; whether it is as it should be."""
    if one.planted:
        print(f"planted {one.name}: {'found' if wrong else 'NOT FOUND'}, {log}, at power cut {facts['cuts']}, {seconds:.0f} s", flush=True)
    else:
        counts = ", ".join(f"{count} {what}" for what, count in facts.items() if what != "cuts")
        print(f"powercut {one.name}: {log}, {facts['cuts']} power cuts, {counts}, {'WRONG' if wrong else 'ok'}, {seconds:.0f} s", flush=True)
    for line in wrong[:1] if one.planted else wrong:
        print(f"  {line}", flush=True)
    return bool(wrong) == one.planted


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=int(datetime.date.today().strftime("%Y%m%d")))
    parser.add_argument("--messages", type=int, default=450)
    parser.add_argument("--cuts", type=int, default=600)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("runs", nargs="*")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(130))
    ram = make(options.work / "ram")
    if not options.keep:
        command("mount", "-t", "tmpfs", "-o", "size=2g", "tmpfs", ram)  # images and logs: what is cut must not wait for a real disk
    server = Mongod(options.work / "mongod", "--replica-set")
    passed = failed = 0
    try:
        server.start()
        print(f"powercut: seed {options.seed}", flush=True)
        for number, one in enumerate(one for one in RUNS if not options.runs or one.name in options.runs):
            begin = time.monotonic()
            try:
                fine = tell(one, *run_one(one, server, options.work, make(ram / str(number)), options), time.monotonic() - begin)
            except (Wrong, AssertionError, reader.Violation, OSError, subprocess.SubprocessError):
                traceback.print_exc()
                print(f"powercut {one.name}: FAILED", flush=True)
                fine = False
            passed, failed = passed + fine, failed + (not fine)
            if not options.keep:
                shutil.rmtree(ram / str(number), ignore_errors=True)
    finally:
        server.stop()
    print(f"{passed} passed, {failed} failed", flush=True)
    return 0 if failed == 0 and passed else 1


if __name__ == "__main__":
    sys.exit(main())
