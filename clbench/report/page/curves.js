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
 * Lines over whole-numbered x. `series`: {name, points: [[x, y, words]], colour, dash};
 * `marks`: x of vertical rules; `least`: how far y reaches at least, so that noise looks small;
 * `dots`: whether each point is marked; `legend`: what stands below, the names if left out.
 */
function lineChart({ title, series, xName, xTicks, marks = [], least = 0, dots = true, legend }) {
  const width = Math.min(560, Math.max(280, document.documentElement.clientWidth - 60));
  const height = 230;
  const box = { left: 44, right: width - 12, top: 10, bottom: height - 34 };
  const points = series.flatMap((one) => one.points);
  const [x0, x1] = ends(points.map((p) => p[0]));
  const [low, high] = ends(points.map((p) => p[1]));
  const yTicks = ticks(Math.min(high - least, low), high);
  const [y0, y1] = [yTicks[0], yTicks[yTicks.length - 1]];
  const x = (value) => box.left + 6 + ((value - x0) / (x1 - x0 || 1)) * (box.right - box.left - 12);
  const y = (value) => box.bottom - ((value - y0) / (y1 - y0)) * (box.bottom - box.top);
  const digits = Math.max(0, Math.ceil(-Math.log10(yTicks[1] - yTicks[0]) - 1e-9));

  const middle = { "text-anchor": "middle" };
  const centre = (box.left + box.right) / 2;
  const axes = svg(
    "g.axes",
    ...yTicks.flatMap((value) => [
      svg("line", { x1: box.left, x2: box.right, y1: y(value), y2: y(value) }),
      svg("text", { x: box.left - 6, y: y(value) + 4, "text-anchor": "end" }, show(value, digits)),
    ]),
    ...(xTicks ?? ticks(x0, x1).filter((v) => v >= x0 && v <= x1 && v % 1 === 0)).map((value) =>
      svg("text", { x: x(value), y: box.bottom + 15, ...middle }, `${value}`),
    ),
    ...marks.map((value) =>
      svg("line.mark", { x1: x(value), x2: x(value), y1: box.top, y2: box.bottom }),
    ),
    svg("text.name", { x: centre, y: height - 4, ...middle }, xName),
  );
  const lines = series.map(({ points, colour, dash }) => {
    const path = points.map((p) => `${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`);
    const alone = points.length === 1;
    const dotted = dots || alone ? points : [];
    return svg(
      "g.line",
      svg("path", { d: `M${path.join("L")}`, stroke: colour, "stroke-dasharray": dash }),
      ...dotted.map((p) =>
        svg("circle", { cx: x(p[0]), cy: y(p[1]), r: alone ? 4 : 2.5, fill: colour }),
      ),
    );
  });
  const dot = svg("circle.dot", { r: 5, visibility: "hidden" });
  const told = readout("Point at a line, or move along it with the arrow keys.");
  let at = null; // [series, point]

  function go(s, p) {
    at = [s, p];
    const [px, py, text] = series[s].points[p];
    dot.setAttribute("cx", x(px));
    dot.setAttribute("cy", y(py));
    dot.setAttribute("visibility", "visible");
    lines.forEach((line, i) => line.classList.toggle("dim", i !== s));
    told.textContent = `${series[s].name}, ${text}: ${show(py, Math.max(2, digits + 1))}`;
  }

  function leave() {
    dot.setAttribute("visibility", "hidden");
    for (const line of lines) line.classList.remove("dim");
  }

  function nearest(event) {
    const frame = event.currentTarget.getBoundingClientRect();
    const px = ((event.clientX - frame.left) / frame.width) * width;
    const py = ((event.clientY - frame.top) / frame.height) * height;
    let [least, found] = [Infinity, null];
    series.forEach((one, s) =>
      one.points.forEach((p, i) => {
        const far = Math.hypot(x(p[0]) - px, y(p[1]) - py);
        if (far < least) [least, found] = [far, [s, i]];
      }),
    );
    go(...found);
  }

  function key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    const lanes = { ArrowUp: -1, ArrowDown: 1 };
    if (!(event.key in steps) && !(event.key in lanes)) return;
    event.preventDefault();
    if (!at) return go(0, 0);
    let [s, p] = at;
    if (event.key in lanes) {
      const here = series[s].points[p][0];
      s = (s + lanes[event.key] + series.length) % series.length;
      const gaps = series[s].points.map((q) => Math.abs(q[0] - here));
      p = gaps.indexOf(Math.min(...gaps));
    } else p = Math.min(Math.max(p + steps[event.key], 0), series[s].points.length - 1);
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
    svg("desc", series.map(outline).join("; ")),
    axes,
    ...lines,
    dot,
  );
  const name = ({ name, points, colour, dash }, s) =>
    el(
      "li",
      { pointerenter: () => go(s, points.length - 1), pointerleave: leave },
      svg(
        "svg",
        { viewBox: "0 0 26 10", "aria-hidden": "true" },
        svg("path", { d: "M0 5H26", stroke: colour, "stroke-dasharray": dash }),
      ),
      el("span", ...breakable(name)),
    );
  const below = legend === undefined ? el("ul.names", ...series.map(name)) : legend;
  return el("figure.chart", el("figcaption", title), drawing, below, told);
}

/** The least and the greatest; there may be too many values for Math.min(...values). */
const ends = (values) => [
  values.reduce((a, b) => Math.min(a, b)),
  values.reduce((a, b) => Math.max(a, b)),
];

/** A line in words, for those who do not see it: where it begins and where it ends. */
function outline({ name, points }) {
  const [first, last] = [points[0], points[points.length - 1]];
  const start = `${name}: ${show(first[1])} ${first[2]}`;
  return last === first ? start : `${start}, ${show(last[1])} ${last[2]}`;
}

/** Task 1 to task n as a strip of the colours of their lines. */
const taskLegend = (n) => ramp("task 1", `task ${n}`, (part) => taskColour(part * (n - 1), n));

/** Mean accuracy on the tasks learned so far, averaged over seeds: one line per row. */
function comparison(rows) {
  const series = [];
  for (const row of rows) {
    const runs = row.runs.filter((run) => run.status === "done" && !run.fault);
    const points = (runs[0]?.R ?? []).flatMap((_, k) => {
      const lines = runs.map((run) => (run.R[k] ?? []).slice(0, k + 1));
      const whole = lines.every((line) => line.length === k + 1 && line.every(isNumber));
      return whole ? [[k + 1, mean(lines.map(mean)), `after task ${k + 1}`]] : [];
    });
    if (points.length) series.push({ name: row.name, points, ...lineStyle(series.length) });
    if (series.length === COMPARED) break;
  }
  const tasks = Math.max(0, ...series.flatMap((one) => one.points.map((p) => p[0])));
  if (tasks < 2) return null;
  const chart = lineChart({
    title: "Mean accuracy (%) on the tasks learned so far",
    series,
    least: 5,
    xName: "after task",
    xTicks: wholeTicks(tasks),
  });
  const rest = "sort or filter the table to see others";
  if (rows.length > series.length && series.length === COMPARED)
    chart.append(el("p.note", `The first ${COMPARED} rows of ${rows.length}: ${rest}.`));
  return chart;
}
