// Columns of numbers that results/report/packed.py put into the page: deflated bytes, as base64.

// Undo the byte planes and, where there are any, the differences of one column of `length` whole numbers.
const column = (bytes, start, { length, bytes: width, delta }) => {
  const values = width === 1 ? new Uint8Array(length) : width === 2 ? new Uint16Array(length) : new Uint32Array(length);
  for (let plane = 0; plane < width; plane++) {
    const from = start + plane * length, shift = 8 * plane;
    for (let i = 0; i < length; i++) values[i] |= bytes[from + i] << shift;
  }
  if (delta) for (let i = 1; i < length; i++) values[i] += values[i - 1];
  return values;
};

const decodeBase64 = (text) => {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
};

const inflate = async (bytes) => {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
};

// Give {about, columns: {name: typed array}} of the block with this name, or null if the page has none.
const unpack = async (element) => {
  const { about, columns } = JSON.parse(element.dataset.about);
  const bytes = await inflate(decodeBase64(element.textContent));
  let start = 0;
  const found = {};
  for (const one of columns) {
    found[one.name] = column(bytes, start, one);
    start += one.length * one.bytes;
  }
  return { about, columns: found };
};

const unpacked = {}; // name → promise: unpacked once, when first asked for
const block = (name) => {
  const element = document.getElementById(`packed-${name}`);
  return (unpacked[name] ??= element === null ? Promise.resolve(null) : unpack(element));
};
