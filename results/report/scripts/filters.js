// The bar of filters and the keys of the legend: what the reader switched off, in all figures and tables.

const FILTER_NAMES = { setting: "strategy", backend: "backend", model: "model", device: "device", sweep: "sweep", rate: "rate" };
const valuesOf = (name) => {
  if (name === "series") return [...series.map((one) => one.key), "theory"];
  const found = name === "rate" ? series.flatMap((one) => one.rates) : series.map((one) => one[name]);
  const values = [...new Set(found.filter((value) => value !== undefined && value !== ""))];
  return name === "rate" ? values.sort((one, other) => one - other) : values;
};
const filterText = (name, value) => (name === "rate" ? `${numberText(value)} req/s` : String(value));

const filterBar = document.getElementById("filters");
const menus = []; // {name, values, summary, boxes}

const button = (text, act, label) => {
  const made = Object.assign(document.createElement("button"), { type: "button", textContent: text });
  if (label) made.setAttribute("aria-label", label);
  made.addEventListener("click", act);
  return made;
};

// Let the bar grow by the list that is open, and what is below it move down: the list covers nothing. The browser would
// scroll after it, to keep in its place what the list then lies over.
const makeRoom = () => {
  const list = filterBar.querySelector("details[data-filter][open] fieldset");
  document.documentElement.style.overflowAnchor = "none";
  filterBar.style.paddingBottom = "";
  if (list) {
    const room = list.getBoundingClientRect().bottom - filterBar.getBoundingClientRect().bottom;
    filterBar.style.paddingBottom = `${Math.ceil(room) + 12}px`;
  } else requestAnimationFrame(() => requestAnimationFrame(() => (document.documentElement.style.overflowAnchor = "")));
};

const buildMenu = (name) => {
  const values = valuesOf(name);
  if (values.length < 2) return;
  const menu = document.createElement("details");
  menu.dataset.filter = name;
  const summary = document.createElement("summary");
  const list = Object.assign(document.createElement("fieldset"), { ariaLabel: `Filter by ${FILTER_NAMES[name]}` });
  const boxes = values.map((value) => {
    const box = Object.assign(document.createElement("input"), { type: "checkbox", value: String(value) });
    box.addEventListener("change", () => {
      if (box.checked) off[name].delete(value);
      else off[name].add(value);
      changed();
    });
    const label = document.createElement("label");
    label.append(box, ` ${filterText(name, value)}`);
    list.append(label);
    return box;
  });
  const all = (shown) => () => {
    off[name].clear();
    if (!shown) for (const value of values) off[name].add(value);
    changed();
  };
  const both = document.createElement("div");
  both.append(
    button("all", all(true), `Show every ${FILTER_NAMES[name]}`),
    button("none", all(false), `Hide every ${FILTER_NAMES[name]}`),
  );
  list.append(both);
  menu.append(summary, list);
  menu.addEventListener("toggle", () => {
    if (menu.open) for (const other of menus) if (other.menu !== menu) other.menu.open = false;
    makeRoom();
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    summary.focus();
  });
  filterBar.append(menu);
  menus.push({ name, values, menu, summary, boxes });
};

const filterStatus = Object.assign(document.createElement("span"), { role: "status", id: "filter-status" });
const resetFilters = () => {
  for (const values of Object.values(off)) values.clear();
  changed();
};
const resetButton = button("reset", resetFilters, "Reset all filters");

const legendKeys = [...document.querySelectorAll("button[data-series]")];

// Say what is shown in the bar and in the legends.
const showFilters = () => {
  for (const key of legendKeys) {
    key.setAttribute("aria-pressed", String(!off.series.has(key.dataset.series)));
    key.hidden = !passesFilters(key.dataset.series);
  }
  for (const name of document.querySelectorAll(".legend .place > span")) {
    const named = [];
    for (let one = name.nextElementSibling; one && !(one.matches("span") && name.matches(".family")); one = one.nextElementSibling) named.push(one);
    name.hidden = named.filter((one) => one.matches("button")).every((one) => one.hidden);
  }
  if (!filterBar) return;
  for (const { name, values, summary, boxes } of menus) {
    values.forEach((value, i) => (boxes[i].checked = !off[name].has(value)));
    const shown = values.length - off[name].size;
    summary.textContent = `${FILTER_NAMES[name]}: ${shown === values.length ? "all" : `${shown} of ${values.length}`}`;
    summary.toggleAttribute("data-filtered", shown < values.length);
  }
  const all = series.reduce((sum, one) => sum + one.rates.length, 0);
  const points = series.filter((one) => showsSeries(one.key)).reduce((sum, one) => sum + one.rates.filter(showsRate).length, 0);
  const filtered = Object.values(off).some((values) => values.size);
  for (const one of document.querySelectorAll(".of-all")) if (!one.closest("[data-panel]")) one.hidden = !isFiltered();
  resetButton.disabled = !filtered;
  filterStatus.textContent = filtered
    ? `${points} of ${all} points shown. Figures, their controls, tables and sentences follow; what speaks of all says so.`
    : all === 1 ? "its one point shown" : `all ${all} points shown`;
};

const applyFilters = () => {
  hideElements();
  followSentences();
  offer();
  showFilters();
};

if (filterBar) {
  Object.keys(FILTER_NAMES).forEach(buildMenu);
  filterBar.append(resetButton, filterStatus);
  document.addEventListener("click", (event) => {
    for (const { menu } of menus) if (!menu.contains(event.target)) menu.open = false;
  });
}
for (const key of legendKeys) {
  key.addEventListener("click", () => {
    if (!off.series.delete(key.dataset.series)) off.series.add(key.dataset.series);
    changed();
  });
}
