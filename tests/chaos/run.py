"""The chaos run: real workers, servers and producers, seeded faults, an exact verdict. scripts/chaos starts it.

The outer process makes the room (a folder, and where it may, namespaces) and removes it; the inner one does everything else. It
ends, and all it started with it, when the pipe from the outer one closes, so a killed outer process leaves nothing running.
"""
import argparse
import heapq
import itertools
import os
import queue
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration"), str(HERE.parent)]

from pymongo.errors import PyMongoError  # noqa: E402
from pymongo.read_concern import ReadConcern  # noqa: E402

from harness import program, run  # noqa: E402
from producer import send_one  # noqa: E402
from schedule import ALL_TYPES, LEASE, STREAMS, TYPES, draw  # noqa: E402

DRAIN_DEADLINE = 180
RATE = 60  # messages a second, of each of six producers
POINTS = ("lock-inserted", "fenced", "segment-created", "block-written", "block-synced", "block-committed", "deleted", "close-written", "released")
NEEDS = {"partition": "network", "partition-any": "network", "replies-lost": "iptables", "primary-cut-from-members": "iptables",
         "primary-cut-off": "network", "disk-hanging": "loop", "disk-slow": "throttle", "disk-full": "tmpfs", "clock-set": "clock"}
REQUESTS = ["insert", "update", "delete", "findAndModify", "find", "getMore"]


class Chaos:
    def __init__(self, options, work, isolated):
        from ground import Ground
        self.options, self.work = options, Path(work)
        self.problems, self.faults, self.not_run, self.events = [], Counter(), Counter(), Counter()
        self.to_come = set()  # the faults of the schedule that have not struck
        self.agenda, self.order, self.jobs = [], itertools.count(), queue.Queue()
        self.holders, self.gone, self.takeovers, self.measured = {}, {}, Counter(), []
        self.disturbances = []  # (type or None for all, begin, end)
        self.exits, self.commands = Counter(), Counter()
        self.under_lock = []  # (type, process) of pawl-lock
        self.adopting = set()  # types whose ledger is lost
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
            self.takeovers[name] += event == "takeover"
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
        """The holder of a type, or if there is none, or it is another's victim, any."""
        mine = [worker for worker in self.ground.workers if worker.type == fault.type]
        holder = self.holders.get(fault.type)
        if not fault.worker and holder and holder.holding and holder.alive() and not holder.frozen:
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
            self.after(0.5, lambda: self.strike(fault))

    def describe(self, worker):
        return f"{worker.name}{f', the holder of epoch {worker.epoch}' if worker.holding else ''}"

    def strike(self, fault):
        need = NEEDS.get(fault.kind)
        if need in self.ground.missing:
            self.not_run[fault.kind] += 1
            self.to_come.discard(fault)
            return
        stream = next(name for name, (_, bag) in STREAMS.items() if fault.kind in bag)
        getattr(self, f"strike_{stream}")(fault)

    def strike_workers(self, fault):
        worker = self.victim(fault)
        if not worker:
            self.later(fault)
            return
        kind = fault.kind
        if kind in ("kill", "kill-any"):
            self.count(fault, f"{self.describe(worker)}, back after {fault.seconds:.1f} s")
            self.holder_gone(worker, "death")
            worker.delay = fault.seconds
            worker.kill()
        elif kind == "kill-all":
            self.count(fault, f"all workers of {fault.type}, back after {fault.seconds:.1f} s")
            self.disturb(fault.type, fault.seconds)
            for one in self.ground.workers:
                if one.type == fault.type and one.alive():
                    self.holder_gone(one, "death")
                    one.delay = fault.seconds
                    one.kill()
        elif kind in ("kill-at", "freeze-at"):
            # Armed now; it strikes when this worker next comes to that point as the holder, and is counted then.
            point = POINTS[fault.number % len(POINTS)]
            times = 1 + fault.number // 16 % (6 if point.startswith(("block", "deleted")) else 1)
            variable = "PAWL_FAULT" if kind == "kill-at" else "PAWL_FAULT_STOP"
            self.say(f"({worker.name} is killed, and comes back with {variable}={point}:{times})")
            self.holder_gone(worker, "death")
            worker.faults, worker.armed_seconds, worker.delay = {variable: f"{point}:{times}"}, fault.seconds, 0
            worker.armed_fault = fault
            worker.kill()
        elif kind in ("freeze", "freeze-short"):
            self.count(fault, f"{self.describe(worker)}, {fault.seconds:.1f} s")
            if kind == "freeze":
                self.holder_gone(worker, "freeze")
            worker.frozen = 1
            worker.process.send_signal(signal.SIGSTOP)
            self.after(fault.seconds, self.thawing(worker))
        elif kind == "terminate":
            self.count(fault, f"{self.describe(worker)}, back after {fault.seconds:.1f} s")
            self.holder_gone(worker, "SIGTERM")
            worker.asked, worker.delay = True, fault.seconds
            worker.process.send_signal(signal.SIGTERM)
        else:
            cut = worker.space.cut if kind.startswith("partition") else worker.space.lose_replies
            self.count(fault, f"{self.describe(worker)}, {fault.seconds:.1f} s")
            if kind.startswith("partition") and fault.seconds > LEASE:
                self.holder_gone(worker, "partition")
            else:
                self.disturb(worker.type, fault.seconds)
            cut(1)
            self.after(fault.seconds, lambda: cut(-1) if not self.ending else None)

    # --- servers ------------------------------------------------------------------------------------------------

    def strike_database(self, fault):
        self.disturb(None, fault.seconds + 4)  # and an election
        self.jobs.put(lambda: self.strike_node(fault))

    def strike_node(self, fault):
        primary = self.ground.primary()[2]
        others = [node for node in self.ground.nodes if node is not primary]
        node = others[fault.number % 2] if primary and fault.kind == "secondary-killed" else primary
        if not node or not node.alive() or node.frozen:
            self.later(fault)
            return
        self.count(fault, f"server {node.number}, {fault.seconds:.1f} s")
        if fault.kind in ("primary-killed", "secondary-killed"):
            node.away = True
            node.kill()

            def back():
                node.start()
                node.away = False
            self.after(fault.seconds, back)
        elif fault.kind == "primary-step-down":
            node.client.admin.command({"replSetStepDown": 3, "secondaryCatchUpPeriodSecs": 1, "force": True})
        elif fault.kind == "primary-frozen":
            node.frozen, process = 1, node.process
            process.send_signal(signal.SIGSTOP)

            def thaw():
                process.send_signal(signal.SIGCONT)
                node.frozen = 0
            self.after(fault.seconds, thaw)
        elif fault.kind == "primary-cut-from-members":
            spaces = [other.space for other in others]
            node.space.part_from(spaces, True)
            self.after(fault.seconds, lambda: None if self.ending else node.space.part_from(spaces, False))
        else:
            node.space.cut(1)
            self.after(fault.seconds, lambda: None if self.ending else node.space.cut(-1))

    def strike_answers(self, fault):
        worker = self.victim(fault)
        if not worker:
            self.later(fault)
            return
        times = 1 + fault.number % 4
        commands = [REQUESTS[fault.number // 8 % len(REQUESTS)]] if fault.number & 4 else REQUESTS
        what = {"connection-closed": {"closeConnection": True},
                "done-late": {"blockConnection": True, "blockTimeMS": 300 + fault.number % 3000},
                "done-but-unsure": {"writeConcernError": {"code": 64, "errmsg": "waiting for replication timed out", "codeName": "WriteConcernFailed"}},
                "not-primary": {"errorCode": 189}}.get(fault.kind)
        if fault.kind == "done-but-unsure":
            commands = [one for one in commands if one not in ("find", "getMore")] or ["update", "delete"]

        def job():
            primary = self.ground.primary()[2]
            if not primary:
                self.later(fault)
                return
            if what is None:
                primary.client.admin.command({"configureFailPoint": "onPrimaryTransactionalWrite", "mode": {"times": times},
                                              "data": {"closeConnection": True}})
                self.count(fault, f"{times} times, server {primary.number}")
                return
            primary.client.admin.command({"configureFailPoint": "failCommand", "mode": {"times": times},
                                          "data": {"appName": f"pawl-worker@chaos {worker.name}", "failCommands": commands, **what}})
            self.count(fault, f"{self.describe(worker)}, {times} times {'/'.join(commands)}")
        self.disturb(fault.type, 4)
        self.jobs.put(job)

    def calm_servers(self):
        for node in self.ground.nodes:
            for point in ("failCommand", "onPrimaryTransactionalWrite"):
                try:
                    node.client.admin.command({"configureFailPoint": point, "mode": "off"})
                except PyMongoError:
                    pass  # one that was just started has none

    # --- disks and clocks ---------------------------------------------------------------------------------------

    def strike_disks(self, fault):
        small = [name for name in TYPES if self.ground.disks[name].kind != "plain"]
        name = small[fault.number % len(small)] if fault.kind == "disk-full" else next(n for n in TYPES if self.ground.disks[n].kind == "ext4")
        disk = self.ground.disks[name]
        if fault.kind == "disk-hanging":
            # A process of its own: whatever becomes of this one, it thaws.
            self.ground.spawn(["sh", "-c", 'fsfreeze -f "$0"; sleep "$1"; fsfreeze -u "$0"', disk.path, f"{fault.seconds}"])
        elif fault.kind == "disk-slow":
            disk.slow_down(True)
            self.after(fault.seconds, lambda: disk.slow_down(False))
        else:
            self.jobs.put(lambda: disk.fill((0, 66 << 10, 70 << 10, 100 << 10)[fault.number // 2 % 4]))  # it may have to wait for a hanging disk
            self.after(fault.seconds, lambda: self.jobs.put(disk.free))
        self.disturb(name, fault.seconds + 3)
        self.count(fault, f"{name} ({disk.kind}), {fault.seconds:.1f} s")

    def strike_clocks(self, fault):
        worker = next(w for w in self.ground.workers if w.type == fault.type and w.clock)
        by = (0, 5, -5, 3600, -3600, 86400 * 400, -86400 * 400)[fault.number % 7]
        self.count(fault, f"{worker.name}: {by:+d} s")
        worker.set_clock(by)

    # --- locks --------------------------------------------------------------------------------------------------

    def strike_locks(self, fault):
        """A command under the lock of a type that is at work."""
        if fault.type in self.adopting:
            self.later(fault)
            return
        command = f'echo "begin $PAWL_LOCK_EPOCH" >>"$0"; sleep {fault.seconds}; echo "end $PAWL_LOCK_EPOCH" >>"$0"'
        self.disturb(fault.type, fault.seconds + LEASE)
        process = self.ground.spawn([program("pawl-lock"), "--uri", self.ground.uri, "--db", "chaos", "--lease", f"{LEASE:g}s", "--timeout", "10s", fault.type,
                                     "--", "sh", "-c", command, self.commands_of(fault.type)], stderr=subprocess.DEVNULL)
        self.under_lock = [one for one in self.under_lock if one[1].poll() is None] + [(fault.type, process)]
        self.count(fault, f"{fault.type}, {fault.seconds:.1f} s")

    def commands_of(self, type_name):
        return self.work / f"{type_name}.commands"

    # --- ledgers ------------------------------------------------------------------------------------------------

    def strike_ledgers(self, fault):
        """A type's ledger is deleted while its workers are stopped, as by an operator's mistake, and its files are adopted again."""
        if fault.type in self.adopting:
            self.later(fault)
            return
        self.adopting.add(fault.type)
        threading.Thread(target=self.lose_ledger, args=(fault,), daemon=True).start()

    def lose_ledger(self, fault):
        mine, begin = [worker for worker in self.ground.workers if worker.type == fault.type], self.now()
        try:
            for worker in mine:
                worker.away = True
            while any(worker.process for worker in mine) or any(name == fault.type and one.poll() is None for name, one in self.under_lock):
                for worker in mine:
                    if worker.alive() and not worker.killed:
                        self.holder_gone(worker, "death")
                        worker.kill()
                time.sleep(0.05)
            self.until_done(lambda: self.delete_ledger(fault.type))
            self.watch.forget(fault.type)
            with open(self.commands_of(fault.type), "a", encoding="utf-8") as commands:
                print("lost 0", file=commands)
            time.sleep(fault.seconds)
            self.until_done(lambda: self.adopt(fault.type))
            self.count(fault, f"{fault.type}, adopted after {fault.seconds:.1f} s and more")
        except Exception:
            self.problem(traceback.format_exc())
        finally:
            self.disturbances.append((fault.type, begin, self.now()))
            for worker in mine:
                worker.away = False
                self.after(0, lambda worker=worker: self.start_again(worker))
            self.adopting.discard(fault.type)

    def until_done(self, action):
        """The servers are the victims of faults meanwhile."""
        end = self.now() + 120
        while not action():
            if self.now() > end:
                raise RuntimeError("not done within 120 s")
            time.sleep(0.3)

    def delete_ledger(self, type_name):
        try:
            ledgers = self.ground.client.chaos.get_collection("ledger", read_concern=ReadConcern("linearizable"))
            ledgers.delete_one({"_id": type_name})
            return not ledgers.find_one({"_id": type_name}, max_time_ms=5000)
        except PyMongoError:
            return False

    def adopt(self, type_name):
        done = run("pawl-setup", "--adopt", type_name, "--dir", self.ground.folder(type_name), "--yes", "--uri", self.ground.uri, "--db", "chaos",
                   "--timeout", "10s", timeout=120)
        if done.returncode == 0:
            return True
        self.say(f"(not adopted yet: {done.returncode}: {(done.stdout + done.stderr).decode(errors='replace').strip()[-300:]})")
        return False

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
        from verdict import Watch
        ground, options = self.ground, self.options
        for what, why in ground.missing.items():
            print(f"chaos: not available here: {what}: {why}", file=sys.stderr)
        ground.start_servers()
        (self.work / "sent").mkdir()
        for worker in ground.workers:
            worker.start()
        with open(self.work / "producer.log", "wb") as out:
            producer = ground.spawn([sys.executable, HERE / "producer.py", ground.uri, "chaos", options.seed, self.work / "sent", RATE, *ALL_TYPES],
                                    stdout=out, stderr=out)
        watch, stop = Watch(ground), threading.Event()
        self.watch = watch
        watcher = threading.Thread(target=self.watching, args=(watch, stop), daemon=True)
        threading.Thread(target=self.database_jobs, daemon=True).start()
        watcher.start()
        self.begin, seconds = time.monotonic(), options.minutes * 60
        schedule = draw(options.seed, seconds)
        self.to_come = set(schedule)
        print(f"chaos: seed {options.seed}, {options.minutes:g} minutes, {len(schedule)} faults are to come", file=sys.stderr, flush=True)
        for fault in schedule:
            self.after(fault.at - self.now(), lambda fault=fault: self.strike(fault))
        told = 0
        while self.now() < seconds:
            self.tick()
            if self.now() - told > 60:
                told = self.now()
                print(f"chaos: {told:.0f} s, {sum(self.faults.values())} faults, {sum(self.takeovers.values())} take-overs, "
                      f"{len(self.problems)} problems", file=sys.stderr, flush=True)
        self.say("the time is over")
        producer.send_signal(signal.SIGTERM)
        done = queue.Queue()
        self.jobs.put(lambda: done.put(True))
        self.wait(lambda: not self.agenda or self.agenda[0][0] > self.now() + 60, 20)
        self.wait(lambda: not done.empty(), 20)
        ground.heal()
        self.wait(lambda: all(node.alive() for node in ground.nodes) and ground.primary()[2], 60)
        self.calm_servers()
        if not self.wait(lambda: not self.adopting, 120):
            self.problem(f"not adopted: {', '.join(sorted(self.adopting))}")
        for kind in sorted({fault.kind for fault in schedule if fault.at < seconds - 20} - set(self.faults) - set(self.not_run)):
            self.problem(f"{kind} never struck, so this run says nothing of it")
        if not self.wait(lambda: producer.poll() is not None, 30) or producer.returncode:
            self.problem(f"the producer's end: {producer.poll()}: {(self.work / 'producer.log').read_text()[-2000:]}")
        drained = self.drain()
        stop.set()
        watcher.join(15)
        self.stop_workers()
        self.problems.extend(watch.compare())
        return drained, watch.looks

    def unsettled(self):
        """None while messages are queued, or MongoDB gives no answer; else the types whose last holder has not left in order."""
        database = self.ground.client.chaos
        try:
            if database.messages.find_one({}):
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

    # --- the report ---------------------------------------------------------------------------------------------

    def judge(self):
        from verdict import judge, judge_commands
        counts = {}
        for name in ALL_TYPES:
            folder = self.ground.folder(name)

            def verify(with_ledger, words=("pawl-dump", "--verify", "--dir", folder, "--type", name)):
                return run(*words, *(["--uri", self.ground.uri, "--db", "chaos"] if with_ledger else []), timeout=600)
            counts[name], problems = judge(name, folder, self.ground.client.chaos, self.work / "sent", verify)
            self.commands[name], more = judge_commands(self.commands_of(name))
            for problem in problems + more:
                self.problem(problem)
        return counts

    def report(self, drained, looks, counts):
        total = sum(counts.values(), Counter())
        exact = not self.problems
        lines = ["# pawl: chaos report", "", f"scripts/chaos --minutes {self.options.minutes:g} --seed {self.options.seed}", "",
                 f"verdict: {'exact' if exact else 'NOT EXACT'}: lost {total['lost']}, doubled {total['doubled']}, out of order {total['unordered']}, "
                 f"never sent {total['strange']}, left in the queue {total['left']}", "",
                 "4 types (t3 and t4 by the same workers; of t1 half are bundles), 3 workers each, replica set of 3, 2 producers a type; lease 2 s, "
                 "election time-out 3 s", ""]
        rows = [["type", "acknowledged", "unknown", "of these there", "documents", "bytes", "segments", "lost", "doubled", "take-overs"]]
        for name, one in (*counts.items(), ("all", total)):
            takeovers = self.takeovers[name] if name in counts else sum(self.takeovers.values())
            rows.append([name, *(one[key] for key in ("acknowledged", "unknown", "unknown there", "documents", "bytes", "segments", "lost", "doubled")),
                         takeovers])
        lines += table(rows)
        lines += ["", "Time to take over: from the end of a holder until the next one has raised the epoch and opened the file.",
                  "Undisturbed: no server, answer, disk or further link failed meanwhile.", ""]
        rows = [["holder's end", "all", "median", "worst", "undisturbed", "median", "worst"]]
        for kind in ("death", "freeze", "partition", "SIGTERM"):
            row = [kind]
            for chosen in ([seconds for k, seconds, _ in self.measured if k == kind], [seconds for k, seconds, a in self.measured if k == kind and a]):
                row += [len(chosen), leases(statistics.median(chosen)), leases(max(chosen))] if chosen else [0, "-", "-"]
            rows.append(row)
        lines += table(rows)
        lines += ["", f"Faults: {sum(self.faults.values())}", ""]
        lines += in_columns([f"{kind} {count}" for kind, count in sorted(self.faults.items())])
        if self.not_run:
            lines += ["", "Not available on this machine, so not run: " + ", ".join(f"{kind} {count}" for kind, count in sorted(self.not_run.items()))]
        lines += ["", f"Commands that pawl-lock ran beside the workers: {sum(self.commands.values())}, one at a time, with rising epochs."]
        if self.to_come:
            lines += ["", f"Scheduled, and not applied (no such victim at that time, or never at that point): {len(self.to_come)}"]
            lines += [f"  {fault.at:8.2f}  {fault.kind}, {fault.type}" for fault in sorted(self.to_come)]
        lines += ["", "What the workers said of it (warnings and errors):", ""]
        lines += in_columns([f"{event} {count}" for event, count in sorted(self.events.items())])
        lines += ["", f"Asked to end by SIGTERM: {self.exits[0]} ended with 0, {self.exits[1]} with 1 (not within 8 s).",
                  f"Empty and settled {drained:.1f} s after the last fault." if drained is not None else "Not drained.",
                  f"Looks at committed bytes: {looks}; none had changed." if exact else f"Looks at committed bytes: {looks}.",
                  "pawl-dump --verify: ok, with and without the ledger." if exact else ""]
        lines += ["", *(f"PROBLEM: {problem}" for problem in self.problems)] if self.problems else []
        return "\n".join(lines).rstrip() + "\n", exact


def leases(seconds):
    return f"{seconds:.2f} s ({seconds / LEASE:.1f} leases)"


def table(rows):
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    line = [f"| {' | '.join(str(cell).ljust(width) if i == 0 else str(cell).rjust(width) for i, (cell, width) in enumerate(zip(row, widths)))} |"
            for row in rows]
    return [line[0], f"|{'|'.join('-' * (width + 2) for width in widths)}|", *line[1:]]


def in_columns(words, count=4):
    return [", ".join(words[at:at + count]) + ("," if at + count < len(words) else "") for at in range(0, len(words), count)]


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
        text, exact = chaos.report(*chaos.run(), chaos.judge())
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


def outside(options, arguments):
    work = Path(tempfile.mkdtemp(prefix="pawl-chaos.", dir=os.environ.get("PAWL_TEST_TMP")))
    isolate = ["unshare", "--net", "--mount"]
    process_ids = ["unshare", "--pid", "--fork", "--kill-child"]
    words = [sys.executable, str(HERE / "run.py"), *arguments, "--inside", str(work)]
    try:
        isolated = subprocess.run([*isolate, *process_ids, "ip", "link", "set", "lo", "up"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        isolated = False
    if isolated:
        words = [*isolate, "sh", "-c", GUARD, str(work), *process_ids, *words, "--isolated"]
    status, interrupted = 1, False

    def interrupt(*_):
        raise KeyboardInterrupt
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
    try:
        inner.wait(60)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(inner.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    for group in (Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup")):
        try:
            (group / f"pawl-chaos-{work.name}").rmdir()
        except OSError:
            pass
    report = work / "report"
    if report.exists():
        text = report.read_text(encoding="utf-8")
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
