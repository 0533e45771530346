// A chart: an SVG whose pieces can be reached by keyboard, with a hint beside the pointer.

const hint = el("div", { class: "hint", role: "tooltip", hidden: true });
let charts = 0;

function showHint(event, words) {
  hint.hidden = !words;
  if (!words) return;
  hint.textContent = cut(words, 500);
  const left = Math.min(event.clientX + 14, window.innerWidth - hint.offsetWidth - 8);
  const below = event.clientY + 18 + hint.offsetHeight < window.innerHeight;
  hint.style.left = `${Math.max(4, left)}px`;
  hint.style.top = `${below ? event.clientY + 16 : event.clientY - hint.offsetHeight - 10}px`;
}

// ``draw(svg, width, height)`` gives the pieces: {node, words, commands, enter}. ``keys``: what
// other keys do. Returns {svg, redraw}.
function chart(host, name, height, draw, keys) {
  const id = `chart${charts++}`;
  let pieces = [];
  let active = -1;
  let width = 0;

  function mark() {
    pieces.forEach((piece, i) => {
      const chosen = selection.command !== null && (piece.commands || []).includes(selection.command);
      piece.node.classList.toggle("chosen", chosen);
      piece.node.setAttribute("aria-selected", chosen);
      piece.node.classList.toggle("active", i === active);
    });
    if (pieces[active]) svg.setAttribute("aria-activedescendant", pieces[active].node.id);
    else svg.removeAttribute("aria-activedescendant");
  }

  function redraw(keep) {
    width = Math.max(320, host.clientWidth);
    const tall = typeof height === "function" ? height(width) : height;
    svg.setAttribute("viewBox", `0 0 ${width} ${tall}`);
    svg.replaceChildren();
    pieces = draw(svg, width, tall);
    pieces.forEach((piece, i) => {
      piece.node.id = `${id}-${i}`;
      piece.node.setAttribute("role", "option");
      piece.node.setAttribute("aria-label", cut(piece.words, 300));
      piece.node.setAttribute("data-piece", i);
      piece.node.classList.add("piece");
    });
    if (!keep) active = -1;
    mark();
  }

  function enter(i) {
    active = i;
    mark();
    if (pieces[i]) pieces[i].enter();
  }

  function step(by) {
    if (!pieces.length) return;
    const from = active < 0 ? (by > 0 ? -1 : pieces.length) : active;
    active = Math.max(0, Math.min(pieces.length - 1, from + by));
    mark();
    pieces[active].node.scrollIntoView({ block: "nearest", inline: "nearest" });
    status(pieces[active].words);
  }

  const moves = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -1e9, End: 1e9 };
  function press(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key in moves) step(moves[event.key]);
    else if ((event.key === "Enter" || event.key === " ") && active >= 0) enter(active);
    else if (keys && keys[event.key]) keys[event.key](pieces[active]);
    else return;
    event.preventDefault();
  }

  const pieceOf = (event) => event.target.closest && event.target.closest("[data-piece]");
  const svg = el("svg:svg", {
    class: "chart", role: "listbox", tabindex: 0, "aria-label": name, preserveAspectRatio: "xMinYMin meet",
    on: {
      keydown: press,
      click: (event) => pieceOf(event) && enter(Number(pieceOf(event).dataset.piece)),
      pointermove: (event) => {
        const node = pieceOf(event);
        showHint(event, node ? pieces[Number(node.dataset.piece)].words : "");
      },
      pointerleave: (event) => showHint(event, ""),
    },
  });
  const words = el("p", { class: "status", "aria-live": "polite" });
  const status = (said) => (words.textContent = cut(said, 300));
  host.append(svg, words);
  selection.listen(mark);
  new ResizeObserver(() => {
    if (width && Math.abs(Math.max(320, host.clientWidth) - width) > 4) redraw(true);
  }).observe(host);
  return { svg, redraw, status };
}

// Text that fits a width; null where nothing would.
function fitted(x, y, width, said, attributes) {
  const room = Math.floor((width - 6) / 6.9);
  if (room < 3) return null;
  return el("svg:text", { x: x + 4, y, ...attributes }, cut(said, room));
}

function rect(x, y, width, height, name) {
  return el("svg:rect", { x: x.toFixed(2), y: y.toFixed(2), width: Math.max(0, width).toFixed(2), height: Math.max(0, height).toFixed(2), class: name });
}

function line(x1, y1, x2, y2, name) {
  return el("svg:line", { x1, y1, x2, y2, class: name });
}

// Round numbers from ``low`` to ``high``, about as many as fit.
function ticks(low, high, most) {
  const rough = (high - low) / Math.max(1, most);
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((n) => n * power >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-6; at += step) found.push(at);
  return found;
}

function describe(c) {
  return `${c.layer}: ${c.label}, ${c.kernel}, ${timeText(c.median)}, ${fixed(100 * c.share, 1)} %`;
}
