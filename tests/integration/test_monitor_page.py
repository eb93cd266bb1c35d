"""pawl-monitor's page in a real Chromium: what a reader sees of a real fleet, and that nothing of it can be turned against the reader."""
import json
import os
import time

import bson
import pytest

from browser import Chromium
from harness import CALM, stays, wait_until
from monitoring import Monitor

DESKTOP, PHONE = (1400, 900), (360, 740)
# On the way into the page each of these would do something, if it were taken for more than text.
HOSTILE = ["<img src=x onerror=document.title='owned'>", "</script><script>document.title='owned'</script>", "exe.\u202etxt", "zero\u200bwidth", "a\tb\x01"]


@pytest.fixture(scope="module")
def browser():
    made = Chromium()
    yield made
    made.close()


@pytest.fixture
def opened(browser, field):
    """Starts a pawl-monitor on the field, and opens its page."""
    started, addresses = [], []

    def make(route="#/", size=DESKTOP, scheme="light", on=field, setup=True):
        if not started and setup:
            on.run("pawl-setup")  # refuses what one test has made
        if not started:
            started.append(Monitor(on.mongo, on.folder / "monitor.log"))
            addresses.append(f"http://127.0.0.1:{started[0].number}/")
        browser.size(*size)
        browser.scheme(scheme)
        browser.open(addresses[0] + route)
        browser.wait("document.querySelector('#headline').innerText !== 'Loading'")
        return browser
    yield make
    faults = browser.faults()
    asked = browser.requested()
    for one in started:
        one.process.kill()
        one.process.wait()
    assert all(url.startswith(("about:", "data:", *addresses)) for url in asked), asked
    assert [fault for fault in faults if "ERR_" not in fault] == []


def old_id(seconds):
    """Of a document that was inserted so long ago."""
    return bson.ObjectId(int(time.time() - seconds).to_bytes(4, "big") + os.urandom(8))


def put(field, type_name, count=1, age=0, **more):
    field.insert("p", [{"_id": old_id(age), "type": type_name, **more} for _ in range(count)])


def broken_fleet(field):
    """One type goes well, nobody serves another, and the holder of the third is frozen."""
    field.fill(10, "well")
    field.worker(*CALM, "--linger", "1h", types=("well",))
    frozen = field.worker("--linger", "1h", types=("frozen",))
    field.fill(5, "frozen")
    wait_until(lambda: field.locks.count_documents({"slot": 0}) == 2 and field.messages.count_documents({}) == 0, field.logs)
    frozen.freeze()
    put(field, "frozen", 3)
    put(field, "orders", 1204, age=725)
    return frozen


def row_of(page, type_name):
    return page.js(f"[...document.querySelectorAll('#types tbody tr, #locks tbody tr')].find(row => row.querySelector('th bdi')?.textContent === "
                   f"{json.dumps(type_name)})?.innerText ?? ''")


def follow(page, type_name):
    """Goes to a type's page."""
    page.wait(f"[...document.querySelectorAll('tbody th a bdi')].some(one => one.textContent === {json.dumps(type_name)})")
    page.js(f"[...document.querySelectorAll('tbody th a bdi')].find(one => one.textContent === {json.dumps(type_name)}).parentNode.focus()")
    page.press("Enter")
    page.wait_text(type_name, "#type-title")


# ---- what is wrong, in words ----


def test_all_is_well(field, opened):
    field.fill(20)
    field.worker(*CALM, "--linger", "1h")
    page = opened()
    page.wait_text("All is well")
    wait_until(lambda: "held" in row_of(page, "t1") and "t1.bin" in row_of(page, "t1"), lambda: row_of(page, "t1"))
    assert "1 type, 1 held" in page.text("#totals") and page.texts("#problems li") == []
    assert f"{field.name} on 127.0.0.1" in page.text("#where")
    wait_until(lambda: "updated" in page.text("#fresh"), lambda: page.text("#fresh"))


def test_a_named_worker_is_shown_with_its_machine(field, opened):
    """As pawl-status and the timeline show it: replicas of one service have one name."""
    field.fill(20)
    worker = field.worker(*CALM, "--linger", "1h", "--name", "worker")
    wait_until(lambda: field.locks.count_documents({"slot": 0}) == 1, field.logs)
    shown = f"worker@{field.locks.find_one({'slot': 0})['holder']['host']}:{worker.pid}"
    page = opened()
    wait_until(lambda: shown in row_of(page, "t1"), lambda: row_of(page, "t1"))
    follow(page, "t1")
    page.wait_text(shown, "#view-type dl")
    page.wait(f"document.querySelector('#view-type g.hold')?.getAttribute('aria-label').includes({json.dumps(shown)})")


def test_an_empty_database(opened):
    page = opened()
    page.wait_text("All is well")
    assert "There is no type in this database yet" in page.text("#types")
    page.js("location.hash = '#/locks'")
    page.wait_text("There is no lock", "#view-locks")
    page.js("location.hash = '#/timeline'")
    page.wait("!document.querySelector('#view-timeline').hidden")
    page.js("location.hash = '#/type/none'")
    page.wait("document.querySelector('#view-type .alert').checkVisibility()")


def test_a_broken_fleet_is_named(field, opened):
    broken_fleet(field)
    page = opened()
    page.wait_text("2 problems", "#headline")
    page.wait_text("Nobody serves orders: 1,204 messages wait, the oldest for 12 min", "#problems")
    page.wait_text("The holder of frozen,", "#problems")
    assert all("critical" in one for one in page.texts("#problems li")), page.texts("#problems li")
    assert "not served" in row_of(page, "orders") and "12 min" in row_of(page, "orders"), row_of(page, "orders")
    assert "holder frozen" in row_of(page, "frozen") and "expired" in row_of(page, "frozen")
    assert "held" in row_of(page, "well")
    assert page.texts("#types tbody th")[2].startswith("well")  # what is wrong comes first
    page.wait_text("2 problems. Nobody serves orders", "#said")
    follow(page, "orders")
    page.wait_text("Nobody serves orders", "#view-type")


@pytest.mark.slow
def test_a_full_disk_is_named(field, opened, disks):
    disks.tmpfs(field, "1m")
    field.fill(2000, size=1000)
    worker = field.worker(*CALM, "--batch-bytes", "64KiB")
    worker.wait_log(" no-space: ")
    page = opened()
    page.wait_text("writes nothing:", "#problems")
    page.wait_text("no-space", "#problems")
    assert "writes nothing" in row_of(page, "t1"), row_of(page, "t1")
    disks.remount(field, "size=16m")
    page.wait_text("All is well")


def test_a_paused_type_says_by_whom_and_why(field, opened):
    field.fill(3)
    field.drain()
    assert field.run("pawl-status", "--pause", "t1", "--reason", HOSTILE[0]).returncode == 0
    put(field, "t1", 2, age=120)
    page = opened()
    page.wait_text("All is well, with 1 note", "#headline")
    page.wait_text(f": {HOSTILE[0]}. 2 messages wait, the oldest for 2 min", "#problems")
    assert "t1 is paused by " in page.text("#problems") and "paused" in row_of(page, "t1")
    assert field.run("pawl-status", "--resume", "t1").returncode == 0
    page.wait_text("Nobody serves t1", "#problems")


def test_a_type_is_named_before_the_first_worker_has_made_the_index(field, opened):
    put(field, "orders", 3, age=120)
    page = opened(setup=False)
    page.wait_text("Nobody serves orders: 3 messages wait", "#problems")
    stays(lambda: "not served" in row_of(page, "orders"), 6, page.text)  # between two counts, too


def test_documents_that_no_worker_can_take_are_named(field, opened):
    field.insert("p", [{"type": 5}, {}, {"type": "t1 "}])
    page = opened()
    page.wait_text("No worker can take 2 documents: their type is not a string", "#problems")
    page.wait_text("No worker can take 1 document of type", "#problems")
    assert "cannot be taken" in row_of(page, '"t1 "'), page.text("#types")


def test_names_that_are_left_out_are_counted(field, monitor, browser):
    assert field.run("pawl-setup").returncode == 0
    field.insert("p", [{"type": f"t{n}"} for n in range(6)])
    browser.open(f"http://127.0.0.1:{monitor(env={'PAWL_TEST_TYPES_MAX': '4'}).number}/")
    browser.wait_text("2 names are left out: at most 4 are shown", "#problems")


def test_a_lock_that_is_not_pawls_is_named(field, opened):
    field.fill(3)
    assert field.run("pawl-setup").returncode == 0
    field.db.locks.insert_one({"type": "t1", "slot": 0, "owner": "somebody"})
    page = opened()
    page.wait_text("No worker can use the ledger or the lock of t1", "#problems")
    page.wait_text("not pawl's", "#problems")


def test_a_database_that_workers_refuse(field, opened):
    assert field.run("pawl-setup").returncode == 0
    field.db.messages.create_index("at", name="ttl", expireAfterSeconds=60)
    page = opened()
    page.wait_text(f"Workers refuse the database {field.name}", "#problems")


def test_a_database_that_is_away(own_server, make_field, opened):
    field = make_field(own_server("--replica-set").start())
    field.fill(7, "t9")
    page = opened(on=field)
    wait_until(lambda: "t9" in row_of(page, "t9"), lambda: page.text())
    with field.server.frozen():
        page.wait_text("does not answer: what you see is", "#problems")
        assert "7" in row_of(page, "t9") and "old" in page.text("#fresh")
    page.wait("!document.querySelector('#problems').innerText.includes('does not answer')")


def test_a_monitor_that_is_away(field, browser):
    field.fill(2)
    monitor = Monitor(field.mongo, field.folder / "monitor.log")
    browser.size(*DESKTOP)
    browser.open(f"http://127.0.0.1:{monitor.number}/")
    wait_until(lambda: row_of(browser, "t1"), browser.text)
    monitor.process.kill()
    monitor.process.wait()
    browser.wait_text("pawl-monitor does not answer: what you see is", "#problems")
    assert row_of(browser, "t1") and "old" in browser.text("#fresh")


# ---- what others wrote stays text ----


def test_hostile_names_and_payloads_stay_text(field, opened):
    field.insert("p", [{"type": text, "payload": 1} for text in HOSTILE])
    put(field, "t1", age=60, payload=HOSTILE, **{"</pre>": "<b>bold</b>"})
    page = opened()
    page.wait_text("<img src=x onerror=", "#types")
    page.wait_text("\\u202e", "#types")  # as pawl-status shows it
    follow(page, "t1")
    page.wait_text("</script><script>", ".first pre")
    shown = page.text(".first pre")
    assert "exe.\\u202etxt" in shown and "zero\\u200bwidth" in shown and "a\\tb\\u0001" in shown, shown
    for text in ("<img src=x onerror=", "</pre>", "<b>bold</b>"):
        assert text in shown, shown
    assert page.js("document.querySelectorAll('img, script:not(body > script), b, iframe, object').length") == 0
    assert "owned" not in page.js("document.title")


def test_a_hostile_holder_stays_text(field, opened):
    field.fill(3)
    worker = field.worker(*CALM, "--linger", "1h")
    wait_until(lambda: field.locks.count_documents({"slot": 0}) == 1, field.logs)
    field.locks.update_one({"slot": 0}, {"$set": {"holder.host": HOSTILE[0] + "\u202e"}})
    page = opened()
    wait_until(lambda: "<img src=x" in row_of(page, "t1"), lambda: row_of(page, "t1"))
    assert "‹U+202E›" in row_of(page, "t1") and worker.alive()
    page.js("location.hash = '#/timeline'")
    page.wait("document.querySelector('g.hold')?.getAttribute('aria-label').includes('onerror')")
    assert page.js("document.querySelectorAll('img').length") == 0


def test_the_policy_keeps_foreign_scripts_out(opened):
    """That the other tests find no fault proves little unless a fault is one."""
    page = opened()
    page.js("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.owned = 1'}))")
    wait_until(page.faults, "a violation in the log")
    assert page.js("window.owned") is None and "Content Security Policy" in page.faults()[0]
    page.events.clear()


# ---- sort, filter, ways ----


def columns(page, at):
    return page.js(f"[...document.querySelectorAll('#types tbody tr')].map(row => row.children[{at}].innerText.trim())")


def head(page, title):
    """Presses the button of a column, by the keyboard."""
    page.js(f"[...document.querySelectorAll('thead button')].find(one => one.checkVisibility() && one.innerText.startsWith({json.dumps(title)})).focus()")
    page.press("Enter")
    return page.js("document.activeElement.closest('th').getAttribute('aria-sort')")


def test_sort_and_filter(field, opened):
    for number, name in enumerate(("apple", "banana", "cherry", "date")):
        put(field, name, 3 + 4 * number, age=60 * (4 - number))
    page = opened()
    page.wait("document.querySelectorAll('#types tbody tr').length === 4")
    wait_until(lambda: columns(page, 2) == ["3", "7", "11", "15"], lambda: page.text("#types"))  # the oldest is the most urgent
    assert head(page, "Queued") == "descending" and columns(page, 2) == ["15", "11", "7", "3"]
    assert head(page, "Queued") == "ascending" and columns(page, 2) == ["3", "7", "11", "15"]
    assert head(page, "Type") == "ascending" and [one.split("\n")[0] for one in page.texts("#types tbody th")] == ["apple", "banana", "cherry", "date"]
    page.js("document.querySelector('#text').focus()")
    page.press("an")
    assert [one.split("\n")[0] for one in page.texts("#types tbody th")] == ["banana"] and page.text("#found") == "1 of 4"
    assert "filter=an" in page.js("location.hash") and "sort=type" in page.js("location.hash")
    page.ask("Page.reload")
    page.wait("document.querySelector('#text')?.value === 'an'")
    page.wait("document.querySelectorAll('#types tbody tr').length === 1")
    page.js("document.querySelector('#text').select()")
    page.press("no such type")
    page.wait_text("No type is as the filter says", "#types")


def test_only_with_problems(field, opened):
    broken_fleet(field)
    page = opened()
    page.wait_text("2 problems", "#headline")
    page.js("document.querySelector('#only').focus()")
    page.press("Space")
    page.wait("document.querySelectorAll('#types tbody tr').length === 2")
    assert row_of(page, "well") == "" and page.text("#found") == "2 of 3"


def test_by_keyboard_to_a_types_page_and_back(field, opened):
    for name in ("t1", "t2", "t3"):
        put(field, name, 2, age=60)
    page = opened()
    page.wait("document.querySelectorAll('#types tbody tr').length === 3")
    page.press("Tab")
    assert "Skip" in page.js("document.activeElement.innerText")
    page.press("Enter")
    assert page.js("document.activeElement.id") == "main"
    for _ in range(60):
        page.press("Tab")
        if page.js("document.activeElement.closest('tbody') && document.activeElement.innerText") == "t2":
            break
    page.press("Enter")
    page.wait_text("t2", "#type-title")
    assert page.js("document.activeElement.id") == "type-title"
    page.wait_text("First in the queue", "#view-type")
    page.press("Tab", shift=True)
    assert page.js("document.activeElement.id") == "back"  # right above
    page.press("Enter")
    page.wait("document.activeElement.innerText === 't2' && !document.querySelector('#view-types').hidden")
    page.press("Enter")
    page.wait_text("t2", "#type-title")
    page.back()
    page.wait("document.activeElement.innerText === 't2' && !document.querySelector('#view-types').hidden")


def updates(page):
    return int(page.js("document.querySelector('#main').dataset.updates"))


def wait_updates(page, count):
    """That many from now on: each begins after this one."""
    before = updates(page)
    wait_until(lambda: updates(page) >= before + count, "updates of the page")


@pytest.mark.slow
def test_an_update_keeps_focus_selection_and_place(field, opened):
    """Even where the new order has the row elsewhere, and where what is selected has changed: it is as it was until the reader goes."""
    for number in range(60):
        put(field, f"t{number:02}", 2, age=60)
    page = opened("#/?sort=-queued")
    page.wait("document.querySelectorAll('#types tbody tr').length === 50")
    page.js("getSelection().selectAllChildren(document.querySelectorAll('#types tbody tr')[35])")
    page.js("document.querySelectorAll('#types tbody th a')[30].focus(); scrollTo(0, 400)")
    before = page.js("[document.activeElement.innerText, getSelection().toString(), scrollY]")
    assert before[0] == "t30" and "t35" in before[1] and " s" in before[1] and before[2] == 400, before
    for number in range(40):
        put(field, f"new{number:02}", 3, age=90)
    wait_until(lambda: "240 documents" in page.text("#totals"), lambda: page.text("#totals"))
    wait_updates(page, 2)
    assert page.js("[document.activeElement.innerText, getSelection().toString(), scrollY]") == before
    page.js("getSelection().removeAllRanges()")
    wait_updates(page, 1)
    assert page.js("document.activeElement.innerText") == "t30" and columns(page, 2)[0] == "2"
    page.js("document.activeElement.blur()")
    wait_until(lambda: set(columns(page, 2)[:40]) == {"3"}, lambda: str(columns(page, 2)))


def test_pages_and_pause(field, opened):
    field.insert("p", [{"type": f"t{number:03}"} for number in range(120)])
    page = opened("#/?sort=type")
    page.wait_text("1–50 of 120", "#types-pages")
    page.js("[...document.querySelectorAll('#types-pages button')][1].click()")
    page.wait_text("51–100 of 120", "#types-pages")
    assert page.texts("#types tbody th")[0].startswith("t050")
    page.js("document.querySelector('#pause').click()")
    page.wait_text("paused", "#fresh")
    before = updates(page)
    field.insert("p", [{"type": "t050"}])
    page.wait("document.querySelector('#fresh').innerText.match(/paused, ([5-9]|\\d\\d) s/)")
    assert updates(page) == before and page.text("#pause") == "Resume"
    page.js("document.querySelector('#pause').click()")
    wait_until(lambda: columns(page, 2)[0] == "2", lambda: str(columns(page, 2)))


# ---- the timeline and the locks ----


def test_the_timeline_shows_a_take_over_and_a_freeze(field, opened):
    field.fill(5)
    first = field.worker("--linger", "1h")
    wait_until(lambda: field.locks.count_documents({"slot": 0}) == 1 and field.messages.count_documents({}) == 0, field.logs)
    page = opened("#/timeline?minutes=5")
    page.wait("document.querySelectorAll('g.hold').length === 1")
    first.freeze()
    put(field, "t1")
    page.wait("document.querySelector('g.hold').getAttribute('aria-label').includes('frozen: its lease ended')")
    second = field.worker("--linger", "1h")
    page.wait("document.querySelectorAll('g.hold').length === 2")
    labels = page.js("[...document.querySelectorAll('g.hold')].map(one => one.getAttribute('aria-label'))")
    assert f":{first.pid} held it for" in labels[0] and "taken over by the next" in labels[0] and f":{second.pid} held it" in labels[1], labels
    page.js("document.querySelector('g[tabindex=\"0\"]').focus()")
    page.press("Home")
    assert page.js("document.activeElement.getAttribute('aria-label')").startswith(labels[0].split(" held")[0])
    page.press("ArrowRight")
    page.wait_text(f":{second.pid} held it", "#tip")
    page.press("Escape")
    page.wait("document.querySelector('#tip').hidden")
    wait_updates(page, 2)
    assert f":{second.pid}" in page.js("document.activeElement.getAttribute('aria-label')")
    page.js("document.querySelector('#timeline summary').click()")
    page.wait("document.querySelectorAll('#timeline tbody tr').length === 2")
    assert "taken over" in page.text("#timeline tbody"), page.text("#timeline tbody")


def test_locks_and_who_waits(field, opened, locked):
    holder = locked("nightly", "sleep", "1000")
    wait_until(lambda: field.locks.count_documents({"type": "nightly", "slot": 0}) == 1, "the lock")
    waiter = locked("nightly", "sleep", "1000")
    page = opened("#/locks")
    wait_until(lambda: f":{waiter.process.pid}" in row_of(page, "nightly"), page.text)
    assert f":{holder.process.pid}" in row_of(page, "nightly") and "held" in row_of(page, "nightly")
    assert row_of(page, "nightly") and page.text("#count-locks") == "1"
    follow(page, "nightly")
    page.wait_text("Waiting for the lock", "#view-type")
    page.wait("document.querySelectorAll('#view-type g.hold').length === 1")


# ---- for every reader ----

CONTRAST = """(() => {
  const parse = text => { const n = text.match(/[\\d.]+/g).map(Number); return text.startsWith("color(") ? [n[0] * 255, n[1] * 255, n[2] * 255, n[3] ?? 1] : [n[0], n[1], n[2], n[3] ?? 1]; };
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const ground = one => { for (; one; one = one.parentElement) { const c = parse(getComputedStyle(one).backgroundColor); if (c[3] > 0) return c; } return [255, 255, 255]; };
  const out = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walker.nextNode()) {
    const one = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !one.checkVisibility() || one.closest("script, style, .unseen, button:disabled, .skip, noscript"))
      continue;
    seen++;
    const style = getComputedStyle(one), svg = one instanceof SVGElement;
    const a = light(parse(svg ? style.fill : style.color)), b = light(ground(svg ? one.closest("svg").parentElement : one));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5)
      out.push(`${ratio.toFixed(2)} ${one.tagName}.${one.getAttribute("class")}: ${walker.currentNode.data.slice(0, 40)}`);
  }
  return { seen, out };
})()"""


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["1400", "360"])
def test_it_fits_and_can_be_read(field, opened, size, scheme):
    """No view is wider than the window, text stands out from its ground, and each control has a name."""
    broken_fleet(field)
    field.insert("p", [{"type": 5}, {"type": "x" * 200}, {"type": "a-type-with-a-rather-long-name." * 4, "payload": "y" * 3000}])
    page = opened(size=size, scheme=scheme)
    page.wait_text("Nobody serves", "#problems")
    for route in ("#/", "#/timeline", "#/locks", "#/type/frozen", "#/type/" + "a-type-with-a-rather-long-name." * 4):
        page.js(f"location.hash = {json.dumps(route)}")
        wait_updates(page, 2)
        wide = page.js("[document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1] == size[0], (route, wide)
        contrast = page.js(CONTRAST)
        assert contrast["out"] == [] and contrast["seen"] > 10, (route, contrast)
        nodes = page.nodes()
        nameless = [node for node in nodes if node[0] in ("button", "link", "textbox", "searchbox", "checkbox", "radio", "image", "img", "table", "navigation", "region") and not node[1]]
        assert nameless == [], (route, nameless)
        assert {"banner", "main", "navigation", "contentinfo", "heading"} <= {node[0] for node in nodes}, nodes
    if size == PHONE:
        small = page.js("[...document.querySelectorAll('button, nav a, label')].filter(one => one.checkVisibility() && one.offsetHeight < 24).map(one => one.innerText)")
        assert small == []


@pytest.mark.slow
def test_five_thousand_types(field, opened, record_property):
    field.insert("p", [{"type": f"type-{number:05}"} for number in range(5000)])
    field.insert("p", [{"type": f"type-{number:05}"} for number in range(0, 5000, 2)])
    page = opened("#/?sort=-queued")
    wait_until(lambda: "of 5,000" in page.text("#types-pages"), lambda: page.text("#totals"), deadline=120)
    took = []
    for _ in range(4):
        wait_updates(page, 1)
        took.append(round(page.js("performance.getEntriesByName('update')[0].duration")))
    print(f"5,000 types: the page's updates took {took} ms")
    record_property("update_ms", took)
    page.wait_text("Nobody serves", "#problems")
    assert "4,998 more" in page.text("#problems") and len(page.texts("#problems li")) == 1  # one sentence for all
    page.js("document.querySelector('#text').focus()")
    page.press("04999")
    assert len(page.texts("#types tbody tr")) == 1
