// What the page knows: commands as objects, ceilings, and what a command could reach.

const data = JSON.parse(document.getElementById("data").textContent);
const columns = data.commands;
// Times are medians, or means where vknn-run measured, which keeps nothing else.
const MIDDLE = data.means === null ? "median" : "mean";
const entries = data.static ? data.static.entries : [];

const commands = (columns.median || []).map((median, i) => {
  const layers = columns.layers[i].map((n) => data.texts[n]);
  return {
    index: i,
    segment: columns.segment[i],
    kind: data.texts[columns.kind[i]],
    kernel: data.texts[columns.kernel[i]],
    label: data.texts[columns.label[i]],
    op: data.texts[columns.op[i]],
    layers,
    layerKey: columns.layers[i].join(" "),
    layer: layers.join(", ") || "(no layer)",
    groups: columns.groups[i] ? columns.groups[i].join("×") : "",
    flops: columns.flops[i],
    nbytes: columns.nbytes[i],
    median,
    least: columns.least[i],
    most: columns.most[i],
    samples: columns.samples ? columns.samples[i] : null,
    begin: columns.begin[i],
    end: columns.end[i],
    source: columns.source[i],
    constants: data.constants[columns.constants[i]],
    bindings: columns.bindings[i],
    compiled: entries[i] || null,
  };
});
const allTime = sum(commands.map((c) => c.median));
for (const c of commands) {
  c.share = allTime ? c.median / allTime : 0;
  c.spills = c.compiled !== null && Boolean(c.compiled.spills || c.compiled.scratch);
  c.searched = `${c.layer} ${c.op} ${c.kernel} ${c.label}`.toLowerCase();
}
// Commands of a segment stand together; where each segment begins.
const firstOf = data.segments.map((_, place) => columns.segment ? columns.segment.indexOf(place) : -1);

// Ceilings: [name, speed], GFLOP/s of arithmetic and GB/s of a way to memory.
const ARITHMETIC = [["fma", "fp32"], ["fp16", "fp16"], ["integer_dot", "integer dot"]];
const TRANSFER = "vkCmdCopyBuffer";

function best(forms) {
  return Math.max(0, ...Object.values(forms || {}));
}

function memoryCeilings(copy) {
  const ways = new Map();
  for (const [form, speed] of Object.entries(copy || {})) {
    const way = form.split(",")[0];
    ways.set(way, Math.max(ways.get(way) || 0, speed));
  }
  return [...ways].filter(([, speed]) => speed > 0).sort((a, b) => b[1] - a[1]);
}

const limits = data.limits || {};
const arithmetic = ARITHMETIC.map(([kind, name]) => [name, best(limits[kind])]).filter(([, s]) => s > 0);
const memory = memoryCeilings(limits.copy);
const shaderMemory = memory.find(([way]) => way !== TRANSFER) || memory[0];
// What dispatches are held against; the roofline's choices change it.
const held = {
  arithmetic: (arithmetic.find(([name]) => name === data.arithmetic) || arithmetic[0] || [null])[0],
  memory: shaderMemory ? shaderMemory[0] : null,
};

function speedOf(list, name) {
  const found = list.find(([each]) => each === name);
  return found ? found[1] : 0;
}

// Microseconds that a command takes at the ceiling; null where it or the ceiling is not known.
function atCeiling(c) {
  const gflops = speedOf(arithmetic, held.arithmetic);
  const gbytes = speedOf(memory, held.memory);
  if (!gflops || !gbytes || (!c.flops && !c.nbytes)) return null;
  return Math.max(c.flops / gflops, c.nbytes / gbytes) / 1e3;
}

function hold() {
  for (const c of commands) {
    const ideal = atCeiling(c);
    c.ceiling = ideal !== null && c.median > 0 ? ideal / c.median : null;
    c.saved = ideal === null ? null : Math.max(0, c.median - ideal);
  }
}
hold();

// Operators by time: the first eight have colours of their own, everywhere the same.
const COLOURS = 8;
const opTimes = new Map();
for (const c of commands) opTimes.set(c.op, (opTimes.get(c.op) || 0) + c.median);
const opOrder = [...opTimes.keys()].sort((a, b) => opTimes.get(b) - opTimes.get(a));
const opClasses = new Map(opOrder.map((op, i) => [op, `c${Math.min(i, COLOURS)}`]));

function legend() {
  const parts = opOrder.slice(0, COLOURS).map((op) =>
    el("span", { class: "key" }, swatch(opClasses.get(op)), `${cut(op, 40)} ${fixed(100 * opTimes.get(op) / (allTime || 1), 1)} %`)
  );
  if (opOrder.length > COLOURS) parts.push(el("span", { class: "key" }, swatch(`c${COLOURS}`), "others"));
  return el("p", { class: "legend" }, ...parts);
}
