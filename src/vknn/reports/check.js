// The cross-check: layers in the colour of their errors, and what is known of each.

const SHADES = [[0.01, "e0", "up to 1 % of what is allowed"], [0.1, "e1", "up to 10 %"], [1, "e2", "within tolerance"], [Infinity, "e3", "over it"]];
const MOST_ROWS = 300; // of a table
const check = data.check;

function shadeOf(rows) {
  if (!rows.length) return "rest";
  const errors = rows.flatMap((row) => Object.values(row.sides).map((side) => side.excess));
  if (rows.some((row) => !row.ok)) return "e3";
  if (!errors.length) return "rest";
  const most = Math.max(...errors);
  return SHADES.find(([up]) => most <= up)[1];
}

function checkSection() {
  const told = el("div", { class: "told", id: "check-told", "aria-live": "polite" });
  const graph = el("div", { class: "graph" });
  const shades = [...SHADES.slice(0, -1).map(([, name, said]) => [name, said]), ["e3", check.over], ["rest", "not compared"]];
  const keys = shades.map(([name, said]) => el("span", { class: "key" }, swatch(name), said));
  const drawn = check.layers.length ? [el("p", { class: "legend" }, ...keys), graph] : [];
  if (drawn.length) drawLate(graph, () => drawLayers(graph, told));
  selection.listen((c) => {
    const rows = check.rows.filter((row) => row.layers.some((n) => c.layers.includes(check.layers[n][0])));
    if (rows.length) tell(told, graph, rows.slice(0, 20).map(rowParts));
  });
  const notes = check.notes.map((note) => el("p", { class: "note" }, note));
  const verdict = el("p", { class: check.ok ? "" : "warning", id: "verdict" }, check.verdict);
  return section("check", "Cross-check", verdict, ...notes, el("p", { class: "about" }, `${check.model}${check.device ? ` on ${check.device}` : ""}; largest errors as parts of what is allowed`), ...drawn, told, ...check.tables.flatMap((table, i) => checkTable(table, i, told)));
}

// What is known of a layer or row, below what was chosen.
function tell(told, host, parts) {
  told.replaceChildren(...parts);
  if (host.isConnected && host.nextSibling !== told) host.after(told);
}

// What a text of a number is sorted by: "3/10" by its 3; none below all, NaN and infinities above.
function sortKey(text) {
  const number = parseFloat(text);
  return text === "" ? -Infinity : Number.isNaN(number) ? Infinity : number;
}

function checkTable(table, number, told) {
  const rows = table.rows.map((cells, at) => ({ cells, at }));
  if (rows.length > MOST_ROWS) rows.sort((a, b) => table.wrong[b.at] - table.wrong[a.at]);
  const columns = table.columns.map(([name, kind], i) => [
    name, kind,
    (row) => (kind === "number" ? sortKey(row.cells[i]) : row.cells[i]),
    (row) => (i === 0 && table.wrong[row.at] ? `⚠ ${row.cells[i]}` : row.cells[i]),
    (row) => (table.wrong[row.at] ? "warning" : ""),
  ]);
  const of = check[table.of] || [];
  const made = grid(`check-table-${number}`, table.title, columns, rows, (row) => {
    made.choose(row);
    if (of[row.at]) tell(told, made.node, [rowParts(of[row.at])]);
  }, MOST_ROWS);
  return [el("h3", {}, table.title), made.node];
}

function drawLayers(host, told) {
  if (check.layers.length > MOST_DRAWN) {
    const failed = check.rows.filter((row) => !row.ok).slice(0, 200);
    host.append(el("p", { class: "about" }, `${check.layers.length} layers are too many to draw; those that are not within tolerance:`), ...failed.map(rowParts));
    return;
  }
  const of = check.layers.map(() => []);
  for (const row of check.rows) for (const n of row.layers) of[n].push(row);
  const tall = (width) => placedLayers(check.layers.length, check.edges, width).height;
  const drawing = chart(host, "Layers by error", tall, (svg, width) => {
    const { places } = placedLayers(check.layers.length, check.edges, width);
    for (const [from, to] of check.edges) svg.append(line(places[from][0] + BOX_WIDTH / 2, places[from][1] + BOX_HEIGHT, places[to][0] + BOX_WIDTH / 2, places[to][1], "edge"));
    return check.layers.map(([name, type], n) => {
      const [x, y] = places[n];
      const shape = el("svg:g", {}, rect(x, y, BOX_WIDTH, BOX_HEIGHT, shadeOf(of[n])), fitted(x, y + 16, BOX_WIDTH, name, {}) || "");
      svg.append(shape);
      const worst = Math.max(-1, ...of[n].flatMap((row) => Object.values(row.sides).map((side) => side.excess)));
      const error = worst < 0 ? "not compared" : `${(100 * worst).toPrecision(3)} % of what is allowed`;
      const parts = of[n].length ? of[n].map(rowParts) : [el("p", {}, `${name}, ${type}: not compared by itself`)];
      return { node: shape, words: `${name}, ${type}: ${error}`, commands: commands.filter((c) => c.layers.includes(name)).slice(0, 50), enter: () => tell(told, host, parts) };
    });
  });
  drawing.redraw();
}

function rowParts(row) {
  const sides = Object.entries(row.sides).map(([side, found]) =>
    el("div", { class: `side${found.ok ? "" : " warning"}` }, el("h3", {}, `${side}: ${found.ok ? "ok" : "over tolerance"}`), pairs(found.told), ...errorPictures(found)));
  return el("article", {}, el("p", { class: row.ok ? "" : "warning" }, `${row.ok ? "" : "⚠ "}${row.title}`), el("div", { class: "panes" }, ...sides));
}

function errorPictures(found) {
  const pictures = [];
  if (found.places && found.places.length) pictures.push(el("h3", {}, "by place"), placesPicture(found.places));
  if (found.channels && found.channels.length) pictures.push(el("h3", {}, "by channel"), bars([found.channels], "errors by channel"));
  if (found.histogram) pictures.push(el("h3", {}, `numbers from ${found.histogram[0]} to ${found.histogram[1]}: the reference, the device`), bars(found.histogram.slice(2), "histograms of both sides"));
  return pictures;
}

function placesPicture(rows) {
  const wide = Math.max(...rows.map((row) => row.length));
  const svg = el("svg:svg", { class: "places", viewBox: `0 0 ${wide} ${rows.length}`, role: "img", "aria-label": "largest errors by row and column" });
  rows.forEach((row, y) => row.forEach((value, x) => svg.append(rect(x, y, 1, 1, value > 1 ? "e3" : SHADES.find(([up]) => value <= up)[1]))));
  return svg;
}

function bars(sides, name) {
  const most = Math.max(1e-30, ...sides.flat());
  const count = Math.max(...sides.map((side) => side.length));
  const svg = el("svg:svg", { class: "bars", viewBox: `0 0 ${count * sides.length} 40`, preserveAspectRatio: "none", role: "img", "aria-label": name });
  sides.forEach((side, s) => side.forEach((value, i) => svg.append(rect(i * sides.length + s, 40 - (40 * value) / most, 0.95, (40 * value) / most, s ? "c1" : "c0"))));
  return svg;
}
