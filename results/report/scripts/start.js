// Begins: the state that the address asks for, then the first drawing.
for (const article of articles) {
  for (const select of selectsOf(article)) {
    wanted.set(select, select.value);
    select.addEventListener("change", () => {
      wanted.set(select, select.value);
      changed(article);
    });
  }
}
for (const input of stateInputs()) opened.set(stateOf(input), valueOf(input));
if (isLink(location.hash)) applyLink(location.hash.slice(1));
window.addEventListener("hashchange", () => {
  if (!isLink(location.hash)) return;
  applyLink(location.hash.slice(1));
  changed();
});
for (const box of document.querySelectorAll("[data-only-marked]")) {
  const table = document.getElementById(box.dataset.onlyMarked);
  box.addEventListener("change", () => table.classList.toggle("only-marked", box.checked));
}
prefersDark.addEventListener("change", () => redraw());
window.addEventListener("beforeprint", () => drawForPrint(true));
window.addEventListener("afterprint", () => drawForPrint(false));
// A place on the page is gone to without its name in the address, which holds what the reader chose.
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  const place = link && document.getElementById(link.getAttribute("href").slice(1));
  if (!place || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  place.scrollIntoView();
  if (!place.hasAttribute("tabindex")) place.tabIndex = -1; // or the next Tab would begin at the link
  place.focus({ preventScroll: true });
});
applyFilters();
redraw();
prepareForPrint();
