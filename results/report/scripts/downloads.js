// Each figure as PNG and SVG, drawn in light colours, and its numbers as CSV: those of the rows of its table that are
// shown, or, where a script draws more than a table holds, what csv() of its view gives: {columns, rows}, of the same cells.

const slug = (text) => text.normalize("NFKD").toLowerCase().replace(/[^\p{L}\p{N}.]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 60);
const fileName = (article, part, extension) => {
  const choices = selectsOf(article).filter((one) => one.options.length > 1).map((one) => one.selectedOptions[0].label);
  const parts = [document.title.replace(/ · batchyard$/, ""), article.dataset.panel, part, ...choices];
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
const csvOfTable = (table) => {
  const rows = [...table.tBodies[0].rows];
  // Where the page has several sweeps a row begins with the one that its series is of.
  const named = severalSweeps && rows.some((row) => row.dataset.of);
  const sweepOf = (row) => ({ text: seriesByKey.get(JSON.parse(row.dataset.of)[0])?.sweep ?? "" });
  const cells = (row) => [...(named ? [sweepOf(row)] : []), ...[...row.cells].map((cell) => ({ text: cell.textContent, ...cell.dataset }))];
  return csvOf([...(named ? ["sweep"] : []), ...[...table.tHead.rows[0].cells].map((cell) => cell.textContent)], rows.filter((row) => !row.hidden).map(cells), rows.map(cells));
};
const saveCsv = async (article, table) => {
  if (!views.has(article)) await draw(article);
  const made = views.get(article)?.csv?.();
  const text = made ? csvOf(made.columns, made.rows.map((cells) => cells.map(cellOf))) : csvOfTable(table);
  saveFile(fileName(article, "", "csv"), `\ufeff${text}`, "text/csv");
};

// An image leaves the page, and with it its heading and the legend: it takes both along.
const ROOM_PX = 110; // for them
const named = ({ data, layout }, heading) => {
  const several = data.filter((trace) => trace.name).length > 1;
  for (const trace of data) trace.showlegend = Boolean(trace.name) && trace.showlegend !== false;
  const margin = { ...layout.margin, t: (layout.margin?.t ?? 30) + 40, b: (layout.margin?.b ?? 56) + 40 };
  const title = { text: escaped(heading), x: 0.01, xanchor: "left", yref: "container", y: 0.98, yanchor: "top", font: { size: 15 } };
  return { data, layout: { ...layout, width: undefined, height: undefined, margin, title, showlegend: several } };
};

const saveImage = async (article, index, format) => {
  if (!views.has(article)) await draw(article);
  const chart = views.get(article).charts[index];
  const { width, height } = article.querySelector(`[data-chart="${index}"]`).getBoundingClientRect();
  const spec = named(specOf(chart, (light) => structuredClone(light)), views.get(article).heading);
  const image = await Plotly.toImage(spec, {
    format,
    width: Math.round(width),
    height: Math.round(height + ROOM_PX),
    scale: format === "png" ? 2 : 1,
  });
  const bytes = format === "svg" ? decodeURIComponent(image.slice(image.indexOf(",") + 1)) : decodeBase64(image.slice(image.indexOf(",") + 1));
  const part = views.get(article).charts.length > 1 ? chart.title || String(index + 1) : "";
  saveFile(fileName(article, part, format), bytes, format === "svg" ? "image/svg+xml" : "image/png");
};

for (const article of articles) {
  const place = Object.assign(document.createElement("div"), { className: "downloads", role: "group", ariaLabel: "Downloads" });
  const charts = [...article.querySelectorAll("[data-chart]")];
  charts.forEach((element, index) => {
    const title = element.closest("figure").querySelector("figcaption")?.textContent ?? "";
    for (const format of ["png", "svg"]) {
      const name = format.toUpperCase();
      const made = button(charts.length > 1 ? `${name} ${index + 1}` : name, () => saveImage(article, index, format), `Download ${title || "this figure"} as ${name}`);
      made.title = title;
      made.dataset.download = format;
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
