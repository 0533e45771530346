// Memory of a plan over its commands: who holds which bytes of an arena, from when to when.

const HELD = 12;

function buffersOf(place) {
  return data.segments[place].buffers.map(([name, role, offset, nbytes, first, last], number) => ({
    number, name: data.texts[name], role: data.texts[role], offset, nbytes, first, last,
  }));
}

// Bytes held at each of a plan's commands.
function heldBytes(buffers, count) {
  const steps = new Array(count + 1).fill(0);
  for (const b of buffers) {
    if (b.first === null || b.last === null) continue;
    steps[Math.min(b.first, count)] += b.nbytes;
    steps[Math.min(b.last + 1, count)] -= b.nbytes;
  }
  let level = 0;
  return steps.slice(0, count).map((step) => (level += step));
}

function memorySection() {
  const host = el("div", {});
  const places = data.segments.map((s, i) => i).filter((i) => data.segments[i].buffers.length);
  if (!places.length) return section("memory", "Memory", el("p", {}, "Nothing is held on the device."));
  drawLate(host, () => drawMemory(host, places));
  return section("memory", "Memory", host);
}

function drawMemory(host, places) {
  let place = places[0];
  let role = "activation";
  let drawing = null;
  const told = el("div", { class: "told" });
  const roles = el("span", {});
  const controls = el("div", { class: "controls" }, roles);
  if (places.length > 1) controls.prepend(choices("Plan", places.map((p) => [p, `segment ${p}`]), place, (chosen) => ((place = Number(chosen)), offerRoles())));
  host.append(controls);

  function offerRoles() {
    const sizes = new Map();
    for (const b of buffersOf(place)) sizes.set(b.role, Math.max(sizes.get(b.role) || 0, (b.offset || 0) + b.nbytes));
    if (!sizes.has(role)) role = [...sizes.keys()][0];
    roles.replaceChildren(choices("Arena", [...sizes].map(([name, size]) => [name, `${name}, ${bytesText(size)}`]), role, (chosen) => ((role = chosen), drawing.redraw())));
    if (drawing) drawing.redraw();
  }

  const command = (at) => commands[firstOf[place] + at];
  const name = (at) => (command(at) ? `${at} (${cut(command(at).label, 60)}, ${cut(command(at).layer, 60)})` : String(at));

  function words(b) {
    const life = b.first === null ? "no command touches it" : `from command ${name(b.first)} to ${name(b.last)}`;
    return `${b.name}: ${bytesText(b.nbytes)} at ${fixed(b.offset, 0)}, ${life}`;
  }

  function tell(b) {
    const users = commands.filter((c) => c.segment === place && c.bindings.some(([number]) => number === b.number));
    const items = users.slice(0, 40).map((c) => {
      const how = c.bindings.filter(([number]) => number === b.number).map(([, access]) => data.texts[access]);
      return el("li", {}, el("button", { class: "link", on: { click: () => selection.set(c) } }, `${c.index} ${cut(c.layer, 80)}: ${cut(c.label, 60)}`), ` ${how.join(", ")}`);
    });
    const more = users.length > items.length ? [el("li", {}, `and ${users.length - items.length} more`)] : [];
    told.replaceChildren(el("p", {}, words(b)), el("ul", {}, ...items, ...more));
  }

  // Who holds the most while a command runs.
  function tellHeld(c) {
    if (!c || c.segment !== place || !firstOf.length) return;
    const at = c.index - firstOf[place];
    const holders = buffersOf(place).filter((b) => b.role === role && b.first !== null && b.first <= at && at <= b.last).sort((a, b) => b.nbytes - a.nbytes);
    const items = holders.slice(0, HELD).map((b) => el("li", {}, el("button", { class: "link", on: { click: () => tell(b) } }, cut(b.name, 100)), ` ${bytesText(b.nbytes)}`));
    const all = `${holders.length} buffers hold ${bytesText(sum(holders.map((b) => b.nbytes)))} while command ${name(at)} runs, the largest first:`;
    told.replaceChildren(el("p", {}, all), el("ul", {}, ...items));
  }

  function draw(svg, width, height) {
    const buffers = buffersOf(place).filter((b) => b.role === role && b.offset !== null);
    const count = Math.max(1, commands.filter((c) => c.segment === place).length);
    const size = buffers.reduce((a, b) => Math.max(a, b.offset + b.nbytes), 1);
    const [left, base, head] = [84, height - 26, 60];
    const x = (at) => left + (at / count) * (width - left - 14);
    const y = (bytes) => base - (bytes / size) * (base - head);
    const unit = 1024 ** Math.floor(Math.log2(size) / 10);
    for (const at of ticks(0, size / unit, 5).map((n) => n * unit)) svg.append(line(left, y(at), width, y(at), "grid"), el("svg:text", { x: left - 6, y: y(at) + 4, class: "tick", "text-anchor": "end" }, bytesText(at)));
    for (const at of ticks(0, count, 10)) svg.append(el("svg:text", { x: x(at), y: base + 16, class: "tick", "text-anchor": "middle" }, fixed(at, 0)));
    drawHeld(svg, heldBytes(buffers, count), x, left);
    const taken = new Set();
    const pieces = [];
    buffers.filter((b) => b.first !== null).sort((a, b) => b.nbytes - a.nbytes).forEach((b) => {
      const box = [x(b.first), y(b.offset + b.nbytes), x(b.last + 1) - x(b.first), y(b.offset) - y(b.offset + b.nbytes)];
      const key = [...box.slice(0, 2).map(Math.round), ...box.slice(2).map((n) => Math.max(1, Math.round(n)))].join(" ");
      if ((box[2] < 1 || box[3] < 1) && taken.has(key)) return; // another one covers the same pixels
      taken.add(key);
      const made = command(b.first);
      const shape = el("svg:g", {}, rect(box[0], box[1], Math.max(0.8, box[2] - 0.5), Math.max(0.8, box[3] - 0.5), made ? opClasses.get(made.op) : "rest"));
      const said = box[3] > 14 ? fitted(box[0], box[1] + 12, box[2], b.name, {}) : null;
      if (said) shape.append(said);
      svg.append(shape);
      pieces.push({ node: shape, words: words(b), commands: [], enter: () => tell(b) });
    });
    const chosen = selection.command;
    if (chosen && chosen.segment === place) svg.append(line(x(chosen.index - firstOf[place] + 0.5), head, x(chosen.index - firstOf[place] + 0.5), base, "now"));
    return pieces;
  }

  function drawHeld(svg, held, x, left) {
    const most = held.reduce((a, b) => Math.max(a, b), 0);
    const peak = held.indexOf(most);
    const points = [];
    held.forEach((bytes, at) => points.push(`${x(at).toFixed(1)},${(48 - (40 * bytes) / (most || 1)).toFixed(1)}`, `${x(at + 1).toFixed(1)},${(48 - (40 * bytes) / (most || 1)).toFixed(1)}`));
    svg.append(el("svg:polyline", { points: points.join(" "), class: "held-line" }), line(left, 48, x(held.length), 48, "grid"));
    svg.append(el("svg:text", { x: left - 6, y: 16, class: "tick", "text-anchor": "end" }, bytesText(most)), el("svg:text", { x: left - 6, y: 32, class: "tick", "text-anchor": "end" }, `at ${fixed(peak, 0)}`));
  }

  offerRoles();
  drawing = chart(host, "Memory", 380, draw);
  host.append(el("p", { class: "about" }, "Across: commands in order. Above: bytes held. Below: the arena, each buffer where it lies while it is needed, in the colour of the operator that needs it first."), told);
  selection.listen((c) => {
    tellHeld(c);
    drawing.redraw(true);
  });
  tellHeld(selection.command);
  drawing.redraw();
}
