// Curves: the pointer or the arrow keys move over the points, a line below says the value.

const COMPARED = 10; // lines in the chart of all methods that a reader can still tell apart

/** Round numbers from below `low` to above `high`, about five of them. */
function ticks(low, high) {
  const rough = (high - low || 1) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const first = Math.floor(low / step + 1e-9);
  const last = Math.max(Math.ceil(high / step - 1e-9), first + 1);
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}

/**
 * Lines over whole-numbered x. `series`: {name, points: [[x, y, words]], colour, dash, thick};
 * `marks`: x of vertical rules; `least`: how far y reaches at least, so that noise looks small;
 * `dots`: whether each point is marked;
 * `named`: a legend with the names, beside or instead of `legend`.
 */
function lineChart({
  title,
  series,
  xName,
  xTicks,
  marks = [],
  least = 0,
  dots = true,
  named = false,
  legend = null,
}) {
  const width = Math.min(560, Math.max(280, document.documentElement.clientWidth - 60));
  const height = 230;
  const box = { left: 44, right: width - 12, top: 10, bottom: height - 34 };
  const points = series.flatMap((one) => one.points);
  const xs = points.map((p) => p[0]);
  const [x0, x1] = [xs.reduce((a, b) => Math.min(a, b)), xs.reduce((a, b) => Math.max(a, b))];
  const ys = points.map((p) => p[1]);
  const top = ys.reduce((a, b) => Math.max(a, b));
  const yTicks = ticks(
    Math.min(
      top - least,
      ys.reduce((a, b) => Math.min(a, b)),
    ),
    top,
  );
  const [y0, y1] = [yTicks[0], yTicks[yTicks.length - 1]];
  const x = (value) => box.left + 6 + ((value - x0) / (x1 - x0 || 1)) * (box.right - box.left - 12);
  const y = (value) => box.bottom - ((value - y0) / (y1 - y0)) * (box.bottom - box.top);
  const digits = Math.max(0, Math.ceil(-Math.log10(yTicks[1] - yTicks[0]) - 1e-9));

  const grid = svg("g", { class: "axes" });
  for (const value of yTicks) {
    grid.append(
      svg("line", { x1: box.left, x2: box.right, y1: y(value), y2: y(value) }),
      svg("text", { x: box.left - 6, y: y(value) + 4, "text-anchor": "end" }, show(value, digits)),
    );
  }
  for (const value of xTicks ?? ticks(x0, x1).filter((v) => v >= x0 && v <= x1 && v % 1 === 0))
    grid.append(
      svg("text", { x: x(value), y: box.bottom + 15, "text-anchor": "middle" }, `${value}`),
    );
  for (const value of marks)
    grid.append(
      svg("line", { class: "mark", x1: x(value), x2: x(value), y1: box.top, y2: box.bottom }),
    );
  grid.append(
    svg(
      "text",
      { class: "name", x: (box.left + box.right) / 2, y: height - 4, "text-anchor": "middle" },
      xName,
    ),
  );

  const lines = series.map((one) => {
    const path = one.points.map(
      (p, i) => `${i ? "L" : "M"}${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`,
    );
    const group = svg("g", { class: one.thick ? "line thick" : "line" });
    group.append(
      svg("path", { d: path.join(""), stroke: one.colour, "stroke-dasharray": one.dash || null }),
    );
    if (dots || one.points.length === 1)
      for (const p of one.points)
        group.append(
          svg("circle", {
            cx: x(p[0]),
            cy: y(p[1]),
            r: one.points.length === 1 ? 4 : 2.5,
            fill: one.colour,
          }),
        );
    return group;
  });
  const dot = svg("circle", { class: "dot", r: 5, visibility: "hidden" });
  const readout = el(
    "p",
    { class: "readout", "aria-live": "polite" },
    "Point at a line, or move along it with the arrow keys.",
  );
  let at = null; // [series, point]

  function go(s, p) {
    at = [s, p];
    const [px, py, text] = series[s].points[p];
    dot.setAttribute("cx", x(px));
    dot.setAttribute("cy", y(py));
    dot.setAttribute("visibility", "visible");
    lines.forEach((line, i) => line.classList.toggle("dim", i !== s));
    readout.textContent = `${series[s].name}, ${text}: ${show(py, Math.max(2, digits + 1))}`;
  }

  function leave() {
    dot.setAttribute("visibility", "hidden");
    for (const line of lines) line.classList.remove("dim");
  }

  function nearest(event) {
    const frame = event.currentTarget.getBoundingClientRect();
    const px = ((event.clientX - frame.left) / frame.width) * width;
    const py = ((event.clientY - frame.top) / frame.height) * height;
    let found = null;
    series.forEach((one, s) =>
      one.points.forEach((p, i) => {
        const far = Math.hypot(x(p[0]) - px, y(p[1]) - py);
        if (!found || far < found[0]) found = [far, s, i];
      }),
    );
    if (found) go(found[1], found[2]);
  }

  function key(event) {
    if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key))
      return;
    event.preventDefault();
    if (!at) return go(0, 0);
    let [s, p] = at;
    const here = series[s].points[p][0];
    if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      s = (s + (event.key === "ArrowDown" ? 1 : series.length - 1)) % series.length;
      const gaps = series[s].points.map((q) => Math.abs(q[0] - here));
      p = gaps.indexOf(Math.min(...gaps));
    } else if (event.key === "Home" || event.key === "End") {
      p = event.key === "Home" ? 0 : series[s].points.length - 1;
    } else {
      p = Math.min(
        Math.max(p + (event.key === "ArrowRight" ? 1 : -1), 0),
        series[s].points.length - 1,
      );
    }
    go(s, p);
  }

  const drawing = svg(
    "svg",
    {
      viewBox: `0 0 ${width} ${height}`,
      tabindex: "0",
      role: "application",
      "aria-roledescription": "chart",
      "aria-label": `${title}. Arrow keys move over the points.`,
      pointermove: nearest,
      pointerdown: nearest,
      pointerleave: leave,
      keydown: key,
      blur: leave,
    },
    svg("desc", {}, series.map(outline).join("; ")),
    grid,
    ...lines,
    dot,
  );
  const names = named
    ? el(
        "ul",
        { class: "names" },
        ...series.map((one, s) =>
          el(
            "li",
            { pointerenter: () => go(s, one.points.length - 1), pointerleave: leave },
            svg(
              "svg",
              { viewBox: "0 0 26 10", "aria-hidden": "true" },
              svg("path", {
                d: "M0 5H26",
                stroke: one.colour,
                "stroke-dasharray": one.dash || null,
              }),
            ),
            el("span", {}, ...breakable(one.name)),
          ),
        ),
      )
    : null;
  return el(
    "figure",
    { class: "chart" },
    el("figcaption", {}, title),
    drawing,
    legend,
    names,
    readout,
  );
}

/** A line in words, for those who do not see it: where it begins and where it ends. */
function outline({ name, points }) {
  const [first, last] = [points[0], points[points.length - 1]];
  const start = `${name}: ${show(first[1])} ${first[2]}`;
  return last === first ? start : `${start}, ${show(last[1])} ${last[2]}`;
}

/** Task 1 to task n as a strip of the colours of their lines. */
function taskLegend(n) {
  const ramp = el("span", { class: "ramp", "aria-hidden": "true" });
  const stops = Array.from({ length: 5 }, (_, i) => taskColour((i / 4) * (n - 1), n));
  ramp.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  return el("p", { class: "legend" }, "task 1", ramp, `task ${n}`);
}

/** Mean accuracy on the tasks learned so far, averaged over seeds: one line a row. */
function comparison(rows) {
  const series = [];
  for (const row of rows) {
    const runs = row.runs.filter((run) => run.status === "done" && !run.fault);
    const points = [];
    for (let k = 0; k < (runs[0]?.R.length ?? 0); k++) {
      const lines = runs.map((run) => (run.R[k] ?? []).slice(0, k + 1));
      if (lines.every((line) => line.length === k + 1 && line.every(isNumber)))
        points.push([k + 1, mean(lines.map(mean)), `after task ${k + 1}`]);
    }
    if (points.length) series.push({ name: row.name, points, ...lineStyle(series.length) });
    if (series.length === COMPARED) break;
  }
  const tasks = Math.max(0, ...series.flatMap((one) => one.points.map((p) => p[0])));
  if (tasks < 2) return null;
  const chart = lineChart({
    title: "Mean accuracy (%) on the tasks learned so far",
    series,
    named: true,
    least: 5,
    xName: "after task",
    xTicks: wholeTicks(tasks),
  });
  if (rows.length > series.length && series.length === COMPARED)
    chart.append(
      el(
        "p",
        { class: "note" },
        `The first ${COMPARED} rows of ${rows.length}: sort or filter the table to see others.`,
      ),
    );
  return chart;
}
