// A moment of a figure over time or steps: what comes after it is covered. A slider, steps, and a play button that
// does nothing where the reader asked for reduced motion.

const PLAY_FRAMES = 100, FRAME_MS = 120;
const SLIDER_MOST = 1000; // whatever the number of steps, so that the link can remember a place before there are any
const reducedMotion = window.matchMedia("(prefers-reduced-motion: reduce)");

// Give the player of a panel. load(score) before its view is returned; score: {steps, at(step) → x, said(step) → text,
// subplots: [[x axis, y axis]], end (x), cover and ink (colours)}. shapes(): what covers the figure now.
const makePlayer = (article) => {
  const room = article.querySelector("[data-extra]");
  const button = (text, title) => Object.assign(document.createElement("button"), { type: "button", className: "play", textContent: text, title });
  const play = button("Play", "Show how the slots fill, from the beginning or from here");
  const back = button("◀", "One step back"), on = button("▶", "One step on");
  const slider = Object.assign(document.createElement("input"), { type: "range", min: 0, max: SLIDER_MOST, step: "any", value: SLIDER_MOST });
  slider.dataset.state = `${article.id}-moment`;
  slider.setAttribute("aria-label", "Moment that is shown");
  const said = document.createElement("output");
  room.append(play, back, slider, on, said);
  let score = null, timer = null;

  const step = () => Math.round((Number(slider.value) / SLIDER_MOST) * score.steps);
  const go = (to) => {
    slider.value = (Math.min(score.steps, Math.max(0, to)) / score.steps) * SLIDER_MOST;
    move();
  };
  const ended = () => step() >= score.steps;
  const edges = () => [ended() ? score.end : score.at(step()), score.end];
  const shapes = () => {
    const [from, to] = edges();
    return score.subplots.flatMap(([x, y]) => [
      { type: "rect", xref: x, yref: `${y} domain`, x0: from, x1: to, y0: 0, y1: 1, fillcolor: score.cover, opacity: 0.88, line: { width: 0 } },
      { type: "line", xref: x, yref: `${y} domain`, x0: from, x1: from, y0: 0, y1: 1, line: { color: score.ink, width: ended() ? 0 : 2 } },
    ]);
  };
  const tell = () => {
    said.textContent = score.said(step());
    slider.setAttribute("aria-valuetext", said.textContent);
  };
  const move = () => {
    if (score === null) return;
    const chart = article.querySelector("[data-chart]");
    if (chart.layout?.shapes) {
      const [from] = edges(), moved = {};
      chart.layout.shapes.forEach((shape, i) => {
        moved[`shapes[${i}].x0`] = from;
        if (shape.type === "line") Object.assign(moved, { [`shapes[${i}].x1`]: from, [`shapes[${i}].line.width`]: ended() ? 0 : 2 });
      });
      Plotly.relayout(chart, moved);
    }
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
    tell();
  };
  return { load, shapes };
};

const players = Object.fromEntries(
  ["slots", "occupancy"].filter((name) => document.querySelector(`[data-panel="${name}"]`)).map((name) => [name, makePlayer(document.getElementById(name))]),
);
