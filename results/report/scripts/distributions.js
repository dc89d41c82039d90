// Distributions of the latencies of the trials of one rate (results/report/distributions.py).

// This latency of the steady window's requests, ascending, in seconds; infinite where it was cut off before it had one.
const latenciesOf = (requests, name) => {
  const of = {
    wait: ({ wait }) => wait,
    ttft: ({ wait, prefill }) => (wait === null || prefill === null ? null : wait + prefill),
    e2e: ({ wait, prefill, decode }) => (wait === null || prefill === null || decode === null ? null : wait + prefill + decode),
  }[name];
  const value = (request) => {
    const known = of(request);
    return request.status === "unfinished" && (known === null || name === "e2e") ? Infinity : known;
  };
  const kept = requests.filter(({ status, steady }) => steady && (status === "finished" || status === "unfinished"));
  return kept.map(value).filter((one) => one !== null).sort((a, b) => a - b);
};

// Points (value, per cent of requests that took no longer) of ascending values; all of them where they are few.
const distribution = (values) => {
  const seen = values.filter(Number.isFinite).length;
  const places = Array.from({ length: Math.min(seen, CURVE_POINTS) }, (_, i) =>
    seen <= CURVE_POINTS ? i : Math.round((i * (seen - 1)) / (CURVE_POINTS - 1)));
  return { x: places.map((i) => values[i]), y: places.map((i) => (100 * (i + 1)) / values.length) };
};

// Ticks of a logarithmic axis of seconds: the densest round ones that are not too many.
const secondTicks = (values) => {
  const low = Math.min(...values), high = Math.max(...values);
  for (const steps of [[1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    const ticks = [-4, -3, -2, -1, 0, 1, 2, 3, 4].flatMap((power) => steps.map((step) => Number(`${step}e${power}`)));
    const inside = ticks.filter((tick) => low / 1.2 <= tick && tick <= high * 1.2);
    if (inside.length <= 6) return inside;
  }
  return [];
};

const QUANTILES = [10, 50, 90, 99]; // of the table: the least value that so many per cent do not exceed

const medianOf = (values) => (values.length ? (values[(values.length - 1) >> 1] + values[values.length >> 1]) / 2 : null);

const median = (trial, name) => medianOf(latenciesOf(trial.requests, name));

// Within which time half of the requests of a trial have a latency: of the trial with the least and of that with the most.
const halfHeading = (shown, said, name, label) => {
  const known = shown.map((one) => ({ name: one.name, half: median(one, name) })).filter(({ half }) => Number.isFinite(half ?? NaN));
  known.sort((a, b) => a.half - b.half);
  const ends = known.length > 1 ? [known[0], known.at(-1)] : known;
  const what = name === "ttft" ? "their first token" : name === "e2e" ? "their last token" : `their ${label} behind them`;
  return ends.length
    ? `At ${said} half of the requests have ${what} ${ends.map((one) => `within ${durationText(one.half)} with ${one.name}`).join(" and ")}`
    : `At ${said} half of the requests have ${what} with no setting`;
};

live.distributions = async ({ data, choices, showsSeries }) => {
  const { about, trials } = await closeUpData();
  const rate = about.rates[Number(choices["arrival rate"])], said = about.said[Number(choices["arrival rate"])];
  const shown = trials.filter((one) => one.rate === rate && showsSeries(one.series));
  const charts = Object.entries(data.metrics).map(([name, label]) => {
    const traces = shown.map((one) => ({
      type: "scatter", mode: "lines", name: escaped(one.name), meta: { series: one.series }, ...distribution(latenciesOf(one.requests, name)),
      line: { color: one.colour, dash: one.dash, width: 1.8, shape: "hv" },
      hovertemplate: `<b>${escaped(one.name)}</b><br>%{y:.1f} % within %{x:.3~s}s<extra></extra>`,
    }));
    const layout = structuredClone(data.layout);
    const ticks = secondTicks(traces.flatMap(({ x }) => x).filter((value) => value > 0));
    layout.xaxis = { ...data.axis, title: { text: `${label} (s)`, standoff: 8 }, tickvals: ticks, ticktext: ticks.map(durationText) };
    const medians = shown.map((one) => `${one.name} ${durationText(median(one, name))}`).join("; ");
    const heading = unbroken(halfHeading(shown, said, name, label));
    return { data: traces, layout, summary: `Distribution of ${label} at ${said}. Half took no longer than: ${medians}.`, title: label, heading };
  });
  const each = Object.entries(data.metrics).flatMap(([name, label]) => shown.map((trial) => ({ trial, label, values: latenciesOf(trial.requests, name) })));
  const table = {
    columns: [...TRIAL_COLUMNS, "latency", "requests", "cut off", ...QUANTILES.map((one) => `p${one}`)],
    rows: each.map(({ trial, label, values }) => [
      ...trialCells(trial), label, amount(values.length, ""), amount(values.filter((one) => !Number.isFinite(one)).length, ""),
      ...QUANTILES.map((one) => timeCell(values[Math.ceil((one / 100) * values.length) - 1] ?? null)),
    ]),
  };
  const csv = () => ({
    columns: [...TRIAL_COLUMNS, "latency", "took no longer than", "share of requests"],
    rows: each.flatMap(({ trial, label, values }) => {
      const { x, y } = distribution(values);
      return x.map((value, i) => [...trialCells(trial), label, timeCell(value), amount(y[i], "%")]);
    }),
  });
  return { heading: charts[0].heading, note: "", follows: true, charts, table, csv };
};
