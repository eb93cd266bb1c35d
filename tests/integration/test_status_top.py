"""pawl-status --top on a real terminal: what it shows, at every size; the keys; and that it leaves the terminal as it was."""
import datetime
import re
import signal
import time

import bson
import pytest
from harness import CALM, wait_until
from terminal import Terminal

SIZES = [(40, 10), (80, 24), (200, 50)]
HOSTILE = "\x1b]0;owned\x07\x1b[31mred\u202e\u009b7m"


@pytest.fixture
def top(field):
    """Makes a Terminal with pawl-status --top in it."""
    made = []

    def make(*arguments, on=None, **more):
        made.append(Terminal("pawl-status", *(on or field.mongo), "--top", *arguments, **more))
        return made[-1]
    yield make
    for one in made:
        one.close()


def aged(seconds, number=0):
    """An ObjectId of so long ago."""
    return bson.ObjectId(int(time.time() - seconds).to_bytes(4, "big") + number.to_bytes(8, "big"))


def lock(field, name, left_s, host="w1"):
    now = datetime.datetime.now(datetime.timezone.utc)
    field.db.locks.insert_one({"type": name, "slot": 0, "owner": bson.Binary(bytes(16), 0), "ttl_ms": 30000, "acquired_at": now - datetime.timedelta(minutes=1),
                               "expires_at": now + datetime.timedelta(seconds=left_s),
                               "holder": {"host": host, "pid": 811, "program": "pawl-worker", "boot": "b", "kind": "worker"}})


@pytest.fixture
def broken(field):
    """A fleet with something wrong: a type that no worker serves, a holder that froze, what no worker can take; and one that is well."""
    assert field.run("pawl-setup").returncode == 0
    field.insert("p", [{"_id": aged(600), "type": "lonely"}, {"_id": aged(599), "type": "lonely"}, {"_id": aged(20), "type": "frozen"},
                       {"type": HOSTILE}, {"type": 5}, {"_id": aged(1), "type": "well"}])
    lock(field, "frozen", -12)
    lock(field, "well", 3000, host="w2")
    return field


@pytest.mark.parametrize("columns, lines", SIZES)
def test_shows_what_is_wrong(broken, top, columns, lines):
    screen = top(columns=columns, lines=lines)
    shown = screen.wait(lambda text: any("1-" in line and " of 5" in line for line in text), "five rows")
    assert shown[0].startswith(f"{broken.name[:20]}") or columns == 40, shown
    assert shown[1] == "1 LEASE OVER, 1 UNSERVED, 2 NOT TAKEABLE" if columns == 40 else "LEASE OVER" in shown[1] and "frozen" in shown[1], shown
    assert any("NO WORKER SERVES lonely" in line for line in shown) or columns < 80, shown

    def row(name):  # while the screen is drawn it may not be there
        return wait_until(lambda: screen.row(name), lambda: f"{name} in {screen}")
    lonely = row("lonely")
    assert re.match(r"! lonely +(2|\?) +10m +([-\d<]+ +[-\d<]+ +)?nobody\b", lonely), lonely
    if lines > 10:
        frozen = row("frozen")
        assert frozen.startswith("! frozen") and "w1:811" in frozen and "over" in frozen, screen
        assert row("well").startswith("  well") and "w2:811" in row("well"), screen
        assert row("(untyped)").startswith("! (untyped)"), screen
    assert b"\x1b]0;" not in screen.written and b"\x1b[31mred" not in screen.written and b"\xc2\x9b" not in screen.written
    if columns == 200:
        assert "no worker serves it" in lonely and all(title in " ".join(shown) for title in ("EPOCH", "SEQ", "FILE", "WHAT")), shown
    screen.type("q")
    assert screen.end() == 0
    screen.restored()


def test_resize_while_it_runs(broken, top):
    screen = top(columns=80, lines=24, env={"COLUMNS": "77", "LINES": "19"})  # of the shell, which are old after a change
    screen.wait(lambda text: any("OUT/s" in line and "LEASE" in line for line in text))
    screen.resize(40, 10)
    screen.wait(lambda text: len(text) == 10 and text[0].startswith(broken.name[:20]) and "HOLDER" in text[2] and "LEASE" not in text[2] and "by backlog" in text[9])
    screen.resize(200, 50)
    screen.wait(lambda text: any("FILE" in line for line in text) and "by backlog" in text[49])
    for columns, lines in ((1, 1), (3, 2), (20, 4), (500, 200)):
        screen.resize(columns, lines)
    screen.resize(80, 24)
    screen.wait(lambda text: text[0].startswith(broken.name) and "by backlog" in text[23] and any("lonely" in line[:20] for line in text))
    screen.type("q")
    assert screen.end() == 0


def many(field, count=300):
    assert field.run("pawl-setup").returncode == 0
    field.insert("p", [{"_id": aged(1000 - n, n), "type": f"t{n:03}"} for n in range(count)])
    field.insert("p", [{"_id": aged(3, 1000 + n), "type": "t150"} for n in range(50)])


def table(screen):
    """The names in the first column, from the top."""
    return [line[2:].split()[0] for line in screen.lines() if re.match(r"[! ] \w", line) and "TYPE" not in line]


def test_order_filter_and_scrolling(field, top):
    many(field)
    screen = top()
    screen.wait(lambda text: re.search(r"by backlog +1-\d+ of 300", text[23]) and table(screen)[:1] == ["t150"], "the longest queue first")
    screen.type("n")
    screen.wait(lambda text: "by name" in text[23] and table(screen)[:2] == ["t000", "t001"])
    screen.type("a")
    screen.wait(lambda text: "by age" in text[23] and table(screen)[0] == "t000")
    page = len(table(screen))
    screen.type("\x1bOB\x1bOB")  # down, twice
    screen.wait(lambda text: table(screen)[0] == "t002" and f"3-{page + 2} of 300" in text[23])
    screen.type("\x1b[6~")  # page down
    screen.wait(lambda _: table(screen)[0] == f"t{page + 2:03}")
    screen.type("\x1b[4~")  # end
    screen.wait(lambda text: table(screen)[-1] == "t299" and f"{301 - page}-300 of 300" in text[23])
    screen.type("\x1b[5~")  # page up
    screen.wait(lambda _: table(screen)[-1] == f"t{299 - page}")
    screen.type("\x1b[1~")  # home
    screen.wait(lambda _: table(screen)[0] == "t000")
    screen.type("/T29")
    screen.wait(lambda text: "filter: T29_" in text[23] and table(screen) == [f"t29{n}" for n in range(10)])
    screen.type("\x7f\x7f55\r")
    screen.wait(lambda text: "filter: T55" in text[23] and "0-0 of 0" in text[23] and table(screen) == [])
    screen.type("\x1b")
    screen.wait(lambda text: "of 300" in text[23] and "filter" not in text[23].split("/ filter")[0])
    for key, name in (("r", "rate"), ("h", "holder"), ("b", "backlog")):
        screen.type(key)
        screen.wait_text(f"by {name}")
    screen.type("?")
    screen.wait_text("order: backlog, age, rate, name, holder")
    screen.type("x")
    screen.wait_text("by backlog")
    with screen.lock:
        screen.screen.erase_in_display(2)  # another program has written over it
    screen.type("\x0c")
    screen.wait(lambda text: "of 300" in text[23] and "TYPE" in text[2] and len(table(screen)) == page)
    screen.type("q")
    assert screen.end() == 0


def test_refreshes_and_pauses(field, top):
    assert field.run("pawl-setup").returncode == 0
    worker = field.worker(*CALM, "--linger", "1h")
    field.fill(10)
    wait_until(lambda: field.seq() == 10, field.logs)
    screen = top()
    screen.wait(lambda _: screen.row("t1") and f":{worker.pid}" in screen.row("t1"), "the holder")
    field.fill(5, "t2")
    screen.wait(lambda _: re.match(r"  t2 +5 ", screen.row("t2") or ""), "five of t2")
    screen.type("p")
    screen.wait_text("PAUSED")
    field.fill(1, "t3")
    other = top()
    other.wait(lambda _: other.row("t3"), "t3")
    assert screen.row("t3") is None, screen
    screen.type("p")
    screen.wait(lambda _: screen.row("t3"), "t3")
    with field.producing(count=200, type_name="t2"), field.producing(count=200):
        screen.wait(lambda _: re.match(r"  t2 +\d+ +\d+s +[1-9]\d* +0 ", screen.row("t2")), "a rate into t2, and none out of it")
        screen.wait(lambda _: re.match(r"  t1 +\S+ +\S+ +[1-9]\d* +[1-9]\d* ", screen.row("t1")), "both rates of t1")


@pytest.mark.slow
def test_a_holder_that_writes_nothing(field, top):
    """It froze, and its lease is long."""
    assert field.run("pawl-setup").returncode == 0
    worker = field.worker("--lease", "10m", "--linger", "1h")
    field.fill(10)
    wait_until(lambda: field.seq() == 10, field.logs)
    worker.freeze()
    field.fill(10)
    screen = top()
    screen.wait_text("NOTHING IS WRITTEN t1")
    worker.thaw()
    screen.wait_text("all is well")


@pytest.mark.parametrize("how", ["q", "Ctrl-C", "SIGTERM", "SIGHUP", "SIGINT"])
def test_every_end_restores_the_terminal(broken, top, how):
    screen = top()
    screen.wait_text("by backlog")
    if how.startswith("SIG"):
        screen.process.send_signal(getattr(signal, how))
    else:
        screen.type({"q": "q", "Ctrl-C": "\x03"}[how])
    assert screen.end() == 0
    screen.restored()


def test_ends_at_once_while_the_server_says_nothing(own_server, top):
    server = own_server("--replica-set").start()
    screen = top(on=["--uri", server.uri])
    screen.wait_text("all is well")
    with server.frozen():
        shown = screen.wait(lambda text: "DATABASE" in text[1] and "this is the state of" in text[1], "the state of before")
        assert "1 types" in shown[0] or "0 types" in shown[0], shown
        began = time.monotonic()
        screen.type("q")
        assert screen.end() == 0 and time.monotonic() - began < 3
        screen.restored()


def test_comes_back_with_the_database(own_server, top):
    server = own_server("--replica-set").start()
    server.client.pawl.messages.insert_one({"type": "t1"})
    screen = top(on=["--uri", server.uri])
    screen.wait(lambda text: screen.row("t1") and "all is well" in text[1], "t1")
    with server.frozen():
        screen.wait_text("DATABASE")
        assert screen.row("t1"), screen
    server.client.pawl.messages.insert_one({"type": "t2"})
    screen.wait(lambda text: screen.row("t2") and "DATABASE" not in text[1], "t2")


@pytest.mark.parametrize("env, colours", [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True)])
def test_colours(broken, top, env, colours):
    screen = top(env=env)
    screen.wait(lambda _: screen.row("lonely"), "lonely")
    assert bool(re.search(rb"\x1b\[[0-9;]*3[0-7][;m]", screen.written)) == colours


def test_without_colours_of_the_terminal(broken, top):
    screen = top(term="vt100")
    screen.wait(lambda _: screen.row("lonely"), "lonely")
    assert not re.search(rb"\x1b\[[0-9;]*3[0-7][;m]", screen.written)


def test_takes_a_terminal(field, top):
    done = field.run("pawl-status", "--top")
    assert done.returncode == 2 and b"takes a terminal" in done.stderr and done.stdout == b"", done
    for term in ("dumb", "nonsense"):
        screen = top(term=term)
        assert screen.end() == 2
        wait_until(lambda: b"(TERM): takes one that is known" in screen.written, lambda: str(screen))


@pytest.mark.parametrize("ignored", [(), (signal.SIGHUP,)])
def test_end_of_the_terminal(broken, ignored):
    """The other side is closed: it ends, and does not spin, even if it ignores SIGHUP."""
    screen = Terminal("pawl-status", *broken.mongo, "--top", ignored=ignored)
    try:
        screen.wait_text("by backlog")
        screen.hang_up()
        assert screen.process.wait(20) in (0, -signal.SIGHUP)  # which of the two comes first, the signal or the end of its input
    finally:
        screen.close()
