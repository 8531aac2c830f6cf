// What happened in the window, as signs over samples and as sentences: preemptions and conflicts.

import { clock, gigabytes, node, plural, refill } from "./text.js";

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

/**
 * Conflicts on a group's GPUs that lie in the window: [{kind, row, column, endColumn, count, from, to,
 * text}], times in seconds since 1970.
 */
export function conflictsOf(model, { rows }) {
  return [...model.marks.values()]
    .map((mark) => ({ mark, row: rows.find((row) => model.rows[row].uuid === mark.uuid) }))
    .filter(({ row }) => row !== undefined)
    .map(({ mark, row }) => {
      const [from, to] = [mark.unix_ms / 1000, (mark.ended_unix_ms ?? Infinity) / 1000];
      const [column, endColumn] = [from, to].map((time) => model.columnOf(time));
      const text = conflictText(mark, model.names[row]);
      return { kind: "conflict", row, column, endColumn, count: 1, from, to, text };
    })
    .filter(({ endColumn }) => endColumn >= model.oldest);
}

function conflictText({ kind, pid, process, used_mib: mib }, where) {
  const who = pid === null ? "a process" : `pid ${pid}${process ? ` (${process})` : ""}`;
  const holds = mib === null ? "" : `, holds ${gigabytes(mib * 2 ** 20)} GB`;
  if (kind === "co_tenant") return `co-tenant on ${where}: ${who}${holds}`;
  if (kind === "pressure") return `${where} is nearly full while others grew: ${who}${holds}`;
  return `the next peak of ${who} would run out of memory on ${where}`;
}

/** All that happened, newest first: conflicts, and runs of preemptions, told alike. */
export function happenings(model) {
  const all = model.groups.flatMap((group) => [
    ...runs(preemptionsOf(model, group)).map(({ count, column, endColumn }) => ({
      kind: "preemption",
      count,
      from: model.unixSOf(column),
      to: model.unixSOf(endColumn),
      text: `${plural(count, "preemption")} in ${group.title}`,
    })),
    ...conflictsOf(model, group),
  ]);
  return all.sort((one, other) => other.from - one.from);
}

function runs(preemptions) {
  const found = [];
  for (const { column, count } of preemptions) {
    const last = found.at(-1);
    if (column - last?.endColumn <= PAUSE_COLUMNS) {
      last.endColumn = column;
      last.count += count;
    } else {
      found.push({ column, count, endColumn: column });
    }
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
