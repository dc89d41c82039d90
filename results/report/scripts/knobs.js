// Heatmaps over the knobs (results/report/knobs.py): the settings that are shown, at one rate, by one metric. The heading is
// of the first backend that is shown.

live.knobs = ({ data, choices, showsSeries, showsRate }) => {
  const at = Number(choices["arrival rate"]), by = Number(choices.metric), { label, logarithmic } = data.metrics[by];
  const shown = (group) => group.settings.filter((one) => showsSeries(one.series) && showsRate(data.rates[at]));
  const span = data.spans[at][by] ?? [0, 1];
  const shade = logarithmic && span[0] > 0 ? Math.log10 : (value) => value;
  const [low, high] = span.map(shade);
  const charts = data.groups.map((group) => {
    const grid = (filler) => group.rows.map(() => group.sizes.map(() => filler));
    if (!shown(group).length) return { data: [], layout: group.layout, summary: NOTHING_LEFT, words: NOTHING_LEFT };
    const z = grid(null), text = grid(""), said = [], leading = [];
    for (const one of shown(group)) {
      const value = one.values[by][at], state = one.states[at];
      if (value === null) continue;
      z[one.row][one.column] = shade(value);
      text[one.row][one.column] = (one.leads[by][at] ? `<b>${one.texts[by][at]}</b>` : one.texts[by][at]) + (state && `<br><i>${state}</i>`);
      if (one.leads[by][at]) leading.push(one.setting);
      said.push(`${one.setting} ${one.texts[by][at]}${state && ` (${state})`}`);
    }
    if (!said.length) { // as where the rates of two sweeps differ
      const words = `${group.ran[at] ? "No such value" : "Nothing was run"} at ${data.said[at]}`;
      return { data: [], layout: group.layout, summary: words, words };
    }
    const trace = {
      type: "heatmap", x: group.sizes, y: group.rows, z, text, texttemplate: "%{text}", zmin: low, zmax: high > low ? high : low + 1,
      colorscale: data.scale, showscale: false, textfont: { color: data.ink }, xgap: 2, ygap: 2, hoverongaps: false,
      hovertemplate: `<b>%{y}</b>, max_batch_size %{x}<br>${label}: %{text}<extra></extra>`,
    };
    const best = leading.length ? ` ${leading.length > 1 ? "Best, with no difference shown" : "Best"}: ${leading.join("; ")}.` : "";
    const summary = `${label} over the knobs at ${data.said[at]} on ${group.place}. ${said.join("; ")}.${best}`;
    const heading = unbroken(group.headings[at][by] || `${label} at ${data.said[at]} on ${group.place}`);
    return { data: [trace], layout: group.layout, summary, title: group.place, heading };
  });
  const told = data.groups.find((group) => shown(group).length && group.headings[at][by]);
  return { heading: unbroken(told ? told.headings[at][by] : data.headings[at][by]), note: "", charts };
};
