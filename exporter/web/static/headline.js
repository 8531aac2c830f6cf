// The answer in words: which GPU is full and since when, what holds its memory, what happened.

import { clock, duration, gigabytes, plural, ratio } from "./format.js";
import { METRICS, WINDOWS } from "./metrics.js";
import { OWNERS } from "./owners.js";
import { happenings } from "./signs.js";

const OWNERS_TOLD = 3;

/** Two sentences about the newest column: {headline, subline, isFull}. */
export function summary(model) {
  const rows = model.rows.map((_, row) => ({ row, now: model.value(row, model.newest) }));
  const known = rows.filter(({ now }) => !Number.isNaN(now)).sort((one, other) => other.now - one.now);
  const { label, high } = METRICS[model.metric];
  if (known.length === 0) {
    return { headline: `${label}: no sample now`, subline: reasonFor(model) };
  }
  const [top] = known;
  const name = model.nameOf(top.row);
  const full = high ? known.filter(({ now }) => now >= high) : [];
  const events = happened(model);
  const subline = [memoryText(model, top.row, name), events].filter(Boolean).join(" ");
  if (full.length === 0) {
    const what = label.toLowerCase();
    const headline =
      known.length === 1 ? `${name}: ${what} ${ratio(top.now)}` : `Highest ${what}: ${ratio(top.now)} on ${name}`;
    return { headline, subline };
  }
  const others = full.length > 1 ? `${full.length} of ${rows.length} GPUs are full. ` : "";
  const held = sinceText(model, top.row, high);
  const headline = `${others}${name} is full ${held}: ${label.toLowerCase()} ${ratio(top.now)}`;
  return { headline, subline, isFull: true };
}

function sinceText(model, row, high) {
  let column = model.newest;
  while (model.value(row, column - 1) >= high) column -= 1;
  const lasted = duration((model.newest - column + 1) * model.columnS);
  if (column === model.oldest) return `for ${lasted} or more`;
  return `since ${clock(model.unixSOf(column - 1))} (${lasted})`;
}

function memoryText(model, row, name) {
  const owners = model.owners(row, model.newest);
  if (!owners) return "";
  const largest = OWNERS.filter(({ key }) => owners[key] > 0 && key !== "free")
    .sort((one, other) => owners[other.key] - owners[one.key])
    .slice(0, OWNERS_TOLD)
    .map(({ key, label }) => `${label} ${gigabytes(owners[key])} GB`);
  return `${name} holds ${largest.join(", ")}.`;
}

function happened(model) {
  const all = happenings(model);
  const preemptions = all.filter(({ kind }) => kind === "preemption").reduce((sum, { count }) => sum + count, 0);
  const conflicts = all.filter(({ kind }) => kind === "conflict").length;
  const parts = [];
  if (preemptions) parts.push(plural(preemptions, "preemption"));
  if (conflicts) parts.push(plural(conflicts, "conflict"));
  return parts.length ? `${parts.join(" and ")} in the last ${WINDOWS[model.window]}.` : "";
}

function reasonFor(model) {
  if (model.rows.length === 0) return "No GPU is seen. It appears here as soon as the driver answers.";
  if (model.metric === "device_pressure" || model.metric === "memory_controller") {
    return "No GPU answers.";
  }
  return "It comes from vLLM's trace (--trace.path). Device pressure needs none.";
}
