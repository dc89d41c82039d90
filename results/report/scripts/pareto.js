// Throughput against a latency at one rate (results/report/pareto.py), the front of each backend as a line.

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
  let above = true;
  for (const one of shown) {
    const [throughput, time] = one.texts;
    traces.push({
      type: "scatter", mode: one.front ? "markers+text" : "markers", name: escaped(one.name), x: [one.throughput], y: [one.latency], text: [escaped(one.setting)],
      textposition: above ? "top center" : "bottom center", textfont: { size: 12 }, cliponaxis: false, meta: { series: one.series },
      marker: { color: one.colour, size: one.front ? 12 : 9, symbol: one.compared ? one.symbol : one.hollow, line: { width: 2, color: one.colour } },
      hovertemplate: `<b>${escaped(one.name)}</b><br>${rate}: ${throughput} tokens/s, ${latency} ${time}${one.front ? "<br>on the front" : ""}<extra></extra>`,
    });
    if (one.front) above = !above;
  }
  const state = (one) => (one.front ? ", on the front" : one.compared ? "" : ", overloaded or cut off");
  const said = shown.map((one) => `${one.name} ${one.texts[0]} tokens/s and ${one.texts[1]}${state(one)}`);
  const summary = `Throughput and ${latency} at ${rate}. ${said.join("; ") || "Nothing is shown"}.`;
  return { heading: unbroken(view.heading), note: "", charts: [{ data: traces, layout: view.layout, summary }] };
};
