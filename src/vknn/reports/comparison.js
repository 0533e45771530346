// A comparison of profiles: the whole, what made the difference, and a row for each layer.

const data = JSON.parse(document.getElementById("data").textContent);
const WORDS = { slower: "e3", faster: "e0" };
const MOST_STEPS = 20;
const US = 1e6;

function shade(row) {
  return WORDS[row.word] || "c8";
}

function nameOf(row) {
  return row.layers.join(", ") || "the whole";
}

function signedText(seconds) {
  return `${seconds < 0 ? "−" : "+"}${timeText(Math.abs(seconds) * US)}`;
}

function secondsText(seconds) {
  return seconds === null ? "" : timeText(seconds * US);
}

function intervalText(row) {
  return row.low === null ? "" : `${fixed(row.low, 3)} to ${fixed(row.high, 3)}`;
}

function verdictText(row) {
  const ratio = row.ratio === null ? "" : `, ratio ${fixed(row.ratio, 3)}`;
  const interval = row.low === null ? "" : `, 95 % interval ${intervalText(row)}`;
  return `${nameOf(row)}: ${row.word}, ${signedText(row.difference)}${ratio}${interval}`;
}

function card(name, value, id) {
  return el("div", { class: "card" }, el("span", { class: "faint" }, name), el("strong", { "data-whole": id }, value));
}

function wholeSection() {
  const whole = data.whole;
  const cards = el("div", { class: "cards" }, card("a plain run, before", secondsText(whole.before), "before"), card("after", secondsText(whole.after), "after"), card("ratio", whole.ratio === null ? "" : fixed(whole.ratio, 3), "ratio"), card("95 % interval", intervalText(whole), "interval"), card("in a word", whole.word, "word"));
  const counted = [...new Set(data.units)].join(" and ");
  const parts = Object.entries(data.parts).map(([name, [before, after]]) => [name, secondsText(before), secondsText(after), signedText(after - before)]);
  const table = el("table", { id: "parts" }, el("thead", {}, el("tr", {}, ...["a run", "before", "after", "difference"].map((name, i) => el("th", { class: i ? "number" : "text" }, name)))), el("tbody", {}, ...parts.map((cells) => el("tr", {}, ...cells.map((cell, i) => el("td", { class: i ? "number" : "text" }, cell))))));
  return section("whole", "The whole", cards, el("p", { class: "about" }, `Of ${counted} ${data.unit}.`), ...data.notes.map((note) => el("p", { class: "warning" }, note)), table);
}

// The largest differences in their order in the plan, and the rest as one.
function steps() {
  const known = data.rows.map((row, place) => ({ row, place })).filter(({ row }) => row.difference !== 0);
  known.sort((a, b) => Math.abs(b.row.difference) - Math.abs(a.row.difference));
  const shown = known.slice(0, MOST_STEPS).sort((a, b) => a.place - b.place).map(({ row }) => ({ name: nameOf(row), by: row.difference, shade: shade(row), words: verdictText(row), rows: [row] }));
  const left = known.slice(MOST_STEPS);
  const rest = sum(left.map(({ row }) => row.difference));
  if (left.length) shown.push({ name: `${left.length} others`, by: rest, shade: "c8", words: `${left.length} others: ${signedText(rest)}`, rows: left.map(({ row }) => row) });
  return shown;
}

function drawWaterfall(svg, width) {
  const before = sum(data.rows.map((row) => row.before || 0));
  const after = sum(data.rows.map((row) => row.after || 0));
  const bars = [{ name: "before", from: 0, to: before, shade: "whole", words: `before: ${secondsText(before)}` }];
  let at = before;
  for (const step of steps()) {
    bars.push({ ...step, from: at, to: at + step.by });
    at += step.by;
  }
  bars.push({ name: "after", from: 0, to: after, shade: "whole", words: `after: ${secondsText(after)}` });
  // What changes is small beside the whole: the axis begins near the lowest end of a step.
  const ends = bars.flatMap((bar) => [bar.to, bar.from]).filter((end) => end > 0);
  const high = Math.max(...ends, 1e-12);
  const least = Math.min(...ends, high);
  const low = Math.max(0, least - (high - least) * 0.6);
  const left = Math.min(280, width * 0.36);
  const place = (seconds) => left + ((width - left - 90) * (Math.max(seconds, low) - low)) / (high - low || 1);
  return bars.map((bar, i) => {
    const y = 22 * i;
    const [x1, x2] = [place(Math.min(bar.from, bar.to)), place(Math.max(bar.from, bar.to))];
    const value = bar.shade === "whole" ? secondsText(bar.to) : signedText(bar.by);
    const node = el("svg:g", {}, rect(0, y, width, 21, "ghost"), rect(x1, y + 3, Math.max(1.5, x2 - x1), 15, bar.shade), fitted(0, y + 15, left - 4, bar.name, {}), el("svg:text", { x: x2 + 5, y: y + 15, class: "tick" }, value));
    svg.append(node);
    const rows = bar.rows || [];
    return { node, words: bar.words, commands: rows, enter: () => rows.length && selection.set(rows[0]) };
  });
}

function waterfallSection() {
  const host = el("div", {});
  const count = Math.min(data.rows.filter((row) => row.difference !== 0).length, MOST_STEPS + 1) + 2;
  drawLate(host, () => chart(host, "What made the difference", 22 * count, drawWaterfall).redraw());
  const legend = el("p", { class: "legend" }, ...[["e3", "slower"], ["e0", "faster"], ["c8", "may be chance"]].map(([name, word]) => el("span", { class: "key" }, swatch(name), word)));
  return section("waterfall", "What made the difference", legend, el("p", { class: "about" }, "Medians of dispatches, from their sum before to that after: the largest differences, in the order of the plan. The axis does not begin at 0 where differences are small."), host);
}

const COLUMNS = [
  ["layers", "text", (row) => nameOf(row), (row) => nameOf(row)],
  ["kernels before", "text", (row) => row.kernels[0].join(" "), (row) => row.kernels[0].join(" ")],
  ["kernels after", "text", (row) => row.kernels[1].join(" "), (row) => row.kernels[1].join(" ")],
  ["before µs", "number", (row) => row.before ?? -1, (row) => (row.before === null ? "" : fixed(row.before * US, 1))],
  ["after µs", "number", (row) => row.after ?? -1, (row) => (row.after === null ? "" : fixed(row.after * US, 1))],
  ["difference µs", "number", (row) => row.difference, (row) => fixed(row.difference * US, 1)],
  ["ratio", "number", (row) => row.ratio ?? -1, (row) => fixed(row.ratio, 3)],
  ["95 % interval", "number", (row) => row.low ?? -1, intervalText],
  ["p", "number", (row) => row.p, (row) => (row.ratio === null ? "" : row.p.toPrecision(2))],
  ["word", "text", (row) => row.word, (row) => row.word, (row) => (row.word === "slower" ? "warning" : "")],
];

function layersSection() {
  const told = el("p", { class: "told status", id: "row-told", "aria-live": "polite" });
  const layers = grid("layers-table", "Layers", COLUMNS, data.rows, (row) => selection.set(row));
  selection.listen((row) => {
    const [before, after] = row.kernels.map((names) => names.join(" ") || "none");
    told.textContent = `${verdictText(row)}; kernels: ${before === after ? before : `${before}, then ${after}`}`;
    layers.choose(row);
  });
  return section("layers", "Layers", told, layers.node);
}

const names = [["whole", "The whole"], ["waterfall", "What made the difference"], ["layers", "Layers"]];
const lines = el("dl", {}, ...[["before", data.before], ["after", data.after]].flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
const nav = el("nav", { class: "parts", "aria-label": "Parts" }, ...names.map(([id, name]) => el("a", { href: `#${id}` }, name)));
document.getElementById("report").append(el("header", {}, el("h1", {}, `${data.whole.word}: a comparison of profiles`), lines), nav, el("main", { class: "alone" }, wholeSection(), waterfallSection(), layersSection()), hint);
window.addEventListener("beforeprint", () => late.forEach((host) => host.drawNow()));
requestAnimationFrame(() => performance.mark("vknn-drawn"));
