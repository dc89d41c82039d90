// The panel "goodput": the reader's SLO, and what each series serves within it, counted from the page's requests.

const SLO_INPUTS = { ttft_ms: "TTFT at most", tpot_ms: "TPOT at most", itl_ms: "ITL p99 at most", e2e_ms: "E2E at most" };
const OWN = "own"; // the preset of an SLO that the reader typed
const sloArticle = document.querySelector("[data-panel=goodput]");

const labelled = (text, input) => {
  const label = document.createElement("label");
  label.append(`${text} `, input);
  return label;
};
const field = (state, settings) => {
  const input = Object.assign(document.createElement("input"), { type: "text", size: 8, autocomplete: "off", ...settings });
  input.dataset.state = state;
  return input;
};
const limitText = (limitMs) => (limitMs === undefined ? "" : `${limitMs} ms`);

const buildSlo = (article, { presets, with_itl: withItl, quantile, configured }) => {
  const place = article.querySelector("[data-extra]");
  const preset = document.createElement("select");
  preset.dataset.state = "slo";
  presets.forEach(({ label }, i) => preset.append(new Option(`${configured ? "" : "suggested: "}${label}`, String(i))));
  preset.append(new Option("as typed", OWN));
  const inputs = Object.fromEntries(
    Object.keys(SLO_INPUTS).filter((key) => key !== "itl_ms" || withItl).map((key) => [key, field(key, { placeholder: "no limit" })]),
  );
  const share = field("within", { value: String(quantile), size: 4, inputMode: "decimal" });
  const said = document.createElement("span");
  said.role = "status";
  place.append(labelled("SLO", preset));
  for (const [key, input] of Object.entries(inputs)) place.append(labelled(SLO_INPUTS[key], input));
  place.append(labelled("for % of offered", share), said);
  const fill = () => {
    const limits = presets[Number(preset.value)]?.limits;
    for (const [key, input] of Object.entries(inputs)) {
      if (limits) input.value = limitText(limits[key]);
      input.toggleAttribute("data-follows", limits !== undefined); // the link has the preset, not these
    }
  };
  preset.addEventListener("change", () => {
    fill();
    changed(article);
  });
  for (const input of Object.values(inputs)) {
    input.addEventListener("input", () => {
      preset.value = OWN;
      fill();
      changed(article);
    });
  }
  share.addEventListener("input", () => changed(article));
  fill();
  return { inputs, share, said };
};

// What the fields say: {limits, share}, or a text that says what is wrong with them.
const chosenSlo = ({ inputs, share }) => {
  const limits = {};
  const wrong = [];
  for (const [key, input] of Object.entries(inputs)) {
    const limitMs = readLimit(input.value);
    input.setAttribute("aria-invalid", String(Number.isNaN(limitMs)));
    if (Number.isNaN(limitMs)) wrong.push(`${LIMIT_NAMES[key]} must be a time such as 500 ms or 0.5 s`);
    else if (limitMs !== undefined) limits[key] = limitMs;
  }
  const percent = Number(share.value.replace(",", "."));
  const isShare = share.value.trim() !== "" && percent > 0 && percent <= 100;
  share.setAttribute("aria-invalid", String(!isShare));
  if (!isShare) wrong.push("the share must be above 0 and at most 100 %");
  if (!wrong.length && !Object.keys(limits).length) wrong.push("one limit at least");
  return { limits, share: percent / 100, wrong: wrong.join("; ") };
};

const NOT_COUNTED = "Not counted: the SLO cannot be used as it stands"; // what is wrong with it stands beside its fields
const slo = sloArticle ? buildSlo(sloArticle, panels.goodput.live) : null;
let servedRows = null; // promise
let counted = { key: null, trials: [] }; // of the limits counted last

const percentText = (share) => (share === null ? "–" : `${numberText(100 * share)} %`);
const MEASURE_TEXTS = {
  share: percentText,
  requests: (value) => (value === null ? "–" : `${numberText(value)} req/s`),
  tokens: (value) => (value === null ? "–" : `${numberText(value)} tokens/s`),
};

const goodputLine = (line, of, measure, threshold) => {
  const y = line.cells.map((cell) => of(cell)[measure]);
  return {
    type: "scatter",
    mode: "lines+markers",
    x: line.cells.map((cell) => cell.rate),
    y,
    name: escaped(line.name),
    meta: { series: line.key, rates: line.cells.map((cell) => cell.rate) },
    line: { color: line.colour, dash: line.dash, width: 2 },
    marker: { color: line.colour, size: 9, symbol: line.cells.map((cell) => cell.symbol), line: { width: 2, color: line.colour } },
    text: line.cells.map((cell) => {
      const { share, requests, tokens } = of(cell);
      const kept = share !== null && share >= threshold ? "kept" : "not kept";
      return [
        `<b>${escaped(line.setting)}</b> on ${escaped(line.place)}`,
        `${numberText(cell.rate)} req/s, ${cell.trials.length} repeat${cell.trials.length === 1 ? "" : "s"}`,
        `within the SLO: <b>${percentText(share)}</b> of offered, ${kept}`,
        `${MEASURE_TEXTS.requests(requests)}, ${MEASURE_TEXTS.tokens(tokens)}`,
      ].join("<br>");
    }),
    hovertemplate: "%{text}<extra></extra>",
  };
};

// The trials of a line that do not count, a cross each.
const crossedTrials = (line, symbol, measure) => ({
  type: "scatter",
  mode: "markers",
  x: line.crossed.map(({ rate }) => rate),
  y: line.crossed.map(({ trial }) => counted.trials[trial][measure]),
  name: `does not count: ${escaped(line.name)}`,
  showlegend: false,
  meta: { series: line.key, rates: line.crossed.map(({ rate }) => rate) },
  marker: { symbol, size: 11, color: line.colour, line: { width: 2, color: line.colour } },
  text: line.crossed.map(({ trial, text }) => `${text}<br>${MEASURE_TEXTS[measure](counted.trials[trial][measure])}`),
  hovertemplate: "%{text}<extra></extra>",
});

const NAMED = 4; // settings in a heading
const named = (said) => said.slice(0, NAMED).join(", ") + (said.length > NAMED ? `, ${said.length - NAMED} more under “Data of this figure”` : "");

// Of the share: who keeps the SLO up to which rate; of requests and tokens: the most that each has.
const goodputHeading = (lines, of, measure, limits, threshold) => {
  const shown = lines.map((line) => ({ name: line.name, cells: line.cells.filter((cell) => showsRate(cell.rate)) }));
  if (measure !== "share") {
    const said = mostOf(shown, of, measure).map(({ name, rate, value }) => `${MEASURE_TEXTS[measure](value)} with ${name} at ${numberText(rate)} req/s`);
    return `The most ${measure}/s within ${limitsText(limits)}: ${named(said) || "nothing is known"}`;
  }
  const said = keepersOf(shown, of, threshold).map(
    ({ name, rate, standing }) => `${name} up to ${numberText(rate)} req/s${standing && ` (${standing})`}`,
  );
  const rest = said.length > NAMED || said.length === lines.length ? "" : said.length ? ", no other" : "nobody, at any rate";
  return `${percentText(threshold)} of offered within ${limitsText(limits)}: ${named(said)}${rest}`;
};

const limitColumns = (limits) => Object.entries(LIMIT_NAMES).map(([key, name]) => [`${name} at most`, amount(limits[key] ?? null, "ms")]);

live.goodput = async ({ data, choices }) => {
  const chosen = chosenSlo(slo);
  slo.said.textContent = chosen.wrong;
  const { limits, share: threshold } = chosen;
  if (chosen.wrong) {
    const chart = { data: [], layout: data.layout, summary: NOT_COUNTED, words: "Nothing to draw" };
    return { heading: NOT_COUNTED, note: "", follows: true, charts: [chart], table: { columns: data.columns, rows: [] }, named: ["no SLO"] };
  }
  const rows = await (servedRows ??= block("served").then(withE2e));
  const key = JSON.stringify(limits);
  if (counted.key !== key) counted = { key, trials: goodputOf(rows, limits) };
  const of = (cell) =>
    Object.fromEntries(
      ["share", "requests", "tokens"].map((name) => [name, meanOf(cell.trials.map((at) => (at === null ? null : counted.trials[at][name])))]),
    );
  const shown = data.lines.filter((line) => showsSeries(line.key));
  const { measure } = choices;
  const layout = structuredClone(data.layout);
  layout.yaxis.title.text = data.measures[measure];
  if (measure === "share") {
    Object.assign(layout.yaxis, { tickformat: ".0%", range: [0, 1.05] });
    layout.shapes = [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: threshold, y1: threshold, line: { color: "#5c6673", dash: "dot", width: 1 } }];
  }
  const cells = data.lines.flatMap((line) => line.cells.map((cell) => ({ line, cell, found: of(cell) })));
  const points = cells.filter(({ line, cell }) => showsSeries(line.key) && showsRate(cell.rate));
  return {
    heading: unbroken(goodputHeading(shown, of, measure, limits, threshold)),
    note: "",
    follows: true,
    charts: [
      {
        data: [
          ...data.lines.map((line) => goodputLine(line, of, measure, threshold)),
          ...data.lines.filter((line) => line.crossed.length).map((line) => crossedTrials(line, data.cross, measure)),
        ],
        layout,
        summary: `Within ${limitsText(limits)}, by arrival rate. ${points
          .map(({ line, cell, found }) => `${line.name} at ${numberText(cell.rate)} req/s: ${MEASURE_TEXTS[measure](found[measure])}`)
          .join("; ")}.`,
      },
    ],
    table: {
      columns: data.columns,
      rows: cells.map(({ line, cell, found }) => [
        line.setting,
        line.place,
        amount(cell.rate, "req/s", MEASURE_TEXTS.requests),
        amount(cell.trials.length, ""),
        cell.standing || "kept up",
        ...Object.entries({ share: "ratio", requests: "req/s", tokens: "tokens/s" }).map(([name, unit]) => amount(found[name], unit, MEASURE_TEXTS[name])),
      ]),
      marks: cells.map(({ line, cell }) => ({ series: [line.key], rate: cell.rate })),
    },
    named: [limitsText(limits), percentText(threshold)],
    constants: [...limitColumns(limits), ["wanted share", amount(threshold, "ratio")]],
  };
};
