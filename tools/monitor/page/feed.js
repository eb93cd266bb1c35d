/*
 * feed: asks pawl-monitor, again and again. One request of a kind at a time.
 *
 * A new answer every 2 s; less often where an answer takes long, so that the page takes at most a fifth of the time. Nothing is
 * asked while the tab is hidden or the reader has paused it.
 */

const PERIOD_MS = 2000;
const ANSWER_MS = 15000;

const feed = {
  state: null,       /* the last answer of api/types */
  at: 0,             /* when it came, by performance.now() */
  error: null,       /* why there is no newer one */
  paused: false,
  busyMs: 0,         /* what the last update took, with its drawing */
  age() {
    return performance.now() - this.at;
  },
};

let timer = 0, asking = false, onAnswer = null;

/* The answer as an object; throws an Error with a text for people. */
async function ask(path, parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of parameters ?? [])
    query.append(name, value);
  const text = query.toString();
  let answer;
  try {
    answer = await fetch(`api/${path}${text ? "?" + text.replaceAll("+", "%20") : ""}`, { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS) });
  } catch (error) {
    throw new Error(error.name === "TimeoutError" ? `No answer within ${ANSWER_MS / 1000} s.` : "The connection failed.");
  }
  if (!answer.ok)
    throw new Error(`It answers ${answer.status}: ${(await answer.text().catch(() => "")).trim().slice(0, 300)}`);
  const body = await answer.json().catch(() => null);
  if (body === null)
    throw new Error("It answers something else than JSON.");
  return body;
}

function schedule(ms) {
  clearTimeout(timer);
  if (!feed.paused && !document.hidden)
    timer = setTimeout(turn, ms);
}

async function turn() {
  if (asking)
    return;
  asking = true;
  const begin = performance.now();
  try {
    feed.state = await ask("types");
    feed.at = performance.now();
    feed.error = null;
  } catch (error) {
    feed.error = error.message;
  }
  try {
    onAnswer();
  } finally {
    asking = false;
    feed.busyMs = performance.now() - begin;
    schedule(Math.max(PERIOD_MS - feed.busyMs, 4 * feed.busyMs));
  }
}

/* Begins; `then` is called after each answer, and after each failure. */
function feedStart(then) {
  onAnswer = then;
  document.addEventListener("visibilitychange", () => document.hidden ? clearTimeout(timer) : schedule(0));
  turn();
}

function feedPause(paused) {
  feed.paused = paused;
  paused ? clearTimeout(timer) : schedule(0);
}

/* Names in requests of at most 100 types, and of an address that any server takes. */
function portions(names) {
  const out = [];
  let length = Infinity;
  for (const name of names) {
    const more = encodeURIComponent(name).length + 6;
    if (length + more > 4000 || out.at(-1).length === 100) {
      out.push([]);
      length = 0;
    }
    out.at(-1).push(name);
    length += more;
  }
  return out;
}

/* api/history or api/timeline of these types; `more`: further parameters. */
async function askOf(path, names, more) {
  const whole = { types: {} };
  for (const portion of portions(names)) {
    const answer = await ask(path, [...portion.map(name => ["type", name]), ...more ?? []]);
    whole.types = { ...whole.types, ...answer.types };
    for (const key of Object.keys(answer))
      if (key !== "types")
        whole[key] = answer[key];
  }
  return whole;
}
