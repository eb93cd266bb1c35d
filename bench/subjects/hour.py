"""An hour of inserting and draining at a steady rate: whether anything grows."""
import os
import re
import signal
import subprocess
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from statistics import linear_regression, median

from figures import number, quantile, table
from harness import CACHE_MIB, OPLOG_MIB, Background, NotMeasured, Worker, end_process, printed, processor_s, program, say, wait_until
from subjects import latency

MESSAGE = 256
MOST_RATE, SHARE = 2_000, 0.2  # messages/s, and of what is sustained: an hour is 7 M, some 2 GB in the file
SMALL_CACHE_MIB, SMALL_OPLOG_MIB = 1024, 990  # both are full long before the end; no server makes a smaller oplog
TYPE = "t1"
STAYS, RENEWED = "the worker that stays", "the one that is renewed"
CACHE = {"cache": "bytes currently in the cache", "history": "history store table on-disk size"}
LATE = "Acknowledged to durable"  # a panel with a logarithmic scale
MIB = 2 ** 20


@dataclass
class Plan:
    """All in seconds."""
    total: float
    round: float  # begins with inserts and ends with a break, in which the holder lets go
    pause: float
    tick: float
    renew: float


def run(bench):
    plan = bench.size(Plan(20, 5, 2, 0.5, 7), Plan(3600, 60, 3, 5, 300))
    sustained = latency.sustained(bench)
    rate = int(min(MOST_RATE, SHARE * sustained))
    with small_server(bench), bench.queue() as queue, ExitStack() as stack:
        hour = Hour(queue, plan, rate, stack)
        for part in (hour.go, hour.end, hour.lateness):
            try:
                part()
            except Exception as error:  # what was seen so far is worth its time
                if len(hour.samples) * plan.tick < 2 * plan.round:
                    raise
                hour.trouble.append(f"after {hour.now():.0f} s, {part.__name__}: {error}")
                bench.not_measured("hour", hour.trouble[-1])
    return {"tables": [levels(hour, plan), flows(hour, sustained)], "curves": curves(hour, plan),
            "raw": {"rate": rate, "sustained": sustained, "samples": hour.samples, "late": hour.late}}


@contextmanager
def small_server(bench):
    """So small that cache and oplog are full within the time, and then show what they keep."""
    size(bench, SMALL_CACHE_MIB, SMALL_OPLOG_MIB)
    try:
        yield
    finally:
        size(bench, CACHE_MIB, OPLOG_MIB)


def size(bench, cache, oplog):
    bench.server.client.admin.command("setParameter", 1, wiredTigerEngineRuntimeConfig=f"cache_size={cache}M")
    bench.server.client.admin.command("replSetResizeOplog", 1, size=float(oplog))


# --- what goes on -----------------------------------------------------------------------------------------------


@dataclass
class Hour:
    queue: object
    plan: Plan
    rate: int
    stack: ExitStack
    workers: dict = field(default_factory=dict)
    rounds: list = field(default_factory=list)  # each with what its producer has written
    locks: list = field(default_factory=list)
    samples: list = field(default_factory=list)
    renewals: list = field(default_factory=list)  # when, in seconds
    leaving: object = None
    renewed_at: float = 0
    inserted: list = field(default_factory=list)  # of each round
    late: list = field(default_factory=list)
    trouble: list = field(default_factory=list)
    locks_got: int = 0
    epoch: int = 0
    reached: float = 0  # messages/s while the producers ran
    verdict: str = "not asked"

    def go(self):
        """Until the time is over."""
        for place in (STAYS, RENEWED):
            self.workers[place] = self.worker()
        self.begin = time.monotonic()
        self.busy = busy_s()
        due = 0
        while (now := self.now()) < self.plan.total:
            self.turn(now)
            self.samples.append(self.sample(now))
            self.tell()
            due += self.plan.tick
            time.sleep(max(0, due - self.now()))

    def now(self):
        return time.monotonic() - self.begin

    def tell(self):
        every = max(1, round(60 / self.plan.tick))
        if len(self.samples) % every == 1:
            last = self.samples[-1]
            known = (f"{name} {number(last[name])}" for name in ("seq", "waiting", "rss", "server") if last[name])
            say(f"  {last['at'] / 60:.0f} min: " + ", ".join(known))

    def worker(self):
        path = self.queue.dir / f"times{self.queue.bench.next_number()}"
        return self.stack.enter_context(Worker(self.queue, "--linger", "1s", env=latency.preload(path)))

    def turn(self, now):
        """What is due: a round, a lock, a new worker."""
        if self.rounds and "end" not in self.rounds[-1] and self.rounds[-1]["process"].poll() is not None:
            self.rounds[-1]["end"] = now
        begins = max(len(self.rounds) * self.plan.round, self.rounds[-1].get("end", inf) + self.plan.pause) if self.rounds else 0
        if now >= begins:
            self.new_round(now)
        if len(self.locks) < len(self.rounds) and now >= self.rounds[-1]["at"] + self.plan.round / 2:
            self.new_lock()
        self.renew(now)
        for place, worker in self.workers.items():
            if worker.process.poll() is not None and worker is not self.leaving:
                raise NotMeasured(f"{place} ended with {worker.process.returncode}: {worker.log().splitlines()[-1:]}")

    def new_round(self, now):
        seconds, n = self.plan.round - self.plan.pause, len(self.rounds)
        output, times = self.queue.dir / f"producer{n}", self.queue.dir / f"inserts{n}"
        words = [f"uri={self.queue.bench.server.uri}", f"db={self.queue.name}", f"bytes={MESSAGE}", f"count={int(self.rate * seconds)}",
                 f"rate={self.rate}", f"chunk={max(1, self.rate // 100)}", f"times={times}", f"most_s={int(self.plan.round * 5)}"]
        process = self.stack.enter_context(Background(self.queue.bench, program("fill"), *words, output=output))
        self.rounds.append({"at": now, "process": process, "output": output, "times": times})

    def new_lock(self):
        """It gets the lock in the next break, or when a holder is told to stop."""
        words = [program("pawl-lock"), *self.queue.mongo, "--timeout", f"{2 * self.plan.round:.0f}s", TYPE, "--", "true"]
        self.locks.append(self.stack.enter_context(Background(self.queue.bench, *words, output=self.queue.dir / f"lock{len(self.locks)}")))

    def renew(self, now):
        """Once it holds the lock it is told to stop, and another comes in its place."""
        mine = self.workers[RENEWED]
        if self.leaving:
            if mine.process.poll() is None:
                return
            if mine.process.returncode:
                raise NotMeasured(f"a worker that was told to stop ended with {mine.process.returncode}")
            self.leaving, self.workers[RENEWED] = None, self.worker()
        elif now - self.renewed_at >= self.plan.renew and holder(self.queue) == mine.pid:
            mine.process.send_signal(signal.SIGTERM)
            self.leaving, self.renewed_at = mine, now
            self.renewals.append(now)

    def sample(self, now):
        queue, client = self.queue, self.queue.bench.server.client
        status = client.admin.command("serverStatus")
        cache = status["wiredTiger"]["cache"]
        oplog = client.local.command("collStats", "oplog.rs")
        messages = queue.db.command("collStats", "messages")
        found = {"at": round(now, 2), "wall": time.time(), "seq": queue.ledger(TYPE).get("seq", 0),
                 "waiting": max(0, queue.db.messages.estimated_document_count()),
                 "skipped": queue.bench.server.skipped(), "server": rss_mb(queue.bench.server.pid),
                 **{name: megabytes(cache.get(key)) for name, key in CACHE.items()},
                 "oplog": megabytes(oplog["size"]), "oplog disk": megabytes(oplog["storageSize"]), "window": window_min(client),
                 "queue disk": megabytes(messages["storageSize"] + messages["totalIndexSize"])}
        for short, place in (("", STAYS), (" renewed", RENEWED)):
            pid = self.workers[place].pid
            found["rss" + short], found["files" + short] = rss_mb(pid), descriptors(pid)
        return {**found, **self.processor()}

    def processor(self):
        """Seconds so far: the server's, those of the workers that live, and what all programs of the machine used."""
        return {"server cpu": processor_s(self.queue.bench.server.pid), "worker cpu": processor_of(self.workers[STAYS]),
                "all cpu": busy_s() - self.busy}

    def end(self):
        """All of it must be in the file, once."""
        for process in (round_["process"] for round_ in self.rounds):
            process.wait(60)
        said = [printed(round_["output"]) for round_ in self.rounds]
        self.inserted = [one.get("documents", 0) for one in said]
        self.reached = sum(self.inserted) / sum(one.get("produced_s", 0) for one in said)
        wait_until(lambda: self.queue.ledger(TYPE).get("seq") == sum(self.inserted), f"{sum(self.inserted):,} messages in the file", 120, 0.05)
        wait_until(lambda: self.queue.db.messages.find_one({"type": TYPE}, {"_id": 1}) is None, "an empty queue", 60, 0.05)
        for worker in self.workers.values():
            end_process(worker.process)
        for lock in self.locks:
            end_process(lock)
        self.locks_got = sum(lock.returncode == 0 for lock in self.locks)
        self.epoch = self.queue.ledger(TYPE)["epoch"]
        done = subprocess.run([program("pawl-dump"), "--dir", self.queue.dir, "--type", TYPE, "--verify"], capture_output=True, text=True,
                              check=False, timeout=600)
        if done.returncode or f" {sum(self.inserted)} messages" not in done.stdout:
            raise NotMeasured(f"the file is not what was inserted: {done.stdout.strip()} {done.stderr.strip()}")
        self.verdict = done.stdout.strip().split(", link")[0]

    def lateness(self):
        """Of each round, acknowledged to durable: the last message of each insert. `held`: without the inserts that come before there is a holder."""
        blocks = [block for block in self.queue.blocks(TYPE) if block["kind"] == "data"]
        if len({block["file"] for block in blocks}) != 1:
            raise NotMeasured("the type has more than one segment")
        syncs = sorted(sync for path in self.queue.dir.glob("times*") for sync in latency.noted(path, "sync"))
        durable, lasts = latency.durable_times(blocks, syncs), [block["last"] for block in blocks]
        before, at = 0, 0
        for round_, count in zip(self.rounds, self.inserted):
            samples = []
            for line in round_["times"].read_text().splitlines():
                first, some, _, acknowledged = map(int, line.split())
                while lasts[at] < before + first + some - 1:
                    at += 1
                samples.append((acknowledged, max(0, durable[at] - acknowledged) / 1e6))
            before += count
            held = [ms for at, ms in samples if at - samples[0][0] >= 1e9 * self.plan.round / 12] or [ms for _, ms in samples]
            self.late.append({"at": round_["at"], "median": quantile(held, 0.5), "p99": quantile(held, 0.99),
                              "greatest": max(ms for _, ms in samples)})


def holder(queue):
    return ((queue.db.locks.find_one({"type": TYPE, "slot": 0}) or {}).get("holder") or {}).get("pid")


def rss_mb(pid):
    """None: the process has ended."""
    try:
        found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)
    except OSError:
        return None
    return round(int(found[1]) / 1024, 2) if found else None


def descriptors(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd")) or None
    except OSError:
        return None


def processor_of(worker):
    try:
        return processor_s(worker.pid)
    except OSError:
        return None


def busy_s():
    """What all programs on this machine have used so far."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def megabytes(count):
    return None if count is None else round(count / MIB, 2)


def window_min(client):
    """From the oplog's first entry to its last."""
    ends = [next(iter(client.local["oplog.rs"].find({}, {"ts": 1}).sort("$natural", way).limit(1)), None) for way in (1, -1)]
    return round((ends[1]["ts"].time - ends[0]["ts"].time) / 60, 2) if all(ends) else None


# --- what it comes to -------------------------------------------------------------------------------------------


def series(hour, key):
    """(hours, value), of the samples that have it."""
    return [(sample["at"] / 3600, sample[key]) for sample in hour.samples if sample.get(key) is not None]


def level_row(hour, plan, name, key):
    found = series(hour, key)
    if not found:
        return [name, "not measured", "", "", ""]
    values, end = [value for _, value in found], hour.samples[-1]["at"] / 3600
    first, last = ([value for at, value in found if condition(at)] or values
                   for condition in (lambda at: at < plan.round / 3600, lambda at: at > end - plan.round / 3600))
    half = [(at, value) for at, value in found if at >= end / 2]
    slope = linear_regression(*zip(*half)).slope if len(half) > 2 else None
    return [name, number(median(first)), number(median(last)), number(max(values)), "" if slope is None else signed(slope)]


def signed(value):
    return ("+" if value > 0 else "") + number(value)


def levels(hour, plan):
    rows = [(f"memory of {STAYS}, MiB", "rss"), (f"memory of {RENEWED}, MiB", "rss renewed"), (f"descriptors of {STAYS}", "files"),
            (f"descriptors of {RENEWED}", "files renewed"), ("memory of mongod, MiB", "server"), ("its cache, MiB", "cache"),
            ("its history store, on disk, MiB", "history"), ("oplog, MiB", "oplog"), ("the same on disk, MiB", "oplog disk"),
            ("oplog window, minutes", "window"), ("messages and their index, on disk, MiB", "queue disk"), ("messages waiting", "waiting")]
    length, unit = (plan.total / 60, "minutes") if plan.total >= 60 else (plan.total, "seconds")
    return table(f"{length:g} {unit} at {hour.rate:,} messages/s of {MESSAGE} bytes",
                 ["", "begin", "end", "greatest", "slope of the second half, an hour"], [level_row(hour, plan, *row) for row in rows],
                 [f"A sample every {plan.tick:g} s. Begin and end: the median of the first and the last {plan.round:g} s. Slope: least squares.",
                  f"A round of {plan.round:g} s: one producer inserts (w: majority) at the rate, then pauses for {plan.pause:g} s. Two workers, "
                  "--linger 1s, the rest at its defaults: one holds the type, one stands by. In the pause the holder lets go, a pawl-lock that "
                  "has waited in the wait queue takes the lock for a moment, and either worker is next.",
                  f"One worker lives all the time. The other is told to stop (SIGTERM) when {plan.renew:g} s or more have passed since the last "
                  "time and it is the holder, and a new one comes in its place: its memory begins anew.",
                  f"mongod with a cache of {SMALL_CACHE_MIB} MiB and an oplog of {SMALL_OPLOG_MIB} MiB: small enough to be full long before an "
                  "hour is over.",
                  "The workers are preloaded with the library that notes their syncs: one descriptor is its own."])


def flows(hour, sustained):
    per_minute = rates(hour)
    columns = ["", "median", "least", "greatest", "the last fifth, median"]
    of = lambda values: [number(median(values)), number(min(values)), number(max(values)), number(median(values[-max(1, len(values) // 5):]))]
    rows = [["messages drained, a second", *of(per_minute["drained"])],
            ["deleted entries that cursors went over, a second", *of(per_minute["skipped"])],
            ["processor: mongod, % of one core", *of(per_minute["server"])], [f"processor: {STAYS}, % of one core", *of(per_minute["worker"])],
            ["processor: all other programs, % of one core", *of(per_minute["others"])]]
    rows += [[f"acknowledged to durable: {name}, ms", *of([one[name] for one in hour.late])] for name in ("median", "p99", "greatest") if hour.late]
    return table("By rounds", columns, rows,
                 [f"{sum(hour.inserted):,} messages; the lock had {hour.epoch:,} holders, {hour.locks_got} of {len(hour.locks)} pawl-locks and "
                  f"{len(hour.renewals)} workers that were told to stop among them. pawl-dump --verify: {hour.verdict}.",
                  f"The rate is {number(100 * hour.rate / sustained)} % of what producer and worker sustained together just before "
                  f"({number(sustained)} messages/s). While the producer ran it reached {number(hour.reached)}: beside other programs it may not keep up.",
                  "Acknowledged to durable: of the last message of each insert; as in \"Latency\", 0 if it was durable before. The median and "
                  "p99 are without the first twelfth of each round, when nobody holds the type yet and a poll finds the messages; the greatest "
                  "is of all.",
                  "All other programs: the producer, the benchmark itself, the other worker, and whatever else ran on this machine.",
                  *(f"Trouble {trouble}." for trouble in hour.trouble)])


def rates(hour):
    """Round by round, a second, between the samples nearest to its ends."""
    found = {"at": [], "drained": [], "skipped": [], "server": [], "worker": [], "others": []}
    ends = [next((sample for sample in hour.samples if sample["at"] >= i * hour.plan.round), hour.samples[-1])
            for i in range(int(hour.samples[-1]["at"] / hour.plan.round + 0.5) + 1)]
    for a, b in zip(ends, ends[1:]):
        over = b["at"] - a["at"]
        if over <= 0:
            continue
        gained = {key: (b[key] - a[key]) / over if None not in (a[key], b[key]) else 0
                  for key in ("seq", "skipped", "server cpu", "worker cpu", "all cpu")}
        server, worker, everything = (100 * gained[key] for key in ("server cpu", "worker cpu", "all cpu"))
        for key, value in (("at", (a["at"] + b["at"]) / 2), ("drained", gained["seq"]), ("skipped", gained["skipped"]), ("server", server),
                           ("worker", worker), ("others", max(0, everything - server - worker))):
            found[key].append(round(value, 4))
    if not found["at"]:
        raise NotMeasured("not one round came to its end")
    return found


def curves(hour, plan):
    """See curves.py."""
    per_round = rates(hour)
    at = lambda label, key: [label, "samples", [sample.get(key) for sample in hour.samples]]
    by = lambda label, key: [label, "rounds", per_round[key]]
    took = lambda label, key: [label, "late", [round(one[key], 3) for one in hour.late]]
    panels = [
        ("Memory of the workers", "MiB", [at("stays", "rss"), at("renewed", "rss renewed")]),
        ("Open descriptors of the workers", "", [at("stays", "files"), at("renewed", "files renewed")]),
        ("Memory of mongod", "MiB", [at("resident", "server"), at("cache", "cache")]),
        ("On disk, by mongod", "MiB", [at("oplog", "oplog disk"), at("history store", "history"), at("messages, index", "queue disk")]),
        ("Oplog", "MiB, not compressed", [at("", "oplog")]),
        ("Oplog window", "minutes", [at("", "window")]),
        ("Deleted entries gone over", "a second", [by("", "skipped")]),
        ("Messages waiting", "", [at("", "waiting")]),
        ("Messages drained", "a second, pauses included", [by("", "drained")]),
        (LATE, "ms", [took("median", "median"), took("p99", "p99"), took("greatest", "greatest")]),
        ("Processor", "% of one core", [by("mongod", "server"), by("worker that stays", "worker"), by("all others", "others")]),
    ]
    half = plan.round / 2
    return {"x": {"samples": [round(sample["at"] / 60, 4) for sample in hour.samples], "rounds": [round(x / 60, 4) for x in per_round["at"]],
                  "late": [round((one["at"] + half) / 60, 4) for one in hour.late]},
            "marks": [round(at / 60, 4) for at in hour.renewals], "mark": "the holder is told to stop, and replaced",
            "panels": [{"title": title, "unit": unit, "log": title == LATE, "lines": lines} for title, unit, lines in panels]}
