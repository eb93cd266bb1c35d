"""Medians with their spread, ratios, and how they are written."""
from statistics import median

from harness import NotMeasured


def quantile(values, q):
    """The smallest value that is not below a share q of all."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-q * len(ordered) // 1) - 1))]


def number(value):
    """Three digits that count, none of them behind three in front."""
    rounded = float(f"{value:.3g}")
    if abs(rounded) >= 100 or rounded == 0:
        return f"{rounded:,.0f}"
    return f"{rounded:.{1 if abs(rounded) >= 10 else 2 if abs(rounded) >= 0.1 else 3}f}"


def spread(values):
    """`median (least to most)`."""
    if len(values) == 1:
        return number(values[0])
    return f"{number(median(values))} ({number(min(values))} to {number(max(values))})"


def column(results, key):
    return [result[key] for result in results]


def turns(values, key):
    """One figure a turn. None: it was not measured."""
    return None if isinstance(values, NotMeasured) else column(values, key)


def measured(results):
    """The contestants that could be measured."""
    return {name: values for name, values in results.items() if not isinstance(values, NotMeasured)}


def ratios(above, below, key="rate"):
    """Turn by turn, so that what disturbed both is out of it. None: one of them was not measured."""
    if not isinstance(above, list) or not isinstance(below, list):
        return None
    return [a[key] / b[key] for a, b in zip(above, below)]


def table(title, columns, rows, notes=()):
    return {"title": title, "columns": columns, "rows": rows, "notes": list(notes)}


def rows(results, *keys):
    """A row a contestant: its name, and each key with its spread; or why there is none."""
    return [[name, f"not measured: {values}", *[""] * (len(keys) - 1)] if isinstance(values, NotMeasured)
            else [name, *(spread(column(values, key)) for key in keys)] for name, values in results.items()]


def bars(title, unit, results, key, place=lambda name: ("", name)):
    """For the picture. `place`: (group, label) of a contestant; what is to be compared stands in one group."""
    return {"title": title, "unit": unit,
            "bars": [[place(name)[1], median(column(values, key)), min(column(values, key)), max(column(values, key)), place(name)[0]]
                     for name, values in measured(results).items()]}


def raw(results):
    return {name: f"not measured: {values}" if isinstance(values, NotMeasured) else values for name, values in results.items()}
