"""No password is seen in a log, in an error, in what is printed or in a command line."""
import re
import subprocess
import time
from pathlib import Path

import pytest

from harness import environment, program, run, side_by_side
from secured import PASSWORDS, secretless


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
