"""What a chaos run is judged by: the files as tests/reader.py reads them, against what the producers were told."""
import hashlib
import re
from collections import Counter
from pathlib import Path

from pymongo.read_concern import ReadConcern

import reader
from harness import RAW
from producer import read_record

EXACT = ("lost", "doubled", "unordered", "strange", "left")


class Watch:
    """While it all runs: epoch and seq only rise, and no committed byte changes. Looks at what a majority has."""

    def __init__(self, ground):
        self.ground, self.last, self.hashes, self.seen, self.looks = ground, {}, {}, {}, 0
        self.ledgers = ground.client.chaos.get_collection("ledger", read_concern=ReadConcern("majority"))
        self.sure = ground.client.chaos.get_collection("ledger", read_concern=ReadConcern("linearizable"))

    def forget(self, name):
        """Its ledger is deleted: the next one starts over."""
        self.last.pop(name, None)

    def look(self, ledger):
        """What is wrong with this ledger, or None. A primary that was replaced and does not know it shows an old one: that is no step back."""
        name, before = ledger["_id"], self.last.get(ledger["_id"], (0, 0))
        if not rises(before, ledger):
            ledger = self.sure.find_one({"_id": name}, max_time_ms=5000)
            if not ledger or name not in self.last:
                return None
        key = self.last[name] = (int(ledger["epoch"]), int(ledger.get("seq", 0)))
        if not rises(before, ledger):
            return f"{name}: the ledger went from epoch, seq {before} to {key}"
        if not ledger.get("file"):
            return None
        self.looks += 1
        path = self.ground.folder(name) / ledger["file"]
        done, so_far = self.hashes.get(path, (0, hashlib.sha256()))
        length = int(ledger["length"])
        if length < done:
            return f"{path.name}: the committed end went from {done} to {length}"
        with open(path, "rb") as file:
            file.seek(done)
            data = file.read(length - done)
        if len(data) != length - done:
            return f"{path.name}: {length} bytes are committed, {done + len(data)} are there"
        so_far.update(data)
        self.hashes[path] = (length, so_far)
        self.seen.setdefault(path, []).append((length, so_far.hexdigest()))
        return None

    def compare(self):
        """At the end: each prefix that was committed at some time is unchanged."""
        for path, marks in self.seen.items():
            so_far, done = hashlib.sha256(), 0
            with open(path, "rb") as file:
                for length, digest in marks:
                    so_far.update(file.read(length - done))
                    done = length
                    if so_far.hexdigest() != digest:
                        yield f"{path.name}: bytes below {length} have changed after they were committed"
                        break


def rises(before, ledger):
    return ledger["epoch"] >= before[0] and ledger.get("seq", 0) >= before[1]  # one that is being made has no seq yet


def judge(name, folder, database, records, verify):
    """Counts of one type; every number in EXACT must be 0. And what is wrong, in words. verify(with_ledger) runs pawl-dump --verify
    on the type's files."""
    problems = []
    ledger = database.get_collection("ledger", read_concern=ReadConcern("majority")).find_one({"_id": name})
    counts = Counter(documents=0, segments=0, bytes=0, items=0)
    sent = {path.suffix: read_record(path) for path in Path(records).glob(f"{name}.*")}
    place, stored = {}, Counter()
    try:
        for segment in reader.read_chain(folder, name, ledger) if ledger else []:
            counts["segments"] += 1
            counts["bytes"] += segment.length
            for message in segment.messages:
                counts["documents"] += 1
                if message.seq != counts["documents"]:
                    problems.append(f"{name}: seq {message.seq} where {counts['documents']} is expected")
                stored[message.raw] += 1
                place.setdefault(message.raw, message.seq)
    except (reader.Violation, OSError) as problem:
        problems.append(f"{name}: {problem}")
    left = Counter(bytes(document.raw) for document in (*raw_queue(database, name), *raw_own(database, name)))
    counts["left"] = sum(left.values())
    counts["doubled"] = sum(count - 1 for count in stored.values()) + sum(1 for raw in left if raw in stored)
    known = set()
    for acknowledged, unknown in sent.values():
        counts["acknowledged"] += len(acknowledged)
        counts["unknown"] += len(unknown)
        counts["unknown there"] += sum(1 for raw in unknown if raw in stored)
        known.update(acknowledged, unknown)
        lost = [raw for raw in acknowledged if raw not in stored and raw not in left]
        counts["lost"] += len(lost)
        places = [place[raw] for raw in acknowledged if raw in place]
        counts["unordered"] += sum(1 for one, two in zip(places, places[1:]) if two < one)
        problems.extend(f"{name}: lost, one of {len(lost)}: {raw[:200]!r}" for raw in lost[:3])
    counts["strange"] = sum(1 for raw in stored if raw not in known) + sum(1 for raw in left if raw not in known)
    problems.extend(f"{name}: {counts[what]} {what}" for what in EXACT if counts[what])
    for raw in [raw for raw, count in stored.items() if count > 1][:3]:
        problems.append(f"{name}: twice or more: {raw[:200]!r}")
    if ledger and (ledger["seq"], ledger["settled"]) != (counts["documents"], counts["documents"]):
        problems.append(f"{name}: the ledger says seq {ledger['seq']}, settled {ledger['settled']}; messages in the files: {counts['documents']}")
    for with_ledger in (True, False):
        dump = verify(with_ledger)
        line = (dump.stdout + dump.stderr).decode(errors="replace")
        if dump.returncode or not re.search(rf"^{name}: ok\b.*\b{counts['documents']} documents?\b", line, re.M):
            problems.append(f"pawl-dump --verify{' --uri …' if with_ledger else ''}: exit {dump.returncode}: {line.strip()}")
    return counts, problems


def judge_commands(path):
    """What the commands of pawl-lock wrote, a line each: `begin EPOCH`, `end EPOCH`. One at a time, and the epochs rise, but for those
    that were lost with the ledger: `lost 0`, while no command ran."""
    problems, latest, begun = [], 0, 0
    for line in path.read_text().splitlines() if path.exists() else []:
        what, epoch = line.split()
        if what == "lost":
            latest = 0
        elif what == "begin":
            begun += 1
            if int(epoch) <= latest:
                problems.append(f"{path.name}: a command of epoch {epoch} began after one of epoch {latest}")
            latest = int(epoch)
        elif int(epoch) != latest:
            problems.append(f"{path.name}: the command of epoch {epoch} was still at work when one of epoch {latest} had begun")
    return begun, problems


def raw_queue(database, name):
    return database.get_collection("messages", codec_options=RAW).find({"type": name})


def raw_own(database, name):
    return database.get_collection(f"messages.{name}", codec_options=RAW).find({})
