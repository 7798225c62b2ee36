// Heat maps: the pointer or the arrow keys move over the cells, a line below says the value.

/** What the heat map of R says; `tell` is the sentence for a cell. */
const ofAccuracies = (R) => ({
  caption: "R: accuracy (%) on each task, after each task",
  corner: "after \\ task",
  label: "Test accuracy in percent: rows are after learning a task, columns are tasks",
  before: true, // cells right of the diagonal were tested before the task was learned
  tell(k, i) {
    const value = R[k][i];
    let text = isNumber(value) ? `${show(value)} %` : "not measured";
    if (isNumber(value) && i > k) text += ", before it was learned";
    if (isNumber(value) && i < k && isNumber(R[i][i]))
      text += `, ${change(value - R[i][i])} since it was learned`;
    return `After task ${k + 1}, task ${i + 1}: ${text}`;
  },
});

/** What the heat map of the confusion between tasks says. */
const ofConfusion = (shares) => ({
  caption: "Answers (%) on the samples of each task, by the task of the answer, after the last task",
  corner: "sample \\ answer",
  label: "Percentage of answers: rows are tasks of the samples, columns tasks of the answers",
  before: false,
  tell: (k, i) =>
    `Samples of task ${k + 1}: ${show(shares[k][i])} % of the answers are classes of task ${i + 1}`,
});

/** Percentages as a table of coloured cells. `low` and `high` are the ends of the scale. */
function heatMap(R, low, high, words = ofAccuracies(R)) {
  const n = Math.max(R.length, ...R.map((row) => row.length));
  const roomy = n <= 10;
  const fine = n > 25; // has room for every fifth number only
  const number = (k) => el("span", { class: fine && k > 1 && k % 5 ? "hidden" : null }, `${k}`);
  const told = readout("Point at a cell, or move over them with the arrow keys.");
  const body = el("tbody");
  const cells = R.map((_, k) => Array.from({ length: n }, (_, i) => heatCell(k, i)));
  cells.forEach((line, k) => {
    const head = el("th", { scope: "row", role: "rowheader" }, number(k + 1));
    body.append(el("tr", { role: "row" }, head, ...line));
  });

  function heatCell(k, i) {
    const value = R[k][i] ?? null;
    const text = value === null ? "" : show(value, n <= 5 ? 2 : 1);
    const cell = el(
      "td",
      {
        role: "gridcell",
        tabindex: k || i ? "-1" : "0",
        focus: () => tell(k, i),
        pointerenter: () => tell(k, i),
      },
      roomy ? text : el("span.hidden", text),
    );
    if (value !== null && (i <= k || !words.before)) {
      const part = (value - low) / (high - low);
      cell.style.backgroundColor = scaleColour(part);
      cell.style.color = part > 0.43 ? "#000" : "#fff"; // each at least 4.5 : 1
    } else if (value !== null) cell.className = "before";
    return cell;
  }

  function tell(k, i) {
    told.textContent = words.tell(k, i);
    for (const cell of body.querySelectorAll(".at")) cell.classList.remove("at");
    cells[k][i].classList.add("at");
  }

  function move(event) {
    const k = cells.findIndex((line) => line.includes(document.activeElement));
    if (k < 0) return;
    const i = cells[k].indexOf(document.activeElement);
    const to = {
      ArrowUp: [k - 1, i],
      ArrowDown: [k + 1, i],
      ArrowLeft: [k, i - 1],
      ArrowRight: [k, i + 1],
      Home: [k, 0],
      End: [k, n - 1],
    }[event.key];
    if (!to) return;
    event.preventDefault();
    const cell = cells[to[0]]?.[to[1]];
    if (!cell) return;
    cells[k][i].tabIndex = -1;
    cell.tabIndex = 0;
    cell.focus();
  }

  const heads = Array.from({ length: n }, (_, i) =>
    el("th", { scope: "col", role: "columnheader" }, number(i + 1)),
  );
  const corner = el("th.corner", { role: "columnheader" }, words.corner);
  const table = el(
    "table",
    {
      class: `heat${roomy ? "" : " dense"}${fine ? " fine" : ""}`,
      role: "grid",
      "aria-label": words.label,
      keydown: move,
    },
    el("thead", el("tr", { role: "row" }, corner, ...heads)),
    body,
  );
  return el(
    "figure",
    el("figcaption", words.caption),
    el("div.scroll", table),
    ramp(`${show(low, 0)} %`, `${show(high, 0)} %`, scaleColour),
    told,
  );
}

const change = (points) =>
  Number(points.toFixed(2)) === 0
    ? "unchanged"
    : `${points < 0 ? "\u2212" : "+"}${show(Math.abs(points))} points`;
