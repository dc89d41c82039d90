// What the page carries as JSON, and the reader's colour scheme.
const embedded = (id) => JSON.parse(document.getElementById(id)?.textContent ?? "null");

const darkOf = embedded("dark");
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
const printed = { now: false };

// Colours are whole strings in a figure's specification.
const inScheme = (value) => {
  if (typeof value === "string") return darkOf[value] ?? value;
  if (Array.isArray(value)) return value.map(inScheme);
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, inScheme(inner)]));
  }
  return value;
};
const coloured = (spec) => (prefersDark.matches && !printed.now ? inScheme(spec) : structuredClone(spec));
