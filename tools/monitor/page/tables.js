/* tables: the columns of the two tables, and the cells that they and a type's page share. */

const stateClass = ["well", "notice", "warning", "critical"];

function keyOfRow(row) {
  return row.key ??= `${row.kind} ${row.type}`;
}

function hrefOf(row) {
  return row.kind === "untyped" ? null : `#/type/${encodeURIComponent(row.type)}`;
}

function nameElement(row) {
  const href = hrefOf(row);
  return href ? el("a", { href }, foreign(typeName(row))) : foreign(typeName(row));
}

function stateWord(row) {
  return row.found.length > 0 ? row.found[0].word : calmWord(row);
}

function showState(cell, row) {
  const badge = cell.firstChild ?? cell.appendChild(el("span"));
  setAttribute(badge, "class", `state ${row.level === WELL && row.holder ? "busy" : stateClass[row.level]}`);
  setText(badge, stateWord(row) + (row.found.length > 1 ? ` +${row.found.length - 1}` : ""));
}

function showType(cell, row) {
  setOnce(cell, row.type, () => nameElement(row));
  /* On a narrow screen the first cell says what the hidden columns do. */
  const below = cell.below ?? (cell.below = cell.appendChild(el("span", { class: "below" }, el("span"), el("span", { class: "by" }))));
  showState(below.firstChild, row);
  setText(below.lastChild, row.holder ? holderText(row) : "");
}

function holderText(row) {
  return !row.holder ? "–" : process(row.holder) + (row.holders > 1 ? ` +${row.holders - 1}` : "");
}

function leaseText(row) {
  return !row.holder || row.lease_left_ms === null ? "–" : row.lease_left_ms <= 0 ? "expired" : span(row.lease_left_ms);
}

function oldestText(row) {
  return row.oldest_ms === null ? "–" : (row.oldest_seen ? "≥ " : "") + span(row.oldest_ms);
}

function queuedText(row) {
  return row.queued === null ? "?" : short(row.queued);
}

function showHolder(cell, row) {
  setOnce(cell, holderText(row), () => row.holder ? el("bdi", { title: processLong(row.holder) }, holderText(row)) : "–");
}

function text(of) {
  return (cell, row) => setText(cell, of(row));
}

/* The history of the rows that are shown; filled by main. */
const histories = new Map();

function showSpark(cell, row) {
  if (!cell.firstChild)
    cell.append(sparkline());
  sparkDraw(cell.firstChild, histories.get(row.type)?.queued ?? [], "queued");
}

const typeColumns = [
  { key: "type", title: "Type", className: "c-type", sort: row => typeName(row), show: showType },
  { key: "state", title: "State", className: "c-state", down: true, sort: row => row.level, show: showState, help: "The most urgent first",
    then: (a, b) => a.level > 0 ? (b.oldest_ms ?? 0) - (a.oldest_ms ?? 0) : 0 },
  { key: "queued", title: "Queued", className: "c-queued num", down: true, sort: row => row.queued, show: text(queuedText), help: "Documents that wait in the queue" },
  { key: "oldest", title: "Oldest", className: "c-oldest num", down: true, sort: row => row.oldest_ms, show: text(oldestText), help: "How long the oldest has waited" },
  { key: "spark", title: "Last 15 min", className: "c-spark", down: true, sort: row => row.queued, show: showSpark, help: "How much was queued; sorts by what is queued now" },
  { key: "in", title: "In/s", className: "c-in num", down: true, sort: row => row.rate_in, show: text(row => rate(row.rate_in)), help: "Documents that come in, a second" },
  { key: "out", title: "Out/s", className: "c-out num", down: true, sort: row => row.rate_out, show: text(row => rate(row.rate_out)), help: "Documents that are written, a second" },
  { key: "backlog", title: "Done in", className: "c-backlog num", down: true, sort: row => row.backlog_s, help: "What waits, at the present rate",
    show: text(row => row.backlog_s === null || row.backlog_s === undefined || !row.queued ? "–" : span(row.backlog_s * 1000)) },
  { key: "holder", title: "Holder", className: "c-holder", sort: row => row.holder ? process(row.holder) : null, show: showHolder },
  { key: "waiting", title: "Standby", className: "c-waiting num", down: true, sort: row => row.waiting, help: "Processes that wait for the lock",
    show: text(row => row.waiting ? number(row.waiting) : "–") },
  { key: "lease", title: "Lease", className: "c-lease num", sort: row => row.holder ? row.lease_left_ms : null, show: text(leaseText), help: "Left of it; renewed each third" },
  { key: "epoch", title: "Epoch", className: "c-epoch num", down: true, sort: row => row.epoch, show: text(row => number(row.epoch)), help: "Rises with each take-over" },
  { key: "file", title: "File", className: "c-file", sort: row => row.file, show: (cell, row) => setOnce(cell, row.file, () => row.file ? foreign(row.file) : "–") },
];

function waitersText(row) {
  const names = (row.waiters ?? []).map(process);
  const more = row.waiting - names.length;
  return names.length === 0 ? row.waiting > 0 ? plural(row.waiting, "process", "processes") : "–" :
    names.join(", ") + (more > 0 ? ` and ${number(more)} more` : "");
}

const lockColumns = [
  { key: "type", title: "Lock", className: "c-type", sort: row => typeName(row), show: showType },
  { key: "state", title: "State", className: "c-state", down: true, sort: row => row.level * 2 + (row.holder ? 1 : 0), show: showState },
  { key: "holder", title: "Holder", className: "c-holder", sort: row => row.holder ? process(row.holder) : null, show: showHolder },
  { key: "since", title: "For", className: "c-since num", down: true, help: "How long the monitor has seen it there",
    sort: row => row.holder?.since_ms ? -row.holder.since_ms : null, show: text(row => row.holder?.since_ms ? span(row.nowMs - row.holder.since_ms) : "–") },
  { key: "slots", title: "Slots", className: "c-slots num", down: true, sort: row => row.slots?.held ?? row.holders,
    show: text(row => row.slots ? `${row.slots.held} of ${row.slots.of}` : row.holders > 1 ? String(row.holders) : "–"), help: "Held, of how many" },
  { key: "lease", title: "Lease", className: "c-lease num", sort: row => row.holder ? row.lease_left_ms : null, show: text(leaseText) },
  { key: "waiting", title: "Waiting", className: "c-queued num", down: true, sort: row => row.waiting, show: text(row => number(row.waiting)) },
  { key: "waiters", title: "Who waits", className: "c-file", sort: row => waitersText(row), show: (cell, row) => setOnce(cell, waitersText(row), () => el("bdi", null, waitersText(row))) },
  { key: "epoch", title: "Epoch", className: "c-epoch num", down: true, sort: row => row.epoch, show: text(row => number(row.epoch)), help: "The fencing token of the last holder" },
];
