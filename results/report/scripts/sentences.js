// The groups of sentences in the answer follow the filters: one of which nothing is left is hidden with its title, and what a
// group folds away is opened where all that it shows is filtered out, until some of that is back.

const sentenceGroups = [...document.querySelectorAll("[data-sentences]")];

const followSentences = () => {
  const left = (list) => [...list.querySelectorAll("li")].filter((one) => !one.hidden).length;
  for (const group of sentenceGroups) {
    const more = group.querySelector(":scope > details");
    const first = left(group.querySelector(":scope > ul")), rest = more ? left(more) : 0;
    group.hidden = first + rest === 0;
    if (!more) continue;
    more.hidden = rest === 0;
    more.querySelector("summary").textContent = first ? `${rest} more` : `${rest} of other settings`;
    if (rest && !first && !more.open) {
      more.open = true;
      more.dataset.byFilter = "";
    } else if (first && "byFilter" in more.dataset) {
      more.open = false;
      delete more.dataset.byFilter;
    }
  }
};
