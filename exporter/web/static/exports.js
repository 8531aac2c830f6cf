// What a person takes away: the samples as CSV, the board as a picture; to the clipboard where the
// browser lets a page write there, to a file always.

import { METRICS, WINDOWS } from "./controls.js";
import { LANE } from "./paint.js";
import { ratio } from "./text.js";

const TYPES = { csv: "text/plain", png: "image/png" };
// The picture's sizes, the same on every screen.
const WIDTH = 1200;
const SIDE = 24;
const HEAD = 74;
const TITLE = 22;
const FOOT = 40;
const HEAT = { left: 110, width: 560 };
const MEMORY = { left: 760, width: 280 };
const DETAIL = 2; // pixels of the file for each of these units
const WHY_NOT = "Copying needs https, or this machine's own address; save works.";

/** Wire the menu: `png()` and `csv()` are blobs to come of what is shown, `name(kind)` a file's name. */
export function exportMenu(menu, blobs, name, onDone) {
  for (const button of menu.querySelectorAll("button")) {
    const [way, kind] = button.id.split("-");
    button.disabled = way === "copy" && !navigator.clipboard;
    if (button.disabled) button.title = WHY_NOT;
    button.addEventListener("click", async () => {
      menu.open = false;
      try {
        // Safari allows a copy only if it begins with the click, so the clipboard waits for the blob.
        if (way === "save") save(await blobs[kind](), name(kind));
        else await navigator.clipboard.write([new ClipboardItem({ [TYPES[kind]]: blobs[kind]() })]);
        onDone(`Done: ${button.textContent}`);
      } catch (error) {
        onDone(`Not done: ${error.message}`);
      }
    });
  }
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000); // the browser reads it after the click
}

/** CSV: a line a column, a field a row of the board; an unknown value is an empty field. */
export async function csvOf(model) {
  const lines = [["time", ...model.rows.map((row) => fieldName(model, row))]];
  for (let column = model.oldest; column <= model.newest; column += 1) {
    const values = model.rows.map((_, row) => model.value(row, column));
    const fields = values.map((value) => (Number.isNaN(value) ? "" : value.toFixed(4)));
    lines.push([isoTime(model.unixSOf(column)), ...fields]);
  }
  const text = lines.map((line) => `${line.map(quoted).join(",")}\r\n`).join("");
  return new Blob([text], { type: TYPES.csv });
}

/** live-effective_pressure-60s-20261129T161705Z.csv */
export function fileName(model, kind) {
  const time = isoTime(model.unixS).slice(0, 19).replace(/[-:]/g, "");
  return `live-${model.metric}-${model.window}-${time}Z.${kind}`;
}

/** What the samples are and when, in a sentence. */
function caption(model) {
  const { label, meaning } = METRICS[model.metric];
  const until = `${WINDOWS[model.window].label} until ${isoTime(model.unixS)}`;
  const origin = model.replay === null ? "" : `Replay of ${model.replay}. `;
  return `${origin}${label}: ${meaning}; viridis from 0 to 1. ${until}.`;
}

function fieldName(model, { device, uuid, engines }) {
  return device ? `${device} ${uuid}` : engines.map((engine) => model.engineNames[engine]).join(" ");
}

function isoTime(unixS) {
  return new Date(Math.round(unixS * 1000)).toISOString();
}

/** A field that a spreadsheet reads as text: quoted where it must be, never a formula. */
function quoted(field) {
  const text = /^[=+\-@\t\r]/.test(field) ? `'${field}` : field;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

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
    write(model.names[row], SIDE, y, "600 12px");
    write(ratio(model.value(row, model.newest)), HEAT.left + HEAT.width + 20, y, "600 13px");
    write(sizes.children[at].textContent, MEMORY.left + MEMORY.width + 14, y, "12px", look.quiet);
  });
}
