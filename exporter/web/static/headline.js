// The answer in words: which GPU is full and since when, what holds its memory, what happened.

import { clock, duration, gigabytes, plural, ratio } from "./format.js";
import { METRICS, phrase, WINDOWS } from "./metrics.js";
import { largest } from "./owners.js";
import { happenings } from "./signs.js";

/** About the newest column: {headline, subline, row}; `row` only when one is full. */
export function summary(model) {
  const { label, high = Infinity, source } = METRICS[model.metric];
  const what = phrase(model.metric);
  const known = model.rows
    .map((_, row) => ({ row, now: model.value(row, model.newest) }))
    .filter(({ now }) => !Number.isNaN(now))
    .sort((one, other) => other.now - one.now);
  if (known.length === 0) return { headline: `${label}: no sample now`, subline: source };
  const full = known
    .filter(({ now }) => now >= high)
    .map(({ row, now }) => ({ row, now, held: heldColumns(model, row, high) }))
    .sort((one, other) => other.held - one.held);
  const { row, now, held } = full[0] ?? known[0];
  const name = model.nameOf(row);
  const subline = memoryText(model, row, name) + happened(model) + leftOutText(model);
  if (!full.length) return { headline: `Highest ${what}: ${ratio(now)} on ${name}`, subline };
  const others = `${full.length} of ${model.rows.length} GPUs are full, ${name}`;
  const subject = full.length > 1 ? others : `${name} has been full`;
  return { headline: `${subject} ${sinceText(model, held)}: ${what} ${ratio(now)}`, subline, row };
}

function heldColumns(model, row, high) {
  let column = model.newest;
  while (model.value(row, column - 1) >= high) column -= 1;
  return model.newest - column + 1;
}

function sinceText(model, held) {
  const lasted = duration(held * model.columnS);
  if (held === model.columns) return `for ${lasted} or more`;
  return `since ${clock(model.unixSOf(model.newest - held))} (${lasted})`;
}

function memoryText(model, row, name) {
  const owners = model.owners(row, model.newest);
  const told = largest(owners)
    .filter(({ key }) => key !== "free")
    .slice(0, 3)
    .map(({ key, label }) => `${label} ${gigabytes(owners[key])} GB`);
  return told.length ? `${name} holds ${told.join(", ")}. ` : "";
}

function happened(model) {
  const counts = { preemption: 0, conflict: 0 };
  for (const { kind, count } of happenings(model)) counts[kind] += count;
  const told = Object.entries(counts).filter(([, count]) => count > 0);
  if (told.length === 0) return "";
  const texts = told.map(([kind, count]) => plural(count, kind));
  return `${texts.join(" and ")} in the last ${WINDOWS[model.window]}. `;
}

function leftOutText({ rowsLeftOut }) {
  return rowsLeftOut ? `${plural(rowsLeftOut, "row")} more than this page shows.` : "";
}
