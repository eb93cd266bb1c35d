"""Machines: each is a Linux kernel of its own that runs as a process (User Mode Linux), with this machine's programs (read-only), a boot id,
a page cache and a network card of its own. One is an NFS server with a disk, the others are its clients.

    python3 tests/nfs/machine.py       starts one and turns it off: can it be had here?
"""
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration")]
from disks import command  # noqa: E402
from harness import QUICK, environment, process_state, program, wait_until  # noqa: E402

MONGOD = "10.77.0.1"
LEASE_S = 10  # NFS's own, and its grace period: the shortest that the server takes
EXPORT, MOUNT = "/run/disk/export", "/run/nfs"


class Network:
    """A cable from each machine to this one, which forwards between them, and an address for mongod that all of them reach."""

    def __init__(self):
        command("ip", "link", "set", "lo", "up")
        command("ip", "address", "replace", f"{MONGOD}/32", "dev", "lo")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")

    def cable(self, number):
        name = f"pawl{number}"
        command("ip", "tuntap", "add", name, "mode", "tap")
        command("ip", "address", "add", f"10.77.{number}.1/24", "dev", name)
        command("ip", "link", "set", name, "up")
        return name


class Machine:
    def __init__(self, network, number, name, folder, modules, options=()):
        self.number, self.name, self.folder = number, name, Path(folder)
        self.modules, self.options = modules, options
        self.address, self.cable = f"10.77.{number}.2", network.cable(number)
        self.shared = self.folder / "shared"  # /run/host there
        self.shared.mkdir(parents=True)
        self.boots, self.process, self.is_cut = 0, None, False

    # power

    def boot(self):
        """Begins to; wait_up waits for its end."""
        self.boots += 1
        self.answers, self.jobs, self.next_id, self.release, self.frozen = {}, {}, 0, None, False
        self.changed = threading.Condition()
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()
        self.to, self.console = to_write, self.folder / f"console{self.boots}"
        words = ["linux.uml", "mem=192M", f"umid={self.name}", f"uml_dir={self.folder}/", "root=/dev/root", "rootfstype=hostfs", "rootflags=/",
                 "ro", f"init={HERE}/agent.py", f"vec0:transport=tap,ifname={self.cable},depth=64,gro=1", *self.options,
                 f"ssl0=fd:{to_read},fd:{from_write}", "con=null", "con0=null,fd:1", "quiet", "panic=1",
                 "--", self.name, self.address, f"10.77.{self.number}.1", self.shared, self.modules]
        with open(self.console, "wb") as console:
            self.process = subprocess.Popen([*map(str, words)], stdin=subprocess.DEVNULL, stdout=console, stderr=console,
                                            pass_fds=(to_read, from_write), start_new_session=True,
                                            env={**os.environ, "TMPDIR": os.environ["PAWL_TEST_MACHINE_MEMORY"],
                                                 "LD_PRELOAD": os.environ["PAWL_TEST_MACHINE_REGISTERS"]})
        os.close(to_read)
        os.close(from_write)
        threading.Thread(target=self._listen, args=(from_read,), daemon=True).start()

    def wait_up(self):
        wait_until(lambda: self.release or not self.alive(), lambda: f"a start of {self}")
        assert self.release, f"it ended: {self}"
        return self

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def __str__(self):
        return f"machine {self.name} ({self.process and self.process.poll()}), its console:\n{self.console.read_text(errors='replace')[-3000:]}"

    def _processes(self):
        """Its kernel, and the processes in which that runs its programs."""
        found, parents = [self.process.pid], {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                parents.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
            except OSError:
                pass
        for pid in found:
            found += parents.get(pid, [])
        return found

    def power_off(self):
        """At once: what it had in memory is gone."""
        if self.alive():
            for pid in self._processes():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.process.wait(20)
            os.close(self.to)

    def freeze(self):
        """All of it stands still: its kernel, hence its programs. Its clock goes on."""
        self.frozen = True
        os.kill(self.process.pid, signal.SIGSTOP)
        wait_until(lambda: process_state(self.process.pid) == "T", f"a stop of {self.name}")

    def thaw(self):
        os.kill(self.process.pid, signal.SIGCONT)
        self.frozen = False

    def _rules(self, action, *which):
        for chain, side in (("INPUT", "-i"), ("FORWARD", "-i"), ("FORWARD", "-o"), ("OUTPUT", "-o")):
            command("iptables", "-w", action, chain, side, self.cable, *which, "-j", "DROP")

    def cut(self):
        """No packet reaches it or leaves it any more."""
        self._rules("-I")
        self.is_cut = True

    def join(self):
        if self.is_cut:
            self._rules("-D")
            self.is_cut = False

    # programs on it

    def _listen(self, descriptor):
        with os.fdopen(descriptor, "rb") as line:
            for one in line:
                try:
                    told = json.loads(one)
                except ValueError:
                    continue  # half a line, at the power's end
                with self.changed:
                    if "up" in told:
                        self.release = told["up"]
                    elif "id" in told:
                        self.answers[told["id"]] = told
                    if "pid" in told:
                        self.jobs.setdefault(told["pid"], []).append(told)
                    self.changed.notify_all()

    def _ask(self, deadline=60, **request):
        with self.changed:
            self.next_id += 1
            number = self.next_id
        os.write(self.to, json.dumps({"id": number, **request}).encode() + b"\n")
        with self.changed:
            self.changed.wait_for(lambda: number in self.answers or not self.alive(), deadline)
            answer = self.answers.pop(number, None)
        assert answer, f"no answer within {deadline} s to {request} from {self}"
        assert "failed" not in answer, f"{request}: {answer['failed']}"
        return answer

    def run(self, *words, check=True, env=None, deadline=60):
        """A program on it, to its end."""
        done = self._ask(deadline, argv=[*map(str, words)], env=env or {})
        assert not check or done["exit"] == 0, f"{self.name}: {' '.join(map(str, words))}: {done['exit']}: {done['out']}{done['err']}"
        return done

    def out(self, *words):
        return self.run(*words)["out"]

    def spawn(self, *words, env=None):
        return self._ask(argv=[*map(str, words)], env=env or {}, spawn=True)["pid"]

    def signal(self, pid, number):
        self._ask(pid=pid, signal=int(number))

    def told(self, pid, what):
        return [entry[what] for entry in list(self.jobs.get(pid, [])) if what in entry]


class Server(Machine):
    """Exports a folder of an ext4 that is on a disk of its own. With `sync`, its default, what it has acknowledged outlives its power."""

    def __init__(self, network, number, folder):
        disk = Path(folder) / "disk"
        Path(folder).mkdir()
        command("truncate", "-s", "256m", disk)
        command("mkfs.ext4", "-q", "-m", "0", disk)
        super().__init__(network, number, "server", folder, "nfsd", [f"ubd0={disk}"])

    def serve(self, durable="sync"):
        self.run("mount", "-t", "ext4", "/dev/ubda", "/run/disk")
        self.run("mkdir", "-p", EXPORT, "/run/disk/state/nfsdcld", "/run/rpc_pipefs")
        self.run("mount", "--bind", "/run/disk/state", "/var/lib/nfs")
        self.run("mount", "-t", "rpc_pipefs", "none", "/run/rpc_pipefs")
        self.run("mount", "-t", "nfsd", "none", "/proc/fs/nfsd")
        for name in ("etab", "rmtab"):
            self.run("touch", f"/var/lib/nfs/{name}")
        self.run("exportfs", "-i", "-o", f"rw,{durable},no_root_squash,no_subtree_check,fsid=0", f"*:{EXPORT}")
        for name in ("nfsv4leasetime", "nfsv4gracetime"):
            self.run("sh", "-c", f"echo {LEASE_S} >/proc/fs/nfsd/{name}")
        self.spawn("nfsdcld", "-F", "-p", "/run/rpc_pipefs", "-s", "/var/lib/nfs/nfsdcld")
        self.spawn("rpcbind", "-f")
        wait_until(lambda: self.run("rpcinfo", "-p", check=False)["exit"] == 0, "an answer of rpcbind")
        self.spawn("rpc.mountd", "-F")
        self.run("rpc.nfsd", "-V", "4.2", "8")
        return self


class Client(Machine):
    def __init__(self, network, number, name, folder):
        super().__init__(network, number, name, folder, "nfsv3,nfsv4")
        self.mounted = None, None

    def mount(self, server, options):
        """For as long as it has power; another test may use the same mount."""
        if self.mounted != (self.boots, options):
            if self.mounted[0] == self.boots:
                self.run("umount", MOUNT)
                self.mounted = None, None
            path = EXPORT if "vers=3" in options else "/"
            self.run("mount", "-t", "nfs", "-o", f"{options},hard,proto=tcp", f"{server.address}:{path}", MOUNT)
            self.mounted = self.boots, options


class Worker:
    """A pawl-worker on a machine; what harness.Worker is on this one."""

    def __init__(self, machine, arguments, log, env=None):
        self.machine, self.boot, self.log_path = machine, machine.boots, Path(log)
        clean = environment()
        fixed = {name: clean[name] for name in ("MONGOC_DISABLE_SHM",)}
        self.pid = machine.spawn(program("pawl-worker"), *QUICK, *arguments, env={**fixed, **(env or {})})

    def _told(self, what):
        return self.machine.told(self.pid, what) if self.boot == self.machine.boots else []

    def log(self):
        text = "".join(self._told("log"))
        if text:
            self.log_path.write_text(text)
        return text or (self.log_path.read_text() if self.log_path.exists() else "")

    @property
    def exit(self):
        return next(iter(self._told("exit")), None)

    def alive(self):
        return self.boot == self.machine.boots and self.machine.alive() and self.exit is None

    def __str__(self):
        return f"worker {self.pid} on {self.machine.name} ({self.exit}), its log:\n{self.log()[-4000:]}"

    def signal(self, number):
        self.machine.signal(self.pid, number)

    def state(self):
        found = re.search(r"\) (\S)", self.machine.run("cat", f"/proc/{self.pid}/stat", check=False)["out"])
        return found and found[1]

    def wait_frozen(self):
        wait_until(lambda: self.state() == "T", lambda: f"a stop of {self}")

    def freeze(self):
        self.signal(signal.SIGSTOP)
        self.wait_frozen()

    def thaw(self):
        self.signal(signal.SIGCONT)

    def wait(self, deadline=60):
        wait_until(lambda: not self.alive(), lambda: f"the end of {self}", deadline)
        return self.exit

    def stop(self, deadline=30):
        self.signal(signal.SIGTERM)
        return self.wait(deadline)

    def kill(self):
        """For the field's end as well, when its machine may be dead or frozen."""
        if self.alive() and not self.machine.frozen:
            self.signal(signal.SIGKILL)
            self.wait()

    def wait_log(self, pattern, deadline=60):
        wait_until(lambda: re.search(pattern, self.log()) or not self.alive(), lambda: f"/{pattern}/ in the log of {self}", deadline)
        assert re.search(pattern, self.log()), f"it ended without /{pattern}/: {self}"


def main():
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        machine = Client(Network(), 9, "probe", Path(folder) / "probe")
        machine.boot()
        try:
            print(machine.wait_up().release, flush=True)
        finally:
            machine.power_off()
            command("ip", "link", "delete", machine.cable)


if __name__ == "__main__":
    main()
