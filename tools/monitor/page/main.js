/* main: the views, what the reader has chosen, and one update after the other. */

const view = { name: "types", type: null, filter: "", only: false, minutes: 15 };
let rows = [], types = [], locks = [], whole = [], typePage = null;
let historyAt = -Infinity, historyOf = "", timelineOf = "";

const typeTable = makeTable(byId("types"), byId("types-pages"), "Types: what waits, how old it is, who holds it", typeColumns, keyOfRow, () => chosen());
const lockTable = makeTable(byId("locks"), byId("locks-pages"), "Locks: who holds them, who waits", lockColumns, keyOfRow, () => chosen());
const minutesChoice = byId("minutes"); /* stands above the timeline that is shown */
const timeline = makeTimeline(byId("timeline"));
Object.assign(typeTable, { sort: "state", down: true });
Object.assign(lockTable, { sort: "state", down: true });

/* ---- what the address says ---- */

const viewNames = ["types", "timeline", "locks"];

function currentTable() {
  return view.name === "locks" ? lockTable : typeTable;
}

/* The reader's choices are in the address, so that it can be sent and the way back finds them. */
function address() {
  const table = currentTable(), query = new URLSearchParams();
  if (view.filter)
    query.set("filter", view.filter);
  if (view.only)
    query.set("only", "problems");
  if (table.sort !== "state" || !table.down)
    query.set("sort", (table.down ? "-" : "") + table.sort);
  if (view.minutes !== 15)
    query.set("minutes", view.minutes);
  const path = view.name === "type" ? `type/${encodeURIComponent(view.type)}` : view.name === "types" ? "" : view.name;
  const text = query.toString();
  return `#/${path}${text && view.name !== "type" ? "?" + text : ""}`;
}

function readAddress() {
  const [path, query] = location.hash.startsWith("#/") ? location.hash.slice(2).split("?") : [""];
  let name = path || "types", type = null;
  if (path.startsWith("type/")) {
    name = "type";
    try {
      type = decodeURIComponent(path.slice(5));
    } catch {
      name = "types";
    }
  }
  Object.assign(view, { name: name === "type" || viewNames.includes(name) ? name : "types", type });
  if (query !== undefined) {
    const said = new URLSearchParams(query), sort = said.get("sort") ?? "-state", table = currentTable();
    Object.assign(view, { filter: said.get("filter") ?? "", only: said.get("only") === "problems" });
    Object.assign(table, { sort: sort.replace(/^-/, ""), down: sort.startsWith("-") });
    if (["5", "15", "60"].includes(said.get("minutes")))
      view.minutes = Number(said.get("minutes"));
  }
}

/* The reader has chosen something in a view. */
function chosen() {
  history.replaceState(history.state, "", address());
  here = location.hash;
  drawView();
  refresh();
}

/* ---- from view to view ---- */

const places = new Map(); /* address: where the reader was on it */
let here = null, listAddress = "#/";

/* The links of the view that is shown to one address; a type may be named in the summary and in the table. */
function linksTo(href) {
  return [...byId("main").querySelectorAll("a[href]")].filter(one => one.getAttribute("href") === href && one.offsetParent);
}

function leave(link) {
  const href = link.getAttribute("href");
  places.set(here, { y: scrollY, href, nth: linksTo(href).indexOf(link) });
}

function enter(first) {
  const back = places.get(location.hash), before = here;
  if (here !== null && view.name !== "type")
    listAddress = here || "#/";
  readAddress();
  history.replaceState(history.state, "", address());
  here = location.hash;
  showView();
  drawView();
  refresh();
  if (first || before === here)
    return;
  const links = back ? linksTo(back.href) : [];
  (links[back?.nth] ?? links[0] ?? byId(`${view.name}-title`)).focus({ preventScroll: true });
  scrollTo(0, back?.y ?? 0);
}

/* A type's page has its own problems; those of the whole database count there, too. */
function showSummary() {
  setHidden(byId("summary"), view.name === "type" && whole.length === 0);
}

function showView() {
  for (const name of [...viewNames, "type"])
    setHidden(byId(`view-${name}`), view.name !== name);
  for (const name of viewNames)
    setAttribute(byId(`to-${name}`), "aria-current", view.name === name || (name === "types" && view.name === "type") ? "page" : null);
  showSummary();
  setHidden(byId("filter"), view.name === "type");
  setHidden(byId("type-pager"), view.name !== "types" && view.name !== "timeline");
  setHidden(minutesChoice, view.name !== "timeline" && view.name !== "type");
  byId("text").value = view.filter;
  byId("only").checked = view.only;
  minutesChoice.querySelector(`[value="${view.minutes}"]`).checked = true;
  if (view.name !== "type")
    typePage = null;
  else if (typePage?.name !== view.type)
    typePage = makeTypePage(byId("view-type"), view.type, listAddress);
  (typePage?.minutes ?? byId("filter")).append(minutesChoice);
}

/* ---- one update ---- */

function digest() {
  const nowMs = feed.state.now_ms;
  rows = feed.state.types;
  if (memory.size > 2 * rows.length + 1000)
    memory.clear();
  for (const row of rows) {
    row.nowMs = nowMs;
    row.found = judge(row, nowMs);
    row.level = row.found.length > 0 ? row.found[0].level : WELL;
  }
  types = rows.filter(row => row.kind !== "lock");
  locks = rows.filter(row => row.kind === "lock");
}

function matches(row) {
  if (view.only && row.level === WELL)
    return false;
  const wanted = view.filter.trim().toLowerCase();
  return wanted === "" || [typeName(row), row.holder ? processLong(row.holder) : "", row.file ?? "", stateWord(row), waitersText(row)]
    .some(one => one.toLowerCase().includes(wanted));
}

const emptyText = kind => view.filter || view.only ? `No ${kind} is as the filter says.` : feed.state ? `There is no ${kind} in this database yet.` : "Loading";

function drawView() {
  const found = (view.name === "locks" ? locks : types).filter(matches), all = view.name === "locks" ? locks : types;
  if (view.name === "types" || view.name === "timeline")
    typeTable.draw(found, emptyText("type"));
  else if (view.name === "locks")
    lockTable.draw(found, emptyText("lock"));
  setText(byId("found"), view.filter || view.only ? `${number(found.length)} of ${number(all.length)}` : "\u200b");
}

let updates = 0;

function drawAll() {
  performance.mark("update-begin");
  whole = judgeWhole(feed);
  showSummary();
  const judged = rows.map(row => row.found).filter(list => list.length > 0);
  const wrong = [...whole, ...judged.flat()].filter(one => one.level >= WARNING).length;
  drawSummary(summarise(judged, whole), wrong, types, locks, () => {
    view.only = true;
    location.hash = "#/?only=problems";
  });
  if (feed.state) {
    setText(byId("where"), `${visible(feed.state.database)} on ${visible(feed.state.server)}`);
    setText(byId("count-types"), number(types.length));
    setText(byId("count-locks"), number(locks.length));
    setText(byId("version"), `pawl-monitor ${visible(feed.state.version)}`);
  }
  drawView();
  drawFresh();
  performance.clearMeasures("update"); /* the last one is enough, a page may be open for weeks */
  performance.measure("update", "update-begin");
  performance.clearMarks("update-begin");
  byId("main").dataset.updates = ++updates;
}

function drawFresh() {
  const age = feed.age(), old = feed.state && !feed.state.answers ? feed.state.read_ms : 0;
  const words = !feed.state ? feed.error ? "no answer" : "loading" : feed.paused ? `paused, ${span(age + old)} old` : feed.error ? `no answer, ${span(age + old)} old` :
    old ? `MongoDB away, ${span(age + old)} old` : age < 1000 ? "updated just now" : `updated ${span(age)} ago`;
  setText(byId("fresh"), words);
  setAttribute(byId("fresh"), "class", feed.error || old || feed.paused ? "late" : "");
}

/* ---- what single views ask for ---- */

const asked = rows_ => rows_.filter(row => row.kind === "type" || row.kind === "lock").map(row => row.type);

const HISTORY_POINTS = 90; /* of ten seconds each: a quarter of an hour */

async function refreshHistory(names) {
  const key = names.join("\n");
  if (names.length === 0 || (key === historyOf && performance.now() - historyAt < 10000))
    return;
  historyOf = key;
  historyAt = performance.now();
  const answer = await askOf("history", names), whole_ = Array(HISTORY_POINTS).fill(null);
  const series = points => [...whole_, ...points ?? []].slice(-HISTORY_POINTS);
  for (const name of names) {
    const one = answer.types[name];
    histories.set(name, { queued: series(one?.queued), rate_in: series(one?.rate_in), rate_out: series(one?.rate_out),
      step_ms: answer.step_ms, to_ms: feed.state.now_ms });
  }
}

async function refreshTimeline(table) {
  const shown = typeTable.shown, names = asked(shown);
  if (names.length === 0)
    return;
  const data = await askOf("timeline", names, [["minutes", view.minutes]]);
  if (view.name === "timeline")
    timeline.draw(shown.filter(row => row.kind === "type"), data);
}

async function refreshType(page) {
  if (!rows.some(row => row.type === page.name))
    return page.fail("There is nothing of this name in the database now.");
  try {
    const answer = await ask("type", [["type", page.name]]);
    answer.row.nowMs = feed.state.now_ms;
    answer.row.found = judge(answer.row, feed.state.now_ms);
    answer.row.level = answer.row.found.length > 0 ? answer.row.found[0].level : WELL;
    if (typePage !== page)
      return;
    page.draw(answer, answer.row);
    if (answer.row.kind === "type" || answer.row.kind === "lock") {
      await refreshHistory([page.name]);
      page.drawHistory(histories.get(page.name) ?? { step_ms: 10000 });
      page.drawTimeline(await askOf("timeline", [page.name], [["minutes", view.minutes]]));
    }
    page.fail(null);
  } catch (error) {
    page.fail(error.message);
  }
}

let refreshing = false, again = false;

/* One at a time; a choice made meanwhile begins another. */
async function refresh() {
  again = refreshing;
  if (refreshing || !feed.state || feed.error)
    return;
  refreshing = true;
  try {
    if (view.name === "type")
      await refreshType(typePage);
    else if (view.name !== "locks") {
      await refreshHistory(asked(typeTable.shown));
      typeTable.drawCells(["spark"]);
      if (view.name === "timeline")
        await refreshTimeline();
    }
  } catch {
    historyAt = -Infinity; /* the next answer of api/types says what is wrong */
  } finally {
    refreshing = false;
  }
  if (again)
    await refresh();
}

/* ---- the reader ---- */

byId("skip").addEventListener("click", event => {
  event.preventDefault();
  byId("main").focus();
});
byId("pause").addEventListener("click", () => {
  feedPause(!feed.paused);
  setText(byId("pause"), feed.paused ? "Resume" : "Pause");
  drawFresh();
});
byId("filter").addEventListener("submit", event => event.preventDefault());
byId("text").addEventListener("input", () => {
  view.filter = byId("text").value;
  currentTable().page = 0;
  chosen();
});
byId("only").addEventListener("change", () => {
  view.only = byId("only").checked;
  currentTable().page = 0;
  chosen();
});
minutesChoice.addEventListener("change", event => {
  view.minutes = Number(event.target.value);
  chosen();
});
addEventListener("click", event => {
  const link = event.target.closest?.("a[href^='#/']");
  if (link)
    leave(link);
}, true);
addEventListener("hashchange", () => enter(false));

makePatterns();
startTips();
history.scrollRestoration = "manual";
enter(true);
setInterval(() => document.hidden || drawFresh(), 1000);
feedStart(() => {
  if (feed.state && !feed.error)
    digest();
  drawAll();
  refresh(); /* takes its own time */
});
