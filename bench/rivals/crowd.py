"""A lock of mongolock, Redis or etcd, or a semaphore of Redis, at its best. Wall clock in ns.

    crowd.py KIND ADDRESS handover WAITERS HOLD_MS_MIN HOLD_MS_MAX FIRST_HOLD_MS FILE
        threads that want one lock; the first holds it for FIRST_HOLD_MS, so that all others wait when it lets go. Each adds
        `begin end` of its turn to FILE
    crowd.py KIND ADDRESS cycles SECONDS
        takes and releases it, over and over, alone; prints a line of JSON
    crowd.py KIND ADDRESS turns MS SECONDS COUNT FILE
        so many threads take it, hold it for MS and release it: once each (SECONDS 0), or for so many seconds. Each adds
        `asked begin end` to FILE

KIND: mongolock, tried again after 10 ms; redis: a list that holds one token, or with redis:N so many, BLPOP and RPUSH, without a lease;
redis-set: SET NX PX with a token of its own, and a script that compares it, tried again after 10 ms; etcd: its own lock, which waits in
its server's queue.
"""
import base64
import http.client
import json
import random
import sys
import threading
import time
import uuid

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
    def __init__(self, address, _, slots=1):
        from redis import Redis as Client
        self.client, self.slots = Client.from_url(address, socket_timeout=None), slots

    def prepare(self):
        if self.client.setnx("made", 1):
            self.client.rpush("lock", *["token"] * self.slots)

    def take(self):
        return self.client.blpop("lock", timeout=120)

    def release(self):
        self.client.rpush("lock", "token")


class RedisSet:
    RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"

    def __init__(self, address, _):
        from redis import Redis as Client
        self.client, self.token = Client.from_url(address, socket_timeout=None), uuid.uuid4().hex
        self.script = self.client.register_script(self.RELEASE)

    def prepare(self):
        self.client.ping()

    def take(self):
        while not self.client.set("lock", self.token, nx=True, px=30000):
            time.sleep(0.01)
        return True

    def release(self):
        self.script(keys=["lock"], args=[self.token])


class Etcd:
    """By its JSON gateway."""

    def __init__(self, address, _):
        host, port = address.removeprefix("http://").split(":")
        self.connection = http.client.HTTPConnection(host, int(port), timeout=300)

    def call(self, path, **body):
        self.connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        reply = json.loads(self.connection.getresponse().read())
        if "error" in reply:
            sys.exit(f"crowd: etcd: {reply['error']}")
        return reply

    def prepare(self):
        self.lease = self.call("/v3/lease/grant", TTL=300)["ID"]

    def take(self):
        self.key = self.call("/v3/lock/lock", name=base64.b64encode(b"lock").decode(), lease=self.lease)["key"]
        return True

    def release(self):
        self.call("/v3/lock/unlock", key=self.key)


def maker(kind):
    name, _, slots = kind.partition(":")
    if name == "redis":
        return lambda address, number: Redis(address, number, int(slots or 1))
    return {"mongolock": Mongolock, "redis-set": RedisSet, "etcd": Etcd}[name]


def cycles(make, address, seconds):
    lock = make(address, 0)
    lock.prepare()
    begin, count = time.monotonic(), 0
    while time.monotonic() < begin + float(seconds):
        lock.take()
        lock.release()
        count += 1
    print(json.dumps({"messages": count, "own_seconds": time.monotonic() - begin}))


def take_turns(lock, ms, seconds, file):
    until = time.monotonic() + seconds
    while True:
        asked = time.time_ns()
        if not lock.take():
            sys.exit("crowd: a waiter waited in vain")
        begin = time.time_ns()
        time.sleep(ms / 1000)
        end = time.time_ns()
        lock.release()
        file.write(f"{asked} {begin} {end}\n")
        if time.monotonic() >= until:
            return


def turns(make, address, ms, seconds, count, path):
    locks = [make(address, number) for number in range(int(count))]
    for lock in locks:
        lock.prepare()
    with open(path, "a", buffering=1) as file:
        threads = [threading.Thread(target=take_turns, args=(lock, float(ms), float(seconds), file)) for lock in locks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


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


def handover(make, address, waiters, hold_ms_min, hold_ms_max, first_hold_ms, path):
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


{"handover": handover, "cycles": cycles, "turns": turns}[sys.argv[3]](maker(sys.argv[1]), sys.argv[2], *sys.argv[4:])
