"""Twelve one-second jobs over three names: behind one lock, and behind a lock a name."""
import locks
from figures import raw, rows, table
from harness import NotMeasured, interleave

JOBS, NAMES = 12, ("one", "two", "three")


def run(bench):
    job_ms = bench.size(150, 1000)
    results = interleave(bench, {"all behind one lock": lambda: waterfall(bench, job_ms, ["all"]),
                                 "a lock a name": lambda: waterfall(bench, job_ms, NAMES)})
    least = [f"{JOBS * job_ms / 1000:g}", f"{JOBS * job_ms / 1000 / len(NAMES):g}"]
    return {"tables": [table(f"{JOBS} jobs of {job_ms} ms, {len(NAMES)} names", ["", "at the least, s", "took, s", "a hand-over, ms"],
                             [[name, bound, *cells] for bound, (name, *cells) in zip(least, rows(results, "seconds", "handover_ms"))],
                             ["All started at once, by pawl-lock at its defaults; from the first beginning to the last end."])],
            "raw": raw(results)}


def waterfall(bench, job_ms, names):
    with bench.queue() as queue, locks.Jobs(queue) as jobs:
        paths = {name: queue.dir / f"stamps.{name}" for name in names}
        for i in range(JOBS):
            name = names[i % len(names)]
            jobs.start(name, paths[name], job_ms)
        jobs.wait()
        turns = {name: locks.read_stamps(path) for name, path in paths.items()}
    gaps = [after[0] - turn[1] for stamps in turns.values() for turn, after in zip(stamps, stamps[1:])]
    if min(gaps) < 0:
        raise NotMeasured("two held a lock at once")
    everything = [stamp for stamps in turns.values() for stamp in stamps]
    return {"seconds": max(end for _, end in everything) - min(begin for begin, _ in everything),
            "handover_ms": sum(gaps) / len(gaps) * 1000}
