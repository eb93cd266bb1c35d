"""The program that runs a command while it holds a lock: pawl-lock, or while there is none the benchmark's own on pawl's lockstore."""
import subprocess
import time

from harness import NotMeasured, end_process, program, wait_until

RETRY_MS = 100


def with_pawl_lock():
    try:
        return bool(program("pawl-lock"))
    except NotMeasured:
        return False


def name():
    return "pawl-lock" if with_pawl_lock() else "pawl's mutex, timer of 100 ms"


def note():
    return "pawl-lock at its defaults." if with_pawl_lock() else (
        "This pawl has no pawl-lock: a small program on its lockstore stands in, which reads the lock every 100 ms, and takes it when it is "
        "free.")


def locked(queue, lock, *command):
    if with_pawl_lock():
        return [program("pawl-lock"), *queue.mongo, lock, "--", *command]
    return [program("hold_lock"), queue.bench.server.uri, queue.name, lock, str(RETRY_MS), *command]


def stamp(path, ms):
    return [program("stamp"), str(path), str(ms)]


def read_stamps(path):
    """(begin, end) in seconds, in order; each job writes its line when it ends."""
    if not path.exists():
        return []
    return sorted(tuple(int(word) / 1e9 for word in line.split()) for line in path.read_text().splitlines())


class Jobs:
    """Locked jobs that run side by side; none outlives the with."""

    def __init__(self, queue):
        self.queue, self.processes = queue, []

    def start(self, lock, path, ms):
        with open(self.queue.dir / "jobs.output", "ab") as output:
            self.processes.append(subprocess.Popen(locked(self.queue, lock, *stamp(path, ms)), stdin=subprocess.DEVNULL, stdout=output,
                                                   stderr=output, env=self.queue.bench.environment()))

    def ended(self):
        return all(process.poll() is not None for process in self.processes)

    def wait(self, limit_s=120):
        end = time.monotonic() + limit_s
        for process in self.processes:
            try:
                status = process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise NotMeasured(f"a job did not end within {limit_s} s") from None
            if status:
                raise NotMeasured(f"a job ended with {status}: {(self.queue.dir / 'jobs.output').read_text(errors='replace')[-300:]}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            end_process(process)


def wait_held(queue, lock):
    wait_until(lambda: queue.db.locks.find_one({"type": lock}), f"a holder of {lock}", 30)
