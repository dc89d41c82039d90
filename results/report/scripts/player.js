// A moment of a figure over time or steps: what comes after it is covered. A slider, steps, and a play button that
// does nothing where the reader asked for reduced motion.

const PLAY_FRAMES = 100, FRAME_MS = 120;
const SLIDER_MOST = 1000; // whatever the number of steps, so that the link can remember a place before there are any
const reducedMotion = window.matchMedia("(prefers-reduced-motion: reduce)");

// Give the player of a panel. load(score) before its view is returned; score: {steps, at(step) → x, said(step) → text,
// subplots: how many}. The covers lie over the figure, because Plotly would draw all of it again for each frame.
const makePlayer = (article) => {
  const room = article.querySelector("[data-extra]");
  const button = (text, title) => Object.assign(document.createElement("button"), { type: "button", className: "play", textContent: text, title });
  const play = button("Play", "Show how the slots fill, from the beginning or from here");
  const back = button("◀", "One step back"), on = button("▶", "One step on");
  const slider = Object.assign(document.createElement("input"), { type: "range", min: 0, max: SLIDER_MOST, step: "any", value: SLIDER_MOST });
  slider.dataset.state = `${article.id}-moment`;
  slider.setAttribute("aria-label", "Moment that is shown");
  const said = document.createElement("output");
  const chart = article.querySelector("[data-chart]"), figure = chart.parentElement;
  const covers = [];
  room.append(play, back, slider, on, said);
  let score = null, timer = null;

  const step = () => Math.round((Number(slider.value) / SLIDER_MOST) * score.steps);
  const go = (to) => {
    slider.value = (Math.min(score.steps, Math.max(0, to)) / score.steps) * SLIDER_MOST;
    move();
  };
  const ended = () => step() >= score.steps;
  const place = () => {
    if (score === null) return;
    const origin = figure.getBoundingClientRect(), from = score.at(step());
    covers.forEach((cover, i) => {
      const suffix = i ? `${i + 1}` : "", plot = chart.querySelector(`.draglayer .nsewdrag[data-subplot="x${suffix}y${suffix}"]`);
      cover.hidden = ended() || plot === null;
      if (cover.hidden) return;
      const { left, top, width, height } = plot.getBoundingClientRect(), [low, high] = chart.layout[`xaxis${suffix}`].range;
      const share = Math.min(1, Math.max(0, (from - low) / (high - low)));
      Object.assign(cover.style, {
        left: `${left - origin.left + share * width}px`, top: `${top - origin.top}px`, width: `${(1 - share) * width}px`, height: `${height}px`,
      });
    });
  };
  const follow = () => {
    if (!chart.on) return setTimeout(follow, 200); // nothing is drawn yet
    place();
    return chart.on("plotly_afterplot", place);
  };
  follow();
  const tell = () => {
    said.textContent = unbroken(score.said(step()));
    slider.setAttribute("aria-valuetext", said.textContent);
  };
  const move = () => {
    if (score === null) return;
    place();
    tell();
  };
  const pauseNow = () => {
    if (timer === null) return;
    clearTimeout(timer);
    timer = null;
    play.textContent = "Play";
    saveLink();
    said.setAttribute("aria-live", "polite");
  };
  const frame = () => {
    go(step() + Math.max(1, Math.round(score.steps / PLAY_FRAMES)));
    if (ended()) pauseNow();
    else timer = setTimeout(frame, FRAME_MS);
  };
  play.addEventListener("click", () => {
    if (timer !== null) return pauseNow();
    if (ended()) go(0);
    play.textContent = "Pause";
    said.setAttribute("aria-live", "off"); // nobody wants every frame read out
    return frame();
  });
  const by = (change) => () => {
    pauseNow();
    go(step() + change);
    saveLink();
  };
  back.addEventListener("click", by(-1));
  on.addEventListener("click", by(1));
  slider.addEventListener("input", () => {
    pauseNow();
    move();
  });
  slider.addEventListener("change", () => saveLink());
  const suit = () => {
    pauseNow();
    play.disabled = reducedMotion.matches;
    play.title = reducedMotion.matches ? "Your system asks for reduced motion: move in steps" : "Show how the slots fill";
  };
  reducedMotion.addEventListener("change", suit);
  suit();

  const load = (next) => {
    score = next;
    while (covers.length > score.subplots) covers.pop().remove();
    while (covers.length < score.subplots) {
      covers.push(Object.assign(document.createElement("div"), { className: "later", hidden: true }));
      figure.append(covers.at(-1));
    }
    tell();
  };
  return { load };
};

const players = Object.fromEntries(
  ["slots", "occupancy"].filter((name) => document.querySelector(`[data-panel="${name}"]`)).map((name) => [name, makePlayer(document.getElementById(name))]),
);
