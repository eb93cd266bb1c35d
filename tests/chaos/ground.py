"""The ground of a chaos run: namespaces and their links, three disks, three servers, the workers, and the processes of them all.

Where it may, the run has a network, a mount table and process ids of its own (unshare): then nothing of this machine can be met by a
fault, and all of it is gone with the first process. Each server and each worker has a network namespace with one link to a bridge.
What the machine does not allow is in `missing`, with the reason; the faults that need it are not run.
"""
import os
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pymongo
from pymongo.errors import OperationFailure, PyMongoError

from harness import ROOT, environment, free_port, process_state, program
from schedule import BESIDE, LEASE, OWN, TYPES, WORKERS

NODES = 3
NET = "198.18.0."


def command(*words, check=True):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL)
    if check and done.returncode:
        raise RuntimeError(f"{words[0]} {words[1]}: {(done.stderr or done.stdout).strip()}")
    return done


class Space:
    """A network namespace with one link to the bridge, kept by a process that sleeps. Without isolation: nothing."""

    def __init__(self, ground, name, number):
        self.address, self.name, self.inside, self.down, self.deaf = "127.0.0.1", name, [], 0, 0
        if "network" in ground.missing:
            return
        self.keeper = ground.spawn(["unshare", "--net", "sleep", "infinity"], stdout=subprocess.DEVNULL)
        self.address, self.inside = f"{NET}{number}", ["nsenter", f"--net=/proc/{self.keeper.pid}/ns/net"]
        own = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{self.keeper.pid}/ns/net") == own:
            time.sleep(0.005)
        command("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", self.keeper.pid)
        command("ip", "link", "set", name, "master", "pawl", "up")
        command(*self.inside, "ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        command(*self.inside, "ip", "link", "set", "eth0", "up")
        command(*self.inside, "ip", "link", "set", "lo", "up")

    # Each may be asked for by several faults at a time; the last one to go restores.

    def cut(self, by):
        self.down += by
        command("ip", "link", "set", self.name, "down" if self.down else "up")

    def lose_replies(self, by):
        """What it sends arrives; what is sent to it does not."""
        before, self.deaf = self.deaf, self.deaf + by
        if bool(before) != bool(self.deaf):
            command(*self.inside, "iptables", "-w", "-A" if self.deaf else "-D", "INPUT", "-i", "eth0", "-j", "DROP")

    def part_from(self, others, on):
        for other in others:
            for chain, direction in (("INPUT", "-s"), ("OUTPUT", "-d")):
                command(*self.inside, "iptables", "-w", "-A" if on else "-D", chain, direction, other.address, "-j", "DROP")


class Disk:
    """A type's directory: `plain`, a small tmpfs, or a small ext4 on a loop device that can be slow or hang."""

    def __init__(self, ground, type_name, kind, minutes):
        self.path, self.kind, self.full, self.group = ground.work / "storage" / type_name, kind, 0, None
        self.path.mkdir(parents=True)
        size = int(64 + 8 * minutes) << 20
        if kind == "tmpfs":
            command("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", self.path)
        if kind == "ext4":
            image = ground.work / f"{type_name}.image"
            with open(image, "wb") as file:
                file.truncate(size)
            command("mkfs.ext4", "-q", "-m", "0", image)
            command("mount", "-o", "loop", image, self.path)
            (self.path / "lost+found").rmdir()
            device = os.stat(self.path).st_dev
            self.device = f"{os.major(device)}:{os.minor(device)}"
            self.group = self.make_group(ground)
            if not self.group:
                ground.missing["throttle"] = "no control group for block devices"

    def make_group(self, ground):
        """The control group of the workers on this disk, whose bandwidth can be limited: version 1, else version 2."""
        name = ground.group_name
        try:
            if Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device").exists():
                group, self.limit, self.slow, self.fast = Path("/sys/fs/cgroup/blkio") / name, "blkio.throttle.write_bps_device", "{} 16384", "{} 0"
                group.mkdir()
            else:
                group, self.limit, self.slow, self.fast = Path("/sys/fs/cgroup") / name, "io.max", "{} wbps=16384", "{} wbps=max"
                group.mkdir()
            self.set_limit(group, self.fast)
            return group
        except OSError:
            return None

    def set_limit(self, group, limit):
        (group / self.limit).write_text(limit.format(self.device))

    def slow_down(self, on):
        self.set_limit(self.group, self.slow if on else self.fast)

    def fill(self, leave):
        """A file takes all space but `leave` bytes. Blocks and writers race: what is left may be less."""
        self.full += 1
        space = os.statvfs(self.path)
        filler = os.open(self.path / f".filler{self.full}", os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            size = space.f_bavail * space.f_frsize - leave
            while size > 0:
                try:
                    os.posix_fallocate(filler, 0, size)
                    break
                except OSError:
                    size -= 256 << 10
        finally:
            os.close(filler)

    def free(self):
        for filler in self.path.glob(".filler*"):
            filler.unlink()


class Node:
    """A server of the replica set."""

    def __init__(self, ground, number):
        self.ground, self.number, self.process, self.frozen = ground, number, None, 0
        self.space = Space(ground, f"m{number}", 100 + number)
        self.port = free_port() if "network" in ground.missing else 27017
        self.address = f"{self.space.address}:{self.port}"
        self.folder = ground.work / f"node{number}"
        self.folder.mkdir()
        self.client = pymongo.MongoClient(self.address, directConnection=True, serverSelectionTimeoutMS=1500, connectTimeoutMS=1500,
                                          socketTimeoutMS=4000, retryWrites=False, retryReads=False, appname="chaos")

    def start(self):
        bind = "0.0.0.0" if self.space.inside else "127.0.0.1"
        words = [*self.space.inside, os.environ["PAWL_MONGOD"], "--dbpath", self.folder, "--port", self.port, "--bind_ip", bind,
                 "--nounixsocket", "--logpath", self.folder / "log", "--logappend", "--wiredTigerCacheSizeGB", "0.25", "--replSet", "rs0",
                 "--oplogSize", "512", "--setParameter", "enableTestCommands=1", "--setParameter", "diagnosticDataCollectionEnabled=false"]
        with open(self.folder / "out", "ab") as out:
            self.process = self.ground.spawn(words, stdout=out, stderr=out)

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def is_primary(self):
        """Of two that believe so, the one of the later term is right."""
        try:
            hello = self.client.admin.command("hello")
            return hello["lastWrite"]["opTime"]["t"] + 1 if hello.get("isWritablePrimary") else 0
        except (PyMongoError, KeyError):
            return 0


LINE = re.compile(rb"^\S+ (\w+) +(?:(\S+) epoch=(\d+) seq=(\d+) )?([\w-]+): (.*)$")


class Worker:
    """A place for a worker, and the process that is in it now."""

    def __init__(self, ground, type_name, number, index):
        self.ground, self.type, self.number, self.name = ground, type_name, number, f"{type_name}-{number}"
        self.space = Space(ground, f"w{index}", 10 + index)
        self.log_path = ground.work / f"{self.name}.log"
        self.log_path.touch()
        self.log = os.open(self.log_path, os.O_RDONLY)
        self.rest, self.process, self.frozen, self.killed, self.asked, self.armed, self.holding, self.epoch = b"", None, 0, False, False, None, False, 0
        self.clock, self.away = None, False

    def start(self, faults=None):
        environ = environment(**(faults or {}))
        if self.number == WORKERS and "clock" not in self.ground.missing:
            if not self.clock:
                self.clock = self.ground.work / f"{self.name}.clock"
                self.set_clock(0)
            environ |= {"LD_PRELOAD": str(self.ground.skew), "CLOCK_SKEW_FILE": str(self.clock)}
        disk = self.ground.disks[self.type]
        more = {"t2": ["--segment-bytes", "256KiB"], "t3": ["--codec", "zstd"]}.get(self.type, [])
        types = ["--type", "t*", "--except", "t1,t2"] if self.type in BESIDE else ["--type", self.type]
        words = [program("pawl-worker"), "--uri", f"{self.ground.uri}&appName={self.name}", "--db", "chaos", *types,
                 "--dir", disk.path, "--lease", f"{LEASE:g}s", "--stall", f"{3 * LEASE:g}s", "--linger", "1s", "--batch-messages", "100", *more]
        if disk.group:
            words = ["sh", "-c", 'echo 0 >"$0/cgroup.procs"; exec "$@"', disk.group, *words]
        self.log_begin = self.log_path.stat().st_size
        with open(self.log_path, "ab") as out:
            self.process = self.ground.spawn([*self.space.inside, *words], stdout=out, stderr=out, env=environ)
        self.killed, self.asked, self.armed, self.holding, self.frozen = False, False, faults, False, 0

    def set_clock(self, seconds):
        with open(self.clock, "r+b" if self.clock.exists() else "wb") as file:
            file.write(struct.pack("=q", seconds))

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        self.killed = True
        self.process.kill()

    def silent(self):
        """It has not said a word since it was started: it had no time to take a signal in hand."""
        return self.log_path.stat().st_size == self.log_begin

    def stopped(self):
        return process_state(self.process.pid) == "T"

    def new_lines(self):
        """(level, type or None, epoch, event, text) of what it has said since."""
        data = os.read(self.log, 1 << 20)
        if not data:
            return
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            found = LINE.match(line)
            if found:
                level, name, epoch, _, event, text = found.groups()
                yield level.decode(), name and name.decode(), int(epoch or 0), event.decode(), text.decode(errors="replace")
            else:
                yield "strange", None, 0, "", line.decode(errors="replace")


class Ground:
    def __init__(self, work, minutes, isolated):
        self.work, self.missing, self.processes, self.disks = Path(work), {}, [], {}
        self.group_name = f"pawl-chaos-{self.work.name}"
        if isolated:
            command("mount", "-t", "proc", "proc", "/proc")
            command("mount", "-t", "tmpfs", "tmpfs", "/dev/shm")  # the driver keeps counters there, by process id
        self.look(isolated)
        if isolated:
            command("ip", "link", "set", "lo", "up")
        if "network" not in self.missing:
            command("ip", "link", "add", "pawl", "type", "bridge")
            command("ip", "address", "add", f"{NET}1/24", "dev", "pawl")
            command("ip", "link", "set", "pawl", "up")
        self.skew = self.work / "clock_skew.so"
        built = subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", "-O2", "-o", self.skew,
                                ROOT / "tests/chaos/clock_skew.c", "-ldl"], capture_output=True, check=False)
        if built.returncode:
            self.missing["clock"] = "clock_skew.c cannot be compiled"
        kinds = {"t2": "plain" if "loop" in self.missing else "ext4", "t3": "plain" if "tmpfs" in self.missing else "tmpfs"}
        for name in TYPES:
            self.disks[name] = Disk(self, name, kinds.get(name, "plain"), minutes)
        self.nodes = [Node(self, number) for number in range(1, NODES + 1)]
        self.uri = f"mongodb://{','.join(node.address for node in self.nodes)}/?replicaSet=rs0"
        self.workers = [Worker(self, name, number, index * WORKERS + number)
                        for index, name in enumerate(TYPES) for number in range(1, WORKERS + 1)]
        self.client = None

    def look(self, isolated):
        if not isolated:
            self.missing |= dict.fromkeys(("network", "iptables", "loop", "throttle", "tmpfs"), "no namespaces (not root, or no iproute2?)")
            return
        for what, words in {"network": ("ip", "link", "add", "probe", "type", "veth", "peer", "name", "probe2"),
                            "iptables": ("iptables", "-w", "-L", "INPUT"), "tmpfs": ("mount", "-t", "tmpfs", "tmpfs", self.work / "probe")}.items():
            (self.work / "probe").mkdir(exist_ok=True)
            try:
                command(*words)
            except (RuntimeError, OSError) as problem:
                self.missing[what] = str(problem).splitlines()[0]
        command("ip", "link", "del", "probe", check=False)
        command("umount", self.work / "probe", check=False)
        if "network" in self.missing:
            self.missing.setdefault("iptables", self.missing["network"])
        image = self.work / "probe.image"
        with open(image, "wb") as file:
            file.truncate(8 << 20)
        try:
            command("mkfs.ext4", "-q", image)
            command("mount", "-o", "loop", image, self.work / "probe")
            command("umount", self.work / "probe")
        except (RuntimeError, OSError) as problem:
            self.missing["loop"] = str(problem).splitlines()[0]
            self.missing["throttle"] = "no loop device"
        image.unlink()

    def folder(self, type_name):
        return self.disks[next((name for name, beside in BESIDE.items() if beside == type_name), type_name)].path

    def spawn(self, words, **options):
        process = subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, **options)
        self.processes.append(process)
        self.processes = [one for one in self.processes if one.poll() is None]
        return process

    def start_servers(self):
        for node in self.nodes:
            node.start()
        end = time.monotonic() + 60
        while True:
            try:
                self.nodes[0].client.admin.command("replSetInitiate", {
                    "_id": "rs0", "members": [{"_id": node.number, "host": node.address} for node in self.nodes],
                    "settings": {"electionTimeoutMillis": 3000, "heartbeatIntervalMillis": 500}})
                break
            except OperationFailure as error:
                if error.code == 23:
                    break
                problem = error
            except PyMongoError as error:
                problem = error
            if time.monotonic() > end:
                raise RuntimeError(f"the replica set does not start: {problem}")
            time.sleep(0.1)
        self.client = pymongo.MongoClient(self.uri, w="majority", journal=True, serverSelectionTimeoutMS=30000, socketTimeoutMS=10000, appname="chaos")
        while not any(node.is_primary() for node in self.nodes):
            if time.monotonic() > end:
                raise RuntimeError("the replica set has no primary")
            time.sleep(0.1)
        command(program("pawl-setup"), "--uri", self.uri, "--db", "chaos")
        command(program("pawl-setup"), "--uri", self.uri, "--db", "chaos", "--type", OWN, "--own-collection")

    def primary(self):
        return max(((node.is_primary(), node.number, node) for node in self.nodes if node.alive() and not node.frozen), default=(0, 0, None),
                   key=lambda entry: entry[:2])

    def heal(self):
        """Ends whatever a fault may have left, whichever process asked for it."""
        for space in [one.space for one in (*self.nodes, *self.workers)]:
            if space.inside:
                space.down = space.deaf = 0
                command("ip", "link", "set", space.name, "up")
                if "iptables" not in self.missing:
                    command(*space.inside, "iptables", "-w", "-F")
        for disk in self.disks.values():
            if disk.kind == "ext4":
                command("fsfreeze", "-u", disk.path, check=False)
            if disk.group:
                disk.slow_down(False)
            disk.free()
        for one in (*self.nodes, *self.workers):
            if one.process and one.process.poll() is None:
                one.process.send_signal(signal.SIGCONT)
            one.frozen = 0

    def down(self):
        """Everything that was started ends."""
        for disk in self.disks.values():
            if disk.kind == "ext4":
                command("fsfreeze", "-u", disk.path, check=False)
        for process in self.processes:
            if process.poll() is None:
                process.kill()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                print(f"chaos: process {process.pid} does not end", file=sys.stderr)
        for disk in self.disks.values():
            if disk.kind != "plain":
                command("umount", disk.path, check=False)
            if disk.group:
                disk.group.rmdir()
