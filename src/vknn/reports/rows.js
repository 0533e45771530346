// Rows of the table: commands, or groups of them, with what a column shows of each.

const GROUPINGS = {
  dispatch: null,
  layer: (c) => [c.layerKey, c.layer],
  op: (c) => [c.op, c.op],
  kernel: (c) => [c.kernel, c.kernel],
};

// [id, head, hint, digits, value of a row]. Without digits: text.
const hasCeilings = commands.some((c) => c.saved !== null);
const STATIC = [
  ["registers", "registers", "vector registers of a lane"],
  ["spills", "spills", "registers spilled to memory"],
  ["shared", "shared, bytes", "shared memory of a workgroup"],
  ["waves", "waves", "subgroups that may be in flight"],
  ["modelled", "modelled µs", "time by arithmetic from the compiled code"],
].filter(([id]) => commands.some((c) => c.compiled && c.compiled[id] !== undefined));

function tableColumns(grouping) {
  const single = grouping === "dispatch";
  const texts = single
    ? [["layer", "layer"], ["op", "op"], ["kernel", "kernel"], ["label", "what"]]
    : [["name", grouping]];
  return [
    single ? ["index", "#", "place in the run", 0] : ["count", "dispatches", "commands of the group", 0],
    ...texts.map(([id, head]) => [id, head, "", null]),
    ["median", `${MIDDLE} µs`, `${MIDDLE} of the runs`, 1],
    ["share", "share %", `part of the sum of all ${MIDDLE}s`, 1, (row) => 100 * row.share],
    ...(hasCeilings
      ? [
          ["saved", "to save µs", "what reaching the ceiling would save", 1],
          ["ceiling", "of ceiling %", "part of the roofline's ceiling that it reaches", 0, (row) => (row.ceiling === null ? null : 100 * row.ceiling)],
        ]
      : []),
    ...(data.means === null ? [["least", "min µs", "the shortest run", 1]] : []),
    ["gflops", "GFLOP/s", "operations a second", 1],
    ["gbytes", "GB/s", "bytes read and written a second", 1],
    ...STATIC.map(([id, head, about]) => [id, head, about, id === "modelled" ? 1 : 0]),
    ...(single ? [["groups", "groups", "workgroups", null]] : []),
  ];
}

function compiledNumber(list, id) {
  const known = list.map((c) => (c.compiled ? c.compiled[id] : undefined)).filter((v) => v !== undefined);
  if (!known.length) return null;
  return id === "modelled" ? sum(known) : Math.max(...known);
}

// A row of commands; times are sums, numbers of the compiler the largest.
function rowOf(list, name) {
  const median = sum(list.map((c) => c.median));
  const known = list.filter((c) => c.saved !== null);
  const row = {
    commands: list,
    name,
    index: list.length === 1 ? list[0].index : null,
    count: list.length,
    median,
    least: sum(list.map((c) => c.least)),
    share: allTime ? median / allTime : 0,
    gflops: median ? sum(list.map((c) => c.flops)) / median / 1e3 || null : null,
    gbytes: median ? sum(list.map((c) => c.nbytes)) / median / 1e3 || null : null,
    saved: known.length ? sum(known.map((c) => c.saved)) : null,
    ceiling: null,
    spilling: list.some((c) => c.spills),
  };
  const time = sum(known.map((c) => c.median));
  if (time) row.ceiling = sum(known.map((c) => c.ceiling * c.median)) / time;
  for (const [id] of STATIC) row[id] = compiledNumber(list, id);
  return row;
}

function dispatchRow(c) {
  const row = {
    commands: [c], name: c.layer, index: c.index, count: 1, layer: c.layer, op: c.op, kernel: c.kernel, groups: c.groups,
    label: c.label.slice(c.op.length).trim() || c.label, median: c.median, least: c.least, share: c.share,
    gflops: (c.median && c.flops / c.median / 1e3) || null, gbytes: (c.median && c.nbytes / c.median / 1e3) || null,
    saved: c.saved, ceiling: c.ceiling, spilling: c.spills,
  };
  for (const [id] of STATIC) row[id] = compiledNumber([c], id);
  return row;
}

function rowsOf(grouping, list) {
  if (grouping === "dispatch") {
    return list.map(dispatchRow);
  }
  const groups = new Map();
  for (const c of list) {
    const [key, name] = GROUPINGS[grouping](c);
    if (!groups.has(key)) groups.set(key, { name, list: [] });
    groups.get(key).list.push(c);
  }
  return [...groups.values()].map((group) => rowOf(group.list, group.name));
}

function filtered(words, only) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return commands.filter((c) => (!only || only.set.has(c)) && wanted.every((word) => c.searched.includes(word)));
}

function sorted(rows, column, down) {
  const value = (row) => row[column];
  const order = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null); // unknown ones last, always
    const found = typeof x === "string" ? x.localeCompare(y) : x - y;
    return down ? -found : found;
  };
  return rows.map((row, i) => [row, i]).sort((a, b) => order(a[0], b[0]) || a[1] - b[1]).map(([row]) => row);
}
