// The run of median length in time (or the mean of all): what the host did, submits, dispatches, and the gaps between.

const LANE = 40;

function gapsOf(list) {
  const found = [];
  let reached = null;
  for (const c of [...list].sort((a, b) => a.begin - b.begin)) {
    if (reached !== null && c.begin > reached) found.push([reached, c.begin]);
    reached = reached === null ? c.end : Math.max(reached, c.end);
  }
  return found;
}

function timelineLanes() {
  const step = (lane) => data.steps.filter(([each]) => each === lane).map(([, name, begin, end]) => ({ begin, end, words: `${name}: ${timeText(end - begin)}`, name, shade: lane, commands: [] }));
  const bar = (c) => ({ begin: c.begin, end: c.end, words: `${describe(c)}; here ${timeText(c.end - c.begin)}`, name: c.layer, shade: opClasses.get(c.op), commands: [c] });
  const where = (name) => commands.filter((c) => (data.segments[c.segment].where === "host") === (name === "host"));
  const gaps = data.segments.flatMap((segment, place) => (segment.where === "host" ? [] : gapsOf(commands.filter((c) => c.segment === place))));
  const gap = ([begin, end]) => ({ begin, end, words: `gap of ${timeText(end - begin)}: no command runs`, name: "gap", shade: "gap", commands: [] });
  const lanes = [["host", step("host")], ["submits", step("submits")], ["commands", where("vulkan").map(bar)], ["gaps", gaps.map(gap)], ["operators on the host", where("host").map(bar)]];
  for (const lane of lanes) lane[1].sort((a, b) => a.begin - b.begin);
  return lanes.filter(([, items]) => items.length);
}

// Items of a lane in sight, those that share a pixel as one.
function inSight(items, from, to, scale) {
  const found = [];
  for (const item of items) {
    if (item.end < from || item.begin > to) continue;
    const last = found[found.length - 1];
    if (last && (item.end - item.begin) * scale < 1 && (item.begin - last.begin) * scale < 1.5 && (last.end - last.begin) * scale < 1.5) {
      last.count += 1;
      last.busy += item.end - item.begin;
      last.end = Math.max(last.end, item.end);
      if (last.commands.length < 50) last.commands = [...last.commands, ...item.commands];
      if (last.shade !== item.shade) last.shade = "rest";
    } else found.push({ ...item, count: 1, busy: item.end - item.begin });
  }
  return found;
}

function timelineSection() {
  const host = el("div", {});
  const whole = [0, Math.max(data.run, 1e-3, ...data.steps.map((s) => s[3]))];
  for (const c of commands) whole[1] = Math.max(whole[1], c.end);
  let [from, to] = whole;
  let drawing = null;

  function show(begin, end) {
    const length = Math.max(0.05, Math.min(whole[1], end - begin));
    from = Math.max(0, Math.min(whole[1] - length, begin));
    to = from + length;
    drawing.redraw();
  }
  const zoom = (factor, about) => {
    const middle = about === undefined ? (from + to) / 2 : about;
    show(middle - (middle - from) * factor, middle + (to - middle) * factor);
  };
  const pan = (part) => show(from + part * (to - from), to + part * (to - from));
  const button = (sign, name, act) => el("button", { "aria-label": name, title: name, on: { click: act } }, sign);

  function draw(svg, width, height, lanes) {
    const left = 96;
    const scale = (width - left) / (to - from);
    const pieces = [];
    for (const at of ticks(from, to, (width - left) / 110)) {
      const x = left + (at - from) * scale;
      svg.append(line(x, 18, x, height, "grid"), el("svg:text", { x: x + 3, y: 12, class: "tick" }, timeText(at)));
    }
    lanes.forEach(([name, items], number) => {
      const y = 22 + number * LANE;
      svg.append(el("svg:text", { x: 0, y: y + 20, class: "tick" }, cut(name, 15)));
      for (const item of inSight(items, from, to, scale)) {
        const x = Math.max(left, left + (item.begin - from) * scale);
        const end = Math.min(width, left + (item.end - from) * scale);
        const shape = el("svg:g", {}, rect(x, y, Math.max(1, end - x - 0.3), LANE - 8, item.shade));
        const said = item.count > 1 ? null : fitted(x, y + 20, end - x, item.name, {});
        if (said) shape.append(said);
        svg.append(shape);
        const words = item.count > 1 ? `${item.count} in a pixel, ${timeText(item.busy)} together: zoom in` : item.words;
        pieces.push({ node: shape, words, commands: item.commands, item, enter: () => (item.count > 1 ? show(item.begin - 2, item.end + 2) : item.commands.length && selection.set(item.commands[0])) });
      }
    });
    return pieces;
  }

  drawLate(host, () => {
    const lanes = timelineLanes();
    const keys = { "+": (p) => zoom(0.5, p && (p.item.begin + p.item.end) / 2), "=": (p) => keys["+"](p), "-": () => zoom(2), 0: () => show(...whole), "[": () => pan(-0.25), "]": () => pan(0.25) };
    host.append(el("div", { class: "controls" }, button("+", "zoom in", () => zoom(0.5)), button("−", "zoom out", () => zoom(2)), button("‹", "earlier", () => pan(-0.25)), button("›", "later", () => pan(0.25)), button("all", "the whole run", () => show(...whole)),
      el("span", { class: "faint" }, "keys: + − 0 zoom, [ ] move, arrows step, Enter selects; Ctrl with the wheel zooms")));
    drawing = chart(host, "Timeline", 26 + lanes.length * LANE, (svg, width, height) => draw(svg, width, height, lanes), keys);
    drawing.svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const box = drawing.svg.getBoundingClientRect();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, from + ((event.clientX - box.left - 96) / Math.max(1, box.width - 96)) * (to - from));
    }, { passive: false });
    drawing.redraw();
  });
  const clocks = "The run of median length. Host and device are on one clock where the driver has calibrated timestamps; else their clocks are taken to meet where the first submit begins.";
  const told = data.means === null ? clocks : "Begins and lengths are means of the runs, from where the first command begins.";
  return section("timeline", "Timeline", el("p", { class: "about" }, told), host);
}
