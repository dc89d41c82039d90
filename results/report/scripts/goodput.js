// Goodput at any SLO from the block that results/report/slo.py makes of results/served.py. No DOM here.

const LARGEST_CODE = 2 ** 32 - 1;
const highestS = (limitMs) => (limitMs / 1000) * (1 + 1e-9); // as results/goodput.py

// Add to a block's columns the least E2E that each row may stand for, as results/served.py has it.
const withE2e = ({ about, columns }) => {
  const { ttft, tpot, tokens } = columns;
  const e2e = new Float64Array(ttft.length);
  let first = 0;
  for (const { rows, units_s: units, exact_e2e: exact } of about.trials) {
    for (let i = first; i < first + rows; i++) {
      const gaps = Math.max(tokens[i] - 1, 0) * (Math.max(tpot[i] - 0.5, 0) * units[1]);
      e2e[i] = Math.max(ttft[i] - 0.5, 0) * units[0] + gaps;
    }
    for (const [at, seconds] of exact) e2e[first + at] = seconds;
    first += rows;
  }
  return { about, columns: { ...columns, e2e } };
};

const codeOf = (limitMs, unit) =>
  limitMs === undefined ? LARGEST_CODE : Math.min(Math.floor(limitMs / 1000 / unit + 0.5), LARGEST_CODE);

// How many of the sorted values in [first, end) are at most `code`.
const countUpTo = (values, first, end, code) => {
  let low = first, high = end;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle] <= code) low = middle + 1;
    else high = middle;
  }
  return low - first;
};

// Who keeps a level up to which rate: the largest rate first, then the larger share there, then what is not in doubt.
const keepersOf = (lines, of, threshold) =>
  lines
    .flatMap(({ name, cells }) => {
      const kept = cells.findLast((cell) => (of(cell).share ?? 0) >= threshold);
      return kept ? [{ name, rate: kept.rate, share: of(kept).share, standing: kept.standing }] : [];
    })
    .sort((a, b) => b.rate - a.rate || b.share - a.share || (a.standing !== "") - (b.standing !== ""));

// The most that each line has of a measure, and at which rate; the largest first.
const mostOf = (lines, of, measure) =>
  lines
    .flatMap(({ name, cells }) => {
      const known = cells.map((cell) => ({ name, rate: cell.rate, value: of(cell)[measure] })).filter(({ value }) => value !== null);
      return known.length ? [known.reduce((best, one) => (one.value > best.value ? one : best))] : [];
    })
    .sort((a, b) => b.value - a.value);

// Per trial {share, requests, tokens} within the limits {ttft_ms, tpot_ms, itl_ms, e2e_ms}, null where it is not known.
const goodputOf = ({ about, columns }, limits) => {
  const { ttft, tpot, itl, tokens, e2e } = columns;
  const e2eS = limits.e2e_ms === undefined ? Infinity : highestS(limits.e2e_ms);
  let end = 0;
  return about.trials.map(({ rows, offered, offered_rate: rate, units_s: units, unknown }) => {
    const first = end;
    end += rows;
    const unjudged = limits.itl_ms !== undefined && itl === undefined;
    if (!offered || unjudged || unknown.some((key) => limits[key] !== undefined)) return { share: null, requests: null, tokens: null };
    const tpotCode = codeOf(limits.tpot_ms, units[1]);
    const itlCode = codeOf(limits.itl_ms, units[2]);
    const early = first + countUpTo(ttft, first, end, codeOf(limits.ttft_ms, units[0]));
    let good = 0, made = 0;
    for (let i = first; i < early; i++) {
      if (tpot[i] <= tpotCode && e2e[i] <= e2eS && (itl === undefined || itl[i] <= itlCode)) {
        good += 1;
        made += tokens[i];
      }
    }
    const per = (count) => (rate === null ? null : (count / offered) * rate);
    return { share: good / offered, requests: per(good), tokens: per(made) };
  });
};

const MS_PER = { ms: 1, s: 1000 };

// Read "500", "500 ms" or "0.5 s" as milliseconds: undefined for no limit, NaN if it is no time above 0.
const readLimit = (text) => {
  if (text.trim() === "") return undefined;
  const found = /^\s*(\d+(?:[.,]\d+)?|[.,]\d+)\s*(ms|s)?\s*$/i.exec(text);
  const limitMs = found ? Number(found[1].replace(",", ".")) * MS_PER[(found[2] ?? "ms").toLowerCase()] : NaN;
  return limitMs > 0 ? limitMs : NaN;
};

// A limit as it is, as results/report/numbers.py writes it.
const exactLimit = (limitMs) => {
  const [value, unit] = limitMs < 1000 ? [limitMs, "ms"] : [limitMs / 1000, "s"];
  const text = value >= 1e-6 && value < 1e15 ? value.toLocaleString("en-US", { maximumFractionDigits: 6 }) : value.toPrecision(3);
  return `${text} ${unit}`;
};

const LIMIT_NAMES = { ttft_ms: "TTFT", tpot_ms: "TPOT", itl_ms: "ITL p99", e2e_ms: "E2E" };
const limitsText = (limits) =>
  Object.entries(LIMIT_NAMES)
    .filter(([key]) => limits[key] !== undefined)
    .map(([key, name]) => `${name} ≤ ${exactLimit(limits[key])}`)
    .join(", ");

// The mean over repeats, null if one has no value (as CellSummary.mean).
const meanOf = (values) =>
  values.length && values.every((one) => one !== null) ? values.reduce((sum, one) => sum + one, 0) / values.length : null;
