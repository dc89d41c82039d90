// What a figure's own controls offer: a choice of which a setting or the rate is filtered out is none (its marks are those
// of a table's row). Where it was chosen, the first that is left takes its place until it is back; the link keeps what was
// chosen.

const selectsOf = (article) => [...article.querySelectorAll("select[data-control]")];
const wanted = new Map(); // select → the value that the reader chose

const offer = () => {
  for (const [select, value] of wanted) {
    const options = [...select.options], left = options.filter((one) => !one.hidden);
    for (const one of options) one.disabled = one.hidden;
    const chosen = options.find((one) => one.value === value);
    select.value = (chosen.hidden && left.length ? left[0] : chosen).value;
    select.toggleAttribute("data-nothing-left", !left.length);
  }
};

// Those of a page of theory have no rates of their own.
const isLeft = ({ key, rates }) => showsSeries(key) && (!rates.length || rates.some(showsRate));
const isNothingLeft = (article) =>
  selectsOf(article).some((one) => "nothingLeft" in one.dataset) || (series.length > 0 && !series.some(isLeft));

// Whether the reader switched off a setting or a rate.
const isFiltered = () => Object.values(off).some((values) => [...values].some((one) => one !== "theory"));
const OF_ALL = "Of all settings and rates, hidden ones too: ";
