"""Jobs under a lock of pawl."""
import subprocess
import time

from harness import NotMeasured, end_process, program, wait_until


def pawl_lock(queue, lock, path, ms):
    """At its defaults, with a command that notes when it begins and ends."""
    return [program("pawl-lock"), *queue.mongo, lock, "--", program("stamp"), str(path), str(ms)]


def mutex(slot):
    """The mutex alone, in a process of its own; see tools/mutex.c."""
    return lambda queue, lock, path, ms: [program("mutex"), f"uri={queue.bench.server.uri}", f"db={queue.name}", f"name={lock}",
                                          f"slot={slot}", f"file={path}", f"ms={ms}"]


def read_stamps(path):
    """(begin, end) in seconds, in order; each job writes its line when it ends."""
    if not path.exists():
        return []
    return sorted(tuple(int(word) / 1e9 for word in line.split()) for line in path.read_text().splitlines())


def read_turns(path):
    """(asked, begin, end) in seconds, in the order of their beginning."""
    if not path.exists():
        return []
    return sorted((tuple(int(word) / 1e9 for word in line.split()) for line in path.read_text().splitlines()), key=lambda turn: turn[1])


class Jobs:
    """Locked jobs that run side by side; none outlives the with. `locked`: pawl_lock or mutex(slot)."""

    def __init__(self, queue, locked=pawl_lock):
        self.queue, self.locked, self.processes = queue, locked, []

    def start(self, lock, path, ms):
        with open(self.queue.dir / "jobs.output", "ab") as output:
            self.processes.append(subprocess.Popen(self.locked(self.queue, lock, path, ms), stdin=subprocess.DEVNULL, stdout=output,
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
    wait_until(lambda: queue.db.locks.find_one({"type": lock, "slot": {"$gte": 0}}), f"a holder of {lock}", 30)
