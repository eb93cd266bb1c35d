"""TLS, SCRAM, least privilege, secrets, file modes, hostile documents, hardened programs. What is promised is in docs/security.md."""
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import bson
import pymongo
import pytest
from bson.int64 import Int64
from pymongo.errors import OperationFailure

import reader
from disks import command, need_program
from harness import CALM, ROOT, Mongod, answered, environment, free_port, program, run, wait_until
from test_exit_codes import codes, table
from proxy import Proxy
from test_health import Port

PASSWORDS = {"operator": "0perat0r-Gehe1m", "worker": "w0rker-S3cret", "viewer": "v1ewer-S3cret", "producer": "pr0ducer-S3cret", "root": "r00t-S3cret"}
PROGRAMS = ["pawl-worker", "pawl-enqueue", "pawl-dump", "pawl-status", "pawl-setup", "pawl-lock"]


COLLECTIONS = ("messages", "locks", "ledger", "wakeups")


def documented_roles(db):
    """The roles of docs/security.md, for the database `db`, by the name of the user they are for: the page is what is tested."""
    text = (ROOT / "docs/security.md").read_text()
    roles = [json.loads(found.replace('"DB"', f'"{db}"')) for found in re.findall(r"```json\n(.*?)```", text, re.S)]
    return {role["createRole"].removeprefix("pawl-"): role for role in roles}


# For a worker with many types at once: QUICK would be thousands of requests a second, and leases that a busy machine does not renew in time.
MANY_TYPES = [*CALM, "--poll", "1s", "--retry", "200ms"]


def side_by_side(*calls):
    """What each call returns, in order; they wait together."""
    with ThreadPoolExecutor(48) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


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

    def uri_of_certificate(self, more=""):
        """No password: the user is the subject of the client's certificate."""
        return (f"mongodb://127.0.0.1:{self.port}/?replicaSet=rs0&authMechanism=MONGODB-X509&authSource=$external"
                f"&tls=true&tlsCAFile={self.tls}/ca.crt{more}")


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


class Users:
    """Roles and users of a test's own, gone at its end."""

    def __init__(self, server):
        self.server, self.names = server, []

    def add(self, user, *roles, source="admin", **password):
        """A user with roles that are given as on the page, for any databases."""
        name = f"{user}-{uuid.uuid4().hex[:8]}"
        admin = self.server.client.admin
        privileges = [place for role in roles for place in role["privileges"]]
        admin.command("createRole", name, privileges=privileges, roles=[])
        self.server.client[source].command("createUser", user, roles=[{"role": name, "db": "admin"}], **password)
        self.names.append((source, user, name))

    def uri(self, user):
        """Of one whose password is the worker's."""
        return self.server.uri_of(user, password=PASSWORDS["worker"])

    def close(self):
        for source, user, role in self.names:
            self.server.client[source].command("dropUser", user)
            self.server.client.admin.command("dropRole", role)


@pytest.fixture
def users(secured):
    made = Users(secured)
    yield made
    made.close()


@pytest.fixture
def guarded(secured, users, make_field):
    """A field on it, its collections made by the operator's user, with the documented roles and a user for each."""
    field = make_field(secured)
    for user, role in documented_roles(field.name).items():
        users.add(user, role, pwd=PASSWORDS[user])
    field.as_user = lambda user, **more: ["--uri", secured.uri_of(user, **more), "--db", field.name]
    return field


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
    worker = field.worker(*CALM, "--linger", "1h")
    wait_until(lambda: (field.ledger() or {}).get("seq") == 3 and field.queued() == 0, field.logs)
    status = run("pawl-status", "--json", *field.as_user("viewer"))
    assert status.returncode == 0 and json.loads(status.stdout)["holder"]["pid"] == worker.pid, status
    dump = run("pawl-dump", "--format", "payload", "--dir", field.dir, "--type", "t1", *field.as_user("viewer"))
    assert dump.returncode == 0 and dump.stdout.split() == [b"one", b"two", b"three"], dump
    assert worker.stop()[0] == 0, str(worker)
    epoch = field.ledger()["epoch"]
    lock = run("pawl-lock", "-v", *field.as_user("worker"), "t1", "--", "sh", "-c", "echo $PAWL_LOCK_EPOCH")
    assert lock.returncode == 0 and int(lock.stdout) > epoch, lock
    secretless(worker.log(), done.stderr, status.stderr, dump.stderr, lock.stderr)
    field.ledgers.delete_one({"_id": "t1"})
    done = run("pawl-setup", *field.as_user("operator"), "--adopt", "t1", "--dir", field.dir, "--yes")
    assert done.returncode == 0, done


def test_slow_link_with_tls(prepared):
    """A reply may take as long as its bytes come, below TLS too: here 2 s, where a request has one."""
    field, server = prepared, prepared.server
    link = Proxy(server, rate=2000000, sealed=True)
    uri = server.uri_of("worker", more="&directConnection=true").replace(f":{server.port}/", f":{link.listener.getsockname()[1]}/")
    field.fill(1, size=4000000)
    worker = field.worker("--exit-when-empty", "--lease", "3s", quick=False, mongo=["--uri", uri, "--db", field.name])
    assert worker.wait() == 0, str(worker)
    link.close()
    assert len(reader.read_type(field.dir, "t1", field.ledger())) == 1


def test_client_certificate(prepared, users):
    """Shown to the server: it is the user, by X.509, and there is no password at all."""
    field, server = prepared, prepared.server
    users.add("CN=client", *documented_roles(field.name).values(), source="$external")
    field.mongo = ["--uri", server.uri_of_certificate(f"&tlsCertificateKeyFile={server.tls}/client.pem"), "--db", field.name]
    done = field.run("pawl-enqueue", "--type", "t1", stdin=b"one\ntwo\n")
    assert done.returncode == 0, done
    field.drain()
    assert [reader.text(reader.element(m.raw, b"payload")) for m in reader.read_type(field.dir, "t1", field.ledger())] == ["one", "two"]


REFUSED, AWAY = "MongoDB refuses these credentials: ", "No suitable servers"
WRONG = {  # what of the URI is wrong; how the line begins, and what it must say
    "wrong CA": (lambda server: server.uri_of("worker", ca="other-ca.crt"), AWAY, "certificate verify failed"),
    "the system's CAs": (lambda server: re.sub("&tlsCAFile=.*", "", server.uri_of("worker")), AWAY, "certificate verify failed"),
    "another host": (lambda server: server.uri_of("worker").replace("127.0.0.1", "localhost").replace("replicaSet=rs0", "directConnection=true"),
                     AWAY, "hostname mismatch"),
    "no TLS": (lambda server: re.sub("&tls=.*", "", server.uri_of("worker")), AWAY, r"expired: \[.+\]"),
    "wrong password": (lambda server: server.uri_of("worker", password="wr0ng-S3cret"), REFUSED, "Authentication failed"),
    "wrong source": (lambda server: server.uri_of("worker").replace("authSource=admin", "authSource=nowhere"), REFUSED, "Authentication failed"),
    "wrong mechanism": (lambda server: server.uri_of("worker", more="&authMechanism=PLAIN"), REFUSED, "PLAIN"),
    "no certificate": (lambda server: server.uri_of_certificate(), REFUSED, "X-509"),
}


@pytest.mark.slow
def test_wrong_credentials(prepared):
    """A worker waits, and says why, once; the others end. Nobody says a password; a refusal is not taken for an absent server."""
    field = prepared
    field.fill(5)
    uris = {name: ["--uri", uri(field.server), "--db", field.name] for name, (uri, _, _) in WRONG.items()}
    workers = {name: field.worker("--lease", "10s", mongo=uri) for name, uri in uris.items()}  # so that a request may take 3 s
    programs = [("pawl-status",), ("pawl-enqueue", "--type", "t1"), ("pawl-setup", "--timeout", "20s")]
    # pawl-enqueue outlasts an election, and so all the workers' time to repeat themselves.
    ended = side_by_side(*(lambda words=words, uri=uri: run(words[0], *uri, *words[1:], stdin=b"x\n") for uri in uris.values() for words in programs))
    for name, (_, begin, words) in WRONG.items():
        worker = workers[name]
        worker.wait_log(f" database: .*{begin}")
        said = [line for line in worker.log().splitlines() if " database: " in line]
        if begin == REFUSED:  # a refusal may come too late the first time
            said = [line for line in said if "MongoDB gives no answer" not in line]
        mine, ended = ended[:len(programs)], ended[len(programs):]
        assert worker.alive() and len(said) == 1, f"{name}: {worker}"
        for text in (said[0], *(done.stderr.decode() for done in mine)):
            assert begin in text and (begin == AWAY or re.search(words, text)), f"{name}: {text}"
        assert re.search(words, mine[1].stderr.decode()), f"{name}: {mine[1]}"  # in 3 s the driver does not always hear why
        assert all(done.returncode == 69 for done in mine), (name, mine)
        assert (": " + REFUSED in said[0]) == (begin == REFUSED) == ("MongoDB gives no answer" not in said[0]), said
        assert ("cannot reach MongoDB" in mine[1].stderr.decode()) == (begin == AWAY), mine[1]
        assert worker.stop()[0] == 0, str(worker)
        secretless(worker.log(), *(done.stdout + done.stderr for done in mine))
        assert "wr0ng-S3cret" not in worker.log() and not any(b"wr0ng-S3cret" in done.stdout + done.stderr for done in mine), name
    assert field.queued() == 5 and field.segments() == []


@pytest.mark.parametrize("cause", ["a right is missing", "the credentials are refused"])
def test_exit_code_is_the_same_in_all_programs(prepared, users, tmp_path, cause):
    users.add("nobody", {"privileges": []}, pwd=PASSWORDS["worker"])
    uri = users.uri("nobody") if cause == "a right is missing" else prepared.server.uri_of("worker", password="wr0ng-S3cret")
    found, said = codes(tmp_path, "--uri", uri, "--db", prepared.name)
    assert found == dict.fromkeys(found, table()[cause]), said


def test_options_that_turn_checking_off(prepared):
    """Each turns off what the page says, and no more."""
    uri = prepared.server.uri_of("viewer").replace("replicaSet=rs0", "directConnection=true")
    cases = {(option, host, ca): allowed for option, hosts, cas in [
        ("tlsInsecure", True, True), ("tlsAllowInvalidCertificates", True, True), ("tlsAllowInvalidHostnames", True, False)]
        for host, ca, allowed in [("localhost", "ca", hosts), ("127.0.0.1", "other-ca", cas)]}
    calls = [lambda option=option, host=host, ca=ca: run("pawl-status", "--db", prepared.name, "--uri", uri.replace("127.0.0.1", host).replace(
        "/ca.crt", f"/{ca}.crt") + f"&{option}=true") for option, host, ca in cases]
    for (case, allowed), done in zip(cases.items(), side_by_side(*calls)):
        assert done.returncode == (0 if allowed else 69), (case, done)


def test_without_a_user(prepared):
    """The server asks for one: that is no silence, either, and is said without waiting."""
    field = prepared
    field.fill(1)
    uri = ["--uri", re.sub("//.*@", "//", field.server.uri_of("worker")), "--db", field.name]
    worker = field.worker(mongo=uri)
    assert worker.wait(20) == 2 and re.search("refused: MongoDB does not permit it: .* requires authentication", worker.log()), str(worker)
    for name, arguments in (("pawl-status", []), ("pawl-enqueue", ["--type", "t1"]), ("pawl-setup", [])):
        done = run(name, *uri, *arguments, stdin=b"x\n")
        assert done.returncode == 2 and b"requires authentication" in done.stderr, done


def test_user_is_dropped_and_made_again(prepared, tmp_path):
    """What was connected before has lost its login, and connects anew: a worker with its wake-ups, a command that holds a lock, a stream."""
    field, admin, go = prepared, prepared.server.client.admin, tmp_path / "go"
    field.mongo = field.as_user("worker")
    worker = field.worker("--linger", "300ms")
    lock = subprocess.Popen([program("pawl-lock"), *field.mongo, "--lease", "3s", "job", "--", "sh", "-c", f"until [ -e {go} ]; do sleep 0.1; done"],
                            env=environment(), stderr=subprocess.PIPE)
    stream = subprocess.Popen([program("pawl-enqueue"), *field.as_user("producer"), "--type", "t1"], env=environment(), stdin=subprocess.PIPE,
                              stderr=subprocess.PIPE)

    def send(text):
        stream.stdin.write(text)
        stream.stdin.flush()

    def seq():
        return (field.ledger() or {}).get("seq", 0)
    try:
        send(b"one\n")
        wait_until(lambda: seq() == 1 and field.locks.count_documents({"type": "job"}) == 1, lambda: f"a message of {worker}")
        for user in ("worker", "producer"):
            roles = admin.command("usersInfo", user)["users"][0]["roles"]
            admin.command("dropUser", user)
            admin.command("createUser", user, pwd=PASSWORDS[user], roles=roles)
        again = field.locks.find_one({"type": "job"})["expires_at"] + timedelta(seconds=2)
        send(b"two\n")
        wait_until(lambda: seq() == 2, lambda: f"a second message of {worker}; {stream.poll()}")
        wait_until(lambda: lock.poll() is not None or field.locks.find_one({"type": "job"})["expires_at"] > again, "renewals of pawl-lock")
        wait_until(lambda: "wake-ups are lost" not in worker.log() or "wake-ups come again" in worker.log(), lambda: f"wake-ups of {worker}")
        assert stream.communicate(b"three\n", timeout=60) and stream.returncode == 0
        wait_until(lambda: seq() == 3, lambda: f"a third message of {worker}")
        go.touch()
        assert lock.wait(60) == 0, lock.stderr.read()
        assert worker.stop()[0] == 0, str(worker)
    finally:
        lock.kill()
        stream.kill()


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
        assert " warn  database: " in worker.log(), str(worker)
    admin.command("updateUser", "worker", pwd=PASSWORDS["worker"])
    field.wait_settled()
    assert worker.stop()[0] == 0 and pid == field.server.pid(), str(worker)
    secretless(worker.log())
    field.mongo = field.as_user("root")
    field.compare()


def test_the_health_port_tells_of_a_refusal_and_no_secret(prepared):
    """Not ready while nobody answers, or the password is wrong, each in its words; ready when it is right again."""
    field = prepared
    field.mongo = field.as_user("worker")
    admin, port = field.server.client.admin, free_port()

    def page(path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except OSError:
            return ""
    admin.command("updateUser", "worker", pwd="an0ther-S3cret")
    os.kill(field.server.pid(), signal.SIGSTOP)
    try:
        worker = field.worker(*CALM, "--listen", f"127.0.0.1:{port}")
        wait_until(lambda: page("/readyz").startswith("MongoDB gives no answer"), lambda: page("/readyz") + str(worker))
        os.kill(field.server.pid(), signal.SIGCONT)
        wait_until(lambda: page("/readyz").startswith("MongoDB refuses"), lambda: page("/readyz") + str(worker))
        assert "pawl_database_answers 0" in page("/metrics")
        secretless(page("/readyz"), page("/metrics"))
    finally:
        os.kill(field.server.pid(), signal.SIGCONT)
        admin.command("updateUser", "worker", pwd=PASSWORDS["worker"])
    wait_until(lambda: page("/readyz") == "ready\n", lambda: page("/readyz") + str(worker))
    wait_until(lambda: "pawl_database_answers 1" in page("/metrics"), lambda: page("/metrics"))
    secretless(page("/metrics"))
    assert worker.stop()[0] == 0, str(worker)


def test_another_user_without_a_gap(prepared, users):
    """As docs/running.md says: a second user of the same role, the workers one after the other, then the first user goes."""
    field = prepared
    users.add("second", documented_roles(field.name)["worker"], pwd=PASSWORDS["worker"])
    second = ["--uri", users.uri("second"), "--db", field.name]
    old = [field.worker(*CALM, "--linger", "1h", mongo=field.as_user("worker")) for _ in range(2)]
    for _ in range(2):
        field.fill(50)
        field.wait_empty()
        field.worker(*CALM, "--linger", "1h", mongo=second)
        assert old.pop().stop()[0] == 0, field.logs()
    roles = [role for _, user, role in users.names if user == "worker"]
    field.server.client.admin.command("revokeRolesFromUser", "worker", roles=roles)
    field.fill(50)
    field.wait_empty()
    assert all("MongoDB " not in line for worker in field.workers for line in worker.log().splitlines() if " warn " in line), field.logs()
    assert [worker.stop()[0] for worker in field.workers if worker.alive()] == [0, 0]
    field.mongo = field.as_user("root")
    field.compare()


def test_ready_again_after_a_right_is_back(prepared, users):
    """Though what a holder was refused is not sent again, for nothing is left to be done."""
    field, admin, number = prepared, prepared.server.client.admin, free_port()
    field.mongo, port = field.as_user("worker"), Port(number)
    worker = field.worker("--listen", f"127.0.0.1:{number}", "--lease", "3s", "--linger", "1h")
    field.fill(10)
    field.wait_empty()
    roles = [role for _, user, role in users.names if user == "worker"]
    admin.command("revokeRolesFromUser", "worker", roles=roles)
    port.wait("/readyz", 503, "MongoDB refuses a request")
    worker.wait_log(" lost: ")
    admin.command("grantRolesToUser", "worker", roles=roles)
    port.wait("/readyz", 200)
    assert worker.stop()[0] == 0, str(worker)


def test_a_right_is_taken_away_for_a_moment(prepared, users):
    """A worker that once had all rights waits for them; one that begins without them ends."""
    field, admin = prepared, prepared.server.client.admin
    field.mongo = field.as_user("worker")
    worker = field.worker(*CALM)
    field.fill(10)
    field.wait_settled()
    before = len(worker.log())
    roles = [role for _, user, role in users.names if user == "worker"]
    admin.command("revokeRolesFromUser", "worker", roles=roles)
    worker.wait_log(" warn  database: MongoDB does not permit it: ")
    assert field.worker().wait(30) == 2, field.logs()
    assert worker.alive() and "MongoDB answers again" not in worker.log()[before:], str(worker)
    admin.command("grantRolesToUser", "worker", roles=roles)
    field.fill(10)
    field.wait_settled()
    worker.wait_log(" info  database: MongoDB answers again")
    assert worker.stop()[0] == 0 and " error " not in worker.log(), str(worker)
    field.mongo = field.as_user("root")
    field.compare()


# --- secrets ---

def command_lines(pid):
    """Of the process and its children."""
    seen = set()
    for entry in Path("/proc").iterdir():
        try:
            parent = entry.name.isdigit() and int(re.search(r"PPid:\s+(\d+)", (entry / "status").read_text())[1])
            if parent == pid or entry.name == str(pid):
                seen.add((entry / "cmdline").read_bytes())
        except OSError:
            continue
    return seen


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
    # pawl-dump while it asks for the ledger: its own command line, and of whatever it might start.
    follower = subprocess.Popen([program("pawl-dump"), *map(str, words), "--db", field.name, "--dir", str(field.dir), "--type", "t1", "-f",
                                 "--format", "none"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(**env))
    try:
        name, seen = field.app_name("pawl-dump"), set()
        connected = [{"$currentOp": {"allUsers": True, "idleConnections": True}}, {"$match": {"appName": name}}]
        end = time.monotonic() + 60
        while not list(field.server.client.admin.aggregate(connected)) and time.monotonic() < end:
            seen |= command_lines(follower.pid)
        assert time.monotonic() < end, f"no connection of {name}"
        for _ in range(5):
            field.fill(1)  # when a file grows, it asks
            field.wait_empty()
            seen |= command_lines(follower.pid)
        assert len(seen) == 1 and b"pawl-dump" in min(seen), seen
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


def test_malformed_uri_gives_nothing_away(tmp_path):
    """By each program, on the command line and in a file."""
    programs = [("pawl-worker", "--type", "t1", "--exit-when-empty", "--timeout", "1s"), ("pawl-status",), ("pawl-enqueue", "--type", "t1"),
                ("pawl-setup", "--timeout", "1s"), ("pawl-dump", "--dir", tmp_path, "--type", "t1")]
    calls = []
    for n, uri in enumerate(NASTY):
        file = tmp_path / f"uri{n}"
        file.write_text(uri)
        for name, *arguments in programs:
            for words in (["--uri", uri], ["--uri-file", file]):
                calls.append(lambda name=name, words=[*words, *arguments], uri=uri: (uri, run(name, *words, stdin=b"x\n")))
    for uri, done in side_by_side(*calls):
        assert done.returncode == (69 if "#" in uri else 2), done  # the driver takes that character: no such host answers
        assert b"cr3t" not in done.stdout + done.stderr, done


# --- least privilege ---


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
    """Those on `wakeups` are not: test_wakeups_are_not_needed."""
    return [(resource, action) for resource, action in privileges_of(role) if not resource["collection"].startswith("wakeups")]


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
        victim = field.worker("--batch-messages", 50, "--segment-bytes", "64KiB", env={"PAWL_FAULT": point})
        assert victim.wait() == -9, str(victim)
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


NO_TYPES = ["../t1", "a/b", "/etc/passwd", "..", ".", ".t1", "-t1", "t1\n", "a\0b", "t 1", "t1@5", "ü", "", "x" * 129, "%2e%2e"]


def test_type_is_no_path(field):
    """A message's type is never made a path: such a type cannot be asked for, and such a message stays where it is."""
    field.messages.insert_many([{"type": name} for name in ["t1", *NO_TYPES]])
    before = set(field.folder.rglob("*"))
    calls = []
    for name in NO_TYPES:
        if "\0" not in name:
            for words in (["pawl-worker", "--type", name], ["pawl-setup", "--adopt", name, "--yes"], ["pawl-dump", "--type", name]):
                calls.append(lambda words=words: field.run(*words, "--dir", field.dir))
    for done in side_by_side(*calls):
        assert done.returncode == 2 and re.search(b"--type|--adopt", done.stderr), done
    assert set(field.folder.rglob("*")) == before
    field.drain()
    assert field.segments() == ["t1.bin"] and field.messages.count_documents({}) == len(NO_TYPES)
    assert {path.name for path in field.dir.iterdir()} == {"t1.bin"}


NO_SEGMENTS = ["../../etc/x.bin", "/etc/passwd", "TYPE/../TYPE.bin", "other.bin", "TYPE@.bin", "TYPE@0.bin", "TYPE@05.bin", "TYPE@-5.bin", "TYPE@5.bin.bin",
               "TYPE@1000000000000000000.bin", "TYPE@99999999999999999999.bin", "TYPE.bin\n", "TYPE.bin\0", "TYPE.bin.bak", "TYPE", "", "x" * 5000]


def test_file_of_a_ledger_is_no_path(field):
    """Whoever may write to the ledger cannot make a worker or a reader open another file. Each name with a type of its own."""
    types = [f"f{n}" for n in range(len(NO_SEGMENTS))]
    for name in types:
        field.fill(5, name)
    field.drain(*MANY_TYPES, types=types)
    good, files = {name: field.ledger(name) for name in types}, sorted(path.name for path in field.dir.iterdir())
    for name, file in zip(types, NO_SEGMENTS):
        field.fill(5, name)
        field.ledgers.update_one({"_id": name}, {"$set": {"file": file.replace("TYPE", name)}})
    worker = field.worker(*MANY_TYPES, types=types, env={"PAWL_TEST_DISTRUST_MS": "300"})
    assert worker.wait() == 74, str(worker)
    for name in types:
        assert re.search(rf'error {name} .*the ledger of "{name}" cannot be used: file is "', worker.log()), f"{name}: {worker}"
        assert field.queued(name) == 5
    for done in side_by_side(*(lambda name=name: field.run("pawl-dump", "--dir", field.dir, "--type", name) for name in types)):
        assert done.returncode != 0 and b"root:" not in done.stdout, done
    assert sorted(path.name for path in field.dir.iterdir()) == files
    for name in types:
        field.ledgers.replace_one({"_id": name}, good[name])
    field.drain(*MANY_TYPES, types=types)
    for name in types:
        assert [m.raw for m in reader.read_type(field.dir, name, field.ledger(name))] == field.acknowledged[f"producer of {name}"], name


# --- hostile documents ---

BIG = Int64((1 << 63) - 1)
RUBBISH = [None, True, -1, 0, 2.5, float("nan"), BIG, Int64(-(1 << 63)), "text", "x" * 100000, b"bytes", [], [1], {}, {"a": {"b": 1}}, bson.ObjectId(),
           bson.Decimal128("1E+6000"), bson.MinKey(), bson.Regex("x"), bson.Code("while(1);"), bson.Timestamp(1, 1)]


def alive_or_in_order(worker, codes=(0, 2, 74)):
    """Neither a signal nor a sanitizer's end."""
    status = worker.process.poll()
    assert status is None or status in codes, str(worker)


MISSING = "missing"


def judged(key, value):
    """What is to be said of it: the field that is named; "" where it is the file that disagrees; None: it can be worked with."""
    usable = key == "owner" or (key, repr(value)) in [("guarded", repr(MISSING)), ("clean", "True"), ("items", "0"), ("settled", "0"), ("machine", "'text'"), ("machine", repr(MISSING))]
    if usable:
        return None
    if key == "link" and type(value) in (int, Int64) or (key, value) == ("tail", 0):
        return ""
    return {("seq", "0"): "settled is ", ("file", repr(MISSING)): "uuid is "}.get((key, repr(value)), f"{key} is ")


@pytest.mark.parametrize("keys", [["v", "epoch", "clean"], ["file", "uuid", "link"], ["length", "tail", "machine", "guarded"], ["seq", "items", "settled", "owner"]],
                         ids=" ".join)
def test_hostile_ledger(field, keys):
    """Each field as rubbish of each kind, and missing; each as a type of its own, all at once. Their worker names the field and stops
    the type, or goes on where it can; no byte below the committed end changes, and no message is gone."""
    cases = {}
    for key in keys:
        for n, value in enumerate([*RUBBISH, MISSING]):
            if key != "v" or not (isinstance(value, int) and value > 1):  # that is a newer pawl's, and no rubbish
                cases[f"{key}-{n}"] = (key, value)
    for name in cases:
        field.fill(20, name)
    field.drain(*MANY_TYPES, "--batch-messages", 15, types=cases)
    committed = {name: (field.dir / f"{name}.bin").read_bytes() for name in cases}
    for name, (key, value) in cases.items():
        field.ledgers.update_one({"_id": name}, {"$unset": {key: 1}} if value == MISSING else {"$set": {key: value}})
    before = {name: bson.encode(field.ledger(name)) for name in cases}
    for name in cases:
        field.fill(3, name)
    worker = field.worker(*MANY_TYPES, types=cases, env={"PAWL_TEST_DISTRUST_MS": "300"})
    usable = [name for name, case in cases.items() if judged(*case) is None]
    for name in usable:
        field.wait_settled(name)
    wait_until(lambda: worker.log().count("pawl-setup --adopt ") == len(cases) - len(usable) or not worker.alive(), lambda: str(worker))
    assert (worker.stop()[0] if usable else worker.wait()) == 74, str(worker)
    for name, case in cases.items():
        assert (field.dir / f"{name}.bin").read_bytes()[:len(committed[name])] == committed[name], name
        if name in usable:
            # What counts for people alone (items) is not looked up in the whole file.
            stored = [m.raw for m in reader.read_type(field.dir, name, {**field.ledger(name), "items": 23})]
            assert stored == field.acknowledged[f"producer of {name}"], f"{case}: {worker}"
        else:
            [said] = [line for line in worker.log().splitlines() if f"pawl-setup --adopt {name} " in line]
            words = judged(*case)
            assert (f'the ledger of "{name}" cannot be used: {words}' if words else f"{name}.bin") in said, f"{case}: {said}"
            assert field.queued(name) == 3 and bson.encode(field.ledger(name)) == before[name], f"{case}: {worker}"
    status = field.run("pawl-status", "--json")
    assert status.returncode == 1 and len(status.stdout.splitlines()) == len(cases), status


EDGE = Int64(1 << 62)
COUNT, ABOVE = "a whole number, not negative and below 2^62", "a whole number above 0 and below 2^62"
NUMBERS = [  # what is put into a good ledger; the field that is named and what is expected of it, or what the file has against it
    ({"epoch": BIG}, "epoch is 9223372036854775807, expected a whole number above 0 and at most 2^59"),
    ({"epoch": Int64((1 << 59) + 1)}, "epoch is 576460752303423489, expected"),
    ({"epoch": -1}, "epoch is -1, expected"),
    ({"seq": BIG, "settled": BIG}, f"seq is 9223372036854775807, expected {COUNT}"),
    ({"seq": EDGE}, f"seq is 4611686018427387904, expected {COUNT}"),
    ({"seq": -1}, f"seq is -1, expected {COUNT}"),
    ({"items": BIG}, f"items is 9223372036854775807, expected {COUNT}"),
    ({"items": Int64(-(1 << 63))}, f"items is -9223372036854775808, expected {COUNT}"),
    ({"settled": BIG}, f"settled is 9223372036854775807, expected {COUNT}"),
    ({"settled": 21}, "settled is 21, expected a number not above seq"),
    ({"settled": -1}, f"settled is -1, expected {COUNT}"),
    ({"length": BIG}, f"length is 9223372036854775807, expected {ABOVE}"),
    ({"length": BIG, "tail": BIG - 1}, f"length is 9223372036854775807, expected {ABOVE}"),
    ({"length": 0}, f"length is 0, expected {ABOVE}"),
    ({"tail": EDGE}, f"tail is 4611686018427387904, expected {COUNT}"),
    ({"tail": -4096}, f"tail is -4096, expected {COUNT}"),
    ({"tail": EDGE - 1}, "tail is 4611686018427387903, expected a number below length"),
    ({"length": EDGE - 1}, "4611686018427387903 bytes are committed, the file has"),
    ({"length": EDGE - 1, "tail": EDGE - 2}, "4611686018427387903 bytes are committed, the file has"),
    ({"seq": EDGE - 1, "settled": EDGE - 1, "items": EDGE - 1}, "4611686018427387903"),
    ({"seq": EDGE - 1, "settled": 0}, "4611686018427387903"),
    ({"length": 1, "tail": 0}, ""),
    ({"length": 4096, "tail": 4095}, ""),
    ({"tail": 4097}, ""),
    ({"tail": 0}, ""),
    ({"link": 0}, ""),
    ({"link": BIG}, ""),
]


def test_hostile_numbers_in_a_ledger(field):
    """Of the right type, and absurd: refused with a text that says where, what and why; no overflow, no crash, no harm to what is committed,
    and adopting is the way out. Each with a type of its own."""
    types = [f"n{n}" for n in range(len(NUMBERS))]
    for name in types:
        field.fill(20, name)
    field.drain(*MANY_TYPES, "--batch-messages", 5, types=types)
    committed = {name: (field.dir / f"{name}.bin").read_bytes() for name in types}
    for name, (change, _) in zip(types, NUMBERS):
        field.ledgers.update_one({"_id": name}, {"$set": change})
        field.fill(5, name)
    worker = field.worker(*MANY_TYPES, types=types, env={"PAWL_TEST_DISTRUST_MS": "300"})
    assert worker.wait() == 74, str(worker)
    status = field.run("pawl-status", "--json")
    rows = {row["type"]: row for row in map(json.loads, status.stdout.splitlines())}
    assert status.returncode == 1, status
    for name, (change, expected) in zip(types, NUMBERS):
        said = [line for line in worker.log().splitlines() if f" error {name} " in line]
        assert len(said) == 1 and expected in said[0], f"{change}: {said}"
        if " expected " in expected:
            assert f'the ledger of "{name}" cannot be used: {expected}' in said[0] and expected in rows[name]["problem"], f"{change}: {rows[name]}"
        assert field.queued(name) == 5 and (field.dir / f"{name}.bin").read_bytes() == committed[name], change
    for done in side_by_side(*(lambda name=name: answered(lambda: field.run("pawl-setup", "--adopt", name, "--dir", field.dir, "--yes"))
                               for name in types)):
        assert done.returncode == 0, done
    field.drain(*MANY_TYPES, types=types)
    for name in types:
        assert [m.raw for m in reader.read_type(field.dir, name, field.ledger(name))] == field.acknowledged[f"producer of {name}"], name
    field.compare(types[0], types[-1])


def test_last_epoch(field):
    """The highest that a ledger may have: one more, and it is refused before anything is written in that epoch, so that adopting helps."""
    field.fill(5)
    field.drain()
    committed = (field.dir / "t1.bin").read_bytes()
    field.ledgers.update_one({"_id": "t1"}, {"$set": {"epoch": Int64(1 << 59)}})
    field.fill(5)
    worker = field.worker(env={"PAWL_TEST_DISTRUST_MS": "300"})
    assert worker.wait() == 74 and "epoch is 576460752303423489, expected" in worker.log(), str(worker)
    assert (field.dir / "t1.bin").read_bytes() == committed
    done = field.run("pawl-setup", "--adopt", "t1", "--dir", field.dir, "--yes")
    assert done.returncode == 0, done
    field.drain()
    field.compare()


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
    worker = field.worker(*MANY_TYPES, types=["t1", *types[:60]])
    other = field.worker(*MANY_TYPES, types=types[60:])
    field.wait_settled("t1")
    alive_or_in_order(worker)
    alive_or_in_order(other)
    owners = [name for name in types if name.startswith("owner")]
    wait_until(lambda: all(re.search(rf"{name} .*not pawl's", worker.log() + other.log()) for name in owners), lambda: str(worker))
    taken = [name for name in types if name.startswith("expires_at")]
    wait_until(lambda: all(field.queued(name) == 0 for name in taken), lambda: f"{[n for n in taken if field.queued(n)]} {worker} {other}")
    assert all(field.queued(name) == 1 for name in owners)
    status = field.run("pawl-status", "--json")
    assert status.returncode == 1, status
    done = field.run("pawl-setup", "--adopt", owners[3], "--dir", field.dir, "--yes")
    assert done.returncode == 74 and b"not pawl's" in done.stderr, done
    for each in (worker, other):
        assert each.stop()[0] == 0, str(each)
    field.compare("t1")


# All that the server takes; each must be found again by what is in the file, and deleted.
STRANGE_IDS = [None, False, 0, -0.5, float("nan"), float("inf"), BIG, "", "a\0b", b"", bson.Binary(b"x", 2), bson.Binary(b"x", 6), bson.MinKey(), bson.MaxKey(),
               bson.Timestamp(0, 0), bson.Decimal128("-1E+6000"), bson.Code("while(1);"), bson.Code("x", {"y": 1}), {}, {"": 1}, {"a.b": 1},
               {"a": [1, {"b": 2}]}, {"a": bson.Regex("x")}]


def test_hostile_messages(field):
    """Whatever BSON a producer may insert is written as it is; what is no message of the type is left alone."""
    deep = {"a": 1}
    for _ in range(150):
        deep = {"a": deep}
    strange = [{"type": "t1", "x": value} for value in RUBBISH] + [
        {"type": "t1", "deep": deep}, {"type": "t1", "payload": "x" * (15 << 20)}, {"type": "t1", "": ""}, {"type": "t1", "_pawl": b"x"},
        {"type": "t1", "many": {str(n): n for n in range(20000)}}, {"type": "t1", "$where": "x", "a.b": 1}, {"type": "t1"},
        {"_id": "x" * (1 << 20), "type": "t1"}, {"_id": {"nested": ["x" * 100000] * 20}, "type": "t1"}, {"_id": "../../x", "type": "t1"}]
    strange += [{"_id": value, "type": "t1"} for value in STRANGE_IDS]
    broken = bson.encode({"_id": bson.ObjectId(), "type": "t1", "text": "abcd"}).replace(b"abcd", b"\xff\xfe\xfdd")
    twice = bson.encode({"_id": bson.ObjectId(), "type": "t1", "typo": "t2"}).replace(b"typo", b"type")
    marker = bson.encode({"_id": bson.ObjectId(), "type": "t1", "m": reader.MARKER_START * 20 + reader.HEADER_START})
    symbol = bson.encode({"_id": bson.Code("x"), "type": "t1"}).replace(b"\x0d_id", b"\x0e_id")
    unreadable = bson.encode({"_id": "abcd", "type": "t1"}).replace(b"abcd", b"\xff\xfe\xfdd")
    for document in [*strange, broken, twice, marker, symbol, unreadable]:
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
    nasty = "x\n2026-01-01T00:00:00.000Z error forged: line\x1b[31m\r\x07\x7f\x9b31m"
    control = rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]"
    assert field.run("pawl-setup").returncode == 0
    field.db.locks.insert_one({"type": "t1", "slot": 0, "owner": nasty, "holder": {"host": nasty, "program": nasty}})
    field.db.ledger.insert_one({"_id": "t2", "v": 1, "epoch": nasty, "file": nasty, "clean": nasty})
    field.fill(1, "t1")
    field.fill(1, "t2")
    field.fill(1, nasty)
    worker = field.worker("-v", types=["t1", "t2"], env={"PAWL_TEST_DISTRUST_MS": "500"})
    worker.wait_log("t2 .*the storage cannot be trusted")
    worker.wait_log("not pawl's")
    assert worker.stop()[0] == 74
    raw = worker.log_path.read_bytes()
    assert not re.search(rb"^\S+ error forged", raw, re.M) and not re.search(control, raw), raw
    for words in (["pawl-status"], ["pawl-status", "--json"], ["pawl-setup", "--adopt", "t2", "--dir", field.dir]):
        done = field.run(*words, stdin=b"n\n")
        assert not re.search(control, done.stdout + done.stderr) and b"\nforged" not in done.stdout, done


# --- the programs themselves ---


def test_needs_no_privilege(field):
    """Without any capability, and unable to get one."""
    need_program("setpriv", "dropping privileges")
    field.fill(100)
    field.drain(prefix=["setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"])
    field.compare()


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
