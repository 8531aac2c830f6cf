// What stands on a group's two canvases: samples under a lane of signs, and bars of memory by owner.
// Sizes are in CSS pixels.

import { pictureOfSamples } from "./heat.js";
import { OWNERS, stripes } from "./owners.js";
import { conflictsOf, preemptionsOf } from "./signs.js";
import { gigabytes } from "./text.js";

export const LANE = 16; // above the samples, as --lane in live.css

/** Of a canvas: as many pixels as it has on the screen, cleared. */
function cleared(canvas, scale) {
  if (canvas.isConnected) {
    const [wide, tall] = [canvas.clientWidth, canvas.clientHeight].map((size) => Math.round(size * scale));
    if (canvas.width !== wide) canvas.width = wide;
    if (canvas.height !== tall) canvas.height = tall;
  }
  const pen = canvas.getContext("2d");
  const [width, height] = [canvas.width / scale, canvas.height / scale];
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height };
}

/** Samples of a group's rows over a striped ground, signs above, the cursor on top. */
export function paintHeat(canvas, model, group, cursor, look) {
  const { pen, width, height } = cleared(canvas, look.scale);
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
  for (const row of rows.slice(1)) pen.clearRect(0, top(row) - gap / 2, width, gap);
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

/** A bar a row: who owns its memory now; striped where nothing is known. */
export function paintMemory(canvas, model, { rows }, look) {
  const { pen, width, height } = cleared(canvas, look.scale);
  const rowTall = height / rows.length;
  const tall = Math.round(Math.min(26, Math.max(rowTall * 0.62, rowTall - 6)));
  rows.forEach((row, at) => {
    const y = Math.round((at + 0.5) * rowTall - tall / 2);
    const owners = model.owners(row, model.newest);
    const scale = width / model.total(row);
    pen.fillStyle = owners ? look.track : stripes(pen, look.gap, look.track);
    pen.fillRect(0, y, width, tall);
    let bytes = 0;
    for (const owner of owners ? OWNERS : []) {
      const x = Math.round(bytes * scale);
      const size = owners[owner.key] ?? 0;
      bytes += size;
      const wide = Math.round(bytes * scale) - x;
      if (wide === 0 || owner.key === "free") continue;
      pen.fillStyle = owner.striped ? stripes(pen, owner.colour, look.surface) : owner.colour;
      pen.fillRect(x, y, wide > 3 ? wide - 1 : wide, tall);
      if (tall < 16) continue;
      const box = { x: x + 5, y: y + tall / 2, room: wide - 10 };
      paintLabel(pen, owner, `${gigabytes(size)} GB`, box, look);
    }
  });
}

/** Name and size of a bar's part, or its size alone, where there is room; on stripes, on a ground. */
function paintLabel(pen, { label, light, striped }, size, { x, y, room }, look) {
  pen.font = "12px Arial, sans-serif";
  pen.textBaseline = "middle";
  const text = [`${label} ${size}`, size].find((one) => pen.measureText(one).width <= room);
  if (!text) return;
  if (striped) {
    pen.fillStyle = look.surface;
    pen.fillRect(x - 3, y - 8, pen.measureText(text).width + 6, 16);
  }
  pen.fillStyle = striped ? look.text : light ? "#000" : "#fff";
  pen.fillText(text, x, y + 0.5);
}
