/*
 * judge: what is wrong with a type or a lock, in words, and how urgent it is. Pure, but for `memory`, which says since when.
 *
 * A sentence is a list of texts; an object {row} in it stands for the type's name. Of a row's problem it is a function, since of thousands
 * few are shown.
 */

const CRITICAL = 3, WARNING = 2, NOTICE = 1, WELL = 0;
const levelWords = ["well", "notice", "warning", "critical"];

const PATIENCE_MS = 5000;      /* a worker takes an idle type within a poll; longer is nobody */
const STILL_MS = 15000;        /* a holder that has written nothing for so long, with messages waiting, is stuck */
const BEHIND_MS = 5 * 60000;   /* as the alert PawlQueueOld */

/* What one answer cannot say: since when a row has been as it is. Per type: {seq, seqAt, unheldAt, expiredAt, nowMs}. */
const memory = new Map();

function remember(row, nowMs) {
  let known = memory.get(keyOfRow(row));
  if (!known)
    memory.set(keyOfRow(row), known = { seq: row.seq, seqAt: nowMs, unheldAt: null, expiredAt: null });
  if (known.seq !== row.seq || !(row.queued > 0))
    Object.assign(known, { seq: row.seq, seqAt: nowMs });
  const waits = row.queued > 0 || row.oldest_ms !== null;
  known.unheldAt = waits && !row.holder ? known.unheldAt ?? nowMs : null;
  known.expiredAt = row.holder && row.lease_left_ms !== null && row.lease_left_ms <= 0 ? known.expiredAt ?? nowMs + row.lease_left_ms : null;
  known.nowMs = nowMs;
  return known;
}

/* "1,204 messages wait, the oldest for 12 min" */
function waiting(queued, oldestMs, seen) {
  const many = queued === null ? "messages wait" : queued === 1 ? "1 message waits" : `${number(queued)} messages wait`;
  if (oldestMs === null)
    return many;
  return `${many}${queued === 1 ? "" : ", the oldest"} for ${seen ? "at least " : ""}${span(oldestMs)}`;
}

function problem(kind, level, word, row, sentence, advice) {
  return { kind, level, word, row, sentence, advice, id: `${kind} ${keyOfRow(row)}`, oldest: row.oldest_ms ?? 0 };
}

const standing = row => row.waiting > 0 ? ` ${plural(row.waiting, "process waits", "processes wait")} for the lock.` : "";

function judgeUnheld(row, known) {
  const age = Math.max(row.oldest_ms ?? 0, known.nowMs - known.unheldAt);
  if (age < PATIENCE_MS)
    return null;
  const wait = () => waiting(row.queued, row.oldest_ms ?? age, row.oldest_seen || row.oldest_ms === null);
  if (row.waiting > 0)
    return problem("untaken", CRITICAL, "nobody takes it", row,
      () => [`${plural(row.waiting, "process waits", "processes wait")} for the lock of `, { row }, `, and none has it: ${wait()}.`],
      "Read the logs of the processes that wait.");
  return problem("unserved", CRITICAL, "not served", row, () => ["Nobody serves ", { row }, `: ${wait()}.`],
    "Start a worker. If one runs, its log says why not.");
}

function judgeHeld(row, known) {
  const waits = row.queued > 0 || row.oldest_ms !== null;
  if (row.lease_left_ms > 0 && (!waits || row.kind === "lock"))
    return null;
  const holder = process(row.holder), wait = waiting(row.queued, row.oldest_ms, row.oldest_seen);
  if (row.lease_left_ms !== null && row.lease_left_ms <= 0) {
    const ago = span(known.nowMs - known.expiredAt);
    if (!waits && row.waiting === 0)
      return problem("left", NOTICE, "lease expired", row,
        () => [`${holder} left the lock of `, { row }, ` behind: its lease ended ${ago} ago, and nothing waits.`],
        "Nothing to do: the next worker removes it.");
    return problem("frozen", CRITICAL, "holder frozen", row,
      () => ["The holder of ", { row }, `, ${holder}, is frozen, dead or cut off: its lease ended ${ago} ago.${waits ? ` ${wait}.` : ""}${standing(row)}`],
      row.kind === "lock" ? "Look at that process and its machine." : "Look at its machine. Another worker would take over.");
  }
  if (!waits || row.kind === "lock")
    return null;
  if (!isWorker(row.holder))
    return row.oldest_ms > PATIENCE_MS ? problem("withheld", WARNING, "held by a tool", row,
      () => [`${holder} (${visible(row.holder.program)}) holds `, { row }, `, which keeps the workers out: ${wait}.`], "It goes on when that tool ends.") : null;
  const still = Math.max(known.nowMs - known.seqAt, row.rate_out === 0 ? row.oldest_ms ?? 0 : 0);
  if (row.rate_out !== null && row.rate_out > 0 ? false : (row.oldest_ms ?? still) >= STILL_MS && still >= STILL_MS)
    return problem("stuck", CRITICAL, "writes nothing", row,
      () => ["The holder of ", { row }, `, ${holder}, writes nothing: ${wait}.`],
      "Is its disk full? Read its log: no-space, disk, stall.");
  if (row.oldest_ms >= BEHIND_MS)
    return problem("behind", WARNING, "behind", row,
      () => ["The worker of ", { row }, ` is behind: ${wait}${row.rate_in > row.rate_out ? ", and more come in than go out" :
        row.backlog_s > 0 ? `; at this rate done in ${span(row.backlog_s * 1000)}` : ""}.`],
      "Bundles, a faster disk, or more types help.");
  return null;
}

/* All that is wrong with a row, the worst first. */
function judge(row, nowMs) {
  const known = remember(row, nowMs), found = [];
  const takeable = row.kind === "type" || row.kind === "lock";
  if (row.problem && takeable)
    found.push(problem("broken", CRITICAL, "cannot be used", row, () => ["No worker can use the ledger or the lock of ", { row }, `: ${visible(row.problem)}`],
      ""));
  if (!takeable) {
    if (row.queued !== 0)
      found.push(problem(row.kind, WARNING, "cannot be taken", row, () => row.kind === "untyped" ?
        [`No worker can take ${row.queued === null ? "some documents" : plural(row.queued, "document")}: ${row.queued === 1 ? "its" : "their"} type is not a string.`] :
        [`No worker can take ${row.queued === null ? "the documents" : plural(row.queued, "document")} of type `, { row }, ": this is not a valid type."],
        "Find the producer; pawl-setup --set-aside."));
    return found;
  }
  const waits = row.queued > 0 || row.oldest_ms !== null;
  if (row.paused)
    found.push(problem("paused", NOTICE, "paused", row,
      () => [{ row }, ` is paused by ${visible(row.paused.by)} since ${span(nowMs - row.paused.at_ms)}: ${visible(row.paused.reason) || "no reason given"}.`,
        waits ? ` ${waiting(row.queued, row.oldest_ms, row.oldest_seen)}.` : ""],
      "To go on: pawl-status --resume."));
  if (row.moved)
    found.push(problem(waits ? "late" : "moved", waits ? CRITICAL : NOTICE, waits ? "waits for nobody" : "moved away", row, waits ?
      () => ["No worker takes what waits for ", { row }, ` here: it was moved to ${visible(row.moved.to)}. ${waiting(row.queued, row.oldest_ms, row.oldest_seen)}.`] :
      () => [{ row }, ` was moved to ${visible(row.moved.to)} by ${visible(row.moved.by)}, ${span(nowMs - row.moved.at_ms)} ago.`],
      waits ? "Let its producers insert there, and move these messages on." : "Nothing to do: it is served there."));
  if (row.own?.refused > 0)
    found.push(problem("refused", WARNING, "cannot be taken", row,
      () => [`No worker takes ${row.own.refused === 1 ? "a document" : "documents"} in ${visible(row.own.collection)}, the collection of `, { row }, ": of another type."],
      "Find the producer; pawl-setup --set-aside."));
  const one = row.holder ? judgeHeld(row, known) : waits && !row.paused && !row.moved && !row.problem && row.kind === "type" ? judgeUnheld(row, known) : null;
  if (one)
    found.push(one);
  return found.sort((a, b) => b.level - a.level);
}

/* What a row does, where nothing is wrong. */
function calmWord(row) {
  if (row.kind === "lock")
    return row.holder ? "held" : "free";
  if (row.holder)
    return row.rate_out > 0 ? "writing" : "held";
  return row.queued > 0 ? "waiting" : "idle";
}

/* ---- all of them in one list ---- */

/* Above GROUP_MIN of a kind, one sentence says it of all. */
const GROUP_MIN = 4;
const kinds = {
  broken: names => ["No worker can use the ledger or the lock of ", ...names, "."],
  unserved: (names, wait) => ["Nobody serves ", ...names, `: ${wait}.`],
  untaken: (names, wait) => ["Processes wait for the locks of ", ...names, `, and none has them: ${wait}.`],
  frozen: (names, wait) => ["The holders of ", ...names, ` are frozen, dead or cut off: their leases are over. ${wait}.`],
  stuck: (names, wait) => ["The holders of ", ...names, ` write nothing: ${wait}.`],
  invalid: (names, wait, queued) => [`No worker can take ${plural(queued, "document")} of the types `, ...names, ": these are not valid types."],
  untyped: null,
  refused: names => ["No worker takes some documents in the own collections of ", ...names, ": of another type."],
  withheld: (names, wait) => ["Tools hold ", ...names, `, which keeps the workers out: ${wait}.`],
  behind: (names, wait) => ["The workers of ", ...names, ` are behind: ${wait}.`],
  late: (names, wait) => ["No worker takes what waits here for ", ...names, `, which were moved to another database: ${wait}.`],
  moved: names => [...names, " were moved to another database."],
  paused: names => [...names, " are paused."],
  left: names => ["Locks of ", ...names, " were left behind; nothing waits."],
};

function grouped(kind, list) {
  const total = list.some(one => one.row.queued === null) ? null : list.reduce((sum, one) => sum + one.row.queued, 0);
  const oldest = list.reduce((most, one) => Math.max(most, one.oldest), 0);
  const names = [{ row: list[0].row }, ", ", { row: list[1].row }, ` and ${number(list.length - 2)} more`];
  return { kind, level: list[0].level, id: `all ${kind}`, oldest, all: true, advice: list[0].advice,
    sentence: kinds[kind](names, waiting(total, oldest || null, false), total ?? 0) };
}

/* With its sentence made. */
function spoken(one) {
  return { ...one, sentence: one.sentence() };
}

/* The problems of the whole database and of its rows, most urgent first. `judged`: [problems of a row, …]. */
function summarise(judged, whole) {
  const byKind = new Map();
  for (const list of judged)
    for (const one of list)
      byKind.has(one.kind) ? byKind.get(one.kind).push(one) : byKind.set(one.kind, [one]);
  const out = [];
  for (const [kind, list] of byKind) {
    list.sort((a, b) => b.oldest - a.oldest || (b.row.queued ?? 0) - (a.row.queued ?? 0));
    list.length >= GROUP_MIN ? out.push(grouped(kind, list)) : out.push(...list.map(spoken));
  }
  out.sort((a, b) => b.level - a.level || b.oldest - a.oldest || (a.id < b.id ? -1 : 1));
  return [...whole, ...out];
}

/* What is wrong with the database as a whole, or with the monitor. feed: the last answer, and how it came. */
function judgeWhole(feed) {
  const out = [], state = feed.state;
  if (feed.error)
    out.push({ kind: "monitor", id: "monitor", level: CRITICAL, advice: "Is it running? The page goes on by itself.",
      sentence: [`pawl-monitor does not answer${state ? `: what you see is ${span(feed.age())} old` : ""}. ${visible(feed.error)}`] });
  if (!state)
    return out;
  if (!state.answers)
    out.push({ kind: "database", id: "database", level: CRITICAL, advice: "Workers wait, lose nothing, and go on by themselves.",
      sentence: [state.read_ms === null ? `MongoDB (${visible(state.server)}) does not answer, and nothing is known yet. ` :
        `MongoDB (${visible(state.server)}) does not answer: what you see is ${span(feed.age() + state.read_ms)} old. `, visible(state.error ?? "")] });
  else if (state.error)
    out.push({ kind: "database", id: "queue", level: WARNING, advice: "Holders and leases are known; what waits is not.",
      sentence: [`The queue cannot be read: ${visible(state.error)}`] });
  if (state.types_left_out > 0)
    out.push({ kind: "many", id: "many", level: WARNING, advice: "Does a producer make up types? pawl-monitor --type shows those that you name.",
      sentence: [`${plural(state.types_left_out, "name is", "names are")} left out: at most ${number(state.types.length)} are shown, those first that have a ledger or a lock.`] });
  if (state.unusable)
    out.push({ kind: "unusable", id: "unusable", level: CRITICAL, advice: "No type is served until this is put right.",
      sentence: [`Workers refuse the database ${visible(state.database)}: ${visible(state.unusable)}`] });
  return out;
}
