// The roofline: arithmetic a second over operations a byte, both logarithmic.

const EDGE = 1.5; // where the left edge's points stand, in the chart's least intensity
const MARGIN = { left: 62, right: 170, top: 14, bottom: 40 };

function rooflinePoints() {
  const drawn = commands.filter((c) => c.median > 0 && (c.flops > 0 || c.nbytes > 0));
  const points = drawn.filter((c) => c.flops > 0 && c.nbytes > 0);
  const intensities = points.map((c) => c.flops / c.nbytes);
  const low = Math.min(0.1, ...intensities.slice(0, 1e5));
  return { drawn, low: 10 ** Math.floor(Math.log10(low) - 0.5), high: 10 ** Math.ceil(Math.log10(intensities.reduce((a, b) => Math.max(a, b), 100))) };
}

// Where a command stands. What only moves bytes stands at the left edge, at the height at which its
// distance to the ceilings of memory is right.
function standing(c, low) {
  const intensity = c.flops > 0 && c.nbytes > 0 ? c.flops / c.nbytes : c.flops > 0 ? Infinity : low * EDGE;
  const work = c.flops > 0 ? c.flops : c.nbytes * low * EDGE;
  return [intensity, work / c.median / 1e3];
}

function ceilingWords(c) {
  if (c.saved === null) return `${c.layer}: no ceiling is known for it`;
  const reached = `${fixed(100 * c.ceiling, 1)} % of the ceiling`;
  const bound = c.flops / speedOf(arithmetic, held.arithmetic) > c.nbytes / speedOf(memory, held.memory) ? `${held.arithmetic} arithmetic` : `memory, ${held.memory}`;
  if (c.ceiling >= 1) return `${c.layer}: above the ceiling (${bound}), ${reached}: its bytes came out of a cache`;
  const away = c.ceiling > 0 ? `${fixed(1 / c.ceiling, 1)} times away from it` : "far away from it";
  return `${c.layer}: ${reached} (${bound}), ${away}; reaching it would save ${fixed(c.saved / 1e3, 3)} ms of ${fixed(c.median / 1e3, 3)} ms`;
}

function rooflineSection() {
  const host = el("div", {});
  const told = el("p", { class: "told", id: "roofline-told", role: "status" }, "Choose a point: its layer, its distance to the ceiling, and what reaching it would save.");
  selection.listen((c) => (told.textContent = ceilingWords(c)));
  drawLate(host, () => drawRoofline(host, told));
  return section("roofline", "Roofline", host, told);
}

function drawRoofline(host) {
  const { drawn, low, high } = rooflinePoints();
  const speeds = [...arithmetic.map(([, s]) => s), ...drawn.map((c) => standing(c, low)[1])];
  const top = 10 ** Math.ceil(Math.log10(speeds.reduce((a, b) => Math.max(a, b), 1)) + 0.1);
  const bottom = 10 ** Math.floor(Math.log10(speeds.filter((s) => s > 0).reduce((a, b) => Math.min(a, b), top / 1e3)) - 0.2);

  function draw(svg, width, height) {
    const x = (intensity) => MARGIN.left + ((Math.log10(Math.min(intensity, high)) - Math.log10(low)) / Math.log10(high / low)) * (width - MARGIN.left - MARGIN.right);
    const y = (speed) => height - MARGIN.bottom - ((Math.log10(Math.max(speed, bottom)) - Math.log10(bottom)) / Math.log10(top / bottom)) * (height - MARGIN.top - MARGIN.bottom);
    drawAxes(svg, x, y, width, height);
    drawCeilings(svg, x, y, width);
    const most = drawn.reduce((a, c) => Math.max(a, c.median), 0) || 1;
    const places = new Map();
    const cell = drawn.length > 2000 ? 4 : 1; // pixels that share a point
    for (const c of drawn) {
      const [px, py] = standing(c, low);
      const key = `${Math.round(x(px) / cell)} ${Math.round(y(py) / cell)}`;
      if (!places.has(key)) places.set(key, { cx: x(px), cy: y(py), commands: [], time: 0 });
      places.get(key).commands.push(c);
      places.get(key).time += c.median;
    }
    // Large ones first, so that small ones stay in reach.
    return [...places.values()].sort((a, b) => b.time - a.time).map((place) => {
      const longest = place.commands.reduce((a, b) => (b.median > a.median ? b : a));
      const radius = Math.max(2.5, 22 * Math.sqrt(Math.min(1, place.time / most)));
      const node = el("svg:circle", { cx: place.cx.toFixed(2), cy: place.cy.toFixed(2), r: radius.toFixed(2), class: `point ${opClasses.get(longest.op)}`, "data-command": longest.index });
      svg.append(node);
      const [, speed] = standing(longest, low);
      const more = place.commands.length > 1 ? ` (and ${place.commands.length - 1} more at this place)` : "";
      const rate = longest.flops ? `${fixed(speed, 2)} GFLOP/s at ${longest.nbytes ? fixed(longest.flops / longest.nbytes, 2) : "∞"} a byte` : `${fixed(longest.nbytes / longest.median / 1e3, 2)} GB/s`;
      return { node, words: `${describe(longest)}, ${rate}${more}`, commands: place.commands, enter: () => selection.set(longest) };
    });
  }

  function drawAxes(svg, x, y, width, height) {
    const [right, base] = [width - MARGIN.right, height - MARGIN.bottom];
    for (let e = Math.round(Math.log10(low)); e <= Math.round(Math.log10(high)); e++) {
      svg.append(line(x(10 ** e), MARGIN.top, x(10 ** e), base, "grid"), el("svg:text", { x: x(10 ** e), y: base + 15, class: "tick", "text-anchor": "middle" }, power(e)));
    }
    for (let e = Math.round(Math.log10(bottom)); e <= Math.round(Math.log10(top)); e++) {
      svg.append(line(MARGIN.left, y(10 ** e), right, y(10 ** e), "grid"), el("svg:text", { x: MARGIN.left - 6, y: y(10 ** e) + 4, class: "tick", "text-anchor": "end" }, power(e)));
    }
    svg.append(el("svg:text", { x: (MARGIN.left + right) / 2, y: height - 6, class: "tick", "text-anchor": "middle" }, "operations a byte; the left edge: no arithmetic"));
    svg.append(el("svg:text", { x: 12, y: (MARGIN.top + base) / 2, class: "tick", "text-anchor": "middle", transform: `rotate(-90 12 ${(MARGIN.top + base) / 2})` }, "GFLOP/s"));
  }

  // Labels stand at the right end of their lines, one below the other.
  function drawCeilings(svg, x, y, width) {
    const right = width - MARGIN.right;
    const peak = speedOf(arithmetic, held.arithmetic) || arithmetic.reduce((a, [, s]) => Math.max(a, s), 0) || top;
    const labels = [];
    for (const [name, speed] of arithmetic) {
      const chosen = name === held.arithmetic;
      svg.append(Object.assign(line(x(low), y(speed), right, y(speed), `ceiling${chosen ? " held" : ""}`)));
      labels.push([y(speed), `${name} ${fixed(speed, speed < 1000 ? 1 : 0)} ${name === "integer dot" ? "GOP/s" : "GFLOP/s"}`, chosen]);
    }
    for (const [name, speed] of memory) {
      const chosen = name === held.memory;
      const end = Math.min(high, Math.max(low, peak / speed));
      svg.append(line(x(low), y(speed * low), x(end), y(speed * end), `ceiling${chosen ? " held" : ""}`));
      labels.push([y(speed * end) + 1e-6 * labels.length, `${name} ${fixed(speed, 1)} GB/s`, chosen]);
    }
    labels.sort((a, b) => a[0] - b[0]);
    let last = 0;
    for (const [at, said, chosen] of labels) {
      last = Math.max(at + 4, last + 14);
      svg.append(el("svg:text", { x: right + 6, y: last, class: `tick${chosen ? " held" : ""}` }, cut(said, 30)));
    }
  }

  const again = (kind) => (chosen) => {
    held[kind] = chosen;
    hold();
    refreshTable();
    drawing.redraw();
    if (selection.command) selection.set(selection.command);
  };
  const controls = el("div", { class: "controls" });
  if (arithmetic.length) controls.append(choices("Ceiling of arithmetic", arithmetic.map(([n]) => [n, n]), held.arithmetic, again("arithmetic")));
  if (memory.length) controls.append(choices("of memory", memory.map(([n]) => [n, n]), held.memory, again("memory")));
  if (!data.limits) controls.append(el("p", {}, "The profile has no measured limits of its device, so there are no ceilings."));
  host.append(controls);
  const drawing = chart(host, "Roofline", 460, draw);
  const left = commands.length - drawn.length;
  if (left) host.append(el("p", { class: "about" }, `${left === 1 ? "One command is" : `${left} commands are`} not drawn: neither their arithmetic nor their bytes are known, or no time was measured.`));
  host.append(legend());
  drawing.redraw();
}

function power(exponent) {
  const value = 10 ** exponent;
  return value >= 1e6 || value < 1e-4 ? `1e${exponent}` : String(Number(value.toPrecision(1)));
}
