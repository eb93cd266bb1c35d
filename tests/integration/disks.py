"""File systems, machines and disks that fail: what the tests of storage faults stand on.

Mounting needs root, and some things need a kernel or a program that is not everywhere: what cannot be had is skipped, with its
reason. Nothing outlives a test.
"""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def command(*words, check=True):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60)
    assert not check or done.returncode == 0, f"{' '.join(map(str, words))}: {done.stderr}"
    return done


def need_root(what):
    if os.geteuid() != 0:
        pytest.skip(f"{what} needs root")


def need_program(name, what):
    if not shutil.which(name):
        pytest.skip(f"{what} needs the program {name}, which is not here")


class Disks:
    def __init__(self, folder):
        self.folder, self.undo, self.fields = Path(folder), [], []

    def close(self):
        for field in self.fields:
            field.close()
        for words in reversed(self.undo):
            command(*words, check=False)

    def _mount(self, what, where, *words):
        need_root(what)
        done = command("mount", *words, where, check=False)
        if done.returncode != 0:
            pytest.skip(f"{what} cannot be had here: {done.stderr.strip()}")
        self.undo.append(("umount", "-l", where))

    def tmpfs(self, field, size):
        """A small local file system as the field's folder."""
        self.fields.append(field)
        self._mount("a tmpfs", field.dir, "-t", "tmpfs", "-o", f"size={size}", "none")

    def tmpfs_below(self, field, size):
        """A small file system as the field's folder, which counts as a network's."""
        below = self.folder / "below"
        below.mkdir()
        self._mount("a tmpfs", below, "-t", "tmpfs", "-o", f"size={size}", "none")
        self._bind(field, below, field.dir)

    def ramfs(self, field):
        """A file system that pawl does not know, and that does not tell its size."""
        self.fields.append(field)
        self._mount("a ramfs", field.dir, "-t", "ramfs", "none")

    def fuse(self, field):
        """The field's folder on a file system that is not in the list of local ones, so that it counts as a network's."""
        self.fuse_at(field, field.dir)

    def fuse_at(self, field, place):
        """A folder on such a file system."""
        below = self.folder / "below"
        below.mkdir()
        self._bind(field, below, place)

    def ext4(self, field, place, size):
        """An ext4 of that size, on a loop device, at a folder of the field's."""
        what, image = "an ext4 on a loop device", self.folder / f"{place.name}.image"
        need_root(what)
        need_program("mkfs.ext4", what)
        self.fields.append(field)
        command("truncate", "-s", size, image)
        command("mkfs.ext4", "-q", image)
        self._mount(what, place, "-o", "loop", image)

    def _bind(self, field, below, place):
        what = "a folder on FUSE"
        need_root(what)
        need_program("bindfs", what)
        self.fields.append(field)
        done = command("bindfs", "--no-allow-other", below, place, check=False)
        if done.returncode != 0:
            pytest.skip(f"{what} cannot be had here: {done.stderr.strip()}")
        self.undo.append(("umount", "-l", place))

    def thin(self, field, real="3m", promised="64M"):
        """An ext4 without a journal on a block device whose backing store runs full long before the file system does: then blocks
        fail to be written back, for real. Returns a function that gives it the missing room."""
        what = "an ext4 on a loop device"
        need_root(what)
        need_program("mkfs.ext4", what)
        self.fields.append(field)
        below = self.folder / "below"
        below.mkdir()
        self._mount(what, below, "-t", "tmpfs", "-o", f"size={real}", "none")
        command("truncate", "-s", promised, below / "image")
        command("mkfs.ext4", "-q", "-b", "4096", "-O", "^has_journal", below / "image")
        self._mount(what, field.dir, "-t", "ext4", "-o", "loop", below / "image")
        # Linux 6.18 takes a write to a loop device for done, sync and all, of which only the first pages had room. Of one page there is no part.
        device = Path(command("findmnt", "-n", "-o", "SOURCE", field.dir).stdout.strip()).name
        setting = Path(f"/sys/block/{device}/queue/max_sectors_kb")
        try:
            before = setting.read_text().strip()
            setting.write_text("4\n")
            self.undo.append(("sh", "-c", f"echo {before} >{setting}"))  # it would stay with the device, for whatever uses it next
        except OSError as error:
            pytest.skip(f"a loop device that fails as a disk does cannot be had here: {error}")
        return lambda: command("mount", "-o", "remount,size=128m", below)

    def twice(self, field):
        """The field's folder, mounted twice through FUSE: each mount has a page cache and locks of its own, as two machines have.
        Returns the two folders."""
        return [self.again(field, name) for name in ("first", "second")]

    def again(self, field, name):
        """The field's folder once more, through FUSE: another folder, which counts as a network's."""
        place = self.folder / name
        place.mkdir()
        self._bind(field, field.dir, place)
        return place

    def overlay(self, field, name):
        """The field's folder once more, as the upper directory of an overlay, as a container sees its own files."""
        place, lower, work = (self.folder / part for part in (name, f"{name}.lower", f"{name}.work"))
        for folder in (place, lower, work):
            folder.mkdir()
        self.fields.append(field)
        self._mount("an overlay", place, "-t", "overlay", "-o", f"lowerdir={lower},upperdir={field.dir},workdir={work}", "none")
        return place

    def remount(self, field, *options):
        command("mount", "-o", ",".join(["remount", *options]), field.dir)

    def immutable(self, path):
        need_root("chattr +i")
        need_program("chattr", "an immutable file")
        done = command("chattr", "+i", path, check=False)
        if done.returncode != 0:
            pytest.skip(f"this file system has no immutable files: {done.stderr.strip()}")
        self.undo.append(("chattr", "-i", path))
        return lambda: command("chattr", "-i", path)

    def bound(self, below, place):
        """A prefix under which a program finds this file or folder in the place of another one."""
        what = f"another {place}"
        root = () if os.geteuid() == 0 else ("--map-root-user",)
        prefix = ["unshare", *root, "--mount", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"', below, place]
        need_program("unshare", what)
        done = command(*prefix, "true", check=False)
        if done.returncode != 0:
            pytest.skip(f"this kernel gives no mount namespace: {done.stderr.strip()}")
        return prefix

    def machine(self, number):
        """A prefix under which a program believes to be on another machine: one of another boot id."""
        file = self.folder / f"boot_id{number}"
        file.write_text(boot_id(number) + "\n")
        prefix = self.bound(file, "/proc/sys/kernel/random/boot_id")
        assert command(*prefix, "cat", "/proc/sys/kernel/random/boot_id").stdout.strip() == boot_id(number)
        return prefix


def boot_id(number):
    return f"{number:08d}-0000-4000-8000-000000000000"


def obedient():
    """A prefix under which file modes hold for root too."""
    if os.geteuid() != 0:
        return []
    need_program("setpriv", "root without its rights over files")
    return ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-dac_override,-dac_read_search"]


def compile_faulty_disk(folder):
    library = folder / "faulty_disk.so"
    compiler = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
    if not compiler:
        pytest.skip("a failing disk needs a C compiler")
    command(compiler, "-shared", "-fPIC", "-O1", "-pthread", "-o", library, HERE / "faulty_disk.c", "-ldl")
    return library


class FaultyDisk:
    """Rules for the workers that are started with its environment."""

    def __init__(self, library, folder, directory):
        self.rules_path, self.log_path = Path(folder) / "disk.rules", Path(folder) / "disk.log"
        self.rules_path.write_text("")
        self.log_path.write_text("")
        sanitizer = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
        self.env = {"LD_PRELOAD": library, "PAWL_TEST_DISK_DIR": directory, "PAWL_TEST_DISK_RULES": self.rules_path,
                    "PAWL_TEST_DISK_LOG": self.log_path, "ASAN_OPTIONS": sanitizer}

    def rule(self, *lines):
        new = self.rules_path.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in lines))
        new.rename(self.rules_path)

    def calls(self, name=None):
        """What was called, as lists of words: [call, name, arguments…, "=", result]."""
        found = [line.split() for line in self.log_path.read_text().splitlines()]
        return [words for words in found if name in (None, words[1])]
