"""Threads that want one lock, of mongolock or of Redis. Each adds `begin end` of its turn to FILE, wall clock in ns.

    crowd.py mongolock|redis ADDRESS WAITERS HOLD_MS_MIN HOLD_MS_MAX FIRST_HOLD_MS FILE

The first holder holds for FIRST_HOLD_MS, so that all others wait when it lets go.
"""
import random
import sys
import threading
import time

# Each rival is imported where it is used: the other may be missing.


def old_collection(database, name):
    """With what mongolock calls, and pymongo has under other names since version 4."""
    from pymongo.collection import Collection

    class OldCollection(Collection):
        def insert(self, document):
            return self.insert_one(document)

        def update(self, query, document):
            return {"n": self.replace_one(query, document).matched_count}

        def find_and_modify(self, query, document):
            return self.find_one_and_replace(query, document)

    return OldCollection(database, name)


class Mongolock:
    def __init__(self, address, number):
        from mongolock import MongoLock
        from pymongo import MongoClient
        self.lock = MongoLock(collection=old_collection(MongoClient(address).get_default_database(), "mongolock"),
                             acquire_retry_step=0.01)
        self.owner = str(number)

    def prepare(self):
        self.lock.get_lock_info("lock")

    def take(self):
        return self.lock.lock("lock", self.owner, timeout=120)

    def release(self):
        self.lock.release("lock", self.owner)


class Redis:
    def __init__(self, address, _):
        from redis import Redis as Client
        self.client = Client.from_url(address, socket_timeout=None)

    def prepare(self):
        if self.client.setnx("made", 1):
            self.client.rpush("lock", "token")

    def take(self):
        return self.client.blpop("lock", timeout=120)

    def release(self):
        self.client.rpush("lock", "token")


def turn(lock, hold_ms, file, held=None):
    if not lock.take():
        sys.exit("crowd: a waiter waited in vain")
    begin = time.time_ns()
    if held:
        held.set()
    time.sleep(hold_ms / 1000)
    end = time.time_ns()
    lock.release()
    file.write(f"{begin} {end}\n")


def main(kind, address, waiters, hold_ms_min, hold_ms_max, first_hold_ms, path):
    make = {"mongolock": Mongolock, "redis": Redis}[kind]
    locks = [make(address, number) for number in range(int(waiters) + 1)]
    for lock in locks:
        lock.prepare()
    held = threading.Event()
    with open(path, "a", buffering=1) as file:
        threads = [threading.Thread(target=turn, args=(locks[0], int(first_hold_ms), file, held))]
        threads[0].start()
        held.wait(30)
        holds = [random.randint(int(hold_ms_min), int(hold_ms_max)) for _ in locks[1:]]
        threads += [threading.Thread(target=turn, args=(lock, hold, file)) for lock, hold in zip(locks[1:], holds)]
        for thread in threads[1:]:
            thread.start()
        for thread in threads:
            thread.join()


main(*sys.argv[1:])
