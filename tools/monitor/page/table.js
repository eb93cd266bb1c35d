/*
 * table: a table that is sorted by its headers, in pages, and updated in place.
 *
 * A column: {key, title, sort(row): number, string or null (last), down: the first click sorts down, show(cell, row), className, help}.
 * While the reader is in the table (focus, selection, a pointer that moves) the order is held: no row runs away from a click.
 */

const PAGE_ROWS = 50;
const HOLD_MS = 1500; /* after the pointer has moved */

/* onOrder: called when the reader has changed sort or page. */
function makeTable(table, pages, caption, columns, keyOf, onOrder) {
  const self = { sort: columns[0].key, down: columns[0].down, page: 0, rows: [], shown: [] };
  const head = el("tr", { role: "row" }), body = el("tbody", { role: "rowgroup" });
  let pointerAt = -Infinity, heldOrder = null, extra = null;

  fill(table, { role: "table" }, [el("caption", { class: "unseen" }, caption), el("thead", { role: "rowgroup" }, head), body]);
  body.addEventListener("pointermove", () => pointerAt = performance.now());
  body.addEventListener("pointerleave", () => pointerAt = -Infinity);
  for (const column of columns) {
    const button = el("button", { type: "button", title: column.help, onclick: () => {
      self.down = self.sort === column.key ? !self.down : !!column.down;
      self.sort = column.key;
      self.page = 0;
      heldOrder = null;
      onOrder();
    } }, column.title);
    head.append(el("th", { scope: "col", role: "columnheader", class: column.className }, button));
  }

  function compare(a, b) {
    const column = self.column, x = a.sortValue, y = b.sortValue;
    if (x !== y) {
      if (x === null || y === null)
        return x === null ? 1 : -1;
      const order = x < y ? -1 : 1;
      return self.down ? -order : order;
    }
    return column.then?.(a.row, b.row) || (keyOf(a.row) < keyOf(b.row) ? -1 : 1);
  }

  function held() {
    const selection = getSelection();
    return body.contains(document.activeElement) || performance.now() - pointerAt < HOLD_MS ||
      (selection && !selection.isCollapsed && selection.containsNode(body, true));
  }

  function ordered(rows) {
    self.column = columns.find(column => column.key === self.sort) ?? columns[0];
    const wrapped = rows.map(row => ({ row, sortValue: self.column.sort(row) ?? null })).sort(compare);
    return wrapped.map(one => one.row);
  }

  function pageOf(rows) {
    self.page = Math.max(0, Math.min(self.page, Math.ceil(rows.length / PAGE_ROWS) - 1));
    if (heldOrder && held()) {
      const there = new Map(rows.map(row => [keyOf(row), row]));
      const kept = heldOrder.map(key => there.get(key)).filter(row => row);
      if (kept.length > 0)
        return kept;
    }
    return ordered(rows).slice(self.page * PAGE_ROWS, (self.page + 1) * PAGE_ROWS);
  }

  function makeRow(row) {
    const line = el("tr", { role: "row" });
    columns.forEach((column, i) => line.append(i === 0 ? el("th", { scope: "row", role: "rowheader", class: column.className }) :
      el("td", { role: "cell", class: column.className })));
    return line;
  }

  function drawPages(total) {
    const first = self.page * PAGE_ROWS;
    if (!extra) {
      const turn = by => () => {
        self.page += by;
        heldOrder = null;
        onOrder();
        byId("main").scrollIntoView();
      };
      extra = { back: el("button", { type: "button", onclick: turn(-1) }, "Previous"), text: el("span"), next: el("button", { type: "button", onclick: turn(1) }, "Next") };
      pages.append(extra.back, extra.text, extra.next);
    }
    setHidden(pages, total <= PAGE_ROWS);
    setText(extra.text, `${number(first + 1)}–${number(Math.min(total, first + PAGE_ROWS))} of ${number(total)}`);
    extra.back.disabled = self.page === 0;
    extra.next.disabled = first + PAGE_ROWS >= total;
  }

  /* rows: those that the filter leaves, in any order. `empty`: what is said where there are none. */
  self.draw = (rows, empty) => {
    self.shown = pageOf(rows);
    heldOrder = self.shown.map(keyOf);
    columns.forEach((column, i) => setAttribute(head.children[i], "aria-sort", column.key === self.sort ? self.down ? "descending" : "ascending" : null));
    keyed(body, self.shown.length > 0 ? self.shown : [null], row => row ? keyOf(row) : "\u0000none",
      row => row ? makeRow(row) : el("tr", { role: "row" }, el("td", { role: "cell", colspan: columns.length, class: "none" }, el("span"))),
      (line, row) => {
        if (!row)
          setText(line.firstChild.firstChild, empty);
        else
          columns.forEach((column, i) => column.show(line.children[i], row, line));
      });
    drawPages(rows.length);
  };
  self.drawCells = keys => {
    for (const row of self.shown) {
      const line = body.keyed.get(keyOf(row));
      columns.forEach((column, i) => keys.includes(column.key) && column.show(line.children[i], row, line));
    }
  };
  return self;
}
