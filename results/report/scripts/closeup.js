// Trials request by request (results/report/trial_block.py), and the bars of one (trial_bars.py).

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

let closeUp = null;
const closeUpData = () => (closeUp ??= block("closeup").then((made) => ({ about: made.about, trials: closeUpTrials(made) })));

// Cells of tables: which trial a row is of, and a time, which the page keeps in units of 0.1 ms.
const TRIAL_COLUMNS = [...(severalSweeps ? ["sweep"] : []), "strategy", "backend", "rate"];
const trialCells = ({ series: key, setting, place, rate }) => [...(severalSweeps ? [seriesByKey.get(key).sweep] : []), setting, place, amount(rate, "req/s", (value) => `${numberText(value)} req/s`)];
const timeCell = (seconds, said = durationText) => amount(Number.isFinite(seconds ?? NaN) ? Number(seconds.toFixed(4)) : null, "s", said);

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
  const columns = [...TRIAL_COLUMNS, "request", "status", "planned arrival", "batch", "prompt tokens", "output tokens", ...Object.keys(data.phases)];
  const all = shown ? trial.requests : [];
  const cells = (one, i) => [
    ...trialCells(trial), amount(i, ""), one.status, timeCell(one.planned, (value) => `${value.toFixed(4)} s`), amount(one.batch < 0 ? null : one.batch, ""),
    amount(one.prompt, ""), amount(one.output, ""),
    ...Object.keys(data.phases).map((name) => {
      const phase = one.phases.find(([found]) => found === name);
      return timeCell(phase ? phase[2] - phase[1] : null);
    }),
  ];
  const table = { columns, rows: all.slice(0, TABLE_ROWS).map(cells) };
  const csv = () => ({ columns, rows: all.map(cells) });
  const note = table.rows.length < all.length ? `The table has the first ${TABLE_ROWS} requests, the CSV all.` : "";
  const summary = `${trial.heading}. ${trial.requests.length} requests, ${trial.batches.length} batches.`;
  return { heading: unbroken(trial.heading), note, follows: true, charts: [{ data: shown ? traces : [], layout, summary }], table, csv };
};
