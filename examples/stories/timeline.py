"""What the stories share: their options, processes that report what they do, and a picture of it."""
import argparse
import contextlib
import html
import json
import multiprocessing
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import pawl_lock  # it is beside, not installed

COLOURS = {"waits": "#d9d9d9", "works": "#2b7bba", "quits": "#e08214", "dies": "#b2182b"}


def options(about):
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--uri", default="mongodb://localhost:27017")
    parser.add_argument("--db", default="pawl_stories")
    parser.add_argument("--unit", type=float, default=1.0, help="how many seconds one piece of work takes")
    parser.add_argument("--svg", help="write the picture there")
    return parser.parse_args()


class Reporter:
    """Of one process: what it does from when to when, as lines on a pipe."""

    def __init__(self, pipe, row):
        self.pipe, self.row = pipe, row

    @contextlib.contextmanager
    def doing(self, what, text=""):
        begin = time.monotonic()
        yield
        self.tell(what, begin, text)

    def tell(self, what, begin, text=""):
        self.pipe.send(json.dumps({"row": self.row, "what": what, "from": begin, "to": time.monotonic(), "text": text}))


def locks(given, **more):
    return pawl_lock.Locks(given.uri, given.db, "story", **{"lease": 10, **more})


def play(given, actors, die=()):
    """Runs the actors, each a process: {row: function(reporter)}. Returns what they reported, and how long it took."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    begin = time.monotonic()
    processes = [multiprocessing.Process(target=actor, args=(Reporter(sender, row),)) for row, actor in actors.items()]
    for process in processes:
        process.start()
    sender.close()
    bars = []
    with contextlib.suppress(EOFError):
        while True:
            bars.append(json.loads(receiver.recv()))
    for row, process in zip(actors, processes):
        process.join()
        assert process.exitcode == 0 or row in die, f"{row} ended with {process.exitcode}"
    took = time.monotonic() - begin
    for bar in bars:
        bar["from"] -= begin
        bar["to"] -= begin
    if given.svg:
        draw(given.svg, list(actors), bars)
    return bars, took


def together(bars, what="works"):
    """The pairs of bars that overlap."""
    chosen = sorted((bar["from"], bar["to"], bar["row"]) for bar in bars if bar["what"] == what)
    return [(one, other) for i, one in enumerate(chosen) for other in chosen[i + 1:] if other[0] < one[1]]


def draw(path, rows, bars):
    left, height, width, end = 150, 26, 760, max(bar["to"] for bar in bars)
    scale = (width - left - 20) / end
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height * (len(rows) + 2) + 10}" '
           'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>']
    for i, row in enumerate(rows):
        y = 10 + i * height
        out.append(f'<text x="8" y="{y + 15}">{html.escape(row)}</text>')
        out.append(f'<line x1="{left}" x2="{width - 20}" y1="{y + 11}" y2="{y + 11}" stroke="#eeeeee"/>')
        for bar in (bar for bar in bars if bar["row"] == row):
            x, w = left + bar["from"] * scale, max(2, (bar["to"] - bar["from"]) * scale)
            out.append(f'<rect x="{x:.1f}" y="{y + 2}" width="{w:.1f}" height="18" fill="{COLOURS[bar["what"]]}"><title>{bar["what"]}, '
                       f'{bar["to"] - bar["from"]:.2f} s</title></rect>')
            if bar["text"]:
                beside = w < 7 * len(bar["text"])
                colour = "black" if beside or bar["what"] == "waits" else "white"
                fits = x + w + 7 * len(bar["text"]) < width
                place = f'x="{x + 3 + w * beside:.1f}"' if not beside or fits else f'x="{x - 3:.1f}" text-anchor="end"'
                out.append(f'<text {place} y="{y + 15}" fill="{colour}">{html.escape(bar["text"])}</text>')
    y = 10 + len(rows) * height
    for i in range(6):
        x = left + i * (width - left - 20) / 5
        out.append(f'<text x="{x:.0f}" y="{y + 15}" text-anchor="middle" fill="#666666">{end * i / 5:.1f} s</text>')
    for i, (what, colour) in enumerate(COLOURS.items()):
        out.append(f'<rect x="{left + i * 90}" y="{y + 26}" width="12" height="12" fill="{colour}"/>'
                   f'<text x="{left + i * 90 + 17}" y="{y + 36}">{what}</text>')
    with open(path, "w") as file:
        file.write("\n".join([*out, "</svg>"]) + "\n")
