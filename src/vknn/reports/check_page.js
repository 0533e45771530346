// The page of a cross-check alone.

document.getElementById("report").append(el("header", {}, el("h1", {}, check.model)), el("main", { class: "alone" }, checkSection()), hint);
// A page's address may name a layer by its place: check.html#layer=12
const asked = /^#layer=(\d+)$/.exec(window.location.hash);
if (asked) {
  late.forEach((host) => host.drawNow());
  const piece = document.querySelectorAll("#check .piece")[Number(asked[1])];
  if (piece) piece.dispatchEvent(new MouseEvent("click", { bubbles: true }));
}
window.addEventListener("beforeprint", () => late.forEach((host) => host.drawNow()));
requestAnimationFrame(() => setTimeout(() => performance.mark("vknn-drawn")));
