"""results.svg: a panel a question, a bar a contestant, its spread as a line. Plain SVG, nothing to install."""
from html import escape

from figures import number

WIDTH, LABEL, BAR, GAP, HEAD, PANEL_GAP = 900, 290, 18, 8, 34, 26
ROOM = WIDTH - LABEL - 130  # for the longest bar; its figure stands behind it
OURS, THEIRS = "#1f6f8b", "#a9b4ba"
STYLE = ("text{font:13px system-ui,sans-serif;fill:#222}.title{font-weight:600;font-size:15px}.unit{fill:#777}"
         ".spread{stroke:#222;stroke-width:1.2}")


def draw(results):
    panels = [panel for found in results.values() for panel in found.get("bars", []) if panel["bars"]]
    y, parts = 16, []
    for panel in panels:
        parts.append(draw_panel(panel, y))
        y += HEAD + len(panel["bars"]) * (BAR + GAP) + PANEL_GAP
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}">\n<style>{STYLE}</style>\n'
            f'<rect width="{WIDTH}" height="{y}" fill="#fff"/>\n' + "".join(parts) + "</svg>\n")


def draw_panel(panel, y):
    scale = ROOM / max(high for _, _, _, high in panel["bars"])
    title, unit = escape(panel["title"]), escape(panel["unit"])
    parts = [f'<text class="title" x="16" y="{y + 14}">{title} <tspan class="unit">({unit})</tspan></text>\n']
    for i, bar in enumerate(panel["bars"]):
        parts.append(draw_bar(*bar, scale, y + HEAD + i * (BAR + GAP)))
    return "".join(parts)


def draw_bar(label, middle, low, high, scale, y):
    """The spread as a line through the bar's end; left out where it would be a dot."""
    colour = OURS if label.startswith("pawl") else THEIRS
    left, right, centre = LABEL + low * scale, LABEL + high * scale, y + BAR / 2
    line = f'<path class="spread" d="M{left:.1f} {centre}H{right:.1f}M{left:.1f} {centre - 4}v8M{right:.1f} {centre - 4}v8"/>'
    if right - left <= 2:
        line = ""
    return (f'<text x="{LABEL - 10}" y="{centre + 4.5}" text-anchor="end">{escape(label)}</text>'
            f'<rect x="{LABEL}" y="{y}" width="{max(1, middle * scale):.1f}" height="{BAR}" rx="2" fill="{colour}"/>{line}'
            f'<text x="{max(LABEL + middle * scale, right) + 8:.1f}" y="{centre + 4.5}">{number(middle)}</text>\n')
