"""The programs themselves: how they are built, what rights they need, and the modes of the files that they make."""
import os
import re
from pathlib import Path

import pytest

from disks import command, need_program
from harness import program, run

PROGRAMS = ["pawl-worker", "pawl-enqueue", "pawl-dump", "pawl-status", "pawl-setup", "pawl-lock", "pawl-monitor"]


def test_needs_no_privilege(field):
    """Without any capability, and unable to get one."""
    need_program("setpriv", "dropping privileges")
    field.fill(100)
    field.drain(prefix=["setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"])
    field.compare()


@pytest.mark.slow  # not that, but a build for sanitizers is made otherwise
@pytest.mark.parametrize("name", PROGRAMS)
def test_hardened(name):
    """Position independent, its tables read-only before main, no executable stack, and checked copies where they can be."""
    need_program("readelf", "looking at the programs")
    def readelf(*flags):
        return command("readelf", "--wide", *flags, program(name)).stdout
    headers, dynamic, symbols = readelf("--headers"), readelf("--dynamic"), readelf("--dyn-syms")
    missing = []
    if not re.search(r"Type:\s+DYN \(Position-Independent Executable", headers):
        missing.append("PIE")
    if "GNU_RELRO" not in headers:
        missing.append("RELRO")
    if not re.search(r"BIND_NOW|FLAGS.*\bNOW\b", dynamic):
        missing.append("BIND_NOW")
    stack = re.search(r"GNU_STACK.*", headers)
    if not stack or re.search(r"\bRWE\b", stack[0]):
        missing.append("a stack that is not executable")
    if "__stack_chk_fail" not in symbols:
        missing.append("stack protector")
    if not re.search(r"__\w+_chk\b", symbols.replace("__stack_chk_fail", "")):
        missing.append("_FORTIFY_SOURCE")
    if re.search(r"RPATH|RUNPATH", dynamic):
        missing.append("no RPATH")
    if re.search(r"TEXTREL", dynamic):
        missing.append("no text relocations")
    # The mark of the whole program would need a C library built with it; the landing pads are there or not.
    if os.uname().machine == "x86_64" and Path(program(name)).read_bytes().count(b"\xf3\x0f\x1e\xfa") < 20:
        missing.append("control-flow protection")
    assert not missing, f"{name} lacks: {', '.join(missing)}"


# --- files ---


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize("mode", [None, "0600", "0640", "0660", "0664"])
def test_mode_of_new_files(field, umask, mode):
    """0640, or as told; whatever the umask; of each segment."""
    field.fill(1200, size=100)
    old = os.umask(umask)
    try:
        field.drain(*(["--file-mode", mode] if mode else []), "--batch-messages", 300, "--segment-bytes", "65536")
    finally:
        os.umask(old)
    modes = {(field.dir / name).stat().st_mode & 0o7777 for name in field.segments()}
    assert len(field.segments()) >= 2 and modes == {int(mode or "0640", 8)}, modes


@pytest.mark.parametrize("mode", ["7777", "0200", "abc", "-1", "0o640", "4640"])
def test_mode_that_is_refused(mode):
    done = run("pawl-worker", "--type", "t1", "--file-mode", mode)
    assert done.returncode == 2 and b"--file-mode" in done.stderr, done
