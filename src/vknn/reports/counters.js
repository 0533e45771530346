// Counters of the device: what its units did, in a run of its own beside those that were timed.

const MOST_COUNTED = 1000;

function countersSection() {
  const host = el("div", {});
  const { by, passes, rows } = data.counters;
  const times = passes === 1 ? "once" : `${passes} times`;
  const cutOff = rows.length > MOST_COUNTED ? ` The first ${MOST_COUNTED} of ${fixed(rows.length, 0)} rows; the file has all.` : "";
  drawLate(host, () => drawCounters(host));
  return section("counters", "Counters", el("p", { class: "about" }, `By ${by}, run ${times}.${cutOff}`), host);
}

function drawCounters(host) {
  const { by, names, rows } = data.counters;
  const onDevice = commands.filter((c) => data.segments[c.segment].where === "vulkan");
  // A row is a dispatch of the table where they are counted by command, and are as many.
  const dispatches = by === "commands" && onDevice.length === rows.length ? onDevice : [];
  const heads = ["layer", "kernel", "what"].map((name) => el("th", { scope: "col", class: "text" }, name));
  for (const [name, unit, about] of names) heads.push(el("th", { scope: "col", class: "number", title: about || null }, unit ? `${name} (${unit})` : name));
  const lines = rows.slice(0, MOST_COUNTED).map(([layers, kernel, label, values], i) => {
    const texts = [layers.map((n) => data.texts[n]).join(", "), data.texts[kernel], data.texts[label]];
    const choose = dispatches[i] ? { click: () => selection.set(dispatches[i]) } : null;
    const numbers = values.map((value) => el("td", { class: "number" }, fixed(value, Number.isInteger(value) ? 0 : 3)));
    return el("tr", { on: choose }, ...texts.map((text) => el("td", { class: "text" }, cut(text, 160))), ...numbers);
  });
  host.append(el("div", { class: "scroller", tabindex: 0 }, el("table", {}, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...lines))));
}
