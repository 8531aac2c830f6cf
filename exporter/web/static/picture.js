// The board as a picture to send to others: names, samples, memory, values, and what it is.
// The same size on every screen.

import { caption } from "./exports.js";
import { LANE } from "./paint.js";
import { ratio } from "./text.js";

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
  const tallOf = ({ rows, rowHeight }) => LANE + rowHeight * rows.length;
  const height = groups.reduce((sum, group) => sum + TITLE + tallOf(group), HEAD + FOOT);
  const canvas = new OffscreenCanvas(WIDTH * DETAIL, height * DETAIL);
  const pen = canvas.getContext("2d");
  pen.scale(DETAIL, DETAIL);
  pen.fillStyle = look.surface;
  pen.fillRect(0, 0, WIDTH, height);
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
    const tall = tallOf(group);
    const heat = new OffscreenCanvas(HEAT.width * DETAIL, tall * DETAIL);
    const memory = new OffscreenCanvas(MEMORY.width * DETAIL, (tall - LANE) * DETAIL);
    group.paint(model, null, { ...look, scale: DETAIL }, heat, memory);
    pen.drawImage(heat, HEAT.left, top, HEAT.width, tall);
    pen.drawImage(memory, MEMORY.left, top + LANE, MEMORY.width, tall - LANE);
    if (group.rowHeight >= 12) writeRows(model, group, top + LANE + 4, write, look);
    top += tall;
  }
  write(caption(model), SIDE, top + 24, "12px", look.quiet);
  return canvas.convertToBlob({ type: "image/png" });
}

function writeRows(model, { rows, rowHeight, sizes }, top, write, look) {
  rows.forEach((row, at) => {
    const y = top + (at + 0.5) * rowHeight;
    write(model.nameOf(row), SIDE, y, "600 12px");
    write(ratio(model.value(row, model.newest)), HEAT.left + HEAT.width + 20, y, "600 13px");
    write(sizes[at].textContent, MEMORY.left + MEMORY.width + 14, y, "12px", look.quiet);
  });
}
