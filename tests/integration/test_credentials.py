"""TLS, SCRAM, client certificates: who is let in, what is said to the others, and what happens when that changes meanwhile."""
import json
import re
import subprocess
from datetime import timedelta

import pytest

import reader
from harness import CALM, environment, program, run, side_by_side, wait_until
from proxy import Proxy
from secured import PASSWORDS, documented_roles, secretless
from test_exit_codes import codes, table


def test_everything_with_tls_and_scram(prepared):
    """Each program as its own user, from the first message to the last poll."""
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


def test_the_viewer_sees_the_queue(prepared):
    """With the rights that the page gives: the oldest too, without a warning about what it may not see."""
    field = prepared
    field.fill(3)
    viewer = field.as_user("viewer")
    row = json.loads(run("pawl-status", "--json", *viewer).stdout)
    assert row["queued"] == 3 and row["oldest_age_ms"] >= 0, row
    check = run("pawl-status", "--check", "--max-documents", 5, *viewer)
    assert check.returncode == 0 and check.stdout.startswith(b"PAWL OK: 1 type, 1 with documents that wait"), check
    assert len(run("pawl-status", "--peek", "t1", *viewer).stdout.splitlines()) == 3


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


# --- while the programs are at work ---


def test_user_is_dropped_and_made_again(prepared, tmp_path):
    """What was connected before has lost its login, and connects anew: a worker with its wake-ups, a command that holds a lock, a stream."""
    field, admin, began, go = prepared, prepared.server.client.admin, tmp_path / "began", tmp_path / "go"
    field.mongo = field.as_user("worker")
    worker = field.worker("--linger", "300ms")
    command = f"touch {began}; until [ -e {go} ]; do sleep 0.1; done"
    lock = subprocess.Popen([program("pawl-lock"), *field.mongo, "--lease", "30s", "job", "--", "sh", "-c", command],
                            env=environment(), stderr=subprocess.PIPE)
    stream = subprocess.Popen([program("pawl-enqueue"), *field.as_user("producer"), "--type", "t1"], env=environment(), stdin=subprocess.PIPE,
                              stderr=subprocess.PIPE)

    def send(text):
        stream.stdin.write(text)
        stream.stdin.flush()

    try:
        send(b"one\n")
        wait_until(lambda: field.seq() == 1 and began.exists(), lambda: f"a message of {worker}")
        for user in ("worker", "producer"):
            roles = admin.command("usersInfo", user)["users"][0]["roles"]
            admin.command("dropUser", user)
            admin.command("createUser", user, pwd=PASSWORDS[user], roles=roles)
        again = field.locks.find_one({"type": "job"})["expires_at"] + timedelta(seconds=2)
        send(b"two\n")
        wait_until(lambda: field.seq() == 2, lambda: f"a second message of {worker}; {stream.poll()}")
        wait_until(lambda: lock.poll() is not None or field.locks.find_one({"type": "job"})["expires_at"] > again, "renewals of pawl-lock")
        wait_until(lambda: "wake-ups are lost" not in worker.log() or "wake-ups come again" in worker.log(), lambda: f"wake-ups of {worker}")
        assert stream.communicate(b"three\n", timeout=60) and stream.returncode == 0
        wait_until(lambda: field.seq() == 3, lambda: f"a third message of {worker}")
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


def test_the_health_port_tells_of_a_refusal_and_no_secret(prepared, listening):
    """Not ready while nobody answers, or the password is wrong, each in its words; ready when it is right again."""
    field = prepared
    field.mongo = field.as_user("worker")
    admin = field.server.client.admin
    admin.command("updateUser", "worker", pwd="an0ther-S3cret")
    try:
        with field.server.frozen():
            worker, port = listening(on=field)
            port.wait("/readyz", 503, "MongoDB gives no answer")
        port.wait("/readyz", 503, "MongoDB refuses")
        assert port.metrics()["pawl_database_answers",] == 0
        secretless(port.page("/readyz")[1], port.page("/metrics")[1])
    finally:
        admin.command("updateUser", "worker", pwd=PASSWORDS["worker"])
    port.wait("/readyz", 200, "ready\n")
    port.wait_metric(("pawl_database_answers",), 1)
    secretless(port.page("/metrics")[1])
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
    users.change("revokeRolesFromUser", "worker")
    field.fill(50)
    field.wait_empty()
    assert all("MongoDB " not in line for worker in field.workers for line in worker.log().splitlines() if " warn " in line), field.logs()
    assert [worker.stop()[0] for worker in field.workers if worker.alive()] == [0, 0]
    field.mongo = field.as_user("root")
    field.compare()


def test_ready_again_after_a_right_is_back(prepared, users, listening):
    """Though what a holder was refused is not sent again, for nothing is left to be done."""
    field = prepared
    field.mongo = field.as_user("worker")
    worker, port = listening("--lease", "3s", "--linger", "1h", on=field)
    field.fill(10)
    field.wait_empty()
    users.change("revokeRolesFromUser", "worker")
    port.wait("/readyz", 503, "MongoDB refuses a request")
    worker.wait_log(" lost: ")
    users.change("grantRolesToUser", "worker")
    port.wait("/readyz", 200)
    assert worker.stop()[0] == 0, str(worker)


def test_a_right_is_taken_away_for_a_moment(prepared, users):
    """A worker that once had all rights waits for them; one that begins without them ends."""
    field = prepared
    field.mongo = field.as_user("worker")
    worker = field.worker(*CALM)
    field.fill(10)
    field.wait_settled()
    before = len(worker.log())
    users.change("revokeRolesFromUser", "worker")
    worker.wait_log(" warn  database: MongoDB does not permit it: ")
    assert field.worker().wait(30) == 2, field.logs()
    assert worker.alive() and "MongoDB answers again" not in worker.log()[before:], str(worker)
    users.change("grantRolesToUser", "worker")
    field.fill(10)
    field.wait_settled()
    worker.wait_log(" info  database: MongoDB answers again")
    assert worker.stop()[0] == 0 and " error " not in worker.log(), str(worker)
    field.mongo = field.as_user("root")
    field.compare()
