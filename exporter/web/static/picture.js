// The board as a picture to send to others: names, samples, memory, values, and what it is.
// The same size on every screen.

import { caption } from "./csv.js";
import { ratio } from "./format.js";
import { LANE } from "./paint.js";

const WIDTH = 1200;
const SIDE = 24;
const HEAD = 74;
const TITLE = 22;
const FOOT = 40;
const HEAT = { left: 110, width: 560 };
const MEMORY = { left: 760, width: 280 };
const DETAIL = 2; // pixels of the file for each of these units

/** A PNG of what the groups show; `words` {headline, subline}, `look` the page's colours. */
export function pictureOf(model, groups, words, look) {
  const tall = groups.reduce((sum, group) => sum + heightOf(group) + TITLE, HEAD + FOOT);
  const canvas = new OffscreenCanvas(WIDTH * DETAIL, tall * DETAIL);
  const pen = canvas.getContext("2d");
  pen.scale(DETAIL, DETAIL);
  pen.imageSmoothingEnabled = false;
  pen.fillStyle = look.surface;
  pen.fillRect(0, 0, WIDTH, tall);
  const write = (text, x, y, font, colour = look.text) => {
    pen.font = `${font} Arial, sans-serif`;
    pen.fillStyle = colour;
    pen.fillText(text, x, y, WIDTH - SIDE - x);
  };
  write(words.headline, SIDE, 34, "600 20px");
  write(words.subline, SIDE, 56, "13px", look.quiet);
  let top = HEAD;
  for (const group of groups) {
    write(group.title, SIDE, top + 16, "600 13px");
    top += TITLE;
    const tallRows = heightOf(group);
    const heat = new OffscreenCanvas(HEAT.width * DETAIL, tallRows * DETAIL);
    const memory = new OffscreenCanvas(MEMORY.width * DETAIL, (tallRows - LANE) * DETAIL);
    group.paint(model, null, { ...look, scale: DETAIL }, heat, memory);
    pen.drawImage(heat, HEAT.left, top, HEAT.width, tallRows);
    pen.drawImage(memory, MEMORY.left, top + LANE, MEMORY.width, tallRows - LANE);
    writeValues(model, group, top, write, look);
    top += heightOf(group);
  }
  write(caption(model), SIDE, top + 24, "12px", look.quiet);
  return canvas.convertToBlob({ type: "image/png" });
}

function heightOf(group) {
  return LANE + group.rowHeight * group.rows.length;
}

function writeValues(model, group, top, write, look) {
  if (group.rowHeight < 12) return;
  group.rows.forEach((row, at) => {
    const y = top + LANE + (at + 0.5) * group.rowHeight + 4;
    write(model.nameOf(row), SIDE, y, "600 12px");
    write(ratio(model.value(row, model.newest)), HEAT.left + HEAT.width + 20, y, "600 13px");
    write(group.sizes[at].textContent, MEMORY.left + MEMORY.width + 14, y, "12px", look.quiet);
  });
}
