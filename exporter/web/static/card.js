// The card beside the cursor: one sample's value, time, signs and owners; and the same as a sentence.

import { clock, duration, gigabytes, plural, ratio } from "./format.js";
import { METRICS } from "./metrics.js";
import { OWNERS } from "./owners.js";
import { conflictsOf, conflictText } from "./signs.js";

const MARGIN = 16;

/** Fill the card for a cursor {row, column} and put it near a place {x, y}. */
export function showCard(card, model, cursor, place) {
  const { label } = METRICS[model.metric];
  const { row, column } = cursor;
  const value = model.value(row, column);
  const title = node("h3", "", model.nameOf(row));
  title.append(node("span", "quiet", timeText(model, column)));
  const parts = [title];
  parts.push(node("p", "value", Number.isNaN(value) ? "no sample" : ratio(value, 4)));
  parts.push(node("p", "quiet", label));
  for (const text of signTexts(model, cursor)) parts.push(node("p", "sign", text));
  parts.push(...ownersThen(model, cursor));
  card.replaceChildren(...parts);
  card.hidden = false;
  if (place) put(card, place);
}

/** The same for a screen reader. */
export function sentence(model, { row, column }) {
  const value = model.value(row, column);
  const owners = model.owners(row, column);
  const parts = [
    `${model.nameOf(row)} at ${clock(model.unixSOf(column), true)}`,
    Number.isNaN(value) ? "no sample" : `${METRICS[model.metric].label.toLowerCase()} ${ratio(value, 4)}`,
    ...signTexts(model, { row, column }),
    ...largest(owners).map(({ key, label }) => `${label} ${gigabytes(owners[key])} GB`),
  ];
  return parts.join(", ");
}

function largest(owners) {
  if (!owners) return [];
  return OWNERS.filter(({ key }) => owners[key] > 0).sort((one, other) => owners[other.key] - owners[one.key]);
}

function timeText(model, column) {
  const ago = (model.newest - column) * model.columnS;
  return `${clock(model.unixSOf(column), model.columnS < 1)}${ago ? `, ${duration(ago)} ago` : ""}`;
}

function signTexts(model, { row, column }) {
  const texts = [];
  const preempted = model.preemptions(row, column);
  if (preempted) texts.push(plural(preempted, "preemption"));
  for (const conflict of conflictsOf(model, { rows: [row] })) {
    if (conflict.column <= column && column <= conflict.endColumn) {
      texts.push(`${conflictText(model, conflict)}, since ${clock(conflict.mark.unix_ms / 1000)}`);
    }
  }
  return texts;
}

/** Owners as they were then, or as they are now where this page was not open then. */
function ownersThen(model, { row, column }) {
  const then = model.owners(row, column);
  const now = then ?? model.owners(row, model.newest);
  const list = document.createElement("ul");
  for (const { key, label, colour, striped } of largest(now)) {
    const item = document.createElement("li");
    const name = node("span", "", label);
    name.prepend(swatch(colour, striped));
    item.append(name, node("span", "", `${gigabytes(now[key])} GB`));
    list.append(item);
  }
  if (now === null) return [node("p", "quiet", "Owners of its memory are not known.")];
  return then ? [list] : [node("p", "then", "Owners now; those of then were not sent here."), list];
}

/** A small square in an owner's colour. */
export function swatch(colour, striped) {
  const square = node("i", "swatch", "");
  if (striped) square.style.background = `repeating-linear-gradient(135deg, ${colour} 0 2px, transparent 2px 4px)`;
  else if (colour) square.style.background = colour;
  else square.classList.add("free");
  return square;
}

function node(name, className, text) {
  const element = document.createElement(name);
  element.className = className;
  element.textContent = text;
  return element;
}

function put(card, { x, y }) {
  const { offsetWidth: wide, offsetHeight: tall } = card;
  const isRight = x + MARGIN + wide < innerWidth;
  const top = Math.min(y + MARGIN, innerHeight - tall - MARGIN);
  card.style.left = `${Math.max(MARGIN, isRight ? x + MARGIN : x - MARGIN - wide)}px`;
  card.style.top = `${Math.max(MARGIN, top)}px`;
}
