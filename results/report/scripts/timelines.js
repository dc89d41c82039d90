// Queue length and its like over time (results/report/timelines.py): the trials of one rate and repeat.

live.timelines = async ({ data, choices, showsSeries }) => {
  const { columns } = await block("timelines");
  const rate = data.rates[Number(choices["arrival rate"])], repeat = Number(choices.repeat), key = choices.show;
  const { axis, reaches, unit, percent } = data.quantities[key];
  let start = 0;
  const traces = [], shown = [];
  for (const one of data.trials) {
    const from = start, to = (start += one.length);
    if (one.rate !== rate || one.repeat !== repeat || !showsSeries(one.series)) continue;
    const y = Array.from(columns[key].subarray(from, to), (code) => (code ? (code - 1) * unit : null));
    if (y.every((value) => value === null)) continue;
    shown.push(one);
    traces.push({
      type: "scatter", mode: "lines", name: escaped(one.name), meta: { series: one.series }, y,
      x: Array.from(columns.at_ms.subarray(from, to), (ms) => ms / 1000),
      line: { color: one.colour, dash: one.dash, width: 1.8, shape: one.sampled ? "linear" : "hv" },
      hovertemplate: `<b>${escaped(one.name)}</b><br>%{x:.2f} s: %{y:.3~g}${percent ? " %" : ""}<extra></extra>`,
    });
  }
  const where = `At ${data.said[Number(choices["arrival rate"])]}, repeat ${repeat + 1}`;
  const known = shown.filter((one) => one.order[key] !== null).sort((a, b) => b.order[key] - a.order[key]);
  const ends = (known.length > 1 ? [known[0], known.at(-1)] : known).map((one) => `${one.greatest[key]} with ${one.name}`);
  const heading = ends.length
    ? `${where}, ${reaches} ${ends.join(" and ")}`
    : `${where}, none of the settings shown has recorded this`;
  const layout = structuredClone(data.layout);
  layout.yaxis.title.text = axis;
  const csv = () => ({
    columns: [...TRIAL_COLUMNS, "repeat", "time", axis],
    rows: traces.flatMap(({ x, y }, i) =>
      x.map((at, j) => [...trialCells(shown[i]), amount(repeat + 1, ""), amount(at, "s"), amount(y[j], "")])),
  });
  const said = known.map((one) => `${one.name} ${one.greatest[key]}`).join("; ");
  return { heading: unbroken(heading), note: "", follows: true, charts: [{ data: traces, layout, summary: `${axis} over time. ${where}, at most: ${said || "nothing is known"}.` }], csv };
};
