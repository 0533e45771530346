// Areas as large as times, squarish: rows are filled along the shorter side while that makes them
// squarer.

function worst(areas, total, side) {
  const [most, least] = [Math.max(...areas), Math.min(...areas)];
  return Math.max((side * side * most) / (total * total), (total * total) / (side * side * least));
}

// [node, x, y, width, height] of each; nodes have areas in pixels.
function squarified(nodes, x, y, width, height) {
  const placed = [];
  const left = [...nodes];
  while (left.length) {
    const side = Math.min(width, height);
    const row = [left.shift()];
    let total = row[0].area;
    let shape = worst([total], total, side);
    while (left.length) {
      const areas = [...row.map((n) => n.area), left[0].area];
      const next = worst(areas, total + left[0].area, side);
      if (next > shape) break;
      total += left[0].area;
      row.push(left.shift());
      shape = next;
    }
    const across = side > 0 ? total / side : 0;
    let along = 0;
    for (const { node, area } of row) {
      const length = across > 0 ? area / across : 0;
      placed.push(width >= height ? [node, x, y + along, across, length] : [node, x + along, y, length, across]);
      along += length;
    }
    if (width >= height) [x, width] = [x + across, width - across];
    else [y, height] = [y + across, height - across];
  }
  return placed;
}

const SMALLEST = 60; // square pixels: smaller ones become one piece

function placeTreemap(svg, root, width, height) {
  const pieces = [];

  function inner(node, x, y, w, h) {
    const scale = (w * h) / (node.value || 1);
    const large = node.children.filter((n) => n.value * scale >= SMALLEST);
    const small = node.children.filter((n) => n.value * scale < SMALLEST && n.value > 0);
    if (small.length) large.push(small.length === 1 ? small[0] : merged(node, small));
    const areas = large.map((n) => ({ node: n, area: n.value * scale })).sort((a, b) => b.area - a.area);
    for (const [each, ...place] of squarified(areas, x, y, w, h)) outer(each, ...place);
  }

  function outer(node, x, y, w, h) {
    let below = node;
    while (below.children.length === 1) below = below.children[0];
    const shown = below.children.length > 1 && !node.merged && w > 30 && h > 34;
    const shape = el("svg:g", { class: shown ? "group" : "leaf" }, rect(x, y, w, h, node.merged ? "rest" : treeClass(below)));
    pieces.push({ node: below.children.length ? node : below, shape });
    svg.append(shape);
    const head = h > 15 ? fitted(x, y + 12, w, node.merged ? `${node.children.length} smaller` : node.name, {}) : null;
    if (head) shape.append(head);
    if (shown) inner(below, x + 2, y + 17, w - 4, h - 19);
    else if (h > 30 && head) {
      const time = fitted(x, y + 26, w, timeText(node.value), { class: "faint" });
      if (time) shape.append(time);
    }
  }

  if (root.value > 0) inner(root, 0, 0, width, height);
  return pieces;
}
