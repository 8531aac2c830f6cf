// The cursor over the samples: follows the pointer and the arrow keys.

export class Cursor {
  /** `onMove(cursor, place, isByKey)`: {row, column} of the model and {x, y}; null when it is gone. */
  constructor(board, onMove) {
    this.board = board;
    this.onMove = onMove;
    const { root, holder } = board;
    holder.addEventListener("pointermove", (event) => this.#point(event));
    holder.addEventListener("pointerdown", (event) => this.#point(event));
    holder.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") this.#moveTo(null);
    });
    root.addEventListener("keydown", (event) => this.#press(event));
    root.addEventListener("blur", () => this.#moveTo(null));
  }

  /** The model moved on: a cursor by pointer stays where it is on the screen, one by key on its sample. */
  follow() {
    const { cursor, model } = this.board;
    if (!cursor) return;
    if (this.pointer && document.contains(this.pointer.target)) return this.#point(this.pointer);
    const isThere = cursor.row < model.rows.length && cursor.column >= model.oldest;
    this.#moveTo(isThere ? cursor : null);
  }

  #point(event) {
    const { groups, model } = this.board;
    const group = groups.find((one) => one.section.contains(event.target));
    if (!group || !event.target.matches("canvas")) return this.#moveTo(null);
    const box = event.target.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    const isMemory = event.target === group.memoryCanvas; // its bars are those of the newest column
    const column = isMemory ? model.newest : model.oldest + Math.floor(share * model.columns);
    const row = group.rowAt(model, event.target, event.clientY - box.top, column);
    if (row === null) return this.#moveTo(null);
    this.pointer = event;
    this.#moveTo(within(model, { row, column }), { x: event.clientX, y: event.clientY });
  }

  #press(event) {
    const { root, cursor, model } = this.board;
    if (event.target !== root || !model?.rows.length) return;
    if (event.key === "Escape") return this.#moveTo(null);
    const { row, column } = cursor ?? { row: 0, column: model.newest };
    const step = cursor ? 1 : 0; // the first key only shows the cursor
    const to = {
      ArrowLeft: { row, column: column - step },
      ArrowRight: { row, column: column + step },
      ArrowUp: { row: row - step, column },
      ArrowDown: { row: row + step, column },
      Home: { row, column: model.oldest },
      End: { row, column: model.newest },
    }[event.key];
    if (!to) return;
    event.preventDefault();
    this.#show(within(model, to));
  }

  /** Put the cursor on the newest sample of a row, as if by key. */
  goTo(row) {
    this.board.root.focus({ preventScroll: true });
    this.#show({ row, column: this.board.model.newest });
  }

  #show(cursor) {
    const { groups, model } = this.board;
    const group = groups.find((one) => one.rows.includes(cursor.row));
    group.section.scrollIntoView({ block: "nearest" });
    this.pointer = null;
    this.#moveTo(cursor, placeOf(model, group, cursor), true);
  }

  #moveTo(cursor, place = null, isByKey = false) {
    if (cursor === null && this.board.cursor === null) return;
    if (cursor === null) this.pointer = null;
    this.board.cursor = cursor;
    this.onMove(cursor, place, isByKey);
    this.board.paintSoon();
  }
}

function within(model, { row, column }) {
  return {
    row: Math.min(model.rows.length - 1, Math.max(0, row)),
    column: Math.min(model.newest, Math.max(model.oldest, column)),
  };
}

function placeOf(model, group, { row, column }) {
  const box = group.heatCanvas.getBoundingClientRect();
  const below = group.rows.at(-1) - row;
  return {
    x: box.left + ((column - model.oldest + 0.5) / model.columns) * box.width,
    y: box.bottom - below * group.rowHeight,
  };
}
