"""What goes wrong when: drawn from the seed alone, before anything runs. Which process a fault meets ("the holder of t1", "the primary")
is decided when it happens, so the same seed gives the same list of faults, and not the same run."""
from collections import namedtuple
from random import Random

TYPES = ("t1", "t2", "t3")  # whose workers the faults meet
BESIDE = {"t3": "t4"}  # its workers find both by a pattern, and spread them among each other
ALL_TYPES = (*TYPES, *BESIDE.values())
OWN = "t4"  # has its own collection from the beginning
SWITCHED = "t2"  # gets one when a third of the time is over
WORKERS = 3
LEASE = 2.0

Fault = namedtuple("Fault", "at kind type worker seconds number")  # worker: 0 is the holder; number: what a kind makes of it

# Each stream has its own mean gap in seconds, and deals its kinds from a bag, so that a short run has them all.
STREAMS = {
    "workers": (1.8, {
        "kill": 4, "kill-any": 1, "kill-all": 1, "kill-at": 4, "freeze": 3, "freeze-at": 3, "freeze-short": 1, "terminate": 2,
        "partition": 2, "partition-any": 1, "replies-lost": 3}),
    "database": (16, {
        "primary-killed": 1, "primary-step-down": 1, "primary-frozen": 1, "primary-cut-from-members": 1, "primary-cut-off": 1,
        "secondary-killed": 1}),
    "answers": (4, {
        "connection-closed": 1, "done-late": 2, "done-but-unsure": 2, "not-primary": 1, "producers-reply-lost": 1}),
    "disks": (12, {"disk-full": 2, "disk-slow": 1, "disk-hanging": 1}),
    "clocks": (12, {"clock-set": 1}),
    "locks": (9, {"pawl-lock": 1}),
    "ledgers": (24, {"ledger-lost": 1}),
}

# Seconds that a fault lasts; for a killed process, until it is started again.
SECONDS = {
    "kill": (0, 3), "kill-any": (0, 3), "kill-all": (0, 2), "kill-at": (0, 2), "terminate": (0, 2),
    "freeze": (1.2 * LEASE, 3 * LEASE), "freeze-at": (1.2 * LEASE, 3 * LEASE), "freeze-short": (0.1, 0.9 * LEASE),
    "partition": (0.5, 4 * LEASE), "partition-any": (0.5, 4 * LEASE), "replies-lost": (0.2, 2 * LEASE),
    "primary-killed": (0.5, 6), "primary-step-down": (2, 2), "primary-frozen": (2, 8), "primary-cut-from-members": (3, 10),
    "primary-cut-off": (3, 10), "secondary-killed": (0.5, 6),
    "connection-closed": (2, 2), "done-late": (2, 2), "done-but-unsure": (2, 2), "not-primary": (2, 2), "producers-reply-lost": (2, 2),
    "disk-full": (2, 8), "disk-slow": (2, 8), "disk-hanging": (0.3, 4 * LEASE), "clock-set": (0, 0),
    "pawl-lock": (0.1, LEASE), "ledger-lost": (0, 2),
}


def draw(seed, seconds):
    """All faults of a run of so many seconds, by time."""
    faults = []
    for stream, (gap, bag) in STREAMS.items():
        random, left, at = Random(f"{seed} {stream}"), [], 3.0
        while True:
            at += random.uniform(0.2, 1.8) * gap
            if not left:
                left = [kind for kind, count in bag.items() for _ in range(count)]
                random.shuffle(left)
            kind = left.pop()
            fault = Fault(round(at, 2), kind, random.choice(TYPES), random.randrange(1, WORKERS + 1) if kind.endswith("-any") else 0,
                          round(random.uniform(*SECONDS[kind]), 2), random.randrange(1 << 30))
            if at + fault.seconds > seconds:
                break
            faults.append(fault)
    return sorted(faults)
