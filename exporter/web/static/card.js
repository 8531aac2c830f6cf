// The card beside the cursor: one sample's value, time, signs and owners; and the same as a sentence.

import { METRICS, phrase } from "./controls.js";
import { heldText, largest, named } from "./owners.js";
import { conflictsOf } from "./signs.js";
import { clock, duration, gigabytes, node, plural, ratio } from "./text.js";

const MARGIN = 16;

/** Fill the card for a cursor {row, column} and put it near a place {x, y}, or leave it where it is. */
export function writeCard(card, model, cursor, place) {
  const { row, column } = cursor;
  const ago = (model.newest - column) * model.columnS;
  const when = `${timeText(model, column)}${ago ? `, ${duration(ago)} ago` : ""}`;
  card.replaceChildren(
    node("h3", model.names[row], node("span.quiet", when)),
    node("p.value", valueText(model, cursor)),
    node("p.quiet", METRICS[model.metric].label),
    ...signTexts(model, cursor).map((text) => node("p.sign", text)),
    ...ownersThen(model, cursor),
  );
  if (!place) return;
  const { offsetWidth: wide, offsetHeight: tall } = card;
  const left = place.x + MARGIN + wide < innerWidth ? place.x + MARGIN : place.x - MARGIN - wide;
  const top = Math.min(place.y + MARGIN, innerHeight - tall - MARGIN);
  card.style.left = `${Math.max(MARGIN, left)}px`;
  card.style.top = `${Math.max(MARGIN, top)}px`;
}

/** The same for a screen reader. */
export function sentence(model, cursor) {
  const { row, column } = cursor;
  return [
    `${model.names[row]} at ${timeText(model, column)}`,
    `${phrase(model.metric)} ${valueText(model, cursor)}`,
    ...signTexts(model, cursor),
    ...largest(model.owners(row, column)).map(heldText),
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
    .map(({ text, from }) => `${text}, since ${clock(from)}`);
  return preempted ? [plural(preempted, "preemption"), ...conflicts] : conflicts;
}

/** Owners as they were then, or as they are now where this page was not open then. */
function ownersThen(model, { row, column }) {
  const then = model.owners(row, column);
  const owners = largest(then ?? model.owners(row, model.newest));
  if (!owners.length) return [node("p.quiet", "Who owns its memory is not known.")];
  const items = owners.map((owner) =>
    node("li", named("span", owner), node("span", `${gigabytes(owner.bytes)} GB`)),
  );
  const remark = then ? [] : [node("p.then", "Owners now; those of then were not sent here.")];
  return [...remark, node("ul", ...items)];
}
