// The cursor over the samples, by pointer and by arrow keys, and the card beside it: a sample's value,
// time, signs and owners; for a screen reader the same as a sentence.

import { METRICS } from "./controls.js";
import { conflictsOf } from "./events.js";
import { heldText, largest, named } from "./owners.js";
import { clock, duration, gigabytes, node, plural, ratio } from "./text.js";

const MARGIN = 16;
const STEPS = {
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  Home: [0, -Infinity],
  End: [0, Infinity],
}; // rows and columns to go

export class Cursor {
  constructor(board, card, spoken) {
    Object.assign(this, { board, card, spoken });
    const { root } = board;
    root.addEventListener("pointermove", (event) => this.#point(event));
    root.addEventListener("pointerdown", (event) => this.#point(event));
    root.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") this.#moveTo(null);
    });
    root.addEventListener("keydown", (event) => this.#press(event));
    root.addEventListener("blur", () => this.#moveTo(null));
  }

  /** The model moved on: by pointer it stays where it is on the screen, by key on its sample. */
  follow() {
    const { cursor, model } = this.board;
    if (!cursor) return;
    if (this.pointer?.target.isConnected) return this.#point(this.pointer);
    const isThere = cursor.row < model.rows.length && cursor.column >= model.oldest;
    this.#moveTo(isThere ? cursor : null);
  }

  #point(event) {
    const { groups, model } = this.board;
    const { target, clientX: x, clientY: y } = event;
    const group = groups.find((one) => [one.heatCanvas, one.memoryCanvas].includes(target));
    if (!group) return this.#moveTo(null);
    const box = target.getBoundingClientRect();
    const share = (x - box.left) / box.width;
    const isHeat = target === group.heatCanvas; // bars are those of the newest column
    const column = isHeat ? model.oldest + Math.floor(share * model.columns) : model.newest;
    const row = group.rowAt(model, target, y - box.top, column);
    if (row === null) return this.#moveTo(null);
    this.pointer = event;
    this.#moveTo(within(model, { row, column }), { x, y });
  }

  #press(event) {
    const { root, cursor, model } = this.board;
    if (event.target !== root || !model?.rows.length) return;
    if (event.key === "Escape") return this.#moveTo(null);
    if (!Object.hasOwn(STEPS, event.key)) return;
    event.preventDefault();
    if (!cursor) return this.goTo(0); // the first key only shows it
    const [rows, columns] = STEPS[event.key];
    this.#show({ row: cursor.row + rows, column: cursor.column + columns });
  }

  /** Put the cursor on the newest sample of a row, as if by key. */
  goTo(row) {
    this.board.root.focus({ preventScroll: true });
    this.#show({ row, column: this.board.model.newest });
  }

  #show(wanted) {
    const { groups, model } = this.board;
    const { row, column } = within(model, wanted);
    const { section, heatCanvas, rows, rowHeight } = groups.find((group) => group.rows.includes(row));
    section.scrollIntoView({ block: "nearest" });
    const { left, width, bottom } = heatCanvas.getBoundingClientRect();
    const x = left + ((column - model.oldest + 0.5) / model.columns) * width;
    const y = bottom - (rows.at(-1) - row) * rowHeight;
    this.pointer = null;
    this.#moveTo({ row, column }, { x, y }, true);
  }

  /** To {row, column}, the card near {x, y} or where it is; null: away with both. */
  #moveTo(cursor, place = null, isByKey = false) {
    if (!cursor && !this.board.cursor) return;
    this.board.cursor = cursor;
    this.board.paintSoon();
    this.card.hidden = !cursor;
    if (!cursor) this.pointer = null;
    else writeCard(this.card, this.board.model, cursor, place);
    if (isByKey) this.spoken.textContent = sentence(this.board.model, cursor);
  }
}

function within(model, { row, column }) {
  return {
    row: Math.min(model.rows.length - 1, Math.max(0, row)),
    column: Math.min(model.newest, Math.max(model.oldest, column)),
  };
}

function writeCard(card, model, cursor, place) {
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

function sentence(model, cursor) {
  const { row, column } = cursor;
  return [
    `${model.names[row]} at ${timeText(model, column)}`,
    `${METRICS[model.metric].label} ${valueText(model, cursor)}`,
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
  const items = largest(then ?? model.owners(row, model.newest)).map((owner) =>
    node("li", named("span", owner), node("span", `${gigabytes(owner.bytes)} GB`)),
  );
  if (!items.length) return [node("p.quiet", "Who owns its memory is not known.")];
  const remark = then ? "" : node("p.then", "Owners now; those of then were not sent here.");
  return [remark, node("ul", ...items)];
}
