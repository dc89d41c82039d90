// Who held which slot, from the stamps of trials, with a player.

const MOST_SUBPLOTS = 6, MOMENTS = 200, TITLE_PX = 62, MARGIN = { l: 56, r: 12, t: 34, b: 74 };
const SAME_S = 0.0005; // a slot that is left by then is free
const TICK_PX = 22;

// Give each request that the engine began its slot: the free one of the lowest number; and how many slots there are.
// Where `most` are taken, the one that is free soonest: the stamps of neighbours may overlap by a step.
const slotsTaken = (requests, most) => {
  const until = [], taken = [];
  const begun = requests.map((request, i) => ({ request, i })).filter(({ request }) => request.wait !== null);
  begun.sort((a, b) => a.request.planned + a.request.wait - (b.request.planned + b.request.wait));
  for (const { request, i } of begun) {
    const from = request.planned + request.wait;
    let slot = until.findIndex((end) => end <= from + SAME_S);
    if (slot < 0) slot = until.length < (most ?? Infinity) ? until.length : until.indexOf(Math.min(...until));
    until[slot] = request.planned + request.stay;
    taken.push({ request, i, slot });
  }
  return { taken, slots: until.length };
};

// How much of all slot-time requests run, from the first that began to the last that left; null without any.
const slotUse = (trial, { taken, slots }) => {
  if (!taken.length) return null;
  const running = ([name]) => name === "prefill" || name === "decode";
  const ran = taken.flatMap(({ request }) => request.phases.filter(running)).reduce((sum, [, begin, end]) => sum + end - begin, 0);
  const begin = Math.min(...taken.map(({ request }) => request.planned + request.wait));
  const end = Math.max(...taken.map(({ request }) => request.planned + request.stay));
  return ran / ((trial.slots ?? slots) * (end - begin));
};

// What happens at a moment: how many requests are in each phase, and how many have finished.
const momentText = (trial, time) => {
  const counts = { wait: 0, prefill: 0, decode: 0, held: 0 };
  let done = 0;
  for (const { phases, planned, stay, status } of trial.requests) {
    const phase = phases.find(([, begin, end]) => begin <= time && time < end);
    if (phase) counts[phase[0]] += 1;
    if (status === "finished" && planned + stay <= time) done += 1;
  }
  return `${trial.name}: ${counts.wait} waiting, ${counts.prefill + counts.decode} running, ${counts.held} held, ${done} returned`;
};

live.slots = async ({ data, choices, showsSeries }) => {
  const { about, trials } = await closeUpData();
  const rate = about.rates[Number(choices["arrival rate"])], said = about.said[Number(choices["arrival rate"])];
  const of = trials.filter((one) => one.rate === rate && showsSeries(one.series));
  const first = of.filter((one, i) => of.findIndex(({ strategy, place }) => strategy === one.strategy && place === one.place) === i);
  const shown = first.slice(0, MOST_SUBPLOTS).map((trial) => ({ trial, ...slotsTaken(trial.requests, trial.slots) }));
  const uses = shown.map((one) => ({ name: one.trial.name, use: slotUse(one.trial, one) })).filter(({ use }) => use !== null);
  uses.sort((a, b) => b.use - a.use);
  const ends = uses.length > 1 ? [uses[0], uses.at(-1)] : uses;
  const heading = ends.length
    ? `At ${said} requests run in ${ends.map(({ name, use }) => `${numberText(100 * use)}\u00a0% of all slot-time with ${name}`).join(" and ")}`
    : `At ${said} no request was begun`;
  const end = Math.max(...shown.flatMap(({ trial }) => trial.requests.map((one) => one.planned + one.stay)), 0);
  const rows = shown.reduce((sum, { slots }) => sum + slots, 0);
  const rowPx = Math.max(5, Math.min(15, 700 / Math.max(1, rows)));
  const room = rowPx * rows + TITLE_PX * Math.max(0, shown.length - 1);
  const layout = { ...structuredClone(data.layout), height: Math.round(Math.max(200, room + MARGIN.t + MARGIN.b)), margin: MARGIN, annotations: [] };
  document.querySelector("#slots [data-chart]").style.minHeight = `${layout.height}px`; // what it keeps when the window changes
  const traces = [], listed = new Set();
  let top = room;
  shown.forEach(({ trial, taken, slots }, place) => {
    const suffix = place ? `${place + 1}` : "", bottom = top - rowPx * slots;
    for (const name of ["prefill", "decode", "held"]) {
      const bars = taken.flatMap(({ request, i, slot }) =>
        request.phases.filter(([found]) => found === name).map(([, begin, until]) => ({ begin, end: until, row: slot, text: requestText(request, i) })));
      if (!bars.length) continue;
      traces.push(phaseTrace(name, data.colours[name], bars, { xaxis: `x${suffix}`, yaxis: `y${suffix}`, showlegend: !listed.has(name) }));
      listed.add(name);
    }
    layout[`yaxis${suffix}`] = {
      ...data.axis, title: { text: "slot", standoff: 8 }, anchor: `x${suffix}`, domain: [bottom / room, top / room], range: [slots - 0.5, -0.5],
      showgrid: false, dtick: Math.ceil(TICK_PX / rowPx),
    };
    const title = place === shown.length - 1 ? "time since the start of the trial (s)" : "";
    layout[`xaxis${suffix}`] = { ...data.axis, title: { text: title, standoff: 8 }, anchor: `y${suffix}`, range: [0, end], ...(place ? { matches: "x" } : {}) };
    layout.annotations.push({
      text: `<b>${escaped(trial.setting)}</b> on ${escaped(trial.place)}`, x: 0, xref: "paper", xanchor: "left", y: top / room, yref: "paper",
      yanchor: "bottom", yshift: 3, showarrow: false, align: "left",
    });
    top = bottom - TITLE_PX;
  });
  players.slots.load({
    steps: MOMENTS, at: (step) => (step * end) / MOMENTS, subplots: shown.length,
    said: (step) => (step >= MOMENTS ? "the whole trial" : [`At ${durationText((step * end) / MOMENTS)}`, ...shown.map(({ trial }) => momentText(trial, (step * end) / MOMENTS))].join("\n")),
  });
  const summary = `Slots over time at ${said}. ${uses.map(({ name, use }) => `${name}: running in ${numberText(100 * use)} % of slot-time`).join("; ")}.`;
  const columns = [...TRIAL_COLUMNS, "slot", "request", "phase", "begin", "end"];
  const held = shown.flatMap(({ trial, taken }) =>
    taken.flatMap(({ request, i, slot }) => request.phases.filter(([name]) => name !== "wait").map((phase) => ({ trial, i, slot, phase }))));
  const cells = ({ trial, i, slot, phase: [name, begin, until] }) => [
    ...trialCells(trial), amount(slot, ""), amount(i, ""), name, timeCell(begin), timeCell(until),
  ];
  const table = { columns, rows: held.slice(0, TABLE_ROWS).map(cells) };
  const csv = () => ({ columns, rows: held.map(cells) });
  const note = table.rows.length < held.length ? `The table has the first ${TABLE_ROWS} bars, the CSV all.` : "";
  return { heading: unbroken(heading), note, follows: true, charts: [{ data: traces, layout, summary }], table, csv };
};
