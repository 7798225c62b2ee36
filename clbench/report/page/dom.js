"use strict";
// What all parts of the page share: making elements, colours, numbers.
// A name out of a record only ever enters the page as a text node or an attribute's value.

/**
 * An element: `el("p.note", { title: "x" }, "text")`, with or without attributes. Functions among
 * the attributes are event listeners; other children than elements become text.
 */
const el = (kind, ...rest) => fill(document.createElement(kind.split(".")[0]), kind, rest);
const svg = (kind, ...rest) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", kind.split(".")[0]), kind, rest);

function fill(node, kind, rest) {
  const classes = kind.split(".").slice(1);
  if (classes.length) node.setAttribute("class", classes.join(" "));
  const attributes = rest[0]?.constructor === Object ? rest.shift() : {};
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value != null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...rest.filter((child) => child != null));
  return node;
}

const byId = (id) => document.getElementById(id);
const isNumber = (value) => typeof value === "number";
const isDark = () => document.documentElement.dataset.theme === "dark";
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** A number with the minus sign and spacing of the tables; a dash for none. */
function show(value, digits = 2) {
  if (!isNumber(value)) return "\u2013";
  const text = value.toFixed(digits);
  return Number(text) === 0 ? (0).toFixed(digits) : text;
}

/** A difference: with its sign, as the other formats print it. */
const signed = (value, digits) => `${value < 0 ? "" : "+"}${value.toFixed(digits)}`;

/** Any value of a record as text. */
function words(value) {
  if (value === null) return "none";
  if (isNumber(value)) return String(Number(value.toPrecision(12)));
  return Array.isArray(value) ? value.map(words).join(" ") : String(value);
}

/** A long name with places where a line may break: after a bracket or a comma. */
function breakable(name) {
  return name.split(/(?<=[,[])/).flatMap((part, i) => (i ? [el("wbr"), part] : [part]));
}

/** A text that may break before its parenthesis, not inside. */
function clauses(text) {
  const [first, ...rest] = text.split(/ (?=\()/);
  return [first, ...rest.flatMap((part) => [" ", el("span", part)])];
}

/** {a: {b: 1}} -> [["a.b", 1]] */
function flat(value, path = "") {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return [[path, value]];
  return Object.entries(value).flatMap(([key, inner]) =>
    flat(inner, path ? `${path}.${key}` : key),
  );
}

/** Say something to everyone: shown for a moment, and read out by a screen reader. */
function say(text) {
  const place = byId("said");
  place.textContent = text;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => (place.textContent = ""), 6000);
}

// Viridis: its lightness only grows, so it can be read without colour, too.
const VIRIDIS = [
  [68, 1, 84], [71, 45, 123], [59, 82, 139], [44, 114, 142], [33, 145, 140], [40, 174, 128],
  [94, 201, 98], [173, 220, 48], [253, 231, 37],
];

/** The colour at `part` (0 to 1) of the scale. */
function scaleColour(part) {
  const at = Math.min(Math.max(part, 0), 1) * (VIRIDIS.length - 1);
  const low = VIRIDIS[Math.floor(at)];
  const high = VIRIDIS[Math.ceil(at)];
  const mixed = low.map((value, i) => Math.round(value + (high[i] - value) * (at % 1)));
  return `rgb(${mixed.join(", ")})`;
}

/** The colour of task `i` of `n` as a line: the part of the scale that stands out from the page. */
function taskColour(i, n) {
  const part = n > 1 ? i / (n - 1) : 0;
  return scaleColour(isDark() ? 0.42 + 0.58 * part : 0.6 * part);
}

/** A strip of colours between the words for its two ends; `colour` takes 0 to 1. */
function ramp(from, to, colour) {
  const strip = el("span.ramp", { "aria-hidden": "true" });
  const stops = Array.from({ length: 9 }, (_, i) => colour(i / 8));
  strip.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  return el("p.legend", from, strip, to);
}

const readout = (text) => el("p.readout", { "aria-live": "polite" }, text);

// Okabe and Ito's colours, with dashes so that lines differ without colour, too.
const LIGHT = "#0072b2 #d55e00 #00805c #b04f86 #8a6100 #333333 #2b83b5 #7a4fb5".split(" ");
const DARK = "#56b4e9 #ff8c42 #2bc79a #e69ac4 #f0b429 #e8e8e8 #9cd3f5 #b79cf0".split(" ");
const DASHES = [null, "7 3", "2 3", "9 3 2 3", "4 2"];

const lineStyle = (i) => ({
  colour: (isDark() ? DARK : LIGHT)[i % LIGHT.length],
  dash: DASHES[i % DASHES.length],
});
