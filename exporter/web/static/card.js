// The card beside the cursor: one sample's value, time, signs and owners; and the same as a sentence.

import { node } from "./dom.js";
import { clock, duration, gigabytes, plural, ratio } from "./format.js";
import { METRICS, phrase } from "./metrics.js";
import { largest, named } from "./owners.js";
import { conflictsOf, conflictText } from "./signs.js";

const MARGIN = 16;

/** Fill the card for a cursor {row, column} and put it near a place {x, y}. */
export function showCard(card, model, cursor, place) {
  const { row, column } = cursor;
  const ago = (model.newest - column) * model.columnS;
  const title = node("h3", model.nameOf(row));
  title.append(node("span", `${timeText(model, column)}${ago ? `, ${duration(ago)} ago` : ""}`, "quiet"));
  card.replaceChildren(
    title,
    node("p", valueText(model, cursor), "value"),
    node("p", METRICS[model.metric].label, "quiet"),
    ...signTexts(model, cursor).map((text) => node("p", text, "sign")),
    ...ownersThen(model, cursor),
  );
  card.hidden = false;
  if (place) put(card, place);
}

/** The same for a screen reader. */
export function sentence(model, cursor) {
  const owners = model.owners(cursor.row, cursor.column);
  return [
    `${model.nameOf(cursor.row)} at ${timeText(model, cursor.column)}`,
    `${phrase(model.metric)} ${valueText(model, cursor)}`,
    ...signTexts(model, cursor),
    ...largest(owners).map(({ key, label }) => `${label} ${gigabytes(owners[key])} GB`),
  ].join(", ");
}

function valueText(model, { row, column }) {
  const value = model.value(row, column);
  return Number.isNaN(value) ? "no sample" : ratio(value, 4);
}

function timeText(model, column) {
  return clock(model.unixSOf(column), model.columnS < 1);
}

function signTexts(model, { row, column }) {
  const preempted = model.preemptions(row, column);
  const conflicts = conflictsOf(model, { rows: [row] })
    .filter((conflict) => conflict.column <= column && column <= conflict.endColumn)
    .map((one) => `${conflictText(model, one)}, since ${clock(one.mark.unix_ms / 1000)}`);
  return preempted ? [plural(preempted, "preemption"), ...conflicts] : conflicts;
}

/** Owners as they were then, or as they are now where this page was not open then. */
function ownersThen(model, { row, column }) {
  const then = model.owners(row, column);
  const owners = then ?? model.owners(row, model.newest);
  if (!owners) return [node("p", "Who owns its memory is not known.", "quiet")];
  const list = node("ul");
  for (const owner of largest(owners)) {
    const item = node("li");
    item.append(named("span", owner), node("span", `${gigabytes(owners[owner.key])} GB`));
    list.append(item);
  }
  return then ? [list] : [node("p", "Owners now; those of then were not sent here.", "then"), list];
}

function put(card, { x, y }) {
  const { offsetWidth: wide, offsetHeight: tall } = card;
  const left = x + MARGIN + wide < innerWidth ? x + MARGIN : x - MARGIN - wide;
  const top = Math.min(y + MARGIN, innerHeight - tall - MARGIN);
  card.style.left = `${Math.max(MARGIN, left)}px`;
  card.style.top = `${Math.max(MARGIN, top)}px`;
}
