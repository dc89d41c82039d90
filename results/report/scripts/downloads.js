// Each figure as PNG and SVG, drawn in light colours, and the rows of its table that are shown as CSV.

const slug = (text) => text.normalize("NFKD").toLowerCase().replace(/[^\p{L}\p{N}.]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 60);
const fileName = (article, chart, extension) => {
  const choices = selectsOf(article).filter((one) => one.options.length > 1).map((one) => one.selectedOptions[0].label);
  const parts = [document.title.replace(/ · batchyard$/, ""), article.dataset.panel, chart?.title ?? "", ...choices];
  return `${parts.map(slug).filter(Boolean).join("-")}.${extension}`;
};

const saveFile = (name, content, type) => {
  const url = URL.createObjectURL(new Blob([content], { type }));
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
};

const csvCell = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const csvOf = (table) =>
  [...table.rows]
    .filter((row) => !row.hidden)
    .map((row) => `${[...row.cells].map((cell) => csvCell(cell.textContent.replaceAll("\u00a0", " ").trim())).join(",")}\r\n`)
    .join("");

const saveImage = async (article, index, format) => {
  if (!views.has(article)) await draw(article);
  const chart = views.get(article).charts[index];
  const { width, height } = article.querySelector(`[data-chart="${index}"]`).getBoundingClientRect();
  const spec = specOf(chart, (light) => structuredClone(light));
  const image = await Plotly.toImage(spec, { format, width: Math.round(width), height: Math.round(height), scale: format === "png" ? 2 : 1 });
  const bytes = format === "svg" ? decodeURIComponent(image.slice(image.indexOf(",") + 1)) : decodeBase64(image.slice(image.indexOf(",") + 1));
  saveFile(fileName(article, chart, format), bytes, format === "svg" ? "image/svg+xml" : "image/png");
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
    const made = button("CSV", () => saveFile(fileName(article, null, "csv"), `\ufeff${csvOf(table)}`, "text/csv"), "Download the data of this figure as CSV");
    made.dataset.download = "csv";
    place.append(made);
  }
  article.append(place);
}
