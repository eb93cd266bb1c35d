"""MongoDB servers of other versions and abilities: refused, or taken for what they are, with words that say so."""
import re

import pytest
from pymongo.errors import OperationFailure

from harness import CALM, free_port, run
from proxy import Proxy
from test_wakeups import watching


@pytest.fixture
def proxy(field):
    """Makes a proxy in front of the field's server; programs are to be given its --uri."""
    made = []

    def make(*arguments, **options):
        made.append(Proxy(field.server, *arguments, **options))
        return made[-1], ["--uri", made[-1].uri(), "--db", field.name]
    yield make
    for one in made:
        one.close()


PROGRAMS = [("pawl-worker", 2, ["--type", "t1"]), ("pawl-lock", 2, ["n", "--", "true"]), ("pawl-setup", 2, []), ("pawl-status", 2, []),
            ("pawl-enqueue", 2, ["--type", "t1"])]


@pytest.mark.parametrize("name,code,arguments", PROGRAMS, ids=[program[0] for program in PROGRAMS])
@pytest.mark.parametrize("looks,words", [
    (("4.4.29",), "this MongoDB is too old: its version is 4.4.29, and pawl takes 5.0 or later"),
    (("4.4.1", True), "this MongoDB is too old: its version is 4.4.1, and pawl takes 5.0 or later"),
    (("3.4.24",), r"this MongoDB and this driver do not know each other: .*wire version 5.*; pawl takes MongoDB 5\.0 or later"),
    (("6.0.20", False, True), "the MongoDB URI leads to mongos, a sharded cluster's router; pawl takes a replica set"),
], ids=["4.4", "no hello", "3.4", "mongos"])
def test_refused(field, proxy, name, code, arguments, looks, words):
    """What it got, what it takes; at once, and nothing is touched."""
    _, mongo = proxy(*looks)
    folder = ["--dir", field.dir] if name == "pawl-worker" else []
    done = run(name, *mongo, *folder, *arguments, stdin=b"a line\n", timeout=20)
    assert done.returncode == code and re.search(words, done.stderr.decode()), done
    assert field.db.list_collection_names() == [] and list(field.dir.iterdir()) == []


@pytest.mark.parametrize("name,code,arguments", PROGRAMS[:3], ids=[program[0] for program in PROGRAMS[:3]])
@pytest.mark.parametrize("lacks,words", [("atClusterTime", "does not keep read concerns.* without atClusterTime"), ("operationTime", "lacks operationTime")])
def test_a_server_that_passes_over_read_concerns(field, proxy, name, code, arguments, lacks, words):
    """It answers a find at level snapshot like any other, as compatible databases do: what it lacks is named, and nothing is read."""
    _, mongo = proxy(lacks=lacks)
    field.fill(3)
    done = run(name, *mongo, *(["--dir", field.dir] if name == "pawl-worker" else []), *arguments, timeout=20)
    assert done.returncode == code and re.search(words, done.stderr.decode()), done
    assert field.queued() == 3 and list(field.dir.iterdir()) == []


@pytest.fixture
def sharded(own_server):
    """A shard and the config server of its cluster; the one has not joined the other yet."""
    return own_server("--role", "shardsvr").start(), own_server("--role", "configsvr").start()


def test_a_shard_is_refused(sharded, make_field):
    """Reached directly, past mongos: before it has joined its cluster and afterwards; its config server, too."""
    shard, config = sharded
    field = make_field(shard)

    def refused(server, words):
        for name, code, arguments in PROGRAMS:
            folder = ["--dir", field.dir] if name == "pawl-worker" else []
            done = run(name, "--uri", server.uri, "--db", field.name, *folder, *arguments, stdin=b"a line\n", timeout=20)
            assert done.returncode == code and words in done.stderr.decode(), done
        assert field.name not in server.client.list_database_names()
    words = "of the replica set rs0, is a member of a shard of a sharded cluster, reached directly"
    refused(shard, words)
    refused(config, "of the replica set config, is a config server of a sharded cluster, reached directly")
    address = "%s:%d" % shard.client.address
    config.client.admin.command("_configsvrAddShard", f"rs0/{address}", name="s", writeConcern={"w": "majority"})
    refused(shard, words)


def test_the_queue_is_asked_for_no_exclusive_bound(field):
    """With a clustered collection 8.0 to 8.2 answer {$gt: x} with x, too."""
    field.db.command("profile", 2)
    field.worker("--batch-messages", 500)
    for _ in range(3):
        field.fill(1000)  # deleted by ranges
        field.wait_settled()
        field.fill(5)  # by their _ids; glanced at
        field.wait_settled()
    field.db.command("profile", 0)
    asked = [entry["command"] for entry in field.db.system.profile.find({"ns": f"{field.name}.messages"})]
    bounds = set(re.findall(r"'(\$[gl]te?)'", str(asked)))
    assert bounds == {"$gte", "$lte"}, bounds


def test_an_index_that_appears_under_a_worker(field):
    """Messages would vanish by themselves. Idle worker and holder say so once, by the reason, let the type go and stop with 2."""
    quick = {"env": {"PAWL_TEST_PREPARED_MS": "200"}}
    field.fill(3)
    idle = field.worker(types=("t2",), **quick)
    holder = field.worker("--linger", "1h", **quick)
    field.wait_empty()
    idle.wait_log("database: MongoDB")
    field.db.messages.create_index("at", name="ttl", expireAfterSeconds=3600)
    for name, worker in (("t2", idle), ("t1", holder)):
        assert worker.wait() == 2, str(worker)
        assert len(re.findall(rf"{name} .*refused: .*index \"ttl\" .* has expireAfterSeconds", worker.log())) == 1, str(worker)
    assert field.holder() is None and field.ledger()["clean"], str(holder)
    field.db.messages.drop_index("ttl")
    field.fill(3)
    field.drain()
    assert len(field.compare()["t1"]) == 6


def test_an_index_that_appears_between_commit_and_delete(field):
    """The delete meets it: no answer is missing, nothing is tried without end, and the next holder settles what is committed."""
    field.fill(500)
    worker = field.worker("--batch-messages", 50, *CALM, env={"PAWL_TEST_PREPARED_MS": "1", "PAWL_FAULT_STOP": "block-committed:3"})
    worker.wait_frozen()
    field.db.messages.create_index("at", name="ttl", expireAfterSeconds=3600)
    worker.thaw()
    assert worker.wait() == 2, str(worker)
    assert len(re.findall(r"refused: .*index \"ttl\" .* has expireAfterSeconds", worker.log())) == 1, str(worker)
    assert "gives no answer" not in worker.log() and field.holder() is None and field.ledger()["clean"], str(worker)
    assert field.ledger()["settled"] < field.ledger()["seq"], str(worker)
    field.db.messages.drop_index("ttl")
    field.drain(*CALM)
    assert len(field.compare()["t1"]) == 500


def describes(worker, words):
    worker.wait_log(rf" info +database: MongoDB {words}")


def test_upgraded_under_a_worker(field, proxy):
    """Each new version is named once; nothing else changes."""
    versions = ["5.0.31", "6.0.20", "6.0.21", "7.0.24", "8.0.12"]
    upgrade, mongo = proxy(versions[0])
    worker = watching(field, field.worker("-v", *CALM, mongo=mongo))
    field.fill(50)
    field.wait_settled()
    for number, version in enumerate(versions[1:], 1):
        upgrade.restart(version)
        field.fill(50)
        describes(worker, re.escape(version))
        worker.wait_log(rf"(?s)(wake-ups come again.*){{{number}}}")
    field.wait_settled()
    assert re.findall(r" database: MongoDB ([0-9.]+)", worker.log()) == versions, str(worker)
    assert worker.stop()[0] == 0, str(worker)
    assert len(field.compare()["t1"]) == 250


def test_downgraded_under_a_worker(field, proxy):
    """Too old all of a sudden, and gone again while it is asked: it says so, and stops with 2; what is in the queue stays there."""
    downgrade, mongo = proxy("6.0.20")
    worker = field.worker(mongo=mongo)
    field.fill(50)
    field.wait_settled()
    downgrade.unanswered = 2
    downgrade.restart("4.4.29")
    assert worker.wait(30) == 2 and "too old: its version is 4.4.29" in worker.log(), str(worker)
    field.fill(50)
    field.drain()
    assert len(field.compare()["t1"]) == 100 and downgrade.unanswered <= 0


def test_5_0_makes_a_plain_queue(field, proxy):
    _, mongo = proxy("5.0.31")
    worker = field.worker(mongo=mongo)
    describes(worker, r"5\.0\.31, a replica set; messages is not clustered; it is read in snapshots")
    assert "clusteredIndex" not in field.db.command("listCollections", filter={"name": "messages"})["cursor"]["firstBatch"][0]["options"]


# --- feature compatibility ---


@pytest.fixture
def old_features(own_server):
    """A 6.0 whose feature compatibility version was left at 5.0."""
    server = own_server("--replica-set", "--test-commands").start()
    if not server.clusters:
        pytest.skip("this MongoDB has no features that 5.0 lacks")
    server.client.admin.command("setFeatureCompatibilityVersion", "5.0")
    return server


def test_features_of_5_0(old_features, make_field):
    """The binary could make a clustered collection, and may not; all else is as with 6.0."""
    field = make_field(old_features)
    with pytest.raises(OperationFailure):
        field.db.create_collection("other", clusteredIndex={"key": {"_id": 1}, "unique": True})
    done = field.run("pawl-setup")
    assert done.returncode == 0 and b"messages is not clustered" in done.stdout, done
    field.fill(3000)
    field.insert("bundles", [{"type": "t1", "batch": [{"n": n} for n in range(100)]} for _ in range(5)])
    holder, other = (field.worker("--batch-messages", 200, "--lease", "5s", "--linger", "1h") for _ in range(2))
    field.wait_empty()
    field.holding_worker().freeze()
    field.fill(500)
    field.wait_empty()
    for worker in (holder, other):
        worker.thaw()
        describes(worker, r"6\.0\.\d+, a replica set; messages is not clustered; .* by ranges in transactions")
        assert "no wake-ups" not in worker.log(), str(worker)
    assert field.run("pawl-lock", "n", "--", "true").returncode == 0
    old_features.client.admin.command("setFeatureCompatibilityVersion", "6.0")
    field.fill(50)
    field.wait_empty()
    for worker in (holder, other):
        assert worker.stop()[0] == 0, str(worker)
    assert len(field.compare()["t1"]) == 3555


# --- a standalone server becomes a replica set ---


def test_standalone_becomes_a_replica_set(own_server, make_field):
    """Under a worker, without asking it: from then on it reads in snapshots, and says so."""
    port = str(free_port())
    standalone = own_server("--standalone", "--port", port, "--test-commands").start()
    field = make_field(standalone)
    worker = field.worker("--linger", "1h")
    describes(worker, r"\S+, a standalone server; .* without snapshots")
    field.fill(100)
    field.wait_empty()
    standalone.kill()
    standalone.options = ["--replica-set", *standalone.options[1:]]
    standalone.start()
    describes(worker, r"\S+, a replica set; .* in snapshots")
    field.fill(100)
    field.wait_empty()
    assert worker.stop()[0] == 0 and len(field.compare()["t1"]) == 200, str(worker)
