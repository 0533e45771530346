// The table: sorted, filtered, grouped; only the rows in sight are elements.

const ROW = 26; // pixels, as page.css has it
const PRINTED = 200;

const table = { words: "", only: null, grouping: "dispatch", column: "median", down: true, rows: [], active: 0, printing: false, from: -1, to: -1 };

function tableSection() {
  const box = el("input", {
    type: "search", id: "filter", placeholder: "words of layer, op, kernel", "aria-label": "Filter",
    on: { input: () => ((table.words = box.value), (table.only = null), refreshTable()) },
  });
  table.groups = choices("Group by", Object.keys(GROUPINGS).map((g) => [g, g]), "dispatch", (grouping) => groupBy(grouping));
  table.chip = el("button", { class: "chip", hidden: true, on: { click: () => ((table.only = null), refreshTable()) } });
  table.head = el("tr", { role: "row" });
  table.body = el("tbody", { role: "rowgroup" });
  table.foot = el("tr", { role: "row", id: "totals" });
  table.grid = el("table", { role: "grid", "aria-label": "Times", "aria-readonly": "true" },
    el("thead", { role: "rowgroup" }, table.head), table.body, el("tfoot", { role: "rowgroup" }, table.foot));
  table.box = el("div", { class: "scroller", tabindex: 0, "aria-label": "Rows of the table", role: "group", on: { scroll: () => drawRows(), keydown: tableKey } }, table.grid);
  table.box.addEventListener("click", (event) => {
    const row = event.target.closest("[data-row]");
    if (row) enterRow(Number(row.dataset.row));
  });
  table.note = el("p", { class: "status", id: "rows-note", "aria-live": "polite" });
  selection.listen(() => drawRows(true));
  new ResizeObserver(() => drawRows(true)).observe(table.box);
  return section("table", "Dispatches", el("div", { class: "controls" }, box, table.groups, table.chip), table.box, table.note);
}

function groupBy(grouping) {
  table.grouping = grouping;
  table.groups.querySelector("select").value = grouping;
  if (!tableColumns(grouping).some(([id]) => id === table.column)) table.column = "median";
  refreshTable();
}

function refreshTable() {
  const list = filtered(table.words, table.only);
  table.rows = sorted(rowsOf(table.grouping, list), table.column, table.down);
  table.active = 0;
  table.chip.hidden = !table.only;
  if (table.only) table.chip.textContent = `${cut(table.only.name, 60)} ✕`;
  drawHead();
  drawFoot(list);
  table.box.scrollTop = 0;
  drawRows(true);
}

function drawHead() {
  table.head.replaceChildren(
    ...tableColumns(table.grouping).map(([id, head, about, digits]) => {
      const chosen = id === table.column;
      const sort = () => {
        table.down = chosen ? !table.down : digits !== null && id !== "index";
        table.column = id;
        refreshTable();
        table.head.querySelector(`[data-column="${id}"]`).focus();
      };
      const button = el("button", { "data-column": id, title: about || null, on: { click: sort } }, `${head}${chosen ? (table.down ? " ▾" : " ▴") : ""}`);
      const order = chosen ? (table.down ? "descending" : "ascending") : "none";
      return el("th", { role: "columnheader", scope: "col", "aria-sort": order, class: `${digits === null ? "text" : "number"} is-${id}` }, button);
    })
  );
}

function cells(row, kind) {
  return tableColumns(table.grouping).map(([id, , , digits, value]) => {
    const shown = value ? value(row) : row[id];
    const said = digits === null ? cut(shown === undefined ? "" : shown, 160) : fixed(shown, digits);
    const spilling = id === "spills" && row.spilling;
    return el(kind, { role: "gridcell", class: `${digits === null ? "text" : "number"} is-${id}${spilling ? " warning" : ""}` }, spilling ? `⚠ ${said}` : said);
  });
}

// What the rows that passed the filter add up to.
function drawFoot(list) {
  const total = Object.assign(rowOf(list, ""), { index: null, layer: `${fixed(list.length, 0)} of ${fixed(commands.length, 0)} dispatches`, name: "all rows", op: "", kernel: "", label: "", groups: "" });
  table.foot.replaceChildren(...cells(total, "td"));
  for (const [name, value] of Object.entries({ median: total.median, count: list.length, saved: total.saved })) table.foot.setAttribute(`data-${name}`, value === null ? "" : value);
  table.note.textContent = `${fixed(table.rows.length, 0)} rows; ${timeText(total.median)} of ${timeText(allTime)}`;
}

function spacer(count) {
  return el("tr", { class: "spacer", "aria-hidden": "true", style: { height: `${count * ROW}px` } });
}

function drawRows(anew) {
  if (table.printing) return;
  const height = table.box.clientHeight || 480;
  const from = Math.max(0, Math.floor(table.box.scrollTop / ROW) - 10);
  const to = Math.min(table.rows.length, from + Math.ceil(height / ROW) + 20);
  if (!anew && from === table.from && to === table.to) return;
  placeRows(from, to);
}

function placeRows(from, to) {
  [table.from, table.to] = [from, to];
  const shown = table.rows.slice(from, to).map((row, i) => {
    const at = from + i;
    const chosen = selection.command !== null && row.commands.includes(selection.command);
    const names = `${at === table.active ? "active" : ""} ${chosen ? "chosen" : ""} ${row.spilling ? "spilling" : ""}`;
    return el("tr", { role: "row", id: `row${at}`, "data-row": at, class: names, "aria-rowindex": at + 2, "aria-selected": chosen }, ...cells(row, "td"));
  });
  table.body.replaceChildren(spacer(from), ...shown, spacer(table.rows.length - to));
  table.grid.setAttribute("aria-rowcount", table.rows.length + 2);
  if (table.rows.length) table.box.setAttribute("aria-activedescendant", `row${table.active}`);
}

// A dispatch is selected; of a group, its dispatches are shown.
function enterRow(at) {
  const row = table.rows[at];
  if (!row) return;
  table.active = at;
  if (table.grouping === "dispatch") {
    selection.set(row.commands[0]);
    return;
  }
  table.only = { name: `${table.grouping}: ${row.name}`, set: new Set(row.commands) };
  groupBy("dispatch");
}

function tableKey(event) {
  if (event.target !== table.box) return;
  const page = Math.max(1, Math.floor(table.box.clientHeight / ROW) - 3);
  const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -1e9, End: 1e9 };
  if (event.key in moves) {
    table.active = Math.max(0, Math.min(table.rows.length - 1, table.active + moves[event.key]));
    const top = table.active * ROW;
    const room = table.box.clientHeight - 3 * ROW;
    if (top < table.box.scrollTop) table.box.scrollTop = top;
    if (top > table.box.scrollTop + room) table.box.scrollTop = top - room;
    drawRows(true);
  } else if (event.key === "Enter" || event.key === " ") enterRow(table.active);
  else if (event.key === "Escape" && table.only) (table.only = null), refreshTable();
  else return;
  event.preventDefault();
}
