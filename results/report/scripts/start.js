// Begins: what the reader can change, then the first drawing.
for (const article of articles) {
  for (const select of selectsOf(article)) select.addEventListener("change", () => redraw([article]));
}
const keys = [...document.querySelectorAll("button[data-series]")];
for (const key of keys) {
  key.addEventListener("click", () => {
    if (!off.series.delete(key.dataset.series)) off.series.add(key.dataset.series);
    for (const twin of keys) twin.setAttribute("aria-pressed", String(!off.series.has(twin.dataset.series)));
    hideElements();
    redraw();
  });
}
document.getElementById("only-marked")?.addEventListener("change", (event) => {
  document.getElementById("trials").classList.toggle("only-marked", event.target.checked);
});
prefersDark.addEventListener("change", () => redraw());
window.addEventListener("beforeprint", () => drawForPrint(true));
window.addEventListener("afterprint", () => drawForPrint(false));
redraw();
