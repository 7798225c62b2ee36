// What opens under a row: every run of it, with all that its record says.

/** The runs of a row, each drawn when it is first opened. */
function rowDetails(benchmark, row) {
  const box = el("div.runs", row.published && publishedWords(benchmark.paper, row.published));
  for (const run of row.runs) {
    const entry = el(
      "details.run",
      { id: `run-${run.id}`, open: state.runs.has(run.id) },
      el("summary", el("strong", `Seed ${run.seed}`), ...runSummary(run)),
    );
    const draw = () => {
      if (entry.open && entry.childElementCount === 1) entry.append(runDetails(benchmark, run));
      if (entry.open) state.runs.add(run.id);
      else state.runs.delete(run.id);
    };
    entry.addEventListener("toggle", draw);
    draw();
    box.append(entry);
  }
  return box;
}

function runSummary(run) {
  const parts = DATA.columns
    .filter(({ key }) => state.columns.has(key) && isNumber(run.values[key]))
    .map(({ key, heading }) => {
      if (key === "time") return `${show(run.values.time, 1)} s`;
      const unit = heading.endsWith("MB") ? " MB" : "";
      return `${heading.replace(/ (%|pp|MB)$/, "")} ${show(run.values[key])}${unit}`;
    });
  const status = run.fault ? "left out" : run.status;
  return [
    el(
      "span",
      { class: `status ${run.fault ? "failed" : run.status}` },
      status === "partial" ? `${run.done} of ${run.tasks} tasks` : status,
    ),
    ...parts.map((part) => el("span", part)),
    el("code", run.id),
  ];
}

/** The paper's numbers and their source, and the difference even where they do not compare. */
function publishedWords({ cite, columns }, { shown, source, note, ...compared }) {
  const { verdict, difference, deviations } = compared;
  const numbers = columns
    .filter(({ key }) => key !== "paper-word" && shown[key] !== show(null))
    .filter(({ key }) => key !== "paper-intransigence" || asksIntransigence())
    .map(({ key, heading }) => `${heading.slice(cite.length + 1).replace(/ %$/, "")} ${shown[key]}`)
    .join(", ");
  let apart = "";
  if (verdict.startsWith("not") && isNumber(difference)) {
    apart = ` The difference in ACC, all the same: ${signed(difference, 2)} points`;
    if (isNumber(deviations)) apart += `, ${signed(deviations, 1)} published standard deviations`;
    apart += ".";
  }
  return el(
    "p.paper",
    `${cite}: ${numbers || "none of these numbers"}${note ? ` (${note})` : ""}. `,
    source ? `Its source: ${source}. ` : "",
    `Measured here: ${shown["paper-word"]}.${apart}`,
  );
}

function runDetails(benchmark, run) {
  const charts = [
    ...(run.R.length ? [heatMap(run.R, ...accuracyRange(benchmark)), taskCurves(run)] : []),
    ...(run.confusion.length ? [heatMap(run.confusion, 0, 100, ofConfusion(run.confusion))] : []),
    ...(run.curve?.accuracy ? [trainingCurve(run, "accuracy")] : []),
    ...(run.curve ? [trainingCurve(run, "loss")] : []),
    ...run.shown.filter(({ kind }) => kind === "layers").map(layerChart),
  ];
  const tables = [run.train.length ? timeTable(run) : null, ...diagnoses(run)];
  const facts = Object.entries(run.facts).map(([name, at]) => factList(name, flat(DATA.pool[at])));
  return el(
    "div.body",
    run.fault && el("p.warning", `Left out of the mean: ${run.fault}.`),
    run.failure && el("div", el("h3", "Failure"), el("pre", { tabindex: "0" }, run.failure)),
    ...run.warnings.map((text) => el("p.warning", `Warning: ${text}`)),
    el("div.charts", ...charts),
    el("div.tables", ...tables),
    el("div.facts", measures(run), ...facts),
  );
}

/** The ends of the colours' scale: the same for all runs on a benchmark, so that they compare. */
function accuracyRange(benchmark) {
  if (benchmark.range) return benchmark.range;
  const runs = benchmark.rows.flatMap((row) => row.runs);
  const learned = runs.flatMap((run) => run.R.flatMap((line, k) => line.slice(0, k + 1)));
  const [low] = ends([100, ...learned.filter(isNumber)]);
  benchmark.range = [Math.min(Math.floor(low / 10) * 10, 90), 100];
  return benchmark.range;
}

function taskCurves(run) {
  const series = [];
  run.R.forEach((_, i) => {
    const points = run.R.map((line, k) => [k + 1, line[i], `after task ${k + 1}`]).filter(
      ([k, value]) => k > i && isNumber(value),
    );
    if (points.length)
      series.push({ name: `Task ${i + 1}`, points, colour: taskColour(i, run.R.length) });
  });
  if (!series.some((one) => one.points.length > 1)) return null;
  return lineChart({
    title: "Accuracy (%) of each task as others are learned",
    series,
    least: 5,
    xName: "after task",
    xTicks: wholeTicks(run.R.length),
    legend: taskLegend(run.R.length),
  });
}

/** 1 to n, or every second, or every fifth: as many as have room. */
function wholeTicks(n) {
  const step = n <= 12 ? 1 : n <= 24 ? 2 : Math.ceil(n / 50) * 5;
  const roomy = (k) => k % step === 0 && k - 1 > step / 2; // 2 would touch 1
  return Array.from({ length: n }, (_, i) => i + 1).filter((k) => k === 1 || roomy(k));
}

function trainingCurve(run, what) {
  const { at, task, epoch } = run.curve;
  const groups = new Map();
  const marks = [];
  at.forEach((x, i) => {
    if (i && task[i] !== task[i - 1]) marks.push((x + at[i - 1]) / 2);
    if (!groups.has(task[i])) groups.set(task[i], []);
    groups.get(task[i]).push([x, run.curve[what][i], `epoch ${epoch[i]}`]);
  });
  const series = [...groups].map(([number, points], i) => ({
    name: `Task ${number}`,
    points,
    colour: taskColour(i, groups.size),
  }));
  return lineChart({
    title: what === "accuracy" ? "Validation accuracy (%) per epoch" : "Training loss per epoch",
    series,
    marks,
    least: what === "accuracy" ? 5 : 0,
    dots: false,
    legend: null,
    xName: "epoch of the run, a rule between tasks",
  });
}

/** A small table of numbers: `rows` are arrays, the first entry heads its row. */
function smallTable(caption, heads, rows) {
  const line = ([first, ...rest]) =>
    el("tr", el("th", { scope: "row" }, first), ...rest.map((text) => el("td", text)));
  const table = el(
    "table.small",
    el("caption.hidden", caption),
    el("thead", el("tr", ...heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", ...rows.map(line)),
  );
  return el(
    "figure",
    // the title stands outside, or it would be cut where the table has to be scrolled
    el("figcaption", { "aria-hidden": "true" }, caption),
    el("div.scroll", { tabindex: "0", role: "region", "aria-label": caption }, table),
  );
}

function timeTable(run) {
  const line = (name, values) => {
    const all = values.reduce((sum, value) => sum + value, 0);
    return [name, ...run.train.map((_, i) => show(values[i], 1)), show(all, 1)];
  };
  return smallTable(
    "Seconds per task",
    ["task", ...run.train.map((_, i) => `${i + 1}`), "all"],
    [line("training", run.train), line("evaluation", run.eval)],
  );
}

/** What the method lays open about itself, by the titles, kinds and units that it declares. */
function diagnoses(run) {
  const found = run.shown.filter(({ kind }) => kind === "without").map(withoutTable);
  const numbers = run.shown.filter(({ kind }) => kind === "number");
  if (numbers.length) {
    const heads = ["after task", ...numbers[0].values.map((_, i) => `${i + 1}`)];
    const rows = numbers.map((one) => [titled(one), ...one.values.map(short)]);
    found.push(smallTable("Diagnostics after each task", heads, rows));
  }
  return found;
}

/** Test accuracy after the last task, with each part of the network taken away. */
function withoutTable(one) {
  const [rows] = one.values;
  const parts = [...new Set(Object.values(rows).flatMap(Object.keys))];
  return smallTable(
    `${titled(one)}, after the last task`,
    ["task", ...Object.keys(rows)],
    parts.map((part) => [
      part.replaceAll("_", " "),
      ...Object.values(rows).map((row) => show(row[part])),
    ]),
  );
}

/** One line per layer over the tasks. */
function layerChart(one) {
  const layers = Math.max(...one.values.map((value) => value?.length ?? 0));
  const series = Array.from({ length: layers }, (_, i) => ({
    name: `Layer ${i + 1}`,
    points: one.values.flatMap((value, k) =>
      isNumber(value?.[i]) ? [[k + 1, value[i], `after task ${k + 1}`]] : [],
    ),
    ...lineStyle(i),
  }));
  return lineChart({
    title: titled(one),
    series,
    least: one.unit === "%" ? 5 : 0,
    xName: "after task",
    xTicks: wholeTicks(one.values.length),
  });
}

const titled = ({ title, unit }) =>
  title.slice(0, 1).toUpperCase() + title.slice(1) + (unit ? ` (${unit})` : "");
const short = (value) => (isNumber(value) ? String(Number(value.toPrecision(3))) : "");

function measures(run) {
  const columns = DATA.columns.filter(({ key }) => isNumber(run.values[key]));
  const memory = Object.entries(run.memory);
  return factList("Run", [
    ["run", run.id],
    ["seed", run.seed],
    ["status", `${run.status}, ${run.done} of ${run.tasks} tasks`],
    ...columns.map(({ key, heading }) => [
      key === "time" ? "time s" : heading,
      show(run.values[key], 3),
    ]),
    ...memory.map(([name, bytes]) => [`memory ${name}`, `${bytes.toLocaleString("en")} bytes`]),
    ["peak memory", `${show(run.peak / 1e9)} GB`],
    ["started", run.started],
    ["finished", run.finished],
    ["the whole record", `clbench show ${run.id} --json`],
  ]);
}

function factList(name, facts) {
  const pairs = facts.flatMap(([key, value]) => [
    el("dt", key.replace(/^params\./, "")),
    el("dd", value === "" ? "\u2013" : words(value)),
  ]);
  return el("section", el("h3", name), el("dl", ...pairs));
}
