"""The producer of a chaos run: inserts with w: "majority" by pymongo, never twice, and keeps a record of what it was told.

    python3 producer.py URI DATABASE SEED FOLDER RATE TYPE…

Two threads a type, each with a client of its own; RATE messages a second each. A thread's record FOLDER/TYPE.N holds, for each insert
command, `I`, a length and the documents; then `A` when all of it was acknowledged, `U` when that is not known. The record is
written before the command is sent: a record without an answer is unknown, too. SIGTERM ends it after the commands in hand.

Now and then a thread reads the ledger of its type. Once that names an own collection, it inserts there alone, half of the documents
without `type`.
"""
import signal
import struct
import sys
import threading
import time
from pathlib import Path
from random import Random

import bson
import pymongo
from bson.raw_bson import RawBSONDocument
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern

LENGTH = struct.Struct("<I")


def quiet(seed, type_name):
    """Whether the type is in a pause, as a function of the time: the holder leaves only when its queue stays empty."""
    random, edges, at = Random(f"{seed} quiet {type_name}"), [], 0.0
    while at < 24 * 3600:
        begin = at + random.uniform(5, 15)
        at = begin + random.uniform(1.5, 4)
        edges.append((begin, at))

    def is_quiet(now, place=[0]):
        while edges[place[0]][1] <= now:
            place[0] += 1
        return edges[place[0]][0] <= now
    return is_quiet


def payload(random):
    kind = random.random()
    if kind < 0.9:
        return "x" * random.randrange(20, 300)
    if kind < 0.998:
        return random.choice("abcdef") * random.randrange(300, 2000)
    return random.randbytes(16).hex() * random.randrange(600, 2000)


def has_own(database, type_name):
    """Whether a majority of the servers knows that the type has its own collection."""
    ledger = database.get_collection("ledger", read_concern=ReadConcern("majority"))
    return ledger.find_one({"_id": type_name, "needs": "own"}) is not None


def collection_of(database, type_name):
    return database[f"messages.{type_name}" if has_own(database, type_name) else "messages"]


def look(database, type_name):
    """The same of a producer that has none yet: False if the servers do not answer."""
    try:
        return has_own(database, type_name)
    except PyMongoError:
        return False


def produce(uri, database, seed, folder, rate, type_name, number, stop):
    random, is_quiet, begin, sent = Random(f"{seed} {type_name} {number}"), quiet(seed, type_name), time.monotonic(), 0
    # The first one's inserts are repeated by the driver and made once by the server; the second one gives up at once.
    client = pymongo.MongoClient(uri, w="majority", journal=True, retryWrites=number == 1, timeoutMS=8000, appname="producer")
    messages, own = client[database].messages, False
    with open(Path(folder) / f"{type_name}.{number}", "wb", buffering=0) as record:
        while not stop.is_set():
            now = time.monotonic() - begin
            if is_quiet(now):
                stop.wait(0.1)
                continue
            if not own and random.random() < 0.1 and look(client[database], type_name):
                messages, own = client[database][f"messages.{type_name}"], True
            kind = {} if own and random.random() < 0.5 else {"type": type_name}
            raws = []
            for _ in range(random.randrange(1, 30)):
                sent += 1
                if (type_name, number) == ("t3", 2):
                    identity = sent
                else:  # rises whatever the clocks do
                    identity = bson.ObjectId(struct.pack(">I", int(now)) + f"{type_name}{number}".encode().ljust(5) + struct.pack(">I", sent)[1:])
                message = {"producer": number, "n": sent, "payload": payload(random)}
                if (type_name, number) == ("t1", 2):  # bundles
                    raws.append(bson.encode({"_id": identity, **kind, "batch": [message, *({"n": sent, "of": n} for n in range(sent % 7))]}))
                else:
                    raws.append(bson.encode({"_id": identity, **kind, **message}))
            body = b"".join(raws)
            record.write(b"I" + LENGTH.pack(len(body)) + body)
            try:
                messages.insert_many([RawBSONDocument(raw) for raw in raws], ordered=True)
                record.write(b"A")
            except PyMongoError:
                record.write(b"U")
                stop.wait(0.1)
            stop.wait(len(raws) / rate * random.uniform(0.2, 1.8))
    client.close()


def send_one(database, type_name, path):
    """One message more, with a record like the others."""
    raw = bson.encode({"_id": bson.ObjectId(), "type": type_name, "producer": 3})
    with open(path, "ab", buffering=0) as record:
        record.write(b"I" + LENGTH.pack(len(raw)) + raw)
        try:
            collection_of(database, type_name).insert_one(RawBSONDocument(raw))
            record.write(b"A")
        except PyMongoError:
            record.write(b"U")


def read_record(path):
    """(acknowledged documents in order, documents of which it is not known)."""
    data, at, acknowledged, unknown = Path(path).read_bytes(), 0, [], []
    while at < len(data):
        assert data[at:at + 1] == b"I", f"{path}: offset {at}"
        size = LENGTH.unpack_from(data, at + 1)[0]
        at, end, raws = at + 5, at + 5 + size, []
        while at < end:
            length = LENGTH.unpack_from(data, at)[0]
            raws.append(data[at:at + length])
            at += length
        answer = data[at:at + 1]
        (acknowledged if answer == b"A" else unknown).extend(raws)
        at += answer in (b"A", b"U")
    return acknowledged, unknown


def main(uri, database, seed, folder, rate, *types):
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threads = [threading.Thread(target=produce, args=(uri, database, seed, folder, float(rate), type_name, number, stop))
               for type_name in types for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
