/* text: numbers, times, and names that others chose, in words. Pure. */

const integer = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

function number(n) {
  return integer.format(n);
}

/* For a column: 99,999, then 100K. */
function short(n) {
  return n < 100000 ? integer.format(n) : compact.format(n);
}

/* "1 message", "2 messages"; the verb follows: "1 message waits", "2 messages wait". */
function plural(n, one, more) {
  return `${number(n)} ${n === 1 ? one : more ?? one + "s"}`;
}

function rate(r) {
  if (r === null || r === undefined)
    return "–";
  return r === 0 ? "0" : r < 0.1 ? "<0.1" : r < 10 ? r.toFixed(1) : short(r);
}

/* A span of time, by its two largest units. */
function span(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 1)
    return "<1 s";
  if (s < 120)
    return `${s} s`;
  if (s < 7200)
    return `${Math.floor(s / 60)} min`;
  const hours = Math.floor(s / 3600);
  if (hours < 48)
    return hours < 10 ? `${hours} h ${Math.floor(s / 60) % 60} min` : `${hours} h`;
  return `${number(Math.floor(hours / 24))} d ${hours % 24} h`;
}

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  for (; n >= 1024 && unit < units.length - 1; unit++)
    n /= 1024;
  return `${unit === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[unit]}`;
}

const clockParts = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minuteParts = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

/* In the reader's own time zone. */
function clock(ms) {
  return clockParts.format(ms);
}

function minute(ms) {
  return minuteParts.format(ms);
}

const dayParts = new Intl.DateTimeFormat("en-CA", { year: "numeric", month: "2-digit", day: "2-digit" });

/* With the day, where it is not today's. */
function moment(ms) {
  const day = dayParts.format(ms);
  return day === dayParts.format(Date.now()) ? clock(ms) : `${day} ${clock(ms)}`;
}

/* What cannot be seen, or changes the order of what is beside it: controls, formats (direction overrides, zero width), odd blanks,
 * private and unassigned characters, halves of surrogate pairs. */
const unseen = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}\p{Cs}\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u115f\u1160\u3164\uffa0\u2800\ufe00-\ufe0f]/u;
const unseenSplit = new RegExp(`(${unseen.source})`, "u");

function code(character) {
  return `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/* In pieces: [text, escaped, text, …]; the odd ones stand for one character each. `keep`: characters that are harmless here. */
function pieces(text, keep = "") {
  return String(text).split(unseenSplit).map((piece, i) => i % 2 === 0 || keep.includes(piece) ? piece : `‹${code(piece)}›`);
}

/* The same as one string, for a label. */
function visible(text) {
  return pieces(text ?? "").join("");
}

/* Its program is "pawl-worker 0.1.0". */
function isWorker(one) {
  return !one.program || /^pawl-worker\b/.test(one.program);
}

/* A holder or waiter, from the API's object: NAME@HOST:PID, as pawl-status and the timeline show it. */
function process(one) {
  const host = one.host || "?";
  return visible(`${one.name && one.name !== host ? `${one.name}@` : ""}${host}:${one.pid}`);
}

/* Anything but a worker says what it is. */
function processLong(one) {
  return process(one) + (isWorker(one) ? "" : `, ${visible(one.program)}`);
}

function typeName(row) {
  return row.type === null || row.kind === "untyped" ? "(untyped)" : row.type;
}

/* A small number that is always the same for a text (FNV-1a). */
function hash(text) {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++)
    h = Math.imul(h ^ text.charCodeAt(i), 0x01000193) >>> 0;
  return (h ^ (h >>> 15)) >>> 0;
}
