"""A stack of containers by the Compose files of the top folder, under a name of its own; nothing of it is left at the end."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "chaos"), str(HERE.parent / "integration")]

import pymongo  # noqa: E402
from pymongo.errors import PyMongoError  # noqa: E402

import reader  # noqa: E402
from harness import ROOT, environment, wait_until  # noqa: E402
from verdict import judge  # noqa: E402

RUN = os.environ.get("PAWL_TEST_RUN", f"pawl-test-{os.getpid()}")
IMAGE = os.environ.get("PAWL_TEST_IMAGE", "pawl-test")
COMPOSE = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
PROJECT = "com.docker.compose.project"
TIGHT = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
LEASE_S = 3
EVENT = ('{"kind": "{{.Action}}", "service": "{{index .Actor.Attributes "com.docker.compose.service"}}", '
         '"exitCode": "{{.Actor.Attributes.exitCode}}", "signal": "{{.Actor.Attributes.signal}}"}')
NODES = {"one": ["mongo"], "two": ["mongo"], "three": ["mongo", "mongo2", "mongo3"]}
MORE = {"two": ["docker-compose.two-sets.yml"], "three": ["docker-compose.three.yml"]}


def command(*words, env=None, check=True, timeout=120, stdin=None):
    done = subprocess.run(list(map(str, words)), capture_output=True, check=False, timeout=timeout, env=env, cwd=ROOT, input=stdin,
                          stdin=subprocess.DEVNULL if stdin is None else None)
    assert not check or done.returncode == 0, f"{' '.join(map(str, words))}: exit {done.returncode}: {(done.stdout + done.stderr).decode()}"
    return done


def docker(*words, **more):
    return command("docker", *words, **more).stdout.decode().strip()


def log(container):
    """What it has said; a worker does on stderr."""
    return command("docker", "logs", container).stderr.decode(errors="replace")


def inspect(container, template):
    return json.loads(docker("inspect", "--format", f"{{{{json {template}}}}}", container))


def unique_name():
    return f"{RUN}-{uuid.uuid4().hex[:6]}"


class Stack:
    def __init__(self, kind, **options):
        self.kind, self.nodes, self.name = kind, NODES[kind], unique_name()
        self.uri = f"mongodb://{','.join(self.nodes)}/?replicaSet=rs0"
        self.env = environment(COMPOSE_PROJECT_NAME=self.name, PAWL_IMAGE=IMAGE, PAWL_LEASE=f"{LEASE_S}s", TEST_URI=self.uri,
                               TEST_SEED=self.name, **options)
        self.files = ["docker-compose.yml", *MORE.get(kind, []), "tests/compose/test.yml"]
        self.clients, self.folder = {}, Path(tempfile.mkdtemp(dir=os.environ.get("PAWL_TEST_TMP")))
        self.event_log = self.folder / "events"
        with open(self.event_log, "wb") as log_file:  # as they come: the daemon remembers few
            self.event_reader = subprocess.Popen(["docker", "events", "--filter", f"label={PROJECT}={self.name}", "--filter", "event=die", "--filter",
                                                  "event=kill", "--format", EVENT], stdin=subprocess.DEVNULL, stdout=log_file)

    def compose(self, *words, **more):
        return command(*COMPOSE, *[word for file in self.files for word in ("-f", file)], *words, env=self.env, **more)

    def up(self, *words, **scale):
        self.compose("up", "-d", "--no-build", *words, *[word for name, n in scale.items() for word in ("--scale", f"{name.replace('_', '-')}={n}")])

    def remove(self):
        """Whatever has the project's label."""
        mine = f"label={PROJECT}={self.name}"
        for words, remove in ((("ps", "-aq", "--no-trunc"), ("rm", "-f", "-v")), (("network", "ls", "-q"), ("network", "rm")),
                              (("volume", "ls", "-q"), ("volume", "rm", "-f"))):
            found = docker(*words, "--filter", mine).split()
            if found:
                docker(*remove, *found, check=False)
        self.event_reader.kill()
        self.event_reader.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    # containers

    def containers(self, service, *filters):
        return docker("ps", "-aq", "--no-trunc", "--filter", f"label={PROJECT}={self.name}", "--filter", f"label=com.docker.compose.service={service}",
                      *[word for one in filters for word in ("--filter", one)]).split()

    def workers(self, *filters):
        return self.containers("worker", *filters) + self.containers("worker-t2", *filters)

    def wait_healthy(self):
        wait_until(lambda: all(inspect(one, ".State.Health.Status") == "healthy" for one in self.workers("status=running")),
                   lambda: f"healthy workers: {[inspect(one, '.State.Health') for one in self.workers()]}", 120)

    def events(self, kind):
        """(service, exit code or signal) of each of this kind so far."""
        whole = self.event_log.read_text().rpartition("\n")[0]  # Docker writes a line in pieces
        found = map(json.loads, whole.splitlines())
        return [(event["service"], event["exitCode"] or event["signal"]) for event in found if event["kind"] == kind]

    def run(self, *words, **more):
        """A program of the image, as the tools' service runs it."""
        return command("docker", "run", "--rm", "-i", "--name", unique_name(), "--label", f"{PROJECT}={self.name}", "--network",
                       f"{self.name}_default", "-v", f"{self.name}_files:/var/lib/pawl", "-v", f"{self.name}_state:/var/lib/pawl-state", *TIGHT, IMAGE, *words, check=False, **more)

    def copy(self, volume, to):
        """What is in the volume, as a folder here."""
        shutil.rmtree(to, ignore_errors=True)
        container = docker("create", "--name", unique_name(), "--label", f"{PROJECT}={self.name}", "-v", f"{self.name}_{volume}:/volume", IMAGE)
        docker("cp", f"{container}:/volume", to)
        docker("rm", "-v", container)
        return Path(to)

    # the database, from outside

    def client(self, node):
        networks = inspect(self.containers(node)[0], ".NetworkSettings.Networks")
        address = networks[f"{self.name}_default"]["IPAddress"]
        if address and address not in self.clients:
            self.clients[address] = pymongo.MongoClient(address, directConnection=True, serverSelectionTimeoutMS=2000, socketTimeoutMS=5000)
        return self.clients.get(address)

    def primary(self):
        """(service, database) of the primary; None when there is none."""
        for node in self.nodes:
            try:
                client = self.client(node)
                if client and client.admin.command("hello")["isWritablePrimary"]:
                    return node, client.pawl
            except PyMongoError:
                pass
        return None

    def database(self):
        return wait_until(self.primary, "a primary")[1]

    def has_three(self, node):
        """Whether it is a member of the set."""
        try:
            return len(self.client(node).admin.command("hello").get("hosts", [])) == 3
        except PyMongoError:
            return False

    def look(self, what):
        """what(database), or None while there is no answer."""
        try:
            found = self.primary()
            return what(found[1]) if found else None
        except PyMongoError:
            return None

    def ledger(self, name):
        """One that is just being made has no seq yet."""
        return {"epoch": 0, "seq": 0, **(self.look(lambda database: database.ledger.find_one({"_id": name})) or {})}

    def holder(self, name):
        """The container that holds the type, or None."""
        lock = self.look(lambda database: database.locks.find_one({"type": name, "slot": 0}))
        return next((one for one in self.workers() if lock and one.startswith(lock["holder"]["host"])), None)

    def wait_holder(self, name):
        return wait_until(lambda: self.holder(name), f"a holder of {name}")

    def wait_progress(self, *names):
        for name in names:
            seq = wait_until(lambda: self.ledger(name)["seq"], f"a ledger of {name}")
            wait_until(lambda: self.ledger(name)["seq"] > seq, f"progress of {name}")

    # the comparison

    def wait_settled(self, name):
        def settled(database):
            ledger = database.ledger.find_one({"_id": name})
            return not database.messages.find_one({"type": name}) and ledger["clean"] and ledger["seq"] == ledger["settled"]
        wait_until(lambda: self.look(settled), lambda: f"an empty queue and a clean end of {name}: {self.ledger(name)}", 90)

    def compare(self, name):
        """Everything that was acknowledged is in the files, once and in order, by tests/reader.py and by the image's pawl-dump."""
        self.wait_settled(name)
        database, files, sent = self.database(), self.copy("files", self.folder / "files"), self.copy("sent", self.folder / "sent")

        def dump(with_ledger, *words):
            return self.run("pawl-dump", "--type", name, *(["--uri", self.uri] if with_ledger else []), *words)
        counts, problems = judge(name, files, database, sent, lambda with_ledger: dump(with_ledger, "--verify"))
        assert not problems, problems
        assert counts["acknowledged"] > 0, counts
        messages = reader.read_type(files, name, database.ledger.find_one({"_id": name}))
        assert dump(True, "--format", "bson").stdout == b"".join(message.raw for message in messages)
        print(f"{self.kind} {name}: {counts['acknowledged']} acknowledged, {counts['unknown']} unknown, {counts['messages']} in "
              f"{counts['segments']} segments; lost 0, doubled 0, out of order 0")
