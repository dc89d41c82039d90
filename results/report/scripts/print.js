// What a page looks like on paper: all its text unfolded, and every figure drawn, in light colours.

const unfolded = []; // what was folded before

// A page is printed as soon as the event has been handled. What a script computes by promise is printed as it was last
// drawn, or else as `prepareForPrint` had it.
const drawForPrint = (now) => {
  printed.now = now;
  if (now) unfolded.push(...document.querySelectorAll("details[data-text]:not([open])"));
  for (const one of unfolded) one.open = now;
  if (!now) unfolded.length = 0;
  for (const article of articles) {
    const view = viewOf(article);
    show(article, view instanceof Promise ? (views.get(article) ?? prepared.get(article) ?? null) : view);
  }
};

const prepared = new Map(); // article → what it shows first, where a script computes that by promise

// Compute the views of figures further down before they are drawn, so that a reader who prints at once has them.
const prepareForPrint = async () => {
  for (const article of articles) {
    try {
      const view = viewOf(article);
      if (view instanceof Promise) prepared.set(article, await view);
    } catch (error) {
      console.error(article.id, error); // it says so again when it is drawn
    }
    await pause();
  }
  document.documentElement.dataset.prepared = "yes";
};
