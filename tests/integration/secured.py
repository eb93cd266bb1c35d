"""A server with TLS and known users only, and the roles of docs/security.md on it."""
import json
import re
import uuid

import pymongo

from disks import command
from harness import ROOT, Mongod, free_port, run, wait_until

PASSWORDS = {"operator": "0perat0r-Gehe1m", "worker": "w0rker-S3cret", "viewer": "v1ewer-S3cret", "producer": "pr0ducer-S3cret", "root": "r00t-S3cret"}
COLLECTIONS = ("messages", "locks", "ledger", "wakeups", "workers")


def documented_roles(db):
    """The roles of docs/security.md, for the database `db`, by the name of the user they are for: the page is what is tested."""
    text = (ROOT / "docs/security.md").read_text()
    roles = [json.loads(found.replace('"DB"', f'"{db}"')) for found in re.findall(r"```json\n(.*?)```", text, re.S)]
    return {role["createRole"].removeprefix("pawl-"): role for role in roles}


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
                "--tlsAllowConnectionsWithoutCertificates", "--setParameter", "enableTestCommands=1", "--setParameter", "diagnosticDataCollectionEnabled=false")
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

    def change(self, command, user):
        """Takes a user's roles away, or gives them back."""
        roles = [role for _, name, role in self.names if name == user]
        self.server.client.admin.command(command, user, roles=roles)

    def close(self):
        for source, user, role in self.names:
            self.server.client[source].command("dropUser", user)
            self.server.client.admin.command("dropRole", role)


def secretless(*texts):
    for text in texts:
        text = text.decode(errors="replace") if isinstance(text, bytes) else text
        for password in PASSWORDS.values():
            assert password not in text, text
