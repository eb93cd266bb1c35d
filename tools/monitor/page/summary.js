/* summary: what is wrong, most urgent first, in sentences that stay in place while their numbers change. */

function sentenceElement(part) {
  return part.row ? nameElement(part.row) : el("span");
}

function showSentence(element, parts) {
  const shape = parts.map(part => part.row ? keyOfRow(part.row) : "").join("|");
  if (element.shape !== shape) {
    element.shape = shape;
    element.replaceChildren(...parts.map(sentenceElement));
  }
  parts.forEach((part, i) => part.row || setText(element.children[i], part));
}

/* Draws a list of problems. showAll: what the button of a grouped sentence does. */
function drawProblems(list, problems, showAll) {
  keyed(list, problems, one => one.id, one => el("li", null,
    el("span", { class: `badge ${stateClass[one.level]}` }, levelWords[one.level]),
    el("p", { class: "sentence" }),
    el("p", { class: "advice" }, el("span"), one.all && showAll ? el("button", { type: "button", onclick: showAll }, "Show them") : "")),
    (item, one) => {
      showSentence(item.children[1], one.sentence);
      setText(item.children[2].firstChild, one.advice);
    });
  setHidden(list, problems.length === 0);
}

function headlineOf(problems, wrong) {
  if (!feed.state)
    return feed.error ? "pawl-monitor does not answer" : "Loading";
  const level = problems.length > 0 ? problems[0].level : WELL;
  if (level >= WARNING)
    return plural(wrong, "problem");
  return level === NOTICE ? `All is well, with ${plural(problems.length, "note")}` : "All is well";
}

function totalsOf(types, locks) {
  const sum = (rows, of) => rows.reduce((total, row) => total + (of(row) ?? 0), 0);
  const real = types.filter(row => row.kind === "type"), held = real.filter(row => row.holder).length;
  const unknown = types.some(row => row.queued === null);
  const parts = [`${plural(real.length, "type")}, ${number(held)} held`,
    `${unknown ? "at least " : ""}${plural(sum(types, row => row.queued), "document")} queued`,
    `in ${rate(sum(types, row => row.rate_in))}/s, out ${rate(sum(types, row => row.rate_out))}/s`];
  if (locks.length > 0)
    parts.push(`${plural(locks.length, "lock")}, ${number(locks.filter(row => row.holder).length)} held, ${number(sum(locks, row => row.waiting))} waiting`);
  return parts.join(" · ");
}

const SAY_MS = 15000; /* at most so often is a change of the headline read out */
let saidText = null, saidAt = -Infinity;

/* For a screen reader: only when the number or the first of the problems has changed in kind. */
function say(headline, problems) {
  const key = headline + (problems[0]?.id ?? "");
  if (key === saidText || performance.now() - saidAt < SAY_MS || !feed.state)
    return;
  saidText = key;
  saidAt = performance.now();
  const first = problems.length > 0 ? problems[0].sentence.map(part => part.row ? visible(typeName(part.row)) : part).join("") : "";
  setText(byId("said"), `${headline}. ${first}`);
}

/* whole: what is wrong with the database; problems: of it and of all rows, grouped. */
function drawSummary(problems, wrong, types, locks, showAll) {
  const headline = headlineOf(problems, wrong);
  setText(byId("headline"), headline);
  const level = problems.length > 0 ? problems[0].level : WELL;
  setAttribute(byId("summary"), "class", `summary ${feed.state || feed.error ? stateClass[level] : ""}`);
  setText(byId("totals"), feed.state ? totalsOf(types, locks) : "");
  drawProblems(byId("problems"), problems, showAll);
  say(headline, problems);
  const where = feed.state ? ` · ${visible(feed.state.database)}` : "";
  document.title = `${level >= WARNING ? `(${wrong}) ` : ""}pawl${where}`;
}
