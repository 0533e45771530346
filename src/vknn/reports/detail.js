// All that is known of the dispatch that is selected.

const COMPILED = [
  ["registers", "registers"], ["spills", "spills"], ["scratch", "scratch, bytes"], ["shared", "shared memory, bytes"],
  ["waves", "waves"], ["code", "code, bytes"], ["instructions", "instructions"],
];

function detailPanel() {
  const panel = el("aside", { id: "detail", "aria-label": "Selected dispatch", "aria-live": "polite" }, el("p", { class: "about" }, "Select a dispatch in the table or in a chart."));
  selection.listen((c) => panel.replaceChildren(...detailParts(c).filter(Boolean)));
  return panel;
}

function detailParts(c) {
  const rate = (amount, unit) => (amount && c.median ? `${fixed(amount / c.median / 1e3, 2)} ${unit}` : "");
  return [
    el("h2", {}, c.layer),
    pairs([["dispatch", String(c.index)], ["op", c.op], ["what", c.label], ["kernel", c.kernel], ["groups", c.groups]]),
    el("h3", {}, "Measured"),
    pairs([[MIDDLE, timeText(c.median)], ["least, most", data.means === null ? `${timeText(c.least)}, ${timeText(c.most)}` : ""], ["share", `${fixed(100 * c.share, 2)} %`], ["arithmetic", rate(c.flops, "GFLOP/s")], ["memory", rate(c.nbytes, "GB/s")]]),
    samplesChart(c),
    ...(c.saved === null ? [] : [el("h3", {}, "Ceiling"), el("p", {}, ceilingWords(c))]),
    ...compiledParts(c),
    el("p", {}, ...(data.means === null ? [el("a", { href: "#source" }, "source"), " · ", el("a", { href: "#memory" }, "memory"), " · "] : []), el("a", { href: "#roofline" }, "roofline")),
  ];
}

// Each run a tick, from the shortest to the longest.
function samplesChart(c) {
  if (!c.samples || c.samples.length < 2) return null;
  const [width, span] = [300, c.most - c.least || 1];
  const svg = el("svg:svg", { class: "samples", viewBox: `0 0 ${width} 24`, role: "img", "aria-label": `${c.samples.length} runs from ${timeText(c.least)} to ${timeText(c.most)}` });
  const x = (value) => 4 + ((value - c.least) / span) * (width - 8);
  svg.append(line(4, 12, width - 4, 12, "grid"));
  for (const value of c.samples) svg.append(line(x(value), 4, x(value), 20, "sample"));
  svg.append(line(x(c.median), 0, x(c.median), 24, "now"));
  return svg;
}

function compiledParts(c) {
  if (!c.compiled) return [];
  const numbers = COMPILED.map(([id, name]) => [name, c.compiled[id] === undefined ? "" : fixed(c.compiled[id], 0)]);
  const modelled = c.compiled.modelled === undefined ? [] : [["modelled", `${timeText(c.compiled.modelled)} beside ${timeText(c.median)} measured`], ["bound by", c.compiled.bound]];
  const driver = Object.entries(c.compiled.statistics || {}).map(([name, value]) => [name, String(value)]);
  if (!numbers.some(([, value]) => value) && !modelled.length && !driver.length && !c.compiled.flags) return [];
  return [
    el("h3", {}, "Compiled"),
    c.spills ? el("p", { class: "warning" }, "⚠ spills: it keeps values in memory that found no room in registers") : null,
    c.compiled.flags ? el("p", { class: "warning" }, c.compiled.flags.join(", ")) : null,
    pairs([...numbers, ...modelled]),
    driver.length ? el("details", {}, el("summary", {}, "the driver's own numbers"), pairs(driver)) : null,
  ];
}
