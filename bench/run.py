"""The benchmark: runs the subjects, keeps what they found in results.json, and writes RESULTS.md and the pictures from it.

scripts/bench calls this, with everything built. All of these are in bench/, and of a quick run in build-bench/quick/.
"""
import argparse
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import curves
import machine
import picture
import report
from harness import BUILD, ROOT, Bench, NotMeasured, say

SUBJECTS = ["drain", "sizes", "batches", "backlog", "types", "own", "bundles", "latency", "together", "settings", "handover", "library", "takeover", "settle", "waterfall", "idle", "dump", "hour"]
APART = report.APART  # only if they are named, or all is quick


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measures pawl beside its rivals.")
    parser.add_argument("--quick", action="store_true", help="small counts, one turn, minutes instead of hours; the results go to "
                        "build-bench/quick/ and say nothing about pawl")
    parser.add_argument("--only", action="append", choices=SUBJECTS, metavar="SUBJECT", default=[],
                        help=f"may be repeated: {', '.join(SUBJECTS)}; default: all but {', '.join(APART)}, with --quick these too")
    parser.add_argument("--page", action="store_true", help="measures nothing: writes page and pictures anew from results.json")
    parser.add_argument("--repeat", type=int, metavar="N", help="turns of each contestant; default: 5, with --quick 1")
    parser.add_argument("--dir", type=Path, default=BUILD, help="where files and database go meanwhile: a real disk; default: build-bench")
    chosen = parser.parse_args()
    if chosen.repeat is None:
        chosen.repeat = 1 if chosen.quick else 5
    if chosen.repeat < 1:
        parser.error(f"--repeat: got {chosen.repeat}: takes 1 or more")
    return chosen


def run_subject(bench, name, command):
    """What goes wrong in one subject does not take the others' hours with it."""
    subject = importlib.import_module("subjects." + name)
    say(f"{name}: {subject.__doc__.splitlines()[0]}")
    begin = time.monotonic()
    if not bench.server or not bench.quick:
        bench.start_server()  # a fresh one, so that no subject inherits another's leftovers
    try:
        found = subject.run(bench)
    except NotMeasured as reason:
        found = {"tables": [], "missing": str(reason)}
        bench.not_measured(name, reason)
    except Exception as error:
        traceback.print_exc()
        found = {"tables": [], "missing": f"it failed: {error}"}
        bench.not_measured(name, error)
    found.update(command=command, repeat=bench.repeat, machine=machine.describe(bench.work, bench.server.version),
                 seconds=round(time.monotonic() - begin))
    for text in report.tables(found):
        say(text)
    say(f"  {name}: {found['seconds']} s\n")
    return found


def commit():
    """What was measured: the commit, and whether something beside it."""
    def git(*words):
        done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/RESULTS.md", ":!bench/results.svg",
                  ":!bench/results.json", ":!bench/hour.svg")
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + (", with changes" if changed else "")


def publish(results, out, quick):
    """The page and the pictures of all that was ever measured."""
    ordered = {name: results[name] for name in SUBJECTS if name in results}
    (out / "RESULTS.md").write_text(report.page(ordered, quick, SUBJECTS))
    (out / "results.svg").write_text(picture.draw(ordered))
    for name, found in ordered.items():
        if "curves" in found:
            (out / f"{name}.svg").write_text(curves.draw(found["curves"]))
    return report.targets(ordered)


def stop(*_):
    sys.exit(130)


def main():
    chosen = arguments()
    signal.signal(signal.SIGTERM, stop)
    out = BUILD / "quick" if chosen.quick else ROOT / "bench"
    out.mkdir(exist_ok=True)
    kept = out / "results.json"
    results = json.loads(kept.read_text()) if kept.exists() else {}
    if chosen.page:
        publish(results, out, chosen.quick)
        return
    chosen.dir.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="work.", dir=chosen.dir.resolve()))
    bench = Bench(work, chosen.quick, chosen.repeat)
    try:
        machine.refuse_memory_disk(work)
        for name in chosen.only or [name for name in SUBJECTS if chosen.quick or name not in APART]:
            turns = "" if name in APART else f" --repeat {chosen.repeat}"
            words = f"scripts/bench{' --quick' if chosen.quick else ''} --only {name}{turns}"
            results[name] = {**run_subject(bench, name, words), "commit": commit()}
            kept.write_text(json.dumps(results, indent=1))
            publish(results, out, chosen.quick)
    finally:
        bench.stop_server()
        shutil.rmtree(work, ignore_errors=True)
    say(publish(results, out, chosen.quick))
    say(f"written: {os.path.relpath(out / 'RESULTS.md', ROOT)}, the pictures and results.json beside it")
    if bench.failed:
        sys.exit("\n".join(f"not measured: {one}" for one in bench.failed))


main()
