"""TLS, SCRAM, least privilege, secrets, file modes, hostile documents, hardened programs. What is promised is in docs/security.md."""
import json
import os
import re
import shutil
import subprocess
import time
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path

import bson
import pymongo
import pytest
from bson.int64 import Int64
from pymongo.errors import OperationFailure

import reader
from disks import command, need_program
from harness import ROOT, Mongod, environment, free_port, program, run, wait_until

PASSWORDS = {"operator": "0perat0r-Gehe1m", "worker": "w0rker-S3cret", "viewer": "v1ewer-S3cret", "producer": "pr0ducer-S3cret", "root": "r00t-S3cret"}
PROGRAMS = ["pawl-worker", "pawl-enqueue", "pawl-dump", "pawl-status", "pawl-setup"]


def documented_roles(db):
    """The roles of docs/security.md, for the database `db`: the page is what is tested."""
    text = (ROOT / "docs/security.md").read_text()
    roles = [json.loads(found.replace('"DB"', f'"{db}"')) for found in re.findall(r"```json\n(.*?)```", text, re.S)]
    return {role["createRole"]: role for role in roles}


# --- a server with both ---


class Secured(Mongod):
    """A replica set of one node that takes TLS connections and known users only. tls: a folder of certificates."""

    def start(self):
        tls, node = self.folder / "tls", self.folder / "node1"
        tls.mkdir(parents=True)
        node.mkdir()
        (node / "data").mkdir()
        authority(tls, "ca")
        authority(tls, "other-ca")
        certificate(tls, "ca", "server", "127.0.0.1")
        certificate(tls, "ca", "client", "client")
        key = self.folder / "key"
        key.write_text(uuid.uuid4().hex * 4)
        key.chmod(0o400)
        mongod = command(ROOT / "scripts/mongod", "find").stdout.strip()
        self.port = free_port()
        command(mongod, "--dbpath", node / "data", "--port", self.port, "--bind_ip", "127.0.0.1", "--nounixsocket", "--fork", "--logpath",
                node / "log", "--pidfilepath", node / "pid", "--wiredTigerCacheSizeGB", "0.25", "--replSet", "rs0", "--oplogSize", "512",
                "--keyFile", key, "--tlsMode", "requireTLS", "--tlsCertificateKeyFile", tls / "server.pem", "--tlsCAFile", tls / "ca.crt",
                "--tlsAllowConnectionsWithoutCertificates", "--setParameter", "enableTestCommands=1")
        (self.folder / "pids").write_text((node / "pid").read_text())
        # As an operator does it: before there is a user, from the machine itself.
        done = run("pawl-setup", "--uri", f"mongodb://127.0.0.1:{self.port}/?tls=true&tlsCAFile={tls}/ca.crt&directConnection=true",
                   "--replica-set", "rs0", "--member", f"127.0.0.1:{self.port}")
        assert b"replica set rs0: initiated" in done.stdout, done
        first = pymongo.MongoClient("127.0.0.1", self.port, tls=True, tlsCAFile=str(tls / "ca.crt"), directConnection=True)
        wait_until(lambda: first.admin.command("hello")["isWritablePrimary"], "a primary")
        first.admin.command("createUser", "root", pwd=PASSWORDS["root"], roles=["root"])
        first.close()
        self.tls = tls
        (self.folder / "uri").write_text(self.uri_of("root"))
        self.client = pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=20000, w="majority", journal=True)
        self.client.admin.command("ping")
        return self

    def uri_of(self, user, password=None, ca="ca.crt", more=""):
        return (f"mongodb://{user}:{password or PASSWORDS[user]}@127.0.0.1:{self.port}/?replicaSet=rs0&authSource=admin"
                f"&tls=true&tlsCAFile={self.tls}/{ca}{more}")


def authority(folder, name):
    command("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
            f"/CN=the {name} of a test", "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt")


def certificate(folder, ca, name, host):
    (folder / f"{name}.ext").write_text(f"subjectAltName=IP:{host}" if host[0].isdigit() else f"subjectAltName=DNS:{host}")
    command("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={host}", "-keyout",
            folder / f"{name}.key", "-out", folder / f"{name}.csr")
    command("openssl", "x509", "-req", "-days", "2", "-in", folder / f"{name}.csr", "-CA", folder / f"{ca}.crt", "-CAkey",
            folder / f"{ca}.key", "-CAcreateserial", "-extfile", folder / f"{name}.ext", "-out", folder / f"{name}.crt")
    (folder / f"{name}.pem").write_text((folder / f"{name}.key").read_text() + (folder / f"{name}.crt").read_text())


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    need_program("openssl", "a server with TLS")
    server = Secured(tmp_path_factory.mktemp("secured") / "server").start()
    yield server
    server.stop()


@pytest.fixture
def guarded(secured, make_field):
    """A field on it, its collections made by the operator's user, with the documented roles and a user for each."""
    field = make_field(secured)
    admin = secured.client.admin
    for name, role in documented_roles(field.name).items():
        admin.command(role | {"createRole": f"{name}-{field.name}"})
        user = name.removeprefix("pawl-")
        admin.command("createUser", f"{user}", pwd=PASSWORDS[user], roles=[f"{name}-{field.name}"])
    field.as_user = lambda user, **more: ["--uri", secured.uri_of(user, **more), "--db", field.name]
    yield field
    for name in documented_roles(field.name):
        admin.command("dropUser", name.removeprefix("pawl-"))
        admin.command("dropRole", f"{name}-{field.name}")


@pytest.fixture
def prepared(guarded):
    done = run("pawl-setup", *guarded.as_user("operator"))
    assert done.returncode == 0, done
    return guarded


def secretless(*texts):
    for text in texts:
        text = text.decode(errors="replace") if isinstance(text, bytes) else text
        for password in PASSWORDS.values():
            assert password not in text, text


# --- TLS and SCRAM ---


def test_everything_with_tls_and_scram(prepared):
    """Each program as its own user, from the first message to the last look."""
    field = prepared
    done = run("pawl-enqueue", *field.as_user("producer"), "--type", "t1", stdin=b"one\ntwo\nthree\n")
    assert done.returncode == 0, done
    field.mongo = field.as_user("worker")
    worker = field.worker("--linger", "1h")
    wait_until(lambda: (field.ledger() or {}).get("seq") == 3 and field.queued() == 0, field.logs)
    status = run("pawl-status", "--json", *field.as_user("viewer"))
    assert status.returncode == 0 and json.loads(status.stdout)["holder"]["pid"] == worker.pid, status
    dump = run("pawl-dump", "--format", "payload", "--dir", field.dir, "--type", "t1", *field.as_user("viewer"))
    assert dump.returncode == 0 and dump.stdout.split() == [b"one", b"two", b"three"], dump
    assert worker.stop()[0] == 0, str(worker)
    secretless(worker.log(), done.stderr, status.stderr, dump.stderr)
    field.ledgers.delete_one({"_id": "t1"})
    done = run("pawl-setup", *field.as_user("operator"), "--adopt", "t1", "--dir", field.dir, "--yes")
    assert done.returncode == 0, done


def test_client_certificate(prepared):
    field = prepared
    field.mongo = field.as_user("worker", more=f"&tlsCertificateKeyFile={field.server.tls}/client.pem")
    field.fill(10)
    field.drain()
    field.mongo = field.as_user("root")
    field.compare()


WRONG = [  # what of the URI is wrong, what the line must say
    ({"ca": "other-ca.crt"}, r"certificate|TLS"),
    ({"ca": "nowhere.crt"}, r"nowhere|certificate|TLS|PEM|CA"),
    ({"password": "wr0ng-S3cret"}, r"[Aa]uthenticat"),
    ({"more": "&authMechanism=SCRAM-SHA-1&authSource=nowhere"}, r"[Aa]uthenticat"),
]


@pytest.mark.parametrize("wrong,words", WRONG, ids=["wrong CA", "no CA", "wrong password", "wrong source"])
def test_wrong_credentials(prepared, wrong, words):
    """Each program says why, without the password; a worker waits, and says it once."""
    field = prepared
    field.fill(5)
    uri = field.as_user("worker", **wrong)
    worker = field.worker(mongo=uri)
    wait_until(lambda: " database: " in worker.log() or not worker.alive(), lambda: str(worker))
    text = worker.log()
    assert re.search(words, text), text
    if worker.alive():
        time.sleep(2.5)  # no synchronisation: time to repeat itself
        assert worker.log().count(" database: ") == 1, str(worker)
        assert worker.stop()[0] == 0
    said = [worker.log()]
    for name, arguments in (("pawl-status", []), ("pawl-enqueue", ["--type", "t1"]), ("pawl-setup", ["--timeout", "1s"])):
        done = run(name, *uri, *arguments, stdin=b"x\n")
        assert done.returncode in (2, 69) and re.search(words, done.stderr.decode()), done
        said.append(done.stdout + done.stderr)
    secretless(*said)
    assert all("wr0ng-S3cret" not in (s if isinstance(s, str) else s.decode()) for s in said), said
    assert field.queued() == 5 and field.segments() == []


def test_plain_connection_to_a_tls_server(prepared):
    worker = prepared.worker(mongo=["--uri", f"mongodb://worker:{PASSWORDS['worker']}@127.0.0.1:{prepared.server.port}/?replicaSet=rs0"])
    worker.wait_log(" database: ")
    assert worker.stop()[0] == 0
    secretless(worker.log())


def test_host_that_the_certificate_does_not_name(prepared):
    uri = prepared.server.uri_of("worker").replace("127.0.0.1", "localhost").replace("replicaSet=rs0", "directConnection=true")
    done = run("pawl-status", "--uri", uri, "--db", prepared.name)
    assert done.returncode == 69 and re.search("certificate|TLS|match", done.stderr.decode()), done
    secretless(done.stderr)


def test_password_is_changed_under_a_worker(prepared):
    """Connections that are open stay; after that it waits, says so once, and the password that is right again is enough."""
    field = prepared
    field.mongo = field.as_user("worker")
    worker = field.worker("--linger", "300ms")
    field.fill(50)
    field.wait_settled()
    admin = field.server.client.admin
    admin.command("updateUser", "worker", pwd="an0ther-S3cret")
    pid = field.server.pid()
    field.fill(50)
    try:
        field.wait_empty(deadline=5)
    except AssertionError:
        assert " database: " in worker.log(), str(worker)
    admin.command("updateUser", "worker", pwd=PASSWORDS["worker"])
    field.wait_settled()
    assert worker.stop()[0] == 0 and pid == field.server.pid(), str(worker)
    secretless(worker.log())
    field.mongo = field.as_user("root")
    field.compare()


# --- secrets ---


@pytest.mark.parametrize("way", ["--uri-file", "PAWL_URI", "PAWL_URI_FILE", "--config"])
def test_password_is_nowhere_to_be_seen(prepared, way):
    """Not in the command line, not in the log at its most talkative, not in --print-config, not in a child's command line."""
    field, uri = prepared, prepared.server.uri_of("worker")
    file = field.folder / "uri"
    file.write_text(uri + "\n" if way != "--config" else f"uri = {uri}\n")
    file.chmod(0o600)
    words = {"--uri-file": ["--uri-file", file], "--config": ["--config", file]}.get(way, [])
    env = {"PAWL_URI": {"PAWL_URI": uri}, "PAWL_URI_FILE": {"PAWL_URI_FILE": file}}.get(way, {})
    field.fill(100)
    worker = field.worker("-v", "--linger", "1h", mongo=[*words, "--db", field.name], env=env)
    field.wait_empty()
    secretless(Path(f"/proc/{worker.pid}/cmdline").read_bytes())
    assert PASSWORDS["worker"] in uri
    printed = run("pawl-worker", *words, "--type", "t1", "--print-config", env=env)
    assert printed.returncode == 0 and b"***" in printed.stdout, printed
    secretless(printed.stdout, printed.stderr)
    # pawl-dump starts pawl-status for the ledger: its command line, too.
    follower = subprocess.Popen([program("pawl-dump"), *map(str, words), "--db", field.name, "--dir", str(field.dir), "--type", "t1", "-f",
                                 "--format", "none"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(**env))
    try:
        seen = set()
        end = time.monotonic() + 20
        while not any(b"--json" in line for line in seen) and time.monotonic() < end:
            for entry in Path("/proc").iterdir():
                try:
                    parent = entry.name.isdigit() and int(re.search(r"PPid:\s+(\d+)", (entry / "status").read_text())[1])
                    if parent == follower.pid or entry.name == str(follower.pid):
                        seen.add((entry / "cmdline").read_bytes())
                except OSError:
                    continue
        assert any(b"pawl-status" in line for line in seen), seen
        secretless(*seen)
    finally:
        follower.terminate()
        secretless(follower.communicate(timeout=20)[1])
    assert worker.stop()[0] == 0
    secretless(worker.log())


def test_command_line_of_uri_is_the_users_own_choice(prepared):
    """--uri shows it to `ps`: documented; and it is hidden everywhere else."""
    worker = prepared.worker("-v", "--log-format", "json", mongo=prepared.as_user("worker"))
    prepared.fill(10)
    prepared.wait_empty()
    assert worker.stop()[0] == 0
    secretless(worker.log())


NASTY = ["mongodb://u:s3cr3t@@h:1", "mongodb://u:s3cr3t@h:x", "mongodb://u:s3:cr3t@h/?tls=maybe", "mongodb://u:s3cr3t/x@h", "mongodb://u:s3cr3t#@h",
         "mongodb://u:s3cr3t@h/?authMechanism=MONGODB-X509&password=s3cr3t", "mongodb://u:s3cr3t@h/db?tlsCertificateKeyFilePassword=s3cr3t&x",
         "mongodb+srv://u:s3cr3t@a.b.invalid/", "mongo://u:s3cr3t@h", "u:s3cr3t@h", "mongodb://u:%s3cr3t@h", "mongodb://u:s3cr3t"]


@pytest.mark.parametrize("uri", NASTY)
@pytest.mark.parametrize("name,arguments", [("pawl-worker", ["--type", "t1", "--exit-when-empty", "--timeout", "1s"]), ("pawl-status", []),
                                            ("pawl-enqueue", ["--type", "t1"]), ("pawl-setup", ["--timeout", "1s"])])
def test_malformed_uri_gives_nothing_away(name, arguments, uri, tmp_path):
    file = tmp_path / "uri"
    file.write_text(uri)
    for words in (["--uri", uri], ["--uri-file", file]):
        done = run(name, *words, *arguments, stdin=b"x\n")
        assert done.returncode in (2, 69), done
        assert b"cr3t" not in done.stdout + done.stderr, done


# --- least privilege ---


def test_worker_makes_nothing(guarded):
    """Where collections are missing, the worker's user may not make them: a clear refusal, and nothing happens."""
    guarded.mongo = guarded.as_user("worker")
    worker = guarded.worker()
    assert worker.wait(30) == 2, str(worker)
    assert re.search("refused: .*not authorized", worker.log()), str(worker)
    assert guarded.db.list_collection_names() == []


FORBIDDEN = [
    ("messages", "insert", lambda db: db.messages.insert_one({"type": "t1"})),
    ("messages", "update", lambda db: db.messages.update_many({}, {"$set": {"x": 1}})),
    ("messages", "drop", lambda db: db.messages.drop()),
    ("messages", "createIndex", lambda db: db.messages.create_index("x")),
    ("messages", "dropIndex", lambda db: db.messages.drop_indexes()),
    ("ledger", "remove", lambda db: db.ledger.delete_many({})),
    ("ledger", "drop", lambda db: db.ledger.drop()),
    ("locks", "drop", lambda db: db.locks.drop()),
    ("locks", "dropIndex", lambda db: db.locks.drop_indexes()),
    ("another collection", "find", lambda db: db.another.find_one()),
    ("another collection", "insert", lambda db: db.another.insert_one({})),
    ("another collection", "create", lambda db: db.create_collection("another")),
    ("another database", "find", lambda db: db.client.other.messages.find_one()),
    ("another database", "insert", lambda db: db.client.other.messages.insert_one({})),
    ("admin", "users", lambda db: db.client.admin.command("usersInfo", {"forAllDBs": True})),
    ("admin", "find", lambda db: db.client.admin["system.users"].find_one()),
    ("local", "oplog", lambda db: db.client.local["oplog.rs"].find_one()),
    ("cluster", "shutdown", lambda db: db.client.admin.command("replSetStepDown", 1)),
    ("cluster", "parameters", lambda db: db.client.admin.command("getParameter", "*")),
    ("cluster", "operations of others", lambda db: db.client.admin.command("currentOp", True)),
    ("database", "dropDatabase", lambda db: db.client.drop_database(db.name)),
    ("database", "collMod", lambda db: db.command("collMod", "messages", validator={})),
]


def test_worker_may_do_nothing_else(prepared):
    field = prepared
    field.fill(5)
    client = pymongo.MongoClient(field.server.uri_of("worker"))
    allowed = []
    for where, what, attempt in FORBIDDEN:
        try:
            attempt(client[field.name])
            allowed.append((where, what))
        except OperationFailure as error:
            assert error.code == 13 or "not authorized" in str(error), (where, what, error)
    client.close()
    assert not allowed and field.queued() == 5


def test_each_privilege_of_the_worker_is_needed(prepared):
    """Without any one of them, a worker with a backlog, a crash to settle and an expired lock to steal gets stuck and says so."""
    field = prepared
    admin = field.server.client.admin
    role = documented_roles(field.name)["pawl-worker"]
    needless = []
    full = [(place["resource"], action) for place in role["privileges"] for action in place["actions"]]
    for n, (resource, action) in enumerate(full):
        rest = [{"resource": r, "actions": [a]} for r, a in full if (r, a) != (resource, action)]
        admin.command("updateRole", f"pawl-worker-{field.name}", privileges=rest)
        name = f"x{n}"
        field.mongo = field.as_user("root")
        field.fill(30, name)
        victim = field.worker("--batch-messages", 10, types=[name], env={"PAWL_FAULT": "block-committed:2"})
        assert victim.wait() == -9, str(victim)
        if (resource["collection"], action) == ("ledger", "insert"):  # only the first epoch inserts
            name += "new"
            field.fill(30, name)
        worker = field.worker("--exit-when-empty", "--timeout", "5s", types=[name], mongo=field.as_user("worker"))
        if worker.wait(20) == 0:
            needless.append((resource, action))
        else:
            assert "not authorized" in worker.log(), str(worker)
    admin.command("updateRole", f"pawl-worker-{field.name}", privileges=role["privileges"])
    assert not needless, needless


def test_worker_with_its_role_survives_everything(prepared):
    """Crash, take-over, roll, settle, several types, linearizable look at the end: with the documented rights alone."""
    field = prepared
    field.mongo = field.as_user("worker")
    field.fill(1000, size=200)
    field.fill(100, "t2")
    for point in ("lock-inserted", "block-committed:3", "close-written"):
        victim = field.worker("--batch-messages", 50, "--segment-bytes", "64KiB", env={"PAWL_FAULT": point})
        assert victim.wait() == -9, str(victim)
    field.drain("--batch-messages", 50, "--segment-bytes", "64KiB", types=["t1", "t2"])
    assert all("not authorized" not in worker.log() for worker in field.workers), field.logs()
    field.mongo = field.as_user("root")
    field.compare("t1", "t2")


@pytest.mark.parametrize("user,name,arguments", [("viewer", "pawl-enqueue", ["--type", "t1"]), ("producer", "pawl-status", []),
                                                 ("viewer", "pawl-setup", ["--adopt", "t1", "--yes"])])
def test_other_roles_do_nothing_else(prepared, user, name, arguments):
    prepared.fill(5)
    prepared.drain(mongo=prepared.as_user("worker"))
    before = prepared.ledger()
    more = ["--dir", prepared.dir] if "--adopt" in arguments else []
    done = run(name, *prepared.as_user(user), *arguments, *more, stdin=b"x\n")
    assert done.returncode != 0 and b"not authorized" in done.stderr, done
    assert prepared.ledger() == before and prepared.queued() == 0
    secretless(done.stdout, done.stderr)


# --- files ---


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize("mode", [None, "0600", "0640", "0660", "0664"])
def test_mode_of_new_files(field, umask, mode):
    """0640, or as told; whatever the umask; of each segment."""
    field.fill(1200, size=100)
    old = os.umask(umask)
    try:
        field.drain(*(["--file-mode", mode] if mode else []), "--batch-messages", 300, "--segment-bytes", "65536")
    finally:
        os.umask(old)
    modes = {(field.dir / name).stat().st_mode & 0o7777 for name in field.segments()}
    assert len(field.segments()) >= 2 and modes == {int(mode or "0640", 8)}, modes


@pytest.mark.parametrize("mode", ["7777", "0200", "abc", "-1", "0o640", "4640"])
def test_mode_that_is_refused(mode):
    done = run("pawl-worker", "--type", "t1", "--file-mode", mode)
    assert done.returncode == 2 and b"--file-mode" in done.stderr, done


@pytest.mark.parametrize("name", ["../t1", "a/b", "/etc/passwd", "..", ".", ".t1", "-t1", "t1\n", "a\0b", "t 1", "t1@5", "ü", "", "x" * 129, "%2e%2e"])
def test_type_is_no_path(field, name):
    """A message's type is never made a path: such a type cannot be asked for, and such a message stays where it is."""
    field.messages.insert_many([{"type": name}, {"type": "t1"}])
    before = set(field.folder.rglob("*"))
    if "\0" not in name:
        done = field.run("pawl-worker", "--type", name, "--dir", field.dir)
        assert done.returncode == 2 and b"--type" in done.stderr, done
        for words in (["pawl-setup", "--adopt", name, "--yes"], ["pawl-dump", "--type", name]):
            done = field.run(*words, "--dir", field.dir)
            assert done.returncode == 2, done
        assert set(field.folder.rglob("*")) == before
    field.drain()
    assert field.segments() == ["t1.bin"] and field.messages.count_documents({}) == 1
    assert {path.name for path in field.dir.iterdir()} == {"t1.bin"}


@pytest.mark.parametrize("name", ["../../etc/x.bin", "/etc/passwd", "t1/../t1.bin", "t2.bin", "t1@.bin", "t1@05.bin", "t1@99999999999999999999.bin",
                                  "t1.bin\n", "t1.bin.bak", "", "x" * 5000])
def test_file_of_a_ledger_is_no_path(field, name):
    """Whoever may write to the ledger cannot make a worker or a reader open another file."""
    field.fill(5)
    field.drain()
    good = field.ledger()
    field.fill(5)
    field.ledgers.update_one({"_id": "t1"}, {"$set": {"file": name}})
    worker = field.worker(env={"PAWL_TEST_DISTRUST_MS": "1000"})
    assert worker.wait(20) == 74 and "the ledger of" in worker.log() and "file is" in worker.log(), str(worker)
    done = field.run("pawl-dump", "--dir", field.dir, "--type", "t1")
    assert done.returncode != 0 and b"root:" not in done.stdout, done
    assert field.queued() == 5 and field.segments() == ["t1.bin"]
    field.ledgers.replace_one({"_id": "t1"}, good)
    field.drain()
    field.compare()


# --- hostile documents ---

BIG = Int64((1 << 63) - 1)
RUBBISH = [None, True, -1, 0, 2.5, float("nan"), BIG, Int64(-(1 << 63)), "text", "x" * 100000, b"bytes", [], [1], {}, {"a": {"b": 1}}, bson.ObjectId(),
           bson.Decimal128("1E+6000"), bson.MinKey(), bson.Regex("x"), bson.Code("while(1);"), bson.Timestamp(1, 1)]


def alive_or_in_order(worker, codes=(0, 2, 74)):
    """Neither a signal nor a sanitizer's end."""
    status = worker.process.poll()
    assert status is None or status in codes, str(worker)


@pytest.mark.parametrize("key", ["v", "epoch", "clean", "file", "uuid", "length", "tail", "link", "seq", "items", "settled", "machine", "owner"])
def test_hostile_ledger(field, key):
    """Each field as rubbish of each kind, and missing. A worker stops, stands by or goes on; it names the field; no byte below the
    committed end changes, and no message is gone."""
    field.fill(20)
    field.drain("--batch-messages", 5)
    good, committed = field.ledger(), (field.dir / "t1.bin").read_bytes()
    field.fill(5)
    if key == "v":
        rubbish = [value for value in RUBBISH if not (isinstance(value, int) and value > 1)]
    else:
        rubbish = RUBBISH
    types = []
    for n, value in enumerate([*rubbish, "missing"]):  # all at once, each as a type of its own
        name = f"h{n}"
        types.append(name)
        ledger = {**good, "_id": name}
        if value == "missing":
            ledger.pop(key)
        else:
            ledger[key] = value
        field.db.ledger.insert_one(ledger)
        field.fill(3, name)
    before = {name: field.ledger(name) for name in types}
    worker = field.worker(types=[*types, "t1"], env={"PAWL_TEST_DISTRUST_MS": "1000"})
    field.wait_settled("t1")
    wait_until(lambda: worker.log().count("pawl-setup --adopt h") >= len(types) - 4 or not worker.alive(), lambda: str(worker), 20)
    alive_or_in_order(worker)
    assert worker.alive(), str(worker)
    for name in types:
        assert field.queued(name) == 3, f"{name} {before[name].get(key)!r}: {worker}"
        after = field.ledger(name)
        assert after is None or {k: v for k, v in after.items() if k not in ("epoch", "owner", "clean")}.keys() <= before[name].keys() | {"_id"}
    assert worker.stop()[0] in (0, 74), str(worker)
    assert (field.dir / "t1.bin").read_bytes()[:len(committed)] == committed
    status = field.run("pawl-status", "--json")
    assert status.returncode in (0, 1) and len(status.stdout.splitlines()) >= len(types), status
    field.compare("t1")


@pytest.mark.parametrize("change", [{"epoch": BIG}, {"seq": BIG, "settled": BIG}, {"items": BIG}, {"length": BIG}, {"length": BIG, "tail": BIG - 1},
                                    {"tail": 4097}, {"seq": BIG}, {"settled": 0, "seq": BIG, "items": BIG}, {"length": Int64(1)},
                                    {"tail": 0}, {"link": 0}], ids=str)
def test_hostile_numbers_in_a_ledger(field, change):
    """Of the right type, and absurd: no overflow, no crash, no harm to what is committed."""
    field.fill(20)
    field.drain("--batch-messages", 5)
    committed = (field.dir / "t1.bin").read_bytes()
    field.ledgers.update_one({"_id": "t1"}, {"$set": change})
    field.fill(5)
    worker = field.worker(env={"PAWL_TEST_DISTRUST_MS": "1000"})
    wait_until(lambda: not worker.alive() or field.queued() == 0 or worker.log().count("\n") > 60, lambda: str(worker), 20)
    alive_or_in_order(worker)
    assert not worker.alive() or worker.stop()[0] in (0, 74), str(worker)
    after = (field.dir / "t1.bin").read_bytes()
    assert after[:len(committed)] == committed
    done = field.run("pawl-setup", "--adopt", "t1", "--dir", field.dir, "--yes")
    assert done.returncode in (0, 1, 74), done


def test_hostile_locks(field):
    """Each field of a lock document as rubbish: refused with a text that names it, or stolen when it has no valid end; never a crash."""
    types = []
    owner = uuid.uuid4().bytes
    now = datetime.now(timezone.utc)
    sound = {"slot": 0, "owner": owner, "acquired_at": now, "expires_at": now + timedelta(seconds=600), "ttl_ms": 600000,
             "holder": {"host": "elsewhere", "boot": "-", "pid": 1, "started": now, "program": "test"}}
    assert field.run("pawl-setup").returncode == 0
    for key in ("owner", "expires_at", "ttl_ms", "holder", "acquired_at"):
        for n, value in enumerate([*RUBBISH, "missing"]):
            name = f"{key}{n}"
            lock = {**sound, "type": name, key: value}
            if value == "missing":
                lock.pop(key)
            field.db.locks.insert_one(lock)
            field.fill(1, name)
            types.append(name)
    field.fill(20)
    worker = field.worker(types=["t1", *types[:60]], env={"PAWL_TEST_DISTRUST_MS": "1000"})
    other = field.worker(types=types[60:])
    field.wait_settled("t1")
    alive_or_in_order(worker)
    alive_or_in_order(other)
    owners = [name for name in types if name.startswith("owner")]
    wait_until(lambda: all(re.search(rf"{name} .*not pawl's", worker.log() + other.log()) for name in owners), lambda: str(worker))
    taken = [name for name in types if name.startswith("expires_at")]
    wait_until(lambda: all(field.queued(name) == 0 for name in taken), lambda: f"{[n for n in taken if field.queued(n)]} {worker} {other}")
    assert all(field.queued(name) == 1 for name in owners)
    status = field.run("pawl-status", "--json")
    assert status.returncode in (0, 1), status
    done = field.run("pawl-setup", "--adopt", owners[3], "--dir", field.dir, "--yes")
    assert done.returncode in (1, 74) and b"not pawl's" in done.stderr, done
    for each in (worker, other):
        assert each.stop()[0] == 0, str(each)
    field.compare("t1")


def test_hostile_messages(field):
    """Whatever BSON a producer may insert is written as it is; what is no message of the type is left alone."""
    deep = {"a": 1}
    for _ in range(150):
        deep = {"a": deep}
    strange = [{"type": "t1", "x": value} for value in RUBBISH] + [
        {"type": "t1", "deep": deep}, {"type": "t1", "payload": "x" * (15 << 20)}, {"type": "t1", "": ""}, {"type": "t1", "_pawl": b"x"},
        {"type": "t1", "many": {str(n): n for n in range(20000)}}, {"type": "t1", "$where": "x", "a.b": 1}, {"type": "t1"},
        {"_id": "x" * (1 << 20), "type": "t1"}, {"_id": {"nested": ["x" * 100000] * 20}, "type": "t1"}, {"_id": "../../x", "type": "t1"}]
    broken = bson.encode({"_id": bson.ObjectId(), "type": "t1", "text": "abcd"}).replace(b"abcd", b"\xff\xfe\xfdd")
    twice = bson.encode({"_id": bson.ObjectId(), "type": "t1", "typo": "t2"}).replace(b"typo", b"type")
    marker = bson.encode({"_id": bson.ObjectId(), "type": "t1", "m": reader.MARKER_START * 20 + reader.HEADER_START})
    for document in [*strange, broken, twice, marker]:
        field.insert("producer of t1", [document])
    foreign = [{"type": ["t1"]}, {"type": None}, {"type": 1}, {"type": b"t1"}, {"type": bson.Code("t1")}, {"type": {"$eq": "t1"}}, {}, {"type": "t1\0"},
               {"type": "T1"}, {"type": ["t1", "t2"]}]
    field.messages.insert_many(foreign)
    assert not field.unknown, len(field.unknown)
    field.drain("--batch-messages", 7, types=["t1", "t2"])
    assert field.messages.count_documents({}) == len(foreign)
    stored = [m.raw for m in reader.read_type(field.dir, "t1", field.ledger())]
    assert sorted(stored) == sorted(field.acknowledged["producer of t1"])
    verify = run("pawl-dump", "--verify", "--dir", field.dir)
    assert verify.returncode == 0, verify
    for form in ("relaxed", "canonical", "payload", "summary", "blocks"):
        done = run("pawl-dump", "--dir", field.dir, "--type", "t1", "--format", form)
        assert done.returncode == 0, (form, done.stderr[:500])


def test_huge_ids_are_deleted(field):
    """Each delete fits into a command."""
    for size in (1 << 20, 4 << 20, 8 << 20):  # the server takes no larger ones
        for _ in range(2):
            field.insert("producer of t1", [{"_id": uuid.uuid4().hex + "x" * (size - 50), "type": "t1"}])
    assert not field.unknown
    field.drain()
    assert field.queued() == 0 and len(reader.read_type(field.dir, "t1", field.ledger())) == 6


def test_control_characters_do_not_reach_the_log(field):
    """What somebody wrote into a lock or a ledger cannot forge a line of the log, nor speak to a terminal."""
    nasty = "x\n2026-01-01T00:00:00.000Z error forged: line\x1b[31m\r\x07"
    assert field.run("pawl-setup").returncode == 0
    field.db.locks.insert_one({"type": "t1", "slot": 0, "owner": nasty, "holder": {"host": nasty, "program": nasty}})
    field.db.ledger.insert_one({"_id": "t2", "v": 1, "epoch": nasty, "file": nasty, "clean": nasty})
    field.fill(1, "t1")
    field.fill(1, "t2")
    worker = field.worker("-v", types=["t1", "t2"], env={"PAWL_TEST_DISTRUST_MS": "500"})
    worker.wait_log("pawl-setup --adopt t2")
    worker.wait_log("not pawl's")
    assert worker.stop()[0] in (0, 74)
    raw = worker.log_path.read_bytes()
    assert not re.search(rb"^\S+ error forged", raw, re.M) and not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", raw), raw
    for words in (["pawl-status"], ["pawl-status", "--json"], ["pawl-setup", "--adopt", "t2", "--dir", field.dir]):
        done = field.run(*words, stdin=b"n\n")
        assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", done.stdout + done.stderr) and b"\nforged" not in done.stdout, done


# --- the programs themselves ---


def sanitized(name):
    return b"__asan_init" in Path(program(name)).read_bytes() or b"__tsan_init" in Path(program(name)).read_bytes()


@pytest.mark.parametrize("name", PROGRAMS)
def test_hardened(name):
    """Position independent, its tables read-only before main, no executable stack, and checked copies where they can be."""
    need_program("readelf", "looking at the programs")
    if sanitized(name):
        pytest.skip("a build for sanitizers")
    def readelf(*flags):
        return command("readelf", "--wide", *flags, program(name)).stdout
    headers, dynamic, symbols = readelf("--headers"), readelf("--dynamic"), readelf("--dyn-syms")
    missing = []
    if not re.search(r"Type:\s+DYN \(Position-Independent Executable", headers):
        missing.append("PIE")
    if "GNU_RELRO" not in headers:
        missing.append("RELRO")
    if not re.search(r"BIND_NOW|FLAGS.*\bNOW\b", dynamic):
        missing.append("BIND_NOW")
    stack = re.search(r"GNU_STACK.*", headers)
    if not stack or re.search(r"\bRWE\b", stack[0]):
        missing.append("a stack that is not executable")
    if "__stack_chk_fail" not in symbols:
        missing.append("stack protector")
    if not re.search(r"__\w+_chk\b", symbols.replace("__stack_chk_fail", "")):
        missing.append("_FORTIFY_SOURCE")
    if re.search(r"RPATH|RUNPATH", dynamic):
        missing.append("no RPATH")
    if re.search(r"TEXTREL", dynamic):
        missing.append("no text relocations")
    # The mark of the whole program would need a C library built with it; the landing pads are there or not.
    if os.uname().machine == "x86_64" and Path(program(name)).read_bytes().count(b"\xf3\x0f\x1e\xfa") < 20:
        missing.append("control-flow protection")
    assert not missing, f"{name} lacks: {', '.join(missing)}"
