"""The exact comparison: what was sent against what is in the files and in the queue."""
import json
import re
from collections import Counter

import bson
from bson import json_util

import reader
from harness import run


def compare(field, name, queue_empty, live, dumped):
    """Of one type; as Field.compare says. `dumped`: by pawl-dump, too. Returns the messages in the files."""
    def mine(raw):
        kind = reader.element(raw, b"type")
        return field.typeless.get(raw) == name if kind is None else kind[0] == 2 and reader.text(kind) == name
    # In this order: what is acknowledged is in the queue, and what leaves the queue is in the file.
    sent = {producer: [raw for raw in list(raws) if mine(raw)] for producer, raws in list(field.acknowledged.items())}
    of = {"type": {"$eq": name, "$not": {"$type": "array"}}}
    queued = Counter(d.raw for d in field.messages.find(of))
    queued.update(d.raw for d in field.own(name).find({"$or": [of, {"type": {"$exists": False}}]}))
    ledger = field.ledger(name)
    messages = reader.read_type(field.dir, name, ledger) if ledger else []
    maybe = {raw for raw in field.unknown if mine(raw)}

    each_is_there_once(name, sent, maybe, queued, messages, int(ledger["settled"]) if ledger else 0, live)
    if field.server.replica_set:
        each_producers_are_in_order(name, sent, messages)
    if queue_empty:
        assert not queued, f"{name}: {sum(queued.values())} messages are left in the queue"
        if ledger:
            assert (ledger["seq"], ledger["settled"]) == (len(messages), len(messages)), f"{name}: {ledger}"
    if ledger and ledger.get("file") and not live and dumped:
        try:
            compare_dump(field, name, messages)
        except AssertionError:
            if field.ledger(name) == ledger:
                raise
            return compare(field, name, queue_empty, live, dumped)  # what a killed worker had sent was carried out only now
    return messages


def each_is_there_once(name, sent, maybe, queued, messages, settled, live):
    """maybe: what was sent and not acknowledged. What is not settled may be in the queue, too."""
    stored = Counter(m.raw for m in messages)
    pending = {m.raw for m in messages[settled:]}
    assert all(count == 1 for count in stored.values()), f"{name}: {sum(c > 1 for c in stored.values())} messages are in the file twice"
    both = set(stored) & set(queued) - pending
    assert live or not both, f"{name}: {len(both)} settled messages are in the queue too"
    everything = set(stored) | set(queued)
    lost = [raw for raws in sent.values() for raw in raws if raw not in everything]
    assert not lost, f"{name}: {len(lost)} acknowledged messages are nowhere, the first {lost[0][:200]!r}"
    known = {raw for raws in sent.values() for raw in raws} | maybe
    strange = everything - known
    assert live or not strange, f"{name}: {len(strange)} messages that nobody sent, one is {next(iter(strange))[:200]!r}"


def each_producers_are_in_order(name, sent, messages):
    place = {m.raw: m.seq for m in messages}
    for producer, raws in sent.items():
        places = [place[raw] for raw in raws if raw in place]
        assert places == sorted(places), f"{name}: the messages of {producer} are out of order"


def compare_dump(field, name, messages):
    """pawl-dump prints these messages, in each form, and finds the files in order."""
    where = ["--dir", field.dir, "--type", name, *field.mongo]
    dump = run("pawl-dump", "--format", "bson", *where)
    assert dump.returncode == 0, dump.stderr.decode()
    assert dump.stdout == b"".join(m.raw for m in messages), f"{name}: pawl-dump --format bson prints other messages"
    some = [(m, index, raw) for m in messages[:500] for index, raw in opened(m.raw)]
    dump = run("pawl-dump", "--format", "canonical", "--with-meta", "--limit", len(some), *where)
    lines = dump.stdout.decode().splitlines()
    assert dump.returncode == 0 and len(lines) == len(some), dump.stderr.decode()
    for line, (message, index, raw) in zip(lines, some):
        entry = json.loads(line)
        assert (number(entry["seq"]), number(entry["epoch"]), number(entry["offset"])) == message[:3], line[:300]
        assert entry.get("index") == index, line[:300]
        try:
            expected = json_util.dumps(bson.decode(raw), json_options=json_util.CANONICAL_JSON_OPTIONS)
        except (UnicodeDecodeError, bson.InvalidBSON):
            continue
        assert entry["message"] == json.loads(expected), line[:300]
    verify = run("pawl-dump", "--verify", *where)
    assert verify.returncode == 0, (verify.stdout + verify.stderr).decode()
    assert re.search(rf"^{re.escape(name)}: ok\b.*\b{len(messages)} documents?\b", verify.stdout.decode(), re.M), verify.stdout
    offline = run("pawl-dump", "--verify", "--dir", field.dir, "--type", name)
    assert offline.returncode == 0, (offline.stdout + offline.stderr).decode()


def opened(raw):
    """What pawl-dump shows of a document: (index, message), or (None, document)."""
    bundle = reader.bundle(raw)
    return list(enumerate(bundle)) if bundle else [(None, raw)]


def number(value):
    """An integer of relaxed or canonical Extended JSON."""
    return int(next(iter(value.values()))) if isinstance(value, dict) else value
