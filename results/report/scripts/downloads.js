// Each figure as PNG and SVG (image.js), drawn in light colours, and its numbers as CSV: those of the rows of its table that are
// shown, or, where a script draws more than a table holds, what csv() of its view gives: {columns, rows}, of the same cells. A
// view's `named` are texts that tell its files from those of another, beside what its lists say.

const slug = (text) => text.normalize("NFKD").toLowerCase().replace(/[^\p{L}\p{N}.]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 60);
const pageName = document.title.replace(/ · batchyard$/, ""), origin = embedded("origin");
const fileName = (article, part, extension) => {
  const choices = selectsOf(article).filter((one) => one.options.length > 1).map((one) => one.selectedOptions[0].label);
  const parts = [pageName, article.dataset.panel, part, ...choices, ...(views.get(article)?.named ?? [])];
  return `${parts.map(slug).filter(Boolean).join("-")}.${extension}`;
};

const saveFile = (name, content, type) => {
  const url = URL.createObjectURL(new Blob([content], { type }));
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
};

const csvCell = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const csvLines = (rows) => rows.map((cells) => `${cells.map(csvCell).join(",")}\r\n`).join("");
// A number as it is stored; texts as they are read, and nothing where nothing is known.
const csvText = ({ text, value }) => value ?? (text === "–" ? "" : text.replaceAll("\u00a0", " ").trim());
const withUnit = (heading, unit) => (unit && !heading.endsWith(`(${unit})`) && heading !== unit ? `${heading} (${unit})` : heading);
const csvOf = (columns, shown, all = shown) => {
  const header = columns.map((heading, i) => withUnit(heading, all.map((cells) => cells[i].unit).find(Boolean)));
  return csvLines([header, ...shown.map((cells) => cells.map(csvText))]);
};
// `constants`: what all rows have in common and the table does not say, as [heading, cell].
const csvOfTable = (table, constants = []) => {
  const rows = [...table.tBodies[0].rows];
  // Where the page has several sweeps a row begins with the one that its series is of.
  const named = severalSweeps && rows.some((row) => row.dataset.of);
  const sweepOf = (row) => ({ text: seriesByKey.get(JSON.parse(row.dataset.of)[0])?.sweep ?? "" });
  const cells = (row) => [...(named ? [sweepOf(row)] : []), ...[...row.cells].map((cell) => ({ text: cell.textContent, ...cell.dataset })), ...constants.map(([, cell]) => cell)];
  const headings = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  return csvOf([...(named ? ["sweep"] : []), ...headings, ...constants.map(([heading]) => heading)], rows.filter((row) => !row.hidden).map(cells), rows.map(cells));
};
const saveCsv = async (article, table) => {
  if (!views.has(article)) await draw(article);
  const view = views.get(article), made = view?.csv?.();
  const text = made ? csvOf(made.columns, made.rows.map((cells) => cells.map(cellOf))) : csvOfTable(table, view?.constants);
  saveFile(fileName(article, "", "csv"), `\ufeff${text}`, "text/csv");
};

const saveImage = async (article, index, format) => {
  if (!views.has(article)) await draw(article);
  const { charts } = views.get(article), chart = charts[index];
  const element = article.querySelector(`[data-chart="${index}"]`);
  const found = specOf(chart, (light) => structuredClone(light));
  const { width, height } = element.getBoundingClientRect();
  const words = wordsFor(chart, found), figure = element.closest("figure");
  const image = await imageOf(words ? inWords(found, words) : found, {
    width: Math.round(width),
    height: Math.round(height),
    heading: (!words && chart.heading) || article.querySelector("[data-heading]").textContent,
    notes: [figure.querySelector("figcaption"), article.querySelector(".of-all:not([hidden])")].filter(Boolean).map((one) => one.textContent),
    origin: origin.length ? origin : [pageName],
  });
  const part = charts.length > 1 ? chart.title || String(index + 1) : "";
  const isPng = format === "png";
  saveFile(fileName(article, part, format), isPng ? await pngOf(image) : image.svg, isPng ? "image/png" : "image/svg+xml");
};

const nameDownload = (made, title) => {
  made.title = title;
  made.ariaLabel = `Download ${title || "this figure"} as ${made.dataset.download.toUpperCase()}`;
};

for (const article of articles) {
  const place = Object.assign(document.createElement("div"), { className: "downloads", role: "group", ariaLabel: "Downloads" });
  const charts = [...article.querySelectorAll("[data-chart]")];
  charts.forEach((element, index) => {
    const title = element.closest("figure").querySelector("figcaption")?.textContent ?? "";
    for (const format of ["png", "svg"]) {
      const name = format.toUpperCase();
      const made = button(charts.length > 1 ? `${name} ${index + 1}` : name, () => saveImage(article, index, format), "");
      Object.assign(made.dataset, { download: format, index });
      nameDownload(made, title);
      place.append(made);
    }
  });
  const table = article.querySelector("details.data table");
  if (table) {
    const made = button("CSV", () => saveCsv(article, table), "Download the data of this figure as CSV");
    made.dataset.download = "csv";
    place.append(made);
  }
  article.append(place);
}
