// Draws panels: what is near the viewport at once, the rest when the browser has time.

const panels = JSON.parse(new TextDecoder().decode(await inflate(decodeBase64(document.getElementById("panels").textContent))));
const PRINT_WIDTH_PX = 680, PRINT_HEIGHT_PX = 860; // a figure keeps to one sheet, Letter or A4
const PLOT = {
  responsive: true,
  displaylogo: false,
  typesetMath: false,
  showSendToCloud: false,
  modeBarButtonsToRemove: ["toImage", "select2d", "lasso2d", "zoomIn2d", "zoomOut2d", "autoScale2d"],
};

// Panels that scripts draw: live[name] = ({data, choices, showsSeries, showsRate}) => view, or a promise of one.
// A view: {heading, note, charts: [{data, layout, summary, title?, heading?, words?}], table?: {columns, rows, marks?}, csv?, named?, constants?,
// follows?}; as many charts as in Python. A chart's own `heading` is that of its image; `named` and `constants`: see downloads.js. With `words` a chart has nothing to draw, and says them in its place. With `follows` its texts speak of what is shown; all others are marked while something is filtered out.
// A cell of a table is a text, or {text, value, unit?} of a number as it is stored, a text too, "" where it is unknown.
const live = {};
const views = new WeakMap(); // article → what it shows

const articles = [...document.querySelectorAll("[data-panel]")];
const choicesOf = (article) => Object.fromEntries(selectsOf(article).map((one) => [one.dataset.control, one.value]));

const NOTHING_LEFT = "Nothing of this figure is left", ALL_FILTERED = `${NOTHING_LEFT}: it is all filtered out`;
const emptied = (view) => ({
  heading: ALL_FILTERED, note: "", follows: true,
  charts: view.charts.map(({ layout }) => ({ data: [], layout, summary: NOTHING_LEFT, words: NOTHING_LEFT })),
  table: view.table && { ...view.table, rows: [], marks: [] },
});

const viewOf = (article) => {
  const view = wholeView(article);
  if (view === null || !isNothingLeft(article)) return view;
  return view instanceof Promise ? view.then(emptied) : emptied(view);
};

const wholeView = (article) => {
  const { views: made, live: data } = panels[article.dataset.panel];
  if (data === null) return made[selectsOf(article).map((one) => one.value).join("|")] ?? null;
  return live[article.dataset.panel]({ data, choices: choicesOf(article), showsSeries, showsRate });
};

// What Plotly is given of a chart: in a scheme of colours, without what is filtered out.
const specOf = (chart, scheme) => {
  const spec = scheme({ data: chart.data, layout: chart.layout });
  for (const trace of spec.data.map(keepShown)) {
    for (const bars of [trace.error_x, trace.error_y].filter(Boolean)) {
      for (const side of ["array", "arrayminus"]) {
        if (bars[side]) bars[side] = bars[side].map((length) => length ?? NaN); // Plotly draws null as 0: a dash
      }
    }
  }
  keepCategories(spec.layout);
  return spec;
};

// What is said in place of a chart of which the filters leave no points, or that has none: "" where it is drawn. Lines of
// theory and those of no series are no points.
const wordsFor = (chart, { data }) => {
  const hasPoints = ({ meta, visible, x, y, z }) =>
    meta && !meta.theory && visible !== false && [x, y, z].some((values) => values?.length);
  return chart.words ?? (chart.data.some(hasPoints) && !data.some(hasPoints) ? NOTHING_LEFT : "");
};

// Those words instead of empty axes.
const inWords = ({ layout }, words) => {
  const bare = Object.fromEntries(Object.entries(layout).filter(([key]) => !/^[xy]axis/.test(key)));
  const text = { text: words, showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5, font: { size: 15 } };
  const hidden = { visible: false };
  return { data: [], layout: { ...bare, xaxis: hidden, yaxis: hidden, shapes: [], annotations: [text], showlegend: false } };
};

const drawChart = (element, { chart, found, words }, ofAll) => {
  const spec = words ? inWords(found, words) : found;
  element.setAttribute("aria-label", words || (ofAll ? OF_ALL : "") + chart.summary);
  if (printed.now) Object.assign(spec.layout, { width: PRINT_WIDTH_PX, height: Math.min(spec.layout.height, PRINT_HEIGHT_PX) });
  return Plotly.react(element, spec.data, spec.layout, PLOT);
};

const formulas = embedded("formulas"); // of what stands under a heading
const cellOf = (one) => (typeof one === "string" ? { text: one } : one);
const amount = (value, unit, said = numberText) => ({ text: said(value), value: Number.isFinite(value ?? NaN) ? String(value) : "", unit });

const fillTable = (article, { columns, rows, marks = [] }) => {
  const table = article.querySelector("details.data table");
  const line = (tag, cells) => {
    const row = document.createElement("tr");
    for (const { text, value, unit } of cells.map(cellOf)) {
      const cell = Object.assign(document.createElement(tag), { textContent: text });
      if (tag === "th" && text in formulas) cell.title = formulas[text];
      if (value !== undefined) cell.dataset.value = value;
      if (unit) cell.dataset.unit = unit;
      row.append(cell);
    }
    return row;
  };
  table.tHead.replaceChildren(line("th", columns));
  table.tBodies[0].replaceChildren(
    ...rows.map((cells, i) => {
      const row = line("td", cells);
      if (marks[i]?.series) row.dataset.of = JSON.stringify(marks[i].series);
      if (marks[i]?.rate !== undefined) row.dataset.rate = marks[i].rate;
      return row;
    }),
  );
};

// Captions, and what downloads them, as this view calls its charts; a chart of a script keeps the caption that it has.
const nameCharts = (article, charts) => {
  charts.forEach(({ title }, i) => {
    if (!title) return;
    article.querySelector(`[data-chart="${i}"]`).closest("figure").querySelector("figcaption").textContent = title;
    for (const one of article.querySelectorAll(`[data-download][data-index="${i}"]`)) nameDownload(one, title);
  });
};

const show = (article, view) => {
  if (view === null) return undefined;
  views.set(article, view);
  nameCharts(article, view.charts);
  const elements = [...article.querySelectorAll("[data-chart]")];
  const charts = elements.map((element) => {
    const chart = view.charts[Number(element.dataset.chart)], found = specOf(chart, coloured);
    return { chart, found, words: wordsFor(chart, found) };
  });
  const isLeft = !charts.length || charts.some(({ words }) => words !== NOTHING_LEFT);
  article.querySelector("[data-heading]").textContent = isLeft ? view.heading : ALL_FILTERED;
  const ofAll = isFiltered() && isLeft && !view.follows;
  article.querySelector(".of-all").hidden = !ofAll;
  article.querySelector("[data-note]").textContent = view.note;
  article.querySelector("[data-meaning]").textContent = selectsOf(article)
    .map((select) => select.selectedOptions[0].title)
    .filter(Boolean)
    .join(" ");
  if (view.table) {
    fillTable(article, view.table);
    hideElements(article);
  }
  return Promise.all(elements.map((element, i) => drawChart(element, charts[i], ofAll)));
};

const draw = (article) => {
  const view = viewOf(article);
  return view instanceof Promise ? view.then((made) => show(article, made)) : show(article, view);
};

const stale = new Set(); // articles that have to be drawn
let drawing = false;

const distance = (article) => {
  const { top, bottom } = article.getBoundingClientRect();
  return Math.max(0, top - window.innerHeight, -bottom);
};
const nextStale = () => [...stale].reduce((best, one) => (distance(one) < distance(best) ? one : best));
const pause = () => new Promise((go) => setTimeout(go));
const leisure = () =>
  new Promise((go) => (window.requestIdleCallback ? requestIdleCallback(go, { timeout: 500 }) : setTimeout(go, 50)));

// Draw these again, nearest to the viewport first; document.documentElement.dataset.drawn says "yes" when all is done.
const redraw = async (chosen = articles) => {
  for (const article of chosen) stale.add(article);
  document.documentElement.dataset.drawn = "no";
  if (drawing) return;
  drawing = true;
  while (stale.size) {
    if (distance(nextStale()) > window.innerHeight / 2) await leisure();
    const article = nextStale();
    stale.delete(article);
    try {
      await draw(article);
    } catch (error) {
      console.error(article.id, error); // and go on with the others
    }
    await pause();
  }
  drawing = false;
  document.documentElement.dataset.drawn = "yes";
};
