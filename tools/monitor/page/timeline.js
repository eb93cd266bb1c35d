/*
 * timeline: who held each lock, and when: a lane a type, a bar a hold. Colour, pattern and label stand for the holder; a hatch for a
 * freeze (the lease was over, the lock still held), a mark for a take-over, a dotted box where nobody held it while messages waited.
 *
 * One bar is in the tab order; the arrow keys go from bar to bar. The same is below as a table.
 */

const GAP_MS = 3000; /* a shorter one is a hand-over */
const BAR = { height: 18, gap: 3, letter: 6.4 };
const COLOURS = 8, PATTERNS = 4;

function styleOf(holder) {
  const n = hash(holder);
  return { colour: n % COLOURS, pattern: Math.floor(n / COLOURS) % PATTERNS };
}

/* The patterns, once for the page. */
function makePatterns() {
  const shapes = ["", "M0 6L6 0M-1 1L1 -1M5 7L7 5", "M1.5 3a1.5 1.5 0 1 0 3 0a1.5 1.5 0 1 0 -3 0", "M0 3H6"];
  const pattern = (id, path, className) => svg("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, svg("path", { d: path, class: className }));
  byId("patterns").append(svg("defs", null, ...shapes.slice(1).map((path, i) => pattern(`pattern${i + 1}`, path, i === 1 ? "dots" : "lines")),
    pattern("frozen", "M0 6L6 0M-1 1L1 -1M5 7L7 5M0 0L6 6M-1 5L1 7M5 -1L7 1", "freeze-lines")));
}

function holdText(hold, to) {
  const end = hold.to_ms ?? to;
  const parts = [`${visible(hold.holder)} held it for ${span(end - hold.from_ms)}`,
    hold.to_ms === null ? `from ${clock(hold.from_ms)}, and still does` : `from ${clock(hold.from_ms)} to ${clock(end)}`];
  if (hold.epoch)
    parts.push(`epoch ${number(hold.epoch)}`);
  if (hold.expired_ms)
    parts.push(`frozen: its lease ended ${clock(hold.expired_ms)}, ${span(end - hold.expired_ms)} before ${hold.to_ms === null ? "now" : "the end"}`);
  if (hold.end)
    parts.push({ released: "released", "taken over": "taken over by the next", broken: "gone before its lease was over, without a clean end" }[hold.end] ?? visible(hold.end));
  return parts.join("; ");
}

/* The spans in which two counts in a row found messages. */
function waitsOf(history, to) {
  const points = history?.queued ?? [], waits = [];
  points.forEach((value, i) => {
    const at = (history.to_ms ?? to) - (points.length - 1 - i) * history.step_ms;
    if (!(value > 0) || !(points[i - 1] > 0))
      return;
    if (waits.at(-1)?.to_ms === at - history.step_ms)
      waits.at(-1).to_ms = at;
    else
      waits.push({ from_ms: at - history.step_ms, to_ms: at });
  });
  if (points.at(-1) > 0 && waits.length > 0)
    waits.at(-1).to_ms = to;
  return waits;
}

/* Where nobody held it, and messages waited. */
function gapsOf(holds, from, to, history) {
  const waits = waitsOf(history, to), gaps = [];
  let free = from;
  for (const hold of [...holds, { from_ms: to, to_ms: to }]) {
    for (const wait of waits) {
      const gap = { from_ms: Math.max(free, wait.from_ms), to_ms: Math.min(hold.from_ms, wait.to_ms) };
      if (gap.to_ms - gap.from_ms >= GAP_MS)
        gaps.push(gap);
    }
    free = Math.max(free, hold.to_ms ?? to);
  }
  return gaps;
}

/* Holds that overlap (a lock with slots) lie below each other. */
function lay(holds, to) {
  const ends = [];
  for (const hold of holds) {
    let lane = ends.findIndex(end => end <= hold.from_ms);
    if (lane < 0)
      lane = ends.length < 6 ? ends.length : 5;
    ends[lane] = hold.to_ms ?? to;
    hold.lane = lane;
  }
  return Math.max(1, ends.length);
}

function marksOf(holds, gaps, to) {
  const nth = new Map(), marks = gaps.map(gap => ({ ...gap, gap: true, key: `gap ${gap.from_ms}`, lane: 0,
    label: `Nobody held it from ${clock(gap.from_ms)} to ${clock(gap.to_ms)}, for ${span(gap.to_ms - gap.from_ms)}, while messages waited` }));
  for (const hold of [...holds].reverse()) {
    const same = `${hold.holder} ${hold.epoch}`;
    nth.set(same, (nth.get(same) ?? 0) + 1);
    marks.push({ ...hold, key: `${same} ${nth.get(same)}`, label: holdText(hold, to) });
  }
  return marks.sort((a, b) => a.from_ms - b.from_ms);
}

function makeMark(mark) {
  const group = svg("g", { class: mark.gap ? "gap" : "hold", role: "img", tabindex: -1, "data-tip": "" });
  if (mark.gap)
    return fill(group, null, [svg("rect", { class: "box", rx: 2 }), svg("text", { class: "bar-text", "aria-hidden": "true" }, "nobody")]);
  const style = styleOf(mark.holder);
  group.append(svg("rect", { class: `bar hue${style.colour}`, rx: 2 }));
  if (style.pattern > 0)
    group.append(svg("rect", { class: "overlay", rx: 2, fill: `url(#pattern${style.pattern})` }));
  group.append(svg("rect", { class: "freeze", rx: 2, fill: "url(#frozen)" }), svg("path", { class: "mark" }),
    svg("text", { class: "bar-text", "aria-hidden": "true" }, visible(mark.holder)));
  return group;
}

function place(rect, x, y, width) {
  setAttribute(rect, "x", x.toFixed(1));
  setAttribute(rect, "y", y);
  setAttribute(rect, "width", Math.max(0, width).toFixed(1));
  setAttribute(rect, "height", BAR.height);
}

function drawMark(group, mark, scale) {
  const y = mark.lane * (BAR.height + BAR.gap) + 3, x = scale.x(mark.from_ms), end = scale.x(mark.to_ms ?? scale.to);
  const width = Math.max(end - x, 2);
  setAttribute(group, "aria-label", mark.label);
  for (const rect of group.querySelectorAll(".bar, .overlay, .box"))
    place(rect, x, y, width);
  const text_ = group.querySelector("text"), most = Math.floor((width - 8) / BAR.letter);
  const label = mark.gap ? "nobody" : visible(mark.holder);
  setText(text_, label.length <= most ? label : most >= 4 ? label.slice(0, most - 1) + "…" : "\u200b");
  setAttribute(text_, "x", (x + 4).toFixed(1));
  setAttribute(text_, "y", y + 13);
  if (mark.gap)
    return;
  const frozen = mark.expired_ms ? scale.x(mark.expired_ms) : end;
  place(group.querySelector(".freeze"), frozen, y, mark.expired_ms ? Math.max(2, end - frozen) : 0);
  const over = mark.end === "taken over", broken = mark.end === "broken";
  setAttribute(group.querySelector(".mark"), "d", over ? `M${(end - 4).toFixed(1)} ${y - 3}h8l-4 5zM${end.toFixed(1)} ${y}v${BAR.height}` :
    broken ? `M${(end - 3).toFixed(1)} ${y - 2}l6 6m0 -6l-6 6M${end.toFixed(1)} ${y}v${BAR.height}` : "M0 0");
  setAttribute(group.querySelector(".mark"), "class", `mark${broken ? " cross" : ""}`);
}

function ticksOf(from, to, width) {
  const minutes = (to - from) / 60000, wanted = Math.max(2, width / 90);
  const step = [1, 2, 5, 10, 15, 20, 30].find(one => minutes / one <= wanted) ?? 60;
  const ticks = [];
  for (let t = Math.ceil(from / (step * 60000)) * step * 60000; t <= to; t += step * 60000)
    ticks.push(t);
  return ticks;
}

function drawTicks(layer, ticks, scale, height) {
  keyed(layer, ticks, t => t, () => svg("path", { class: "tick" }), (line, t) => setAttribute(line, "d", `M${scale.x(t).toFixed(1)} 0V${height}`));
}

function drawAxis(image, ticks, scale) {
  setAttribute(image, "width", scale.width);
  keyed(image, ticks, t => t, t => svg("text", { class: "axis-text", y: 12, "text-anchor": "middle" }, minute(t)), (label, t) => {
    const x = scale.x(t);
    setAttribute(label, "x", Math.min(Math.max(x, 16), scale.width - 16).toFixed(1));
  });
}

/* rows: those to draw; data: the answer of api/timeline. */
function makeTimeline(container) {
  const axis = svg("svg", { class: "axis", height: 16, "aria-hidden": "true" }), lanes = el("div", { class: "lanes" });
  const legend = el("p", { class: "legend" }), tableBody = el("tbody"), more = el("details", null, el("summary", null, "The same as a table"));
  const table = el("table", { class: "plain" }, el("caption", { class: "unseen" }, "Holds"), el("thead", null, el("tr", null,
    ...["Type", "Holder", "From", "Until", "Held for", "Epoch", "Lease over", "End"].map(title => el("th", { scope: "col" }, title)))), tableBody);
  const self = { draw: null };
  let last = null;
  more.append(el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Holds as a table" }, table));
  container.append(el("div", { class: "lane axis-lane" }, el("div", { class: "lane-name" }), axis), lanes, legend, more);
  more.addEventListener("toggle", () => last && drawTable());
  new ResizeObserver(() => last && self.draw(...last)).observe(container);
  lanes.addEventListener("keydown", event => walk(event, lanes));
  lanes.addEventListener("focusin", event => event.target.matches("g") && rove(lanes, event.target));

  function drawLane(lane, row, data, scale, ticks) {
    const holds = (data.types[row.type] ?? []).map(hold => ({ ...hold })).sort((a, b) => a.from_ms - b.from_ms);
    const gaps = row.kind === "type" ? gapsOf(holds, data.from_ms, data.to_ms, histories.get(row.type)) : [];
    const height = lay(holds, data.to_ms) * (BAR.height + BAR.gap) + 5, image = lane.lastChild;
    setAttribute(image, "width", scale.width);
    setAttribute(image, "height", height);
    setAttribute(image, "aria-label", `${visible(typeName(row))}: ${plural(holds.length, "hold")}`);
    drawTicks(image.firstChild, ticks, scale, height);
    keyed(image.lastChild, marksOf(holds, gaps, data.to_ms), mark => mark.key, makeMark, (group, mark) => drawMark(group, mark, scale));
    return holds.map(hold => ({ ...hold, row }));
  }

  function drawTable() {
    const [, data] = last, cells = hold => [process_(hold), clock(hold.from_ms), hold.to_ms === null ? "still held" : clock(hold.to_ms),
      span((hold.to_ms ?? data.to_ms) - hold.from_ms), hold.epoch ? number(hold.epoch) : "–", hold.expired_ms ? clock(hold.expired_ms) : "–", hold.end ?? "–"];
    if (!more.open)
      return;
    keyed(tableBody, self.holds, hold => `${keyOfRow(hold.row)} ${hold.holder} ${hold.epoch} ${hold.from_ms}`,
      hold => el("tr", null, el("th", { scope: "row" }, foreign(typeName(hold.row))), ...cells(hold).map(() => el("td"))),
      (line, hold) => cells(hold).forEach((cell, i) => setText(line.children[i + 1], cell)));
  }

  self.draw = (rows, data) => {
    last = [rows, data];
    const width = Math.max(160, Math.floor(axis.parentNode.clientWidth - (axis.previousSibling.offsetWidth || 0)));
    const scale = { width, to: data.to_ms, x: t => Math.min(width, Math.max(0, (t - data.from_ms) / (data.to_ms - data.from_ms) * width)) };
    const ticks = ticksOf(data.from_ms, data.to_ms, width);
    self.holds = [];
    drawAxis(axis, ticks, scale);
    keyed(lanes, rows, keyOfRow, row => el("div", { class: "lane" }, el("div", { class: "lane-name" }, nameElement(row)),
      svg("svg", { class: "lane-image", role: "group" }, svg("g"), svg("g"))), (lane, row) => self.holds.push(...drawLane(lane, row, data, scale, ticks)));
    rove(lanes, lanes.querySelector('g[tabindex="0"]') ?? lanes.querySelector("g[data-tip]"));
    drawLegend(legend, [...new Set(self.holds.map(hold => hold.holder))].sort());
    drawTable();
  };
  return self;
}

const process_ = hold => visible(hold.holder);

function drawLegend(legend, holders) {
  const sample = (className, kind) => svg("svg", { width: 22, height: 12, "aria-hidden": "true" }, ...kind(className));
  const box = className => [svg("rect", { class: className, x: 0.5, y: 0.5, width: 21, height: 11, rx: 2 })];
  const fixed = [["frozen", () => [...box("bar hue7"), svg("rect", { class: "freeze", x: 0.5, y: 0.5, width: 21, height: 11, fill: "url(#frozen)" })], "lease over, still held"],
    ["over", () => [svg("path", { class: "mark", d: "M7 0h8l-4 5zM11 2v10" })], "taken over"],
    ["gap", () => [svg("g", { class: "gap" }, ...box("box"))], "nobody, while messages waited"]];
  const items = [...holders.slice(0, 12).map(holder => [`holder ${holder}`, () => {
    const style = styleOf(holder);
    return [...box(`bar hue${style.colour}`), ...style.pattern ? [svg("rect", { x: 0.5, y: 0.5, width: 21, height: 11, fill: `url(#pattern${style.pattern})` })] : []];
  }, visible(holder)]), ...fixed];
  keyed(legend, items, item => item[0], item => el("span", { class: "legend-item" }, sample("", item[1]), el("bdi", null, item[2])));
}

/* One of the marks takes part in the tab order. */
function rove(lanes, mark) {
  for (const other of lanes.querySelectorAll('g[tabindex="0"]'))
    if (other !== mark)
      other.setAttribute("tabindex", -1);
  mark?.setAttribute("tabindex", 0);
}

function walk(event, lanes) {
  const mark = event.target.closest("g[data-tip]");
  if (!mark || !["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key))
    return;
  const line = [...mark.parentNode.children], at = line.indexOf(mark);
  let next = { ArrowLeft: line[at - 1], ArrowRight: line[at + 1], Home: line[0], End: line.at(-1) }[event.key];
  if (event.key === "ArrowUp" || event.key === "ArrowDown") {
    const all = [...lanes.querySelectorAll("svg.lane-image")].filter(image => image.lastChild.children.length > 0);
    const image = all[all.indexOf(mark.closest("svg")) + (event.key === "ArrowUp" ? -1 : 1)];
    const middle = mark.getBoundingClientRect().right;
    next = image && [...image.lastChild.children].sort((a, b) =>
      Math.abs(a.getBoundingClientRect().right - middle) - Math.abs(b.getBoundingClientRect().right - middle))[0];
  }
  event.preventDefault();
  next?.focus();
}

/* ---- the tip: what a mark says, for the pointer and the focus ---- */

function startTips() {
  const tip = byId("tip");
  const hide = () => setHidden(tip, true);
  const show = event => {
    const mark = event.target.closest?.("g[data-tip]");
    if (!mark)
      return hide();
    setText(tip, mark.getAttribute("aria-label"));
    setHidden(tip, false);
    const box = mark.getBoundingClientRect(), x = event.type === "pointermove" ? event.clientX : Math.max(box.left, 0);
    const left = Math.max(4, Math.min(x, innerWidth - tip.offsetWidth - 4));
    const below = box.bottom + 6 + tip.offsetHeight < innerHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${below ? box.bottom + 6 : box.top - 6 - tip.offsetHeight}px`;
  };
  document.addEventListener("pointermove", show);
  document.addEventListener("focusin", show);
  document.addEventListener("scroll", hide, { passive: true });
  document.addEventListener("keydown", event => event.key === "Escape" && hide());
}
