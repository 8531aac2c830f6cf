// Samples as colours: viridis, dark for 0, bright for 1. Knows no sizes on the screen.

// Every fifth of the map's 256 colours; between two of them a straight line is right within 1/255.
const STOPS = `
  440154 46085c 471063 481769 481d6f 482475 472a7a 46307e 453781 433d84 414287 3f4889 3d4e8a
  3a538b 38598c 355e8d 33638d 31688e 2e6d8e 2c718e 2a768e 297b8e 27808e 25848e 23898e 218e8d
  20928c 1f978b 1e9c89 1fa188 21a585 24aa83 28ae80 2eb37c 35b779 3dbc74 46c06f 50c46a 5ac864
  65cb5e 70cf57 7cd250 89d548 95d840 a2da37 b0dd2f bddf26 cae11f d8e219 e5e419 f1e51d fde725`
  .match(/\w+/g)
  .map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));

const SHADES = Array.from({ length: 256 }, (_, shade) => {
  const [at, share] = [Math.floor(shade / 5), (shade % 5) / 5];
  const next = STOPS[at + 1] ?? STOPS[at];
  return [...STOPS[at].map((from, channel) => Math.round(from + share * (next[channel] - from))), 255];
});

/** A CSS gradient over all colours, from left to right. */
export const GRADIENT = `linear-gradient(to right, ${STOPS.map((rgb) => `rgb(${rgb})`)})`;

const picture = new OffscreenCanvas(1, 1); // of whoever asked last

/**
 * Samples of some rows as a small picture, a pixel each, oldest left; it holds until the next call.
 * A gap stays transparent, so that what lies behind shows.
 */
export function pictureOfSamples(model, rows) {
  const { columns, oldest } = model;
  Object.assign(picture, { width: columns, height: rows.length });
  const pen = picture.getContext("2d");
  const pixels = pen.createImageData(columns, rows.length);
  rows.forEach((row, at) => {
    for (let column = 0; column < columns; column += 1) {
      const shade = SHADES[Math.round(255 * model.value(row, oldest + column))];
      if (shade) pixels.data.set(shade, 4 * (at * columns + column));
    }
  });
  pen.putImageData(pixels, 0, 0);
  return picture;
}
