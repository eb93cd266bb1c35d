"""results.svg: a panel a question, a bar a contestant, its spread as a line; contestants that are compared stand in one group. Plain SVG,
nothing to install."""
from html import escape

from figures import number

WIDTH, MARGIN, BAR, GAP, HEAD, GROUP_HEAD, GROUP_GAP, PANEL_GAP = 900, 16, 18, 8, 34, 22, 8, 26
FIGURE = 100  # room behind the longest bar
LETTER = 7.6  # the width of one at 13 px, rather too much: a label is never cut off
OURS, THEIRS = "#1f6f8b", "#a9b4ba"
STYLE = ("text{font:13px system-ui,sans-serif;fill:#222}.title{font-weight:600;font-size:15px}.group{font-weight:600;fill:#555}"
         ".unit{fill:#777}.spread{stroke:#222;stroke-width:1.2}")


def draw(results):
    panels = [panel for found in results.values() for panel in found.get("bars", []) if panel["bars"]]
    y, parts = 16, []
    for panel in panels:
        part, y = draw_panel(panel, y)
        parts.append(part)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}">\n<style>{STYLE}</style>\n'
            f'<rect width="{WIDTH}" height="{y}" fill="#fff"/>\n' + "".join(parts) + "</svg>\n")


def groups(bars):
    """{group: its bars}, in the order in which they first come."""
    found = {}
    for bar in bars:
        found.setdefault(bar[4] if len(bar) > 4 else "", []).append(bar[:4])
    return found


def draw_panel(panel, y):
    """The panel, and where the next one begins."""
    left = MARGIN + max(len(bar[0]) for bar in panel["bars"]) * LETTER + 10
    scale = (WIDTH - left - FIGURE) / max(bar[3] for bar in panel["bars"])
    parts = [f'<text class="title" x="{MARGIN}" y="{y + 14}">{escape(panel["title"])} <tspan class="unit">({escape(panel["unit"])})</tspan></text>\n']
    y += HEAD
    for group, bars in groups(panel["bars"]).items():
        if group:
            parts.append(f'<text class="group" x="{MARGIN}" y="{y + 13}">{escape(group)}</text>\n')
            y += GROUP_HEAD
        for bar in bars:
            parts.append(draw_bar(*bar, left, scale, y))
            y += BAR + GAP
        y += GROUP_GAP if group else 0
    return "".join(parts), y + PANEL_GAP


def draw_bar(label, middle, low, high, begin, scale, y):
    """The spread as a line through the bar's end; left out where it would be a dot."""
    colour = OURS if label.startswith("pawl") else THEIRS
    left, right, centre = begin + low * scale, begin + high * scale, y + BAR / 2
    line = f'<path class="spread" d="M{left:.1f} {centre}H{right:.1f}M{left:.1f} {centre - 4}v8M{right:.1f} {centre - 4}v8"/>'
    if right - left <= 2:
        line = ""
    return (f'<text x="{begin - 10:.1f}" y="{centre + 4.5}" text-anchor="end">{escape(label)}</text>'
            f'<rect x="{begin:.1f}" y="{y}" width="{max(1, middle * scale):.1f}" height="{BAR}" rx="2" fill="{colour}"/>{line}'
            f'<text x="{max(begin + middle * scale, right) + 8:.1f}" y="{centre + 4.5}">{number(middle)}</text>\n')
