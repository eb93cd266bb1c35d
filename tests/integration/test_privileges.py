"""Least privilege: each role of docs/security.md permits what is on the page, and each of its privileges is needed."""
import json
import re
import shutil
import uuid
from datetime import datetime, timedelta, timezone

import pymongo
import pytest
from pymongo.errors import OperationFailure

import reader
from harness import ROOT, answered, run, side_by_side, wait_until
from secured import COLLECTIONS, PASSWORDS, documented_roles, secretless


def test_worker_makes_nothing(guarded):
    """Where collections are missing, the worker's user may not make them: a clear refusal, and nothing happens."""
    guarded.mongo = guarded.as_user("worker")
    worker = guarded.worker()
    assert worker.wait(30) == 2, str(worker)
    assert re.search("refused: .*not authorized", worker.log()), str(worker)
    assert guarded.db.list_collection_names() == []


def test_page_makes_the_roles(secured, make_field):
    """The Python on the page, with an administrator's URI and a database of the test's own."""
    field = make_field(secured)
    [script] = re.findall(r"```python\n(.*?)\n```\n", (ROOT / "docs/security.md").read_text(), re.S)
    for there, here in (("mongodb://ADMINISTRATOR@db1,db2,db3/?replicaSet=rs0", secured.uri_of("root")), ('"pawl"', f'"{field.name}"'),
                        ('"docs/security.md"', repr(str(ROOT / "docs/security.md"))), ("PASSWORD", PASSWORDS["worker"])):
        assert there in script
        script = script.replace(there, here)
    admin = secured.client.admin
    try:
        exec(script, {})
        assert {role["role"] for role in admin.command("rolesInfo", 1)["roles"]} >= {"pawl-worker", "pawl-operator", "pawl-viewer", "pawl-producer"}
        field.mongo = ["--uri", secured.uri_of("root"), "--db", field.name]
        assert field.run("pawl-setup").returncode == 0
        field.fill(10)
        field.drain(mongo=["--uri", secured.uri_of("pawl-w", password=PASSWORDS["worker"]), "--db", field.name])
        field.compare()
    finally:
        admin.command("dropUser", "pawl-w")
        for role in documented_roles(field.name):
            admin.command("dropRole", f"pawl-{role}")


def test_built_in_role_is_enough(secured, make_field):
    """readWrite, for each program; pawl-worker makes the collections by itself."""
    field = make_field(secured)
    secured.client.admin.command("createUser", "all", pwd=PASSWORDS["worker"], roles=[{"role": "readWrite", "db": field.name}])
    try:
        field.mongo = ["--uri", secured.uri_of("all", password=PASSWORDS["worker"]), "--db", field.name]
        assert field.run("pawl-enqueue", "--type", "t1", stdin=b"one\n").returncode == 0
        field.drain()
        assert field.run("pawl-status").returncode == 0 and field.run("pawl-setup").returncode == 0
        assert field.run("pawl-setup", "--adopt", "t1", "--dir", field.dir, "--yes").returncode == 0
    finally:
        secured.client.admin.command("dropUser", "all")


OURS = {  # what can be done to a collection of pawl's, by the name of the action that it takes
    "find": lambda c: c.find_one(),
    "insert": lambda c: c.insert_one({"type": "t9", "slot": uuid.uuid4().hex}),
    "update": lambda c: c.update_many({"type": "t9"}, {"$set": {"x": 1}}),
    "remove": lambda c: c.delete_many({"type": "t9"}),
    "listIndexes": lambda c: list(c.list_indexes()),
    "createIndex": lambda c: c.create_index("x"),
    "dropIndex": lambda c: c.database.command("dropIndexes", c.name, index="x_1"),
    "createCollection": lambda c: c.database.command("create", c.name),
    "dropCollection": lambda c: c.drop(),
    "collMod": lambda c: c.database.command("collMod", c.name, validator={}),
    "convertToCapped": lambda c: c.database.command("convertToCapped", c.name, size=4096),
    "renameCollection": lambda c: c.rename("another"),
    "collStats": lambda c: c.database.command("collStats", c.name),
    "validate": lambda c: c.database.command("validate", c.name),
    "compact": lambda c: c.database.command("compact", c.name),
    "changeStream": lambda c: c.watch().close(),
    "planCacheRead": lambda c: list(c.aggregate([{"$planCacheStats": {}}])),
}

OTHERS = {
    "another collection: find": lambda db: db.another.find_one(),
    "another collection: insert": lambda db: db.another.insert_one({}),
    "another collection: create": lambda db: db.create_collection("another"),
    "another collection: $lookup": lambda db: list(db.messages.aggregate([{"$lookup": {"from": "another", "as": "x", "pipeline": []}}])),
    "another collection: $out": lambda db: list(db.messages.aggregate([{"$out": "another"}])),
    "another collection: a view": lambda db: db.command("create", "another", viewOn="messages", pipeline=[]),
    "another database: find": lambda db: db.client.other.messages.find_one(),
    "another database: insert": lambda db: db.client.other.messages.insert_one({}),
    "another database: listCollections": lambda db: db.client.other.command("listCollections"),
    "admin: usersInfo": lambda db: db.client.admin.command("usersInfo", {"forAllDBs": True}),
    "admin: find": lambda db: db.client.admin["system.users"].find_one(),
    "admin: createUser": lambda db: db.client.admin.command("createUser", "mallory", pwd="x", roles=[]),
    "admin: createRole": lambda db: db.client.admin.command("createRole", "mallory", privileges=[], roles=[]),
    "admin: own password": lambda db: db.client.admin.command("updateUser", "worker", pwd="x"),
    "admin: grantRolesToUser": lambda db: db.client.admin.command("grantRolesToUser", "worker", roles=["root"]),
    "local: oplog": lambda db: db.client.local["oplog.rs"].find_one(),
    "config: find": lambda db: db.client.config.transactions.find_one(),
    "cluster: replSetStepDown": lambda db: db.client.admin.command("replSetStepDown", 1),
    "cluster: replSetGetStatus": lambda db: db.client.admin.command("replSetGetStatus"),
    "cluster: getParameter": lambda db: db.client.admin.command("getParameter", "*"),
    "cluster: serverStatus": lambda db: db.client.admin.command("serverStatus"),
    "cluster: getLog": lambda db: db.client.admin.command("getLog", "global"),
    "cluster: fsync": lambda db: db.client.admin.command("fsync", lock=True),
    "cluster: shutdown": lambda db: db.client.admin.command("shutdown"),
    "cluster: operations of others": lambda db: db.client.admin.command("currentOp", {"$all": True}),
    "cluster: killOp": lambda db: db.client.admin.command("killOp", op=1),
    "cluster: killAllSessions": lambda db: db.client.admin.command("killAllSessions", []),
    "database: listCollections": lambda db: db.command("listCollections"),
    "database: dbStats": lambda db: db.command("dbStats"),
    "database: profile": lambda db: db.command("profile", 2),
    "database: dropDatabase": lambda db: db.command("dropDatabase"),
}


def privileges_of(role):
    return [(place["resource"], action) for place in role["privileges"] for action in place["actions"]]


def needed(role):
    """Those on `wakeups` are not: test_wakeups_are_not_needed. Those on `workers` are for patterns."""
    return [(resource, action) for resource, action in privileges_of(role) if not resource["collection"].startswith(("wakeups", "workers"))]


def without(role, lacking):
    """The role without one of its privileges; None: all of them."""
    return {"privileges": [{"resource": resource, "actions": [action]} for resource, action in privileges_of(role)
                           if lacking is None or (resource, action) != lacking]}


def short(lacking):
    return f"{lacking[0]['collection'] or 'database'}: {lacking[1]}" if lacking else "nothing"


def permitted(attempt, at):
    """What a right stands in front of may fail otherwise, too."""
    try:
        attempt(at)
    except OperationFailure as error:
        return error.code != 13
    return True


@pytest.mark.parametrize("user", ["worker", "operator", "viewer", "producer"])
def test_role_permits_nothing_else(prepared, user):
    """Neither in pawl's collections nor anywhere: what can be done is what the page says, action by action."""
    field = prepared
    field.db.command("dropIndexes", "messages", index="type_1__id_1")  # a capped one takes no messages else
    client = pymongo.MongoClient(field.server.uri_of(user))
    can = {f"{name}: {action}" for name in COLLECTIONS for action, attempt in OURS.items()
           if permitted(attempt, client[field.name][name])}
    can |= {what for what, attempt in OTHERS.items() if permitted(attempt, client[field.name])}
    client.close()
    role = documented_roles(field.name)[user]
    assert all(resource["db"] == field.name for resource, _ in privileges_of(role))
    documented = {short(privilege) for privilege in privileges_of(role)}
    # MongoDB's own rule, and said on the page: who may insert into a collection may make it.
    implied = {f"{name}: createCollection" for name in COLLECTIONS if f"{name}: insert" in documented}
    assert can == documented | implied


def test_each_privilege_of_the_worker_is_needed(prepared, users):
    """Without any one of them, a worker with a backlog, a crash to settle and an expired lock to steal gets stuck and says so; with
    all of them it does not. Each has a type and a user of its own, and they run side by side."""
    field = prepared
    role = documented_roles(field.name)["worker"]
    cases = {short(lacking).replace(": ", "-"): lacking for lacking in (None, *needed(role))}
    assert len(cases) == 1 + len(needed(role))
    victims = {}
    for name, lacking in cases.items():
        users.add(name, without(role, lacking), pwd=PASSWORDS["worker"])
        field.fill(30, name)
        if name != "ledger-insert":  # that one is for the first epoch alone
            victims[name] = field.worker("--batch-messages", 10, types=[name], mongo=field.as_user("root"), env={"PAWL_FAULT": "block-committed:2"})
    for victim in victims.values():
        assert victim.wait() == -9, str(victim)
    workers = {name: field.worker("--lease", "10s", "--exit-when-empty", "--timeout", "20s" if lacking else "50s", types=[name],
                                  mongo=["--uri", users.uri(name), "--db", field.name]) for name, lacking in cases.items()}
    for name, worker in workers.items():
        status, log = worker.wait(), worker.log()
        assert (status == 0) == (name == "nothing"), f"without {name}: {worker}"
        assert ("MongoDB does not permit it: " in log) == (name != "nothing"), f"without {name}: {worker}"
        assert not re.search(r"ObjectId|\$oid|payload", log), f"what messages hold does not belong there: {worker}"
        secretless(log)
    field.drain("--lease", "10s", types=cases, mongo=field.as_user("root"))
    for name in cases:  # no harm was done: nothing is lost, nothing is there twice
        assert [m.raw for m in reader.read_type(field.dir, name, field.ledger(name))] == field.acknowledged[f"producer of {name}"], name


def test_each_privilege_of_the_operator_is_needed(secured, users, make_field):
    """Without any one of them, making collections and indexes or one of two adoptions fails: of a type whose ledger is lost, and of one
    whose ledger is there; a dead worker's lock lies on both."""
    field = make_field(secured)
    field.mongo = ["--uri", secured.uri_of("root"), "--db", field.name]
    for name in ("t1", "t2"):
        field.fill(10, name)
    field.drain(types=["t1", "t2"])
    ledger = field.ledger("t2")
    then = datetime.now(timezone.utc) - timedelta(hours=1)

    def all_done(lacking):
        name = short(lacking).replace(": ", "_")
        base, folder = f"{name}_{field.name[-6:]}", field.folder / name
        users.add(base, without(documented_roles(base)["operator"], lacking and ({**lacking[0], "db": base}, lacking[1])), pwd=PASSWORDS["worker"])
        shutil.copytree(field.dir, folder)
        where, db = ["--uri", users.uri(base), "--db", base], secured.client[base]
        done = [run("pawl-setup", *where, "--timeout", "30s")]
        if done[0].returncode == 0:
            db.ledger.insert_one(ledger)
            db.locks.insert_many([{"type": name, "slot": 0, "owner": uuid.uuid4().bytes, "ttl_ms": 1000, "expires_at": then} for name in ("t1", "t2")])
            done += [answered(lambda name=name: run("pawl-setup", *where, "--timeout", "30s", "--adopt", name, "--dir", folder, "--yes"))
                     for name in ("t1", "t2")]
            if all(each.returncode == 0 for each in done):
                assert sorted(d["epoch"] for d in db.ledger.find()) == [2, 2] and db.locks.count_documents({}) == 0
        secured.client.drop_database(base)
        return lacking, done

    for lacking, done in side_by_side(*(lambda lacking=lacking: all_done(lacking)
                                        for lacking in (None, *needed(documented_roles(field.name)["operator"])))):
        failed = [each for each in done if each.returncode != 0]
        assert bool(failed) == bool(lacking), f"without {short(lacking)}: {done}"
        assert all(each.returncode == 2 and b"MongoDB does not permit it: " in each.stderr for each in failed), failed


def test_each_privilege_of_viewer_and_producer_is_needed(prepared, users):
    field = prepared
    field.fill(3)
    for user, words in (("viewer", ["pawl-status", "--json", "--type", "t1"]), ("producer", ["pawl-enqueue", "--type", "t2"])):
        role = documented_roles(field.name)[user]
        for lacking in (None, *needed(role)):
            name = f"{user}-{short(lacking).replace(': ', '-')}"
            users.add(name, without(role, lacking), pwd=PASSWORDS["worker"])
            done = run(words[0], "--uri", users.uri(name), "--db", field.name, *words[1:], stdin=b"x\n")
            if lacking is None:
                assert done.returncode == 0 and (user == "producer" or json.loads(done.stdout)["queued"] == 3), done
            elif short(lacking) == "messages: find":  # the rest is still worth showing
                assert done.returncode == 0 and json.loads(done.stdout)["queued"] is None, done
            else:
                assert done.returncode == 2 and b"MongoDB does not permit it: " in done.stderr and b"lsid" not in done.stderr, done
    assert field.queued("t2") == 1


def test_a_viewer_of_some_types(prepared, users):
    """What a viewer may not read of one type is unknown for that type alone, and is said."""
    field = prepared
    for name in ("t1", "t2"):
        assert run("pawl-setup", *field.as_user("root"), "--type", name, "--own-collection").returncode == 0
        field.fill(3, name, own=True)
    field.fill(2, "t3")
    viewer = documented_roles(field.name)["viewer"]["privileges"]
    users.add("some", {"privileges": [*viewer, {"resource": {"db": field.name, "collection": "messages.t1"}, "actions": ["find"]}]},
              pwd=PASSWORDS["worker"])
    where = ["--uri", users.uri("some"), "--db", field.name]
    done = run("pawl-status", *where, "--json")
    rows = {row["type"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0 and {name: row["queued"] for name, row in rows.items()} == {"t1": 3, "t2": None, "t3": 2}, done
    done = run("pawl-status", *where)
    assert done.returncode == 0 and re.search(rb"not all that waits is known: messages\.t2: .*not authorized", done.stdout), done
    done = run("pawl-status", *where, "--check")
    assert done.returncode == 2 and b"the queue cannot be read: " in done.stdout, done


def test_what_a_move_needs(prepared, users, make_field):
    """The operator's role at both places; at the old one `find` on what the type's messages are in. Without that nothing is changed."""
    old, new = prepared, make_field(prepared.server)
    root = {"mongo": old.as_user("root")}
    assert run("pawl-setup", *old.as_user("root"), "--type", "t1", "--own-collection").returncode == 0
    old.fill(10, own=True)
    old.drain(**root)
    assert run("pawl-status", *old.as_user("worker"), "--pause", "t1", "--reason", "it moves").returncode == 0
    operator = documented_roles(old.name)["operator"]["privileges"]
    operator = [*operator, {"resource": {"db": old.name, "collection": "messages.t1"}, "actions": ["listIndexes"]}]  # pawl-setup looks at it
    users.add("there", documented_roles(new.name)["operator"], pwd=PASSWORDS["worker"])
    before = old.ledger()

    def carry(user, to="there"):
        return run("pawl-setup", "--uri", users.uri(user), "--db", old.name, "--carry", "t1", "--to-uri", users.uri(to), "--to-db", new.name, "--yes")

    def reads(*collections):
        return {"privileges": operator + [{"resource": {"db": old.name, "collection": name}, "actions": ["find"]} for name in collections]}

    for user, collections in (("none", []), ("shared", ["messages"]), ("own", ["messages.t1"])):
        users.add(user, reads(*collections), pwd=PASSWORDS["worker"])
        done = carry(user)
        assert done.returncode != 0 and b"not authorized" in done.stderr, (user, done)
        assert old.ledger() == before and new.ledger() is None
    users.add("both", reads("messages", "messages.t1"), pwd=PASSWORDS["worker"])
    done = carry("both", to="both")
    assert done.returncode != 0 and b"not authorized" in done.stderr and old.ledger() == before, done
    done = carry("both")
    assert done.returncode == 0 and old.ledger()["moved"] and new.ledger()["carried"], done


@pytest.mark.parametrize("denied", [["find", "insert"], ["find"], ["insert"]], ids="+".join)
def test_wakeups_are_not_needed(prepared, users, denied):
    """Without the rights on them a worker says so once, and goes on by its timers; so does pawl-enqueue, which says nothing."""
    field = prepared

    def is_denied(collection, action):
        return collection == "wakeups" and action in denied
    for name in ("worker", "producer"):
        rest = [{**place, "actions": [a for a in place["actions"] if not is_denied(place["resource"]["collection"], a)]}
                for place in documented_roles(field.name)[name]["privileges"]]
        users.add(f"less-{name}", {"privileges": [place for place in rest if place["actions"]]}, pwd=PASSWORDS["worker"])
    worker = field.worker(mongo=["--uri", users.uri("less-worker"), "--db", field.name])
    if "find" in denied:
        worker.wait_log("no wake-ups come: .*not authorized")
    for seq in (1, 2):
        done = run("pawl-enqueue", "--uri", users.uri("less-producer"), "--db", field.name, "--type", "t1", stdin=b"x\n")
        assert done.returncode == 0 and b"wake" not in done.stderr, done
        wait_until(lambda: (field.ledger() or {}).get("seq") == seq, field.logs)
    assert worker.stop()[0] == 0, str(worker)
    assert worker.log().count("no wake-ups come") == ("find" in denied), str(worker)


def test_worker_with_its_role_survives_everything(prepared):
    """Crash, take-over, roll, settle, several types, linearizable look at the end: with the documented rights alone."""
    field = prepared
    field.mongo = field.as_user("worker")
    field.fill(1000, size=200)
    field.fill(100, "t2")
    for point in ("lock-inserted", "block-committed:3", "close-written"):
        field.crash(point, "--batch-messages", 50, "--segment-bytes", "64KiB")
    field.drain("--batch-messages", 50, "--segment-bytes", "64KiB", types=["t1", "t2"])
    assert all("not authorized" not in worker.log() for worker in field.workers), field.logs()
    field.mongo = field.as_user("root")
    field.compare("t1", "t2")


@pytest.mark.parametrize("user,name,arguments", [("viewer", "pawl-enqueue", ["--type", "t1"]), ("producer", "pawl-status", []),
                                                 ("viewer", "pawl-setup", ["--adopt", "t1", "--yes"]),
                                                 ("producer", "pawl-dump", [])])
def test_other_roles_do_nothing_else(prepared, user, name, arguments):
    prepared.fill(5)
    prepared.drain(mongo=prepared.as_user("worker"))
    before = prepared.ledger()
    more = ["--dir", prepared.dir] if name in ("pawl-setup", "pawl-dump") else []
    done = run(name, *prepared.as_user(user), *arguments, *more, stdin=b"x\n")
    assert done.returncode != 0 and b"not authorized" in done.stderr, done
    assert prepared.ledger() == before and prepared.queued() == 0
    secretless(done.stdout, done.stderr)
