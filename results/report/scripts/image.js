// One figure as an image that can leave the page: the plot at its size, above it the heading, below it the keys of what it
// draws, in as many rows as they need, and where it is from. The image grows for them; nothing is cut and the plot keeps its room.

const SVG = "http://www.w3.org/2000/svg";
const IMAGE_PAD_PX = 12, HEADING_PX = 15, SMALL_PX = 12, ORIGIN_PX = 11, LINE_PX = 20;
const SAMPLE_PX = 38, KEY_GAP_PX = 22; // of a key; as long as the page's own, so that its dashes can be told
const measuring = document.createElement("canvas").getContext("2d");

const svgElement = (tag, attributes, text = "") => {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
};

// Break a text into lines of at most this width, at spaces, and within a word that is longer than a line.
const wrapped = (text, roomPx, font) => {
  measuring.font = font;
  const fits = (part) => measuring.measureText(part).width <= roomPx;
  const lines = [];
  let line = "";
  for (const word of text.split(" ")) {
    let rest = line ? `${line} ${word}` : word;
    if (line && !fits(rest)) {
      lines.push(line);
      rest = word;
    }
    while (rest.length > 1 && !fits(rest)) {
      let length = rest.length - 1;
      while (length > 1 && !fits(rest.slice(0, length))) length--;
      lines.push(rest.slice(0, length));
      rest = rest.slice(length);
    }
    line = rest;
  }
  return [...lines, line];
};

const plainText = (html) => new DOMParser().parseFromString(html, "text/html").documentElement.textContent;
const sampleLine = (colour, width) => svgElement("line", { x1: -12, x2: 26, y1: 7, y2: 7, stroke: colour, "stroke-width": width });
const sampleBox = (colour) => svgElement("rect", { x: 0, y: 1, width: 12, height: 12, fill: colour });

// The sample of a series as the page's legend has it, in light colours.
const sampleOfSeries = (key) => {
  const swatch = legendKeys.find((one) => one.dataset.series === key)?.querySelector(".swatch");
  const colour = swatch?.style.getPropertyValue("--light");
  if (!colour) return null;
  return [...swatch.children].map((shape) => {
    const copy = shape.cloneNode();
    for (const name of ["stroke", "fill"]) if (copy.getAttribute(name) === "currentColor") copy.setAttribute(name, colour);
    return copy;
  });
};

// What there is to name in these traces: each series once, all theory as one, and whatever else has a name.
const keysOf = (traces) => {
  const keys = new Map(); // key → {name, sample}
  for (const { name, meta, visible, showlegend, type, line, marker } of traces) {
    if (visible === false || (!meta?.theory && (!name || showlegend === false))) continue;
    const of = meta?.theory ? "theory" : typeof meta?.series === "string" ? meta.series : name;
    if (keys.has(of)) continue;
    const colour = [line?.color, marker?.color].flat().find((one) => typeof one === "string") ?? "#5c6673";
    const plain = () => [type === "bar" ? sampleBox(colour) : sampleLine(colour, 2)];
    keys.set(of, meta?.theory
      ? { name: "theory (thin lines)", sample: [sampleLine("#5c6673", 1)] }
      : { name: seriesByKey.get(of)?.name ?? plainText(name), sample: sampleOfSeries(of) ?? plain() });
  }
  const theory = keys.get("theory");
  if (theory && keys.delete("theory")) keys.set("theory", theory); // last
  return [...keys.values()];
};

// Texts, a line each, from `top` on: their elements, and where they end.
const textLines = (lines, x, top, attributes) =>
  lines.map((text, i) => svgElement("text", { x, y: top + (i + 0.75) * LINE_PX, ...attributes }, text));

// The keys in columns below `top`, and where they end.
const legendBelow = (keys, width, top, font) => {
  const roomPx = width - 2 * IMAGE_PAD_PX;
  const found = keys.map((one) => ({ ...one, lines: wrapped(one.name, roomPx - SAMPLE_PX - 6, `${SMALL_PX}px ${font}`) }));
  const widthOf = (text) => measuring.measureText(text).width;
  const column = Math.max(0, ...found.flatMap(({ lines }) => lines.map(widthOf))) + SAMPLE_PX + 6 + KEY_GAP_PX;
  const columns = Math.max(1, Math.floor((roomPx + KEY_GAP_PX) / column));
  const elements = [];
  for (let first = 0; first < found.length; first += columns) {
    const row = found.slice(first, first + columns);
    row.forEach(({ sample, lines }, i) => {
      const x = IMAGE_PAD_PX + i * column;
      const drawn = svgElement("g", { transform: `translate(${x + 12} ${top + LINE_PX / 2 - 7})` });
      drawn.append(...sample);
      elements.push(drawn, ...textLines(lines, x + SAMPLE_PX + 6, top, { "font-size": SMALL_PX }));
    });
    top += LINE_PX * Math.max(...row.map(({ lines }) => lines.length));
  }
  return { elements, bottom: top };
};

// A figure's specification with its heading, smaller lines below that, and at its foot where it is from, as one SVG element.
const imageOf = async ({ data, layout }, { width, height, heading, notes, origin }) => {
  const font = layout.font?.family ?? "sans-serif", ink = layout.font?.color ?? "#1d2530";
  const made = await Plotly.toImage({ data, layout: { ...layout, width: undefined, height: undefined, showlegend: false } }, { format: "svg", width, height });
  const plot = new DOMParser().parseFromString(decodeURIComponent(made.slice(made.indexOf(",") + 1)), "image/svg+xml").documentElement;
  const roomPx = width - 2 * IMAGE_PAD_PX;
  const title = wrapped(heading, roomPx, `600 ${HEADING_PX}px ${font}`);
  const small = notes.flatMap((note) => wrapped(note, roomPx, `${SMALL_PX}px ${font}`));
  const below = IMAGE_PAD_PX / 2 + LINE_PX * title.length;
  const top = below + LINE_PX * small.length;
  plot.setAttribute("x", 0);
  plot.setAttribute("y", top);
  const legend = legendBelow(keysOf(data), width, top + height, font);
  const foot = origin.flatMap((line) => wrapped(line, roomPx, `${ORIGIN_PX}px ${font}`));
  const whole = Math.ceil(legend.bottom + LINE_PX * foot.length + IMAGE_PAD_PX / 2);
  const image = svgElement("svg", { xmlns: SVG, width, height: whole, viewBox: `0 0 ${width} ${whole}`, "font-family": font, fill: ink });
  image.append(
    svgElement("rect", { width, height: whole, fill: layout.paper_bgcolor ?? "#ffffff" }),
    ...textLines(title, IMAGE_PAD_PX, IMAGE_PAD_PX / 2, { "font-size": HEADING_PX, "font-weight": 600 }),
    ...textLines(small, IMAGE_PAD_PX, below, { "font-size": SMALL_PX }),
    document.importNode(plot, true),
    ...legend.elements,
    ...textLines(foot, IMAGE_PAD_PX, legend.bottom, { "font-size": ORIGIN_PX, fill: "#5c6673" }),
  );
  return { svg: new XMLSerializer().serializeToString(image), width, height: whole };
};

// That as PNG, at twice its size.
const pngOf = async ({ svg, width, height }) => {
  const picture = new Image();
  picture.src = `data:image/svg+xml,${encodeURIComponent(svg)}`;
  await picture.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
};
