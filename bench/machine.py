"""The machine that the figures are from, without its name."""
import os
import platform
import re
import time
from datetime import datetime, timezone
from pathlib import Path
from statistics import median


IN_MEMORY = {"tmpfs", "ramfs", "devtmpfs"}


def file_system(path):
    """The type of what is mounted nearest above."""
    best = ("", "unknown")
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split()
        inside = mount == "/" or str(path) == mount or str(path).startswith(mount + "/")
        if inside and len(mount) >= len(best[0]):
            best = (mount, kind)
    return best[1]


def refuse_memory_disk(path):
    kind = file_system(path)
    if kind in IN_MEMORY:
        raise SystemExit(f"scripts/bench: the files would lie on {kind}, where a sync costs nothing: name a disk with --dir")


def sync_ms(path, count=50):
    """What one fdatasync takes after a write of 4 KiB, by median: most of an idle worker's latency is this."""
    taken = []
    with open(path / "sync", "wb", buffering=0) as file:
        for _ in range(count):
            file.write(b"x" * 4096)
            begin = time.monotonic()
            os.fdatasync(file.fileno())
            taken.append((time.monotonic() - begin) * 1000)
    (path / "sync").unlink()
    return median(taken)


def processor():
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found[1] if found else platform.machine()


def describe(work, mongod_version):
    memory = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": len(os.sched_getaffinity(0)),
        "processor": processor(),
        "memory": f"{int(memory[1]) / 2**20:.0f} GiB",
        "kernel": platform.release().split("-")[0],
        "mongod": mongod_version,
        "file system": file_system(work),
        "fdatasync of 4 KiB": f"{sync_ms(work):.2f} ms",
    }
