/* chart: a number over the last 15 minutes, small in a row of the table, larger on a type's page. null in it: not known. */

const SPARK = { width: 96, height: 20 };

/* Points to an SVG path, broken where nothing is known. area: closed down to the base line. */
function pathOf(points, width, height, most, area) {
  const step = width / Math.max(1, points.length - 1);
  let path = "", from = -1;
  points.forEach((value, i) => {
    if (value === null) {
      if (area && from >= 0)
        path += `L${((i - 1) * step).toFixed(1)} ${height}Z`;
      from = -1;
      return;
    }
    const x = (i * step).toFixed(1), y = (height - value / most * (height - 2)).toFixed(1);
    path += from < 0 ? area ? `M${x} ${height}L${x} ${y}` : `M${x} ${y}h0.01` : `L${x} ${y}`;
    from = from < 0 ? i : from;
  });
  if (area && from >= 0)
    path += `L${((points.length - 1) * step).toFixed(1)} ${height}Z`;
  return path;
}

function sparkline() {
  return svg("svg", { class: "spark", width: SPARK.width, height: SPARK.height, viewBox: `0 0 ${SPARK.width} ${SPARK.height}`, role: "img", "aria-label": "not known yet" },
    svg("path", { class: "area" }), svg("path", { class: "line" }));
}

function sparkDraw(image, points, what) {
  const key = points.join();
  if (image.key === key)
    return;
  image.key = key;
  const known = points.filter(value => value !== null), most = Math.max(1, ...known);
  const [area, line] = image.children;
  setAttribute(area, "d", pathOf(points, SPARK.width, SPARK.height, most, true));
  setAttribute(line, "d", pathOf(points, SPARK.width, SPARK.height, most, false));
  setAttribute(image, "aria-label", known.length === 0 ? "not known yet" :
    `${what}: from ${short(known[0])} to ${short(known.at(-1))}, at most ${short(Math.max(...known))}`);
}

/* A figure with a caption. series: [{name, className, points}], all of one scale. */
function chart(title) {
  const image = svg("svg", { class: "chart", role: "img", "aria-label": `${title}: not known yet`, preserveAspectRatio: "none", viewBox: "0 0 600 80" });
  const most = el("span", { class: "most" }), key = el("span", { class: "key" });
  const figure = el("figure", { class: "figure" }, el("figcaption", null, el("span", null, title), key), el("div", { class: "plot" }, image, most));
  figure.draw = (series, stepMs, show) => {
    const all = series.flatMap(one => one.points.filter(value => value !== null)), top = Math.max(1, ...all);
    keyed(image, series.flatMap(one => one.area ? [{ ...one, part: "area" }, { ...one, part: "line" }] : [{ ...one, part: "line" }]), one => one.name + one.part,
      one => svg("path", { class: `${one.part} ${one.className}`, "vector-effect": "non-scaling-stroke" }),
      (path, one) => setAttribute(path, "d", pathOf(one.points, 600, 80, top, one.part === "area")));
    keyed(key, series, one => one.name, one => el("span", { class: `key-${one.className}` }, el("span")),
      (span_, one) => setText(span_.firstChild, `${one.name} ${show(one.points.at(-1) ?? null)}`));
    setText(most, show(top));
    const minutes = Math.round(Math.max(...series.map(one => one.points.length)) * stepMs / 60000);
    setAttribute(image, "aria-label", all.length === 0 ? `${title}: not known yet` : `${title}, the last ${minutes} minutes: ` + series.map(one => {
      const known = one.points.filter(value => value !== null);
      return `${one.name} now ${show(one.points.at(-1) ?? null)}, at most ${show(known.length ? Math.max(...known) : null)}`;
    }).join("; "));
  };
  return figure;
}
