"""The loop that one would write: find 5000 behind the last _id, append to a file, fsync, delete them; at the end, once more from the start.

    pymongo_loop.py URI DB FILE [STOP]

STOP: it goes on, looking every 10 ms, until that file is there and the queue is empty.
"""
import json
import os
import sys
import time

from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient

BATCH = 5000


def drain(messages, file, stop):
    count, behind = 0, {}
    while True:
        batch = list(messages.find({"type": "t1", **behind}, batch_size=BATCH).sort("_id").limit(BATCH))
        if batch:
            file.write(b"".join(document.raw for document in batch))
            file.flush()
            os.fsync(file.fileno())
            count += messages.delete_many({"type": "t1", "_id": {"$in": [document["_id"] for document in batch]}}).deleted_count
            behind = {"_id": {"$gt": batch[-1]["_id"]}}  # not over the deleted entries of the index again
        elif behind:
            behind = {}
        elif stop and not os.path.exists(stop):
            time.sleep(0.01)
        else:
            return count


def main(uri, db, path, stop=None):
    client = MongoClient(uri, w="majority", journal=True)
    client.admin.command("ping")
    messages = client[db].get_collection("messages", codec_options=CodecOptions(document_class=RawBSONDocument))
    begin, used = time.monotonic(), time.process_time()
    with open(path, "ab") as file:
        count = drain(messages, file, stop)
    print(json.dumps({"messages": count, "own_seconds": time.monotonic() - begin, "own_cpu": time.process_time() - used}))


main(*sys.argv[1:])
