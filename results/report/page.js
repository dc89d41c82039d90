// Draws each panel's view, redraws it when a control changes, and swaps colours for the reader's scheme.
"use strict";
(() => {
  const panels = JSON.parse(document.getElementById("panels").textContent);
  const darkOf = JSON.parse(document.getElementById("dark").textContent);
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  const PRINT_WIDTH_PX = 680;
  const hidden = new Set(); // series that the reader switched off, in all figures
  let printing = false;

  // Colours are whole strings in a figure's specification.
  const inScheme = (value) => {
    if (typeof value === "string") return darkOf[value] ?? value;
    if (Array.isArray(value)) return value.map(inScheme);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, inScheme(inner)]));
    }
    return value;
  };
  const coloured = (spec) =>
    prefersDark.matches && !printing ? inScheme(spec) : structuredClone(spec);

  const draw = (article) => {
    const selects = [...article.querySelectorAll("select[data-control]")];
    const view = panels[article.dataset.panel][article.dataset.key ?? ""] ?? null;
    if (view === null) return Promise.resolve();
    article.querySelector("[data-heading]").textContent = view.heading;
    article.querySelector("[data-note]").textContent = view.note;
    article.querySelector("[data-meaning]").textContent = selects
      .map((select) => select.selectedOptions[0].title)
      .filter(Boolean)
      .join(" ");
    return Promise.all(
      [...article.querySelectorAll("[data-chart]")].map((element) => {
        const chart = view.charts[Number(element.dataset.chart)];
        element.setAttribute("aria-label", chart.summary);
        const spec = coloured({ data: chart.data, layout: chart.layout });
        for (const trace of spec.data) {
          const off = hidden.has(trace.meta?.series) || (trace.meta?.theory && hidden.has("theory"));
          trace.visible = !off;
          for (const bars of [trace.error_x, trace.error_y].filter(Boolean)) {
            bars.array = bars.array.map((length) => length ?? NaN); // Plotly draws null as 0: a dash
            bars.arrayminus = bars.arrayminus.map((length) => length ?? NaN);
          }
        }
        if (printing) spec.layout.width = PRINT_WIDTH_PX;
        return Plotly.react(element, spec.data, spec.layout, {
          responsive: true,
          displaylogo: false,
          typesetMath: false,
          showSendToCloud: false,
          modeBarButtonsToRemove: ["select2d", "lasso2d", "zoomIn2d", "zoomOut2d", "autoScale2d"],
        });
      }),
    );
  };

  const choose = (article) => {
    article.dataset.key = [...article.querySelectorAll("select[data-control]")]
      .map((select) => select.value)
      .join("|");
    return draw(article);
  };

  const articles = [...document.querySelectorAll("[data-panel]")];
  const drawAll = () => Promise.all(articles.map(draw));

  for (const article of articles) {
    for (const select of article.querySelectorAll("select[data-control]")) {
      select.addEventListener("change", () => choose(article));
    }
  }
  const keys = [...document.querySelectorAll("button[data-series]")];
  for (const key of keys) {
    key.addEventListener("click", () => {
      const series = key.dataset.series;
      if (!hidden.delete(series)) hidden.add(series);
      for (const twin of keys) twin.setAttribute("aria-pressed", String(!hidden.has(twin.dataset.series)));
      drawAll();
    });
  }
  Promise.all(articles.map(choose)).then(() => {
    document.documentElement.dataset.drawn = "yes";
  });
  prefersDark.addEventListener("change", drawAll);
  window.addEventListener("beforeprint", () => {
    printing = true;
    drawAll();
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    drawAll();
  });
  document.getElementById("only-marked")?.addEventListener("change", (event) => {
    document.getElementById("trials").classList.toggle("only-marked", event.target.checked);
  });
})();
