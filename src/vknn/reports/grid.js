// A table whose columns sort, and whose rows are reached by keyboard.

// ``columns``: [name, kind, what a row is sorted by, its text, its class or ""], all of a row.
// ``enter(row)``: what a click or Enter does. ``most``: rows that are elements, the first in their
// order, since thousands of them take seconds. Returns {node, choose(row)}.
function grid(id, name, columns, rows, enter, most = Infinity) {
  const order = { column: null, down: true };
  const body = el("tbody", { role: "rowgroup" });
  let [shown, active, chosen] = [rows, 0, null];

  function cell(row, [, kind, , text, shade]) {
    const said = text(row);
    return el("td", { role: "gridcell", class: `${kind} ${shade ? shade(row) : ""}`, title: kind === "text" && said ? cut(said, 500) : null }, cut(said, 200));
  }

  function mark() {
    [...body.children].forEach((node, i) => {
      node.className = `${i === active ? "active" : ""} ${shown[i] === chosen ? "chosen" : ""}`;
      node.setAttribute("aria-selected", shown[i] === chosen);
    });
    if (shown.length) box.setAttribute("aria-activedescendant", `${id}-${active}`);
  }

  // The active row in sight, below the head, which covers what is under it.
  function reveal() {
    const node = body.children[active];
    const covered = head.offsetHeight;
    if (node.offsetTop - covered < box.scrollTop) box.scrollTop = node.offsetTop - covered;
    box.scrollTop = Math.max(box.scrollTop, node.offsetTop + node.offsetHeight - box.clientHeight);
  }

  function move(to) {
    if (!shown.length) return;
    active = Math.max(0, Math.min(shown.length - 1, to));
    mark();
    reveal();
  }

  function place() {
    shown = [...rows];
    if (order.column !== null) {
      const key = columns[order.column][2];
      const by = order.down ? -1 : 1;
      shown.sort((a, b) => by * (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0));
    }
    shown = shown.slice(0, most);
    active = 0;
    body.replaceChildren(...shown.map((row, i) => el("tr", { role: "row", id: `${id}-${i}`, "aria-rowindex": i + 2 }, ...columns.map((column) => cell(row, column)))));
    mark();
  }

  function sortBy(column) {
    order.down = order.column === column ? !order.down : true;
    order.column = column;
    heads.forEach((each, i) => each.setAttribute("aria-sort", i !== column ? "none" : order.down ? "descending" : "ascending"));
    place();
  }

  const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -1e9, End: 1e9 };
  function press(event) {
    if (event.target !== box || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key in moves) move(active + moves[event.key]);
    else if ((event.key === "Enter" || event.key === " ") && shown.length) enter(shown[active]);
    else return;
    event.preventDefault();
  }

  function click(event) {
    const node = event.target.closest("tbody tr");
    if (!node) return;
    active = [...body.children].indexOf(node);
    mark();
    enter(shown[active]);
  }

  const heads = columns.map(([said, kind], i) => el("th", { role: "columnheader", scope: "col", class: kind, "aria-sort": "none" }, el("button", { on: { click: () => sortBy(i) } }, said)));
  const head = el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...heads));
  const table = el("table", { id, class: "grid-rows", role: "grid", "aria-label": name, "aria-readonly": "true", "aria-rowcount": rows.length + 1 }, head, body);
  const box = el("div", { class: "scroller", tabindex: 0, role: "group", "aria-label": `Rows of ${name}`, on: { keydown: press, click } }, table);
  place();
  const note = rows.length > most ? el("p", { class: "status" }, `The first ${fixed(most, 0)} of ${fixed(rows.length, 0)} rows: sort by a column for others.`) : "";
  return {
    node: el("div", {}, box, note),
    choose(row) {
      chosen = row;
      const at = shown.indexOf(row);
      if (at < 0) mark();
      else move(at);
    },
  };
}
