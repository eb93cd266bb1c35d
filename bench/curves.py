"""hour.svg: small panels over one time axis, a line a curve. Plain SVG, nothing to install.

A picture is {"x": {name: [minutes, …]}, "marks": [minute, …], "mark": what they are, "panels": [panel, …]}; a panel is
{"title", "unit", "log", "lines": [[label, name in "x", [value or None, …]], …]}. A None interrupts the line.
"""
from html import escape
from math import ceil, floor, log10

from picture import LETTER

WIDTH, LEFT, RIGHT, TOP, PLOT, HEAD, GAP, FOOT = 900, 84, 24, 40, 92, 26, 22, 46
COLOURS = ["#1f6f8b", "#c2571a", "#6a4c93", "#4a7c2c"]
STYLE = ("text{font:13px system-ui,sans-serif;fill:#222}.title{font-weight:600}.unit{fill:#666}.tick{font-size:11px;fill:#555}"
         ".grid{stroke:#e3e6e8;stroke-width:1}.mark{stroke:#9aa3a8;stroke-width:1;stroke-dasharray:2 3}"
         ".line{fill:none;stroke-width:1.4;stroke-linejoin:round}")


def draw(picture):
    most_x = max(max(values) for values in picture["x"].values() if values)
    y, parts = TOP, [key(picture)]
    for panel in picture["panels"]:
        parts.append(draw_panel(panel, picture, most_x, y))
        y += HEAD + PLOT + GAP
    parts.append(time_axis(most_x, y - GAP))
    height = y - GAP + FOOT
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">\n'
            f'<style>{STYLE}</style>\n<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n' + "".join(parts) + "</svg>\n")


def key(picture):
    if not picture["marks"]:
        return ""
    return (f'<path class="mark" d="M{LEFT} 12v16"/><text class="unit" x="{LEFT + 8}" y="25">{escape(picture["mark"])}</text>\n')


def draw_panel(panel, picture, most_x, y):
    top, bottom = y + HEAD, y + HEAD + PLOT
    across = lambda x: LEFT + x / most_x * (WIDTH - LEFT - RIGHT)
    ticks = log_ticks(panel) if panel.get("log") else even_ticks(panel)
    scale = (lambda value: log10(max(value, ticks[0]))) if panel.get("log") else (lambda value: value)
    low, high = scale(ticks[0]), scale(ticks[-1])
    down = lambda value: bottom - (scale(value) - low) / (high - low) * PLOT
    unit = f' <tspan class="unit" font-weight="400">({escape(panel["unit"])})</tspan>' if panel["unit"] else ""
    parts = [f'<text class="title" x="{LEFT}" y="{y + 16}">{escape(panel["title"])}{unit}</text>\n', legend(panel, y + 16)]
    for tick in ticks:
        parts.append(f'<path class="grid" d="M{LEFT} {down(tick):.1f}H{WIDTH - RIGHT}"/>'
                     f'<text class="tick" x="{LEFT - 8}" y="{down(tick) + 4:.1f}" text-anchor="end">{written(tick)}</text>\n')
    for x in time_ticks(most_x):
        parts.append(f'<path class="grid" d="M{across(x):.1f} {top}V{bottom}"/>')
    for x in picture["marks"]:
        parts.append(f'<path class="mark" d="M{across(x):.1f} {top}V{bottom}"/>')
    for (_, name, values), colour in zip(panel["lines"], COLOURS):
        parts.append(f'\n<path class="line" stroke="{colour}" d="{track(picture["x"][name], values, across, down)}"/>')
    return "".join(parts) + "\n"


def track(xs, values, across, down):
    """A path with a gap where a value is missing; a lone value is a dot."""
    words, drawing = [], False
    for x, value in zip(xs, values):
        if value is not None:
            words.append(f"{'L' if drawing else 'M'}{across(x):.1f} {down(value):.1f}" + ("" if drawing else "h.1"))
        drawing = value is not None
    return "".join(words)


def legend(panel, y):
    """At the right, the first curve first; a lone curve without a name is the title's."""
    parts, x = [], WIDTH - RIGHT
    if len(panel["lines"]) == 1 and not panel["lines"][0][0]:
        return "\n"
    for (label, *_), colour in reversed(list(zip(panel["lines"], COLOURS))):
        x -= len(label) * LETTER
        parts.append(f'<path d="M{x - 20:.0f} {y - 4.5}h14" stroke="{colour}" stroke-width="3"/><text x="{x:.0f}" y="{y}">{escape(label)}</text>')
        x -= 34
    return "".join(parts) + "\n"


def known(panel):
    return [value for _, _, values in panel["lines"] for value in values if value is not None]


def step(most, about):
    """1, 2 or 5 times a power of ten, so that there are about so many."""
    power = 10 ** floor(log10(most / about))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor * about >= most * 0.999)


def even_ticks(panel):
    most = max([*known(panel), 1e-9])
    size = step(most, 3)
    return [i * size for i in range(ceil(most / size - 1e-9) + 1)]


def log_ticks(panel):
    values = [value for value in known(panel) if value > 0] or [1]
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return [10.0 ** i for i in range(low, max(high, low + 1) + 1)]


def written(value):
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.6g}"


def time_ticks(most_x):
    size = step(most_x, 6) if most_x < 6 else 5 if most_x <= 30 else 10
    return [i * size for i in range(int(most_x / size + 1e-9) + 1)]


def time_axis(most_x, y):
    across = lambda x: LEFT + x / most_x * (WIDTH - LEFT - RIGHT)
    labels = "".join(f'<text class="tick" x="{across(x):.1f}" y="{y + 16}" text-anchor="middle">{written(x)}</text>' for x in time_ticks(most_x))
    return f'{labels}<text class="unit" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{y + 36}" text-anchor="middle">minutes</text>\n'
