// The graph of layers: ranks from top to bottom, each as far down as the longest way to it.

const [BOX_WIDTH, BOX_HEIGHT, RANK, MOST_DRAWN] = [150, 24, 40, 3000];

function ranked(count, edges) {
  const ranks = new Array(count).fill(0);
  const after = Array.from({ length: count }, () => []);
  const waiting = new Array(count).fill(0);
  for (const [from, to] of edges) {
    after[from].push(to);
    waiting[to] += 1;
  }
  const ready = [];
  for (let i = 0; i < count; i++) if (!waiting[i]) ready.push(i);
  while (ready.length) { // layers on a circle, of which a file may have some, stay at the top
    const layer = ready.pop();
    for (const next of after[layer]) {
      ranks[next] = Math.max(ranks[next], ranks[layer] + 1);
      if (--waiting[next] === 0) ready.push(next);
    }
  }
  return ranks;
}

// [x, y] of each layer, as fractions of the width across; rows that are too long go on below.
function placedLayers(count, edges, width) {
  const ranks = ranked(count, edges);
  const rows = [];
  ranks.forEach((rank, layer) => (rows[rank] = rows[rank] || []).push(layer));
  const most = Math.max(1, Math.floor(width / (BOX_WIDTH + 14)));
  const places = [];
  let y = 6;
  for (const row of rows.filter(Boolean)) {
    for (let at = 0; at < row.length; at += most) {
      const part = row.slice(at, at + most);
      part.forEach((layer, i) => (places[layer] = [((i + 0.5) * width) / part.length - BOX_WIDTH / 2, y]));
      y += RANK;
    }
  }
  return { places, height: y };
}
