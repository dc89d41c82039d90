// Texts as results/report/numbers.py writes them, and text that Plotly may read as HTML.

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

// Keep a setting such as "dynamic · 8 · 50 ms" on one line, and a number with its unit and its "≤".
const unbroken = (text) => text.replaceAll(" · ", "\u00a0·\u00a0").replaceAll("≤ ", "≤\u00a0").replace(/(\d) (%|ms\b|s\b)/g, "$1\u00a0$2");

const numberText = (value) => {
  if (value === null || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toLocaleString("en-US", { maximumFractionDigits: digits }).replace("-", "−");
};

const durationText = (seconds) => {
  if (seconds === null || !Number.isFinite(seconds)) return "–";
  return seconds !== 0 && Math.abs(seconds) < 1 ? `${numberText(1000 * seconds)} ms` : `${numberText(seconds)} s`;
};
