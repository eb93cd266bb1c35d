"""Makes the pictures of docs/monitor: a fleet that is busy and partly broken, on a real server, in a real browser.

PAWL_SCREENSHOTS=docs/monitor .venv/bin/python -m pytest -c tests/pytest.ini --rootdir tests tests/integration/monitor_pictures.py

No test: it takes PAWL_SCREENSHOTS_MINUTES (16), so that the page has something to show. pngquant, if it is there, makes them smaller.
"""
import math
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from browser import Chromium
from fields import Field
from harness import wait_until
from monitoring import Monitor

FOLDER = Path(os.environ.get("PAWL_SCREENSHOTS", "docs/monitor"))
MINUTES = float(os.environ.get("PAWL_SCREENSHOTS_MINUTES", "16"))
RATES = {"orders": 6, "payments": 25, "clicks": 60, "invoices": 3, "shipments": 4, "stock": 9, "audit": 2, "mail": 5, "prices": 14, "returns": 1}


def on(machine):
    """A prefix under which a program believes to be on a machine of that name."""
    return ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', machine]


def produce(field, name, rate, over):
    """In waves of some minutes."""
    begin, n = time.monotonic(), 0
    while not over.wait(0.5):
        wave = 1 + 0.7 * math.sin((time.monotonic() - begin) / (40 + len(name) * 9) + len(name))
        count = max(1, round(rate * wave / 2))
        field.db.messages.insert_many([{"type": name, "n": i, "customer": f"c-{i * 7919 % 5000:04}", "amount": i * 31 % 9000} for i in range(n, n + count)])
        n += count


@pytest.fixture
def field(own_server, tmp_path):
    made = Field(own_server("--replica-set").start(), "shop", tmp_path)  # the name is on the pictures
    yield made
    made.close()


@pytest.mark.timeout(3600)
def test_pictures(field, locked):
    over, quick = threading.Event(), ["--lease", "20s", "--linger", "1m", "--poll", "100ms"]

    def worker(machine, *types, linger=None):
        return field.worker(*quick, types=types, quick=False, prefix=on(machine))
    assert field.run("pawl-setup").returncode == 0
    monitor = Monitor(field.mongo, field.folder / "monitor.log", interval="1s")
    producers = [threading.Thread(target=produce, args=(field, name, rate, over), daemon=True) for name, rate in RATES.items()]
    for producer in producers:
        producer.start()
    browser = Chromium()
    try:
        first = worker("w1", "orders", "payments", "prices")
        second = worker("w2", "payments", "orders", "shipments", "returns", "prices")
        third = worker("w3", "clicks", "invoices", "audit")
        fourth = worker("w4", "mail")
        stock = worker("w4", "stock")
        locked("nightly-backup", "sleep", "100000")
        wait_until(lambda: field.locks.count_documents({"type": "nightly-backup"}) > 0, "the lock")
        locked("nightly-backup", "sleep", "100000")

        def at(share):
            """Until that share of the time is over."""
            until = begin + share * MINUTES * 60
            wait_until(lambda: time.monotonic() >= until, "time", MINUTES * 70)
        begin = time.monotonic()
        at(0.2)
        first.kill()  # the second takes over after the lease
        at(0.35)
        first = worker("w1", "orders", "payments", "prices")
        at(0.45)
        second.freeze()
        at(0.53)
        second.thaw()
        at(0.62)
        fourth.stop()  # nobody serves mail
        at(0.7)
        assert field.run("pawl-status", "--pause", "audit", "--reason", "moving the disk of w3").returncode == 0
        at(0.8)
        first.stop()
        at(0.86)
        first = worker("w1", "orders", "payments", "prices")
        at(0.9)
        stock.freeze()
        at(1)
        shoot(browser, monitor)
        third.thaw()
    finally:
        over.set()
        browser.close()
        monitor.process.kill()
        monitor.process.wait()


def shoot(browser, monitor):
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, route, (width, height), scheme in (("types", "#/", (1400, 760), "light"), ("timeline", "#/timeline", (1400, 760), "dark"),
                                                 ("type", "#/type/stock", (1400, 1000), "light"), ("phone", "#/", (360, 1000), "light")):
        browser.size(width, height)
        browser.scheme(scheme)
        browser.open(f"http://127.0.0.1:{monitor.number}/{route}")
        browser.wait("document.querySelector('#main').dataset.updates > 3")
        path = FOLDER / f"{name}.png"
        browser.shoot(path)
        if shutil.which("pngquant"):
            subprocess.run(["pngquant", "--force", "--skip-if-larger", "--ext", ".png", "64", path], check=False)
        print(path, path.stat().st_size)
