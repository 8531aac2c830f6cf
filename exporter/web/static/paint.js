// What stands on a group's two canvases: samples under a lane of signs, and bars of memory by owner.
// A sheet is {pen, width, height}, in CSS pixels.

import { conflictsOf, preemptionsOf } from "./events.js";
import { heldText, OWNERS, stripes } from "./owners.js";
import { gigabytes } from "./text.js";

export const LANE = 16; // above the samples, as --lane in live.css

// Viridis at 0, 0.04, … 1; between two of them a straight line is right within 3/255.
const STOPS = `
  440154 471063 481d6f 472b7b 453882 414387 3c4f8a 375a8c 32658d 2d6f8e 2a788e 26828e 228b8e
  1f958b 1f9f88 23a884 2cb17e 3aba76 4ec36b 63ca5f 7ad151 93d742 addc31 cae11f e5e419 fde725`
  .match(/\w+/g)
  .map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));

export const GRADIENT = `linear-gradient(to right, ${STOPS.map((rgb) => `rgb(${rgb})`)})`;

const SHADES = Array.from({ length: 256 }, (_, shade) => {
  const place = (shade / 255) * (STOPS.length - 1);
  const [from, to] = [STOPS[Math.floor(place)], STOPS[Math.ceil(place)]];
  return [...from.map((part, at) => Math.round(part + (place % 1) * (to[at] - part))), 255];
});

const picture = new OffscreenCanvas(1, 1); // of whoever asked last

/** Samples as a picture, a pixel each, oldest left; a gap is transparent. It holds until the next call. */
function pictureOfSamples(model, rows) {
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

/** An empty sheet of a canvas, with as many pixels as it has on the screen. */
export function sheetOf(canvas, scale) {
  const [wide, tall] = [canvas.clientWidth, canvas.clientHeight].map((size) => Math.round(size * scale));
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== tall) canvas.height = tall;
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, wide, tall);
  return { pen, width: wide / scale, height: tall / scale };
}

/** Samples of a group's rows over a striped ground, signs above, the cursor on top. */
export function paintHeat({ pen, width, height }, model, group, cursor, look) {
  const { rows } = group;
  const tall = (height - LANE) / rows.length;
  const wide = width / model.columns;
  const top = (row) => LANE + Math.round((row - rows[0]) * tall);
  const left = (column) => Math.round((column - model.oldest) * wide);
  pen.fillStyle = stripes(pen, look.gap, look.track);
  pen.fillRect(0, LANE, width, height - LANE);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(pictureOfSamples(model, rows), 0, LANE, width, height - LANE);
  const gap = tall >= 12 ? 2 : 1;
  pen.fillStyle = look.surface;
  for (const row of rows.slice(1)) pen.fillRect(0, top(row) - gap / 2, width, gap);
  pen.fillStyle = look.preemption;
  for (const { column, count } of preemptionsOf(model, group)) {
    const high = 4 + Math.min(5, count / 2);
    pen.fillRect(left(column), LANE - high - 1, Math.max(2, Math.min(4, wide - 1)), high);
  }
  pen.fillStyle = look.conflict;
  for (const { row, column, endColumn } of conflictsOf(model, group)) {
    const x = left(column + 0.5);
    const length = left(endColumn + 1) - x;
    pen.fillRect(x, 3, length, 2);
    pen.fill(new Path2D(`M${x - 4} 4l4-4l4 4l-4 4z`));
    if (rows.length > 1) pen.fillRect(x, top(row + 1) - gap / 2 - 2, length, 2);
  }
  if (!rows.includes(cursor?.row)) return;
  const [x, y] = [left(cursor.column), top(cursor.row)];
  for (const [colour, line] of [["#000", 3], ["#fff", 1.5]]) {
    pen.strokeStyle = colour;
    pen.lineWidth = line;
    pen.strokeRect(x, y, left(cursor.column + 1) - x, top(cursor.row + 1) - y);
  }
}

/** A bar a row: {total, owners: {owner: bytes} or null where nothing is known}. */
export function paintMemory({ pen, width, height }, bars, look) {
  const rowTall = height / bars.length;
  const tall = Math.round(Math.min(26, Math.max(rowTall * 0.62, rowTall - 6)));
  bars.forEach(({ total, owners }, row) => {
    const y = Math.round((row + 0.5) * rowTall - tall / 2);
    pen.fillStyle = owners ? look.track : stripes(pen, look.gap, look.track);
    pen.fillRect(0, y, width, tall);
    let [x, bytes] = [0, 0];
    for (const owner of owners ? OWNERS : []) {
      const size = owners[owner.key] ?? 0;
      bytes += size;
      const wide = Math.round((bytes / total) * width) - x;
      if (wide > 0 && owner.key !== "free") {
        pen.fillStyle = owner.striped ? stripes(pen, owner.colour, look.surface) : owner.colour;
        pen.fillRect(x, y, wide > 3 ? wide - 1 : wide, tall);
        if (tall >= 16) paintLabel(pen, owner, size, { x: x + 5, y: y + tall / 2, room: wide - 10 }, look);
      }
      x += wide;
    }
  });
}

/** Name and size, or size alone, where there is room. */
function paintLabel(pen, { label, light, striped }, bytes, { x, y, room }, look) {
  pen.font = "12px Arial, sans-serif";
  pen.textBaseline = "middle";
  const texts = [heldText({ label, bytes }), `${gigabytes(bytes)} GB`];
  const text = texts.find((one) => pen.measureText(one).width <= room);
  if (!text) return;
  if (striped) {
    pen.fillStyle = look.surface; // letters on stripes cannot be read
    pen.fillRect(x - 3, y - 8, pen.measureText(text).width + 6, 16);
  }
  pen.fillStyle = striped ? look.text : light ? "#000" : "#fff";
  pen.fillText(text, x, y + 0.5);
}
