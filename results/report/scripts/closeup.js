// Trials request by request (results/report/closeup.py): bars of one, distributions of those of one rate.

const TABLE_ROWS = 500; // of the table of one trial
const CURVE_POINTS = 300; // of a distribution

// The trials with their requests and batches: times in seconds, null where a request did not get so far.
const closeUpTrials = ({ about, columns }) => {
  let row = 0, batch = 0;
  const seconds = (units) => units * about.unit_s;
  const length = (code) => (code === 0 ? null : seconds(code - 1));
  return about.trials.map((one) => {
    const requests = [], batches = [];
    for (const end = row + one.requests; row < end; row++) {
      const state = columns.state[row];
      const request = {
        planned: seconds(columns.planned[row]), wait: length(columns.wait[row]), prefill: length(columns.prefill[row]),
        decode: length(columns.decode[row]), stay: seconds(columns.stay[row]), status: about.states[state % 4], steady: state >= 4,
        batch: columns.batch[row] - 1, prompt: columns.prompt[row], output: columns.output[row],
      };
      requests.push({ ...request, phases: phasesOf(request) });
    }
    for (const end = batch + one.batches; batch < end; batch++) {
      const launched = seconds(columns.launched[batch]);
      batches.push({
        number: columns.number[batch], launched, ended: launched + seconds(columns.lasted[batch]), size: columns.size[batch],
        trigger: about.triggers[columns.trigger[batch] - 1] ?? null,
      });
    }
    return { ...one, requests, batches };
  });
};

// The phases of a request, [name, begin, end] in seconds; what did not finish ends in the one that it had reached.
const phasesOf = ({ planned, wait, prefill, decode, stay }) => {
  const found = [];
  let at = planned;
  const end = planned + stay;
  for (const [name, length] of [["wait", wait], ["prefill", prefill], ["decode", decode], ["held", null]]) {
    const until = length === null ? end : Math.min(end, at + length);
    if (until > at) found.push([name, at, until]);
    at = until;
    if (length === null) break;
  }
  return found;
};

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

const medianOf = (values) => (values.length ? (values[(values.length - 1) >> 1] + values[values.length >> 1]) / 2 : null);

let closeUp = null;
const closeUpData = () => (closeUp ??= block("closeup").then((made) => ({ about: made.about, trials: closeUpTrials(made) })));

const phaseTrace = (name, colour, bars, more = {}) => ({
  type: "bar", orientation: "h", name, legendgroup: name, x: bars.map(({ begin, end }) => end - begin), base: bars.map(({ begin }) => begin),
  y: bars.map(({ row }) => row), text: bars.map(({ text }) => text), textposition: "none", marker: { color: colour, line: { width: 0 } },
  hovertemplate: "%{text}<extra></extra>", ...more,
});

const requestText = (request, number) =>
  `<b>request ${number}</b>, ${request.status}: ${request.prompt} + ${request.output} tokens<br>` +
  request.phases.map(([name, begin, end]) => `${name} ${durationText(end - begin)}`).join(", ");

live.closeup = async ({ data, choices, showsSeries }) => {
  const trial = (await closeUpData()).trials[Number(choices.trial)];
  const shown = showsSeries(trial.series);
  const launched = new Map(trial.batches.map((one) => [one.number, one.launched]));
  const order = trial.requests.map((_, i) => i);
  const key = (i) => launched.get(trial.requests[i].batch) ?? Infinity;
  if (trial.batches.length) order.sort((a, b) => (key(a) === key(b) ? a - b : key(a) - key(b)));
  const rows = new Map(order.map((i, row) => [i, row]));
  const bars = Object.fromEntries(Object.keys(data.phases).map((name) => [name, []]));
  const spans = new Map(); // batch → its first and last row
  trial.requests.forEach((request, i) => {
    const row = rows.get(i), text = requestText(request, i);
    for (const [name, begin, end] of request.phases) bars[name].push({ begin, end, row, text });
    const [first, last] = spans.get(request.batch) ?? [row, row];
    spans.set(request.batch, [Math.min(first, row), Math.max(last, row)]);
  });
  const frames = { x: [], y: [] };
  for (const { number, launched: begin, ended } of trial.batches) {
    const [first, last] = spans.get(number) ?? [];
    if (first === undefined) continue; // all its requests are among those left out
    frames.x.push(begin, ended, ended, begin, begin, null);
    frames.y.push(first - 0.5, first - 0.5, last + 0.5, last + 0.5, first - 0.5, null);
  }
  const named = Object.keys(data.phases).filter((name) => bars[name].length);
  const traces = named.map((name) => phaseTrace(name, data.colours[name], bars[name]));
  if (frames.x.length) {
    traces.push({ type: "scatter", mode: "lines", name: "batch", ...frames, line: { color: data.ink, width: 1 }, hoverinfo: "skip" });
  }
  const planned = trial.requests.map((request) => request.planned);
  traces.push({
    type: "scatter", mode: "markers", name: "arrivals", x: planned, y: planned.map(() => 0), yaxis: "y2", showlegend: false,
    marker: { symbol: "line-ns-open", size: 16, color: data.ink, opacity: 0.5, line: { width: 1 } },
    hovertemplate: "planned arrival at %{x:.3f} s<extra></extra>",
  });
  const layout = structuredClone(data.layout);
  layout.yaxis.range = [trial.requests.length - 0.5, -0.5];
  layout.xaxis.range = [0, 1.01 * Math.max(...trial.requests.map((request) => request.planned + request.stay))];
  const listed = trial.requests.slice(0, TABLE_ROWS);
  const table = {
    columns: ["request", "status", "planned arrival (s)", "batch", "prompt tokens", "output tokens", ...Object.keys(data.phases)],
    rows: listed.map((one, i) => [
      `${i}`, one.status, one.planned.toFixed(4), one.batch < 0 ? "–" : `${one.batch}`, `${one.prompt}`, `${one.output}`,
      ...Object.keys(data.phases).map((name) => {
        const phase = one.phases.find(([found]) => found === name);
        return phase ? durationText(phase[2] - phase[1]) : "–";
      }),
    ]),
  };
  const note = listed.length < trial.requests.length ? `The table has the first ${TABLE_ROWS} requests.` : "";
  const summary = `${trial.heading}. ${trial.requests.length} requests, ${trial.batches.length} batches.`;
  return { heading: unbroken(trial.heading), note, charts: [{ data: shown ? traces : [], layout, summary }], table };
};

const median = (trial, name) => medianOf(latenciesOf(trial.requests, name));

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
    return { data: traces, layout, summary: `Distribution of ${label} at ${said}. Half took no longer than: ${medians}.` };
  });
  const known = shown.map((one) => ({ name: one.name, half: median(one, "ttft") })).filter(({ half }) => Number.isFinite(half ?? NaN));
  known.sort((a, b) => a.half - b.half);
  const ends = known.length > 1 ? [known[0], known.at(-1)] : known;
  const heading = ends.length
    ? `At ${said} half of the requests have their first token ${ends.map(({ name, half }) => `within ${durationText(half)} with ${name}`).join(" and ")}`
    : `At ${said} half of the requests have a first token with no setting`;
  return { heading: unbroken(heading), note: "", charts };
};
