// The cursor over the samples: follows the pointer and the arrow keys.

export class Cursor {
  /** `onMove(cursor, place, isByKey)`: {row, column} of the model and {x, y}; null when it is gone. */
  constructor(board, onMove) {
    Object.assign(this, { board, onMove });
    const { root, holder } = board;
    for (const kind of ["pointermove", "pointerdown"]) {
      holder.addEventListener(kind, (event) => this.#point(event));
    }
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
    const isMemory = target === group.memoryCanvas; // its bars are those of the newest column
    const column = isMemory ? model.newest : model.oldest + Math.floor(share * model.columns);
    const row = group.rowAt(model, target, y - box.top, column);
    if (row === null) return this.#moveTo(null);
    this.pointer = event;
    this.#moveTo(within(model, { row, column }), { x, y });
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
    const box = group.heatCanvas.getBoundingClientRect();
    const place = {
      x: box.left + ((cursor.column - model.oldest + 0.5) / model.columns) * box.width,
      y: box.bottom - (group.rows.at(-1) - cursor.row) * group.rowHeight,
    };
    this.#moveTo(cursor, place, true);
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
