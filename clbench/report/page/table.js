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
    if (compared && (key === "acc" || key === "bwt")) list.push(publishedColumn(key, heading));
  }
  if (compared)
    list.push({
      key: "verdict",
      heading: "verdict",
      best: 0,
      bold: () => false,
      formula: "What was measured here, beside what was published.",
      published: true,
      text: (row) => row.published?.verdict ?? "",
      value: (row) => row.published?.verdict ?? null,
    });
  list.push({
    key: "seeds",
    heading: "seeds",
    best: 1,
    formula: "Runs that are done, and so in the mean.",
    text: (row) => `${row.seeds}`,
    value: (row) => row.seeds,
    bold: () => false,
  });
  return list;
}

function publishedColumn(key, heading) {
  const number = (row) => (isNumber(row.published?.[key]) ? row.published[key] : null);
  return {
    key: `published-${key}`,
    heading: `published ${heading}`,
    best: 1,
    published: true,
    formula: "As printed in the paper that the row's details name.",
    bold: () => false,
    value: number,
    text: (row) =>
      number(row) === null
        ? ""
        : show(number(row)) +
          (isNumber(row.published[`${key}_std`])
            ? ` \u00b1 ${show(row.published[`${key}_std`])}`
            : ""),
  };
}

function section(benchmark) {
  const head = el("h2", { tabindex: "-1" }, benchmark.title);
  if (benchmark.title !== benchmark.name) head.append(" ", el("code", {}, benchmark.name));
  const box = el(
    "section",
    { id: `benchmark-${DATA.benchmarks.indexOf(benchmark)}`, class: "benchmark" },
    el(
      "div",
      { class: "bar" },
      head,
      el(
        "span",
        { class: "actions" },
        el("button", { type: "button", class: "copy", click: () => copy(benchmark) }, "Copy LaTeX"),
        el(
          "button",
          { type: "button", class: "csv", click: () => download(benchmark) },
          "Download CSV",
        ),
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
      `${benchmark.title}: one row per method. Headings sort, names open details.`,
    ),
    el(
      "thead",
      {},
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
  benchmark.compare = el("div", { class: "compare" });
  const formulas = [
    benchmark.matrix,
    ...new Set(DATA.columns.filter((c) => state.columns.has(c.key)).map((c) => c.formula)),
  ];
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
        tabindex: "0",
        role: "region",
        "aria-label": `Table of ${benchmark.title}`,
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
        ...warnings.map((text) => el("li", {}, text)),
      ),
    );
  for (const paragraph of [benchmark.caption, [...formulas, benchmark.bold]])
    said.append(el("p", { class: "caption" }, paragraph.join(" ")));
  benchmark.below = el("div", { class: "below" }, benchmark.compare, said);
  box.append(benchmark.below);
  arrange(benchmark);
  return box;
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
          ? el("a", { href: link, tabindex: "-1", "data-key": column.key }, text)
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
