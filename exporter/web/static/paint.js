// What stands on a group's two canvases: samples under a lane of signs, and bars of memory by owner.
// Draws what it is given; knows no model and no page.

import { gigabytes } from "./format.js";
import { OWNERS, stripes } from "./owners.js";

export const LANE = 16; // CSS pixels above the samples, as --lane in live.css

/** Give a canvas as many pixels as it has on the screen. */
export function fit(canvas, scale) {
  const wide = Math.round(canvas.clientWidth * scale);
  const tall = Math.round(canvas.clientHeight * scale);
  if (canvas.width !== wide) canvas.width = wide;
  if (canvas.height !== tall) canvas.height = tall;
}

/** Samples of a group: the picture over a striped ground, signs above, the cursor on top. */
export function paintHeat(canvas, heat, signs, cursor, look) {
  const context = canvas.getContext("2d");
  const { width, height } = canvas;
  const lane = LANE * look.scale;
  const rowHeight = (height - lane) / heat.rows;
  context.clearRect(0, 0, width, height);
  context.fillStyle = stripes(context, look.gap, look.track, look.scale);
  context.fillRect(0, lane, width, height - lane);
  context.imageSmoothingEnabled = false;
  context.drawImage(heat.picture, 0, lane, width, height - lane);
  const line = rowHeight >= 12 * look.scale ? 2 * look.scale : rowHeight >= 6 * look.scale ? 1 : 0;
  for (let row = 1; row < heat.rows && line > 0; row += 1) {
    context.clearRect(0, lane + Math.round(row * rowHeight) - line / 2, width, line);
  }
  const cell = width / heat.columns;
  for (const sign of signs) {
    paintSign(context, sign, cell, lane, look);
    if (sign.row === undefined || heat.rows === 1) continue;
    const below = lane + Math.round((sign.row + 1) * rowHeight) - line / 2;
    const x = Math.round(sign.column * cell);
    const thick = Math.max(1, Math.min(3 * look.scale, rowHeight / 5));
    context.fillRect(x, below - thick, Math.round((sign.endColumn + 1) * cell) - x, thick);
  }
  if (cursor) paintCursor(context, cursor, cell, rowHeight, lane, look.scale);
}

function paintSign(context, sign, cell, lane, look) {
  const { scale } = look;
  const x = Math.round((sign.column + 0.5) * cell);
  context.fillStyle = look[sign.kind];
  if (sign.kind === "preemption") {
    const tall = (4 + 5 * Math.min(1, sign.count / 8)) * scale;
    const wide = Math.max(2 * scale, Math.min(cell - scale, 4 * scale));
    context.fillRect(Math.round(x - wide / 2), lane - tall - scale, Math.round(wide), tall);
    return;
  }
  const y = 4 * scale;
  const reach = 4 * scale;
  const end = Math.round((sign.endColumn + 0.5) * cell);
  context.fillRect(x, y - scale, end - x, 2 * scale);
  context.beginPath();
  context.moveTo(x, y - reach);
  context.lineTo(x + reach, y);
  context.lineTo(x, y + reach);
  context.lineTo(x - reach, y);
  context.fill();
}

function paintCursor(context, cursor, cell, rowHeight, lane, scale) {
  const x = Math.floor(cursor.column * cell);
  const right = Math.ceil((cursor.column + 1) * cell);
  const y = lane + Math.round(cursor.row * rowHeight);
  const bottom = lane + Math.round((cursor.row + 1) * rowHeight);
  for (const [colour, wide] of [
    ["#000", 3 * scale],
    ["#fff", 1.5 * scale],
  ]) {
    context.strokeStyle = colour;
    context.lineWidth = wide;
    context.strokeRect(x, y, right - x, bottom - y);
  }
}

/** One bar a row; `rows` hold {total, owners: {owner: bytes}}, owners null where nothing is known. */
export function paintMemory(canvas, rows, look) {
  const context = canvas.getContext("2d");
  const { width, height } = canvas;
  const rowHeight = height / rows.length;
  const tall = Math.round(Math.min(26 * look.scale, Math.max(rowHeight * 0.62, rowHeight - 6)));
  context.clearRect(0, 0, width, height);
  const fills = new Map(OWNERS.map((owner) => [owner.key, fillOf(context, owner, look)]));
  rows.forEach(({ total, owners }, row) => {
    const y = Math.round(row * rowHeight + (rowHeight - tall) / 2);
    context.fillStyle = owners ? look.track : stripes(context, look.gap, look.track, look.scale);
    context.fillRect(0, y, width, tall);
    let bytes = 0;
    for (const { key, label, light } of owners ? OWNERS : []) {
      const x = Math.round((bytes / total) * width);
      bytes += owners[key] ?? 0;
      const wide = Math.round((bytes / total) * width) - x;
      if (wide === 0 || key === "free") continue;
      context.fillStyle = fills.get(key);
      context.fillRect(x, y, wide > 3 * look.scale ? wide - look.scale : wide, tall);
      if (tall < 16 * look.scale) continue;
      const size = `${gigabytes(owners[key])} GB`;
      paintLabel(context, [`${label} ${size}`, size], x, y + tall / 2, wide, light, look.scale);
    }
  });
}

/** The first of some texts that fits into a bar's part, if any does. */
function paintLabel(context, texts, x, y, wide, isOnLight, scale) {
  const inset = 5 * scale;
  context.font = `${12 * scale}px Arial, sans-serif`;
  const text = texts.find((one) => context.measureText(one).width <= wide - 2 * inset);
  if (!text) return;
  context.fillStyle = isOnLight ? "#000" : "#fff";
  context.textBaseline = "middle";
  context.fillText(text, x + inset, y + scale / 2);
}

function fillOf(context, { colour, striped }, look) {
  return striped ? stripes(context, colour, look.surface, look.scale) : colour;
}
