// Time as a tree: model, layer, op, dispatch (or model, op, kernel, dispatch).

const LEVELS = {
  "layer › op › dispatch": [(c) => [c.layerKey, c.layer], (c) => [c.op, c.op]],
  "op › kernel › dispatch": [(c) => [c.op, c.op], (c) => [c.kernel, c.kernel]],
};

function treeOf(levels) {
  const root = { name: data.title, value: 0, children: [], commands: [], level: 0, parent: null };
  const keyed = new Map();
  for (const c of commands) {
    let node = root;
    let path = "";
    root.value += c.median;
    root.commands.push(c);
    for (const level of levels) {
      const [key, name] = level(c);
      path += `\n${key}`;
      if (!keyed.has(path)) {
        keyed.set(path, { name, value: 0, children: [], commands: [], level: node.level + 1, parent: node });
        node.children.push(keyed.get(path));
      }
      node = keyed.get(path);
      node.value += c.median;
      node.commands.push(c);
    }
    node.children.push({ name: c.label, value: c.median, children: [], commands: [c], level: node.level + 1, parent: node });
  }
  return root;
}

function treeWords(node) {
  const share = `${timeText(node.value)}, ${fixed((100 * node.value) / (allTime || 1), 1)} %`;
  if (node.children.length === 0 && node.commands.length === 1) return describe(node.commands[0]);
  const some = node.commands.length === 1 ? "1 dispatch" : `${fixed(node.commands.length, 0)} dispatches`;
  return `${node.name}: ${share}, ${some}`;
}

// The class of the operator that takes most of a node's time.
function treeClass(node) {
  if (node.commands.length === 1) return opClasses.get(node.commands[0].op);
  const times = new Map();
  for (const c of node.commands) times.set(c.op, (times.get(c.op) || 0) + c.median);
  return opClasses.get([...times].sort((a, b) => b[1] - a[1])[0][0]);
}

// A chart of the tree with a place that one goes into and out of. ``place(svg, node, width,
// height)`` gives the pieces, each with its node.
function treeChart(host, name, height, place) {
  let root = treeOf(Object.values(LEVELS)[0]);
  let at = root;
  const path = el("nav", { class: "path", "aria-label": `${name}: where` });

  function go(node) {
    at = node;
    const above = [];
    for (let each = at; each; each = each.parent) above.unshift(each);
    path.replaceChildren(...above.map((each) => el("button", { on: { click: () => go(each) } }, cut(each.name, 60))));
    drawing.redraw();
  }

  function enter(node) {
    if (node.commands.length === 1) selection.set(node.commands[0]);
    else if (node !== at && node.children.length) go(node);
    else if (at.parent) go(at.parent);
  }

  const out = () => at.parent && go(at.parent);
  const levels = choices("Levels", Object.keys(LEVELS).map((each) => [each, each]), Object.keys(LEVELS)[0], (chosen) => {
    root = treeOf(LEVELS[chosen]);
    go(root);
  });
  host.append(el("div", { class: "controls" }, levels, path));
  const drawing = chart(host, name, height, (svg, width, tall) =>
    place(svg, at, width, tall).map(({ node, shape }) => ({
      node: shape, words: treeWords(node), commands: node.level > 0 && node.commands.length < 100 ? node.commands : [], enter: () => enter(node),
    })), { Escape: out, Backspace: out });
  go(root);
}

// Nodes that are too small to be seen, as one.
function merged(parent, nodes) {
  const words = `${nodes.length} smaller ones in ${parent.name}`;
  return { name: words, value: sum(nodes.map((n) => n.value)), children: nodes, commands: nodes.flatMap((n) => n.commands), level: nodes[0].level, parent, merged: true };
}
