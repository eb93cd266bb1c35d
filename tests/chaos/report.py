"""The page that a chaos run prints."""
import statistics
from collections import Counter

from schedule import LEASE


def report(chaos, drained, looks, counts):
    """The page, and whether the verdict is exact."""
    exact = not chaos.problems
    lines = [*head(chaos, counts, exact), *take_overs(chaos), *faults(chaos), "", "What the workers said of it (warnings and errors):", "",
             *in_columns([f"{event} {count}" for event, count in sorted(chaos.events.items())]),
             "", f"Asked to end by SIGTERM: {chaos.exits[0]} ended with 0, {chaos.exits[1]} with 1 (not within 8 s).",
             f"Empty and settled {drained:.1f} s after the last fault." if drained is not None else "Not drained.",
             f"Looks at committed bytes: {looks}; none had changed." if exact else f"Looks at committed bytes: {looks}.",
             "pawl-dump --verify: ok, with and without the ledger." if exact else ""]
    lines += ["", *(f"PROBLEM: {problem}" for problem in chaos.problems)] if chaos.problems else []
    return "\n".join(lines).rstrip() + "\n", exact


def head(chaos, counts, exact):
    """What was run, the verdict, and what each type's files hold."""
    total = sum(counts.values(), Counter())
    rows = [["type", "acknowledged", "unknown", "of these there", "documents", "bytes", "segments", "lost", "doubled", "take-overs"]]
    for name, one in (*counts.items(), ("all", total)):
        takeovers = chaos.takeovers[name] if name in counts else sum(chaos.takeovers.values())
        rows.append([name, *(one[key] for key in ("acknowledged", "unknown", "unknown there", "documents", "bytes", "segments", "lost", "doubled")),
                     takeovers])
    return ["# pawl: chaos report", "", f"scripts/chaos --minutes {chaos.options.minutes:g} --seed {chaos.options.seed}", "",
            f"verdict: {'exact' if exact else 'NOT EXACT'}: lost {total['lost']}, doubled {total['doubled']}, out of order {total['unordered']}, "
            f"never sent {total['strange']}, left in the queue {total['left']}", "",
            "4 types (t3 and t4 by the same workers, which find them by a pattern; of t1 half are bundles; t4 has its own collection, "
            "and t2 gets one meanwhile), "
            "3 workers each, replica set of 3, 2 producers a type; lease 2 s, "
            "election time-out 3 s", "", *table(rows)]


def take_overs(chaos):
    rows = [["holder's end", "all", "median", "worst", "undisturbed", "median", "worst"]]
    for kind in ("death", "freeze", "partition", "SIGTERM"):
        row = [kind]
        for chosen in ([seconds for k, seconds, _ in chaos.measured if k == kind], [seconds for k, seconds, a in chaos.measured if k == kind and a]):
            row += [len(chosen), leases(statistics.median(chosen)), leases(max(chosen))] if chosen else [0, "-", "-"]
        rows.append(row)
    return ["", "Time to take over: from the end of a holder until the next one has raised the epoch and opened the file.",
            "Undisturbed: no server, answer, disk or further link failed meanwhile.", "", *table(rows)]


def faults(chaos):
    lines = ["", f"Faults: {sum(chaos.faults.values())}", ""]
    lines += in_columns([f"{kind} {count}" for kind, count in sorted(chaos.faults.items())])
    if chaos.not_run:
        lines += ["", "Not available on this machine, so not run: " + ", ".join(f"{kind} {count}" for kind, count in sorted(chaos.not_run.items()))]
    lines += ["", f"Commands that pawl-lock ran beside the workers: {sum(chaos.commands.values())}, one at a time, with rising epochs."]
    if chaos.to_come:
        lines += ["", f"Scheduled, and not applied (no such victim at that time, or never at that point): {len(chaos.to_come)}"]
        lines += [f"  {fault.at:8.2f}  {fault.kind}, {fault.type}" for fault in sorted(chaos.to_come)]
    return lines


def leases(seconds):
    return f"{seconds:.2f} s ({seconds / LEASE:.1f} leases)"


def table(rows):
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    line = [f"| {' | '.join(str(cell).ljust(width) if i == 0 else str(cell).rjust(width) for i, (cell, width) in enumerate(zip(row, widths)))} |"
            for row in rows]
    return [line[0], f"|{'|'.join('-' * (width + 2) for width in widths)}|", *line[1:]]


def in_columns(words, count=4):
    return [", ".join(words[at:at + count]) + ("," if at + count < len(words) else "") for at in range(0, len(words), count)]
