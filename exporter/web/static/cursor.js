// The cursor over the samples: follows the pointer and the arrow keys.

const STEPS = {
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  Home: [0, -Infinity],
  End: [0, Infinity],
}; // rows and columns to go

export class Cursor {
  /** `onMove(cursor, place, isByKey)`: {row, column} of the model and {x, y}; null when it is gone. */
  constructor(board, onMove) {
    Object.assign(this, { board, onMove });
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
