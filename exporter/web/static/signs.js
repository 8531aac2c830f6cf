// What happened in the window, as signs over samples and as sentences: preemptions and conflicts.

import { gigabytes, plural } from "./format.js";

const PAUSE_COLUMNS = 4; // preemptions this far apart are told as one run

/** Preemptions of a group's engines by column: [{kind, column, count}], oldest first. */
export function preemptionsOf(model, { rows }) {
  const found = [];
  for (let column = model.oldest; column <= model.newest; column += 1) {
    const count = Math.max(...rows.map((row) => model.preemptions(row, column)));
    if (count > 0) found.push({ kind: "preemption", column, count });
  }
  return found;
}

/** Conflicts on a group's GPUs that lie in the window: [{kind, mark, row, column, endColumn}]. */
export function conflictsOf(model, { rows }) {
  const found = [];
  for (const mark of model.marks.values()) {
    const row = rows.find((one) => model.rows[one].uuid === mark.uuid);
    const column = model.columnOf(mark.unix_ms / 1000);
    const endColumn = model.columnOf((mark.ended_unix_ms ?? Infinity) / 1000);
    if (row === undefined || endColumn < model.oldest) continue;
    found.push({ kind: "conflict", mark, row, column, endColumn });
  }
  return found;
}

/** A conflict in words, without its time. */
export function conflictText(model, { mark, row }) {
  const { kind, pid, process, used_mib: mib } = mark;
  const who = pid === null ? "a process" : `pid ${pid}${process ? ` (${process})` : ""}`;
  const holds = mib === null ? "" : `, holds ${gigabytes(mib * 2 ** 20)} GB`;
  const where = model.nameOf(row);
  if (kind === "co_tenant") return `co-tenant on ${where}: ${who}${holds}`;
  if (kind === "pressure") return `${where} is full while others grew: ${who}${holds}`;
  return `the next peak of ${who} would run out of memory on ${where}`;
}

/** All of it, newest first: [{kind, from, to, count, text}], times in seconds since 1970. */
export function happenings(model) {
  const all = model.groups.flatMap((group) => [
    ...runs(preemptionsOf(model, group)).map(({ kind, count, column, endColumn }) => ({
      ...{ kind, count, from: model.unixSOf(column), to: model.unixSOf(endColumn) },
      text: `${plural(count, "preemption")} in ${engineNames(model, group)}`,
    })),
    ...conflictsOf(model, group).map((conflict) => ({
      ...{ kind: "conflict", count: 1, from: conflict.mark.unix_ms / 1000 },
      to: (conflict.mark.ended_unix_ms ?? Infinity) / 1000,
      text: conflictText(model, conflict),
    })),
  ]);
  return all.sort((one, other) => other.from - one.from);
}

function runs(preemptions) {
  const found = [];
  for (const sign of preemptions) {
    const last = found.at(-1);
    if (sign.column - last?.endColumn <= PAUSE_COLUMNS) {
      last.endColumn = sign.column;
      last.count += sign.count;
    } else {
      found.push({ ...sign, endColumn: sign.column });
    }
  }
  return found;
}

/** Names of a group's engines: "vllm-0/0, vllm-1/0". */
export function engineNames(model, { engines }) {
  return engines.map((engine) => model.engineName(engine)).join(", ");
}
