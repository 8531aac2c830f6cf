// What a person takes away: samples as CSV, the board as a picture; to the clipboard where the browser
// lets a page write there, to a file always.

import { METRICS, WINDOWS } from "./controls.js";
import { barsOf, sizeOf } from "./group.js";
import { LANE, paintHeat, paintMemory } from "./paint.js";
import { ratio } from "./text.js";

const TYPES = { csv: "text/plain", png: "image/png" };

/** `blobs`: {csv(), png()}, promises of what is shown; `name(kind)`: a file's name. */
export function exportMenu(menu, blobs, name, onDone) {
  for (const button of menu.querySelectorAll("button")) {
    const [way, kind] = button.id.split("-");
    button.disabled = way === "copy" && !navigator.clipboard;
    if (button.disabled) button.title = "Copying needs https, or this machine's own address; save works.";
    button.addEventListener("click", async () => {
      menu.open = false;
      try {
        // A copy must begin with the click (Safari), so the clipboard waits for the blob.
        if (way === "save") save(await blobs[kind](), name(kind));
        else await navigator.clipboard.write([new ClipboardItem({ [TYPES[kind]]: blobs[kind]() })]);
        onDone(`Done: ${button.textContent}`);
      } catch (error) {
        onDone(`Not done: ${error.message}`);
      }
    });
  }
}

function save(blob, download) {
  const link = document.createElement("a");
  Object.assign(link, { href: URL.createObjectURL(blob), download });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000); // the browser reads it after the click
}

/** CSV: a line a column, a field a row of the board; an unknown value is an empty field. */
export async function csvOf(model) {
  const names = model.rows.map(({ uuid }, row) => `${model.names[row]} ${uuid ?? ""}`.trim());
  const lines = [["time", ...names]];
  for (let column = model.oldest; column <= model.newest; column += 1) {
    const values = model.rows.map((_, row) => model.value(row, column));
    const fields = values.map((value) => (Number.isNaN(value) ? "" : value.toFixed(4)));
    lines.push([isoTime(model.unixSOf(column)), ...fields]);
  }
  const text = lines.map((line) => `${line.map(quoted).join(",")}\r\n`).join("");
  return new Blob([text], { type: TYPES.csv });
}

export function fileName(model, kind) {
  const time = isoTime(model.unixS).slice(0, 19).replace(/[-:]/g, "");
  return `live-${model.metric}-${model.window}-${time}Z.${kind}`;
}

function caption({ metric, window, replay, unixS }) {
  const { label, meaning } = METRICS[metric];
  const origin = replay === null ? "" : `Replay of ${replay}. `;
  const until = `${WINDOWS[window].label} until ${isoTime(unixS)}`;
  return `${origin}${label}: ${meaning}; viridis from 0 to 1. ${until}.`;
}

function isoTime(unixS) {
  return new Date(unixS * 1000).toISOString();
}

/** A field that a spreadsheet reads as text: quoted where it must be, never a formula. */
function quoted(field) {
  const text = /^[=+\-@\t\r]/.test(field) ? `'${field}` : field;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const WIDTH = 1200; // of the picture, on every screen
const DETAIL = 2; // pixels of the file for each of these units
const TITLE = 22;

/** A PNG of what the groups show; `words` {headline, subline}, `look` the page's colours. */
export function pictureOf(model, groups, words, look) {
  const tallOf = ({ rows, rowHeight }) => LANE + rowHeight * rows.length;
  const height = groups.reduce((sum, group) => sum + TITLE + tallOf(group), 114);
  const canvas = new OffscreenCanvas(WIDTH * DETAIL, height * DETAIL);
  const pen = canvas.getContext("2d");
  const write = (text, x, y, font, colour = look.text) => {
    pen.font = `${font} Arial, sans-serif`;
    pen.textBaseline = "alphabetic";
    pen.fillStyle = colour;
    pen.fillText(text, x, y, WIDTH - 24 - x);
  };
  pen.scale(DETAIL, DETAIL);
  pen.fillStyle = look.surface;
  pen.fillRect(0, 0, WIDTH, height);
  write(words.headline, 24, 34, "600 20px");
  write(words.subline, 24, 56, "13px", look.quiet);
  let top = 74;
  for (const group of groups) {
    write(group.title, 24, top + 16, "600 13px");
    top += TITLE;
    const tall = tallOf(group);
    pen.translate(110, top);
    paintHeat({ pen, width: 560, height: tall }, model, group, null, look);
    pen.translate(650, LANE);
    paintMemory({ pen, width: 280, height: tall - LANE }, barsOf(model, group), look);
    pen.translate(-760, -top - LANE);
    group.rows.forEach((row, at) => {
      if (group.rowHeight < 12) return;
      const y = top + LANE + 4 + (at + 0.5) * group.rowHeight;
      write(model.names[row], 24, y, "600 12px");
      write(ratio(model.value(row, model.newest)), 690, y, "600 13px");
      write(sizeOf(model, row).join(""), 1054, y, "12px", look.quiet);
    });
    top += tall;
  }
  write(caption(model), 24, top + 24, "12px", look.quiet);
  return canvas.convertToBlob({ type: TYPES.png });
}
