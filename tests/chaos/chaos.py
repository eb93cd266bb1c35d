"""A chaos run from its first process to the judged files: its clock, its workers as their logs tell of them, its end."""
import heapq
import itertools
import queue
import re
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

from pymongo.errors import PyMongoError

from ground import Ground
from harness import run
from producer import send_one
from schedule import ALL_TYPES, BESIDE, LEASE, OWN, SWITCHED, draw
from strikes import strike, switch
from verdict import Watch, judge, judge_commands

HERE = Path(__file__).resolve().parent
DRAIN_DEADLINE = 180
RATE = 60  # messages a second, of each of six producers


class Chaos:
    def __init__(self, options, work, isolated):
        self.options, self.work = options, Path(work)
        self.problems, self.faults, self.not_run, self.events = [], Counter(), Counter(), Counter()
        self.to_come = set()  # the faults of the schedule that have not struck
        self.agenda, self.order, self.jobs = [], itertools.count(), queue.Queue()
        self.holders, self.gone, self.takeovers, self.measured = {}, {}, Counter(), []
        self.disturbances = []  # (type or None for all, begin, end)
        self.exits, self.commands = Counter(), Counter()
        self.under_lock = []  # (type, process) of pawl-lock
        self.adopting = set()  # types whose ledger is lost
        self.switched = False  # a type has got its own collection
        self.random = Random(f"{options.seed} whom")
        self.log = open(self.work / "faults.log", "w", buffering=1, encoding="utf-8")
        self.begin = time.monotonic()
        self.ending = False
        self.ground = Ground(work, options.minutes, isolated)

    # --- what happens when -------------------------------------------------------------------------------------

    def now(self):
        return time.monotonic() - self.begin

    def say(self, text):
        line = f"{self.now():8.2f}  {text}"
        print(line, file=self.log)
        if self.options.verbose:
            print(line, file=sys.stderr, flush=True)

    def problem(self, text):
        self.say(f"PROBLEM: {text}")
        print(f"chaos: PROBLEM: {text}", file=sys.stderr, flush=True)
        self.problems.append(text)

    def after(self, seconds, action):
        heapq.heappush(self.agenda, (self.now() + seconds, next(self.order), action))

    def disturb(self, scope, seconds):
        self.disturbances.append((scope, self.now(), self.now() + seconds))

    def database_jobs(self):
        """What asks the servers may have to wait for them; the clock of the others must not."""
        while True:
            job = self.jobs.get()
            if job is None:
                return
            try:
                job()
            except PyMongoError as error:
                self.say(f"(a fault found no server: {str(error)[:100]})")
            except Exception:  # a mistake of this program
                self.problem(traceback.format_exc())

    def tick(self):
        while self.agenda and self.agenda[0][0] <= self.now():
            heapq.heappop(self.agenda)[2]()
        for worker in self.ground.workers:
            self.look_at(worker)
        for node in self.ground.nodes:
            if node.process.poll() is not None and not getattr(node, "away", False):
                self.say(f"server {node.number} ended by itself with {node.process.returncode}; it is started again")
                self.events["server ended by itself"] += 1
                node.start()
        time.sleep(0.02)

    # --- workers ------------------------------------------------------------------------------------------------

    def look_at(self, worker):
        for line in worker.new_lines():
            self.read_line(worker, *line)
        if worker.process is None:
            return
        status = worker.process.poll()
        if status is not None:
            for line in worker.new_lines():
                self.read_line(worker, *line)
            self.ended(worker, status)
        elif worker.armed and "PAWL_FAULT_STOP" in worker.armed and not worker.frozen and worker.stopped():
            seconds, worker.frozen = worker.armed_seconds, 1
            self.count(worker.armed_fault, f"{worker.name} at {worker.armed['PAWL_FAULT_STOP']}, {seconds:.1f} s")
            worker.armed = None
            self.holder_gone(worker, "freeze", True)
            self.after(seconds, self.thawing(worker))

    def ended(self, worker, status):
        delay, worker.process = getattr(worker, "delay", 0), None
        if worker.armed and "PAWL_FAULT" in worker.armed and status == -signal.SIGKILL and not worker.killed:
            self.count(worker.armed_fault, f"{worker.name} at {worker.armed['PAWL_FAULT']}")
            self.holder_gone(worker, "death", True)
            delay = worker.armed_seconds
        elif worker.killed and status == -signal.SIGKILL:
            pass
        elif worker.asked and status in (0, 1):
            self.exits[status] += not self.ending
        elif worker.asked and status == -signal.SIGTERM and worker.silent():
            self.events["asked to end before it had begun"] += 1
        else:
            self.problem(f"{worker.name} ended with {status} (killed: {worker.killed}, asked: {worker.asked}); the end of its log:\n"
                         + "\n".join(worker.log_path.read_text(errors="replace").splitlines()[-15:]))
        worker.holding = False
        if not self.ending:
            worker.faults, faults = None, getattr(worker, "faults", None)
            self.after(delay, lambda: self.start_again(worker, faults))

    def start_again(self, worker, faults=None):
        if not (worker.process or worker.away or self.ending):
            worker.start(faults)

    def read_line(self, worker, level, name, epoch, event, text):
        if level == "strange" and re.search("assert|anitizer|runtime error|corrupt|free\\(\\)", text):
            self.problem(f"{worker.name} said: {text}")
        if level in ("warn", "error"):
            self.events[f"{event} ({level})"] += 1
            if event not in ("database", "lost"):
                self.say(f"{worker.name}: {level} {event}: {text}")
        if name not in (None, worker.type):
            if event == "takeover":
                self.takeovers[name] += 1
                self.holders[name] = worker
        elif event == "takeover":
            if self.holders.get(worker.type) is not worker or worker.epoch != epoch:
                self.takeovers[worker.type] += 1
            self.holders[worker.type], worker.holding, worker.epoch = worker, True, epoch
            if worker.type in self.gone:
                begin, kind, left = self.gone.pop(worker.type)
                alone = not any(scope in (None, worker.type) and one < self.now() and two > begin for scope, one, two in self.disturbances)
                self.measured.append((kind, self.now() - begin, alone))
                self.say(f"{worker.type}: {worker.name} has taken over as epoch {epoch}, {self.now() - begin:.2f} s after the {kind} of {left}"
                         f"{'' if alone else ' (disturbed)'}")
        elif event == "state" and not text.split(":")[0].endswith(("settling", "draining", "releasing", "fencing", "opening")):
            worker.holding = False

    def holder_gone(self, worker, kind, at_point=False):
        """The clock of a take-over runs from here, if this was the holder."""
        if (worker.holding or at_point) and worker.type not in self.gone and self.holders.get(worker.type) is worker:
            self.gone[worker.type] = (self.now(), kind, worker.name)

    def thawing(self, worker):
        process = worker.process

        def thaw():
            if worker.process is process and worker.alive():
                process.send_signal(signal.SIGCONT)
                worker.frozen = 0
        return thaw

    def victim(self, fault):
        """The holder of a type, or of the one beside it; or if there is none, or it is another's victim, any."""
        mine = [worker for worker in self.ground.workers if worker.type == fault.type]
        name = BESIDE.get(fault.type, fault.type) if fault.number & 1 else fault.type
        holder = self.holders.get(name)
        if not fault.worker and holder and (holder.holding or name != fault.type) and holder.alive() and not holder.frozen:
            return holder
        if fault.worker and mine[fault.worker - 1].alive():
            return mine[fault.worker - 1]
        return next((worker for worker in mine[fault.number % 3:] + mine if worker.alive() and not worker.frozen), None)

    def count(self, fault, what):
        self.faults[fault.kind] += 1
        self.to_come.discard(fault)
        self.say(f"{fault.kind}: {what}")

    def later(self, fault):
        """It has found no victim."""
        if self.now() < self.options.minutes * 60:
            self.after(0.5, lambda: strike(self, fault))

    def describe(self, worker):
        return f"{worker.name}{f', the holder of epoch {worker.epoch}' if worker.holding else ''}"

    def commands_of(self, type_name):
        return self.work / f"{type_name}.commands"

    # --- the run ------------------------------------------------------------------------------------------------

    def wait(self, condition, seconds):
        end = self.now() + seconds
        while not condition():
            if self.now() > end:
                return False
            self.tick()
        return True

    def watching(self, watch, stop):
        while not stop.wait(0.7):
            try:
                for ledger in list(watch.ledgers.find({})):
                    problem = watch.look(ledger)
                    if problem:
                        self.problem(problem)
            except PyMongoError:
                pass  # the servers are a fault's victims just now
            except Exception:
                self.problem(traceback.format_exc())

    def run(self):
        """Returns how many seconds it took to drain, or None, and how often committed bytes were looked at."""
        watcher, stop = self.start()
        schedule = self.play()
        self.calm(schedule)
        drained = self.drain()
        stop.set()
        watcher.join(15)
        self.stop_workers()
        self.problems.extend(self.watch.compare())
        return drained, self.watch.looks

    def start(self):
        """Servers, workers, producers, and who watches the ledgers. Returns the watcher, and what ends it."""
        ground = self.ground
        for what, why in ground.missing.items():
            print(f"chaos: not available here: {what}: {why}", file=sys.stderr)
        ground.start_servers()
        (self.work / "sent").mkdir()
        for worker in ground.workers:
            worker.start()
        with open(self.work / "producer.log", "wb") as out:
            self.producer = ground.spawn([sys.executable, HERE / "producer.py", ground.uri, "chaos", self.options.seed, self.work / "sent", RATE,
                                          *ALL_TYPES], stdout=out, stderr=out)
        self.watch, stop = Watch(ground), threading.Event()
        watcher = threading.Thread(target=self.watching, args=(self.watch, stop), daemon=True)
        threading.Thread(target=self.database_jobs, daemon=True).start()
        watcher.start()
        return watcher, stop

    def play(self):
        """All faults of the schedule, each at its time. Returns the schedule."""
        options = self.options
        self.begin, seconds = time.monotonic(), options.minutes * 60
        schedule = draw(options.seed, seconds)
        self.to_come = set(schedule)
        print(f"chaos: seed {options.seed}, {options.minutes:g} minutes, {len(schedule)} faults are to come", file=sys.stderr, flush=True)
        for fault in schedule:
            self.after(fault.at - self.now(), lambda fault=fault: strike(self, fault))
        self.after(seconds / 3, lambda: threading.Thread(target=switch, args=(self,), daemon=True).start())
        told = 0
        while self.now() < seconds:
            self.tick()
            if self.now() - told > 60:
                told = self.now()
                print(f"chaos: {told:.0f} s, {sum(self.faults.values())} faults, {sum(self.takeovers.values())} take-overs, "
                      f"{len(self.problems)} problems", file=sys.stderr, flush=True)
        return schedule

    def calm(self, schedule):
        """The producers end, and so does every fault; each kind must have struck."""
        self.say("the time is over")
        self.producer.send_signal(signal.SIGTERM)
        done = queue.Queue()
        self.jobs.put(lambda: done.put(True))
        self.wait(lambda: not self.agenda or self.agenda[0][0] > self.now() + 60, 20)
        self.wait(lambda: not done.empty(), 20)
        self.ground.heal()
        self.wait(lambda: all(node.alive() for node in self.ground.nodes) and self.ground.primary()[2], 60)
        self.calm_servers()
        if not self.wait(lambda: not self.adopting, 120):
            self.problem(f"not adopted: {', '.join(sorted(self.adopting))}")
        if not self.wait(lambda: self.switched, 120):
            self.problem(f"{SWITCHED} has not got its own collection")
        last = self.options.minutes * 60 - 20
        for kind in sorted({fault.kind for fault in schedule if fault.at < last} - set(self.faults) - set(self.not_run)):
            self.problem(f"{kind} never struck, so this run says nothing of it")
        if not self.wait(lambda: self.producer.poll() is not None, 30) or self.producer.returncode:
            self.problem(f"the producer's end: {self.producer.poll()}: {(self.work / 'producer.log').read_text()[-2000:]}")

    def calm_servers(self):
        for node in self.ground.nodes:
            for point in ("failCommand", "onPrimaryTransactionalWrite"):
                try:
                    node.client.admin.command({"configureFailPoint": point, "mode": "off"})
                except PyMongoError:
                    pass  # one that was just started has none

    def unsettled(self):
        """None while messages are queued, or MongoDB gives no answer; else the types whose last holder has not left in order."""
        database = self.ground.client.chaos
        try:
            if any(queue.find_one({}) for queue in (database.messages, database[f"messages.{OWN}"], database[f"messages.{SWITCHED}"])):
                return None
            held = {lock["type"] for lock in database.locks.find({"slot": 0})}
            return held | {ledger["_id"] for ledger in database.ledger.find({}) if not ledger["clean"] or ledger["seq"] != ledger["settled"]}
        except PyMongoError:
            return None

    def drain(self):
        """Until the queues are empty for good: what a producer's driver still had under way would have arrived. A holder that died
        with an empty queue is replaced when the next message comes, so such a type is sent one more."""
        begin, next_look, quiet, since = self.now(), 0, 0, None
        while self.now() - begin < DRAIN_DEADLINE:
            self.tick()
            if self.now() < next_look:
                continue
            next_look, unsettled = self.now() + 0.5, self.unsettled()
            quiet = quiet + 1 if unsettled == set() else 0
            if quiet == 4:
                return self.now() - begin
            since = since or self.now() if unsettled else None
            if since and self.now() - since > LEASE + 3:
                since = None
                for name in sorted(unsettled):
                    self.say(f"{name}: the last holder left nothing queued and no clean end; one more message")
                    send_one(self.ground.client.chaos, name, self.work / "sent" / f"{name}.3")
        self.problem(f"the queues are not empty, or not settled, {DRAIN_DEADLINE} s after the last fault")
        return None

    def stop_workers(self):
        self.ending = True
        for worker in self.ground.workers:
            if worker.alive():
                worker.asked = True
                worker.process.send_signal(signal.SIGTERM)
        if not self.wait(lambda: not any(worker.alive() for worker in self.ground.workers), 60):
            self.problem("a worker does not end at SIGTERM")

    def judge(self):
        counts = {}
        for name in ALL_TYPES:
            folder = self.ground.folder(name)

            def verify(with_ledger, words=("pawl-dump", "--verify", "--dir", folder, "--type", name)):
                return run(*words, *(["--uri", self.ground.uri, "--db", "chaos"] if with_ledger else []), timeout=600)
            counts[name], problems = judge(name, folder, self.ground.client.chaos, self.work / "sent", verify)
            self.commands[name], more = judge_commands(self.commands_of(name))
            for problem in problems + more:
                self.problem(problem)
        if self.watch.looks == 0:
            self.problem("committed bytes were never looked at")
        if sum(self.commands.values()) == 0:
            self.problem("pawl-lock ran no command")
        return counts
