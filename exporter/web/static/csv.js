// The samples on the board as a table. Knows no page.

import { METRICS, WINDOWS } from "./metrics.js";

/** CSV: a line a column, a field a row of the board; an unknown value is an empty field. */
export function csvOf(model) {
  const lines = [["time", ...model.rows.map((row, index) => columnName(model, row, index))]];
  for (let column = model.oldest; column <= model.newest; column += 1) {
    const values = model.rows.map((_, row) => model.value(row, column));
    const fields = values.map((value) => (Number.isNaN(value) ? "" : value.toFixed(4)));
    lines.push([isoTime(model.unixSOf(column)), ...fields]);
  }
  return lines.map((line) => `${line.map(quoted).join(",")}\r\n`).join("");
}

/** live-effective_pressure-60s-20261129T161705Z.csv */
export function fileName(model, kind) {
  const time = isoTime(model.unixS).slice(0, 19).replace(/[-:]/g, "");
  return `live-${model.metric}-${model.window}-${time}Z.${kind}`;
}

/** What the samples are and when, in a sentence. */
export function caption(model) {
  const { label, meaning } = METRICS[model.metric];
  const until = `${WINDOWS[model.window]} until ${isoTime(model.unixS)}`;
  const origin = model.replay === null ? "" : `Replay of ${model.replay}. `;
  return `${origin}${label}: ${meaning}; viridis from 0 to 1. ${until}.`;
}

function columnName(model, { device, uuid, engines }, index) {
  return device ? `${device} ${uuid}` : engines.map((engine) => model.engineName(engine)).join(" ") || `${index}`;
}

function isoTime(unixS) {
  return new Date(Math.round(unixS * 1000)).toISOString();
}

/** A field that a spreadsheet reads as text: quoted where it must be, never a formula. */
function quoted(field) {
  const text = /^[=+\-@\t\r]/.test(field) ? `'${field}` : field;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
