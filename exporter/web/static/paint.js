// What stands on a group's two canvases: samples under a lane of signs, and bars of memory by owner.
// Draws what it is given, in CSS pixels; knows no model and no page.

import { gigabytes } from "./format.js";
import { OWNERS, stripes } from "./owners.js";

export const LANE = 16; // above the samples, as --lane in live.css

/** Give a canvas as many pixels as it has on the screen. */
export function fit(canvas, scale) {
  const wide = Math.round(canvas.clientWidth * scale);
  const tall = Math.round(canvas.clientHeight * scale);
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== tall) canvas.height = tall;
}

function cleared(canvas, scale) {
  const pen = canvas.getContext("2d");
  const [width, height] = [canvas.width / scale, canvas.height / scale];
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height };
}

/**
 * Samples: the picture over a striped ground, signs above, the cursor on top. Rows and columns of
 * signs and cursor count from those of `origin`, which is the top left sample.
 */
export function paintHeat(canvas, heat, signs, cursor, origin, look) {
  const { pen, width, height } = cleared(canvas, look.scale);
  const tall = (height - LANE) / heat.rows;
  const wide = width / heat.columns;
  const top = (row) => LANE + Math.round((row - origin.row) * tall);
  const left = (column) => Math.round((column - origin.column) * wide);
  pen.fillStyle = stripes(pen, look.gap, look.track);
  pen.fillRect(0, LANE, width, height - LANE);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(heat.picture, 0, LANE, width, height - LANE);
  const gap = tall >= 12 ? 2 : 1;
  for (let row = 1; row < heat.rows; row += 1) {
    pen.clearRect(0, top(origin.row + row) - gap / 2, width, gap);
  }
  for (const { kind, count, row, column, endColumn } of signs) {
    pen.fillStyle = look[kind];
    if (kind === "preemption") {
      const high = 4 + Math.min(5, count / 2);
      pen.fillRect(left(column), LANE - high - 1, Math.max(2, Math.min(4, wide - 1)), high);
      continue;
    }
    const x = left(column + 0.5);
    const length = left(endColumn + 1) - x;
    pen.fillRect(x, 3, length, 2);
    pen.fill(new Path2D(`M${x - 4} 4l4-4l4 4l-4 4z`));
    if (heat.rows > 1) pen.fillRect(x, top(row + 1) - gap / 2 - 2, length, 2);
  }
  if (!cursor) return;
  const { row, column } = cursor;
  const box = [left(column), top(row), left(column + 1) - left(column), top(row + 1) - top(row)];
  for (const [colour, line] of [
    ["#000", 3],
    ["#fff", 1.5],
  ]) {
    pen.strokeStyle = colour;
    pen.lineWidth = line;
    pen.strokeRect(...box);
  }
}

/** A bar a row; `bars` hold {total, owners: {owner: bytes}}, owners null where nothing is known. */
export function paintMemory(canvas, bars, look) {
  const { pen, width, height } = cleared(canvas, look.scale);
  const rowTall = height / bars.length;
  const tall = Math.round(Math.min(26, Math.max(rowTall * 0.62, rowTall - 6)));
  bars.forEach(({ total, owners }, row) => {
    const y = Math.round((row + 0.5) * rowTall - tall / 2);
    pen.fillStyle = owners ? look.track : stripes(pen, look.gap, look.track);
    pen.fillRect(0, y, width, tall);
    let bytes = 0;
    for (const owner of owners ? OWNERS : []) {
      const x = Math.round((bytes / total) * width);
      const size = owners[owner.key] ?? 0;
      bytes += size;
      const wide = Math.round((bytes / total) * width) - x;
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
