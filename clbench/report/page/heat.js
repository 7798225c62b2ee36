// Heat maps: the pointer or the arrow keys move over the cells, a line below says the value.

/** R as a table of coloured cells. `low` and `high` are the ends of the benchmark's scale. */
function heatMap(R, low, high) {
  const n = Math.max(R.length, ...R.map((row) => row.length));
  const roomy = n <= 10;
  const fine = n > 25; // has room for every fifth number only
  const number = (k) => el("span", { class: fine && k > 1 && k % 5 ? "hidden" : null }, `${k}`);
  const readout = el(
    "p",
    { class: "readout", "aria-live": "polite" },
    "Point at a cell, or move over them with the arrow keys.",
  );
  const cells = [];
  const body = el("tbody");
  for (let k = 0; k < R.length; k++) {
    const line = el(
      "tr",
      { role: "row" },
      el("th", { scope: "row", role: "rowheader" }, number(k + 1)),
    );
    cells.push([]);
    for (let i = 0; i < n; i++) {
      const value = isNumber(R[k][i]) ? R[k][i] : null;
      const text = value === null ? "" : show(value, n <= 5 ? 2 : 1);
      const label = roomy ? text : el("span", { class: "hidden" }, text);
      const cell = el("td", { role: "gridcell", tabindex: k || i ? "-1" : "0" }, label);
      if (value !== null && i <= k) {
        const part = (value - low) / (high - low);
        cell.style.backgroundColor = scaleColour(part);
        cell.style.color = part > 0.43 ? "#000" : "#fff"; // each at least 4.5 : 1
      } else {
        cell.className = value === null ? "none" : "before";
      }
      cell.addEventListener("focus", () => tell(k, i));
      cell.addEventListener("pointerenter", () => tell(k, i));
      cells[k].push(cell);
      line.append(cell);
    }
    body.append(line);
  }

  function tell(k, i) {
    const value = R[k][i];
    let text = `After task ${k + 1}, task ${i + 1}: `;
    if (!isNumber(value)) text += "not measured";
    else if (i > k) text += `${show(value)} %, before it was learned`;
    else {
      text += `${show(value)} %`;
      if (i < k && isNumber(R[i][i])) text += `, ${change(value - R[i][i])} since it was learned`;
    }
    readout.textContent = text;
    for (const cell of body.querySelectorAll(".at")) cell.classList.remove("at");
    cells[k][i].classList.add("at");
  }

  const heads = Array.from({ length: n }, (_, i) =>
    el("th", { scope: "col", role: "columnheader" }, number(i + 1)),
  );
  const table = el(
    "table",
    {
      class: `heat${roomy ? "" : " dense"}${fine ? " fine" : ""}`,
      role: "grid",
      "aria-label": "Test accuracy in percent: rows are after learning a task, columns are tasks",
      keydown: (event) => {
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
        const cell = to && cells[to[0]]?.[to[1]];
        if (!to) return;
        event.preventDefault();
        if (!cell) return;
        cells[k][i].tabIndex = -1;
        cell.tabIndex = 0;
        cell.focus();
      },
    },
    el(
      "thead",
      {},
      el(
        "tr",
        { role: "row" },
        el("th", { class: "corner", role: "columnheader" }, "after \\ task"),
        ...heads,
      ),
    ),
    body,
  );
  const ramp = el("span", { class: "ramp", "aria-hidden": "true" });
  const stops = Array.from({ length: 9 }, (_, i) => scaleColour(i / 8));
  ramp.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  return el(
    "figure",
    {},
    el("figcaption", {}, "R: accuracy (%) on each task, after each task"),
    el("div", { class: "scroll" }, table),
    el("p", { class: "legend" }, `${show(low, 0)} %`, ramp, `${show(high, 0)} %`),
    readout,
  );
}

const change = (points) =>
  Number(points.toFixed(2)) === 0
    ? "unchanged"
    : `${points < 0 ? "\u2212" : "+"}${show(Math.abs(points))} points`;
