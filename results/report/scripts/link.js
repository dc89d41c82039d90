// The reader's choices as the page's address after "#", and back: what differs from the page as it opens.

const controlKey = (select) => `${select.closest("[data-panel]").dataset.panel}.${select.dataset.control}`;
const stateOf = (input) => input.dataset.state ?? controlKey(input);
const stateInputs = () => [...document.querySelectorAll("select[data-control], [data-state]")];
const valueOf = (input) => (input.type === "checkbox" ? String(input.checked) : (wanted.get(input) ?? input.value));
const opened = new Map(); // state → its value when the page opened

const linkText = () => {
  const parts = new URLSearchParams();
  for (const [name, values] of Object.entries(off)) for (const value of values) parts.append(`without-${name}`, value);
  for (const input of stateInputs()) {
    const value = valueOf(input);
    if (!("follows" in input.dataset) && value !== opened.get(stateOf(input))) parts.set(stateOf(input), value);
  }
  return parts.toString();
};

const saveLink = () => {
  const text = linkText();
  const address = location.href.split("#")[0];
  history.replaceState(null, "", text ? `${address}#${text}` : address);
};

// Set one control as the reader would; a value that it does not have is passed over.
const setInput = (input, value) => {
  if (valueOf(input) === value || value === undefined) return;
  if (input.type === "checkbox") input.checked = value === "true";
  else if (input.tagName !== "SELECT") input.value = value.slice(0, 40);
  else if ([...input.options].some((option) => option.value === value)) input.value = value;
  else return;
  for (const type of ["input", "change"]) input.dispatchEvent(new Event(type, { bubbles: true }));
};

const applyLink = (text) => {
  const parts = new URLSearchParams(text);
  for (const [name, values] of Object.entries(off)) {
    values.clear();
    for (const value of parts.getAll(`without-${name}`)) {
      const known = valuesOf(name).find((one) => String(one) === value);
      if (known !== undefined) values.add(known);
    }
  }
  for (const input of stateInputs()) setInput(input, opened.get(stateOf(input)));
  for (const input of stateInputs()) setInput(input, parts.get(stateOf(input)) ?? undefined);
};

const isLink = (hash) => hash.includes("="); // and not the name of a place on the page

// The reader changed something: of one panel, or, without it, of all.
const changed = (article) => {
  if (article === undefined) {
    applyFilters();
  }
  redraw(article ? [article] : articles);
  saveLink();
};
