"""RESULTS.md, from what was kept of each subject, and the same tables for the terminal."""
from statistics import median

from figures import spread

# key in a subject's `targets`, what it is, the bound (None: no figure is wanted), and whether it is the least or the most
TARGETS = [
    ("drain clustered, limit", "drain, 256 B, clustered, start to end: times the limit on this layout", 0.92, "least"),
    ("drain clustered, kombu", "the same, without start and end: times kombu", 150, "least"),
    ("drain clustered, loop", "the same: times the pymongo batch loop", 2.5, "least"),
    ("drain plain, limit", "drain, plain layout, start to end: times the limit on this layout", 0.92, "least"),
    ("drain own collection, limit", "drain, own collection, start to end: times the limit on this layout", 0.92, "least"),
    ("drain own collection, limit plain", "the same: times the limit on the plain layout", 2, "least"),
    ("bundles of 100", "drain, bundles of 100: messages/s", 1_500_000, "least"),
    ("backlog", "rate at a backlog of 2 M: times that at 100 k", 0.9, "least"),
    ("types", "drain, 16 types at once: times one type", 1, "least"),
    ("types, limit", "the same: times the limit of 16 types in one process", None, ""),
    ("own types", "drain, 16 types at once, each with its own collection: times one such type", 1, "least"),
    ("most own types", "drain, 1,000 such types that the worker holds: times one", 0.9, "least"),
    ("together", "insert and drain together, two producers: times what the two insert alone", 0.75, "least"),
    ("together, own collection", "the same, own collection", 0.75, "least"),
    ("latency median", "insert to durable, idle worker, wake-up: median, ms", 8, "most"),
    ("latency p99", "the same: p99, ms", 20, "most"),
    ("pawl-lock median", "hand-over of a lock by pawl-lock, 50 waiting: median, ms", None, ""),
    ("handover median", "hand-over of a lock, the mutex alone, by majority: median, ms", 4, "most"),
    ("crowd total", "50 waiters: total time, times the sum of the holds", 1.4, "most"),
    ("crowd mongod", "50 waiters: mongod CPU a hand-over, ms", 10, "most"),
    ("library handover", "hand-over of a lock of the library, 2 waiting: median, ms", 4, "most"),
    ("library crowd", "200 waiters, holds of 50 ms: total time, times the sum of the holds", 1.2, "most"),
    ("library fairness", "11 that take turns: longest wait, times its fair share", 1.5, "most"),
    ("memory", "memory of a worker at a backlog of 2 M: peak, MB", 120, "most"),
    ("many memory", "one worker with 10,000 idle types and 100 busy ones: memory, peak, MB", 200, "most"),
    ("many percent", "the same, when they are idle: % of a processor", 3, "most"),
    ("many requests", "the same: requests/s", 30, "most"),
    ("verify", "`pawl-dump --verify`: GB/s", 1, "least"),
]
APART = ("hour",)  # subjects that are one turn, and are not compared with anything
MACHINE = ["cores", "processor", "memory", "kernel", "mongod", "file system", "fdatasync of 4 KiB"]


def markdown(columns, rows):
    """Padded, so that it can be read as it is, too."""
    lines = [[str(cell) for cell in row] for row in [columns, *rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    def row(cells):
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths)) + " |"
    return "\n".join([row(lines[0]), row(["-" * width for width in widths]), *map(row, lines[1:])])


def tables(found):
    for table in found["tables"]:
        notes = "".join(f"\n- {note}" for note in table["notes"])
        yield f"### {table['title']}\n\n{markdown(table['columns'], table['rows'])}\n" + (f"{notes}\n" if notes else "")
    if found.get("missing"):
        yield f"Not measured: {found['missing']}.\n"


def reached(values, bound, sense):
    in_turns = [value >= bound if sense == "least" else value <= bound for value in values]
    if median(values) >= bound if sense == "least" else median(values) <= bound:
        return "yes" if all(in_turns) else "by median, not in each turn"
    return "not by median, in some turns" if any(in_turns) else "no"


def targets(results):
    values = {key: value for found in results.values() for key, value in found.get("targets", {}).items()}
    rows = []
    for key, what, bound, sense in TARGETS:
        wanted = f"at {sense} {bound:,}" if bound is not None else ""
        value = values.get(key)
        rows.append([what, wanted, spread(value) if value else "not measured", reached(value, bound, sense) if value and wanted else ""])
    return markdown(["", "wanted", "measured", "reached"], rows)


def least_to_most(texts):
    ordered = sorted(texts)
    return ordered[0] if ordered[0] == ordered[-1] else f"{ordered[0]} to {ordered[-1]}"


def machines(results):
    """One, or several if the subjects were measured on different ones or at different states of pawl."""
    rows = {}
    for name, found in results.items():
        key = (*(str(found["machine"].get(fact, "")) for fact in MACHINE[:-1]), found["commit"])
        rows.setdefault(key, []).append((name, found))
    for key, subjects in rows.items():
        facts = dict(zip(MACHINE, key))
        sync = least_to_most(found["machine"]["fdatasync of 4 KiB"] for _, found in subjects)
        when = least_to_most(found["machine"]["date"] for _, found in subjects)
        yield (f"{', '.join(name for name, _ in subjects)}: {facts['cores']} cores ({facts['processor']}), {facts['memory']} of memory, "
               f"Linux {facts['kernel']}, mongod {facts['mongod']} (one node, replica set), {facts['file system']}, "
               f"fdatasync of 4 KiB {sync}; {when}; pawl at commit {key[-1]}.")


HEAD = """# What pawl can do, measured

`scripts/bench` builds pawl, runs it beside its rivals on a private MongoDB, and writes this page. Contestants run in turns, A B C D,
B C D A, …, in one run; a figure is the median of its turns, with the least and the greatest in brackets. Ratios are made turn by turn.
Everything, database and clients, shares the cores of one machine: other machines give other figures, the ratios travel better.

"""


def page(results, quick, names):
    """`names`: of all subjects, measured or not."""
    parts = [HEAD]
    if quick:
        parts.append("**By `--quick`: tiny counts, one turn. It shows that the benchmark runs, and nothing else.**\n\n")
    if len({(found["commit"], found["repeat"]) for name, found in results.items() if name not in APART}) > 1:
        parts.append("**Not all of it is from one commit and of as many turns: compare only what is from one run.**\n\n")
    parts.append("![The main results](results.svg)\n\n## Measured where\n\n" + "".join(f"- {line}\n" for line in machines(results)))
    if absent := [name for name in names if name not in results]:
        parts.append(f"- Not measured yet: {', '.join(absent)}.\n")
    parts.append(f"\n## Wanted and measured\n\n{targets(results)}\n")
    for name, found in results.items():
        drawn = f"![{name.capitalize()}]({name}.svg)\n\n" if "curves" in found else ""
        parts.append(f"\n## {name.capitalize()}\n\n```sh\n{found['command']}\n```\n\n{drawn}" + "\n".join(tables(found)))
    return "".join(parts)
