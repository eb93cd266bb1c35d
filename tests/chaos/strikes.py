"""What each fault of the schedule does. A function takes the run and the fault; where it finds no victim, the fault comes again later."""
import signal
import subprocess
import threading
import time
import traceback

from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern

from harness import program, run
from schedule import LEASE, OWN, STREAMS, SWITCHED, TYPES

POINTS = ("lock-inserted", "fenced", "segment-created", "block-written", "block-synced", "block-committed", "deleted", "close-written", "released")
NEEDS = {"partition": "network", "partition-any": "network", "replies-lost": "iptables", "primary-cut-from-members": "iptables",
         "primary-cut-off": "network", "disk-hanging": "loop", "disk-slow": "throttle", "disk-full": "tmpfs", "clock-set": "clock"}
REQUESTS = ["insert", "update", "delete", "findAndModify", "find", "getMore"]


def strike(chaos, fault):
    if NEEDS.get(fault.kind) in chaos.ground.missing:
        chaos.not_run[fault.kind] += 1
        chaos.to_come.discard(fault)
        return
    stream = next(name for name, (_, bag) in STREAMS.items() if fault.kind in bag)
    STRIKES[stream](chaos, fault)


# --- workers ---


def strike_workers(chaos, fault):
    worker = chaos.victim(fault)
    if worker:
        WORKERS[fault.kind](chaos, fault, worker)
    else:
        chaos.later(fault)


def kill(chaos, fault, worker):
    chaos.count(fault, f"{chaos.describe(worker)}, back after {fault.seconds:.1f} s")
    chaos.holder_gone(worker, "death")
    worker.delay = fault.seconds
    worker.kill()


def kill_all(chaos, fault, _):
    chaos.count(fault, f"all workers of {fault.type}, back after {fault.seconds:.1f} s")
    chaos.disturb(fault.type, fault.seconds)
    for one in chaos.ground.workers:
        if one.type == fault.type and one.alive():
            chaos.holder_gone(one, "death")
            one.delay = fault.seconds
            one.kill()


def arm(chaos, fault, worker):
    """It strikes when this worker next comes to that point as the holder, and is counted then."""
    point = POINTS[fault.number % len(POINTS)]
    times = 1 + fault.number // 16 % (6 if point.startswith(("block", "deleted")) else 1)
    variable = "PAWL_FAULT" if fault.kind == "kill-at" else "PAWL_FAULT_STOP"
    chaos.say(f"({worker.name} is killed, and comes back with {variable}={point}:{times})")
    chaos.holder_gone(worker, "death")
    worker.faults, worker.armed_seconds, worker.delay = {variable: f"{point}:{times}"}, fault.seconds, 0
    worker.armed_fault = fault
    worker.kill()


def freeze(chaos, fault, worker):
    chaos.count(fault, f"{chaos.describe(worker)}, {fault.seconds:.1f} s")
    if fault.kind == "freeze":
        chaos.holder_gone(worker, "freeze")
    worker.frozen = 1
    worker.process.send_signal(signal.SIGSTOP)
    chaos.after(fault.seconds, chaos.thawing(worker))


def terminate(chaos, fault, worker):
    chaos.count(fault, f"{chaos.describe(worker)}, back after {fault.seconds:.1f} s")
    chaos.holder_gone(worker, "SIGTERM")
    worker.asked, worker.delay = True, fault.seconds
    worker.process.send_signal(signal.SIGTERM)


def cut_link(chaos, fault, worker):
    partition = fault.kind.startswith("partition")
    cut = worker.space.cut if partition else worker.space.lose_replies
    chaos.count(fault, f"{chaos.describe(worker)}, {fault.seconds:.1f} s")
    if partition and fault.seconds > LEASE:
        chaos.holder_gone(worker, "partition")
    else:
        chaos.disturb(worker.type, fault.seconds)
    cut(1)
    chaos.after(fault.seconds, lambda: cut(-1) if not chaos.ending else None)


WORKERS = {"kill": kill, "kill-any": kill, "kill-all": kill_all, "kill-at": arm, "freeze-at": arm, "freeze": freeze, "freeze-short": freeze,
           "terminate": terminate, "partition": cut_link, "partition-any": cut_link, "replies-lost": cut_link}


# --- servers ---


def strike_database(chaos, fault):
    chaos.disturb(None, fault.seconds + 4)  # and an election
    chaos.jobs.put(lambda: strike_node(chaos, fault))


def strike_node(chaos, fault):
    primary = chaos.ground.primary()[2]
    others = [node for node in chaos.ground.nodes if node is not primary]
    node = others[fault.number % 2] if primary and fault.kind == "secondary-killed" else primary
    if not node or not node.alive() or node.frozen:
        chaos.later(fault)
        return
    chaos.count(fault, f"server {node.number}, {fault.seconds:.1f} s")
    SERVERS[fault.kind](chaos, fault, node, others)


def kill_server(chaos, fault, node, _):
    node.away = True
    node.kill()

    def back():
        node.start()
        node.away = False
    chaos.after(fault.seconds, back)


def step_down(_chaos, _fault, node, _others):
    node.client.admin.command({"replSetStepDown": 3, "secondaryCatchUpPeriodSecs": 1, "force": True})


def freeze_server(chaos, fault, node, _):
    node.frozen, process = 1, node.process
    process.send_signal(signal.SIGSTOP)

    def thaw():
        process.send_signal(signal.SIGCONT)
        node.frozen = 0
    chaos.after(fault.seconds, thaw)


def cut_from_members(chaos, fault, node, others):
    spaces = [other.space for other in others]
    node.space.part_from(spaces, True)
    chaos.after(fault.seconds, lambda: None if chaos.ending else node.space.part_from(spaces, False))


def cut_off(chaos, fault, node, _):
    node.space.cut(1)
    chaos.after(fault.seconds, lambda: None if chaos.ending else node.space.cut(-1))


SERVERS = {"primary-killed": kill_server, "secondary-killed": kill_server, "primary-step-down": step_down, "primary-frozen": freeze_server,
           "primary-cut-from-members": cut_from_members, "primary-cut-off": cut_off}


# --- answers ---


def strike_answers(chaos, fault):
    worker = chaos.victim(fault)
    if not worker:
        chaos.later(fault)
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
        primary = chaos.ground.primary()[2]
        if not primary:
            chaos.later(fault)
            return
        if what is None:
            primary.client.admin.command({"configureFailPoint": "onPrimaryTransactionalWrite", "mode": {"times": times},
                                          "data": {"closeConnection": True}})
            chaos.count(fault, f"{times} times, server {primary.number}")
            return
        primary.client.admin.command({"configureFailPoint": "failCommand", "mode": {"times": times},
                                      "data": {"appName": f"pawl-worker@chaos {worker.name}", "failCommands": commands, **what}})
        chaos.count(fault, f"{chaos.describe(worker)}, {times} times {'/'.join(commands)}")
    chaos.disturb(fault.type, 4)
    chaos.jobs.put(job)


# --- disks and clocks ---


def strike_disks(chaos, fault):
    small = [name for name in TYPES if chaos.ground.disks[name].kind != "plain"]
    name = small[fault.number % len(small)] if fault.kind == "disk-full" else next(n for n in TYPES if chaos.ground.disks[n].kind == "ext4")
    disk = chaos.ground.disks[name]
    if fault.kind == "disk-hanging":
        # A process of its own: whatever becomes of this one, it thaws.
        chaos.ground.spawn(["sh", "-c", 'fsfreeze -f "$0"; sleep "$1"; fsfreeze -u "$0"', disk.path, f"{fault.seconds}"])
    elif fault.kind == "disk-slow":
        disk.slow_down(True)
        chaos.after(fault.seconds, lambda: disk.slow_down(False))
    else:
        chaos.jobs.put(lambda: disk.fill((0, 66 << 10, 70 << 10, 100 << 10)[fault.number // 2 % 4]))  # it may have to wait for a hanging disk
        chaos.after(fault.seconds, lambda: chaos.jobs.put(disk.free))
    chaos.disturb(name, fault.seconds + 3)
    chaos.count(fault, f"{name} ({disk.kind}), {fault.seconds:.1f} s")


def strike_clocks(chaos, fault):
    worker = next(w for w in chaos.ground.workers if w.type == fault.type and w.clock)
    by = (0, 5, -5, 3600, -3600, 86400 * 400, -86400 * 400)[fault.number % 7]
    chaos.count(fault, f"{worker.name}: {by:+d} s")
    worker.set_clock(by)


# --- locks ---


def strike_locks(chaos, fault):
    """A command under the lock of a type that is at work."""
    if fault.type in chaos.adopting:
        chaos.later(fault)
        return
    command = f'echo "begin $PAWL_LOCK_EPOCH" >>"$0"; sleep {fault.seconds}; echo "end $PAWL_LOCK_EPOCH" >>"$0"'
    chaos.disturb(fault.type, fault.seconds + LEASE)
    process = chaos.ground.spawn([program("pawl-lock"), "--uri", chaos.ground.uri, "--db", "chaos", "--lease", f"{LEASE:g}s", "--timeout", "10s", fault.type,
                                 "--", "sh", "-c", command, chaos.commands_of(fault.type)], stderr=subprocess.DEVNULL)
    chaos.under_lock = [one for one in chaos.under_lock if one[1].poll() is None] + [(fault.type, process)]
    chaos.count(fault, f"{fault.type}, {fault.seconds:.1f} s")


# --- ledgers ---


def strike_ledgers(chaos, fault):
    """A type's ledger is deleted while its workers are stopped, as by an operator's mistake, and its files are adopted again."""
    if fault.type in chaos.adopting:
        chaos.later(fault)
        return
    chaos.adopting.add(fault.type)
    threading.Thread(target=lose_ledger, args=(chaos, fault), daemon=True).start()


def lose_ledger(chaos, fault):
    mine, begin = [worker for worker in chaos.ground.workers if worker.type == fault.type], chaos.now()
    try:
        for worker in mine:
            worker.away = True
        while any(worker.process for worker in mine) or any(name == fault.type and one.poll() is None for name, one in chaos.under_lock):
            for worker in mine:
                if worker.alive() and not worker.killed:
                    chaos.holder_gone(worker, "death")
                    worker.kill()
            time.sleep(0.05)
        until_done(chaos, lambda: delete_ledger(chaos, fault.type))
        chaos.watch.forget(fault.type)
        with open(chaos.commands_of(fault.type), "a", encoding="utf-8") as commands:
            print("lost 0", file=commands)
        time.sleep(fault.seconds)
        until_done(chaos, lambda: adopt(chaos, fault.type))
        chaos.count(fault, f"{fault.type}, adopted after {fault.seconds:.1f} s and more")
    except Exception:
        chaos.problem(traceback.format_exc())
    finally:
        chaos.disturbances.append((fault.type, begin, chaos.now()))
        for worker in mine:
            worker.away = False
            chaos.after(0, lambda worker=worker: chaos.start_again(worker))
        chaos.adopting.discard(fault.type)


def until_done(chaos, action):
    """The servers are the victims of faults meanwhile."""
    end = chaos.now() + 120
    while not action():
        if chaos.now() > end:
            raise RuntimeError("not done within 120 s")
        time.sleep(0.3)


def delete_ledger(chaos, type_name):
    try:
        ledgers = chaos.ground.client.chaos.get_collection("ledger", read_concern=ReadConcern("linearizable"))
        ledgers.delete_one({"_id": type_name})
        return not ledgers.find_one({"_id": type_name}, max_time_ms=5000)
    except PyMongoError:
        return False


def adopt(chaos, type_name):
    own = ["--own-collection"] if type_name == OWN or (type_name == SWITCHED and chaos.switched) else []
    done = run("pawl-setup", "--adopt", type_name, *own, "--dir", chaos.ground.folder(type_name), "--yes", "--uri", chaos.ground.uri, "--db", "chaos",
               "--timeout", "10s", timeout=120)
    if done.returncode == 0:
        return True
    chaos.say(f"(not adopted yet: {done.returncode}: {(done.stdout + done.stderr).decode(errors='replace').strip()[-300:]})")
    return False


# --- own collections ---


def switch(chaos):
    """A type gets its own collection while its workers run. Its producers read that in the ledger, one sooner than the other. Its ledger is
    not lost meanwhile: without it nothing says whose the collection is."""
    try:
        until_done(chaos, lambda: SWITCHED not in chaos.adopting)
        chaos.adopting.add(SWITCHED)
        until_done(chaos, lambda: own_collection(chaos, SWITCHED))
        chaos.say(f"{SWITCHED} has its own collection")
        chaos.switched = True
    except Exception:
        chaos.problem(traceback.format_exc())
    finally:
        chaos.adopting.discard(SWITCHED)


def own_collection(chaos, type_name):
    done = run("pawl-setup", "--type", type_name, "--own-collection", "--uri", chaos.ground.uri, "--db", "chaos", "--timeout", "10s", timeout=120)
    if done.returncode:
        chaos.say(f"(not switched yet: {done.returncode}: {(done.stdout + done.stderr).decode(errors='replace').strip()[-300:]})")
    return done.returncode == 0


STRIKES = {"workers": strike_workers, "database": strike_database, "answers": strike_answers, "disks": strike_disks, "clocks": strike_clocks,
           "locks": strike_locks, "ledgers": strike_ledgers}
