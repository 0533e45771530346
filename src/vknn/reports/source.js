// Source of a kernel, and beside it what the driver made of it.

const source = { shown: null };

function sourceSection() {
  source.list = el("select", { "aria-label": "Kernel", on: { change: () => showSource(Number(source.list.value), null) } },
    ...data.sources.map((kernel, i) => el("option", { value: i }, cut(`${kernel.kernel} ${kernel.variant}`, 160))));
  source.about = el("p", { class: "about" }, "Choose a dispatch, or a kernel.");
  source.panes = el("div", { class: "panes" });
  selection.listen((c) => {
    if (c.source >= 0) showSource(c.source, c);
    else source.about.textContent = `${cut(c.layer, 200)}: ${c.kernel} has no source here.`;
  });
  const host = el("div", {}, source.panes);
  drawLate(host, () => data.sources.length && source.shown === null && showSource(0, null));
  const controls = data.sources.length ? el("div", { class: "controls" }, el("label", { class: "choice" }, "Kernel ", source.list)) : null;
  return section("source", "Source", controls, source.about, host);
}

function showSource(number, c) {
  source.shown = number;
  source.list.value = number;
  const kernel = data.sources[number];
  const lines = kernel.lines.map((n) => data.lines[n]);
  const { lines: written, left } = specialised(lines, c ? c.constants : []);
  const what = c ? `with the constants of dispatch ${c.index}, ${cut(c.layer, 200)}` : "with its constants as declared: choose a dispatch to see its own";
  source.about.textContent = `${kernel.kernel} ${kernel.variant}, ${what}.`;
  const panes = [el("figure", {}, el("figcaption", {}, "GLSL"), ...leftOver(left), ...glslParts(written))];
  const isa = c && c.compiled && c.compiled.isa ? Object.entries(c.compiled.isa) : [];
  for (const [form, text] of isa) panes.push(el("figure", {}, el("figcaption", {}, form), el("pre", { tabindex: 0, class: "isa" }, data.codes[text].map((n) => data.lines[n]).join("\n"))));
  source.panes.replaceChildren(...panes);
}

function leftOver(left) {
  if (!left.length) return [];
  const said = left.map(([id, name, value]) => `${name || `constant ${id}`} = ${value}`).join(", ");
  return [el("p", { class: "about" }, `Declared by macros: ${said}`)];
}

// The kernel's own lines are open; what it includes is folded.
function glslParts(written) {
  if (!written.some((each) => each.said.trim())) return [el("p", {}, "The source is not in the profile.")];
  const own = written.map((each) => each.file).filter(Boolean)[0] || "";
  while (written.length && !written[written.length - 1].said.trim()) written.pop();
  for (const each of written) each.file = each.file || own;
  return stretches(written).filter((part) => part.lines.some((each) => each.said.trim())).map((part) => {
    const pre = el("pre", { tabindex: 0, class: "glsl" });
    for (const each of part.lines) {
      const text = `${String(each.number || "").padStart(4)}  ${each.said}\n`;
      pre.append(each.applied ? el("mark", {}, text) : text);
    }
    if (part.file === own || part.file === "") return pre;
    return el("details", { open: part.lines.some((each) => each.applied) && part.lines.length < 40 }, el("summary", {}, `${part.file}, ${part.lines.length} lines`), pre);
  });
}
