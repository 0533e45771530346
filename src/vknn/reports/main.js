// The page: head, parts, and what happens before it is printed.

const PARTS = { wall: "a plain run", timed: "a run with timestamps", extent: "first command to last", upload: "upload", busy: "commands run", gaps: "gaps", submit: "submits", download: "download", host: "on the host" };

function totalsParts() {
  const known = Object.keys(PARTS).filter((name) => name in data.total);
  const cards = known.map((name) => el("div", { class: "card" }, el("span", { class: "faint" }, PARTS[name]), el("strong", { "data-total": name }, timeText(data.total[name]))));
  const spent = known.filter((name) => !["wall", "timed", "extent"].includes(name) && data.total[name] > 0);
  const whole = sum(spent.map((name) => data.total[name])) || 1;
  const bar = el("svg:svg", { class: "spent", viewBox: "0 0 1000 16", preserveAspectRatio: "none", role: "img", "aria-label": spent.map((n) => `${PARTS[n]} ${fixed((100 * data.total[n]) / whole, 1)} %`).join(", ") });
  let x = 0;
  spent.forEach((name, i) => {
    const width = (1000 * data.total[name]) / whole;
    bar.append(rect(x, 0, width, 16, `c${i}`));
    x += width;
  });
  const keys = el("p", { class: "legend" }, ...spent.map((name, i) => el("span", { class: "key" }, swatch(`c${i}`), `${PARTS[name]} ${fixed((100 * data.total[name]) / whole, 1)} %`)));
  return [el("div", { class: "cards" }, ...cards), bar, keys];
}

function whereSection() {
  const icicle = el("div", {});
  const map = el("div", {});
  drawLate(icicle, () => treeChart(icicle, "Icicle of time", 4 * 36, placeIcicle));
  drawLate(map, () => treeChart(map, "Treemap of time", 420, placeTreemap));
  return section("where", "Where the time goes", legend(), el("h3", {}, "Icicle"), icicle, el("h3", {}, "Treemap"), map);
}

// What a profile of vknn-run has no data for; the page says so.
const ABSENT = data.means === null ? [] : ["memory", "source"];

function meansNote() {
  return el("p", { class: "about", id: "means-note" }, "vknn-run measured this, and keeps the mean of its runs alone: of single runs, runs without timestamps, the host, buffers and the kernels' sources the file has nothing, so the page has no parts for memory and source.");
}

function build() {
  const names = [["table", "Dispatches"], ["where", "Where the time goes"], ["timeline", "Timeline"], ["roofline", "Roofline"], ["memory", "Memory"], ["source", "Source"], ...(data.counters ? [["counters", "Counters"]] : []), ...(check ? [["check", "Cross-check"]] : [])].filter(([id]) => !ABSENT.includes(id));
  const about = pairs(data.about.map(([name, value]) => [name, value]));
  const head = el("header", {}, el("h1", {}, data.title), about);
  const nav = el("nav", { class: "parts", "aria-label": "Parts" }, ...names.map(([id, name]) => el("a", { href: `#${id}` }, name)));
  const count = data.means === null ? data.runs : data.means;
  const runs = count === 1 ? "one run" : `${count} runs`;
  const totals = section("totals-of-runs", `A run, ${MIDDLE} of ${runs}`, ...totalsParts(), data.means === null ? "" : meansNote());
  const sections = { table: tableSection, where: whereSection, timeline: timelineSection, roofline: rooflineSection, memory: memorySection, source: sourceSection };
  const empty = commands.length ? [] : [el("p", {}, "The network holds nothing that is computed.")];
  const main = el("main", {}, totals, ...empty, ...(commands.length ? Object.keys(sections).filter((id) => !ABSENT.includes(id)).map((id) => sections[id]()) : []), data.counters ? countersSection() : "", check ? checkSection() : "");
  document.getElementById("report").append(head, nav, el("div", { class: "columns" }, main, detailPanel()), hint);
  if (commands.length) refreshTable();
}

// On paper there is nothing to scroll: all parts are drawn, and of the table the first rows.
window.addEventListener("beforeprint", () => {
  for (const host of late) host.drawNow();
  if (!commands.length) return;
  table.printing = true;
  placeRows(0, Math.min(PRINTED, table.rows.length));
  for (const row of table.body.querySelectorAll(".spacer")) row.style.height = "0";
  if (table.rows.length > PRINTED) table.note.textContent += `; the first ${PRINTED} are printed`;
});
window.addEventListener("afterprint", () => {
  table.printing = false;
  if (commands.length) refreshTable();
});

// A page's address may name a dispatch: report.html#dispatch=12
function follow() {
  const named = /^#dispatch=(\d+)$/.exec(window.location.hash);
  if (named && commands[Number(named[1])]) selection.set(commands[Number(named[1])]);
}

build();
follow();
window.addEventListener("hashchange", follow);
requestAnimationFrame(() => setTimeout(() => performance.mark("vknn-drawn")));
