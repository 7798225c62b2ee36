// The page as a whole: tools at the top, links to runs, copying, and news from the server.

let DATA = JSON.parse(byId("data").textContent);
const POLL = 2000; // milliseconds between two questions to the server, if there is one
const state = {
  text: "",
  family: "",
  columns: new Set(DATA.shown),
  sort: {},
  open: new Set(),
  runs: new Set(),
};

/** Where the reader is: what has the focus, and how far tables are scrolled; a way back there. */
function bookmark() {
  const active = document.activeElement;
  const entry = active?.id ? null : active?.closest("[id]");
  const place = entry && [entry.id, [...entry.querySelectorAll("*")].indexOf(active)];
  const scrolled = [...document.querySelectorAll(".frame")].map((frame) => frame.scrollLeft);
  return () => {
    const again = entry
      ? byId(place[0])?.querySelectorAll("*")[place[1]]
      : active?.id && byId(active.id);
    if (again && again !== document.activeElement) again.focus({ preventScroll: true });
    const frames = document.querySelectorAll(".frame");
    frames.forEach((frame, i) => (frame.scrollLeft = scrolled[i] ?? 0));
  };
}

function render() {
  const back = bookmark();
  const links = DATA.benchmarks.map((one, i) => el("a", { href: `#benchmark-${i}` }, called(one)));
  byId("nav").replaceChildren(...(links.length > 1 ? links : []));
  const rows = DATA.benchmarks.flatMap((benchmark) => benchmark.rows);
  const families = [...new Set(rows.map((row) => row.family))].filter(Boolean);
  if (!families.includes(state.family)) state.family = "";
  byId("family").replaceChildren(
    el("option", { value: "" }, "all"),
    ...families.map((name) => el("option", { value: name, selected: name === state.family }, name)),
  );
  byId("main").replaceChildren(...DATA.benchmarks.map(section));
  const empty = "No runs yet. They appear here as soon as one has learned its first task.";
  if (!DATA.benchmarks.length) byId("main").append(el("p.empty", empty));
  const about = DATA.version ? "; this page follows the runs" : "";
  const notes = [...DATA.notes, `Made by clbench ${DATA.clbench}${about}.`];
  byId("about").replaceChildren(...notes.map((note) => el("p", note)));
  count();
  back();
}

function count() {
  const rows = DATA.benchmarks.flatMap((benchmark) => benchmark.rows);
  const runs = rows.reduce((sum, row) => sum + row.runs.length, 0);
  const shown = rows.filter(wanted).length;
  byId("count").textContent =
    `${shown === rows.length ? "" : `${shown} of `}${rows.length} rows, ${runs} runs`;
}

function filter() {
  state.text = byId("filter").value.trim();
  state.family = byId("family").value;
  DATA.benchmarks.forEach(arrange);
  count();
}

function columnBox({ key, heading, formula }) {
  const change = ({ target }) => {
    if (target.checked) state.columns.add(key);
    else state.columns.delete(key);
    render();
  };
  const checked = state.columns.has(key);
  const box = el("input", { type: "checkbox", value: key, checked, change });
  return el("label", { title: formula }, box, ` ${heading.replace("time", "time of a run")}`);
}

/** The theme is the system's until the button is used, and then the reader's. */
function setTheme(theme) {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = theme ?? system;
  byId("theme").setAttribute("aria-pressed", `${isDark()}`);
}

/** The reader's theme, if the browser keeps it: storage may be closed to a page from disk. */
function keptTheme(chosen) {
  try {
    if (chosen) localStorage.setItem("clbench-theme", chosen);
    return localStorage.getItem("clbench-theme");
  } catch {
    return null;
  }
}

async function copy(benchmark) {
  try {
    await navigator.clipboard.writeText(benchmark.latex);
    say(`LaTeX of ${called(benchmark)} copied.`);
  } catch {
    // no permission: leave the text selected, ready for the keys that copy
    const text = el("textarea", { readonly: true, rows: "16", "aria-label": "LaTeX" });
    text.value = benchmark.latex;
    const dialog = el(
      "dialog",
      { close: () => dialog.remove() },
      el("p", "The browser does not let this page copy. Copy the selected text:"),
      text,
      el("button", { type: "button", click: () => dialog.close() }, "Close"),
    );
    document.body.append(dialog);
    dialog.showModal();
    text.select();
  }
}

function download(benchmark) {
  const address = URL.createObjectURL(new Blob([benchmark.csv], { type: "text/csv" }));
  el("a", { href: address, download: `${benchmark.file}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
  say(`CSV of ${called(benchmark)} saved.`);
}

/** Open what the address names: `#row-ID` or `#run-ID`, as the numbers in the table link to. */
function follow() {
  const target = decodeURIComponent(location.hash.slice(1));
  for (const benchmark of DATA.benchmarks)
    for (const row of benchmark.rows) {
      const run = row.runs.find((one) => target === `run-${one.id}`);
      if (!run && target !== `row-${row.runs[0].id}`) continue;
      if (run) state.runs.add(run.id);
      openRow(benchmark, row, true);
      const entry = run && byId(target);
      if (entry) entry.open = true;
      benchmark.bodies.get(row).hidden = false;
      const focus = entry ? entry.querySelector("summary") : byId(target);
      focus.scrollIntoView({ block: "nearest" });
      focus.focus({ preventScroll: true });
      return;
    }
}

/** Ask the server for newer data; whatever is open, sorted and filtered stays so. */
async function refresh() {
  try {
    const answer = await fetch(`data.json?have=${DATA.version}`, { cache: "no-store" });
    if (answer.status === 200) {
      DATA = await answer.json();
      render();
    }
    byId("about").classList.remove("lost");
  } catch {
    byId("about").classList.add("lost");
  }
  setTimeout(refresh, POLL);
}

setTheme(keptTheme());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  setTheme(keptTheme());
  render();
});
byId("theme").addEventListener("click", () => {
  const other = isDark() ? "light" : "dark";
  setTheme(keptTheme(other) ?? other);
  render();
});
byId("filter").addEventListener("input", filter);
byId("family").addEventListener("change", filter);
const chooser = byId("chooser");
document.addEventListener("click", ({ target }) => {
  if (!chooser.contains(target)) chooser.open = false;
});
document.addEventListener("keydown", ({ key }) => {
  if (key !== "Escape" || !chooser.open) return;
  chooser.open = false;
  chooser.firstElementChild.focus();
});
chooser.addEventListener("focusout", ({ relatedTarget }) => {
  // the list would cover what has the focus now
  if (relatedTarget && !chooser.contains(relatedTarget)) chooser.open = false;
});
addEventListener("hashchange", follow);
document.addEventListener("click", (event) => {
  // the same link twice is no change of the address
  if (event.target.closest?.("a[data-key]")?.hash === location.hash) follow();
});
byId("columns").append(...DATA.columns.map(columnBox));
render();
follow();
if (DATA.version) setTimeout(refresh, POLL);
