// What happened in the window: preemptions and conflicts, as signs over samples and in words. The
// headline: which GPU is full and since when, and what holds its memory.

import { METRICS, WINDOWS } from "./controls.js";
import { heldText, largest } from "./owners.js";
import { clock, duration, gigabytes, node, plural, ratio, refill } from "./text.js";

const PAUSE_COLUMNS = 4; // preemptions this far apart are told as one run
const MOST_EVENTS = 8;

/** Preemptions of a group's engines by column: [{column, count}], oldest first. */
export function preemptionsOf(model, { rows }) {
  const found = [];
  for (let column = model.oldest; column <= model.newest; column += 1) {
    const count = Math.max(...rows.map((row) => model.preemptions(row, column)));
    if (count > 0) found.push({ column, count });
  }
  return found;
}

/** Conflicts on a group's GPUs that lie in the window; `from` and `to` in seconds since 1970. */
export function conflictsOf(model, { rows }) {
  return [...model.marks.values()].flatMap((mark) => {
    const row = rows.find((one) => model.rows[one].uuid === mark.uuid);
    const [from, to] = [mark.unix_ms / 1000, (mark.ended_unix_ms ?? Infinity) / 1000];
    const [column, endColumn] = [model.columnOf(from), model.columnOf(to)];
    if (row === undefined || endColumn < model.oldest) return [];
    const text = conflictText(mark, model.names[row]);
    return [{ kind: "conflict", row, column, endColumn, count: 1, from, to, text }];
  });
}

function conflictText({ kind, pid, process, used_mib: mib }, where) {
  const who = pid === null ? "a process" : `pid ${pid}${process ? ` (${process})` : ""}`;
  const holds = mib === null ? "" : `, holds ${gigabytes(mib * 2 ** 20)} GB`;
  if (kind === "co_tenant") return `co-tenant on ${where}: ${who}${holds}`;
  if (kind === "pressure") return `${where} is nearly full while others grew: ${who}${holds}`;
  return `the next peak of ${who} would run out of memory on ${where}`;
}

/** All that happened, newest first: conflicts, and runs of preemptions, told alike. */
function happenings(model) {
  const all = model.groups.flatMap((group) => [...runsOf(model, group), ...conflictsOf(model, group)]);
  return all.sort((one, other) => other.from - one.from);
}

function runsOf(model, group) {
  const found = [];
  for (const { column, count } of preemptionsOf(model, group)) {
    const isSameRun = column - found.at(-1)?.endColumn <= PAUSE_COLUMNS;
    if (!isSameRun) found.push({ kind: "preemption", from: model.unixSOf(column), count: 0 });
    const run = found.at(-1);
    run.count += count;
    Object.assign(run, { endColumn: column, to: model.unixSOf(column) });
    run.text = `${plural(run.count, "preemption")} in ${group.title}`;
  }
  return found;
}

export function writeEvents(list, model) {
  const all = happenings(model);
  const told = all.slice(0, MOST_EVENTS).map(({ kind, from, to, text }) => {
    const end = to === Infinity ? "now" : clock(to);
    return [kind, clock(from) === end ? end : `${clock(from)} – ${end}`, text];
  });
  if (all.length > MOST_EVENTS) told.push(["", "", `and ${all.length - MOST_EVENTS} more before`]);
  if (all.length === 0) told.push(["", "", "No preemption and no conflict in this time."]);
  refill(list, told, ([kind, time, text]) =>
    node("li", kind && node(`i.${kind}`), node("time", time), node("span", text)),
  );
}

/** About the newest column: {headline, subline, row}; `row` only when one is full. */
export function summary(model) {
  const { label, high, source } = METRICS[model.metric];
  const known = model.rows
    .map((_, row) => ({ row, now: model.value(row, model.newest), held: heldColumns(model, row, high) }))
    .filter(({ now }) => now >= 0)
    .sort((one, other) => other.held - one.held || other.now - one.now);
  if (known.length === 0) return { headline: `No sample of ${label} now`, subline: source };
  const [{ row, now, held }] = known;
  const name = model.names[row];
  const leftOut = model.rowsLeftOut ? `${plural(model.rowsLeftOut, "row")} more than this page shows.` : "";
  const subline = memoryText(model, row) + happened(model) + leftOut;
  if (!held) return { headline: `Highest ${label}: ${ratio(now)} on ${name}`, subline };
  const full = known.filter((one) => one.held).length;
  const subject = full > 1 ? `${full} of ${model.rows.length} GPUs are full, ${name}` : `${name} has been full`;
  return { headline: `${subject} ${sinceText(model, held)}: ${label} ${ratio(now)}`, subline, row };
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

function memoryText(model, row) {
  const told = largest(model.owners(row, model.newest))
    .filter(({ key }) => key !== "free")
    .slice(0, 3)
    .map(heldText);
  return told.length ? `${model.names[row]} holds ${told.join(", ")}. ` : "";
}

function happened(model) {
  const counts = { preemption: 0, conflict: 0 };
  for (const { kind, count } of happenings(model)) counts[kind] += count;
  const told = Object.entries(counts).filter(([, count]) => count > 0);
  const texts = told.map(([kind, count]) => plural(count, kind));
  return told.length ? `${texts.join(" and ")} in the last ${WINDOWS[model.window].label}. ` : "";
}
