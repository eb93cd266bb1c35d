"""A pawl-lock under test, and commands for it."""
import json
import re
import subprocess
import uuid
from datetime import datetime, timedelta, timezone

import bson

from harness import environment, process_state, program, wait_until

LEASE = ["--lease", "30s", "--retry", "50ms"]  # a busy machine renews it in time


class Lock:
    """A pawl-lock whose output goes to files."""

    def __init__(self, folder, arguments, **how):
        self.paths = [folder / what for what in ("output", "errors")]
        with open(self.paths[0], "wb") as output, open(self.paths[1], "wb") as errors:
            self.process = subprocess.Popen([program("pawl-lock"), *map(str, arguments)],
                                            **{"stdin": subprocess.DEVNULL, "stdout": output, "stderr": errors, "env": environment(), **how})
        self.pid = self.process.pid

    def output(self):
        return self.paths[0].read_text(errors="replace")

    def errors(self):
        return self.paths[1].read_text(errors="replace")

    def __str__(self):
        return f"pawl-lock {self.pid} ({self.process.poll()}): {self.output()[-1000:]}\n{self.errors()[-2000:]}"

    def wait(self, deadline=30):
        return wait_until(lambda: self.process.poll() is not None and [self.process.returncode], lambda: f"the end of {self}", deadline)[0]

    def wait_output(self, pattern):
        wait_until(lambda: re.search(pattern, self.output()), lambda: f"/{pattern}/ in the output of {self}")

    def wait_errors(self, pattern):
        wait_until(lambda: re.search(pattern, self.errors()), lambda: f"/{pattern}/ in what it says: {self}")

    def command(self):
        """The pid that the command printed first."""
        self.wait_output(r"^\d+\n")
        return int(self.output().split()[0])


class Holder:
    """pawl-lock --hold, as a program of another language has it."""

    def __init__(self, field, *words):
        self.process = subprocess.Popen([program("pawl-lock"), *field.mongo, "--lease", "30s", "--hold", *words], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())

    def line(self):
        return json.loads(self.process.stdout.readline())

    def end(self):
        """Its input ends; what it still has to say, and its exit code."""
        out, _ = self.process.communicate(timeout=30)
        return [json.loads(line) for line in out.splitlines()], self.process.returncode


class locker:
    def __init__(self, field):
        self.field, self.started = field, []

    def __call__(self, name, *command, options=LEASE, **how):
        """name: None if the options say what is locked."""
        folder = self.field.folder / f"lock{len(self.started)}"
        folder.mkdir()
        self.started.append(Lock(folder, [*self.field.mongo, *options, *([name] if name else []), "--", *command], **how))
        return self.started[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for lock in self.started:
            if lock.process.poll() is None:
                lock.process.kill() # its command gets SIGTERM
                lock.process.wait()


def sh(text):
    return "sh", "-c", text


# Prints its pid, and ends when the file is there.
def until(path, more=""):
    return sh(f"{more} echo $$; while ! [ -e {path} ]; do sleep 0.02; done")


def gone(pid):
    wait_until(lambda: process_state(pid) in (None, "Z"), f"the end of {pid}", 30)


def lock_of(field, name="n"):
    return field.locks.find_one({"type": name, "slot": 0})


def waiting_for(field, name="n"):
    return (field.locks.find_one({"type": name, "slot": -1}) or {}).get("queue", [])


def theirs(kind):
    """A lock of another process."""
    return {"type": kind, "slot": 0, "owner": bson.Binary(uuid.uuid4().bytes), "ttl_ms": 3600000,
            "expires_at": datetime.now(timezone.utc) + timedelta(hours=1)}
