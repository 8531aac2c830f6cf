// The answer in words: which GPU is full and since when, what holds its memory, what happened.

import { METRICS, phrase, WINDOWS } from "./controls.js";
import { heldText, largest } from "./owners.js";
import { happenings } from "./signs.js";
import { clock, duration, plural, ratio } from "./text.js";

/** About the newest column: {headline, subline, row}; `row` only when one is full. */
export function summary(model) {
  const { label, high, source } = METRICS[model.metric];
  const known = model.rows
    .map((_, row) => ({ row, now: model.value(row, model.newest), held: heldColumns(model, row, high) }))
    .filter(({ now }) => now >= 0)
    .sort((one, other) => other.held - one.held || other.now - one.now);
  if (known.length === 0) return { headline: `${label}: no sample now`, subline: source };
  const [{ row, now, held }] = known;
  const what = phrase(model.metric);
  const name = model.names[row];
  const subline = memoryText(model, row, name) + happened(model) + leftOutText(model);
  if (!held) return { headline: `Highest ${what}: ${ratio(now)} on ${name}`, subline };
  const full = known.filter((one) => one.held).length;
  const subject = full > 1 ? `${full} of ${model.rows.length} GPUs are full, ${name}` : `${name} has been full`;
  return { headline: `${subject} ${sinceText(model, held)}: ${what} ${ratio(now)}`, subline, row };
}

function heldColumns(model, row, high) {
  let column = model.newest;
  while (model.value(row, column) >= high) column -= 1;
  return model.newest - column;
}

function sinceText(model, held) {
  const lasted = duration(held * model.columnS);
  if (held === model.columns) return `for ${lasted} or more`;
  return `since ${clock(model.unixSOf(model.newest - held))} (${lasted})`;
}

function memoryText(model, row, name) {
  const told = largest(model.owners(row, model.newest))
    .filter(({ key }) => key !== "free")
    .slice(0, 3)
    .map(heldText);
  return told.length ? `${name} holds ${told.join(", ")}. ` : "";
}

function happened(model) {
  const counts = { preemption: 0, conflict: 0 };
  for (const { kind, count } of happenings(model)) counts[kind] += count;
  const told = Object.entries(counts).filter(([, count]) => count > 0);
  const texts = told.map(([kind, count]) => plural(count, kind));
  return told.length ? `${texts.join(" and ")} in the last ${WINDOWS[model.window].label}. ` : "";
}

function leftOutText({ rowsLeftOut }) {
  return rowsLeftOut ? `${plural(rowsLeftOut, "row")} more than this page shows.` : "";
}
