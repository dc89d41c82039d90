// Throughput against a latency at one rate (results/report/pareto.py), the front of each backend as a line.

// Where a name may stand beside its point, as [left, right, top, bottom] in px from it, for a text of this width.
const NAME_SIDES = {
  "top center": (wide) => [-wide / 2, wide / 2, -25, -8],
  "bottom center": (wide) => [-wide / 2, wide / 2, 8, 25],
  "middle right": (wide) => [9, 13 + wide, -8, 8],
  "middle left": (wide) => [-13 - wide, -9, -8, 8],
};

// For each named point the side on which its name meets the fewest markers, names and edges; points: {x, y, name} in px.
const nameSides = (points, width, height) => {
  const meet = (one, other) => one[0] < other[1] && other[0] < one[1] && one[2] < other[3] && other[2] < one[3];
  const markers = points.map(({ x, y }) => [x - 7, x + 7, y - 7, y + 7]);
  const names = [];
  measuring.font = "12px system-ui, sans-serif";
  return points.map(({ x, y, name }, i) => {
    if (!name) return "top center";
    const found = Object.entries(NAME_SIDES).map(([side, boxOf]) => {
      const [left, right, top, bottom] = boxOf(measuring.measureText(name).width);
      const box = [x + left, x + right, y + top, y + bottom];
      const beyond = box[0] < 0 || box[1] > width || box[2] < -20 || box[3] > height;
      return { side, box, cost: 3 * beyond + markers.filter((one, j) => j !== i && meet(one, box)).length + 2 * names.filter((one) => meet(one, box)).length };
    });
    const best = found.reduce((one, other) => (other.cost < one.cost ? other : one));
    names.push(best.box);
    return best.side;
  });
};

// Where the points lie in the plot, and how large that is, in px.
const inPlot = (shown, layout, wide) => {
  const { l, r, t, b } = layout.margin, width = wide - l - r, height = layout.height - t - b;
  const scaled = ({ type, range }, values) => {
    const scale = type === "log" ? Math.log10 : Number;
    const [low, high] = range ?? [0, 1.05 * Math.max(...values)];
    return values.map((value) => (scale(value) - low) / (high - low || 1));
  };
  const x = scaled(layout.xaxis, shown.map((one) => one.throughput)), y = scaled(layout.yaxis, shown.map((one) => one.latency));
  return { width, height, points: shown.map((one, i) => ({ x: x[i] * width, y: (1 - y[i]) * height, name: one.front ? one.setting : "" })) };
};

live.pareto = ({ data, choices, showsSeries }) => {
  const at = Number(choices["arrival rate"]), by = Number(choices.latency);
  const view = data.views[at][by], rate = data.rates[at], latency = data.names[by];
  const shown = view.points.filter((one) => showsSeries(one.series)).map((one) => ({ ...one, ...data.series[one.series] }));
  const traces = [...new Set(shown.map((one) => one.place))].map((place) => {
    const joined = shown.filter((one) => one.front && one.place === place).sort((a, b) => a.throughput - b.throughput);
    return {
      type: "scatter", mode: "lines", name: `front, ${escaped(place)}`, x: joined.map((one) => one.throughput), y: joined.map((one) => one.latency),
      line: { color: data.muted, width: 1.5, dash: joined[0]?.dash ?? "solid" }, hoverinfo: "skip",
    };
  });
  const { points, width, height } = inPlot(shown, view.layout, document.querySelector("#pareto [data-chart]").getBoundingClientRect().width);
  const sides = nameSides(points, width, height);
  shown.forEach((one, i) => {
    const [throughput, time] = one.texts;
    traces.push({
      type: "scatter", mode: one.front ? "markers+text" : "markers", name: escaped(one.name), x: [one.throughput], y: [one.latency], text: [escaped(one.setting)],
      textposition: sides[i], textfont: { size: 12 }, cliponaxis: false, meta: { series: one.series },
      marker: { color: one.colour, size: one.front ? 12 : 9, symbol: one.compared ? one.symbol : one.hollow, line: { width: 2, color: one.colour } },
      hovertemplate: `<b>${escaped(one.name)}</b><br>${rate}: ${throughput} tokens/s, ${latency} ${time}${one.front ? "<br>on the front" : ""}<extra></extra>`,
    });
  });
  const state = (one) => (one.front ? ", on the front" : one.compared ? "" : ", overloaded or cut off");
  const said = shown.map((one) => `${one.name} ${one.texts[0]} tokens/s and ${one.texts[1]}${state(one)}`);
  const summary = `Throughput and ${latency} at ${rate}. ${said.join("; ") || "Nothing is shown"}.`;
  return { heading: unbroken(view.heading), note: "", charts: [{ data: traces, layout: view.layout, summary }] };
};
