"""The chaos run: real workers, servers and producers, seeded faults, an exact verdict. scripts/chaos starts it.

The outer process makes the room (a folder, and where it may, namespaces) and removes it; the inner one does everything else. It
ends, and all it started with it, when the pipe from the outer one closes, so a killed outer process leaves nothing running.
"""
import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration"), str(HERE.parent)]

from chaos import Chaos  # noqa: E402
from report import report  # noqa: E402
from schedule import draw  # noqa: E402


def inside(options):
    def end_with_the_outer_one():
        os.read(0, 1)
        os.kill(os.getpid(), signal.SIGINT)

    def interrupt(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    threading.Thread(target=end_with_the_outer_one, daemon=True).start()
    chaos, status = None, 1
    try:
        chaos = Chaos(options, options.inside, options.isolated)
        text, exact = report(chaos, *chaos.run(), chaos.judge())
        (chaos.work / "report").write_text(text, encoding="utf-8")
        status = 0 if exact else 1
    except KeyboardInterrupt:
        status = 130
    except Exception:
        traceback.print_exc()
        status = 70
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            if chaos:
                chaos.ground.down()
        except Exception:  # the verdict stands
            traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


GUARD = """trap '' INT TERM
"$@"; status=$?
for disk in "$0"/storage/*; do
  if mountpoint -q "$disk"; then fsfreeze -u "$disk" 2>/dev/null; umount -l "$disk"; fi
done
exit $status"""


def isolation():
    """Commands before which a program has a network, mounts and process ids of its own; empty where that is not permitted."""
    isolate = ["unshare", "--net", "--mount"]
    process_ids = ["unshare", "--pid", "--fork", "--kill-child"]
    try:
        done = subprocess.run([*isolate, *process_ids, "ip", "link", "set", "lo", "up"], capture_output=True, check=False)
    except FileNotFoundError:
        return [], []
    return (isolate, process_ids) if done.returncode == 0 else ([], [])


def run_inside(words):
    """The inner process to its end. Returns its exit status, and whether this one was interrupted."""
    def interrupt(*_):
        raise KeyboardInterrupt
    status, interrupted = 1, False
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGINT, interrupt)  # a shell's background job inherits that it is ignored
    inner = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
    try:
        status = inner.wait()
    except KeyboardInterrupt:
        interrupted = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    inner.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        inner.wait(60)
    with suppress(ProcessLookupError):
        os.killpg(inner.pid, signal.SIGKILL)
    return status, interrupted


def outside(options, arguments):
    work = Path(tempfile.mkdtemp(prefix="pawl-chaos.", dir=os.environ.get("PAWL_TEST_TMP")))
    words = [sys.executable, str(HERE / "run.py"), *arguments, "--inside", str(work)]
    isolate, process_ids = isolation()
    if isolate:
        words = [*isolate, "sh", "-c", GUARD, str(work), *process_ids, *words, "--isolated"]
    status, interrupted = run_inside(words)
    for group in (Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup")):
        with suppress(OSError):
            (group / f"pawl-chaos-{work.name}").rmdir()
    page = work / "report"
    if page.exists():
        text = page.read_text(encoding="utf-8")
        print(text, end="")
        if options.report:
            Path(options.report).write_text(text, encoding="utf-8")
    if (options.keep or status not in (0, 130)) and not interrupted:
        print(f"chaos: logs, files and the servers' data are kept in {work}", file=sys.stderr)
    else:
        shutil.rmtree(work, ignore_errors=True)
    return 130 if interrupted else status


def main():
    parser = argparse.ArgumentParser(prog="chaos")
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--show-schedule", action="store_true")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--isolated", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.show_schedule:
        for fault in draw(options.seed, options.minutes * 60):
            print(f"{fault.at:8.2f}  {fault.kind:24} {fault.type}  {fault.seconds:.2f} s")
        return 0
    if options.inside:
        return inside(options)
    return outside(options, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
