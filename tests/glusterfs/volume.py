"""A volume of GlusterFS with three bricks on this machine, and mounts of it, each of which stands for a machine.

glusterd and all it starts live in the namespaces that tests/glusterfs/run makes.
"""
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from disks import command
from harness import process_state, wait_until

HOST = "pawl-bricks"
PING_TIMEOUT_S = 3  # 42 by default: how long a client waits for a brick that does not answer


def gluster(*words, check=True):
    return command("gluster", "--mode=script", *words, check=check)


class Daemon:
    """glusterd, which starts the bricks."""

    def __init__(self, log):
        with open(log, "wb") as file:
            self.process = subprocess.Popen(["glusterd", "-N"], stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        wait_until(lambda: gluster("volume", "list", check=False).returncode == 0, lambda: f"glusterd: {Path(log).read_text()}", 60)

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


class Volume:
    def __init__(self, folder, name):
        self.folder, self.name, self.mounts = Path(folder), name, []
        self.bricks = [self.folder / f"brick{n}" for n in range(3)]
        for brick in self.bricks:
            brick.mkdir()

    def create(self):
        gluster("volume", "create", self.name, "replica", 3, *(f"{HOST}:{brick}" for brick in self.bricks), "force")
        self.set("network.ping-timeout", PING_TIMEOUT_S)
        gluster("volume", "start", self.name)
        return self

    def set(self, option, value):
        gluster("volume", "set", self.name, option, value)

    def quota(self, *words):
        gluster("volume", "quota", self.name, *words)

    def mount(self, name, **options):
        self.mounts.append(Mount(self, self.folder / name, **options))
        return self.mounts[-1]

    def close(self):
        for mount in self.mounts:
            mount.close()
        gluster("volume", "stop", self.name, "force", check=False)
        gluster("volume", "delete", self.name, check=False)

    # bricks

    def _brick(self, number):
        """(its port, its process); None while it does not run."""
        status = gluster("volume", "status", self.name).stdout
        status = re.sub(r"\n(?=\S*\s+\S+\s+\d*\s*[YN])", "", status)  # a long name has a line of its own
        found = re.search(rf"{re.escape(self.bricks[number].name)}\s+(\S+)\s+\S+\s+Y\s+(\d+)", status)
        return (int(found[1]), int(found[2])) if found else None

    def kill_brick(self, number):
        _, pid = self._brick(number)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: process_state(pid) in (None, "Z"), f"the end of brick {number}")

    def ports(self):
        return [self._brick(number)[0] for number in range(len(self.bricks))]

    def restart_bricks(self):
        gluster("volume", "start", self.name, "force")

    def healed(self):
        """Nothing is left that a brick has not."""
        found = re.findall(r"Number of entries: (\S+)", gluster("volume", "heal", self.name, "info").stdout)
        return found == ["0"] * 3

    def wait_healed(self):
        gluster("volume", "heal", self.name, check=False)
        wait_until(self.healed, lambda: gluster("volume", "heal", self.name, "info").stdout)

    def same_on_all_bricks(self):
        """{file: its bytes}, which every brick has."""
        contents = [{path.name: path.read_bytes() for path in (brick / "storage").iterdir()} for brick in self.bricks]
        assert contents[0] == contents[1] == contents[2], [{name: len(data) for name, data in content.items()} for content in contents]
        return contents[0]


class Mount:
    """A client of its own: the process glusterfs, with its caches, its locks and its connections to the bricks."""

    def __init__(self, volume, path, group=None):
        self.volume, self.path, self.group = volume, path, group
        path.mkdir()
        self.start()

    def start(self):
        words = ["glusterfs", "-N", "-s", HOST, "--volfile-id", self.volume.name, self.path]
        if self.group is not None:  # so that iptables can tell its packets from the others'
            words = ["setpriv", "--regid", self.group, "--clear-groups", *words]
        self.process = subprocess.Popen([*map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.pid = self.process.pid
        wait_until(lambda: self.path.is_mount() and self._answers(), f"a mount at {self.path}")

    def _answers(self):
        try:
            os.listdir(self.path)
            return True
        except OSError:
            return False

    @property
    def dir(self):
        return self.path / "storage"

    def freeze(self):
        os.kill(self.pid, signal.SIGSTOP)
        wait_until(lambda: process_state(self.pid) == "T", f"a stop of {self.pid}")

    def thaw(self):
        os.kill(self.pid, signal.SIGCONT)

    def kill(self):
        """As a crash does: a process that uses the mount gets ENOTCONN."""
        self.process.kill()
        self.process.wait()

    def _iptables(self, action, ports):
        only = ["-p", "tcp", "-m", "multiport", "--dports", ",".join(map(str, ports))] if ports else []
        command("iptables", "-w", action, "OUTPUT", *only, "-m", "owner", "--gid-owner", self.group, "-j", "DROP")

    def cut(self, ports=()):
        """No packet of it leaves any more, or none to these."""
        self._iptables("-I", ports)

    def join(self, ports=()):
        """After a cut from the same."""
        self._iptables("-D", ports)

    def again(self):
        """As an administrator does it after a crash."""
        command("umount", "-l", self.path)
        self.start()

    def close(self):
        if self.process.poll() is None:
            self.thaw()
        command("umount", "-l", self.path, check=False)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.kill()


def pause(seconds):
    """For a fault to last, not for something to happen."""
    time.sleep(seconds)
