// Which series and rates the reader wants to see, and what that leaves of a trace and of marked elements.

const series = embedded("series") ?? []; // [{key, name, setting, backend, model, device, …}]
const DIMENSIONS = ["setting", "backend", "model", "device", "sweep"]; // of a series; those it does not have are no filter
const off = Object.fromEntries([...DIMENSIONS, "rate", "series"].map((name) => [name, new Set()]));
const seriesByKey = new Map(series.map((one) => [one.key, one]));

const severalSweeps = new Set(series.map((one) => one.sweep)).size > 1;

const passesFilters = (key) => {
  const one = seriesByKey.get(key);
  return one === undefined || DIMENSIONS.every((name) => !off[name].has(one[name]));
};
const showsSeries = (key) => !off.series.has(key) && passesFilters(key);
const showsRate = (rate) => rate === undefined || rate === null || !off.rate.has(Number(rate));

// Drop the points of a trace that are filtered out; a trace of which nothing is left becomes invisible.
// meta.series: the key of its series, or one a point; meta.needs: keys that must all be shown; meta.rates: one a point;
// meta.rate: of all of it.
const keepShown = (trace) => {
  const { series: of, needs = [], rates, rate, theory } = trace.meta ?? {};
  const many = Array.isArray(of) ? of.length : rates?.length;
  const whole = (Array.isArray(of) || showsSeries(of)) && needs.every(showsSeries) && showsRate(rate);
  trace.visible = whole && !(theory && off.series.has("theory"));
  if (many === undefined) return trace;
  const kept = Array.from({ length: many }, (_, i) => (Array.isArray(of) ? showsSeries(of[i]) : true) && showsRate(rates?.[i]));
  if (kept.every(Boolean)) return trace;
  const { marker, error_x: across, error_y: up, textfont } = trace;
  for (const holder of [trace, marker, marker?.line, across, up, textfont].filter(Boolean)) {
    for (const [name, values] of Object.entries(holder)) {
      if (Array.isArray(values) && values.length === many) holder[name] = values.filter((_, i) => kept[i]);
    }
  }
  return trace;
};

// Drop the categories of an axis that belong to hidden series: layout.meta.categories has their keys, in order.
const keepCategories = (layout) => {
  const keys = layout.meta?.categories;
  for (const axis of keys ? [layout.xaxis, layout.yaxis] : []) {
    if (axis?.categoryarray?.length !== keys.length) continue;
    axis.categoryarray = axis.categoryarray.filter((_, i) => showsSeries(keys[i]));
    layout.annotations = layout.annotations?.filter(({ y }) => typeof y !== "string" || axis.categoryarray.includes(y));
    if (axis.range) axis.range = [-0.6, axis.categoryarray.length - 0.4];
  }
};

// Hide marked elements: data-of='["key", …]' needs all of these series, data-rate="5" this rate.
const hideElements = (within = document) => {
  for (const element of within.querySelectorAll("[data-of], [data-rate]")) {
    const keys = element.dataset.of ? JSON.parse(element.dataset.of) : [];
    element.hidden = !(keys.every(showsSeries) && showsRate(element.dataset.rate));
  }
  for (const group of within.querySelectorAll("[data-group]")) {
    group.hidden = [...group.querySelectorAll("[data-of]")].every((one) => one.hidden); // no name over nothing
  }
};
