// The tree from above: the model on top, below it what it is made of, in the order of the run.

const LAYER_HEIGHT = 34;

function placeIcicle(svg, root, width) {
  const pieces = [];
  const scale = width / (root.value || 1);
  const rows = []; // nodes of a depth that are too narrow, waiting to become one piece

  function put(node, x, w, depth) {
    const y = depth * (LAYER_HEIGHT + 2);
    const name = node.level === 0 ? "whole" : node.merged ? "rest" : treeClass(node);
    const shape = el("svg:g", {}, rect(x, y, Math.max(w - 0.5, 0.5), LAYER_HEIGHT, name));
    const said = node.merged ? `${node.children.length}` : node.name;
    shape.append(...[fitted(x, y + 14, w, said, {}), fitted(x, y + 28, w, timeText(node.value), { class: "faint" })].filter(Boolean));
    svg.append(shape);
    pieces.push({ node, shape });
  }

  function flush(depth) {
    const row = rows[depth];
    if (!row) return;
    rows[depth] = null;
    const w = row.end - row.x;
    if (row.nodes.length === 1) put(row.nodes[0], row.x, w, depth);
    else put(merged(row.parent, row.nodes), row.x, w, depth);
  }

  function place(node, x, depth) {
    const w = node.value * scale;
    if (w < 2.5 && depth > 0) {
      const row = rows[depth];
      if (row && row.parent === node.parent && row.end - row.x < 4) {
        row.nodes.push(node);
        row.end = x + w;
      } else {
        flush(depth);
        rows[depth] = { nodes: [node], parent: node.parent, x, end: x + w };
      }
      return;
    }
    flush(depth);
    put(node, x, w, depth);
    let along = x;
    for (const child of node.children) {
      place(child, along, depth + 1);
      along += child.value * scale;
    }
    flush(depth + 1);
  }

  place(root, 0, 0);
  return pieces;
}
