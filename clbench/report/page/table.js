// One section per benchmark: its table, what may be done with it, and the methods side by side.

/** The columns of a table as they are shown now: how each reads, sorts and is explained. */
function shownColumns(benchmark) {
  const compared = benchmark.rows.some((row) => row.published);
  const list = [];
  for (const { key, heading, formula, best } of DATA.columns) {
    if (!state.columns.has(key)) continue;
    list.push({
      key,
      heading: key === "time" ? `time ${benchmark.unit}` : heading,
      formula,
      best,
      text: (row) => row.values[key][0],
      value: (row) => row.values[key][1],
      bold: (row) => row.best.includes(key),
    });
    if (compared && key !== "intransigence") list.push(...publishedColumn(key));
    if (compared && key === "replay") list.push(...publishedColumn("mb"));
  }
  if (compared && asksIntransigence()) list.push(...publishedColumn("intransigence"));
  if (compared) list.push(...publishedColumn("word"));
  list.push({
    key: "seeds",
    heading: "seeds",
    best: 1,
    formula: "Seeds: runs that are done, and so in the mean.",
    text: (row) => `${row.seeds}`,
    value: (row) => row.seeds,
    bold: () => false,
  });
  return list;
}

/** Whether one of its columns is shown: the paper has one number for all of them. */
const asksIntransigence = () => [...state.columns].some((key) => key.includes("intransigence"));

/** What the paper has for a measured column, or its `word` on the row; nothing for most. */
function publishedColumn(name) {
  const value = ({ published }) => {
    if (name === "word") return published?.verdict ?? null;
    if (name === "bwt" && published?.zero) return 0;
    if (name === "mb" && published) return published.arch + published.replay || null;
    return published?.[name] ?? null;
  };
  return DATA.paper
    .filter(({ key }) => key === `paper-${name}`)
    .map((column) => ({
      ...column,
      best: name === "word" ? 0 : 1,
      published: true,
      bold: () => false,
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
  if (benchmark.title !== benchmark.name) head.append(" ", el("code", {}, benchmark.name));
  const box = el(
    "section",
    { id: `benchmark-${number}`, class: "benchmark", "aria-labelledby": head.id },
    el(
      "div",
      { class: "bar" },
      head,
      el(
        "span",
        { class: "actions" },
        action(`copy-${number}`, "Copy LaTeX", benchmark, copy),
        action(`csv-${number}`, "Download CSV", benchmark, download),
      ),
    ),
  );
  const columns = shownColumns(benchmark);
  const table = el(
    "table",
    { class: "main" },
    el(
      "caption",
      { class: "hidden" },
      `${called(benchmark)}: one row per method. Headings sort, names open details.`,
    ),
    el(
      "thead",
      // a heading that is reached by key must not stay half under the first column
      { focusin: ({ target }) => target.scrollIntoView({ block: "nearest", inline: "nearest" }) },
      el(
        "tr",
        {},
        heading(benchmark, {
          key: "method",
          heading: "method",
          best: 0,
          formula: "As typed after --methods; open a row for its runs.",
        }),
        ...columns.map((c) => heading(benchmark, c)),
      ),
    ),
  );
  benchmark.bodies = new Map(benchmark.rows.map((row) => [row, tableRow(benchmark, row, columns)]));
  benchmark.table = table;
  benchmark.compare = el("div", { class: "compare", id: `compare-${number}` });
  const formulas = [false, true].flatMap((published) =>
    columns.filter((c) => Boolean(c.published) === published).map((c) => c.formula),
  );
  const warnings = [
    ...benchmark.warnings,
    ...Object.entries(benchmark.column_warnings)
      .filter(([key]) => state.columns.has(key))
      .flatMap(([, list]) => list),
  ];
  box.append(
    el(
      "div",
      {
        class: "frame scroll",
        id: `frame-${number}`,
        tabindex: "0",
        role: "region",
        "aria-label": `Table of ${called(benchmark)}`,
      },
      table,
    ),
  );
  const said = el("div", { class: "words" });
  if (warnings.length)
    said.append(
      el(
        "ul",
        { class: "warnings", "aria-label": "Warnings" },
        ...warnings.map((text) => el("li", {}, ...breakable(text))),
      ),
    );
  const meanings = [benchmark.matrix, ...new Set(formulas), benchmark.bold];
  const remarks = benchmark.remarks[Number(asksIntransigence())];
  for (const paragraph of [benchmark.caption, meanings, remarks])
    if (paragraph.length) said.append(el("p", { class: "caption" }, paragraph.join(" ")));
  benchmark.below = el("div", { class: "below" }, benchmark.compare, said);
  box.append(benchmark.below);
  arrange(benchmark);
  return box;
}

/** A button of a benchmark's own, so that a list of all buttons tells them apart. */
function action(id, text, benchmark, act) {
  const label = `${text}: ${called(benchmark)}`;
  const click = () => act(benchmark);
  return el("button", { type: "button", id, "aria-label": label, click }, text);
}

function heading(benchmark, column) {
  const sorted = state.sort[benchmark.name];
  const now = sorted?.key === column.key ? sorted.direction : 0;
  const direction = { 1: "ascending", "-1": "descending" }[now];
  return el(
    "th",
    {
      scope: "col",
      "aria-sort": direction ?? "none",
      class: column.published ? "published" : null,
    },
    el(
      "button",
      {
        type: "button",
        id: `sort-${DATA.benchmarks.indexOf(benchmark)}-${column.key}`,
        title: column.formula,
        "data-column": column.key,
        click: () => sortBy(benchmark, column),
      },
      column.heading,
      el(
        "span",
        { class: "arrow", "aria-hidden": "true" },
        { 1: " \u25b2", "-1": " \u25bc" }[now] ?? "",
      ),
    ),
  );
}

/** The better end first, then the other, then the table's own order. */
function sortBy(benchmark, column) {
  const first = column.best > 0 ? -1 : 1;
  const now = state.sort[benchmark.name];
  if (now?.key !== column.key) state.sort[benchmark.name] = { key: column.key, direction: first };
  else if (now.direction === first) now.direction = -first;
  else delete state.sort[benchmark.name];
  const head = benchmark.table.tHead.rows[0];
  head.replaceChildren(
    heading(benchmark, {
      key: "method",
      heading: "method",
      best: 0,
      formula: head.cells[0].firstElementChild.title,
    }),
    ...shownColumns(benchmark).map((c) => heading(benchmark, c)),
  );
  head.querySelector(`[data-column="${column.key}"]`).focus();
  arrange(benchmark);
}

function tableRow(benchmark, row, columns) {
  const id = `row-${row.runs[0].id}`;
  const body = el("tbody", { class: row.rule ? "rule" : null });
  const button = el(
    "button",
    {
      type: "button",
      id,
      class: "open",
      "aria-expanded": "false",
      click: () => openRow(benchmark, row, !state.open.has(id)),
    },
    el("span", {}, ...breakable(row.name)),
  );
  const title = row.title.toLowerCase() === row.name.toLowerCase() ? "" : row.title;
  const about = [title, row.family].filter(Boolean).join(", ");
  const link =
    row.runs.length === 1
      ? `#run-${encodeURIComponent(row.runs[0].id)}`
      : `#${encodeURIComponent(id)}`;
  body.append(
    el(
      "tr",
      {},
      el("th", { scope: "row" }, button, el("span", { class: "about" }, about)),
      ...columns.map((column) => {
        const text = column.text(row);
        // the row's button is the stop for the Tab key; these links are for pointers and readers
        const inside = text
          ? el("a", { href: link, tabindex: "-1", "data-key": column.key }, ...clauses(text))
          : "";
        return el(
          "td",
          { class: column.published ? `published ${column.key}` : null },
          column.bold(row) ? el("strong", {}, inside) : inside,
        );
      }),
    ),
  );
  if (state.open.has(id)) body.append(detailLine(benchmark, row, columns.length + 1));
  button.setAttribute("aria-expanded", `${state.open.has(id)}`);
  return body;
}

const detailLine = (benchmark, row, span) =>
  el("tr", { class: "details" }, el("td", { colspan: span }, rowDetails(benchmark, row)));

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
    const column = shownColumns(benchmark).find((c) => c.key === sorted.key);
    const value = column ? column.value : (row) => row.name;
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
  return state.text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
