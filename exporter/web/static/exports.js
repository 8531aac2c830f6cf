// What a person takes away: the samples as CSV, the board as a picture; to the clipboard where the
// browser lets a page write there, to a file always.

import { METRICS, WINDOWS } from "./controls.js";
import { sizeOf } from "./group.js";
import { LANE } from "./paint.js";
import { ratio } from "./text.js";

const TYPES = { csv: "text/plain", png: "image/png" };
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

// The picture has the same size on every screen.
const WIDTH = 1200;
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
  const [canvas, pen] = sheet(WIDTH, height);
  pen.scale(DETAIL, DETAIL);
  pen.fillStyle = look.surface;
  pen.fillRect(0, 0, WIDTH, height);
  const write = (text, x, y, font, colour = look.text) => {
    pen.font = `${font} Arial, sans-serif`;
    pen.fillStyle = colour;
    pen.fillText(text, x, y, WIDTH - 24 - x);
  };
  write(words.headline, 24, 34, "600 20px");
  write(words.subline, 24, 56, "13px", look.quiet);
  let top = HEAD;
  for (const group of groups) {
    write(group.title, 24, top + 16, "600 13px");
    top += TITLE;
    const tall = tallOf(group);
    const [heat] = sheet(HEAT.width, tall);
    const [memory] = sheet(MEMORY.width, tall - LANE);
    group.paint(model, null, { ...look, scale: DETAIL }, heat, memory);
    pen.drawImage(heat, HEAT.left, top, HEAT.width, tall);
    pen.drawImage(memory, MEMORY.left, top + LANE, MEMORY.width, tall - LANE);
    if (group.rowHeight >= 12) {
      group.rows.forEach((row, at) => {
        const y = top + LANE + 4 + (at + 0.5) * group.rowHeight;
        write(model.names[row], 24, y, "600 12px");
        write(ratio(model.value(row, model.newest)), 690, y, "600 13px");
        write(sizeOf(model, row).join(""), 1054, y, "12px", look.quiet);
      });
    }
    top += tall;
  }
  write(caption(model), 24, top + 24, "12px", look.quiet);
  return canvas.convertToBlob({ type: TYPES.png });
}

function sheet(width, height) {
  const canvas = new OffscreenCanvas(width * DETAIL, height * DETAIL);
  return [canvas, canvas.getContext("2d")];
}
