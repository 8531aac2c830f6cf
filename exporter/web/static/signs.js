// What happened in the window, as signs over samples and as sentences: preemptions and conflicts.

import { gigabytes, plural } from "./format.js";

const PAUSE_COLUMNS = 4; // preemptions this far apart are told as one run

/** Preemptions of a group's engines by column: [{column, count}], oldest first. */
export function preemptionsOf(model, group) {
  const found = [];
  for (let column = model.oldest; column <= model.newest; column += 1) {
    const number = Math.max(0, ...group.rows.map((row) => model.preemptions(row, column)));
    if (number > 0) found.push({ column, count: number });
  }
  return found;
}

/** Conflicts on a group's GPUs that lie in the window: [{mark, row, column, endColumn}]. */
export function conflictsOf(model, group) {
  const found = [];
  for (const mark of model.marks.values()) {
    const row = group.rows.find((one) => model.rows[one].uuid === mark.uuid);
    const endColumn = model.columnOf((mark.ended_unix_ms ?? Infinity) / 1000);
    if (row === undefined || endColumn < model.oldest) continue;
    found.push({ mark, row, column: model.columnOf(mark.unix_ms / 1000), endColumn });
  }
  return found;
}

/** A conflict in words, without its time. */
export function conflictText(model, { mark, row }) {
  const who = mark.pid === null ? "a process" : `pid ${mark.pid}${mark.process ? ` (${mark.process})` : ""}`;
  const holds = mark.used_mib === null ? "" : `, holds ${gigabytes(mark.used_mib * 2 ** 20)} GB`;
  const where = model.nameOf(row);
  if (mark.kind === "co_tenant") return `co-tenant on ${where}: ${who}${holds}`;
  if (mark.kind === "pressure") return `${where} is full while others grew: ${who}${holds}`;
  return `the next peak of ${who} would run out of memory on ${where}`;
}

/** All that happened, newest first: [{kind, from, to, text, count?}], times in seconds since 1970. */
export function happenings(model) {
  const all = model.groups.flatMap((group) => [
    ...runs(preemptionsOf(model, group)).map((run) => ({
      kind: "preemption",
      from: model.unixSOf(run.column),
      to: model.unixSOf(run.endColumn),
      count: run.count,
      text: `${plural(run.count, "preemption")} in ${engineNames(model, group)}`,
    })),
    ...conflictsOf(model, group).map((conflict) => ({
      kind: "conflict",
      from: conflict.mark.unix_ms / 1000,
      to: conflict.mark.ended_unix_ms === null ? null : conflict.mark.ended_unix_ms / 1000,
      text: conflictText(model, conflict),
    })),
  ]);
  return all.sort((one, other) => other.from - one.from);
}

function runs(preemptions) {
  const found = [];
  for (const { column, count: number } of preemptions) {
    const last = found.at(-1);
    if (last && column - last.endColumn <= PAUSE_COLUMNS) {
      last.endColumn = column;
      last.count += number;
    } else {
      found.push({ column, endColumn: column, count: number });
    }
  }
  return found;
}

/** Names of a group's engines: "vllm-0/0, vllm-1/0". */
export function engineNames(model, group) {
  return group.engines.map((engine) => model.engineName(engine)).join(", ");
}
