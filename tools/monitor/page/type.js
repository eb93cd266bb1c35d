/* type: a type's or a lock's own page: what is wrong, its figures, its timeline, its segments and events, the first documents. */

const FIRST_BYTES = 2000; /* so much of a document does the server send */

function section(title, ...children) {
  const id = `section-${title.toLowerCase().replaceAll(/\W+/g, "-")}`;
  return el("section", { class: "part", "aria-labelledby": id }, el("h3", { id }, title), ...children);
}

const figures = [
  ["Queued", row => row.queued === null ? "not counted" : plural(row.queued, "document")],
  ["Oldest", row => row.oldest_ms === null ? "nothing waits" : `${span(row.oldest_ms)}${row.oldest_seen ? " or more, since it was first seen" : ""}`],
  ["In, out", row => `${rate(row.rate_in)}/s, ${rate(row.rate_out)}/s`],
  ["Done in", row => row.backlog_s && row.queued ? `${span(row.backlog_s * 1000)}, at this rate` : "–"],
  ["Holder", row => row.holder ? processLong(row.holder) + (row.holders > 1 ? ` and ${row.holders - 1} more` : "") : "nobody"],
  ["Held for", row => row.holder?.since_ms ? span(row.nowMs - row.holder.since_ms) : "–"],
  ["Lease left", row => leaseText(row)],
  ["Slots", row => row.slots ? `${row.slots.held} of ${row.slots.of} held` : null],
  ["Waiting for the lock", row => row.waiting ? waitersText(row) : "nobody"],
  ["Epoch", row => number(row.epoch)],
  ["Seq", row => row.kind === "lock" ? null : number(row.seq)],
  ["Messages", row => row.kind === "lock" ? null : number(row.messages)],
  ["Committed, not settled", row => row.kind === "lock" ? null : number(Math.max(0, row.seq - row.settled))],
  ["File", row => row.kind === "lock" ? null : row.file ? `${visible(row.file)}, ${bytes(row.length)}` : "none yet"],
  ["Last end", row => row.kind === "lock" || row.holder || !row.epoch ? null : row.clean ? "clean" : "not clean: the last holder crashed or was cut off"],
  ["Own collection", row => row.own ? `${visible(row.own.collection)}${row.own.queued === null || row.queued === null ? "" :
    `: ${number(row.own.queued)} there, ${number(row.queued - row.own.queued)} in messages`}` : null],
  ["Moved", row => row.moved ? `to ${visible(row.moved.to)}, by ${visible(row.moved.by)}, on ${moment(row.moved.at_ms)}` : null],
  ["Paused", row => row.paused ? `by ${visible(row.paused.by)}, since ${moment(row.paused.at_ms)}: ${visible(row.paused.reason)}` : null],
];

function drawFigures(list, row) {
  const shown = figures.map(([name, of]) => ({ name, value: of(row) })).filter(one => one.value !== null);
  keyed(list, shown, one => one.name, one => el("div", null, el("dt", null, one.name), el("dd", null, el("span"))),
    (item, one) => setText(item.lastChild.firstChild, one.value));
}

function drawSegments(body, segments) {
  keyed(body, segments, one => `${one.file} ${one.epoch}`, one => el("tr", null, el("th", { scope: "row" }, foreign(one.file)),
    el("td", { class: "num" }, number(one.epoch)), el("td", { class: "num" }, el("span")), el("td", null, one.since_ms ? moment(one.since_ms) : "–")),
    (line, one) => setText(line.children[2].firstChild, bytes(one.length)));
}

function drawEvents(list, events) {
  keyed(list, events, one => `${one.at_ms} ${one.text}`, one => el("li", { class: one.level },
    el("time", { datetime: new Date(one.at_ms).toISOString() }, moment(one.at_ms)), " ",
    el("span", { class: `badge ${{ warn: "warning", error: "critical" }[one.level] ?? "plain"}` }, one.level), " ", foreign(one.text)));
}

function drawFirst(list, first) {
  keyed(list, first, one => `${one._id} ${one.json}`, one => el("li", null,
    el("p", null, "_id ", el("code", null, foreign(one._id)), `, ${bytes(one.bytes)}`, one.bytes > FIRST_BYTES ? ", the begin of it:" : ""),
    el("pre", { tabindex: 0, role: "region", "aria-label": "document" }, one.json === "" ? "(too large, or cannot be shown)" : foreign(one.json, "\n\t"))));
}

/* Says what a list has none of. */
function showNone(element, none, what) {
  setText(element, none ? what : "\u200b");
  setHidden(element, !none);
}

const backTexts = { "#/timeline": "Timeline", "#/locks": "Locks" };

/* Makes the page of one name. `article` is emptied. back: the address of the list that the reader came from. */
function makeTypePage(article, name, back) {
  const title = el("h2", { id: "type-title", tabindex: -1 }, foreign(name)), state = el("p", { class: "type-state" }), error = el("p", { class: "alert", hidden: true });
  const problems = el("ol", { class: "problems" }), list = el("dl", { class: "figures" });
  const queued = chart("Queued"), rates = chart("Documents a second"), lane = el("div");
  const minutes = el("div"), segments = el("tbody"), events = el("ol", { class: "events" }), first = el("ol", { class: "first" });
  const none = { segments: el("p", { class: "none" }), events: el("p", { class: "none" }), first: el("p", { class: "none" }) };
  const segmentTable = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Segments" }, el("table", { class: "plain", "aria-label": "Segments" },
    el("thead", null, el("tr", null, el("th", { scope: "col" }, "File"), el("th", { scope: "col", class: "num" }, "Epoch"),
      el("th", { scope: "col", class: "num" }, "Length"), el("th", { scope: "col" }, "Since"))), segments));
  const files = section("Segments", segmentTable, none.segments), queue = section("First in the queue", first, none.first), charts = el("div", { class: "charts" }, queued, rates);
  const known = el("div", { hidden: true }, problems, list, charts, section("Who held the lock", minutes, lane),
    el("div", { class: "columns" }, section("Events", events, none.events), files), queue);
  article.replaceChildren(el("p", { class: "back" }, el("a", { href: back, id: "back" }, backTexts[back.split("?")[0]] ?? "All types")),
    el("div", { class: "type-head" }, title, state), error, known);
  const timeline = makeTimeline(lane), self = { name, row: null, minutes };

  self.draw = (answer, row) => {
    self.row = row;
    const lock = row.kind === "lock";
    setHidden(known, false);
    showState(state, row);
    drawProblems(problems, row.found.map(spoken));
    drawFigures(list, row);
    for (const part of [charts, files, queue])
      setHidden(part, lock);
    drawSegments(segments, answer.segments ?? []);
    setHidden(segmentTable, !answer.segments?.length);
    showNone(none.segments, !answer.segments?.length, "No file has been seen yet.");
    drawEvents(events, answer.events ?? []);
    showNone(none.events, !answer.events?.length, "Nothing has happened since the monitor began.");
    drawFirst(first, answer.first ?? []);
    showNone(none.first, !answer.first?.length, answer.first ? "Nothing waits." : "They could not be read.");
  };
  self.drawHistory = history => {
    const step = history.step_ms;
    queued.draw([{ name: "queued", className: "s-queued", area: true, points: history.queued ?? [] }], step, value => value === null ? "?" : short(value));
    rates.draw([{ name: "in", className: "s-in", points: history.rate_in ?? [] }, { name: "out", className: "s-out", points: history.rate_out ?? [] }], step, rate);
  };
  self.drawTimeline = data => self.row && timeline.draw([self.row], data);
  self.fail = message => {
    setText(error, message ? visible(message) : "\u200b");
    setHidden(error, !message);
  };
  return self;
}
