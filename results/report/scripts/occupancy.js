// Who held which slot of a simulated engine, by forward pass: the views are made in Python (results/report/occupancy.py);
// what moves over them is not, nor which of their subplots the filters leave.

const axisNumber = (place) => (place ? `${place + 1}` : ""); // Plotly calls the first one x

// The same chart with the subplots at these places alone, from the top.
const withSubplots = (chart, { slots, lines, summary }, places, rowPx) => {
  const room = places.reduce((sum, place) => sum + rowPx * slots[place], 0) + TITLE_PX * (places.length - 1);
  const { annotations, ...whole } = structuredClone(chart.layout);
  const layout = Object.fromEntries(Object.entries(whole).filter(([name]) => !/^[xy]axis/.test(name)));
  Object.assign(layout, { height: room + MARGIN.t + MARGIN.b, annotations: [] });
  const traces = [], listed = new Set();
  let top = room;
  places.forEach((place, at) => {
    const from = axisNumber(place), to = axisNumber(at), bottom = top - rowPx * slots[place];
    for (const trace of chart.data.filter(({ xaxis }) => xaxis === `x${from}`)) {
      traces.push({ ...trace, xaxis: `x${to}`, yaxis: `y${to}`, showlegend: !listed.has(trace.name) });
      listed.add(trace.name);
    }
    layout[`yaxis${to}`] = { ...whole[`yaxis${from}`], anchor: `x${to}`, domain: [bottom / room, top / room] };
    const { title } = whole[`xaxis${axisNumber(at === places.length - 1 ? slots.length - 1 : 0)}`];
    layout[`xaxis${to}`] = { ...whole[`xaxis${from}`], title, anchor: `y${to}`, matches: at ? "x" : undefined };
    layout.annotations.push({ ...annotations[place], y: top / room });
    top = bottom - TITLE_PX;
  });
  return { data: traces, layout, summary: `${summary} ${places.map((place) => lines[place]).join(" ")}` };
};

const occupancyHeading = ({ lead, where, shares }, places) => {
  const backends = [...new Set(places.map((place) => where[place]))];
  const said = backends.map((backend) => `on ${backend} ${places.filter((place) => where[place] === backend).map((place) => shares[place]).join(", ")}`);
  return unbroken(`${lead} ${said.join("; ")}`);
};

live.occupancy = ({ data, choices, showsSeries }) => {
  const at = Number(choices["arrival rate"]), view = data.views[at], moment = data.moments[at];
  const { steps, names, keys } = moment;
  const places = keys.flatMap((key, place) => (showsSeries(key) ? [place] : []));
  const isWhole = places.length === names.length;
  const chart = isWhole || !places.length ? view.charts[0] : withSubplots(view.charts[0], moment, places, data.row_px);
  const said = (place, n, step) => {
    const counts = chart.data.filter((trace) => trace.xaxis === `x${axisNumber(n)}`).map(({ name, base, x }) => {
      const holding = base.filter((begin, i) => begin <= step && step < begin + x[i]).length;
      return holding ? `${holding} ${name}` : "";
    });
    return `${names[place]}: ${counts.filter(Boolean).join(", ") || "nobody"}`;
  };
  players.occupancy.load({
    steps, at: (step) => step, subplots: places.length,
    said: (step) => (step >= steps ? "all passes that are drawn" : [`In pass ${step}`, ...places.map((place, n) => said(place, n, step))].join("\n")),
  });
  document.querySelector("#occupancy [data-chart]").style.minHeight = `${chart.layout.height}px`;
  if (!places.length) return emptied(view);
  return { ...view, heading: occupancyHeading(moment, places), charts: [chart], follows: true };
};
