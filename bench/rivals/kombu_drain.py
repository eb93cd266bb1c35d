"""kombu's MongoDB transport: what Celery and others use. Get, append to a file, acknowledge; the file is synced once, at the end.

    kombu_drain.py fill URI COUNT BYTES
    kombu_drain.py drain URI COUNT FILE
"""
import json
import os
import sys
import time

from kombu import Connection


def fill(queue, count, size):
    for _ in range(count):
        queue.put("x" * int(size))


def drain(queue, count, path):
    begin, used, done = time.monotonic(), time.process_time(), 0
    with open(path, "ab") as file:
        while done < count:
            message = queue.get(timeout=10)
            file.write(message.body.encode() if isinstance(message.body, str) else message.body)
            message.ack()
            done += 1
        file.flush()
        os.fsync(file.fileno())
    print(json.dumps({"messages": done, "own_seconds": time.monotonic() - begin, "own_cpu": time.process_time() - used}))


def main(what, uri, count, last):
    with Connection(uri) as connection, connection.SimpleQueue("t1", no_ack=False) as queue:
        {"fill": fill, "drain": drain}[what](queue, int(count), last)


main(*sys.argv[1:])
