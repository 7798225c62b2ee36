// One section per benchmark: its table, what may be done with it, and the methods side by side.

const METHOD = {
  key: "method",
  heading: "method",
  formula: "As typed after --methods; open a row for its runs.",
  best: 0,
  value: (row) => row.name,
};
const SEEDS = {
  key: "seeds",
  heading: "seeds",
  formula: "Seeds: runs that are done, and so in the mean.",
  best: 1,
  text: (row) => `${row.seeds}`,
  value: (row) => row.seeds,
};

/** The columns beside the method as they are shown now: how each reads, sorts and is explained. */
function shownColumns(benchmark) {
  const list = DATA.columns.filter(({ key }) => state.columns.has(key)).flatMap((column) => {
    const { key, heading } = column;
    const measured = {
      ...column,
      heading: key === "time" ? `time ${benchmark.unit}` : heading,
      text: (row) => row.values[key][0],
      value: (row) => row.values[key][1],
    };
    return [
      measured,
      ...(key === "intransigence" ? [] : publishedColumn(benchmark, key)),
      ...(key === "replay" ? publishedColumn(benchmark, "mb") : []),
    ];
  });
  if (asksIntransigence()) list.push(...publishedColumn(benchmark, "intransigence"));
  list.push(...publishedColumn(benchmark, "word"), SEEDS);
  const compared = benchmark.rows.some((row) => row.published);
  return list.filter((column) => compared || !column.published);
}

/** Whether one of its columns is shown: the paper has one number for all of them. */
const asksIntransigence = () => [...state.columns].some((key) => key.includes("intransigence"));

/** What the paper has for a measured column, or its `word` on the row; nothing for most. */
function publishedColumn({ paper }, name) {
  const value = ({ published }) => {
    if (name === "word") return published?.verdict ?? null;
    if (name === "bwt" && published?.zero) return 0;
    if (name === "mb" && published) return published.arch + published.replay || null;
    return published?.[name] ?? null;
  };
  return paper.columns
    .filter(({ key }) => key === `paper-${name}`)
    .map((column) => ({
      ...column,
      best: name === "word" ? 0 : 1,
      published: true,
      value,
      text: (row) => row.published?.shown[column.key] ?? "",
    }));
}

/** What tells a benchmark from the others: its title, and its name where two have one title. */
function called({ title, name }) {
  const twins = DATA.benchmarks.filter((one) => one.title === title);
  return twins.length > 1 ? `${title} (${name})` : title;
}

function section(benchmark) {
  const number = DATA.benchmarks.indexOf(benchmark);
  const head = el("h2", { id: `title-${number}` }, benchmark.title);
  if (benchmark.title !== benchmark.name) head.append(" ", el("code", benchmark.name));
  const columns = shownColumns(benchmark);
  const about = "one row per method. Headings sort, names open details.";
  benchmark.table = el(
    "table.main",
    el("caption.hidden", `${called(benchmark)}: ${about}`),
    el(
      "thead",
      // a heading that is reached by key must not stay half under the first column
      { focusin: ({ target }) => target.scrollIntoView({ block: "nearest", inline: "nearest" }) },
      el("tr", ...headings(benchmark, columns)),
    ),
  );
  benchmark.bodies = new Map(benchmark.rows.map((row) => [row, tableRow(benchmark, row, columns)]));
  benchmark.compare = el("div.compare", { id: `compare-${number}` });
  benchmark.below = el("div.below", benchmark.compare, texts(benchmark, columns));
  const label = `Table of ${called(benchmark)}`;
  const box = el(
    "section.benchmark",
    { id: `benchmark-${number}`, "aria-labelledby": head.id },
    el(
      "div.bar",
      head,
      el(
        "span.actions",
        action(`copy-${number}`, "Copy LaTeX", benchmark, copy),
        action(`csv-${number}`, "Download CSV", benchmark, download),
      ),
    ),
    el(
      "div.frame.scroll",
      { id: `frame-${number}`, tabindex: "0", role: "region", "aria-label": label },
      benchmark.table,
    ),
    benchmark.below,
  );
  arrange(benchmark);
  return box;
}

/** What stands below a table: its warnings, its caption, the formulas and the paper's remarks. */
function texts(benchmark, columns) {
  const late = Object.entries(benchmark.column_warnings).filter(([key]) => state.columns.has(key));
  const warnings = new Set([...benchmark.warnings, ...late.flatMap(([, list]) => list)]);
  const items = [...warnings].map((text) => el("li", ...breakable(text)));
  const formulas = [
    ...columns.filter((column) => !column.published),
    ...columns.filter((column) => column.published),
  ].map((column) => column.formula);
  const meanings = [benchmark.matrix, ...new Set(formulas), benchmark.bold];
  const remarks = benchmark.remarks[Number(asksIntransigence())];
  const paragraphs = [benchmark.caption, meanings, remarks].filter((one) => one.length);
  return el(
    "div.words",
    items.length ? el("ul.warnings", { "aria-label": "Warnings" }, ...items) : null,
    ...paragraphs.map((sentences) => el("p.caption", sentences.join(" "))),
  );
}

/** A button of a benchmark's own, so that a list of all buttons tells them apart. */
function action(id, text, benchmark, act) {
  const label = `${text}: ${called(benchmark)}`;
  const click = () => act(benchmark);
  return el("button", { type: "button", id, "aria-label": label, click }, text);
}

function headings(benchmark, columns) {
  const sorted = state.sort[benchmark.name];
  const number = DATA.benchmarks.indexOf(benchmark);
  return [METHOD, ...columns].map((column) => {
    const now = sorted?.key === column.key ? sorted.direction : 0;
    const order = ["descending", "none", "ascending"][now + 1];
    const arrow = [" \u25bc", "", " \u25b2"][now + 1];
    const button = el(
      "button",
      {
        type: "button",
        id: `sort-${number}-${column.key}`,
        title: column.formula,
        click: () => sortBy(benchmark, column),
      },
      column.heading,
      el("span.arrow", { "aria-hidden": "true" }, arrow),
    );
    const look = column.published ? "published" : null;
    return el("th", { scope: "col", "aria-sort": order, class: look }, button);
  });
}

/** The better end first, then the other, then the table's own order. */
function sortBy(benchmark, column) {
  const first = column.best > 0 ? -1 : 1;
  const now = state.sort[benchmark.name];
  if (now?.key !== column.key) state.sort[benchmark.name] = { key: column.key, direction: first };
  else if (now.direction === first) now.direction = -first;
  else delete state.sort[benchmark.name];
  const head = benchmark.table.tHead.rows[0];
  head.replaceChildren(...headings(benchmark, shownColumns(benchmark)));
  byId(`sort-${DATA.benchmarks.indexOf(benchmark)}-${column.key}`).focus();
  arrange(benchmark);
}

function tableRow(benchmark, row, columns) {
  const id = `row-${row.runs[0].id}`;
  const open = state.open.has(id);
  const click = () => openRow(benchmark, row, !state.open.has(id));
  const button = el(
    "button.open",
    { type: "button", id, "aria-expanded": `${open}`, click },
    el("span", ...breakable(row.name)),
  );
  const title = row.title.toLowerCase() === row.name.toLowerCase() ? "" : row.title;
  const about = [title, row.family].filter(Boolean).join(", ");
  const href = `#${encodeURIComponent(row.runs.length === 1 ? `run-${row.runs[0].id}` : id)}`;
  const cells = columns.map((column) => {
    const text = column.text(row);
    // the row's button is the stop for the Tab key; these links are for pointers and readers
    const link = el("a", { href, tabindex: "-1", "data-key": column.key }, ...clauses(text));
    const shown = row.best.includes(column.key) ? el("strong", link) : link;
    const look = column.published ? `published ${column.key}` : null;
    return el("td", { class: look }, text ? shown : null);
  });
  return el(
    "tbody",
    { class: row.rule ? "rule" : null },
    el("tr", el("th", { scope: "row" }, button, el("span.about", about)), ...cells),
    open ? detailLine(benchmark, row, columns.length + 1) : null,
  );
}

const detailLine = (benchmark, row, span) =>
  el("tr.details", el("td", { colspan: span }, rowDetails(benchmark, row)));

function openRow(benchmark, row, open) {
  const id = `row-${row.runs[0].id}`;
  const body = benchmark.bodies.get(row);
  body.querySelector("button.open").setAttribute("aria-expanded", `${open}`);
  if (open && !row.runs.some((run) => state.runs.has(run.id)))
    state.runs.add((row.runs.find((run) => run.R.length) ?? row.runs[0]).id);
  if (open && !state.open.has(id))
    body.append(detailLine(benchmark, row, body.rows[0].cells.length));
  if (!open && body.rows.length > 1) body.rows[1].remove();
  if (open) state.open.add(id);
  else state.open.delete(id);
}

/** Put the rows into their order, hide those the filter does not want, and compare the rest. */
function arrange(benchmark) {
  const sorted = state.sort[benchmark.name];
  let rows = [...benchmark.rows];
  if (sorted) {
    const columns = [METHOD, ...shownColumns(benchmark)];
    const { value } = columns.find((column) => column.key === sorted.key) ?? METHOD;
    const order = (a, b) =>
      typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
    const known = rows.filter((row) => value(row) !== null);
    known.sort((a, b) => sorted.direction * order(value(a), value(b)));
    rows = [...known, ...rows.filter((row) => value(row) === null)];
  }
  benchmark.table.classList.toggle("sorted", Boolean(sorted));
  for (const row of rows) benchmark.bodies.get(row).hidden = !wanted(row);
  benchmark.table.append(...rows.map((row) => benchmark.bodies.get(row)));
  const chart = comparison(rows.filter(wanted));
  benchmark.compare.replaceChildren(chart ?? "");
  benchmark.below.classList.toggle("two", chart !== null);
}

/** Whether the filters let a row through: every word must be found. */
function wanted(row) {
  if (state.family && row.family !== state.family) return false;
  const text = `${row.name} ${row.title} ${row.family}`.toLowerCase();
  const words = state.text.toLowerCase().split(/\s+/);
  return words.every((word) => text.includes(word));
}
