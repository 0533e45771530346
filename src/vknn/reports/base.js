"use strict";

// Elements, numbers as text, and the one thing that all parts share: what is selected.

const SVG = "http://www.w3.org/2000/svg";

// An element; "svg:rect" one of SVG. Children are elements or texts, and texts stay texts: names
// come from model files and are untrusted.
function el(tag, attributes, ...children) {
  const node = tag.startsWith("svg:")
    ? document.createElementNS(SVG, tag.slice(4))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    } else if (name === "style") Object.assign(node.style, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const formats = [0, 1, 2, 3].map(
  (digits) =>
    new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })
);

function fixed(value, digits) {
  return value === null || value === undefined ? "" : formats[digits].format(value);
}

function timeText(us) {
  if (us < 1e3) return `${fixed(us, 1)} µs`;
  return us < 1e6 ? `${fixed(us / 1e3, 2)} ms` : `${fixed(us / 1e6, 3)} s`;
}

function bytesText(bytes) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; bytes >= 1024 && unit < units.length - 1; unit++) bytes /= 1024;
  return `${fixed(bytes, unit ? 1 : 0)} ${units[unit]}`;
}

// The first characters of a text, whole ones: emoji are pairs.
function cut(text, length) {
  if (text.length <= length) return text;
  return length < 2 ? "" : `${Array.from(text.slice(0, length)).slice(0, length - 1).join("")}…`;
}

function sum(values) {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

const selection = {
  command: null,
  heard: [],
  listen(act) {
    this.heard.push(act);
  },
  set(command) {
    this.command = command;
    for (const act of this.heard) act(command);
  },
};

// Names with their values, those that have one.
function pairs(lines) {
  return el("dl", {}, ...lines.filter(([, value]) => value !== "" && value !== null && value !== undefined).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

// A colour's place in a legend.
function swatch(name) {
  return el("svg:svg", { width: 12, height: 12, "aria-hidden": "true" }, el("svg:rect", { width: 12, height: 12, class: name }));
}

// Choices in a row, of which one is on.
function choices(label, names, chosen, act) {
  const options = names.map(([value, name]) =>
    el("option", { value, selected: value === chosen }, name)
  );
  const select = el("select", { on: { change: () => act(select.value) } }, ...options);
  return el("label", { class: "choice" }, `${label} `, select);
}

function section(id, title, ...children) {
  return el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), ...children);
}

// Parts are drawn when they come near the screen, and all of them before the page is printed.
const late = [];
const watcher = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) if (entry.isIntersecting) drawSoon(entry.target);
  },
  { rootMargin: "300px" }
);

// One part a task, so that the page answers in between.
const coming = [];

function drawSoon(host) {
  coming.push(host);
  if (coming.length === 1) setTimeout(drawNext);
}

function drawNext() {
  coming.shift().drawNow();
  if (coming.length) setTimeout(drawNext);
}

function drawLate(host, draw) {
  host.drawNow = () => {
    watcher.unobserve(host);
    if (!host.drawn) {
      host.drawn = true;
      host.classList.remove("late");
      draw();
    }
  };
  host.classList.add("late"); // room, so that what is below stays where it is
  late.push(host);
  watcher.observe(host);
}
